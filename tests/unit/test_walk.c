/* Finding blocks: lost ones, wrong ones, those of later versions, and what is left when the header of the log is gone. */
#include "memory_log.h"

/* A block of which the header is gone: the numbers on both sides tell what is lost. */
static void test_lost_block(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    struct listing l;
    size_t offset, bytes;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    locate(&m, 2, &offset, &bytes);
    memset(m.data + offset, 'M', bytes);
    memcpy(m.data + offset + 30, "MPPBMPPB", 8); /* no block, for all that */
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 1);
    const struct mpp_damage *d = mpp_reader_damage(r, 0);
    assert_int_equal(d->kind, MPP_DAMAGE_BLOCK);
    assert_int_equal(d->offset, offset);
    assert_int_equal(d->end_offset, offset + bytes);
    assert_int_equal(d->sequence, 2);
    assert_int_equal(d->alloc_count, 22);
    assert_false(d->counts_known);
    assert_int_equal(d->first_time_ns, 1100);
    assert_int_equal(d->last_time_ns, 3000);
    list_log(r, &l);
    assert_sequences(&l, "13");
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* A block that is gone without a trace. */
static void test_missing_block(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    size_t offset, bytes;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    locate(&m, 2, &offset, &bytes);
    memmove(m.data + offset, m.data + offset + bytes, m.bytes - offset - bytes);
    m.bytes -= bytes;
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 1);
    const struct mpp_damage *d = mpp_reader_damage(r, 0);
    assert_int_equal(d->kind, MPP_DAMAGE_BLOCK);
    assert_int_equal(d->offset, d->end_offset);
    assert_int_equal(d->sequence, 2);
    assert_int_equal(d->alloc_count, 22);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* Blocks in wrong order are reported; later kinds of blocks, and longer headers, are not. */
static void test_order_and_kinds(void **state)
{
    struct memory_log m;
    struct mpp_reader *r = NULL;
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = 1, .first_serial = 1, .alloc_count = 10};
    unsigned char longer[88];

    (void)state;
    start_log(&m);
    put_raw_block(&m, h, "", 0);
    put_raw_block(&m, h, "", 0); /* again: damaged */
    h.sequence = 2, h.first_serial = 10;
    put_raw_block(&m, h, "", 0); /* a serial that has been reached: damaged */
    h.first_serial = MPP_MAX_SERIAL + 2;
    put_raw_block(&m, h, "", 0); /* beyond all serials: damaged */
    h.first_serial = 11, h.last_time_ns = UINT64_C(1) << 63;
    put_raw_block(&m, h, "", 0); /* beyond all times: damaged */
    h.last_time_ns = 5;
    put_raw_block(&m, h, "", 0); /* sound */
    h.kind = 200, h.sequence = 0, h.first_serial = UINT64_MAX, h.last_time_ns = UINT64_MAX;
    put_raw_block(&m, h, "x", 1);
    h = (struct mpp_block_header){.kind = MPP_BLOCK_EVENTS, .sequence = 3, .first_serial = 100, .last_time_ns = 7};
    mpp_block_header_encode(&h, longer);
    mpp_put_u16(longer + 6, sizeof(longer));
    mpp_put_u64(longer + 64, XXH3_64bits("", 0));
    mpp_put_u64(longer + sizeof(longer) - 8, XXH3_64bits(longer, sizeof(longer) - 8));
    assert_int_equal(memory_write_at(&m, longer, sizeof(longer), m.bytes), MPP_OK);

    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(mpp_reader_damage(r, i)->kind, MPP_DAMAGE_BLOCK);
        assert_int_equal(mpp_reader_damage(r, i)->counts_known, 1);
        assert_int_equal(mpp_reader_damage(r, i)->end_offset - mpp_reader_damage(r, i)->offset, MPP_BLOCK_HEADER_BYTES);
    }
    assert_int_equal(mpp_reader_block_count(r), 5);
    assert_int_equal(mpp_reader_block(r, 2)->header.first_serial, 11);
    assert_int_equal(mpp_reader_block(r, 3)->header.kind, 200);
    assert_int_equal(mpp_reader_block(r, 4)->header.sequence, 3);
    assert_int_equal(mpp_reader_end_time_ns(r), 7);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* The search goes through long rubbish, and finds a header wherever it stands against the pieces that are searched. */
