#include "formats/mpp_record_decode.h"
#include "formats/mpp_record_encode.h"
#include "formats/mpp_writer.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

#define FIRST_SERIAL 10
#define FIRST_TIME   1000

/* A payload of its own allocation, so that a sanitizer sees every read behind its end. */
static unsigned char *exact(const void *bytes, size_t count)
{
    unsigned char *copy = malloc(count ? count : 1);

    assert_non_null(copy);
    memcpy(copy, bytes, count);
    return copy;
}

static void start(struct mpp_decoder *d, const unsigned char *payload, size_t bytes)
{
    mpp_decoder_init(d, payload, bytes, FIRST_SERIAL, FIRST_TIME);
}

/* Decodes the one record that the payload holds. */
static struct mpp_record decode_one(const unsigned char *payload, size_t bytes, struct mpp_decoder *d)
{
    struct mpp_record r;

    memset(&r, 0xA5, sizeof(r));
    start(d, payload, bytes);
    assert_int_equal(mpp_decoder_next(d, &r), 1);
    assert_ptr_equal(d->at, d->end);
    struct mpp_record none;
    assert_int_equal(mpp_decoder_next(d, &none), 0);
    return r;
}

/* Property: a record cut anywhere is malformed, and moves nothing. */
static void assert_cuts_are_malformed(const unsigned char *bytes, size_t count)
{
    for (size_t cut = 1; cut < count; cut++) {
        unsigned char *payload = exact(bytes, cut);
        struct mpp_decoder d, before;
        struct mpp_record r;
        start(&d, payload, cut);
        before = d;
        assert_int_equal(mpp_decoder_next(&d, &r), MPP_ERR_MALFORMED);
        assert_memory_equal(&d, &before, sizeof(d));
        free(payload);
    }
}

static unsigned char buffer[256];

#define ROUND_TRIP(expression)                                                                                                                       \
    memset(buffer, 0, sizeof(buffer));                                                                                                               \
    unsigned char *p = buffer;                                                                                                                       \
    p = (expression);                                                                                                                                \
    size_t bytes = (size_t)(p - buffer);                                                                                                             \
    assert_cuts_are_malformed(buffer, bytes);                                                                                                        \
    struct mpp_decoder d;                                                                                                                            \
    struct mpp_record r = decode_one(buffer, bytes, &d)

#define ASSERT_BYTES(...)                                                                                                                            \
    do {                                                                                                                                             \
        static const unsigned char expected[] = {__VA_ARGS__};                                                                                       \
        assert_int_equal(bytes, sizeof(expected));                                                                                                   \
        assert_memory_equal(buffer, expected, sizeof(expected));                                                                                     \
    } while (0)

static void test_alloc_record(void **state)
{
    static const uint32_t sites[] = {0, 1, 3, 63, 64, 133, 8191, 8192, MPP_MAX_ID};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sites); i++) {
        ROUND_TRIP(mpp_encode_alloc(p, sites[i]));
        assert_int_equal(r.kind, MPP_ALLOC);
        assert_int_equal(r.site, sites[i]);
        assert_int_equal(r.serial, FIRST_SERIAL);
        assert_int_equal(d.next_serial, FIRST_SERIAL + 1);
    }
}

static void test_free_record(void **state)
{
    static const int64_t deltas[] = {-9, -1, 0, 1, 15, 16, -8, 1000000, (INT64_C(1) << 47)};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(deltas); i++) {
        ROUND_TRIP(mpp_encode_free(p, deltas[i]));
        assert_int_equal(r.kind, MPP_FREE);
        assert_int_equal(r.serial, FIRST_SERIAL + deltas[i]);
        assert_int_equal(d.free_base, r.serial);
        assert_int_equal(d.size_base, FIRST_SERIAL);
        assert_int_equal(d.next_serial, FIRST_SERIAL);
    }
}

static void test_time(void **state)
{
    (void)state;
    ROUND_TRIP(mpp_encode_time(p, 10000));
    ASSERT_BYTES(0x01, 0x90, 0x4E);
    assert_int_equal(r.kind, MPP_TIME);
    assert_int_equal(r.a, 10000);
    assert_int_equal(d.time_ns, FIRST_TIME + 10000);
}

