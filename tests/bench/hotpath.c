/* The parts of a hook's work, each beside what it was chosen over: nanoseconds an operation, best of several rounds, in one run.
 *   make bench-hotpath          (or: valgrind --tool=callgrind build/bench/hotpath LOG, for instructions)
 * The heap is a model: pages of 409 slots, filled and swept in order, half of each page dying between two sweeps. */
#include "../../recorder/ext/mpp_recorder/clock.h"
#include "../../recorder/ext/mpp_recorder/journal.h"
#include "../../recorder/ext/mpp_recorder/slots.h"
#include "../../recorder/ext/mpp_recorder/stacks.h"
#include "mpp_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define PAGES      2500u
#define SLOTS      409u
#define PAGE_BYTES 16384u
#define SLOT_BYTES 40u
#define ROUNDS     5
#define DEPTH      24u

static uint64_t sink;

static uint64_t random_state = 88172645463325252u;
static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t now_ns(void)
{
    return mpp_clock_ns(CLOCK_MONOTONIC);
}

static void report(const char *what, uint64_t best_ns, uint64_t operations)
{
    printf("  %-58s %7.1f ns\n", what, (double)best_ns / (double)operations);
}

/* Runs `round` several times and reports the best. Each returns the number of operations that it did. */
static void measure(const char *what, uint64_t (*round)(void))
{
    uint64_t best = UINT64_MAX, operations = 1;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t began = now_ns(), n = round(), took = now_ns() - began;
        if (took < best) {
            best = took;
            operations = n;
        }
    }
    report(what, best, operations);
}

/* ---- address → serial ---- */

static uintptr_t address_of(uint32_t page, uint32_t slot)
{
    return (uintptr_t)0x7f0000000000u + (uintptr_t)page * PAGE_BYTES + 56 + (uintptr_t)slot * SLOT_BYTES;
}

static unsigned char *dies; /* by page and slot: whether it dies in this round; the same for all ways */

static struct mpp_slots slots;
static uint64_t by_page(void)
{
    uint64_t serial = 1, operations = 0;

    for (uint32_t p = 0; p < PAGES; p++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            struct mpp_slot_page *page;
            struct mpp_slot *slot;
            if (!dies[p * SLOTS + i]) continue;
            slot = mpp_slots_for_free(&slots, address_of(p, i), &page);
            if (slot && slot->word) {
                sink += slot->word;
                mpp_slots_clear(&slots, page, slot);
            }
            operations++;
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            struct mpp_slot_page *page;
            struct mpp_slot *slot;
            if (!dies[p * SLOTS + i]) continue;
            slot = mpp_slots_for_new(&slots, address_of(p, i), &page);
            slot->word = serial++;
            slot->size_bytes = 40;
            page->tracked++;
            slots.tracked_count++;
        }
    }
    return operations;
}

struct pair {
    uintptr_t address;
    uint64_t serial;
};
static struct pair *table;
#define TABLE (1u << 22) /* for a million objects: a quarter full */

static size_t home(uintptr_t address)
{
    return (size_t)(((uint64_t)address * UINT64_C(0x9E3779B97F4A7C15)) >> 42);
}

static void table_put(uintptr_t address, uint64_t serial)
{
    size_t i = home(address);

    while (table[i].address && table[i].address != address) i = (i + 1) & (TABLE - 1);
    table[i] = (struct pair){address, serial};
}

static void table_remove(uintptr_t address)
{
    size_t i = home(address), hole;

    while (table[i].address && table[i].address != address) i = (i + 1) & (TABLE - 1);
    if (!table[i].address) return;
    sink += table[i].serial;
    for (hole = i, i = (i + 1) & (TABLE - 1); table[i].address; i = (i + 1) & (TABLE - 1)) {
        if (((i - home(table[i].address)) & (TABLE - 1)) >= ((i - hole) & (TABLE - 1))) {
            table[hole] = table[i];
            hole = i;
        }
    }
    table[hole].address = 0;
}

static uint64_t by_table(void)
{
    uint64_t serial = 1, operations = 0;

    for (uint32_t p = 0; p < PAGES; p++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            if (!dies[p * SLOTS + i]) continue;
            table_remove(address_of(p, i));
            operations++;
        }
        for (uint32_t i = 0; i < SLOTS; i++) {
            if (dies[p * SLOTS + i]) table_put(address_of(p, i), serial++);
        }
    }
    return operations;
}

/* ---- backtraces ---- */

/* Real ones: the backtraces of a log's births, in their order. Frames are stored as rb_profile_frames gives them, leaf first. */
#define WALK_MAX  1000000u
#define DEPTH_MAX 512u
#define HASHES    65536u

struct trace {
    uintptr_t *frames;
    int *lines;
    uint32_t depth;
};
static struct trace *traces; /* by stack id */
static uint32_t trace_count;
static uint32_t *walk, walk_count; /* stack ids */

