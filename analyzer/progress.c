#include "analyzer/progress.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FIRST_AFTER_NS ((int64_t)700000000)
#define EVERY_NS       ((int64_t)150000000)

static int enabled, shown;
static int64_t started_ns, last_ns;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void progress_enable(int on)
{
    enabled = on && isatty(STDERR_FILENO);
    started_ns = last_ns = now_ns();
}

void progress_step(const char *name, uint64_t done, uint64_t all)
{
    if (!enabled || all == 0) return;
    int64_t now = now_ns();
    if (now - started_ns < FIRST_AFTER_NS || now - last_ns < EVERY_NS) return;
    last_ns = now;
    shown = 1;
    fprintf(stderr, "\r\033[K%s %3.0f%%", name, 100.0 * (double)done / (double)all);
    fflush(stderr);
}

void progress_clear(void)
{
    if (!shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    shown = 0;
}
