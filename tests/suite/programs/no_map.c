/* LD_PRELOAD: a file system that cannot map files shared (as some network file systems). Built by recorder_runs.rb. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

typedef void *mmap_function(void *, size_t, int, int, int, off_t);

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    static mmap_function *next;

    if (fd >= 0 && flags & MAP_SHARED && protection & PROT_WRITE) {
        /* What was mapped there is gone, as with Linux before 6.12 when the file system's own mmap refuses. */
        if (flags & MAP_FIXED) mprotect(address, bytes, PROT_NONE);
        errno = ENODEV;
        return MAP_FAILED;
    }
    if (!next) next = (mmap_function *)dlsym(RTLD_NEXT, "mmap");
    return next(address, bytes, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return mmap(address, bytes, protection, flags, fd, offset);
}
