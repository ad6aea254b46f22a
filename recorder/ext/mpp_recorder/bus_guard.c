#include "bus_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

static _Atomic uintptr_t guarded;
static _Atomic size_t guarded_bytes;
static _Atomic int tripped;
static int installed;
static struct sigaction before;

static void on_bus(int number, siginfo_t *info, void *context)
{
    uintptr_t base = atomic_load(&guarded), at = (uintptr_t)info->si_addr;
    size_t bytes = atomic_load(&guarded_bytes);
    int error = errno;

    if (info->si_code > 0 && base && at >= base && at - base < bytes &&
        mmap((void *)base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
        atomic_store(&tripped, 1);
        errno = error;
        return; /* the store is tried again, and succeeds */
    }
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else
        sigaction(SIGBUS, &before, NULL); /* the access is tried again, and ends as it would have without us */
}

void mpp_bus_guard_set(void *base, size_t bytes)
{
    struct sigaction action = {.sa_sigaction = on_bus};

    atomic_store(&tripped, 0);
    atomic_store(&guarded, (uintptr_t)base);
    atomic_store(&guarded_bytes, bytes);
    if (installed) return;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, NULL, &before)) return;
    action.sa_flags = SA_SIGINFO | (before.sa_flags & SA_ONSTACK); /* Ruby's handler has a stack of its own */
    installed = !sigaction(SIGBUS, &action, NULL);
}

void mpp_bus_guard_clear(void)
{
    struct sigaction now;

    atomic_store(&guarded, 0);
    if (!installed || sigaction(SIGBUS, NULL, &now)) return;
    /* Somebody who came after us keeps our handler in his chain: then it stays, and passes everything on. */
    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_bus) return;
    if (!sigaction(SIGBUS, &before, NULL)) installed = 0;
}

int mpp_bus_guard_tripped(void)
{
    return atomic_load(&tripped);
}
