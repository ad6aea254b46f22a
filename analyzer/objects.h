/* The live objects, found by serial. Those that an ALLOC made lie in chunks of 2^14 serials: flat arrays while many of them live, sorted survivors
 * once few do, nothing when all are dead. So memory follows the live objects, not the log, and a hostile first_serial costs a chunk at most. Those
 * that a LIVE record made are few or sparse: a hash table with what a serial does not tell of them. */
#ifndef MPP_OBJECTS_H
#define MPP_OBJECTS_H

#include "analyzer/u64_map.h"
#include <stdint.h>

#define CHUNK_BITS    14
#define CHUNK_OBJECTS (1u << CHUNK_BITS)

#define SIZE_BITS 40 /* sizes are below 2^40: FORMAT.md */
struct object {
    uint64_t size_and_low; /* size_bytes; above it, among survivors, the low 8 bits of its serial */
    uint32_t site;         /* index of definitions' sites */
    uint32_t weight;       /* 0: not live */
};

static inline uint64_t object_size(const struct object *o)
{
    return o->size_and_low & ((UINT64_C(1) << SIZE_BITS) - 1);
}
static inline void object_set_size(struct object *o, uint64_t size_bytes)
{
    o->size_and_low = (o->size_and_low >> SIZE_BITS) << SIZE_BITS | size_bytes;
}

#define CHUNK_BUCKETS (CHUNK_OBJECTS / 256)
struct object_chunk {
    uint64_t number; /* serial >> CHUNK_BITS */
    uint32_t live;
    uint32_t count;                    /* of entries: CHUNK_OBJECTS, or of the survivors */
    size_t slot;                       /* in objects.chunks */
    int is_sparse;                     /* entries are survivors, rising; else they lie at their serial's low bits */
    uint16_t start[CHUNK_BUCKETS + 1]; /* of survivors: for each 256 serials, the first entry that is not below them */
    struct object entries[];
};

/* An object that a LIVE record told of. */
struct live_object {
    struct object object; /* weight 0: a free place, whose size_and_low is the next free place + 1 */
    uint64_t serial;
    uint64_t age;        /* at the record */
    uint64_t gc_ordinal; /* GC_STARTs before the record */
    uint32_t gap_epoch;  /* GAPs before the record */
};

struct objects {
    struct object_chunk **flat; /* by number */
    size_t flat_count;
    struct u64_map far; /* number + 1 -> slot, for those beyond flat */
    struct object_chunk **chunks;
    size_t chunk_count, chunk_capacity;
    struct object_chunk *current; /* where ALLOCs go; never dropped or compacted */
    struct object_chunk *spare;   /* one empty flat chunk, kept for the next */
    size_t dense_count, dense_limit;

    struct u64_map live_serials; /* serial -> place */
    struct live_object *lives;
    size_t live_count, live_capacity;
    uint64_t live_free; /* place + 1 */
};

void objects_release(struct objects *o);

struct object_chunk *objects_far_chunk(const struct objects *o, uint64_t number);
static inline struct object_chunk *objects_chunk(const struct objects *o, uint64_t number)
{
    return __builtin_expect(number < o->flat_count, 1) ? o->flat[number] : objects_far_chunk(o, number);
}

struct object *objects_find_survivor(struct object_chunk *c, uint64_t serial);
/* The live object of `serial` that an ALLOC made, or NULL; its chunk in *chunk. */
static inline struct object *objects_find(const struct objects *o, uint64_t serial, struct object_chunk **chunk)
{
    struct object_chunk *c = objects_chunk(o, serial >> CHUNK_BITS);

    *chunk = c;
    if (__builtin_expect(!c, 0)) return NULL;
    if (__builtin_expect(c->is_sparse, 0)) return objects_find_survivor(c, serial);
    struct object *e = &c->entries[serial & (CHUNK_OBJECTS - 1)];
    return e->weight ? e : NULL;
}

/* Makes the chunk of `serial` the current one. 0 or MPP_ERR_NO_MEMORY. Pointers to objects are no longer good. */
int objects_enter(struct objects *o, uint64_t serial);

/* Drops a chunk in which nothing lives, unless it is the current one. */
void objects_drop(struct objects *o, struct object_chunk *c);

/* To be called some events before objects_find of the same serial: fetches what it will read, in two steps with time between them, since the second
 * reads what the first has fetched. Live objects lie all over the memory, and waiting for it is most of a replay's work. */
static inline void objects_prefetch_chunk(const struct objects *o, uint64_t serial)
{
    uint64_t number = serial >> CHUNK_BITS;
    const struct object_chunk *c = number < o->flat_count ? o->flat[number] : NULL;

    if (!c) return;
    __builtin_prefetch(c);
    __builtin_prefetch(&c->start[(serial & (CHUNK_OBJECTS - 1)) >> 8]);
}
static inline void objects_prefetch_object(const struct objects *o, uint64_t serial)
{
    uint64_t number = serial >> CHUNK_BITS, low = serial & (CHUNK_OBJECTS - 1);
    const struct object_chunk *c = number < o->flat_count ? o->flat[number] : NULL;

    if (c) __builtin_prefetch(&c->entries[c->is_sparse ? c->start[low >> 8] : low], 1);
}

/* Takes an object out. */
static inline void objects_remove(struct objects *o, struct object_chunk *c, struct object *e)
{
    e->weight = 0;
    if (__builtin_expect(--c->live == 0, 0)) objects_drop(o, c);
}

/* Objects of LIVE records. Add: NULL when memory is short; `serial` must not be there. */
struct live_object *objects_find_live(const struct objects *o, uint64_t serial);
struct live_object *objects_add_live(struct objects *o, uint64_t serial);
void objects_remove_live(struct objects *o, struct live_object *l);

/* Calls `each` for every live object, in no particular order. `live` is NULL for those of an ALLOC. */
typedef void objects_visitor(void *context, uint64_t serial, const struct object *object, const struct live_object *live);
void objects_each(const struct objects *o, objects_visitor *each, void *context);

#endif
