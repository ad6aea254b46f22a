/* malloc_load EVENTS SLOTS: what heaptrack records for the replay benchmark: as many calls of malloc and free, from several thousand backtraces, with
 * SLOTS blocks live. Like the bench log of genlog, with malloc's blocks for objects. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SITES 5000u

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Eight functions that call each other by the digits of `path`: so many backtraces has the program. */
typedef void *step(uint64_t path, unsigned depth, size_t bytes);
static step f0, f1, f2, f3, f4, f5, f6, f7;
static step *const steps[8] = {f0, f1, f2, f3, f4, f5, f6, f7};

#define STEP(name)                                                                                                                                   \
    __attribute__((noinline)) static void *name(uint64_t path, unsigned depth, size_t bytes)                                                         \
    {                                                                                                                                                \
        void *p = depth ? steps[path & 7](path >> 3, depth - 1, bytes) : malloc(bytes);                                                              \
        __asm__ volatile("" : "+r"(p)); /* no tail call */                                                                                           \
        return p;                                                                                                                                    \
    }
STEP(f0)
STEP(f1)
STEP(f2)
STEP(f3)
STEP(f4)
STEP(f5)
STEP(f6)
STEP(f7)

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    uint64_t events = strtoull(argv[1], NULL, 10), slots = strtoull(argv[2], NULL, 10);
    void **live = slots ? calloc(slots, sizeof(*live)) : NULL;

    if (!live) return 1;
    for (uint64_t n = 0; n < events; n++) {
        uint64_t slot = next() % slots, site = next() % SITES;
        if (live[slot]) {
            free(live[slot]);
            live[slot] = NULL;
            if (++n >= events) break;
        }
        /* a site has one path, one depth and few sizes */
        live[slot] = steps[site & 7](site * UINT64_C(0x9E3779B97F4A7C15) >> 8, 4 + site % 16, 16 + site % 13 * 8);
    }
    free(live);
    return 0;
}
