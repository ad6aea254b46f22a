/* Property: the decoder never reads outside its bytes, ends, keeps every number within the format's limits, and what it has read, encoded again,
 * decodes to the same records. Input: a serial and a time, 8 bytes each, then a payload. */
#include "formats/mpp_record_decode.h"
#include "formats/mpp_record_encode.h"
#include "fuzz.h"
#include <string.h>

struct encoded {
    uint8_t *data, *at;
    size_t record_count;
    uint64_t time_ns, next_serial;
};

static uint8_t *put_pairs(uint8_t *p, const struct mpp_record *r)
{
    struct mpp_record rest = *r;
    uint64_t key, value;
    uint32_t count = 0;

    p = mpp_put_varint(p, r->pair_count);
    for (; mpp_record_pair(&rest, &key, &value); count++) p = mpp_put_varint(mpp_put_varint(p, key), value);
    FUZZ_CHECK(count == r->pair_count && rest.text_bytes == 0);
    return p;
}

static uint8_t *put_definition(uint8_t *p, const struct mpp_record *r)
{
    FUZZ_CHECK(r->id >= 1 && r->id <= MPP_MAX_ID);
    switch (r->kind) {
    case MPP_STRING:
        return mpp_encode_string(p, r->id, (const char *)r->text, r->text_bytes);
    case MPP_FUNCTION_NAME:
        p = mpp_encode_function_name(p, r->id, (uint32_t)r->a, (uint32_t)r->b, (uint32_t)r->c, 0);
        return mpp_put_varint(p - 1, r->d); /* flags of 64 bits */
    case MPP_STACK:
        FUZZ_CHECK(r->a < r->id);
        return mpp_encode_stack(p, r->id, (uint32_t)r->a, (uint32_t)r->b, (uint32_t)r->c);
    case MPP_SITE:
        FUZZ_CHECK(r->size_bytes <= MPP_MAX_SIZE_BYTES);
        return mpp_encode_site(p, r->id, (uint32_t)r->a, (uint32_t)r->b, (uint32_t)r->c, (uint32_t)r->d, r->size_bytes);
    case MPP_CLASS_NAME:
        return mpp_encode_3(p, MPP_CLASS_NAME, r->id, r->a, r->b);
    default:
        return mpp_encode_2(p, MPP_THREAD_NAME, r->id, r->a);
    }
}

static void check_serial(uint64_t serial)
{
    FUZZ_CHECK(serial >= 1 && serial <= MPP_MAX_SERIAL);
}

/* Writes the record again. The bases are those before it. */
static uint8_t *put(uint8_t *p, const struct mpp_record *r, uint64_t free_base, uint64_t size_base)
{
    switch (r->kind) {
    case MPP_ALLOC:
        check_serial(r->serial);
        FUZZ_CHECK(r->site <= MPP_MAX_ID);
        return mpp_encode_alloc(p, r->site);
    case MPP_FREE:
        check_serial(r->serial);
        return mpp_encode_free(p, (int64_t)(r->serial - free_base));
    case MPP_TIME:
        return mpp_encode_time(p, r->a);
    case MPP_ALLOC_WEIGHTED:
        check_serial(r->serial);
        FUZZ_CHECK(r->weight >= 1 && r->weight <= MPP_MAX_WEIGHT);
        return mpp_encode_alloc_weighted(p, r->site, r->weight);
    case MPP_FREE_SIZED:
        check_serial(r->serial);
        FUZZ_CHECK(r->size_bytes <= MPP_MAX_SIZE_BYTES);
        return mpp_encode_free_sized(p, (int64_t)(r->serial - free_base), r->size_bytes);
    case MPP_SIZE:
        check_serial(r->serial);
        FUZZ_CHECK(r->size_bytes <= MPP_MAX_SIZE_BYTES);
        return mpp_encode_size(p, (int64_t)(r->serial - size_base), r->size_bytes);
    case MPP_RECLASS:
        check_serial(r->serial);
        FUZZ_CHECK(r->id <= MPP_MAX_ID);
        return mpp_encode_reclass(p, (int64_t)(r->serial - size_base), r->id);
    case MPP_LIVE:
        check_serial(r->serial);
        FUZZ_CHECK(r->weight >= 1 && r->weight <= MPP_MAX_WEIGHT && r->size_bytes <= MPP_MAX_SIZE_BYTES && r->site <= MPP_MAX_ID);
        return mpp_encode_live(p, r->serial, r->site, r->size_bytes, r->weight, (int64_t)r->a, r->b);
    case MPP_GC_START:
    case MPP_DROP:
        return mpp_encode_2(p, (enum mpp_record_kind)r->kind, r->a, r->b);
    case MPP_GC_END:
        return put_pairs(mpp_encode_1(p, MPP_GC_END, r->a), r);
    case MPP_PROC:
        *p = MPP_PROC;
        return put_pairs(p + 1, r);
    case MPP_MARK:
        return mpp_encode_mark(p, (const char *)r->text, r->text_bytes);
    case MPP_GAP:
    case MPP_CLOCK:
    case MPP_FORK:
    case MPP_SAMPLE_PERIOD:
        FUZZ_CHECK(r->kind != MPP_SAMPLE_PERIOD || r->a > 0);
        return mpp_encode_1(p, (enum mpp_record_kind)r->kind, r->a);
    case MPP_LABEL:
        return mpp_encode_3(p, MPP_LABEL, r->id, r->a, r->b);
    case MPP_FOLDED:
        return mpp_encode_3(p, MPP_FOLDED, r->site, r->a, r->size_bytes);
    case MPP_EXTENSION:
        *p = (uint8_t)r->id;
        return mpp_encode_text(p + 1, (const char *)r->text, r->text_bytes);
    default:
        return put_definition(p, r);
    }
}

