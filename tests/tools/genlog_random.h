/* Random events of every kind. Part of genlog.c. */
#ifndef GENLOG_RANDOM_H
#define GENLOG_RANDOM_H

#include "genlog_definitions.h"

static void add_live(struct gen *g, uint64_t serial)
{
    if (g->live_count == g->live_capacity) {
        g->live_capacity = g->live_capacity ? g->live_capacity * 2 : 1024;
        g->live = realloc(g->live, g->live_capacity * sizeof(*g->live));
        if (!g->live) die("memory");
    }
    g->live[g->live_count++] = (struct object){serial, 40};
}

static void put_alloc(struct gen *g)
{
    uint32_t site = some_site(g);
    unsigned char *p = begin(g, 0);

    if (g->is_sampled ? !one_in(g, 8) : one_in(g, 50))
        end(g, mpp_encode_alloc_weighted(p, site, 1 + id_below(g, one_in(g, 20) ? 1u << 16 : 200)));
    else
        end(g, mpp_encode_alloc(p, site));
    add_live(g, g->next_serial++);
}

static int64_t move_base(uint64_t *base, uint64_t serial)
{
    int64_t delta = (int64_t)(serial - *base);

    *base = serial;
    return delta;
}

static void put_free_of(struct gen *g, uint64_t serial)
{
    unsigned char *p = begin(g, 0);

    if (one_in(g, 6))
        end(g, mpp_encode_free_sized(p, move_base(&g->free_base, serial), below(g, 1u << below(g, 24))));
    else
        end(g, mpp_encode_free(p, move_base(&g->free_base, serial)));
    g->gone[g->gone_count++ % 256] = serial;
}

/* A serial that is not live: freed before, inherited, or from the future. */
static uint64_t dead_serial(struct gen *g)
{
    if (g->is_hostile && one_in(g, 2)) return g->next_serial + below(g, 100);
    if (g->is_child && one_in(g, 2)) return 1 + below(g, g->info.fork_serial - 1);
    if (g->gone_count) return g->gone[below(g, g->gone_count < 256 ? g->gone_count : 256)];
    return g->next_serial > 1 ? 1 : 0;
}

static void put_free(struct gen *g)
{
    if (!g->live_count) return;
    size_t i = below(g, g->live_count);
    uint64_t serial = g->live[i].serial;
    g->live[i] = g->live[--g->live_count];
    put_free_of(g, serial);
}

/* A sweep frees many, in rising order and close together. */
static void put_sweep(struct gen *g)
{
    size_t count = below(g, 60), i = below(g, g->live_count + 1);

    for (; count && i < g->live_count; count--) {
        uint64_t serial = g->live[i].serial;
        size_t step = 1 + below(g, 3);
        memmove(&g->live[i], &g->live[i + 1], (--g->live_count - i) * sizeof(*g->live));
        i += step;
        put_free_of(g, serial);
    }
}

static void put_size_of(struct gen *g, uint64_t serial, uint64_t size_bytes)
{
    unsigned char *p = begin(g, 0);

    end(g, mpp_encode_size(p, move_base(&g->size_base, serial), size_bytes));
}

static void put_size(struct gen *g)
{
    if (!g->live_count) return;
    struct object *o = &g->live[below(g, g->live_count)];
    o->size_bytes = one_in(g, 3) ? o->size_bytes / 2 : below(g, o->size_bytes * 3 + 40) % (1u << 30);
    put_size_of(g, o->serial, o->size_bytes);
}

static void put_dead(struct gen *g)
{
    uint64_t serial = dead_serial(g);

    if (!serial) return;
    if (one_in(g, 2))
        put_size_of(g, serial, below(g, 1000));
    else
        put_free_of(g, serial);
}

static void put_reclass(struct gen *g)
{
    if (!g->live_count) return;
    uint64_t serial = g->live[below(g, g->live_count)].serial;
    uint32_t class_id = some_class(g);
    unsigned char *p = begin(g, 0);
    end(g, mpp_encode_reclass(p, move_base(&g->size_base, serial), class_id));
}

static void put_live_of(struct gen *g, uint64_t serial)
{
    uint32_t site = some_site(g);
    unsigned char *p = begin(g, 0);
    int64_t birth = one_in(g, 2) ? -(int64_t)below(g, UINT64_C(1) << 40) : (int64_t)below(g, g->time_ns + 1);

    end(g, mpp_encode_live(p, serial, site, below(g, 5000), 1 + id_below(g, g->is_sampled ? 100 : 2), birth, below(g, 50)));
}

static void put_live(struct gen *g)
{
    if (g->is_hostile && one_in(g, 2)) {
        put_live_of(g, g->live_count && one_in(g, 2) ? g->live[below(g, g->live_count)].serial : g->next_serial + below(g, 5));
        return;
    }
    if (!g->gone_count) return;
    /* A serial that has been freed may be live again: the format allows it. */
    uint64_t serial = g->gone[below(g, g->gone_count < 256 ? g->gone_count : 256)];
    for (size_t i = 0; i < g->live_count; i++)
        if (g->live[i].serial == serial) return;
    if (serial >= g->next_serial) return;
    put_live_of(g, serial);
    add_live(g, serial);
}

