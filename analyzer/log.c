#include "analyzer/log.h"
#include "analyzer/message.h"
#include "analyzer/units.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int statistics_add(struct statistics *s, struct mpp_record *r, uint64_t time_ns, uint64_t order)
{
    uint64_t key, value;

    while (mpp_record_pair(r, &key, &value)) {
        if (array_reserve((void **)&s->list, &s->capacity, s->count + 1, sizeof *s->list)) return MPP_ERR_NO_MEMORY;
        s->list[s->count++] = (struct statistic){.time_ns = time_ns, .key = key, .value = value, .order = order++};
    }
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct statistic *x = a, *y = b;

    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

int log_statistics(const struct log *l, const struct statistics *history, struct statistics *out)
{
    size_t all = l->statistics.count + history->count;

    *out = (struct statistics){0};
    if (all == 0) return 0;
    if (array_reserve((void **)&out->list, &out->capacity, all, sizeof *out->list)) return MPP_ERR_NO_MEMORY;
    if (history->count) memcpy(out->list, history->list, history->count * sizeof *out->list);
    if (l->statistics.count) memcpy(out->list + history->count, l->statistics.list, l->statistics.count * sizeof *out->list);
    out->count = all;
    qsort(out->list, all, sizeof *out->list, by_time);
    return 0;
}

/* Behind those of the history, which count up from 0. */
#define ASIDE_ORDER (UINT64_C(1) << 62)

/* The blocks that are no history. Of META, INDEX and later kinds only the soundness matters here. */
static int read_aside(struct log *l, size_t i, struct mpp_payload *payload)
{
    const struct mpp_block_ref *b = mpp_reader_block(l->reader, i);
    struct mpp_decoder d;
    struct mpp_record r;
    int got, error = mpp_reader_payload(l->reader, i, payload);

    if (error == MPP_ERR_NO_MEMORY || error == MPP_ERR_IO) return error;
    if (error) return log_report_damage(l, i, MPP_DAMAGE_PAYLOAD);
    if (b->header.kind != MPP_BLOCK_DEFINITIONS && b->header.kind != MPP_BLOCK_PROC) return 0;
    /* No record can have such a time. Of EVENTS blocks the reader has seen to it. */
    if (b->header.first_time_ns > INT64_MAX) return payload->bytes ? log_report_damage(l, i, MPP_DAMAGE_RECORD) : 0;
    mpp_decoder_init(&d, payload->data, payload->bytes, b->header.first_serial, b->header.first_time_ns);
    while ((got = mpp_decoder_next(&d, &r)) == 1) {
        error = 0;
        if (b->header.kind == MPP_BLOCK_PROC) {
            if (d.time_ns > l->proc_time_ns) l->proc_time_ns = d.time_ns;
            if (r.kind == MPP_PROC) error = statistics_add(&l->statistics, &r, d.time_ns, ASIDE_ORDER + l->statistics.count);
        } else if (is_definition(r.kind)) {
            error = definitions_apply(&l->definitions, &r, FROM_DEFINITIONS);
        }
        if (error) return error;
    }
    return got < 0 ? log_report_damage(l, i, MPP_DAMAGE_RECORD) : 0;
}

int log_open_source(struct log *l, const char *path, const struct mpp_source *source)
{
    struct mpp_payload payload = {0};
    int error;

    *l = (struct log){.path = path};
    definitions_init(&l->definitions);
    error = mpp_reader_open(&l->reader, source);
    if (error) return error;
    l->info = mpp_reader_info(l->reader);
    l->end_time_ns = mpp_reader_end_time_ns(l->reader);
    size_t count = mpp_reader_block_count(l->reader);
    l->reported = calloc(count + 1, 1);
    if (!l->reported) error = MPP_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && !error; i++) {
        const struct mpp_block_header *b = &mpp_reader_block(l->reader, i)->header;
        if (b->kind != MPP_BLOCK_EVENTS) error = read_aside(l, i, &payload);
    }
    mpp_payload_release(&payload);
    if (error) {
        log_close(l);
        return error;
    }
    if (l->proc_time_ns > l->end_time_ns) l->end_time_ns = l->proc_time_ns;
    return 0;
}