static void test_alloc_weighted(void **state)
{
    (void)state;
    ROUND_TRIP(mpp_encode_alloc_weighted(p, 700, MPP_MAX_WEIGHT));
    ASSERT_BYTES(0x02, 0xBC, 0x05, 0xFF, 0xFF, 0xFF, 0x07);
    assert_int_equal(r.kind, MPP_ALLOC_WEIGHTED);
    assert_int_equal(r.site, 700);
    assert_int_equal(r.weight, MPP_MAX_WEIGHT);
    assert_int_equal(r.serial, FIRST_SERIAL);
    assert_int_equal(d.next_serial, FIRST_SERIAL + 1);
}

static void test_free_sized(void **state)
{
    (void)state;
    ROUND_TRIP(mpp_encode_free_sized(p, -1, 200));
    ASSERT_BYTES(0x03, 0x01, 0xC8, 0x01);
    assert_int_equal(r.kind, MPP_FREE_SIZED);
    assert_int_equal(r.serial, FIRST_SERIAL - 1);
    assert_int_equal(r.size_bytes, 200);
    assert_int_equal(d.free_base, FIRST_SERIAL - 1);
    assert_int_equal(d.size_base, FIRST_SERIAL);
}

static void test_size(void **state)
{
    (void)state;
    ROUND_TRIP(mpp_encode_size(p, 5, MPP_MAX_SIZE_BYTES));
    assert_int_equal(r.kind, MPP_SIZE);
    assert_int_equal(r.serial, FIRST_SERIAL + 5);
    assert_int_equal(r.size_bytes, MPP_MAX_SIZE_BYTES);
    assert_int_equal(d.size_base, FIRST_SERIAL + 5);
    assert_int_equal(d.free_base, FIRST_SERIAL);
}

static void test_reclass(void **state)
{
    (void)state;
    ROUND_TRIP(mpp_encode_reclass(p, -3, MPP_MAX_ID));
    assert_int_equal(r.kind, MPP_RECLASS);
    assert_int_equal(r.serial, FIRST_SERIAL - 3);
    assert_int_equal(r.id, MPP_MAX_ID);
    assert_int_equal(d.size_base, FIRST_SERIAL - 3);
    assert_int_equal(d.free_base, FIRST_SERIAL);
}

static void test_live(void **state)
{
    (void)state;
    ROUND_TRIP(mpp_encode_live(p, MPP_MAX_SERIAL, 77, 4096, 3, -5, 12));
    assert_int_equal(r.kind, MPP_LIVE);
    assert_int_equal(r.serial, MPP_MAX_SERIAL);
    assert_int_equal(r.site, 77);
    assert_int_equal(r.size_bytes, 4096);
    assert_int_equal(r.weight, 3);
    assert_int_equal((int64_t)r.a, -5);
    assert_int_equal(r.b, 12);
    assert_int_equal(d.next_serial, FIRST_SERIAL);
}

static void test_gc_end_and_proc(void **state)
{
    uint64_t key = 0, value = 0;

    (void)state;
    {
        ROUND_TRIP(mpp_put_varint(mpp_put_varint(mpp_put_varint(mpp_put_varint(mpp_encode_gc_end(p, 9, 2), 1), 500), 99), UINT64_MAX));
        assert_int_equal(r.kind, MPP_GC_END);
        assert_int_equal(r.a, 9);
        assert_int_equal(r.pair_count, 2);
        assert_int_equal(mpp_record_pair(&r, &key, &value), 1);
        assert_int_equal(key, 1);
        assert_int_equal(value, 500);
        assert_int_equal(mpp_record_pair(&r, &key, &value), 1);
        assert_int_equal(key, 99);
        assert_true(value == UINT64_MAX);
        assert_int_equal(mpp_record_pair(&r, &key, &value), 0);
    }
    {
        ROUND_TRIP(mpp_put_varint(mpp_put_varint(mpp_encode_1(p, MPP_PROC, 1), 2), 300));
        assert_int_equal(r.kind, MPP_PROC);
        assert_int_equal(mpp_record_pair(&r, &key, &value), 1);
        assert_int_equal(key, 2);
        assert_int_equal(value, 300);
        assert_int_equal(mpp_record_pair(&r, &key, &value), 0);
    }
    {
        ROUND_TRIP(mpp_encode_gc_end(p, 1, 0));
        assert_int_equal(mpp_record_pair(&r, &key, &value), 0);
    }
}

