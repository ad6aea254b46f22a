/* LD_PRELOAD: a slow disk. Each pwrite takes SLOW_WRITE_MS longer while the file SLOW_WRITE_WHILE exists. Built by recorder_runs.rb. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef ssize_t pwrite_function(int, const void *, size_t, off_t);

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    static pwrite_function *next;
    const char *file = getenv("SLOW_WRITE_WHILE"), *ms = getenv("SLOW_WRITE_MS");

    if (!next) next = (pwrite_function *)dlsym(RTLD_NEXT, "pwrite");
    if (file && ms && access(file, F_OK) == 0) {
        long wanted = atol(ms);
        struct timespec pause = {wanted / 1000, wanted % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    return next(fd, data, bytes, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset)
{
    return pwrite(fd, data, bytes, offset);
}
