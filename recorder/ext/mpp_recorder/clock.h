/* Time as cheap as it can be had: the processor's counter tells whether a quantum may have passed; only then is the clock asked.
 * A clock that runs backward, or a counter that differs between cores, costs nothing but an early look at the clock. */
#ifndef MPP_RECORDER_CLOCK_H
#define MPP_RECORDER_CLOCK_H

#include <stdint.h>
#include <time.h>

#define MPP_CLOCK_QUANTUM_NS 250000u /* the greatest error of a record's time is about this */

static inline uint64_t mpp_clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ticks of the processor's counter, of unknown rate. Where there is none, nanoseconds. */
static inline uint64_t mpp_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return mpp_clock_ns(CLOCK_MONOTONIC);
#endif
}

struct mpp_clock {
    uint64_t start_ns;      /* CLOCK_MONOTONIC at the log's time 0 */
    uint64_t now_ns;        /* since start_ns; never falls */
    uint64_t looked_ticks;  /* when the clock was asked last */
    uint64_t quantum_ticks; /* ticks of a quantum, measured as we go */
};

/* Asks the clock; returns how much now_ns grew. Keeps quantum_ticks in step with the counter's rate. */
static inline uint64_t mpp_clock_look(struct mpp_clock *c)
{
    uint64_t ticks = mpp_clock_ticks(), now = mpp_clock_ns(CLOCK_MONOTONIC) - c->start_ns;
    uint64_t grown = now > c->now_ns && now < (UINT64_C(1) << 62) ? now - c->now_ns : 0;
    uint64_t passed = ticks - c->looked_ticks;

    /* A rate measured over a fair span, from 1 tick in 100 ns to 10 a ns; else keep the old one. */
    if (grown > 100000 && grown < 1000000000 && passed > grown / 100 && passed < grown * 10)
        c->quantum_ticks = (uint64_t)((double)passed / (double)grown * MPP_CLOCK_QUANTUM_NS);
    c->looked_ticks = ticks;
    c->now_ns += grown;
    return grown;
}

static inline void mpp_clock_start(struct mpp_clock *c)
{
    c->start_ns = mpp_clock_ns(CLOCK_MONOTONIC);
    c->now_ns = 0;
    c->looked_ticks = mpp_clock_ticks();
    c->quantum_ticks = MPP_CLOCK_QUANTUM_NS / 10; /* of the slowest counter in use; too early a look is harmless */
}

static inline int mpp_clock_due(const struct mpp_clock *c)
{
    return mpp_clock_ticks() - c->looked_ticks >= c->quantum_ticks;
}

#endif