static void test_texts(void **state)
{
    (void)state;
    {
        ROUND_TRIP(mpp_encode_mark(p, "a\0\xff", 3));
        ASSERT_BYTES(0x09, 0x03, 'a', 0x00, 0xFF);
        assert_int_equal(r.kind, MPP_MARK);
        assert_int_equal(r.text_bytes, 3);
        assert_memory_equal(r.text, "a\0\xff", 3);
    }
    {
        ROUND_TRIP(mpp_encode_mark(p, "", 0));
        assert_int_equal(r.text_bytes, 0);
    }
    {
        ROUND_TRIP(mpp_encode_string(p, 300, "name", 4));
        ASSERT_BYTES(0x18, 0xAC, 0x02, 0x04, 'n', 'a', 'm', 'e');
        assert_int_equal(r.kind, MPP_STRING);
        assert_int_equal(r.id, 300);
        assert_memory_equal(r.text, "name", 4);
    }
    {
        ROUND_TRIP(mpp_encode_text(mpp_encode_1(p, (enum mpp_record_kind)0x3F, 2), "", 0) - 1 + 2);
        assert_int_equal(r.kind, MPP_EXTENSION);
        assert_int_equal(r.id, 0x3F);
        assert_int_equal(r.text_bytes, 2);
    }
}

static void test_small_events(void **state)
{
    static const struct {
        enum mpp_record_kind kind;
        int count; /* of numbers, in a, b */
    } kinds[] = {{MPP_GC_START, 2}, {MPP_GAP, 1}, {MPP_DROP, 2}, {MPP_CLOCK, 1}, {MPP_SAMPLE_PERIOD, 1}, {MPP_FORK, 1}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        ROUND_TRIP(kinds[i].count == 2 ? mpp_encode_2(p, kinds[i].kind, 1000, 2000) : mpp_encode_1(p, kinds[i].kind, 1000));
        assert_int_equal(r.kind, kinds[i].kind);
        assert_int_equal(r.a, 1000);
        if (kinds[i].count == 2) assert_int_equal(r.b, 2000);
    }
    {
        ROUND_TRIP(mpp_encode_3(p, MPP_LABEL, 1, 2, 0));
        assert_int_equal(r.id, 1);
        assert_int_equal(r.a, 2);
        assert_int_equal(r.b, 0);
    }
    {
        ROUND_TRIP(mpp_encode_3(p, MPP_FOLDED, 5, 1000, UINT64_MAX));
        assert_int_equal(r.site, 5);
        assert_int_equal(r.a, 1000);
        assert_true(r.size_bytes == UINT64_MAX);
    }
}

static void test_definitions(void **state)
{
    (void)state;
    {
        ROUND_TRIP(mpp_encode_function_name(p, 1, 2, 3, 4, 5));
        ASSERT_BYTES(0x19, 1, 2, 3, 4, 5);
        assert_int_equal(r.id, 1);
        assert_int_equal(r.a, 2);
        assert_int_equal(r.b, 3);
        assert_int_equal(r.c, 4);
        assert_int_equal(r.d, 5);
    }
    {
        ROUND_TRIP(mpp_encode_stack(p, 9, 8, 7, 6));
        ASSERT_BYTES(0x1A, 9, 8, 7, 6);
        assert_int_equal(r.id, 9);
        assert_int_equal(r.a, 8);
        assert_int_equal(r.b, 7);
        assert_int_equal(r.c, 6);
    }
    {
        ROUND_TRIP(mpp_encode_site(p, 1, 2, 3, 4, 5, 640));
        ASSERT_BYTES(0x1B, 1, 2, 3, 4, 5, 0x80, 0x05);
        assert_int_equal(r.id, 1);
        assert_int_equal(r.a, 2);
        assert_int_equal(r.b, 3);
        assert_int_equal(r.c, 4);
        assert_int_equal(r.d, 5);
        assert_int_equal(r.size_bytes, 640);
    }
    {
        ROUND_TRIP(mpp_encode_class_name(p, 1, 2, 3));
        assert_int_equal(r.id, 1);
        assert_int_equal(r.a, 2);
        assert_int_equal(r.b, 3);
    }
    {
        ROUND_TRIP(mpp_encode_2(p, MPP_THREAD_NAME, 1, 2));
        assert_int_equal(r.id, 1);
        assert_int_equal(r.a, 2);
    }
}

