/* The inner loops of the replay. In a batch all births are applied, then all changes: no record of a batch touches what is born behind it, and the
 * sums of §7 do not depend on the order, save for the peak. What each record does to the live bytes is noted, and the peak looked for in the end,
 * where a batch may have reached one at all. Sums of the whole are kept in registers, and what may be beyond 64 bits is told by one flag.
 *
 * Most of a change's time is waiting: chunk, index, object and site lie all over the memory. So changes go in groups, in three rounds, each of which
 * fetches into the cache what the next one reads. */
#include "analyzer/apply.h"

/* What a batch does, record by record, and in sum. */
struct effects {
    uint64_t bytes[BATCH_RECORDS];  /* that become live, modulo 2^64 */
    int32_t objects[BATCH_RECORDS]; /* weights are below 2^24 */
    uint64_t born_objects, born_bytes;
    uint64_t grown_bytes;              /* by SIZE and FREE_SIZED */
    uint64_t live_objects, live_bytes; /* modulo 2^64 */
    int is_beyond;                     /* a sum is beyond 64 bits */
};

/* So many records ahead of their use are sites fetched. */
#define SITES_AHEAD 12

static int apply_allocs(struct heap *h, const struct batch *b, uint32_t from, uint32_t to, struct effects *f)
{
    uint64_t serial = b->first_serial + from, objects = 0, all_bytes = 0;
    int is_beyond = 0, error = 0;

    for (uint32_t i = from; i < to;) {
        error = objects_enter(&h->objects, serial);
        if (error) return error;
        struct object_chunk *c = h->objects.current;
        uint32_t low = (uint32_t)serial & (CHUNK_OBJECTS - 1), run = CHUNK_OBJECTS - low;
        if (run > to - i) run = to - i;
        struct object *e = &c->entries[low];
        c->live += run;
        serial += run;
        for (uint32_t end = i + run; i < end; i++, e++) {
            uint32_t index, weight = b->allocs[i].weight & ~BATCH_WEIGHTED, at = b->alloc_at[i];
            if (i + SITES_AHEAD < to) heap_prefetch_site(h, b->allocs[i + SITES_AHEAD].site);
            error = heap_site(h, b->allocs[i].site, &index);
            if (__builtin_expect(error, 0)) return error;
            struct heap_site *s = &h->sites[index];
            uint64_t bytes = weight * s->birth_bytes;
            heap_site_sync(h, s);
            s->n.allocated_objects += weight;
            s->n.allocated_bytes += bytes;
            *e = (struct object){.size_and_low = s->birth_bytes, .site = index, .weight = weight};
            objects += weight;
            is_beyond |= __builtin_add_overflow(all_bytes, bytes, &all_bytes);
            f->bytes[at] = bytes;
            f->objects[at] = (int32_t)weight;
        }
    }
    f->born_objects = objects;
    f->born_bytes = all_bytes;
    f->live_objects += objects;
    f->live_bytes += all_bytes;
    f->is_beyond |= is_beyond;
    return 0;
}

/* An object that is not where the living are, or that a GAP has passed over. */
static int touch_rare(struct heap *h, const struct batch_touch *t, uint64_t *bytes, int32_t *objects)
{
    uint64_t serial = t->serial_and_kind & BATCH_SERIAL, bytes_before = h->live_bytes, objects_before = h->live_objects;
    int error = 0;

    if (!(t->serial_and_kind & BATCH_SIZED)) {
        heap_free(h, serial);
    } else if (t->serial_and_kind & BATCH_FREES) {
        error = heap_free_sized(h, serial, t->size_bytes);
    } else {
        error = heap_size(h, serial, t->size_bytes);
    }
    *bytes = h->live_bytes - bytes_before;
    *objects = (int32_t)(h->live_objects - objects_before);
    return error;
}

#define GROUP 64

/* Where the objects of a group lie. `nobody`: not found. */
struct places {
    struct object_chunk *chunks[GROUP];
    const uint64_t *words[GROUP];
    struct object *objects[GROUP + SITES_AHEAD];
};
static struct object nobody; /* its weight is 0 */
static const uint64_t no_word;