static void recode(struct encoded *out, const uint8_t *payload, size_t bytes, uint64_t serial, uint64_t time_ns)
{
    struct mpp_decoder d;
    struct mpp_record r = {.kind = 0};
    int got;

    /* No record grows: encoders write the shortest form. Room for the one that is being written, all the same. */
    *out = (struct encoded){.data = malloc(bytes + MPP_RECORD_MAX_BYTES)};
    if (!out->data) abort();
    out->at = out->data;
    mpp_decoder_init(&d, payload, bytes, serial, time_ns);
    for (;;) {
        uint64_t free_base = d.free_base, size_base = d.size_base, before_ns = d.time_ns, before_serial = d.next_serial;
        const uint8_t *before = d.at;
        got = mpp_decoder_next(&d, &r);
        if (got != 1) break;
        FUZZ_CHECK(d.at > before && d.at <= payload + bytes && d.time_ns >= before_ns && d.next_serial - before_serial <= 1);
        FUZZ_CHECK(mpp_record_kind_name(r.kind) != NULL);
        out->at = put(out->at, &r, free_base, size_base);
        out->record_count++;
        FUZZ_CHECK((size_t)(out->at - out->data) <= (size_t)(d.at - payload));
    }
    FUZZ_CHECK(got == 0 ? d.at == payload + bytes : got == MPP_ERR_MALFORMED && d.at < payload + bytes);
    out->time_ns = d.time_ns;
    out->next_serial = d.next_serial;
}

FUZZ_TARGET(record)
{
    uint8_t head[16] = {0};
    struct encoded once, twice;

    memcpy(head, data, size < sizeof head ? size : sizeof head);
    size_t bytes = size < sizeof head ? 0 : size - sizeof head;
    uint8_t *payload = malloc(bytes ? bytes : 1); /* of its exact length */
    if (!payload) abort();
    if (bytes) memcpy(payload, data + sizeof head, bytes);
    uint64_t serial = mpp_get_u64(head), time_ns = mpp_get_u64(head + 8);
    recode(&once, payload, bytes, serial, time_ns);
    size_t length = (size_t)(once.at - once.data);
    recode(&twice, once.data, length, serial, time_ns);
    FUZZ_CHECK(once.record_count == twice.record_count && once.time_ns == twice.time_ns && once.next_serial == twice.next_serial);
    FUZZ_CHECK((size_t)(twice.at - twice.data) == length && memcmp(once.data, twice.data, length) == 0);
    free(once.data);
    free(twice.data);
    free(payload);
    return 0;
}
