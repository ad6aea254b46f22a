#include "formats/mpp_reader.h"
#include "formats/mpp_writer.h"
#include "formats/wire.h"
#include "memory_log.h"

static const struct mpp_block_header sample = {
    .kind = MPP_BLOCK_EVENTS,
    .compression = MPP_COMPRESSION_ZSTD,
    .header_bytes = MPP_BLOCK_HEADER_BYTES,
    .sequence = UINT64_C(0x0102030405060708),
    .stored_bytes = MPP_BLOCK_MAX_BYTES,
    .raw_bytes = MPP_BLOCK_MAX_BYTES - 1,
    .first_serial = MPP_MAX_SERIAL,
    .first_time_ns = 77,
    .last_time_ns = UINT64_MAX >> 1,
    .record_count = UINT32_MAX,
    .alloc_count = 5,
    .free_count = 6,
    .payload_checksum = UINT64_C(0xFEDCBA9876543210),
};

static void assert_same(const struct mpp_block_header *a, const struct mpp_block_header *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->compression, b->compression);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->stored_bytes, b->stored_bytes);
    assert_int_equal(a->raw_bytes, b->raw_bytes);
    assert_int_equal(a->first_serial, b->first_serial);
    assert_int_equal(a->first_time_ns, b->first_time_ns);
    assert_int_equal(a->last_time_ns, b->last_time_ns);
    assert_int_equal(a->record_count, b->record_count);
    assert_int_equal(a->alloc_count, b->alloc_count);
    assert_int_equal(a->free_count, b->free_count);
    assert_true(a->payload_checksum == b->payload_checksum);
}

static void test_round_trip(void **state)
{
    unsigned char bytes[MPP_BLOCK_HEADER_BYTES];
    struct mpp_block_header out;

    (void)state;
    mpp_block_header_encode(&sample, bytes);
    assert_memory_equal(bytes, "MPPB\x01\x01\x50\0\x08\x07\x06\x05\x04\x03\x02\x01", 16);
    assert_int_equal(mpp_block_header_decode(&out, bytes, sizeof(bytes)), MPP_OK);
    assert_same(&out, &sample);
    assert_int_equal(out.header_bytes, 80);
}

/* Property: a header cut anywhere or with any byte changed is none. */
static void test_cuts_and_flips(void **state)
{
    unsigned char bytes[MPP_BLOCK_HEADER_BYTES];
    struct mpp_block_header out;

    (void)state;
    mpp_block_header_encode(&sample, bytes);
    for (size_t cut = 0; cut < sizeof(bytes); cut++) {
        unsigned char *exact = malloc(cut ? cut : 1);
        assert_non_null(exact);
        memcpy(exact, bytes, cut);
        assert_int_equal(mpp_block_header_decode(&out, exact, cut), MPP_ERR_TRUNCATED);
        free(exact);
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] = (unsigned char)(bytes[i] ^ 1u << bit);
            assert_int_not_equal(mpp_block_header_decode(&out, bytes, sizeof(bytes)), MPP_OK);
            bytes[i] = (unsigned char)(bytes[i] ^ 1u << bit);
        }
    }
}

/* A later version's header is longer; what it adds is under its checksum and ignored. */
static void test_longer_header(void **state)
{
    unsigned char bytes[MPP_BLOCK_HEADER_MAX_BYTES + 8];
    struct mpp_block_header out;
    static const uint16_t lengths[] = {81, 88, MPP_BLOCK_HEADER_MAX_BYTES};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        size_t n = lengths[i];
        mpp_block_header_encode(&sample, bytes);
        memset(bytes + 72, 0xEE, sizeof(bytes) - 72);
        mpp_put_u16(bytes + 6, lengths[i]);
        mpp_put_u64(bytes + n - 8, XXH3_64bits(bytes, n - 8));
        assert_int_equal(mpp_block_header_decode(&out, bytes, n - 1), MPP_ERR_TRUNCATED);
        assert_int_equal(mpp_block_header_decode(&out, bytes, n), MPP_OK);
        assert_int_equal(out.header_bytes, n);
        assert_same(&out, &sample);
    }
    mpp_put_u16(bytes + 6, MPP_BLOCK_HEADER_MAX_BYTES + 8);
    mpp_put_u64(bytes + MPP_BLOCK_HEADER_MAX_BYTES, XXH3_64bits(bytes, MPP_BLOCK_HEADER_MAX_BYTES));
    assert_int_equal(mpp_block_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_DAMAGED);
    mpp_put_u16(bytes + 6, 79);
    assert_int_equal(mpp_block_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_DAMAGED);
}

static void test_lengths(void **state)
{
    unsigned char bytes[MPP_BLOCK_HEADER_BYTES];
    struct mpp_block_header h = sample, out;

    (void)state;
    h.stored_bytes = MPP_BLOCK_MAX_BYTES + 1;
    mpp_block_header_encode(&h, bytes);
    assert_int_equal(mpp_block_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_TOO_LARGE);
    h = sample;
    h.raw_bytes = UINT32_MAX;
    mpp_block_header_encode(&h, bytes);
    assert_int_equal(mpp_block_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_TOO_LARGE);
}

static void test_count(void **state)
{
    unsigned char payload[SMALL_MAX_BYTES];
    struct mpp_block_header h;
    size_t bytes;

    (void)state;
    small_payload(payload, &bytes, &h, 1, 1, 30);
    assert_int_equal(h.record_count, 34);
    assert_int_equal(h.alloc_count, 30);
    assert_int_equal(h.free_count, 1);
    assert_int_equal(h.last_time_ns, 1100);
    struct mpp_block_header before = h;
    assert_int_equal(mpp_block_count(&h, payload, bytes - 1), MPP_ERR_MALFORMED);
    assert_memory_equal(&h, &before, sizeof(h));
    assert_int_equal(mpp_block_count(&h, payload, 0), MPP_OK);
    assert_int_equal(h.record_count, 0);
    assert_int_equal(h.last_time_ns, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_cuts_and_flips), cmocka_unit_test(test_longer_header),
        cmocka_unit_test(test_lengths),    cmocka_unit_test(test_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