static void put_time(struct gen *g)
{
    uint64_t delta;

    switch (below(g, 20)) {
    case 0:
        delta = 0;
        break;
    case 1:
        delta = below(g, UINT64_C(5000000000));
        break;
    case 2:
        delta = one_in(g, 50) ? below(g, UINT64_C(5) * 86400 * 1000000000) : 1;
        break;
    default:
        delta = below(g, 2000000);
        break;
    }
    /* The room first: a block that opens here starts at the time before. */
    unsigned char *p = begin(g, 0);
    g->time_ns += delta;
    end(g, mpp_encode_time(p, delta));
}

static void put_gc(struct gen *g)
{
    unsigned char *p = begin(g, 32 * 20);

    if (!g->gc_open && !(g->is_hostile && one_in(g, 10))) {
        end(g, mpp_encode_2(p, MPP_GC_START, ++g->gc_count, one_in(g, 5) ? MPP_GC_MAJOR : 0));
        g->gc_open = 1;
        return;
    }
    uint32_t pairs = id_below(g, 14);
    p = mpp_encode_gc_end(p, g->gc_count, pairs);
    for (uint32_t i = 0; i < pairs; i++) p = mpp_put_varint(mpp_put_varint(p, i + 1), below(g, 1u << 30));
    end(g, p);
    g->gc_open = one_in(g, 30); /* a start that follows is then missing */
}

static void put_mark(struct gen *g)
{
    static const char *const names[] = {"boot", "warm", "warm", "deploy-1", "na\xc3\xafve", "bad\xff", "", "a b;c\"d\n", "\xf0\x9f\x9a\x80"};
    const char *name = names[below(g, sizeof(names) / sizeof(names[0]))];
    size_t bytes = strlen(name);

    end(g, mpp_encode_mark(begin(g, bytes), name, bytes));
}

static void put_extension(struct gen *g)
{
    size_t bytes = below(g, 200);
    unsigned char *p = begin(g, bytes);

    *p++ = (unsigned char)(MPP_EXTENSION + below(g, 0x20));
    p = mpp_put_varint(p, bytes);
    for (size_t i = 0; i < bytes; i++) *p++ = (unsigned char)next_random(g);
    end(g, p);
}

static void put_folded(struct gen *g)
{
    uint32_t site = some_site(g);
    unsigned char *p = begin(g, 0);

    end(g, mpp_encode_3(p, MPP_FOLDED, site, below(g, 10000), below(g, 1000000)));
}

static void put_label(struct gen *g)
{
    uint32_t thread = some_thread(g), key = define_text(g, "controller"), value = one_in(g, 3) ? 0 : define_text(g, "users#index");
    unsigned char *p = begin(g, 0);

    end(g, mpp_encode_3(p, MPP_LABEL, thread, key, value));
}

static void put_rare(struct gen *g)
{
    switch (below(g, 16)) {
    case 0:
        put_live(g);
        break;
    case 1:
        put_folded(g);
        break;
    case 2:
        if (one_in(g, 20)) end(g, mpp_encode_1(begin(g, 0), MPP_GAP, 1 + below(g, 3)));
        break;
    case 3:
        end(g, mpp_encode_2(begin(g, 0), MPP_DROP, 1 + below(g, 1000), 1 + below(g, 3)));
        break;
    case 4:
        put_label(g);
        break;
    case 5:
        end(g, mpp_encode_1(begin(g, 0), MPP_CLOCK, g->info.start_unix_ns + g->time_ns + below(g, 1000000000)));
        break;
    case 6:
        end(g, mpp_encode_1(begin(g, 0), MPP_SAMPLE_PERIOD, 1 + below(g, 100)));
        break;
    case 7:
        end(g, mpp_encode_1(begin(g, 0), MPP_FORK, below(g, 30000)));
        break;
    case 8:
        put_extension(g);
        break;
    case 9:
        put_mark(g);
        break;
    case 10:
        define_again(g);
        break;
    case 11:
        put_reclass(g);
        break;
    case 12:
        put_dead(g);
        break;
    default:
        put_gc(g);
        break;
    }
}

static void run_random(struct gen *g)
{
    uint64_t first_serial = g->next_serial; /* where blocks are small, a hostile log's next serial runs away from us */

    if (!g->is_child)
        for (uint64_t serial = 1; serial < first_serial; serial++) {
            if (one_in(g, 2)) continue;
            put_live_of(g, serial);
            add_live(g, serial);
        }
    for (; g->events < g->wanted_events; g->events++) {
        uint64_t dice = below(g, 100);
        if (dice < 38)
            put_alloc(g);
        else if (dice < 60)
            put_free(g);
        else if (dice < 62)
            put_sweep(g);
        else if (dice < 74)
            put_size(g);
        else if (dice < 88)
            put_time(g);
        else if (dice < 90)
            put_gc(g);
        else
            put_rare(g);
    }
}

#endif