/* The example of FORMAT.md §4. */
static void test_example(void **state)
{
    static const unsigned char payload[] = {0x01, 0x90, 0x4E, 0x83, 0xC5, 0x02, 0x41, 0x03, 0x01, 0xC8, 0x01};
    struct mpp_decoder d;
    struct mpp_record r;
    struct mpp_block_header h = {.first_serial = 10, .first_time_ns = 5};

    (void)state;
    mpp_decoder_init(&d, payload, sizeof(payload), 10, 0);
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(d.time_ns, 10000);
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(r.site, 3);
    assert_int_equal(r.serial, 10);
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(r.site, 133);
    assert_int_equal(r.serial, 11);
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(r.kind, MPP_FREE);
    assert_int_equal(r.serial, 9);
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(r.kind, MPP_FREE_SIZED);
    assert_int_equal(r.serial, 8);
    assert_int_equal(r.size_bytes, 200);
    assert_int_equal(mpp_decoder_next(&d, &r), 0);

    assert_int_equal(mpp_block_count(&h, payload, sizeof(payload)), 0);
    assert_int_equal(h.record_count, 5);
    assert_int_equal(h.alloc_count, 2);
    assert_int_equal(h.free_count, 2);
    assert_int_equal(h.last_time_ns, 10005);
}

/* Property: `bytes` is malformed, leaves the decoder on it, and no read leaves it. */
static void assert_malformed(const unsigned char *bytes, size_t count)
{
    unsigned char *payload = exact(bytes, count);
    struct mpp_decoder d, before;
    struct mpp_record r;

    start(&d, payload, count);
    before = d;
    assert_int_equal(mpp_decoder_next(&d, &r), MPP_ERR_MALFORMED);
    assert_memory_equal(&d, &before, sizeof(d));
    free(payload);
}

#define MALFORMED(expression)                                                                                                                        \
    do {                                                                                                                                             \
        unsigned char *p = buffer;                                                                                                                   \
        p = (expression);                                                                                                                            \
        memset(p, 0, 16);                                                                                                                            \
        assert_malformed(buffer, (size_t)(p - buffer) + 16);                                                                                         \
    } while (0)

static void test_first_bytes(void **state)
{
    unsigned char bytes[64] = {0};

    (void)state;
    for (unsigned first = 0; first < 0x40; first++) {
        int is_known = (first >= 0x01 && first <= 0x11) || (first >= 0x18 && first <= 0x1D) || first >= 0x20;
        bytes[0] = (unsigned char)first;
        if (!is_known) assert_malformed(bytes, sizeof(bytes));
    }
}

