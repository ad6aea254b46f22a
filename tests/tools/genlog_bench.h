/* The steady mix of a service, for benchmarks: 45 % ALLOC, 45 % FREE, 10 % SIZE, 5,000 sites, a million objects live. Part of genlog.c.
 *
 * The heap is a row of slots. A lazy sweep goes over it page by page, round after round: it frees the dead of a page, measures some of those that
 * survived their first sweep, and then objects are born into the free slots. So frees come in bursts whose serials lie close together. */
#ifndef GENLOG_BENCH_H
#define GENLOG_BENCH_H

#include "genlog_random.h"

#define BENCH_SLOTS      (UINT64_C(1) << 20)
#define BENCH_PAGE_SLOTS 512u
#define BENCH_SITES      5000u
#define BENCH_FUNCTIONS  2000u
#define BENCH_CLASSES    300u

static void define_bench(struct gen *g)
{
    char text[96];

    for (uint32_t i = 1; i <= BENCH_FUNCTIONS; i++) {
        int n = snprintf(text, sizeof(text), "Service%u::Worker#step_%u", i % 97, i);
        uint32_t label = define_string(g, text, (size_t)n);
        n = snprintf(text, sizeof(text), "/app/gems/part-%u/lib/part/file_%u.rb", i % 40, i % 400);
        uint32_t path = define_string(g, text, (size_t)n);
        unsigned char *p = begin(g, 0);
        end_definition(g, p, mpp_encode_function_name(p, ++g->functions, label, path, i % 900, i % 9 == 0 ? MPP_FUNCTION_NATIVE : 0));
    }
    for (uint32_t i = 1; i <= BENCH_CLASSES; i++) {
        int n = snprintf(text, sizeof(text), "Service%u::Record", i);
        uint32_t string = define_string(g, text, (size_t)n);
        unsigned char *p = begin(g, 0);
        end_definition(g, p, mpp_encode_class_name(p, ++g->classes, string, 0));
    }
    for (uint32_t i = 1; i <= 8; i++) name_thread(g, i);
    g->threads = 8;
    for (uint32_t i = 1; i <= BENCH_SITES; i++) {
        /* A backtrace shares its root with others: hang 8 new frames onto some old stack. */
        uint32_t at = g->stacks > 100 ? id_below(g, g->stacks) : 0;
        for (int frame = 0; frame < 8; frame++) {
            unsigned char *p = begin(g, 0);
            end_definition(g, p, mpp_encode_stack(p, ++g->stacks, at, 1 + id_below(g, BENCH_FUNCTIONS), 1 + id_below(g, 900)));
            at = g->stacks;
        }
        unsigned char *p = begin(g, 0);
        end_definition(g, p, mpp_encode_site(p, ++g->sites, at, 1 + i % BENCH_CLASSES, 1 + i % 15, 1 + i % 8, 40u << (i % 5)));
    }
}

/* Few sites make most objects, and the same one often several in a row. */
static uint32_t bench_site(struct gen *g, uint32_t before)
{
    uint64_t random = next_random(g);

    if (random & 1) return before;
    uint64_t a = (random >> 1) & 0xffff, b = (random >> 17) & 0xffff, c = (random >> 33) & 0xffff;
    uint64_t least = a < b ? a : b;
    if (c < least) least = c;
    return 1 + (uint32_t)(least * BENCH_SITES >> 16);
}

static void bench_free(struct gen *g, uint64_t serial, uint64_t dice)
{
    unsigned char *p = begin(g, 0);

    if (dice % 16 == 0)
        end(g, mpp_encode_free_sized(p, move_base(&g->free_base, serial), 40 + dice % 3000));
    else
        end(g, mpp_encode_free(p, move_base(&g->free_base, serial)));
    g->events++;
}

/* Sweeps one page and fills it again. */
static void bench_page(struct gen *g, uint64_t *slots, unsigned char *is_young, uint32_t *site)
{
    for (unsigned i = 0; i < BENCH_PAGE_SLOTS && g->events < g->wanted_events; i++) {
        if (!slots[i]) continue;
        uint64_t dice = next_random(g);
        if (is_young[i] ? dice % 100 < 85 : dice % 100 < 2) {
            bench_free(g, slots[i], dice >> 8);
            slots[i] = 0;
        } else if (is_young[i]) {
            is_young[i] = 0;
            put_size_of(g, slots[i], 40 + (dice >> 32) % 4000);
            g->events++;
        } else if (dice % 97 == 3) {
            put_size_of(g, slots[i], 40 + (dice >> 32) % 40000);
            g->events++;
        }
    }
    for (unsigned i = 0; i < BENCH_PAGE_SLOTS && g->events < g->wanted_events; i++) {
        if (slots[i]) continue;
        *site = bench_site(g, *site);
        end(g, mpp_encode_alloc(begin(g, 0), *site));
        slots[i] = g->next_serial++;
        is_young[i] = 1;
        if (++g->events % 32 == 0) {
            uint64_t delta = 2000 + below(g, 20000);
            unsigned char *p = begin(g, 0);
            g->time_ns += delta;
            end(g, mpp_encode_time(p, delta));
        }
    }
}

static void run_bench(struct gen *g)
{
    uint64_t *slots = calloc(BENCH_SLOTS, sizeof(*slots));
    unsigned char *is_young = calloc(BENCH_SLOTS, 1);
    uint32_t site = 1;

    if (!slots || !is_young) die("memory");
    define_bench(g);
    for (uint64_t round = 0; g->events < g->wanted_events; round++) {
        if (round) put_gc(g);
        for (uint64_t at = 0; at < BENCH_SLOTS && g->events < g->wanted_events; at += BENCH_PAGE_SLOTS)
            bench_page(g, slots + at, is_young + at, &site);
        if (round) put_gc(g);
    }
    free(slots);
    free(is_young);
}

#endif
