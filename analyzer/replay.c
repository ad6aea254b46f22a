#include "analyzer/replay.h"
#include <stdlib.h>
#include <string.h>

/* Reads the definitions of the blocks from the open one on, ahead of the replay: a site is used that none has defined yet. The definition may be
 * lost, or stand in the trailer, or come late in a log that no recorder of ours wrote: definitions hold for all of a log. */
static int complete_definitions(void *context)
{
    struct replay *r = context;
    struct history ahead;
    struct mpp_record record;
    int got, error = 0;

    if (r->definitions_complete) return 0;
    r->definitions_complete = 1;
    history_init(&ahead, r->history.log);
    ahead.next_block = r->history.block;
    ahead.next_serial = r->history.next_serial;
    while (!error && (got = history_next(&ahead, &record)) == 1) {
        if (is_definition(record.kind)) error = definitions_apply(r->heap.definitions, &record, FROM_EVENTS);
    }
    history_release(&ahead);
    return error ? error : got;
}

void replay_init(struct replay *r, struct log *l)
{
    *r = (struct replay){.wall_unix_ns = l->info->start_unix_ns, .sample_period = l->info->sample_period ? l->info->sample_period : 1};
    history_init(&r->history, l);
    heap_init(&r->heap, &l->definitions, l->info->fork_serial);
    r->heap.complete = complete_definitions;
    r->heap.complete_context = r;
}

void replay_release(struct replay *r)
{
    for (size_t i = 0; i < r->mark_count; i++) free(r->marks[i].name);
    free(r->marks);
    free(r->statistics.list);
    heap_release(&r->heap);
    history_release(&r->history);
}

static int note_mark(struct replay *r, const struct mpp_record *record)
{
    if (!r->keep_all) return 0;
    if (array_reserve((void **)&r->marks, &r->mark_capacity, r->mark_count + 1, sizeof *r->marks)) return MPP_ERR_NO_MEMORY;
    char *name = malloc(record->text_bytes + 1);
    if (!name) return MPP_ERR_NO_MEMORY;
    if (record->text_bytes) memcpy(name, record->text, record->text_bytes);
    name[record->text_bytes] = 0;
    r->marks[r->mark_count++] =
        (struct replay_mark){.position = r->history.position, .time_ns = r->history.time_ns, .name = name, .length = record->text_bytes};
    return 0;
}

/* What a record does to the heap, all kinds but those of a batch. Position and time are those behind it. */
static int apply_rare(struct replay *r, const struct mpp_record *record, uint64_t next_serial)
{
    struct heap *h = &r->heap;
    int error = 0;

    switch (record->kind) {
    case MPP_RECLASS:
        error = heap_reclass(h, record->serial, record->id);
        break;
    case MPP_LIVE:
        error = heap_live(h, record, next_serial);
        break;
    case MPP_FOLDED:
        error = heap_folded(h, record->site, record->a, record->size_bytes);
        break;
    case MPP_GAP:
        error = heap_gap(h, next_serial);
        break;
    case MPP_DROP:
        error = heap_drop(h, record->a);
        break;
    case MPP_GC_START:
        heap_gc_start(h, next_serial);
        break;
    case MPP_GC_END:
        error = heap_gc_end(h);
        r->gc_count = record->a;
        r->gc_known = 1;
        break;
    case MPP_MARK:
        error = note_mark(r, record);
        break;
    case MPP_PROC: {
        struct mpp_record pairs = *record;
        if (r->keep_all) error = statistics_add(&r->statistics, &pairs, r->history.time_ns, r->statistics.count);
        break;
    }
    case MPP_CLOCK:
        r->wall_unix_ns = record->a;
        r->wall_time_ns = r->history.time_ns;
        break;
    case MPP_SAMPLE_PERIOD:
        r->sample_period = record->a;
        break;
    default:
        if (!is_definition(record->kind)) break;
        if (!r->definitions_complete) error = definitions_apply(h->definitions, record, FROM_EVENTS);
        if (!error && record->kind == MPP_SITE) error = heap_site_defined(h, record->id);
    }
    heap_note_peak(h, r->history.position, r->history.time_ns);
    return error;
}

/* Looks at the next record of the open block with a copy of the decoder. Whether it stands after `time_ns`; if not, its block's time counts from now
 * on. */
static int next_is_after(struct history *h, uint64_t time_ns)
{
    struct mpp_decoder ahead = h->decoder;
    struct mpp_record record;

    if (mpp_decoder_next(&ahead, &record) != 1) return 0;
    if ((ahead.time_ns > h->time_ns ? ahead.time_ns : h->time_ns) > time_ns) return 1;
    if (h->decoder.time_ns > h->time_ns) h->time_ns = h->decoder.time_ns;
    return 0;
}

enum stop { STOP_MOMENT = 1, STOP_BLOCK = 2, STOP_MALFORMED = 3, GO_ON = 4 };

/* The common records go through in batches: decoded, their objects fetched into the cache step by step, then applied. */
#define BATCH_RECORDS 64

struct batch_record {
    int kind;        /* ALLOC (of any weight), FREE, FREE_SIZED, SIZE or TIME */
    uint32_t site;   /* ALLOC */
    uint64_t serial; /* TIME: the time that stands from here on */
    uint64_t number; /* ALLOC: weight; FREE_SIZED, SIZE: size_bytes */
};

struct batch {
    struct batch_record records[BATCH_RECORDS];
    size_t count;
    struct mpp_record rare; /* one that ended the batch and is none of it; kind 0: none */
};

/* Fills the batch with up to `limit` records, none of them after `time_ns`. Why it ended: GO_ON when it is full or has met a rare record, another
 * stop or an error. */