static void test_long_search(void **state)
{
    const size_t piece = 1u << 20;
    struct memory_log m;
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = 1, .first_serial = 1};

    (void)state;
    for (size_t rubbish = 2 * piece - 90; rubbish <= 2 * piece + 10; rubbish += 3) {
        struct mpp_reader *r = NULL;
        start_log(&m);
        size_t start = m.bytes;
        unsigned char *bytes = malloc(rubbish);
        assert_non_null(bytes);
        memset(bytes, 'P', rubbish);
        for (size_t i = 0; i < piece / 2; i += 997) memcpy(bytes + i, "MPPB\1\1\x50", 8);
        assert_int_equal(memory_write_at(&m, bytes, rubbish, start), MPP_OK);
        free(bytes);
        put_raw_block(&m, h, "", 0);
        put_raw_block(&m, (struct mpp_block_header){.kind = MPP_BLOCK_EVENTS, .sequence = 2, .first_serial = 1}, "", 0);
        assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
        assert_int_equal(mpp_reader_damage_count(r), 1);
        assert_int_equal(mpp_reader_damage(r, 0)->offset, start);
        assert_int_equal(mpp_reader_damage(r, 0)->end_offset, start + rubbish);
        assert_int_equal(mpp_reader_damage(r, 0)->sequence, 0); /* no block is missing */
        assert_int_equal(mpp_reader_block_count(r), 3);
        mpp_reader_free(r);
        memory_log_release(&m);
    }
}

/* A damaged header: META tells the same; the journal is not read. */
static void test_salvage(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct listing whole, l;
    struct mpp_reader *r = NULL;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    open_and_list(&m, &whole);
    m.data[2000] ^= 1;
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    list_log(r, &l);
    assert_int_equal(l.damages, 1);
    assert_int_equal(mpp_reader_damage(r, 0)->kind, MPP_DAMAGE_HEADER);
    assert_int_equal(mpp_reader_damage(r, 0)->end_offset, info.first_block_offset);
    assert_sequences(&l, "123");
    assert_true(l.info_hash == whole.info_hash);
    assert_int_equal(mpp_reader_info(r)->first_block_offset, info.first_block_offset);
    mpp_reader_free(r);

    /* META gone too: the blocks are there all the same. */
    m.data[info.first_block_offset] ^= 1;
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    list_log(r, &l);
    assert_sequences(&l, "123");
    assert_int_equal(mpp_reader_info(r)->sample_period, 1);
    mpp_reader_free(r);

    /* And no block at all. */
    memset(m.data + info.first_block_offset, 0, m.bytes - info.first_block_offset);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_ERR_DAMAGED);
    memory_log_release(&m);
}

/* A block out of whose midst bytes are gone reaches past the end: the sound ones behind it are found all the same. */
static void test_block_cut_within(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    struct listing l;
    unsigned char large[3000];
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = 4, .first_serial = 1000, .raw_bytes = sizeof(large), .alloc_count = 9};

    (void)state;
    memset(large, 0x81, sizeof(large));
    small_log(&m, &info, SMALL_KILLED);
    memset(m.data + info.journal_offset, 0, 3 * SMALL_HALF_BYTES);
    size_t start = m.bytes;
    put_raw_block(&m, h, large, sizeof(large));
    m.bytes -= 2000;
    size_t end = m.bytes;
    h = (struct mpp_block_header){.kind = MPP_BLOCK_EVENTS, .sequence = 5, .first_serial = 1009};
    put_raw_block(&m, h, "", 0);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    list_log(r, &l);
    assert_sequences(&l, "1235");
    assert_int_equal(mpp_reader_damage_count(r), 1);
    assert_int_equal(mpp_reader_damage(r, 0)->offset, start);
    assert_int_equal(mpp_reader_damage(r, 0)->end_offset, end);
    assert_int_equal(mpp_reader_damage(r, 0)->sequence, 4);
    assert_int_equal(mpp_reader_damage(r, 0)->alloc_count, 9);
    mpp_reader_free(r);
    memory_log_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block_cut_within), cmocka_unit_test(test_lost_block),
                                       cmocka_unit_test(test_missing_block),    cmocka_unit_test(test_order_and_kinds),
                                       cmocka_unit_test(test_long_search),      cmocka_unit_test(test_salvage)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
