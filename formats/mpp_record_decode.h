/* The decoder of a payload: bytes to struct, one record at a time. It touches no state but its own, and never reads outside its bytes. FORMAT.md §4.
 */
#ifndef MPP_RECORD_DECODE_H
#define MPP_RECORD_DECODE_H

#include "bytes.h"
#include "mpp_error.h"
#include "mpp_format.h"

/* A record, parsed. Which of the fields mean something is told by `kind`; the others hold leftovers. */
struct mpp_record {
    int kind;            /* enum mpp_record_kind; MPP_ALLOC, MPP_FREE and MPP_EXTENSION without the low bits of their first byte */
    uint32_t site;       /* ALLOC, ALLOC_WEIGHTED, LIVE, FOLDED */
    uint32_t weight;     /* ALLOC_WEIGHTED, LIVE */
    uint64_t serial;     /* ALLOC*, FREE*, SIZE, RECLASS, LIVE */
    uint64_t size_bytes; /* FREE_SIZED, SIZE, LIVE; FOLDED: bytes */
    uint32_t id;         /* definitions: the id; RECLASS: class; LABEL: thread; EXTENSION: the first byte */
    uint64_t a, b, c, d; /* TIME: delta_ns · LIVE: birth_time_ns (as int64_t), age · GC_START: gc_count, flags · GC_END: gc_count · GAP: reason ·
                            DROP: count, reason · LABEL: key, value · CLOCK: unix_ns · FOLDED: objects · SAMPLE_PERIOD: period · FORK: child pid ·
                            FUNCTION_NAME: label, path, first line, flags · STACK: parent, function, line · CLASS_NAME: string, flags · THREAD_NAME:
                            string · SITE: stack, class, type, thread; birth_bytes in size_bytes */
    const unsigned char *text; /* STRING, MARK, EXTENSION: bytes inside the payload; GC_END, PROC: the pairs, still encoded (mpp_record_pair) */
    size_t text_bytes;
    uint32_t pair_count; /* GC_END, PROC */
};

/* Decoding one payload. Fill by mpp_decoder_init. */
struct mpp_decoder {
    const unsigned char *at, *end;
    uint64_t time_ns;     /* of the record read last, as the block says it (the replay clamps) */
    uint64_t next_serial; /* of the next ALLOC */
    uint64_t free_base, size_base;
};

static inline void mpp_decoder_init(struct mpp_decoder *d, const unsigned char *payload, size_t bytes, uint64_t first_serial, uint64_t first_time_ns)
{
    d->at = payload;
    d->end = payload + bytes;
    d->time_ns = first_time_ns;
    d->next_serial = d->free_base = d->size_base = first_serial;
}

/* Everything but ALLOC and FREE; in record.c. `at` is behind the first byte. Same results as mpp_decoder_next. */
int mpp_decoder_rare(struct mpp_decoder *d, struct mpp_record *r, unsigned first, const unsigned char *at);

/* Reads the next record. Returns 1 with *r filled, 0 at the payload's end, MPP_ERR_MALFORMED at bytes that are no record (d->at then stands on them).
 */
static inline int mpp_decoder_next(struct mpp_decoder *d, struct mpp_record *r)
{
    const unsigned char *p = d->at;

    if (p >= d->end) return 0;
    unsigned b = *p++;
    if (b >= MPP_ALLOC) {
        uint64_t site = b & 0x3f;
        if (b & 0x40) {
            uint64_t high;
            p = mpp_get_varint(p, d->end, &high);
            if (!p || high > MPP_MAX_ID >> 6) return MPP_ERR_MALFORMED;
            site |= high << 6;
        }
        if (d->next_serial > MPP_MAX_SERIAL || d->next_serial == 0) return MPP_ERR_MALFORMED;
        r->kind = MPP_ALLOC;
        r->site = (uint32_t)site;
        r->serial = d->next_serial++;
        d->at = p;
        return 1;
    }
    if (b >= MPP_FREE) {
        uint64_t u = b & 0x1f;
        if (b & 0x20) {
            uint64_t high;
            p = mpp_get_varint(p, d->end, &high);
            if (!p || high > UINT64_MAX >> 5) return MPP_ERR_MALFORMED;
            u |= high << 5;
        }
        uint64_t serial = d->free_base + (uint64_t)mpp_unzigzag(u);
        if (serial - 1 >= MPP_MAX_SERIAL) return MPP_ERR_MALFORMED;
        r->kind = MPP_FREE;
        r->serial = d->free_base = serial;
        d->at = p;
        return 1;
    }
    return mpp_decoder_rare(d, r, b, p);
}

/* Takes the next (key, value) of a GC_END or PROC record off r->text. Returns 1, or 0 when there are no more. */
int mpp_record_pair(struct mpp_record *r, uint64_t *key, uint64_t *value);

/* "ALLOC", "FREE_SIZED" …; "EXTENSION" for 0x20 to 0x3F. */
const char *mpp_record_kind_name(int kind);
/* "STRING", "HASH" …; NULL for a type without a name. */
const char *mpp_type_name(unsigned type);
/* "rss_bytes", "heap_live_slots" …; NULL when unknown. */
const char *mpp_proc_key_name(uint64_t key);
const char *mpp_gc_key_name(uint64_t key);

#endif