static int fill_batch(const struct replay *r, struct mpp_decoder *d, struct batch *b, uint64_t limit, uint64_t time_ns)
{
    uint64_t reached_ns = r->history.time_ns;
    struct mpp_record record = {.kind = 0}; /* leftovers are copied */

    b->count = 0;
    b->rare.kind = 0;
    if (limit > BATCH_RECORDS) limit = BATCH_RECORDS;
    while (b->count < limit) {
        const unsigned char *start = d->at;
        struct batch_record *to = &b->records[b->count];
        int got = mpp_decoder_next(d, &record);
        if (__builtin_expect(got <= 0, 0)) return got == 0 ? STOP_BLOCK : got == MPP_ERR_MALFORMED ? STOP_MALFORMED : got;
        to->kind = record.kind;
        to->serial = record.serial;
        switch (record.kind) {
        case MPP_ALLOC:
        case MPP_ALLOC_WEIGHTED:
            to->site = record.site;
            to->number = record.kind == MPP_ALLOC ? 1 : record.weight;
            break;
        case MPP_FREE:
        case MPP_FREE_SIZED:
        case MPP_SIZE:
            to->number = record.size_bytes;
            objects_prefetch_chunk(&r->heap.objects, record.serial);
            break;
        case MPP_TIME:
            if (d->time_ns > time_ns && d->time_ns > reached_ns) {
                d->at = start;
                d->time_ns -= record.a;
                return STOP_MOMENT;
            }
            if (d->time_ns > reached_ns) reached_ns = d->time_ns;
            to->serial = reached_ns;
            break;
        default:
            b->rare = record;
            return GO_ON;
        }
        b->count++;
    }
    return GO_ON;
}

/* Applies the batch; position and time go on. 0 or an error. */
static int apply_batch(struct replay *r, const struct batch *b)
{
    struct heap *heap = &r->heap;
    uint64_t position = r->history.position, time_ns = r->history.time_ns;
    int error = 0;

    for (size_t i = 0; i < b->count; i++) {
        if (b->records[i].kind != MPP_ALLOC && b->records[i].kind != MPP_TIME) objects_prefetch_object(&heap->objects, b->records[i].serial);
    }
    for (size_t i = 0; i < b->count && !error; i++) {
        const struct batch_record *a = &b->records[i];
        position++;
        r->record_counts[a->kind & 0xff]++;
        switch (a->kind) {
        case MPP_FREE:
            heap_free(heap, a->serial);
            continue;
        case MPP_ALLOC:
        case MPP_ALLOC_WEIGHTED:
            error = heap_alloc(heap, a->serial, a->site, (uint32_t)a->number);
            break;
        case MPP_TIME:
            time_ns = a->serial;
            continue;
        case MPP_SIZE:
            error = heap_size(heap, a->serial, a->number);
            break;
        default:
            error = heap_free_sized(heap, a->serial, a->number);
            continue; /* one record: no peak between its SIZE and its FREE */
        }
        heap_note_peak(heap, position, time_ns);
    }
    r->history.position = position;
    r->history.time_ns = time_ns;
    return error;
}

/* The open block up to `m`. An error, or why it stopped. */
static int run_block(struct replay *r, struct moment m)
{
    struct history *h = &r->history;
    struct mpp_decoder d = h->decoder; /* a copy, which can live in registers */
    struct batch b;
    int stop = GO_ON;

    while (stop == GO_ON) {
        if (h->position >= m.position) {
            stop = STOP_MOMENT;
            break;
        }
        stop = fill_batch(r, &d, &b, m.position - h->position, m.time_ns);
        int error = apply_batch(r, &b);
        if (error) return error;
        if (!b.rare.kind) continue;
        h->position++;
        r->record_counts[b.rare.kind & 0xff]++;
        error = apply_rare(r, &b.rare, d.next_serial);
        if (error) return error;
    }
    h->decoder = d;
    return stop;
}

int replay_run(struct replay *r, struct moment m)
{
    struct history *h = &r->history;

    if (replay_is_past(r, m)) return 0;
    while (h->position < m.position) {
        if (!h->in_block) {
            int opened = history_open_block(h);
            if (opened <= 0) return opened;
        }
        if (next_is_after(h, m.time_ns)) return 0;
        int stopped = run_block(r, m);
        if (stopped < 0) return stopped;
        if (stopped == STOP_MOMENT) return 0;
        int error = history_close_block(h, stopped == STOP_MALFORMED);
        if (error) return error;
    }
    return 0;
}

int replay_is_past(const struct replay *r, struct moment m)
{
    return r->history.position > m.position || (r->history.position && r->history.time_ns > m.time_ns);
}

int replay_finish(struct replay *r, uint64_t *record_count)
{
    struct mpp_record record;
    int got;

    while ((got = history_next(&r->history, &record)) == 1) {
        if (!is_definition(record.kind) || r->definitions_complete) continue;
        int error = definitions_apply(r->heap.definitions, &record, FROM_EVENTS);
        if (error) return error;
    }
    *record_count = r->history.position;
    return got;
}

uint64_t replay_next_serial(const struct replay *r)
{
    return r->history.in_block && r->history.decoder.next_serial > r->history.next_serial ? r->history.decoder.next_serial : r->history.next_serial;
}

uint64_t replay_wall_ns(const struct replay *r, uint64_t time_ns)
{
    uint64_t since = time_ns > r->wall_time_ns ? time_ns - r->wall_time_ns : 0;

    return r->wall_unix_ns > UINT64_MAX - since ? UINT64_MAX : r->wall_unix_ns + since;
}

uint64_t replay_event_count(const struct replay *r)
{
    const uint64_t *n = r->record_counts;

    return n[MPP_ALLOC] + n[MPP_ALLOC_WEIGHTED] + n[MPP_FREE] + n[MPP_FREE_SIZED] + n[MPP_SIZE];
}