static void test_limits(void **state)
{
    const uint64_t id = MPP_MAX_ID + UINT64_C(1), size = MPP_MAX_SIZE_BYTES + 1, weight = MPP_MAX_WEIGHT + UINT64_C(1), serial = MPP_MAX_SERIAL + 1;
    static const unsigned char long_varint[] = {0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02};
    static const unsigned char eleven_bytes[] = {0x01, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00};

    (void)state;
    assert_malformed(long_varint, sizeof(long_varint));
    assert_malformed(eleven_bytes, sizeof(eleven_bytes));
    MALFORMED((*p++ = 0xC0, mpp_put_varint(p, id >> 6)));
    MALFORMED((*p++ = 0xC0, mpp_put_varint(p, UINT64_MAX)));
    MALFORMED(mpp_encode_free(p, -FIRST_SERIAL));
    MALFORMED(mpp_encode_free(p, (int64_t)serial - FIRST_SERIAL));
    MALFORMED(mpp_encode_free(p, INT64_MIN));
    MALFORMED((*p++ = 0x60, mpp_put_varint(p, UINT64_MAX)));
    MALFORMED(mpp_encode_time(p, (UINT64_C(1) << 63) - FIRST_TIME));
    MALFORMED(mpp_encode_time(p, UINT64_MAX));
    MALFORMED(mpp_encode_2(p, MPP_ALLOC_WEIGHTED, id, 1));
    MALFORMED(mpp_encode_2(p, MPP_ALLOC_WEIGHTED, 1, 0));
    MALFORMED(mpp_encode_2(p, MPP_ALLOC_WEIGHTED, 1, weight));
    MALFORMED(mpp_encode_free_sized(p, 0, size));
    MALFORMED(mpp_encode_free_sized(p, -FIRST_SERIAL, 1));
    MALFORMED(mpp_encode_size(p, 0, size));
    MALFORMED(mpp_encode_size(p, -FIRST_SERIAL, 1));
    MALFORMED(mpp_encode_2(p, MPP_RECLASS, 0, id));
    MALFORMED(mpp_encode_live(p, 0, 1, 1, 1, 0, 0));
    MALFORMED(mpp_encode_live(p, serial, 1, 1, 1, 0, 0));
    MALFORMED(mpp_encode_live(p, 1, (uint32_t)id, 1, 1, 0, 0));
    MALFORMED(mpp_encode_live(p, 1, 1, size, 1, 0, 0));
    MALFORMED(mpp_encode_live(p, 1, 1, 1, 0, 0, 0));
    MALFORMED(mpp_encode_live(p, 1, 1, 1, (uint32_t)weight, 0, 0));
    MALFORMED(mpp_encode_1(p, MPP_SAMPLE_PERIOD, 0));
    MALFORMED(mpp_encode_3(p, MPP_LABEL, id, 1, 1));
    MALFORMED(mpp_encode_3(p, MPP_LABEL, 1, id, 1));
    MALFORMED(mpp_encode_3(p, MPP_LABEL, 1, 1, id));
    MALFORMED(mpp_encode_3(p, MPP_FOLDED, id, 1, 1));
    MALFORMED(mpp_encode_string(p, (uint32_t)id, "", 0));
    MALFORMED(mpp_encode_string(p, 0, "", 0));
    MALFORMED(mpp_encode_stack(p, 0, 0, 0, 0));
    MALFORMED(mpp_encode_site(p, 0, 1, 1, 1, 1, 1));
    MALFORMED(mpp_encode_function_name(p, 0, 1, 1, 1, 1));
    MALFORMED(mpp_encode_class_name(p, 0, 1, 1));
    MALFORMED(mpp_encode_2(p, MPP_THREAD_NAME, 0, 1));
    MALFORMED(mpp_put_varint(mpp_encode_3(p, MPP_STACK, 5, 1, 1), UINT64_C(1) << 32));
    MALFORMED(mpp_put_varint(mpp_put_varint(mpp_encode_3(p, MPP_FUNCTION_NAME, 5, 1, 1), UINT64_C(1) << 32), 0));
    MALFORMED(mpp_put_varint(mpp_put_varint(mpp_put_varint(mpp_encode_3(p, MPP_SITE, 5, 1, 1), UINT64_C(1) << 32), 1), 1));
    MALFORMED(mpp_encode_2(p, MPP_STRING, 1, UINT64_MAX));
    MALFORMED(mpp_encode_1(p, MPP_MARK, UINT64_MAX));
    MALFORMED(mpp_encode_1(p, MPP_EXTENSION, UINT64_MAX));
    MALFORMED(mpp_encode_1(p, MPP_PROC, MPP_MAX_PAIRS + 1));
    MALFORMED(mpp_encode_1(p, MPP_PROC, UINT64_MAX));
    MALFORMED(mpp_encode_2(p, MPP_GC_END, 1, UINT64_MAX));
    MALFORMED(mpp_encode_function_name(p, (uint32_t)id, 1, 1, 1, 1));
    MALFORMED(mpp_encode_function_name(p, 1, (uint32_t)id, 1, 1, 1));
    MALFORMED(mpp_encode_function_name(p, 1, 1, (uint32_t)id, 1, 1));
    MALFORMED(mpp_encode_stack(p, (uint32_t)id, 1, 1, 1));
    MALFORMED(mpp_encode_stack(p, 5, 5, 1, 1));
    MALFORMED(mpp_encode_stack(p, 5, 6, 1, 1));
    MALFORMED(mpp_encode_stack(p, 5, 1, (uint32_t)id, 1));
    MALFORMED(mpp_encode_site(p, (uint32_t)id, 1, 1, 1, 1, 1));
    MALFORMED(mpp_encode_site(p, 1, (uint32_t)id, 1, 1, 1, 1));
    MALFORMED(mpp_encode_site(p, 1, 1, (uint32_t)id, 1, 1, 1));
    MALFORMED(mpp_encode_site(p, 1, 1, 1, 1, (uint32_t)id, 1));
    MALFORMED(mpp_encode_site(p, 1, 1, 1, 1, 1, size));
    MALFORMED(mpp_encode_class_name(p, (uint32_t)id, 1, 0));
    MALFORMED(mpp_encode_class_name(p, 1, (uint32_t)id, 0));
    MALFORMED(mpp_encode_2(p, MPP_THREAD_NAME, id, 1));
    MALFORMED(mpp_encode_2(p, MPP_THREAD_NAME, 1, id));
}