static struct {
    uint64_t hash;
    uint32_t id;
} * hashes;

static uint64_t by_whole_hash(void)
{
    for (uint32_t w = 0; w < walk_count; w++) {
        const struct trace *t = &traces[walk[w]];
        uint64_t h = XXH3_64bits(t->frames, t->depth * sizeof *t->frames) ^ XXH3_64bits_withSeed(t->lines, t->depth * sizeof *t->lines, 7);
        size_t i = h & (HASHES - 1);
        while (hashes[i].hash && hashes[i].hash != h) i = (i + 1) & (HASHES - 1);
        if (!hashes[i].hash) {
            hashes[i].hash = h;
            hashes[i].id = walk[w];
        }
        sink += hashes[i].id;
    }
    return walk_count;
}

static uint64_t by_last_or_hash(void)
{
    const struct trace *last = &traces[0];
    uint32_t id = 0;

    for (uint32_t w = 0; w < walk_count; w++) {
        const struct trace *t = &traces[walk[w]];
        if (t->depth != last->depth || t->lines[0] != last->lines[0] || memcmp(t->frames, last->frames, t->depth * sizeof *t->frames) ||
            memcmp(t->lines, last->lines, t->depth * sizeof *t->lines)) {
            uint64_t h = XXH3_64bits_withSeed(t->lines, t->depth * sizeof *t->lines, XXH3_64bits(t->frames, t->depth * sizeof *t->frames));
            size_t i = h & (HASHES - 1);
            while (hashes[i].hash && hashes[i].hash != h) i = (i + 1) & (HASHES - 1);
            if (!hashes[i].hash) {
                hashes[i].hash = h;
                hashes[i].id = walk[w];
            }
            id = hashes[i].id;
            last = t;
        }
        sink += id;
    }
    return walk_count;
}

static uint32_t same_from_root(const struct trace *t, const struct trace *last)
{
    const uintptr_t *f = t->frames + t->depth, *lf = last->frames + last->depth;
    const int *l = t->lines + t->depth, *ll = last->lines + last->depth;
    uint32_t limit = t->depth < last->depth ? t->depth : last->depth, same = 0;

    while (limit - same >= 4 && !memcmp(f - same - 4, lf - same - 4, 4 * sizeof *f) && !memcmp(l - same - 4, ll - same - 4, 4 * sizeof *l)) same += 4;
    while (same < limit && f[-1 - (int)same] == lf[-1 - (int)same] && l[-1 - (int)same] == ll[-1 - (int)same]) same++;
    return same;
}

static struct mpp_stacks stacks;
static uint64_t differing_frames;
static uint64_t by_nodes(void)
{
    static uint32_t nodes[DEPTH_MAX];
    const struct trace *last = &traces[0];

    differing_frames = 0;
    for (uint32_t w = 0; w < walk_count; w++) {
        const struct trace *t = &traces[walk[w]];
        uint32_t same = same_from_root(t, last), node = same ? nodes[same - 1] : 0;
        int fresh;
        for (uint32_t i = same; i < t->depth; i++)
            nodes[i] = node =
                mpp_stacks_child(&stacks, node, (uint32_t)(t->frames[t->depth - 1 - i] >> 3), (uint32_t)t->lines[t->depth - 1 - i], &fresh);
        differing_frames += t->depth - same;
        sink += node;
        last = t;
    }
    return walk_count;
}

static int add_trace(uint32_t id, uint32_t parent, uint32_t function, uint32_t line)
{
    uint32_t depth = traces[parent].depth + 1;
    struct trace *t = &traces[id];

    t->frames = malloc(depth * sizeof *t->frames);
    t->lines = malloc(depth * sizeof *t->lines);
    if (!t->frames || !t->lines || depth > DEPTH_MAX) return -1;
    t->depth = depth;
    t->frames[0] = (uintptr_t)0x7f0000000000u + (uintptr_t)function * SLOT_BYTES;
    t->lines[0] = (int)line;
    if (depth > 1) {
        memcpy(t->frames + 1, traces[parent].frames, (depth - 1) * sizeof *t->frames);
        memcpy(t->lines + 1, traces[parent].lines, (depth - 1) * sizeof *t->lines);
    }
    return 0;
}

