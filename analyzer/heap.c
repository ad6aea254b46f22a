#include "analyzer/heap.h"
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64
_Static_assert(sizeof(struct heap_site) == CACHE_LINE, "one fetch brings all of a site");

void heap_init(struct heap *h, struct definitions *d, uint64_t fork_serial)
{
    *h = (struct heap){.definitions = d, .fork_serial = fork_serial};
}

void heap_release(struct heap *h)
{
    objects_release(&h->objects);
    free(h->sites);
    free(h->gcs);
    *h = (struct heap){0};
}

/* Counters for all sites that there are now. */
static int reach_sites(struct heap *h)
{
    size_t wanted = h->definitions->site_count;

    if (wanted > h->site_capacity) {
        size_t capacity = h->site_capacity ? h->site_capacity : 64;
        while (capacity < wanted) capacity *= 2;
        struct heap_site *sites = aligned_alloc(CACHE_LINE, capacity * sizeof *sites);
        if (!sites) return MPP_ERR_NO_MEMORY;
        if (h->site_count) memcpy(sites, h->sites, h->site_count * sizeof *sites);
        free(h->sites);
        h->sites = sites;
        h->site_capacity = capacity;
    }
    for (size_t i = h->site_count; i < wanted; i++) {
        h->sites[i] = (struct heap_site){.birth_bytes = h->definitions->sites[i].birth_bytes, .gap_epoch = h->gap_epoch};
    }
    h->site_count = wanted;
    return 0;
}

int heap_site_slow(struct heap *h, uint32_t id, uint32_t *index)
{
    uint32_t i = *index = definitions_site(h->definitions, id);

    if (i == ID_MAP_NONE || reach_sites(h)) return MPP_ERR_NO_MEMORY;
    if (h->sites[i].ready) return 0;
    if (h->complete) {
        int error = h->complete(h->complete_context);
        if (error || (error = reach_sites(h))) return error;
    }
    h->sites[i].birth_bytes = h->definitions->sites[i].birth_bytes;
    h->sites[i].ready = 1;
    return 0;
}

int heap_site_defined(struct heap *h, uint32_t id)
{
    uint32_t index = id_map_find(&h->definitions->site_ids, id);

    if (index == ID_MAP_NONE) return 0;
    int error = index < h->site_count ? 0 : reach_sites(h);
    if (error) return error;
    h->sites[index].birth_bytes = h->definitions->sites[index].birth_bytes;
    h->sites[index].ready = 1;
    return 0;
}

static void count_unfindable(struct heap *h, uint64_t serial)
{
    if (serial < h->fork_serial) {
        h->inherited_count++;
    } else {
        h->orphan_count++;
    }
}

/* A live object, whoever made it. */
struct found {
    struct object *object;
    struct object_chunk *chunk;
    struct live_object *live;
    int unknown;
};

static int find(struct heap *h, uint64_t serial, struct found *f)
{
    f->live = NULL;
    f->object = objects_find(&h->objects, serial, &f->chunk);
    if (!f->object) {
        f->live = objects_find_live(&h->objects, serial);
        if (!f->live) return 0;
        f->object = &f->live->object;
    }
    f->unknown = heap_unknown(h, serial, f->live);
    return 1;
}

static void free_found(struct heap *h, const struct found *f)
{
    struct heap_site *s = &h->sites[f->object->site];
    uint64_t weight = f->object->weight, bytes = weight * object_size(f->object);

    heap_site_sync(h, s);
    s->n.freed_objects += weight;
    s->n.freed_bytes += bytes;
    if (f->unknown) {
        s->n.unknown_objects -= weight;
        s->n.unknown_bytes -= bytes;
    } else {
        h->live_objects -= weight;
        h->live_bytes -= bytes;
    }
    if (f->live) {
        objects_remove_live(&h->objects, f->live);
    } else {
        objects_remove(&h->objects, f->chunk, f->object);
    }
}

static int size_found(struct heap *h, const struct found *f, uint64_t size_bytes)
{
    struct heap_site *s = &h->sites[f->object->site];
    uint64_t weight = f->object->weight, old = object_size(f->object);

    heap_site_sync(h, s);
    if (size_bytes >= old) {
        uint64_t grown = weight * (size_bytes - old);
        int error = heap_count_allocated(h, 0, grown);
        if (error) return error;
        s->n.allocated_bytes += grown;
        if (f->unknown) {
            s->n.unknown_bytes += grown;
        } else {
            h->live_bytes += grown;
        }
    } else {
        uint64_t shrunk = weight * (old - size_bytes);
        s->n.freed_bytes += shrunk;
        if (f->unknown) {
            s->n.unknown_bytes -= shrunk;
        } else {
            h->live_bytes -= shrunk;
        }
    }
    object_set_size(f->object, size_bytes);
    return 0;
}

void heap_free(struct heap *h, uint64_t serial)
{
    struct found f;

    if (find(h, serial, &f)) {
        free_found(h, &f);
    } else {
        count_unfindable(h, serial);
    }
}

int heap_size(struct heap *h, uint64_t serial, uint64_t size_bytes)
{
    struct found f;

    if (find(h, serial, &f)) return size_found(h, &f, size_bytes);
    count_unfindable(h, serial);
    return 0;
}

int heap_free_sized(struct heap *h, uint64_t serial, uint64_t size_bytes)
{
    struct found f;

    if (!find(h, serial, &f)) {
        count_unfindable(h, serial);
        return 0;
    }
    int error = size_found(h, &f, size_bytes);
    if (!error) free_found(h, &f);
    return error;
}