static void test_long_texts(void **state)
{
    size_t bytes = MPP_MAX_STRING_BYTES + 1;
    unsigned char *payload = malloc(bytes + MPP_RECORD_MAX_BYTES);
    char *text = calloc(1, bytes);
    struct mpp_decoder d;
    struct mpp_record r;

    (void)state;
    assert_non_null(payload);
    assert_non_null(text);
    start(&d, payload, (size_t)(mpp_encode_mark(payload, text, bytes) - payload));
    assert_int_equal(mpp_decoder_next(&d, &r), MPP_ERR_MALFORMED);
    start(&d, payload, (size_t)(mpp_encode_string(payload, 1, text, bytes) - payload));
    assert_int_equal(mpp_decoder_next(&d, &r), MPP_ERR_MALFORMED);
    start(&d, payload, (size_t)(mpp_encode_mark(payload, text, bytes - 1) - payload));
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(r.text_bytes, bytes - 1);
    free(payload);
    free(text);
}

/* The last serial that there is, and none behind it; no serial 0. */
static void test_serials_end(void **state)
{
    static const unsigned char payload[] = {0x81, 0x02, 0x01, 0x01};
    struct mpp_decoder d;
    struct mpp_record r;

    (void)state;
    mpp_decoder_init(&d, payload, sizeof(payload), MPP_MAX_SERIAL, 0);
    assert_int_equal(mpp_decoder_next(&d, &r), 1);
    assert_int_equal(r.serial, MPP_MAX_SERIAL);
    assert_int_equal(mpp_decoder_next(&d, &r), MPP_ERR_MALFORMED);
    for (size_t at = 0; at < 2; at++) {
        mpp_decoder_init(&d, payload + at, sizeof(payload) - at, 0, 0);
        assert_int_equal(mpp_decoder_next(&d, &r), MPP_ERR_MALFORMED);
    }
}

/* Property: any bytes at all decode to an end or to MALFORMED, in as many steps as there are bytes at most. */
static void test_noise(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[40];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[i] = (unsigned char)(random >> 56);
            if (round & 1) bytes[i] &= 0x3f;
        }
        size_t count = (size_t)(random >> 32) % sizeof(bytes);
        unsigned char *payload = exact(bytes, count);
        struct mpp_decoder d;
        struct mpp_record r;
        uint64_t key, value;
        size_t steps = 0;
        int got;
        start(&d, payload, count);
        while ((got = mpp_decoder_next(&d, &r)) > 0) {
            assert_true(++steps <= count);
            if (r.kind == MPP_PROC || r.kind == MPP_GC_END)
                while (mpp_record_pair(&r, &key, &value)) {
                }
        }
        assert_true(got == 0 || got == MPP_ERR_MALFORMED);
        free(payload);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(mpp_record_kind_name(MPP_ALLOC), "ALLOC");
    assert_string_equal(mpp_record_kind_name(MPP_FREE), "FREE");
    assert_string_equal(mpp_record_kind_name(MPP_EXTENSION), "EXTENSION");
    for (int kind = 1; kind < 0x20; kind++) {
        int is_known = kind <= 0x11 || (kind >= 0x18 && kind <= 0x1D);
        assert_int_equal(strcmp(mpp_record_kind_name(kind), "UNKNOWN") != 0, is_known);
    }
    assert_string_equal(mpp_record_kind_name(-1), "UNKNOWN");
    assert_string_equal(mpp_record_kind_name(0), "UNKNOWN");
    assert_string_equal(mpp_type_name(MPP_TYPE_STRING), "STRING");
    assert_string_equal(mpp_type_name(MPP_TYPE_ICLASS), "ICLASS");
    assert_null(mpp_type_name(0));
    assert_null(mpp_type_name(19));
    assert_null(mpp_type_name(4000000000u));
    assert_string_equal(mpp_proc_key_name(11), "stall_ns");
    assert_null(mpp_proc_key_name(12));
    assert_null(mpp_proc_key_name(0));
    assert_string_equal(mpp_gc_key_name(1), "heap_live_slots");
    assert_null(mpp_gc_key_name(UINT64_MAX));
    for (int error = 0; error >= -13; error--) assert_true(mpp_error_string(error)[0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_record),   cmocka_unit_test(test_free_record),  cmocka_unit_test(test_time),
        cmocka_unit_test(test_alloc_weighted), cmocka_unit_test(test_free_sized),   cmocka_unit_test(test_size),
        cmocka_unit_test(test_reclass),        cmocka_unit_test(test_live),         cmocka_unit_test(test_gc_end_and_proc),
        cmocka_unit_test(test_texts),          cmocka_unit_test(test_small_events), cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_example),        cmocka_unit_test(test_first_bytes),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_long_texts),     cmocka_unit_test(test_serials_end),  cmocka_unit_test(test_noise),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