static int read_traces(const char *path)
{
    struct mpp_source source;
    struct mpp_reader *reader;
    struct mpp_payload payload = {0};
    uint32_t *stack_of_site = calloc(1u << 20, sizeof *stack_of_site);

    traces = calloc(1u << 20, sizeof *traces);
    walk = calloc(WALK_MAX, sizeof *walk);
    hashes = calloc(HASHES, sizeof *hashes);
    if (!stack_of_site || !traces || !walk || !hashes || mpp_source_file(&source, path) || mpp_reader_open(&reader, &source)) return -1;
    for (size_t b = 0; b < mpp_reader_block_count(reader); b++) {
        const struct mpp_block_header *h = &mpp_reader_block(reader, b)->header;
        struct mpp_decoder d;
        struct mpp_record r;
        if (h->kind != MPP_BLOCK_EVENTS || mpp_reader_payload(reader, b, &payload)) continue;
        mpp_decoder_init(&d, payload.data, payload.bytes, h->first_serial, h->first_time_ns);
        while (mpp_decoder_next(&d, &r) > 0) {
            if (r.kind == MPP_STACK && r.id < 1u << 20 && add_trace(r.id, (uint32_t)r.a, (uint32_t)r.b, (uint32_t)r.c)) return -1;
            if (r.kind == MPP_STACK) trace_count++;
            if (r.kind == MPP_SITE && r.id < 1u << 20) stack_of_site[r.id] = (uint32_t)r.a;
            if (r.kind == MPP_ALLOC && walk_count < WALK_MAX && r.site < 1u << 20) walk[walk_count++] = stack_of_site[r.site];
        }
    }
    mpp_payload_release(&payload);
    mpp_reader_free(reader);
    free(stack_of_site);
    return walk_count ? 0 : -1;
}

/* ---- time ---- */

static uint64_t by_counter(void)
{
    struct mpp_clock clock;

    mpp_clock_start(&clock);
    for (int i = 0; i < 1000000; i++) {
        if (mpp_clock_due(&clock)) mpp_clock_look(&clock);
        sink += clock.now_ns;
    }
    return 1000000;
}

static uint64_t by_clock_gettime(void)
{
    for (int i = 0; i < 1000000; i++) sink += now_ns();
    return 1000000;
}

/* ---- records ---- */

static unsigned char *memory;
static struct mpp_journal journal;

static uint64_t committed(void)
{
    for (uint32_t i = 0; i < 1000000; i++) {
        unsigned char *p = mpp_journal_room(&journal, MPP_RECORD_MAX_BYTES, MPP_NO_WAIT);
        if (!p) {
            mpp_journal_restart(&journal); /* as if the writer had taken all halves */
            p = mpp_journal_room(&journal, MPP_RECORD_MAX_BYTES, MPP_NO_WAIT);
        }
        mpp_journal_commit(&journal, mpp_encode_alloc(p, 100 + i % 4000));
    }
    return 1000000;
}

struct fat {
    uint64_t object, time, stack, class_id;
};
static struct fat *ring;

static uint64_t fat_ring(void)
{
    for (uint32_t i = 0; i < 1000000; i++) ring[i & ((1u << 20) - 1)] = (struct fat){i, sink, i % 4000, 7};
    return 1000000;
}

int main(int argc, char **argv)
{
    dies = malloc(PAGES * SLOTS);
    table = calloc(TABLE, sizeof *table);
    memory = calloc(4, 256u << 10);
    ring = calloc(1u << 20, sizeof *ring);
    if (!dies || !table || !memory || !ring || mpp_slots_init(&slots, PAGE_BYTES, SLOT_BYTES, 0) || mpp_stacks_init(&stacks)) return 1;
    for (uint32_t i = 0; i < PAGES * SLOTS; i++) dies[i] = 1;
    (void)by_page();
    (void)by_table();
    for (uint32_t i = 0; i < PAGES * SLOTS; i++) dies[i] = next_random() & 1;
    if (argc > 1 && read_traces(argv[1])) {
        fprintf(stderr, "hotpath: no births in '%s'\n", argv[1]);
        return 1;
    }
    mpp_journal_init(&journal, memory, 256u << 10, 4, 1);

    printf("address -> serial, a million objects, a death and a birth:\n");
    measure("array by slot for each page (chosen)", by_page);
    measure("hash table of addresses", by_table);
    if (argc > 1) {
        printf("backtrace -> id, %u births of %s, %u nodes:\n", walk_count, argv[1], trace_count);
        measure("the last one again? else XXH3 over all, one look-up (chosen)", by_last_or_hash);
        measure("XXH3 over all frames and lines, one look-up", by_whole_hash);
        measure("compare with the last one, look up each frame that differs", by_nodes);
        printf("  (%.2f frames differ from the last birth's)\n", (double)differing_frames / walk_count);
    }
    printf("time of a record:\n");
    measure("processor's counter, clock only when due (chosen)", by_counter);
    measure("clock_gettime(CLOCK_MONOTONIC)", by_clock_gettime);
    printf("a birth's record:\n");
    measure("2 bytes, CRC-32C and commit word, into the journal (chosen)", committed);
    measure("32 bytes into a ring of 32 MiB, neither checked nor committed", fat_ring);
    return sink == 1;
}
