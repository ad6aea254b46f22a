/* The live objects, found by serial. Those that an ALLOC made lie in chunks of 2^14 serials: flat arrays while many of them live, the survivors alone
 * once fewer do, nothing when all are dead. So memory follows the live objects, not the log, and a hostile first_serial costs a chunk at most. Those
 * that a LIVE record made are few or sparse: a hash table with what a serial does not tell of them. */
#ifndef MPP_OBJECTS_H
#define MPP_OBJECTS_H

#include "analyzer/bits.h"
#include "analyzer/u64_map.h"
#include <stdint.h>

#define CHUNK_BITS    14
#define CHUNK_OBJECTS (1u << CHUNK_BITS)

#define SIZE_BITS 40 /* sizes are below 2^40: FORMAT.md */
struct object {
    uint64_t size_and_low; /* size_bytes; above it, in a chunk without an index, the low bits of its serial */
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

/* Where the objects of a chunk lie: for each 48 serials a word, of which a bit of the upper 48 tells that there is an entry for the serial, and the
 * lower 16 how many entries the words before have. So one load and a count of bits find an object. */
#define INDEX_SPAN  48u
#define INDEX_WORDS ((CHUNK_OBJECTS + INDEX_SPAN - 1) / INDEX_SPAN)
/* Survivors without an index: few enough for a search. An index would take more than they do. */
#define LISTED_OBJECTS 192u

struct object_chunk {
    uint64_t number; /* serial >> CHUNK_BITS */
    uint32_t live;
    uint32_t count;        /* of entries: CHUNK_OBJECTS, or of the survivors */
    uint32_t slot;         /* in objects.chunks */
    uint8_t is_flat;       /* entries lie at their serial's low bits; else they are survivors, rising */
    uint8_t is_emptied;    /* among objects.emptied */
    const uint64_t *index; /* objects.flat_index when flat, behind the entries when survivors; NULL: few survivors, with their low bits */
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
    struct object_chunk *current;  /* where ALLOCs go; never dropped or compacted */
    struct object_chunk *spare;    /* one empty flat chunk, kept for the next */
    struct object_chunk **emptied; /* chunks in which the last object died; room for all chunks */
    size_t emptied_count, emptied_capacity;
    uint64_t *flat_index; /* that all flat chunks share: every serial has an entry */
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

static inline const uint64_t *objects_index_word(const struct object_chunk *c, uint64_t serial)
{
    return &c->index[(serial & (CHUNK_OBJECTS - 1)) / INDEX_SPAN];
}
/* The entry of `serial` in a chunk that has an index, or NULL; its weight may be 0. `word`: the index's. */
BITS_BODY struct object *objects_indexed(struct object_chunk *c, uint64_t serial, uint64_t word, int at_once)
{
    unsigned bit = 16 + (unsigned)((serial & (CHUNK_OBJECTS - 1)) % INDEX_SPAN);
    uint64_t below = word & ((UINT64_C(1) << bit) - 1) & ~UINT64_C(0xffff);

    return word >> bit & 1 ? &c->entries[(word & 0xffff) + bits_count(below, at_once)] : NULL;
}
/* The same in a chunk without. */
struct object *objects_listed(struct object_chunk *c, uint64_t serial);

/* The live object of `serial` that an ALLOC made, or NULL; its chunk in *chunk. */
static inline struct object *objects_find(const struct objects *o, uint64_t serial, struct object_chunk **chunk)
{
    struct object_chunk *c = objects_chunk(o, serial >> CHUNK_BITS);

    *chunk = c;
    if (__builtin_expect(!c, 0)) return NULL;
    struct object *e = c->index ? objects_indexed(c, serial, *objects_index_word(c, serial), 0) : objects_listed(c, serial);
    return e && e->weight ? e : NULL;
}

/* Makes the chunk of `serial` the current one. 0 or MPP_ERR_NO_MEMORY. Pointers to objects are no longer good. */
int objects_enter(struct objects *o, uint64_t serial);

/* Takes an object out. Pointers to others stay good. */
static inline void objects_remove(struct objects *o, struct object_chunk *c, struct object *e)
{
    e->weight = 0;
    if (__builtin_expect(--c->live == 0, 0) && !c->is_emptied) {
        c->is_emptied = 1;
        o->emptied[o->emptied_count++] = c;
    }
}
/* Frees the chunks in which nothing lives any more; to be called now and then after objects_remove. Pointers to objects are no longer good. */
void objects_drop_emptied(struct objects *o);

/* Objects of LIVE records. Add: NULL when memory is short; `serial` must not be there. */
struct live_object *objects_find_live(const struct objects *o, uint64_t serial);
struct live_object *objects_add_live(struct objects *o, uint64_t serial);
void objects_remove_live(struct objects *o, struct live_object *l);

/* Calls `each` for every live object, in no particular order. `live` is NULL for those of an ALLOC. */
typedef void objects_visitor(void *context, uint64_t serial, const struct object *object, const struct live_object *live);
void objects_each(const struct objects *o, objects_visitor *each, void *context);

#endif