BITS_BODY void find_group(const struct objects *o, const struct batch_touch *t, uint32_t count, struct places *p, int at_once)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t serial = t[i].serial_and_kind & BATCH_SERIAL;
        struct object_chunk *c = p->chunks[i] = objects_chunk(o, serial >> CHUNK_BITS);
        const uint64_t *word = c && c->index ? objects_index_word(c, serial) : &no_word;
        __builtin_prefetch(word);
        p->words[i] = word;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t serial = t[i].serial_and_kind & BATCH_SERIAL;
        struct object_chunk *c = p->chunks[i];
        struct object *e = NULL;
        if (__builtin_expect(p->words[i] != &no_word, 1)) {
            e = objects_indexed(c, serial, *p->words[i], at_once);
            __builtin_prefetch(e, 1);
        } else if (c) {
            e = objects_listed(c, serial);
        }
        p->objects[i] = e ? e : &nobody;
    }
    for (uint32_t i = count; i < count + SITES_AHEAD; i++) p->objects[i] = &nobody;
}

BITS_BODY int touches_body(struct heap *h, const struct batch *b, uint32_t from, uint32_t to, struct effects *f, int at_once)
{
    uint64_t grown_bytes = 0, live_objects = 0, live_bytes = 0;
    int is_beyond = 0, error = 0;
    struct places p;

    for (uint32_t start = from; start < to && !error; start += GROUP) {
        const struct batch_touch *t = &b->touches[start];
        uint32_t count = to - start < GROUP ? to - start : GROUP;
        find_group(&h->objects, t, count, &p, at_once);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t kind = t[i].serial_and_kind, is_free = kind >> 63, is_sized = kind >> 62 & 1;
            uint32_t at = b->touch_at[start + i];
            struct object *e = p.objects[i];
            __builtin_prefetch(&h->sites[p.objects[i + SITES_AHEAD]->site], 1);
            if (__builtin_expect(!e->weight || (kind & BATCH_SERIAL) < h->gap_serial, 0)) {
                error = touch_rare(h, &t[i], &f->bytes[at], &f->objects[at]);
                if (error) break;
                continue;
            }
            struct heap_site *s = &h->sites[e->site];
            uint64_t weight = e->weight, old = object_size(e), size = is_sized ? t[i].size_bytes : old;
            uint64_t gone_objects = weight & (0 - is_free), stays = weight - gone_objects;
            uint64_t grown = size > old ? weight * (size - old) : 0;
            /* SIZE, then FREE: what shrank, and what is left then, are freed bytes. */
            uint64_t freed = weight * old + grown - stays * size, change = stays * size - weight * old;
            heap_site_sync(h, s);
            s->n.allocated_bytes += grown;
            __asm__ volatile("" ::: "memory");
            s->n.freed_bytes += freed;
            s->n.freed_objects += gone_objects;
            is_beyond |= __builtin_add_overflow(grown_bytes, grown, &grown_bytes);
            live_objects -= gone_objects;
            live_bytes += change;
            f->bytes[at] = change;
            f->objects[at] = -(int32_t)gone_objects;
            if (is_free) {
                objects_remove(&h->objects, p.chunks[i], e);
            } else {
                object_set_size(e, size);
            }
        }
        if (h->objects.emptied_count) objects_drop_emptied(&h->objects);
    }
    f->grown_bytes += grown_bytes;
    f->live_objects += live_objects;
    f->live_bytes += live_bytes;
    f->is_beyond |= is_beyond;
    return error;
}

static int apply_touches(struct heap *h, const struct batch *b, uint32_t from, uint32_t to, struct effects *f)
{
    return touches_body(h, b, from, to, f, 0);
}

static BITS_AT_ONCE_TARGET int apply_touches_faster(struct heap *h, const struct batch *b, uint32_t from, uint32_t to, struct effects *f)
{
    return touches_body(h, b, from, to, f, 1);
}