static void tell_open_failure(const char *path, int error, int cause)
{
    switch (error) {
    case MPP_ERR_IO:
        /* Only what can be read twice is a log. */
        message("cannot read \"%s\": %s", path, cause == ESPIPE ? "it is a pipe or a device, and a log must be a file" : strerror(cause));
        break;
    case MPP_ERR_EMPTY:
        message("\"%s\" is empty: the recorder has not written to it yet, or the disk was full", path);
        break;
    case MPP_ERR_NOT_A_LOG:
        message("\"%s\" is not an mpp log: record one with mpprecord -o FILE -- COMMAND", path);
        break;
    case MPP_ERR_VERSION:
        message("\"%s\" was written by a newer version of the recorder: use a newer mppanalyze", path);
        break;
    case MPP_ERR_TRUNCATED:
        message("\"%s\" is cut off within its header: nothing of the recording is left in it", path);
        break;
    case MPP_ERR_DAMAGED:
        message("\"%s\" is damaged beyond recovery: its header is, and no sound block was found", path);
        break;
    default:
        message("cannot read \"%s\": %s", path, mpp_error_string(error));
    }
}

int log_open(struct log *l, const char *path)
{
    struct mpp_source source;

    errno = 0;
    int error = mpp_source_file(&source, path);
    if (!error) error = log_open_source(l, path, &source);
    if (error) tell_open_failure(path, error, errno);
    return error;
}

void log_close(struct log *l)
{
    definitions_release(&l->definitions);
    mpp_reader_free(l->reader);
    free(l->reported);
    free(l->statistics.list);
    *l = (struct log){0};
}

int log_report_damage(struct log *l, size_t i, enum mpp_damage_kind kind)
{
    const struct mpp_block_ref *b = mpp_reader_block(l->reader, i);

    if (l->reported[i]) return 0;
    l->reported[i] = (unsigned char)(kind + 1);
    struct mpp_damage damage = {.kind = kind,
                                .offset = b->offset,
                                .end_offset = b->offset + b->header.header_bytes + b->header.stored_bytes,
                                .sequence = b->header.sequence,
                                .alloc_count = b->header.alloc_count,
                                .free_count = b->header.free_count,
                                .first_time_ns = b->header.first_time_ns,
                                .last_time_ns = b->header.last_time_ns,
                                .counts_known = !b->in_journal && kind != MPP_DAMAGE_RECORD};
    return mpp_reader_add_damage(l->reader, &damage);
}

uint64_t log_raw_bytes(const struct log *l)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < mpp_reader_block_count(l->reader); i++) {
        const struct mpp_block_ref *b = mpp_reader_block(l->reader, i);
        if (!b->in_journal && l->reported[i] != MPP_DAMAGE_PAYLOAD + 1) sum += b->header.raw_bytes;
    }
    return sum;
}

/* What was lost, in one line. */
static void tell_damage(const struct log *l)
{
    size_t count = mpp_reader_damage_count(l->reader);
    uint64_t allocs = 0, frees = 0, first = UINT64_MAX, last = 0;
    int all_known = 1;
    char span[96] = "", from[32], to[32], lost[128], wrong[64];

    for (size_t i = 0; i < count; i++) {
        const struct mpp_damage *d = mpp_reader_damage(l->reader, i);
        if (d->counts_known) {
            allocs += d->alloc_count;
            frees += d->free_count;
        } else {
            all_known = 0;
        }
        if (d->last_time_ns == 0 && d->first_time_ns == 0) continue;
        if (d->first_time_ns < first) first = d->first_time_ns;
        if (d->last_time_ns > last) last = d->last_time_ns;
    }
    if (first <= last) {
        snprintf(span, sizeof span, " between %s and %s", format_duration(from, sizeof from, first), format_duration(to, sizeof to, last));
    }
    if (allocs || frees) {
        snprintf(lost, sizeof lost, "%s%" PRIu64 " allocations and %" PRIu64 " frees", all_known ? "" : "at least ", allocs, frees);
    } else {
        snprintf(lost, sizeof lost, "%s", all_known ? "no allocations or frees" : "an unknown number of events");
    }
    if (all_known) {
        snprintf(wrong, sizeof wrong, "up to %" PRIu64, frees);
    } else {
        snprintf(wrong, sizeof wrong, "an unknown number of");
    }
    message("\"%s\" is damaged in %zu place%s: %s%s are lost, and %s objects may be reported live wrongly; mppanalyze verify tells where", l->path,
            count, count == 1 ? "" : "s", lost, span, wrong);
}

void log_tell_state(const struct log *l, uint64_t event_count)
{
    char end[32];

    if (mpp_reader_damage_count(l->reader)) tell_damage(l);
    if (!mpp_reader_has_footer(l->reader)) {
        note("\"%s\" has no clean end (the process was killed or still runs): %" PRIu64 " events up to %s were recovered", l->path, event_count,
             format_duration(end, sizeof end, l->end_time_ns));
    }
}
