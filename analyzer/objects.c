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
    free(o->emptied);
    free(o->flat_index);
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

struct object *objects_listed(struct object_chunk *c, uint64_t serial)
{
    uint64_t wanted = serial & (CHUNK_OBJECTS - 1);
    uint32_t low = 0, high = c->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (c->entries[middle].size_and_low >> SIZE_BITS < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->count && c->entries[low].size_and_low >> SIZE_BITS == wanted ? &c->entries[low] : NULL;
}

/* Walks over the entries of a chunk, dead ones too, in order of their serials. */
struct walk {
    uint32_t entry, low; /* low bits of the serial */
    uint32_t word;       /* of the index */
    uint64_t bits;       /* of it, not yet walked over */
};

static int walk_on(struct walk *w, const struct object_chunk *c)
{
    if (w->entry >= c->count) return 0;
    if (c->is_flat) {
        w->low = w->entry++;
        return 1;
    }
    if (!c->index) {
        w->low = (uint32_t)(c->entries[w->entry++].size_and_low >> SIZE_BITS);
        return 1;
    }
    while (!w->bits) w->bits = c->index[w->word++] & ~UINT64_C(0xffff);
    w->low = (w->word - 1) * INDEX_SPAN + (uint32_t)__builtin_ctzll(w->bits) - 16;
    w->bits &= w->bits - 1;
    w->entry++;
    return 1;
}

static int point_at(struct objects *o, struct object_chunk *c)
{
    if (c->number < o->flat_count) {
        o->flat[c->number] = c;
        return 0;
    }
    return u64_map_put(&o->far, c->number + 1, c->slot);
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
    if (last->number >= o->flat_count) (void)u64_map_put(&o->far, last->number + 1, last->slot);
}

/* Drops a chunk in which nothing lives, unless it is the current one. */
static void drop(struct objects *o, struct object_chunk *c)
{
    if (c == o->current || c->live) return;
    unlist(o, c);
    if (c->is_flat) o->dense_count--;
    if (c->is_flat && !o->spare) {
        o->spare = c; /* all its weights are 0: as good as new */
        return;
    }
    free(c);
}

void objects_drop_emptied(struct objects *o)
{
    while (o->emptied_count) {
        struct object_chunk *c = o->emptied[--o->emptied_count];
        c->is_emptied = 0;
        drop(o, c);
    }
}

/* Replaces a chunk by its survivors. Without memory it stays as it is. */
static void compact(struct objects *o, struct object_chunk *c)
{
    int indexed = c->live >= LISTED_OBJECTS;
    size_t entries_bytes = c->live * sizeof(struct object);
    struct object_chunk *small = malloc(sizeof *small + entries_bytes + (indexed ? INDEX_WORDS * sizeof(uint64_t) : 0));
    struct walk w = {0};
    uint32_t n = 0, filled = 0;

    if (!small) return;
    uint64_t *index = indexed ? (uint64_t *)(void *)((char *)small->entries + entries_bytes) : NULL;
    while (walk_on(&w, c)) {
        const struct object *e = &c->entries[w.entry - 1];
        if (!e->weight) continue;
        small->entries[n] = *e;
        if (indexed) {
            while (filled <= w.low / INDEX_SPAN) index[filled++] = n;
            index[w.low / INDEX_SPAN] |= UINT64_C(1) << (16 + w.low % INDEX_SPAN);
            small->entries[n++].size_and_low = object_size(e);
        } else {
            small->entries[n++].size_and_low = (uint64_t)w.low << SIZE_BITS | object_size(e);
        }
    }
    while (indexed && filled < INDEX_WORDS) index[filled++] = n;
    small->number = c->number;
    small->live = small->count = n;
    small->slot = c->slot;
    small->is_flat = small->is_emptied = 0;
    small->index = index;
    o->chunks[c->slot] = small;
    if (c->number < o->flat_count) o->flat[c->number] = small;
    if (c->is_flat) o->dense_count--;
    free(c);
}

/* Whether the chunk has room for too many of the dead: a flat one is at least half full, and of survivors at least three of four live. */
static int is_hollow(const struct object_chunk *c)
{
    return c->live && c->live < (c->is_flat ? c->count / 2 : c->count - c->count / 4);
}

/* Keeps the chunks full, save for those of the first 32 MiB. Runs seldom: the limit moves with what is left. */
static void compact_hollow(struct objects *o)
{
    for (size_t i = 0; i < o->chunk_count; i++) {
        struct object_chunk *c = o->chunks[i];
        if (c != o->current && is_hollow(c)) compact(o, c);
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

static int make_flat_index(struct objects *o)
{
    if (o->flat_index) return 0;
    o->flat_index = malloc(INDEX_WORDS * sizeof *o->flat_index);
    if (!o->flat_index) return MPP_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < INDEX_WORDS; i++) o->flat_index[i] = ~UINT64_C(0xffff) | i * INDEX_SPAN;
    return 0;
}

/* Room for one more chunk in all that lists chunks. */
static int reserve_chunk(struct objects *o, uint64_t number)
{
    int error = make_flat_index(o);

    /* Far numbers are never in reach of the flat directory, so no key has to move when it grows. */
    if (!error && number < FLAT_LIMIT && number >= o->flat_count) error = widen_flat(o, number);
    if (!error) error = array_reserve((void **)&o->chunks, &o->chunk_capacity, o->chunk_count + 1, sizeof(struct object_chunk *));
    if (!error) error = array_reserve((void **)&o->emptied, &o->emptied_capacity, o->chunk_count + 1, sizeof(struct object_chunk *));
    return error || o->chunk_count >= UINT32_MAX ? MPP_ERR_NO_MEMORY : 0;
}

int objects_enter(struct objects *o, uint64_t serial)
{
    uint64_t number = serial >> CHUNK_BITS;
    struct object_chunk *left = o->current;

    if (left && left->number == number) return 0;
    objects_drop_emptied(o);
    o->current = NULL;
    if (left && left->live == 0) drop(o, left);
    struct object_chunk *c = objects_chunk(o, number);
    if (c && c->is_flat) {
        o->current = c;
        return 0;
    }
    if (o->dense_count >= o->dense_limit) compact_hollow(o);
    int error = reserve_chunk(o, number);
    if (error) return error;
    c = o->spare ? o->spare : calloc(1, sizeof *c + CHUNK_OBJECTS * sizeof(struct object));
    if (!c) return MPP_ERR_NO_MEMORY;
    o->spare = NULL;
    c->number = number;
    c->live = 0;
    c->count = CHUNK_OBJECTS;
    c->slot = (uint32_t)o->chunk_count;
    c->is_flat = 1;
    c->is_emptied = 0;
    c->index = o->flat_index;
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
        struct walk w = {0};
        while (c->live && walk_on(&w, c)) {
            const struct object *e = &c->entries[w.entry - 1];
            if (e->weight) each(context, c->number << CHUNK_BITS | w.low, e, NULL);
        }
    }
    for (size_t i = 0; i < o->live_count; i++) {
        if (o->lives[i].object.weight) each(context, o->lives[i].serial, &o->lives[i].object, &o->lives[i]);
    }
}
