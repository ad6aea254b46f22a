#include "analyzer/objects.h"
#include "analyzer/id_map.h"
#include "formats/mpp_error.h"
#include <stdlib.h>
#include <string.h>

/* Numbers up to here have a place in the flat directory, which grows as they come (32 MiB at most); beyond, the hash table. */
#define FLAT_LIMIT ((uint64_t)1 << 22)
/* Flat chunks that are let alone however few live in them: 32 MiB. */
#define DENSE_FREE_COUNT ((size_t)128)

void objects_release(struct objects *o)
{
    for (size_t i = 0; i < o->chunk_count; i++) free(o->chunks[i]);
    free(o->flat);
    free(o->chunks);
    free(o->spare);
    free(o->lives);
    u64_map_release(&o->far);
    u64_map_release(&o->live_serials);
    *o = (struct objects){0};
}

struct object_chunk *objects_far_chunk(const struct objects *o, uint64_t number)
{
    const uint32_t *slot = u64_map_get(&o->far, number + 1);

    return slot ? o->chunks[*slot] : NULL;
}

/* A bucket holds a handful. */
struct object *objects_find_survivor(struct object_chunk *c, uint64_t serial)
{
    uint32_t bucket = (uint32_t)(serial & (CHUNK_OBJECTS - 1)) >> 8, end = c->start[bucket + 1];
    uint64_t wanted = serial & 0xff;

    for (uint32_t i = c->start[bucket]; i < end; i++) {
        if (c->entries[i].size_and_low >> SIZE_BITS == wanted) return c->entries[i].weight ? &c->entries[i] : NULL;
    }
    return NULL;
}

/* The serial's low bits of entry `i`, which lies in `bucket`. */
static uint32_t low_bits(const struct object_chunk *c, uint32_t i, uint32_t bucket)
{
    return c->is_sparse ? bucket << 8 | (uint32_t)(c->entries[i].size_and_low >> SIZE_BITS) : i;
}

static int point_at(struct objects *o, struct object_chunk *c)
{
    if (c->number < o->flat_count) {
        o->flat[c->number] = c;
        return 0;
    }
    return u64_map_put(&o->far, c->number + 1, (uint32_t)c->slot);
}

static void unlist(struct objects *o, struct object_chunk *c)
{
    struct object_chunk *last = o->chunks[--o->chunk_count];

    if (c->number < o->flat_count) {
        o->flat[c->number] = NULL;
    } else {
        u64_map_remove(&o->far, c->number + 1);
    }
    if (last == c) return;
    last->slot = c->slot;
    o->chunks[c->slot] = last;
    /* Its key is there already, so this allocates nothing. */
    if (last->number >= o->flat_count) (void)u64_map_put(&o->far, last->number + 1, (uint32_t)last->slot);
}

void objects_drop(struct objects *o, struct object_chunk *c)
{
    if (c == o->current || c->live) return;
    unlist(o, c);
    if (!c->is_sparse) o->dense_count--;
    if (!c->is_sparse && !o->spare) {
        o->spare = c; /* all its weights are 0: as good as new */
        return;
    }
    free(c);
}

/* Replaces a chunk by its survivors. Without memory it stays as it is. */
static void compact(struct objects *o, struct object_chunk *c)
{
    struct object_chunk *small = malloc(sizeof *small + c->live * sizeof(struct object));
    uint32_t n = 0, filled = 0;

    if (!small) return;
    for (uint32_t i = 0, bucket = 0; i < c->count; i++) {
        while (c->is_sparse && i >= c->start[bucket + 1]) bucket++;
        if (!c->entries[i].weight) continue;
        uint32_t low = low_bits(c, i, bucket);
        while (filled <= low >> 8) small->start[filled++] = (uint16_t)n;
        small->entries[n] = c->entries[i];
        small->entries[n++].size_and_low = (uint64_t)(low & 0xff) << SIZE_BITS | object_size(&c->entries[i]);
    }
    while (filled <= CHUNK_BUCKETS) small->start[filled++] = (uint16_t)n;
    small->number = c->number;
    small->live = small->count = n;
    small->slot = c->slot;
    small->is_sparse = 1;
    o->chunks[c->slot] = small;
    if (c->number < o->flat_count) o->flat[c->number] = small;
    if (!c->is_sparse) o->dense_count--;
    free(c);
}

