/* State, random numbers and blocks of genlog. Part of genlog.c. */
#ifndef GENLOG_CORE_H
#define GENLOG_CORE_H

#include "formats/crc32c.h"
#include "formats/mpp_record_decode.h"
#include "formats/mpp_record_encode.h"
#include "formats/mpp_writer.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT_BYTES 4096
#define HALVES         3
#define UNDEFINED_ID   0x200000u /* ids from here on are never defined */

struct object {
    uint64_t serial, size_bytes;
};

/* A payload that grows. */
struct payload {
    unsigned char *data;
    size_t bytes, capacity;
    struct mpp_block_header header;
};

struct gen {
    uint64_t random;
    int is_killed, is_hostile, is_sampled, is_child;
    uint64_t wanted_events, events;
    size_t block_bytes;
    int fd;
    struct mpp_writer *writer;
    struct mpp_log_info info;
    uint64_t time_ns, next_serial, free_base, size_base;
    uint64_t proc_sequence, definitions_sequence;
    struct payload now, full, sealed; /* being filled; full and not sealed (killed only); sealed last */
    struct payload definitions;       /* all that were made */
    struct object *live;
    size_t live_count, live_capacity;
    uint64_t gone[256]; /* some serials that were freed */
    unsigned gone_count;
    uint64_t gc_count;
    int gc_open;
    uint32_t strings, functions, stacks, sites, classes, threads;
};

static void die(const char *what)
{
    fprintf(stderr, "genlog: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void check(int error, const char *what)
{
    if (error == 0) return;
    fprintf(stderr, "genlog: %s: %s\n", what, mpp_error_string(error));
    exit(1);
}

/* splitmix64 */
static uint64_t next_random(struct gen *g)
{
    uint64_t z = (g->random += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t below(struct gen *g, uint64_t limit)
{
    return limit ? next_random(g) % limit : 0;
}

static uint32_t id_below(struct gen *g, uint32_t limit)
{
    return (uint32_t)below(g, limit);
}

static int one_in(struct gen *g, uint64_t n)
{
    return below(g, n) == 0;
}

static void make_room(struct payload *p, size_t bytes)
{
    if (p->capacity - p->bytes >= bytes) return;
    p->capacity = (p->bytes + bytes) * 2;
    p->data = realloc(p->data, p->capacity);
    if (!p->data) die("memory");
}

static void open_block(struct gen *g)
{
    uint64_t sequence = g->now.header.sequence + 1;

    if (g->is_hostile && sequence > 1) {
        if (one_in(g, 3)) g->next_serial += below(g, 1000);
        if (one_in(g, 3)) g->time_ns -= below(g, g->time_ns / 2 + 1);
    }
    g->now.bytes = 0;
    g->now.header =
        (struct mpp_block_header){.kind = MPP_BLOCK_EVENTS, .sequence = sequence, .first_serial = g->next_serial, .first_time_ns = g->time_ns};
    g->free_base = g->size_base = g->next_serial;
}

static void append(struct gen *g, struct payload *p)
{
    check(mpp_writer_append(g->writer, &p->header, p->data, p->bytes), "writing a block");
}

static void swap(struct payload *a, struct payload *b)
{
    struct payload c = *a;

    *a = *b;
    *b = c;
}

static void append_proc(struct gen *g)
{
    struct payload p = {0};
    unsigned char *at;
    uint32_t n = 1 + id_below(g, 12);

    make_room(&p, 1024);
    at = mpp_encode_time(p.data, below(g, 1000));
    at = mpp_encode_1(at, MPP_PROC, n);
    for (uint32_t i = 0; i < n; i++) at = mpp_put_varint(mpp_put_varint(at, i + 1), below(g, 1u << 30));
    p.bytes = (size_t)(at - p.data);
    p.header = (struct mpp_block_header){.kind = MPP_BLOCK_PROC, .sequence = ++g->proc_sequence, .first_time_ns = g->time_ns};
    check(mpp_block_count(&p.header, p.data, p.bytes), "counting a PROC block");
    append(g, &p);
    free(p.data);
}

static void append_definitions(struct gen *g)
{
    struct mpp_decoder d;
    struct mpp_record r;
    const unsigned char *from = g->definitions.data;

    if (!g->definitions.bytes) return;
    mpp_decoder_init(&d, from, g->definitions.bytes, 0, 0);
    for (int more = 1; more > 0;) {
        const unsigned char *at = d.at;
        more = mpp_decoder_next(&d, &r);
        check(more < 0 ? more : 0, "definitions");
        if (more > 0 && (size_t)(d.at - from) <= g->block_bytes) continue;
        if (at == from) at = d.at;
        struct mpp_block_header h = {.kind = MPP_BLOCK_DEFINITIONS, .sequence = ++g->definitions_sequence};
        check(mpp_block_count(&h, from, (size_t)(at - from)), "counting definitions");
        check(mpp_writer_append(g->writer, &h, from, (size_t)(at - from)), "writing definitions");
        from = at;
    }
}

static void append_unknown(struct gen *g)
{
    unsigned char bytes[100];
    struct mpp_block_header h = {.kind = (uint8_t)(6 + below(g, 250)), .sequence = 1};

    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (unsigned char)next_random(g);
    check(mpp_writer_append(g->writer, &h, bytes, sizeof(bytes)), "writing a block of unknown kind");
}

static void close_block(struct gen *g)
{
    check(mpp_block_count(&g->now.header, g->now.data, g->now.bytes), "counting a block");
    if (g->is_killed) {
        if (g->full.header.sequence) append(g, &g->full);
        swap(&g->sealed, &g->full);
        swap(&g->full, &g->now);
        g->now.header = g->full.header;
    } else {
        append(g, &g->now);
    }
    if (one_in(g, 4)) append_proc(g);
    if (one_in(g, 50)) append_definitions(g);
    if (one_in(g, 20)) append_unknown(g);
    open_block(g);
}

/* Room for a record; opens a new block where the present one is full. Bases of deltas count from here. */
static unsigned char *begin(struct gen *g, size_t text_bytes)
{
    size_t bytes = MPP_RECORD_MAX_BYTES + text_bytes;

    if (g->now.bytes && g->now.bytes + bytes > g->block_bytes) close_block(g);
    make_room(&g->now, bytes);
    return g->now.data + g->now.bytes;
}

static void end(struct gen *g, const unsigned char *p)
{
    g->now.bytes = (size_t)(p - g->now.data);
}

#endif
