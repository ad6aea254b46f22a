#include "memory_log.h"
#include <zstd.h>

static void test_layout(void **state)
{
    struct memory_log m = {0};
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_log_info info, read;
    struct mpp_writer *w = NULL;
    struct mpp_block_header h;

    (void)state;
    small_info(&info, 2);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, SMALL_MAX_BYTES), MPP_OK);
    assert_int_equal(info.header_bytes, 4096);
    assert_int_equal(info.journal_offset, 4096);
    assert_int_equal(info.first_block_offset, 4096 + 2 * SMALL_HALF_BYTES);
    assert_int_equal(mpp_writer_bytes(w), m.bytes);
    assert_int_equal(mpp_writer_blocks(w), 1);
    assert_int_equal(mpp_log_header_decode(&read, m.data, m.bytes), MPP_OK);
    assert_int_equal(read.first_block_offset, info.first_block_offset);
    mpp_log_info_release(&read);
    assert_int_equal(mpp_block_header_decode(&h, m.data + info.first_block_offset, m.bytes - info.first_block_offset), MPP_OK);
    assert_int_equal(h.kind, MPP_BLOCK_META);
    assert_int_equal(h.sequence, 0);
    for (uint64_t i = info.journal_offset; i < info.first_block_offset; i++) assert_int_equal(m.data[i], 0);
    mpp_writer_free(w);
    memory_log_release(&m);
    mpp_writer_free(NULL);
}

static void test_no_journal(void **state)
{
    struct memory_log m = {0};
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;

    (void)state;
    small_info(&info, 0);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, 0), MPP_OK);
    assert_int_equal(info.journal_offset, 0);
    assert_int_equal(info.first_block_offset, 4096);
    mpp_writer_free(w);
    memory_log_release(&m);
}

static void test_wrong_layouts(void **state)
{
    struct memory_log m = {0};
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;

    (void)state;
    small_info(&info, 2);
    info.journal_half_bytes = 4097;
    assert_int_equal(mpp_writer_new(&w, &sink, &info, 10), MPP_ERR_INVALID);
    small_info(&info, MPP_HALF_MAX_COUNT + 1);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, 10), MPP_ERR_INVALID);
    small_info(&info, 2);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, MPP_BLOCK_MAX_BYTES + 1), MPP_ERR_TOO_LARGE);
    assert_null(w);
    assert_int_equal(m.bytes, 0);
    m.fail_writes = 1;
    assert_int_equal(mpp_writer_new(&w, &sink, &info, 10), MPP_ERR_IO);
    assert_null(w);
    memory_log_release(&m);
}

/* Compressed where that helps, stored where it does not; decompressed by zstd itself. */
static void test_payloads(void **state)
{
    struct memory_log m = {0};
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;
    unsigned char same[5000] = {0}, noise[5000], out[5000];
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = 1}, read;

    (void)state;
    for (size_t i = 0; i < sizeof(noise); i++) noise[i] = (unsigned char)(XXH3_64bits(&i, sizeof(i)));
    small_info(&info, 2);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, sizeof(same)), MPP_OK);
    uint64_t at = mpp_writer_bytes(w);
    assert_int_equal(mpp_writer_append(w, &h, same, sizeof(same)), MPP_OK);
    assert_int_equal(h.compression, MPP_COMPRESSION_ZSTD);
    assert_int_equal(h.raw_bytes, sizeof(same));
    assert_true(h.stored_bytes < 100);
    assert_int_equal(mpp_block_header_decode(&read, m.data + at, m.bytes - at), MPP_OK);
    assert_int_equal(read.payload_checksum, XXH3_64bits(m.data + at + 80, read.stored_bytes));
    assert_int_equal(ZSTD_decompress(out, sizeof(out), m.data + at + 80, read.stored_bytes), sizeof(same));
    assert_memory_equal(out, same, sizeof(same));

    at = mpp_writer_bytes(w);
    assert_int_equal(mpp_writer_append(w, &h, noise, sizeof(noise)), MPP_OK);
    assert_int_equal(h.compression, MPP_COMPRESSION_NONE);
    assert_int_equal(h.stored_bytes, sizeof(noise));
    assert_memory_equal(m.data + at + 80, noise, sizeof(noise));
    assert_int_equal(mpp_writer_bytes(w), at + 80 + sizeof(noise));

    at = mpp_writer_bytes(w);
    assert_int_equal(mpp_writer_append(w, &h, noise, 0), MPP_OK);
    assert_int_equal(h.stored_bytes, 0);
    assert_int_equal(mpp_writer_bytes(w), at + 80);
    assert_int_equal(mpp_writer_blocks(w), 4);
    mpp_writer_free(w);
    memory_log_release(&m);
}

