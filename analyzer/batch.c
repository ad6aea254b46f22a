/* Filling a batch: the inner loop of all reading. Which kind comes next can mostly be foretold, for births and deaths come in rows; how long a number
 * is cannot. So numbers are taken from eight bytes at once, without a branch by length, and whatever is unusual goes through the plain decoder,
 * which alone knows what is malformed. */
#include "analyzer/batch.h"
#include "analyzer/bits.h"
#include <endian.h>
#include <string.h>

/* The loop reads eight bytes at the record, and eight more behind its first number. */
#define FAST_BYTES 24

static inline uint64_t load(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

/* The varint that `bytes` begins with, its length in *length. Longer than five bytes: nothing, and *length is 0. */
BITS_BODY uint64_t short_varint(uint64_t bytes, unsigned *length, int at_once)
{
    uint64_t last = ~bytes & UINT64_C(0x8080808080); /* bits that end a varint; the lowest one ends this */

    *length = last ? ((unsigned)__builtin_ctzll(last) + 1) / 8 : 0;
    return bits_of_varint(bytes & (last ^ (last - 1)) & UINT64_C(0x7f7f7f7f7f), at_once);
}

static inline void note_time(struct batch *b, uint32_t at, uint64_t time_ns, uint64_t *reached_ns)
{
    if (time_ns <= *reached_ns) return;
    *reached_ns = time_ns;
    if (b->time_count && b->times[b->time_count - 1].at == at) b->time_count--;
    b->times[b->time_count++] = (struct batch_time){.time_ns = time_ns, .at = at};
}

static inline void add_touch(struct batch *b, uint32_t at, uint64_t serial_and_kind, uint64_t size_bytes)
{
    b->touches[b->touch_count] = (struct batch_touch){.serial_and_kind = serial_and_kind, .size_bytes = size_bytes};
    b->touch_at[b->touch_count++] = (uint16_t)at;
}

static inline void add_alloc(struct batch *b, uint32_t at, uint32_t site, uint32_t weight)
{
    b->allocs[b->alloc_count] = (struct batch_alloc){.site = site, .weight = weight};
    b->alloc_at[b->alloc_count++] = (uint16_t)at;
}

/* Takes the records that are as they mostly are; ends where the batch is full or before one that is not. */
BITS_BODY void fill_fast_body(struct batch *b, struct mpp_decoder *decoder, uint64_t *reached_ns, int at_once)
{
    struct mpp_decoder d = *decoder; /* lives in registers, as the counts do */
    const unsigned char *fast_end = d.end - FAST_BYTES;
    uint32_t n = b->record_count, allocs = b->alloc_count, touches = b->touch_count;

    for (; n < BATCH_RECORDS && d.at <= fast_end; n++) {
        uint64_t bytes = load(d.at);
        unsigned first = bytes & 0xff, length;
        if (first >= MPP_ALLOC) {
            uint64_t has_more = 0 - (uint64_t)(first >> 6 & 1), high = short_varint(bytes >> 8 & has_more, &length, at_once);
            if (__builtin_expect(!length || high > MPP_MAX_ID >> 6 || d.next_serial - 1 >= MPP_MAX_SERIAL, 0)) break;
            b->allocs[allocs] = (struct batch_alloc){.site = (uint32_t)((first & 0x3f) | high << 6), .weight = 1};
            b->alloc_at[allocs++] = (uint16_t)n;
            d.next_serial++;
            d.at += 1 + (length & has_more);
        } else if (first >= MPP_FREE) {
            uint64_t has_more = 0 - (uint64_t)(first >> 5 & 1), high = short_varint(bytes >> 8 & has_more, &length, at_once);
            uint64_t serial = d.free_base + (uint64_t)mpp_unzigzag((first & 0x1f) | high << 5);
            /* An object of the future is nobody's, and must not be taken for one that this batch will bear. */
            if (__builtin_expect(!length || serial - 1 >= MPP_MAX_SERIAL || serial >= d.next_serial, 0)) break;
            d.free_base = serial;
            b->touches[touches].serial_and_kind = serial | BATCH_FREES;
            b->touch_at[touches++] = (uint16_t)n;
            d.at += 1 + (length & has_more);
        } else if (first == MPP_SIZE || first == MPP_FREE_SIZED) {
            uint64_t delta = short_varint(bytes >> 8, &length, at_once);
            const unsigned char *p = d.at + 1 + length;
            if (__builtin_expect(!length, 0)) break;
            uint64_t size_bytes = short_varint(load(p), &length, at_once), is_free = first == MPP_FREE_SIZED;
            uint64_t serial = (is_free ? d.free_base : d.size_base) + (uint64_t)mpp_unzigzag(delta);
            if (__builtin_expect(!length || serial - 1 >= MPP_MAX_SERIAL || serial >= d.next_serial, 0)) break;
            d.free_base = is_free ? serial : d.free_base;
            d.size_base = is_free ? d.size_base : serial;
            b->touches[touches] = (struct batch_touch){.serial_and_kind = serial | BATCH_SIZED | is_free << 63, .size_bytes = size_bytes};
            b->touch_at[touches++] = (uint16_t)n;
            b->free_sized_count += (uint32_t)is_free;
            b->size_count += !is_free;
            d.at = p + length;
        } else if (first == MPP_TIME) {
            uint64_t delta = short_varint(bytes >> 8, &length, at_once), time_ns = d.time_ns + delta;
            if (__builtin_expect(!length || d.time_ns > UINT64_MAX >> 1 || time_ns > UINT64_MAX >> 1, 0)) break;
            d.time_ns = time_ns;
            note_time(b, n, time_ns, reached_ns);
            b->still_at[b->still_count++] = (uint16_t)n;
            d.at += 1 + length;
        } else {
            break;
        }
    }
    b->record_count = n;
    b->alloc_count = allocs;
    b->touch_count = touches;
    *decoder = d;
}

static void fill_fast(struct batch *b, struct mpp_decoder *d, uint64_t *reached_ns)
{
    fill_fast_body(b, d, reached_ns, 0);
}

static BITS_AT_ONCE_TARGET void fill_faster(struct batch *b, struct mpp_decoder *d, uint64_t *reached_ns)
{
    fill_fast_body(b, d, reached_ns, 1);
}

/* Takes one record, whatever it is. Whether the batch goes on. */
static int fill_one(struct batch *b, struct mpp_decoder *d, uint64_t *reached_ns)
{
    struct mpp_record r = {.kind = 0}; /* leftovers are copied */
    int got = mpp_decoder_next(d, &r);

    if (got != 1) {
        b->end = got == 0 ? BATCH_BLOCK_ENDS : BATCH_MALFORMED;
        return 0;
    }
    switch (r.kind) {
    case MPP_ALLOC:
        add_alloc(b, b->record_count, r.site, 1);
        break;
    case MPP_ALLOC_WEIGHTED:
        add_alloc(b, b->record_count, r.site, r.weight | BATCH_WEIGHTED);
        b->weighted_count++;
        break;
    case MPP_FREE:
    case MPP_FREE_SIZED:
    case MPP_SIZE:
        if (r.serial >= d->next_serial) goto rare;
        b->free_sized_count += r.kind == MPP_FREE_SIZED;
        b->size_count += r.kind == MPP_SIZE;
        add_touch(b, b->record_count, r.serial | (r.kind == MPP_SIZE ? 0 : BATCH_FREES) | (r.kind == MPP_FREE ? 0 : BATCH_SIZED), r.size_bytes);
        break;
    case MPP_TIME:
        note_time(b, b->record_count, d->time_ns, reached_ns);
        b->still_at[b->still_count++] = (uint16_t)b->record_count;
        break;
    default:
        goto rare;
    }
    b->record_count++;
    return 1;

rare:
    b->rare = r;
    b->end = BATCH_RARE;
    return 0;
}

void batch_clear(struct batch *b)
{
    b->record_count = b->alloc_count = b->touch_count = b->time_count = b->still_count = 0;
    b->weighted_count = b->free_sized_count = b->size_count = 0;
}

void batch_fill(struct batch *b, struct mpp_decoder *d, uint64_t *reached_ns, int starts)
{
    void (*fast)(struct batch *, struct mpp_decoder *, uint64_t *) = bits_at_once() ? fill_faster : fill_fast;
    uint64_t before_ns = *reached_ns;

    batch_clear(b);
    b->end = BATCH_GOES_ON;
    b->first_serial = d->next_serial;
    if (starts) note_time(b, 0, d->time_ns, reached_ns);
    do {
        if (d->end - d->at > FAST_BYTES) fast(b, d, reached_ns);
    } while (b->record_count < BATCH_RECORDS && fill_one(b, d, reached_ns));
    b->next_serial = d->next_serial;
    if (b->record_count || b->end == BATCH_RARE) return;
    b->time_count = 0; /* no record, no time */
    *reached_ns = before_ns;
}
