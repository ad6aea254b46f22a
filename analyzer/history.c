#include "analyzer/history.h"
#include "analyzer/message.h"
#include "analyzer/progress.h"
#include <errno.h>
#include <string.h>

void history_init(struct history *h, struct log *l)
{
    *h = (struct history){.log = l};
}

void history_release(struct history *h)
{
    mpp_payload_release(&h->payload);
}

int history_open_block(struct history *h)
{
    size_t count = mpp_reader_block_count(h->log->reader);

    while (h->next_block < count) {
        size_t i = h->next_block++;
        const struct mpp_block_ref *b = mpp_reader_block(h->log->reader, i);
        int error;

        if (b->header.kind != MPP_BLOCK_EVENTS) continue;
        progress_step("reading the log", i, count);
        if (b->header.first_serial < h->next_serial) {
            error = log_report_damage(h->log, i, MPP_DAMAGE_BLOCK);
            if (error) return error;
            continue;
        }
        error = mpp_reader_payload(h->log->reader, i, &h->payload);
        if (error == MPP_ERR_NO_MEMORY || error == MPP_ERR_IO) return error;
        if (error) {
            error = log_report_damage(h->log, i, b->in_journal ? MPP_DAMAGE_JOURNAL : MPP_DAMAGE_PAYLOAD);
            if (error) return error;
            continue;
        }
        mpp_decoder_init(&h->decoder, h->payload.data, h->payload.bytes, b->header.first_serial, b->header.first_time_ns);
        h->block = i;
        h->in_block = 1;
        return 1;
    }
    return 0;
}

int history_close_block(struct history *h, int malformed)
{
    if (!h->in_block) return 0;
    h->in_block = 0;
    if (h->decoder.next_serial > h->next_serial) h->next_serial = h->decoder.next_serial;
    return malformed ? log_report_damage(h->log, h->block, MPP_DAMAGE_RECORD) : 0;
}

int history_next(struct history *h, struct mpp_record *r)
{
    for (;;) {
        int got, error;

        if (!h->in_block && (got = history_open_block(h)) <= 0) return got;
        got = mpp_decoder_next(&h->decoder, r);
        if (got == 1) {
            h->position++;
            if (h->decoder.time_ns > h->time_ns) h->time_ns = h->decoder.time_ns;
            return 1;
        }
        if (got < 0 && got != MPP_ERR_MALFORMED) return got;
        error = history_close_block(h, got < 0);
        if (error) return error;
    }
}

/* Whether the headers' times tell a plausible story; *last: the last block of the history. */
static int headers_agree(const struct log *l, size_t *last)
{
    uint64_t reached = 0;

    *last = SIZE_MAX;
    for (size_t i = 0; i < mpp_reader_block_count(l->reader); i++) {
        const struct mpp_block_ref *b = mpp_reader_block(l->reader, i);
        if (b->header.kind != MPP_BLOCK_EVENTS) continue;
        *last = i;
        if (b->in_journal) return 0; /* of a half only its records tell the time; few logs have more than two */
        if (b->header.first_time_ns < reached || b->header.last_time_ns < b->header.first_time_ns) return 0;
        reached = b->header.last_time_ns;
    }
    return mpp_reader_damage_count(l->reader) == 0;
}

int history_settle_end(struct log *l)
{
    struct history h;
    struct mpp_record r;
    size_t last;
    int got, trusted = headers_agree(l, &last);

    history_init(&h, l);
    if (trusted && last != SIZE_MAX) {
        h.next_block = last;
        while ((got = history_next(&h, &r)) == 1) {
        }
        trusted = got == 0 && h.time_ns == mpp_reader_block(l->reader, last)->header.last_time_ns;
        history_release(&h);
        history_init(&h, l);
    }
    got = 0;
    if (!trusted) {
        while ((got = history_next(&h, &r)) == 1) {
        }
        l->end_time_ns = h.time_ns;
        if (l->proc_time_ns > l->end_time_ns) l->end_time_ns = l->proc_time_ns;
        if (mpp_reader_footer_time_ns(l->reader) > l->end_time_ns) l->end_time_ns = mpp_reader_footer_time_ns(l->reader);
    }
    history_release(&h);
    return got;
}

void history_fail(const struct log *l, int error)
{
    if (error == MPP_ERR_IO) {
        message("cannot read \"%s\": %s", l->path, strerror(errno));
    } else if (error == MPP_ERR_OVERFLOW) {
        message("sums beyond 64 bits in \"%s\": the log is not one of a real process", l->path);
    } else {
        message("cannot read \"%s\": %s", l->path, mpp_error_string(error));
    }
}