/* Keeps flat chunks at half full or better, save for those of the first 32 MiB. Runs seldom: the limit moves with what is left. */
static void compact_sparse(struct objects *o)
{
    for (size_t i = 0; i < o->chunk_count; i++) {
        struct object_chunk *c = o->chunks[i];
        if (c != o->current && c->live && c->live < c->count / 2) compact(o, c);
    }
    o->dense_limit = o->dense_count + o->dense_count / 4 + DENSE_FREE_COUNT;
}

static int widen_flat(struct objects *o, uint64_t number)
{
    size_t wanted = o->flat_count ? o->flat_count : 1024;

    while (wanted <= number) wanted *= 2;
    struct object_chunk **flat = realloc(o->flat, wanted * sizeof(struct object_chunk *));
    if (!flat) return MPP_ERR_NO_MEMORY;
    memset(flat + o->flat_count, 0, (wanted - o->flat_count) * sizeof(struct object_chunk *));
    o->flat = flat;
    o->flat_count = wanted;
    return 0;
}

int objects_enter(struct objects *o, uint64_t serial)
{
    uint64_t number = serial >> CHUNK_BITS;
    struct object_chunk *left = o->current, *c = objects_chunk(o, number);
    int error;

    if (left && left->number == number) return 0;
    o->current = NULL;
    if (left && left->live == 0) objects_drop(o, left);
    if (c && !c->is_sparse && c != left) {
        o->current = c;
        return 0;
    }
    if (o->dense_count >= o->dense_limit) compact_sparse(o);
    /* Far numbers are never in reach of the flat directory, so no key has to move when it grows. */
    if (number < FLAT_LIMIT && number >= o->flat_count && (error = widen_flat(o, number))) return error;
    error = array_reserve((void **)&o->chunks, &o->chunk_capacity, o->chunk_count + 1, sizeof *o->chunks);
    if (error) return error;
    c = o->spare ? o->spare : calloc(1, sizeof *c + CHUNK_OBJECTS * sizeof(struct object));
    if (!c) return MPP_ERR_NO_MEMORY;
    o->spare = NULL;
    c->number = number;
    c->live = 0;
    c->count = CHUNK_OBJECTS;
    c->slot = o->chunk_count;
    error = point_at(o, c);
    if (error) {
        free(c);
        return error;
    }
    o->chunks[o->chunk_count++] = c;
    o->dense_count++;
    o->current = c;
    return 0;
}

struct live_object *objects_find_live(const struct objects *o, uint64_t serial)
{
    const uint32_t *place = u64_map_get(&o->live_serials, serial);

    return place ? &o->lives[*place] : NULL;
}

struct live_object *objects_add_live(struct objects *o, uint64_t serial)
{
    size_t place = o->live_free ? (size_t)o->live_free - 1 : o->live_count;

    if (place >= UINT32_MAX) return NULL;
    if (!o->live_free) {
        if (array_reserve((void **)&o->lives, &o->live_capacity, o->live_count + 1, sizeof *o->lives)) return NULL;
    }
    if (u64_map_put(&o->live_serials, serial, (uint32_t)place)) return NULL;
    if (o->live_free) {
        o->live_free = o->lives[place].object.size_and_low;
    } else {
        o->live_count++;
    }
    o->lives[place] = (struct live_object){.serial = serial};
    return &o->lives[place];
}

void objects_remove_live(struct objects *o, struct live_object *l)
{
    u64_map_remove(&o->live_serials, l->serial);
    l->object.weight = 0;
    l->object.size_and_low = o->live_free;
    o->live_free = (uint64_t)(l - o->lives) + 1;
}

void objects_each(const struct objects *o, objects_visitor *each, void *context)
{
    for (size_t i = 0; i < o->chunk_count; i++) {
        const struct object_chunk *c = o->chunks[i];
        for (uint32_t k = 0, bucket = 0; c->live && k < c->count; k++) {
            while (c->is_sparse && k >= c->start[bucket + 1]) bucket++;
            if (c->entries[k].weight) each(context, c->number << CHUNK_BITS | low_bits(c, k, bucket), &c->entries[k], NULL);
        }
    }
    for (size_t i = 0; i < o->live_count; i++) {
        if (o->lives[i].object.weight) each(context, o->lives[i].serial, &o->lives[i].object, &o->lives[i]);
    }
}
