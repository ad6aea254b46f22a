/* The state of the heap at a position: live objects and counters by site, as FORMAT.md §7 defines them. It knows no bytes and no blocks: the
 * replay applies records to it, the common ones in batches (apply.h). */
#ifndef MPP_HEAP_H
#define MPP_HEAP_H

#include "analyzer/definitions.h"
#include "analyzer/objects.h"
#include "formats/mpp_error.h"

/* Weighted counters of a group of objects; live = allocated - freed - unknown. */
struct counters {
    uint64_t allocated_objects, allocated_bytes;
    uint64_t freed_objects, freed_bytes;
    uint64_t unknown_objects, unknown_bytes;
};

/* A site's counters: a cache line, and the array of them is aligned to one. */
struct heap_site {
    struct counters n; /* unknown_*: as of gap_epoch; heap_site_sync brings them up to date */
    uint64_t birth_bytes;
    uint32_t gap_epoch; /* GAPs that n.unknown_* has seen */
    uint32_t ready;     /* its definition stood before its use, as it should, or all the log was searched for it */
};

/* A GC that has ended. */
struct heap_gc {
    uint64_t next_serial; /* at its GC_START: objects of lower serials were born before it */
    uint64_t ordinal;     /* of its GC_START, from 1 */
};

struct heap {
    struct definitions *definitions;
    /* Reads all that the log still defines: called once, when a site is used whose definition has not come. 0 or an error; may be NULL. */
    int (*complete)(void *context);
    void *complete_context;
    struct objects objects;
    struct heap_site *sites; /* by index of definitions->sites; may be shorter */
    size_t site_count, site_capacity;

    /* Sums of the whole. Every other sum is at most one of these, so only these need a check for overflow. */
    uint64_t allocated_objects, allocated_bytes;
    uint64_t live_objects, live_bytes;
    uint64_t peak_objects, peak_bytes, peak_position, peak_time_ns;

    uint64_t gap_serial; /* objects of lower serials were born before the last GAP: unknown */
    uint32_t gap_epoch;  /* GAPs so far */

    struct heap_gc *gcs; /* ended ones, in order */
    size_t gc_count, gc_capacity;
    uint64_t gc_starts;
    struct heap_gc gc_running; /* ordinal 0: none */

    uint64_t fork_serial; /* of the log: frees below it are of inherited objects */
    uint64_t orphan_count, inherited_count, dropped_objects;
};

void heap_init(struct heap *h, struct definitions *d, uint64_t fork_serial);
void heap_release(struct heap *h);

/* The counters of site `index` up to the present GAP. */
static inline void heap_site_sync(struct heap *h, struct heap_site *s)
{
    if (__builtin_expect(s->gap_epoch == h->gap_epoch, 1)) return;
    s->n.unknown_objects = s->n.allocated_objects - s->n.freed_objects;
    s->n.unknown_bytes = s->n.allocated_bytes - s->n.freed_bytes;
    s->gap_epoch = h->gap_epoch;
}

/* The index of site `id`, its counters in reach. MPP_OK and *index, or an error. */
int heap_site_slow(struct heap *h, uint32_t id, uint32_t *index);
static inline int heap_site(struct heap *h, uint32_t id, uint32_t *index)
{
    uint32_t i = *index = id_map_find(&h->definitions->site_ids, id);

    return __builtin_expect(i < h->site_count && h->sites[i].ready, 1) ? MPP_OK : heap_site_slow(h, id, index);
}
/* To be called some records before heap_site: fetches the counters into the cache. */
static inline void heap_prefetch_site(const struct heap *h, uint32_t id)
{
    uint32_t i = id < h->definitions->site_ids.flat_count ? h->definitions->site_ids.flat[id] - 1 : ID_MAP_NONE;

    if (i < h->site_count) __builtin_prefetch(&h->sites[i], 1);
}
/* To be called when the definition of site `id` came. 0 or MPP_ERR_NO_MEMORY. */
int heap_site_defined(struct heap *h, uint32_t id);

/* Adds to what was ever allocated. MPP_ERR_OVERFLOW: nothing has changed. */
static inline int heap_count_allocated(struct heap *h, uint64_t objects, uint64_t bytes)
{
    uint64_t o, b;

    if (__builtin_add_overflow(h->allocated_objects, objects, &o) || __builtin_add_overflow(h->allocated_bytes, bytes, &b)) {
        return MPP_ERR_OVERFLOW;
    }
    h->allocated_objects = o;
    h->allocated_bytes = b;
    return 0;
}

/* To be called after each record that may have raised the live bytes, with the position behind it. */
static inline void heap_note_peak(struct heap *h, uint64_t position, uint64_t time_ns)
{
    if (h->live_bytes <= h->peak_bytes) return;
    h->peak_bytes = h->live_bytes;
    h->peak_objects = h->live_objects;
    h->peak_position = position;
    h->peak_time_ns = time_ns;
}

/* FREE. */
void heap_free(struct heap *h, uint64_t serial);
/* The rest of §7's table. Those that return int: 0, MPP_ERR_OVERFLOW or MPP_ERR_NO_MEMORY. `next_serial` is the serial of the next ALLOC. */
int heap_size(struct heap *h, uint64_t serial, uint64_t size_bytes);
/* FREE_SIZED. */
int heap_free_sized(struct heap *h, uint64_t serial, uint64_t size_bytes);
int heap_reclass(struct heap *h, uint64_t serial, uint32_t class_id);
int heap_live(struct heap *h, const struct mpp_record *r, uint64_t next_serial);
int heap_folded(struct heap *h, uint32_t site_id, uint64_t objects, uint64_t bytes);
int heap_gap(struct heap *h, uint64_t next_serial);
void heap_gc_start(struct heap *h, uint64_t next_serial);
int heap_gc_end(struct heap *h);
int heap_drop(struct heap *h, uint64_t objects);

/* GCs that an object has seen. */
uint64_t heap_age(const struct heap *h, uint64_t serial, const struct live_object *live);
/* Whether a GAP has passed over it. */
static inline int heap_unknown(const struct heap *h, uint64_t serial, const struct live_object *live)
{
    return live ? live->gap_epoch != h->gap_epoch : serial < h->gap_serial;
}

/* The counters of a site (zeros for one that nothing ever came from), and of the whole. */
struct counters heap_site_counters(struct heap *h, size_t index);
struct counters heap_totals(struct heap *h);

static inline uint64_t counters_live_objects(const struct counters *n)
{
    return n->allocated_objects - n->freed_objects - n->unknown_objects;
}
static inline uint64_t counters_live_bytes(const struct counters *n)
{
    return n->allocated_bytes - n->freed_bytes - n->unknown_bytes;
}
void counters_add(struct counters *to, const struct counters *n);
int counters_are_zero(const struct counters *n);

#endif
