#include "log_file.h"

#include "bus_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DEFAULT_HALF_BYTES (256u << 10)
#define DEFAULT_HALF_COUNT 4u
#define MIN_HALF_BYTES     (32u << 10)
#define MAX_RAW_BYTES      (1u << 20) /* of DEFINITIONS blocks; halves may be larger */
#define TICK_NS            100000000u /* the thread looks around ten times a second; copied journals are saved then */
#define PROC_EVERY_NS      UINT64_C(1000000000)
#define PROC_QUIET_NS      UINT64_C(60000000000) /* a process that does nothing is sampled once a minute */

void mpp_warn(const char *format, ...)
{
    char text[PATH_MAX + 256];
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    int error = errno, length, tail;
    va_list arguments;

    length = snprintf(text, sizeof text, "mpp_recorder: ");
    va_start(arguments, format);
    tail = vsnprintf(text + length, sizeof text - (size_t)length - 32, format, arguments);
    va_end(arguments);
    if (tail < 0) tail = 0;
    length += tail < (int)sizeof text - length - 32 ? tail : (int)sizeof text - length - 33;
    length += snprintf(text + length, sizeof text - (size_t)length, "; the program goes on\n");
    /* A pipe that nobody reads must not stop the program. */
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) && write(STDERR_FILENO, text, (size_t)length) < 0) errno = 0;
    errno = error;
}

/* ---- the journal's memory ---- */

static void choose_size(struct mpp_journal_memory *m, const char *path, uint64_t journal_bytes)
{
    char directory[PATH_MAX];
    struct statvfs disk;
    char *slash;
    uint64_t free_bytes = UINT64_MAX;

    m->half_bytes = DEFAULT_HALF_BYTES;
    m->half_count = DEFAULT_HALF_COUNT;
    if (journal_bytes) {
        m->half_bytes = (size_t)(journal_bytes / m->half_count);
    } else {
        snprintf(directory, sizeof directory, "%s", path);
        slash = strrchr(directory, '/');
        if (slash) slash[slash == directory] = 0;
        if (statvfs(slash ? directory : ".", &disk) == 0) free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
        while (m->half_bytes > MIN_HALF_BYTES && (uint64_t)m->half_bytes * m->half_count > free_bytes / 8) m->half_bytes /= 2;
        if ((uint64_t)m->half_bytes * m->half_count > free_bytes / 8) m->half_count = 2;
    }
    m->half_bytes = (m->half_bytes + MPP_PAGE_BYTES - 1) / MPP_PAGE_BYTES * MPP_PAGE_BYTES;
    if (m->half_bytes < MIN_HALF_BYTES) m->half_bytes = MIN_HALF_BYTES;
    if (m->half_bytes > MPP_HALF_MAX_BYTES / 2) m->half_bytes = MPP_HALF_MAX_BYTES / 2;
}

int mpp_journal_memory_map(struct mpp_journal_memory *m, const char *path, size_t header_bytes, uint64_t journal_bytes)
{
    choose_size(m, path, journal_bytes);
    m->header_bytes = header_bytes;
    m->bytes = header_bytes + m->half_bytes * m->half_count;
    m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->base == MAP_FAILED) {
        m->base = NULL;
        return errno;
    }
    return 0;
}

void mpp_journal_memory_unmap(struct mpp_journal_memory *m)
{
    if (m->base) munmap(m->base, m->bytes);
    m->base = NULL;
}