int heap_reclass(struct heap *h, uint64_t serial, uint32_t class_id)
{
    struct found f;

    if (!find(h, serial, &f)) {
        count_unfindable(h, serial);
        return 0;
    }
    uint32_t index = definitions_reclass(h->definitions, f.object->site, class_id);
    if (index == ID_MAP_NONE || (index >= h->site_count && reach_sites(h))) return MPP_ERR_NO_MEMORY;
    struct heap_site *from = &h->sites[f.object->site], *to = &h->sites[index];
    uint64_t weight = f.object->weight, bytes = weight * object_size(f.object);
    heap_site_sync(h, from);
    heap_site_sync(h, to);
    from->n.allocated_objects -= weight;
    from->n.allocated_bytes -= bytes;
    to->n.allocated_objects += weight;
    to->n.allocated_bytes += bytes;
    if (f.unknown) {
        from->n.unknown_objects -= weight;
        from->n.unknown_bytes -= bytes;
        to->n.unknown_objects += weight;
        to->n.unknown_bytes += bytes;
    }
    f.object->site = index;
    return 0;
}

int heap_live(struct heap *h, const struct mpp_record *r, uint64_t next_serial)
{
    struct found f;
    uint64_t bytes = r->weight * r->size_bytes;

    if (r->serial >= next_serial || find(h, r->serial, &f)) {
        h->orphan_count++;
        return 0;
    }
    uint32_t index;
    int error = heap_site(h, r->site, &index);
    if (!error) error = heap_count_allocated(h, r->weight, bytes);
    if (error) return error;
    struct live_object *l = objects_add_live(&h->objects, r->serial);
    if (!l) return MPP_ERR_NO_MEMORY;
    l->object = (struct object){.size_and_low = r->size_bytes, .site = index, .weight = r->weight};
    l->age = r->b;
    l->gc_ordinal = h->gc_starts;
    l->gap_epoch = h->gap_epoch;
    struct heap_site *s = &h->sites[index];
    heap_site_sync(h, s);
    s->n.allocated_objects += r->weight;
    s->n.allocated_bytes += bytes;
    h->live_objects += r->weight;
    h->live_bytes += bytes;
    return 0;
}

int heap_folded(struct heap *h, uint32_t site_id, uint64_t objects, uint64_t bytes)
{
    uint32_t index;
    int error = heap_site(h, site_id, &index);

    if (!error) error = heap_count_allocated(h, objects, bytes);
    if (error) return error;
    struct heap_site *s = &h->sites[index];
    heap_site_sync(h, s);
    s->n.allocated_objects += objects;
    s->n.allocated_bytes += bytes;
    s->n.freed_objects += objects;
    s->n.freed_bytes += bytes;
    return 0;
}

int heap_gap(struct heap *h, uint64_t next_serial)
{
    if (h->gap_epoch == UINT32_MAX) return MPP_ERR_OVERFLOW;
    /* Sites learn of it when they are touched next: a GAP costs the same however many there are. */
    h->gap_epoch++;
    h->gap_serial = next_serial;
    h->live_objects = h->live_bytes = 0;
    return 0;
}

void heap_gc_start(struct heap *h, uint64_t next_serial)
{
    h->gc_running = (struct heap_gc){.next_serial = next_serial, .ordinal = ++h->gc_starts};
}

int heap_gc_end(struct heap *h)
{
    if (!h->gc_running.ordinal) return 0;
    if (array_reserve((void **)&h->gcs, &h->gc_capacity, h->gc_count + 1, sizeof *h->gcs)) return MPP_ERR_NO_MEMORY;
    h->gcs[h->gc_count++] = h->gc_running;
    h->gc_running.ordinal = 0;
    return 0;
}

int heap_drop(struct heap *h, uint64_t objects)
{
    return __builtin_add_overflow(h->dropped_objects, objects, &h->dropped_objects) ? MPP_ERR_OVERFLOW : 0;
}

uint64_t heap_age(const struct heap *h, uint64_t serial, const struct live_object *live)
{
    size_t low = 0, high = h->gc_count; /* the first ended GC that started after the birth */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (live ? h->gcs[middle].ordinal <= live->gc_ordinal : h->gcs[middle].next_serial <= serial) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint64_t seen = h->gc_count - low;
    if (!live) return seen;
    return live->age > UINT64_MAX - seen ? UINT64_MAX : live->age + seen;
}

struct counters heap_site_counters(struct heap *h, size_t index)
{
    if (index >= h->site_count) return (struct counters){0};
    heap_site_sync(h, &h->sites[index]);
    return h->sites[index].n;
}

struct counters heap_totals(struct heap *h)
{
    struct counters sum = {0};

    for (size_t i = 0; i < h->site_count; i++) {
        struct counters n = heap_site_counters(h, i);
        counters_add(&sum, &n);
    }
    return sum;
}

void counters_add(struct counters *to, const struct counters *n)
{
    to->allocated_objects += n->allocated_objects;
    to->allocated_bytes += n->allocated_bytes;
    to->freed_objects += n->freed_objects;
    to->freed_bytes += n->freed_bytes;
    to->unknown_objects += n->unknown_objects;
    to->unknown_bytes += n->unknown_bytes;
}

int counters_are_zero(const struct counters *n)
{
    return !(n->allocated_objects | n->allocated_bytes | n->freed_objects | n->freed_bytes | n->unknown_objects | n->unknown_bytes);
}
