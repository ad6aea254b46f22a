#include "analyzer/replay.h"
#include "analyzer/apply.h"
#include "analyzer/progress.h"
#include <errno.h>
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
    feed_free(r->feed);
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

/* What a record does to the heap that is not among those of a batch. Position and time are those behind it. */
static int apply_rare(struct replay *r, const struct mpp_record *record, uint64_t next_serial)
{
    struct heap *h = &r->heap;
    int error = 0;

    switch (record->kind) {
    case MPP_FREE:
        heap_free(h, record->serial);
        break;
    case MPP_FREE_SIZED:
        error = heap_free_sized(h, record->serial, record->size_bytes);
        break;
    case MPP_SIZE:
        error = heap_size(h, record->serial, record->size_bytes);
        break;
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

/* The batch at the front, in which r->at tells what is done already. 1, 0 at the log's end, or an error. */
static int fetch(struct replay *r)
{
    struct history *h = &r->history;

    if (!r->feed) r->feed = feed_new(h->log->reader, r->threads);
    if (!r->feed) return MPP_ERR_NO_MEMORY;
    if (!r->batch) {
        const struct batch *b = r->batch = feed_front(r->feed);
        r->at = (struct batch_cursor){0};
        if (b->end != BATCH_LOG_ENDS) progress_step("reading the log", b->block, mpp_reader_block_count(h->log->reader));
        h->block = b->block;
        h->next_serial = b->block_serial;
    }
    if (r->batch->end == BATCH_FAILED) {
        errno = r->batch->error_number; /* of another thread */
        return r->batch->error;
    }
    return r->batch->end != BATCH_LOG_ENDS;
}

/* Leaves the batch, all of whose records are done; what was wrong behind them is told now. 0 or an error. */
static int leave(struct replay *r)
{
    const struct batch *b = r->batch;
    int error = 0;

    if (b->end == BATCH_MALFORMED) error = log_report_damage(r->history.log, b->block, MPP_DAMAGE_RECORD);
    if (b->end == BATCH_DAMAGED) error = log_report_damage(r->history.log, b->block, b->damage);
    r->history.next_serial = b->next_serial;
    r->batch = NULL;
    feed_next(r->feed);
    return error;
}

/* Records of the batch, the rare one behind them too. */
static uint32_t records_of(const struct batch *b)
{
    return b->record_count + (b->end == BATCH_RARE);
}

/* The batch's records that are still to do, up to `m`. 1 when all are done, 0 where `m` is within them, or an error. */
static int run_batch(struct replay *r, struct moment m)
{
    struct history *h = &r->history;
    const struct batch *b = r->batch;
    struct batch_cursor *at = &r->at;
    uint32_t end = records_of(b);

    if (m.position - h->position < end - at->record) end = at->record + (uint32_t)(m.position - h->position);
    for (uint32_t i = at->time; m.time_ns != UINT64_MAX && i < b->time_count && b->times[i].at < end; i++) {
        if (b->times[i].time_ns > m.time_ns) end = b->times[i].at;
    }
    uint32_t common = end < b->record_count ? end : b->record_count;
    int error = at->record < common ? apply_batch(&r->heap, b, at, common, r->record_counts, &h->position, &h->time_ns) : 0;
    if (error) return error;
    if (end > b->record_count && at->record == b->record_count) {
        h->position++;
        at->record++;
        if (at->time < b->time_count) h->time_ns = b->times[b->time_count - 1].time_ns;
        r->record_counts[b->rare.kind & 0xff]++;
        error = apply_rare(r, &b->rare, b->next_serial);
    }
    return error ? error : at->record == records_of(b);
}

int replay_run(struct replay *r, struct moment m)
{
    if (replay_is_past(r, m)) return 0;
    while (r->history.position < m.position) {
        int got = fetch(r);
        if (got <= 0) return got;
        if (r->at.record < records_of(r->batch)) {
            got = run_batch(r, m);
            if (got <= 0) return got;
        } else {
            int error = leave(r);
            if (error) return error;
        }
    }
    return 0;
}

int replay_is_past(const struct replay *r, struct moment m)
{
    return r->history.position > m.position || (r->history.position && r->history.time_ns > m.time_ns);
}

int replay_finish(struct replay *r, uint64_t *record_count)
{
    int got;

    while ((got = fetch(r)) == 1) {
        const struct batch *b = r->batch;
        int error = 0;
        r->history.position += records_of(b) - r->at.record;
        if (b->end == BATCH_RARE && r->at.record < records_of(b) && is_definition(b->rare.kind) && !r->definitions_complete) {
            error = definitions_apply(r->heap.definitions, &b->rare, FROM_EVENTS);
        }
        if (b->time_count) r->history.time_ns = b->times[b->time_count - 1].time_ns;
        if (!error) error = leave(r);
        if (error) return error;
    }
    *record_count = r->history.position;
    return got;
}

uint64_t replay_next_serial(const struct replay *r)
{
    return r->batch ? r->batch->first_serial + r->at.alloc : r->history.next_serial;
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