static void test_too_large(void **state)
{
    struct memory_log m = {0};
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;
    unsigned char *payload = calloc(1, 10001);
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = 1};

    (void)state;
    assert_non_null(payload);
    small_info(&info, 2);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, 10000), MPP_OK);
    uint64_t at = mpp_writer_bytes(w);
    assert_int_equal(mpp_writer_append(w, &h, payload, 10001), MPP_ERR_TOO_LARGE);
    assert_int_equal(mpp_writer_bytes(w), at);
    assert_int_equal(mpp_writer_append(w, &h, payload, 10000), MPP_OK);
    mpp_writer_free(w);
    memory_log_release(&m);
    free(payload);
}

/* What a full disk refused does not count; what is appended next takes its place. */
static void test_failed_writes(void **state)
{
    struct memory_log m, whole;
    struct mpp_log_info info;
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_writer *w = NULL;
    struct mpp_block_header h;
    unsigned char payload[SMALL_MAX_BYTES];
    size_t bytes;
    uint64_t serial = 1;

    (void)state;
    m = whole = (struct memory_log){0};
    small_info(&info, 2);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, SMALL_MAX_BYTES), MPP_OK);
    for (uint64_t sequence = 1; sequence <= 3; sequence++) {
        serial = small_payload(payload, &bytes, &h, sequence, serial, 10);
        uint64_t at = mpp_writer_bytes(w), blocks = mpp_writer_blocks(w);
        m.fail_writes = 2;
        assert_int_equal(mpp_writer_append(w, &h, payload, bytes), MPP_ERR_IO);
        assert_int_equal(errno, ENOSPC);
        assert_int_equal(mpp_writer_append(w, &h, payload, bytes), MPP_ERR_IO);
        assert_int_equal(mpp_writer_bytes(w), at);
        assert_int_equal(mpp_writer_blocks(w), blocks);
        assert_int_equal(mpp_writer_append(w, &h, payload, bytes), MPP_OK);
    }
    m.fail_writes = 1;
    assert_int_equal(mpp_writer_finish(w, 5000), MPP_ERR_IO);
    assert_int_equal(mpp_writer_finish(w, 5000), MPP_OK);
    assert_int_equal(mpp_writer_bytes(w), m.bytes);
    assert_int_equal(mpp_writer_finish(w, 5000), MPP_ERR_INVALID);
    assert_int_equal(mpp_writer_append(w, &h, payload, bytes), MPP_ERR_INVALID);
    mpp_writer_free(w);

    struct mpp_reader *r = NULL;
    struct listing l;
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    list_log(r, &l);
    assert_int_equal(l.damages, 0);
    assert_int_equal(l.count, 5);
    assert_true(l.has_footer);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* The index tells of every block before it what the block's header says. */
static void test_index(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    uint64_t n = 0, offset = 0;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    size_t last = mpp_reader_block_count(r) - 1;
    assert_int_equal(mpp_reader_block(r, last)->header.kind, MPP_BLOCK_INDEX);
    assert_int_equal(mpp_reader_payload(r, last, &payload), MPP_OK);
    const unsigned char *p = payload.data, *end = p + payload.bytes;
    p = mpp_get_varint(p, end, &n);
    assert_int_equal(n, last);
    for (size_t i = 0; i < n; i++) {
        const struct mpp_block_ref *ref = mpp_reader_block(r, i);
        uint64_t v[7];
        for (size_t k = 0; k < 7; k++) {
            p = mpp_get_varint(p, end, &v[k]);
            assert_non_null(p);
        }
        offset += v[0];
        assert_int_equal(offset, ref->offset);
        assert_int_equal(v[1], ref->header.kind);
        assert_int_equal(v[2], ref->header.sequence);
        assert_int_equal(v[3], ref->header.first_serial);
        assert_int_equal(v[4], ref->header.first_time_ns);
        assert_int_equal(v[5], ref->header.last_time_ns);
        assert_int_equal(v[6], ref->header.record_count);
    }
    assert_ptr_equal(p, end);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* An index longer than any block before it. */
static void test_many_blocks(void **state)
{
    struct memory_log m = {0};
    struct mpp_sink sink = memory_sink(&m);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;
    struct mpp_reader *r = NULL;
    const uint64_t count = 20000;

    (void)state;
    small_info(&info, 0);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, 10), MPP_OK);
    for (uint64_t sequence = 1; sequence <= count; sequence++) {
        struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = sequence, .first_serial = 1};
        assert_int_equal(mpp_writer_append(w, &h, "", 0), MPP_OK);
    }
    assert_int_equal(mpp_writer_finish(w, 0), MPP_OK);
    mpp_writer_free(w);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_block_count(r), count + 2);
    assert_int_equal(mpp_reader_damage_count(r), 0);
    mpp_reader_free(r);
    memory_log_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),   cmocka_unit_test(test_no_journal),  cmocka_unit_test(test_wrong_layouts),
        cmocka_unit_test(test_payloads), cmocka_unit_test(test_too_large),   cmocka_unit_test(test_failed_writes),
        cmocka_unit_test(test_index),    cmocka_unit_test(test_many_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