int mpp_journal_memory_after_fork(struct mpp_journal_memory *m)
{
    void *again = mmap(m->base, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    return again == (void *)m->base ? 0 : -1;
}

/* ---- the file ---- */

static int write_at(void *context, const void *data, size_t bytes, uint64_t offset)
{
    struct mpp_log_file *lf = context;
    const char *from = data;

    while (bytes) {
        ssize_t n = pwrite(lf->fd, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            if (!n) errno = EIO;
            return MPP_ERR_IO;
        }
        from += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* app.mpp → app.PID.mpp, app.PID.2.mpp … */
static int nth_name(char *out, size_t size, const char *path, unsigned n)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem;
    int length;

    if (!dot || (slash && dot < slash) || dot == path) dot = path + strlen(path);
    stem = (size_t)(dot - path);
    if (n == 0)
        length = snprintf(out, size, "%s", path);
    else if (n == 1)
        length = snprintf(out, size, "%.*s.%ld%s", (int)stem, path, (long)getpid(), dot);
    else
        length = snprintf(out, size, "%.*s.%ld.%u%s", (int)stem, path, (long)getpid(), n, dot);
    return length > 0 && (size_t)length < size ? 0 : ENAMETOOLONG;
}

static int open_new(struct mpp_log_file *lf, const char *path, enum mpp_on_exists on_exists)
{
    struct stat st;

    if (on_exists == MPP_EXISTS_REPLACE && lstat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode)) return EEXIST;
        if (unlink(path)) return errno;
    }
    for (unsigned n = 0; n < 10000; n++) {
        int error = nth_name(lf->path, sizeof lf->path, path, n);
        if (error) return error;
        lf->fd = open(lf->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lf->fd >= 0) return 0;
        if (errno != EEXIST || on_exists != MPP_EXISTS_NEXT_FREE) return errno;
    }
    return EEXIST;
}

/* Reserves the disk space of the first `bytes` bytes: what is mapped must never lack its block (a store would be SIGBUS). */
static int reserve(struct mpp_log_file *lf, size_t bytes)
{
    static const char zeros[65536];

    if (fallocate(lf->fd, 0, 0, (off_t)bytes) == 0) return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) return errno;
    for (size_t at = 0; at < bytes; at += sizeof zeros) {
        size_t n = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
        if (write_at(lf, zeros, n, at)) return errno;
    }
    return 0;
}

