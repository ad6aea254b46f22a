/* Where a reader's bytes come from. pread, not mmap: a log that shrinks under us gives a short read, never a signal. */
#include "mpp_reader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    int fd;
};

static int64_t file_read_at(void *context, void *data, size_t bytes, uint64_t offset)
{
    const struct file *f = context;
    size_t done = 0;

    if (offset > INT64_MAX || bytes > INT64_MAX - offset) return 0;
    while (done < bytes) {
        ssize_t n = pread(f->fd, (char *)data + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return MPP_ERR_IO;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

static int64_t file_size(void *context)
{
    const struct file *f = context;
    struct stat st;

    if (fstat(f->fd, &st) != 0) return MPP_ERR_IO;
    return (int64_t)st.st_size;
}

static void file_close(void *context)
{
    struct file *f = context;

    close(f->fd);
    free(f);
}

int mpp_source_file(struct mpp_source *out, const char *path)
{
    struct stat st;
    struct file *f = malloc(sizeof(*f));

    if (!f) return MPP_ERR_NO_MEMORY;
    /* O_NONBLOCK: opening a FIFO must not hang; it means nothing for files. */
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        int saved = errno;
        free(f);
        errno = saved;
        return MPP_ERR_IO;
    }
    int failure = 0;
    if (fstat(f->fd, &st) != 0)
        failure = errno;
    else if (!S_ISREG(st.st_mode))
        failure = S_ISDIR(st.st_mode) ? EISDIR : ESPIPE;
    if (failure) {
        file_close(f);
        errno = failure;
        return MPP_ERR_IO;
    }
    *out = (struct mpp_source){.read_at = file_read_at, .size = file_size, .close = file_close, .context = f};
    return MPP_OK;
}

struct memory {
    const unsigned char *data;
    size_t bytes;
};

static int64_t memory_read_at(void *context, void *data, size_t bytes, uint64_t offset)
{
    const struct memory *m = context;

    if (offset >= m->bytes) return 0;
    if (bytes > m->bytes - offset) bytes = m->bytes - (size_t)offset;
    memcpy(data, m->data + offset, bytes);
    return (int64_t)bytes;
}

static int64_t memory_size(void *context)
{
    const struct memory *m = context;

    return (int64_t)m->bytes;
}

static int64_t failed_read_at(void *context, void *data, size_t bytes, uint64_t offset)
{
    (void)context, (void)data, (void)bytes, (void)offset;
    return MPP_ERR_NO_MEMORY;
}

static int64_t failed_size(void *context)
{
    (void)context;
    return MPP_ERR_NO_MEMORY;
}

void mpp_source_memory(struct mpp_source *out, const void *data, size_t bytes)
{
    struct memory *m = malloc(sizeof(*m));

    /* The contract has no way to tell; the first read does. */
    if (!m) {
        *out = (struct mpp_source){.read_at = failed_read_at, .size = failed_size};
        return;
    }
    m->data = data;
    m->bytes = bytes;
    *out = (struct mpp_source){.read_at = memory_read_at, .size = memory_size, .close = free, .context = m};
}
