/* LD_PRELOAD: a forked child gets no memory at a place of its choice. Built by recorder_runs.rb. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

typedef void *mmap_function(void *, size_t, int, int, int, off_t);

static pid_t first;

__attribute__((constructor)) static void remember(void)
{
    first = getpid();
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    static mmap_function *next;

    if (first && getpid() != first && flags & MAP_FIXED && flags & MAP_ANONYMOUS) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (!next) next = (mmap_function *)dlsym(RTLD_NEXT, "mmap");
    return next(address, bytes, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return mmap(address, bytes, protection, flags, fd, offset);
}