/* Private memory again, with what of it has just been written into the file. 0 or errno. */
static int read_back(struct mpp_log_file *lf, const struct mpp_journal_memory *m)
{
    struct mpp_journal_memory memory = *m;

    if (mpp_journal_memory_after_fork(&memory)) return errno;
    for (size_t at = m->header_bytes; at < m->bytes;) {
        ssize_t n = pread(lf->fd, m->base + at, m->bytes - at, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n ? errno : EIO;
        at += (size_t)n;
    }
    return 0;
}

static int into_file(struct mpp_log_file *lf, const struct mpp_journal_memory *m)
{
    int error = reserve(lf, m->bytes);

    if (error) return error;
    if (write_at(lf, m->base + m->header_bytes, m->bytes - m->header_bytes, m->header_bytes)) return errno;
    lf->mapped = mmap(m->base, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, lf->fd, 0) != MAP_FAILED;
    /* Where the file system itself refuses (FUSE, 9p), Linux before 6.12 has taken away by then what was mapped there. */
    if (!lf->mapped) return read_back(lf, m);
    /* A child must not write into this process's log; it gets memory of its own (mpp_journal_memory_after_fork). */
    madvise(m->base, m->bytes, MADV_DONTFORK);
    mpp_bus_guard_set(m->base, m->bytes);
    return 0;
}

static int errno_of(int error)
{
    return error == MPP_ERR_IO ? (errno ? errno : EIO) : error == MPP_ERR_NO_MEMORY ? ENOMEM : error ? EIO : 0;
}

int mpp_log_file_create(struct mpp_log_file *lf, const char *path, enum mpp_on_exists on_exists, struct mpp_log_info *info,
                        struct mpp_journal *journal, const struct mpp_journal_memory *memory)
{
    const struct mpp_sink sink = {write_at, lf};
    size_t max_raw_bytes = memory->half_bytes > MAX_RAW_BYTES ? memory->half_bytes : MAX_RAW_BYTES;
    int error;

    memset(lf, 0, sizeof *lf);
    lf->journal = journal;
    lf->next_to_seal = 1;
    error = open_new(lf, path, on_exists);
    if (error) return error;
    error = into_file(lf, memory);
    if (!error) {
        info->journal_half_bytes = (uint32_t)memory->half_bytes;
        info->journal_half_count = memory->half_count;
        info->journal_mode = lf->mapped ? MPP_JOURNAL_MAPPED : MPP_JOURNAL_COPIED;
        error = errno_of(mpp_writer_new(&lf->writer, &sink, info, max_raw_bytes));
    }
    if (!error) {
        lf->journal_offset = info->journal_offset;
        atomic_store(&lf->written_bytes, mpp_writer_bytes(lf->writer));
        if (sem_init(&lf->wake, 0, 0)) error = errno;
    }
    if (error) {
        /* The mapping must not outlive its blocks: give the memory back to itself first. */
        struct mpp_journal_memory m = *memory;
        (void)mpp_journal_memory_after_fork(&m);
        mpp_writer_free(lf->writer);
        lf->writer = NULL;
        unlink(lf->path);
        close(lf->fd);
        lf->fd = -1;
    }
    return error;
}

/* ---- the writer thread ---- */

/* Somebody has cut off what we wrote. */
static int is_cut(const struct mpp_log_file *lf)
{
    struct stat st;

    return mpp_bus_guard_tripped() || (fstat(lf->fd, &st) == 0 && (uint64_t)st.st_size < mpp_writer_bytes(lf->writer));
}

static void fail(struct mpp_log_file *lf, int error)
{
    int expected = 0, cut = is_cut(lf);

    if (!atomic_compare_exchange_strong(&lf->failure, &expected, error ? error : EIO)) return;
    atomic_store(&lf->journal->dead, 1);
    /* What was written of the block that failed is no block: take it off, so that the log ends with a sound one. */
    if (!cut && ftruncate(lf->fd, (off_t)mpp_writer_bytes(lf->writer))) errno = 0;
    mpp_warn("recording to '%s' stopped: %s", lf->path, cut ? "somebody has truncated the file" : strerror(error));
}

static void append(struct mpp_log_file *lf, struct mpp_block_header *header, const void *payload, size_t bytes)
{
    int error;

    if (atomic_load(&lf->failure)) return;
    error = mpp_writer_append(lf->writer, header, payload, bytes);
    if (error) {
        fail(lf, errno_of(error));
        return;
    }
    atomic_store_explicit(&lf->written_bytes, mpp_writer_bytes(lf->writer), memory_order_relaxed);
    atomic_fetch_add_explicit(&lf->sealed_blocks, 1, memory_order_relaxed);
    if (lf->max_bytes && mpp_writer_bytes(lf->writer) >= lf->max_bytes) atomic_fetch_or(&lf->asks_for, MPP_WISH_STOP);
}

/* Where the journal could not be mapped: bring the file's copy of a half up to date. A half only grows, so the new bytes go first and the commit
 * word, which makes them count, last: whenever the process dies, what counted before still does. Only a half that has become another block's stops
 * counting first (its old block is in the file by then). 0 or -1. */
static int copy_half(struct mpp_log_file *lf, uint32_t index)
{
    const struct mpp_half *half = &lf->journal->halves[index];
    struct mpp_copied_half *copied = &lf->copied[index];
    uint64_t commit, offset = lf->journal_offset + index * lf->journal->half_bytes;
    unsigned char word[8] = {0};

    if (atomic_load_explicit(&half->state, memory_order_acquire) == MPP_HALF_EMPTY) return 0;
    if (copied->sequence != half->header.sequence) {
        if (write_at(lf, word, sizeof word, offset + MPP_HALF_COMMIT_OFFSET) || write_at(lf, half->memory, MPP_HALF_COMMIT_OFFSET, offset)) return -1;
        *copied = (struct mpp_copied_half){.sequence = half->header.sequence};
    }
    commit = atomic_load_explicit((_Atomic uint64_t *)(void *)(half->memory + MPP_HALF_COMMIT_OFFSET), memory_order_acquire);
    if ((uint32_t)commit == copied->bytes) return 0;
    mpp_put_u64(word, commit);
    if (write_at(lf, half->memory + MPP_HALF_HEADER_BYTES + copied->bytes, (uint32_t)commit - copied->bytes,
                 offset + MPP_HALF_HEADER_BYTES + copied->bytes) ||
        write_at(lf, word, sizeof word, offset + MPP_HALF_COMMIT_OFFSET))
        return -1;
    copied->bytes = (uint32_t)commit;
    return 0;
}

static void seal_full_halves(struct mpp_log_file *lf)
{
    struct mpp_journal *j = lf->journal;

    for (;;) {
        struct mpp_half *half = &j->halves[(lf->next_to_seal - 1) % j->half_count];
        if (atomic_load(&lf->failure) || atomic_load_explicit(&half->state, memory_order_acquire) != MPP_HALF_FULL) return;
        /* A process may be killed in the midst of writing a block: its records are in the journal until it stands. */
        if (!lf->mapped && copy_half(lf, (uint32_t)(half - j->halves))) {
            fail(lf, errno);
            return;
        }
        append(lf, &half->header, half->memory + MPP_HALF_HEADER_BYTES, half->payload_bytes);
        if (atomic_load(&lf->failure)) return;
        lf->next_to_seal++;
        atomic_store_explicit(&half->state, MPP_HALF_EMPTY, memory_order_release);
    }
}

static void copy_journal(struct mpp_log_file *lf)
{
    for (uint32_t i = 0; i < lf->journal->half_count && !atomic_load(&lf->failure); i++) {
        if (copy_half(lf, i)) fail(lf, errno);
    }
}

static uint64_t rss_bytes(void)
{
    char text[128];
    unsigned long total, resident;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) return 0;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    if (sscanf(text, "%lu %lu", &total, &resident) != 2) return 0;
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A log that was deleted would go on filling the disk unseen; one that was truncated is none any more. */
static void check_still_there(struct mpp_log_file *lf)
{
    struct stat st;

    if (fstat(lf->fd, &st) == 0 && st.st_nlink == 0) fail(lf, ENOENT);
    if (is_cut(lf)) fail(lf, EIO);
}

static unsigned char *put_pair(unsigned char *p, uint64_t key, uint64_t value)
{
    return mpp_put_varint(mpp_put_varint(p, key), value);
}

static void sample_process(struct mpp_log_file *lf, uint64_t *last_ns, uint64_t *last_cpu_ns)
{
    const struct mpp_shared_figures *f = &lf->figures;
    unsigned char payload[512], *p = payload;
    uint64_t now_ns = mpp_clock_ns(CLOCK_MONOTONIC) - lf->journal->clock.start_ns, cpu_ns, writer_ns, rss;
    struct mpp_block_header header;

    if (*last_ns && now_ns - *last_ns < PROC_EVERY_NS) return;
    cpu_ns = mpp_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (*last_ns && now_ns - *last_ns < PROC_QUIET_NS && cpu_ns - *last_cpu_ns < 2000000) return;
    *last_ns = now_ns;
    *last_cpu_ns = cpu_ns;
    check_still_there(lf);
    rss = rss_bytes();
    if (lf->mark_at_rss_bytes && rss >= lf->mark_at_rss_bytes) {
        lf->mark_at_rss_bytes = 0;
        atomic_fetch_or(&lf->asks_for, MPP_WISH_RSS_MARK);
    }
    writer_ns = mpp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_store_explicit(&lf->writer_cpu_ns, writer_ns, memory_order_relaxed);
    *p++ = MPP_PROC;
    p = mpp_put_varint(p, rss ? 11 : 10);
    if (rss) p = put_pair(p, MPP_PROC_RSS_BYTES, rss); /* without a free descriptor it cannot be asked */
    p = put_pair(p, MPP_PROC_CPU_NS, cpu_ns);
    p = put_pair(p, MPP_PROC_WRITER_CPU_NS, writer_ns);
    p = put_pair(p, MPP_PROC_RECORDER_MEMORY_BYTES, atomic_load_explicit(&f->memory_bytes, memory_order_relaxed));
    p = put_pair(p, MPP_PROC_TRACKED_OBJECTS, atomic_load_explicit(&f->tracked_objects, memory_order_relaxed));
    p = put_pair(p, MPP_PROC_RECORDED_ALLOCS, atomic_load_explicit(&f->recorded_allocs, memory_order_relaxed));
    p = put_pair(p, MPP_PROC_DROPPED_ALLOCS, atomic_load_explicit(&f->dropped_allocs, memory_order_relaxed));
    p = put_pair(p, MPP_PROC_WRITTEN_BYTES, mpp_writer_bytes(lf->writer));
    p = put_pair(p, MPP_PROC_SEALED_BLOCKS, atomic_load_explicit(&lf->sealed_blocks, memory_order_relaxed));
    p = put_pair(p, MPP_PROC_STALLS, atomic_load_explicit(&f->stalls, memory_order_relaxed));
    p = put_pair(p, MPP_PROC_STALL_NS, atomic_load_explicit(&f->stall_ns, memory_order_relaxed));
    header = (struct mpp_block_header){
        .kind = MPP_BLOCK_PROC, .sequence = ++lf->proc_sequence, .first_time_ns = now_ns, .last_time_ns = now_ns, .record_count = 1};
    append(lf, &header, payload, (size_t)(p - payload));
}

static void *write_log(void *argument)
{
    struct mpp_log_file *lf = argument;
    uint64_t last_proc_ns = 0, last_cpu_ns = 0;

    pthread_setname_np(pthread_self(), "mpp_writer");
    for (;;) {
        struct timespec until;
        int stopping = atomic_load(&lf->stopping);
        if (mpp_bus_guard_tripped()) fail(lf, EIO);
        seal_full_halves(lf);
        if (!atomic_load(&lf->failure)) sample_process(lf, &last_proc_ns, &last_cpu_ns);
        if (!lf->mapped && !atomic_load(&lf->failure)) copy_journal(lf);
        if (stopping) break;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        while (sem_timedwait(&lf->wake, &until) && errno == EINTR) {
        }
    }
    return NULL;
}

int mpp_log_file_start(struct mpp_log_file *lf)
{
    sigset_t all, old;
    int error;

    /* Signals belong to the program's threads; but what a store of this thread raises is this thread's. */
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&lf->thread, NULL, write_log, lf);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    lf->thread_runs = !error;
    return error;
}