/* Counts the records by kind. */
static void count_kinds(const struct batch *b, const struct batch_cursor *from, const struct batch_cursor *to, uint64_t *counts)
{
    uint32_t weighted = b->weighted_count, free_sized = b->free_sized_count, size = b->size_count;
    uint32_t allocs = to->alloc - from->alloc, touches = to->touch - from->touch;

    if (to->record - from->record < b->record_count) {
        weighted = free_sized = size = 0;
        for (uint32_t i = from->alloc; i < to->alloc; i++) weighted += b->allocs[i].weight >> 31;
        for (uint32_t i = from->touch; i < to->touch; i++) {
            uint64_t kind = b->touches[i].serial_and_kind;
            free_sized += (kind & BATCH_FREES) && (kind & BATCH_SIZED);
            size += !(kind & BATCH_FREES);
        }
    }
    counts[MPP_ALLOC] += allocs - weighted;
    counts[MPP_ALLOC_WEIGHTED] += weighted;
    counts[MPP_FREE] += touches - free_sized - size;
    counts[MPP_FREE_SIZED] += free_sized;
    counts[MPP_SIZE] += size;
    counts[MPP_TIME] += to->record - from->record - allocs - touches;
}

/* Looks for a new peak among the records `from` to `end`, whose effects are known; the sums before them are given. */
static void find_peak(struct heap *h, const struct batch *b, const struct effects *f, uint32_t from, uint32_t end, uint64_t live_objects,
                      uint64_t live_bytes, uint64_t position, uint64_t time_ns)
{
    uint64_t peak_bytes = h->peak_bytes, peak_objects = 0;
    uint32_t peak_at = end;

    for (uint32_t i = from; i < end; i++) {
        live_bytes += f->bytes[i];
        live_objects += (uint64_t)(int64_t)f->objects[i];
        if (live_bytes > peak_bytes) {
            peak_bytes = live_bytes;
            peak_objects = live_objects;
            peak_at = i;
        }
    }
    if (peak_at == end) return;
    for (uint32_t i = 0; i < b->time_count && b->times[i].at <= peak_at; i++) time_ns = b->times[i].time_ns;
    h->peak_bytes = peak_bytes;
    h->peak_objects = peak_objects;
    h->peak_position = position + (peak_at - from) + 1;
    h->peak_time_ns = time_ns;
}

/* The first of `count` rising numbers from `i` on that is `end` or above. */
static uint32_t first_at(const uint16_t *at, uint32_t i, uint32_t count, uint32_t end)
{
    while (i < count && at[i] < end) i++;
    return i;
}

int apply_batch(struct heap *h, const struct batch *b, struct batch_cursor *at, uint32_t end, uint64_t *counts, uint64_t *position, uint64_t *time_ns)
{
    struct effects f;
    struct batch_cursor to = {.record = end, .alloc = b->alloc_count, .touch = b->touch_count, .time = at->time};
    uint64_t live_objects = h->live_objects, live_bytes = h->live_bytes, highest;

    if (end < b->record_count) {
        to.alloc = first_at(b->alloc_at, at->alloc, b->alloc_count, end);
        to.touch = first_at(b->touch_at, at->touch, b->touch_count, end);
    }
    f.born_objects = f.born_bytes = f.grown_bytes = f.live_objects = f.live_bytes = 0;
    f.is_beyond = 0;
    for (uint32_t i = 0; i < b->still_count; i++) {
        f.bytes[b->still_at[i]] = 0;
        f.objects[b->still_at[i]] = 0;
    }
    int error = apply_allocs(h, b, at->alloc, to.alloc, &f);
    if (!error) error = bits_at_once() ? apply_touches_faster(h, b, at->touch, to.touch, &f) : apply_touches(h, b, at->touch, to.touch, &f);
    if (error) return error;
    if (f.is_beyond || __builtin_add_overflow(f.born_bytes, f.grown_bytes, &highest)) return MPP_ERR_OVERFLOW;
    error = heap_count_allocated(h, f.born_objects, highest);
    if (error) return error;
    h->live_objects += f.live_objects;
    h->live_bytes += f.live_bytes;
    /* What touch_rare did is in the heap already: only where it can raise the live bytes is the bound none. */
    if (__builtin_add_overflow(highest, live_bytes, &highest) || highest > h->peak_bytes || h->objects.live_count) {
        find_peak(h, b, &f, at->record, end, live_objects, live_bytes, *position, *time_ns);
    }
    count_kinds(b, at, &to, counts);
    while (to.time < b->time_count && b->times[to.time].at < end) *time_ns = b->times[to.time++].time_ns;
    *position += end - at->record;
    *at = to;
    return 0;
}