void mpp_log_file_wake(struct mpp_log_file *lf)
{
    sem_post(&lf->wake);
}

int mpp_log_file_drain(struct mpp_log_file *lf, uint64_t limit_ns)
{
    const struct timespec step = {0, 100000};
    uint64_t began_ns = mpp_clock_ns(CLOCK_MONOTONIC);

    for (;;) {
        int busy = 0;
        if (atomic_load(&lf->failure)) return atomic_load(&lf->failure);
        for (uint32_t i = 0; i < lf->journal->half_count; i++) busy |= atomic_load(&lf->journal->halves[i].state) == MPP_HALF_FULL;
        if (!busy) return 0;
        if (mpp_clock_ns(CLOCK_MONOTONIC) - began_ns > limit_ns) return ETIMEDOUT;
        sem_post(&lf->wake);
        nanosleep(&step, NULL);
    }
}

void mpp_log_file_join(struct mpp_log_file *lf)
{
    if (!lf->thread_runs) return;
    atomic_store(&lf->stopping, 1);
    sem_post(&lf->wake);
    pthread_join(lf->thread, NULL);
    lf->thread_runs = 0;
}

int mpp_log_file_definitions(struct mpp_log_file *lf, const void *payload, size_t bytes)
{
    struct mpp_block_header header = {.kind = MPP_BLOCK_DEFINITIONS, .sequence = ++lf->definitions_sequence, .first_serial = 1};

    if (atomic_load(&lf->failure)) return atomic_load(&lf->failure);
    if (mpp_block_count(&header, payload, bytes)) return EIO;
    header.first_serial = 0;
    append(lf, &header, payload, bytes);
    return atomic_load(&lf->failure);
}

int mpp_log_file_finish(struct mpp_log_file *lf, uint64_t end_time_ns, const struct mpp_journal_memory *memory)
{
    int error = atomic_load(&lf->failure);
    size_t journal_bytes = memory->bytes - memory->header_bytes;

    if (error) return error;
    error = errno_of(mpp_writer_finish(lf->writer, end_time_ns));
    if (error) {
        fail(lf, error);
        return error;
    }
    atomic_store(&lf->written_bytes, mpp_writer_bytes(lf->writer));
    /* The journal is history now, all of it in blocks: zero it, and give its room back where the file system can. */
    if (fallocate(lf->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)memory->header_bytes, (off_t)journal_bytes)) {
        struct mpp_journal_memory m = *memory;
        (void)mpp_journal_memory_after_fork(&m); /* private again, and zero */
        if (write_at(lf, m.base + m.header_bytes, journal_bytes, m.header_bytes)) return errno;
    }
    return 0;
}

void mpp_log_file_close(struct mpp_log_file *lf)
{
    mpp_bus_guard_clear();
    mpp_writer_free(lf->writer);
    lf->writer = NULL;
    if (lf->fd >= 0) close(lf->fd);
    lf->fd = -1;
    sem_destroy(&lf->wake);
}
