#include "formats/mpp_reader.h"
#include "formats/mpp_writer.h"
#include "formats/wire.h"
#include "memory_log.h"

static char version[] = "3.1.2", description[] = "ruby 3.1.2p20", recorder[] = "1.0.0", command[] = "ruby\0-e\0p 1";

static void full_info(struct mpp_log_info *i)
{
    *i = (struct mpp_log_info){
        .journal_offset = 4096,
        .journal_half_bytes = 8192,
        .journal_half_count = 2,
        .first_block_offset = 4096 + 2 * 8192,
        .pid = UINT64_MAX,
        .ppid = 1,
        .has_parent = 1,
        .fork_sequence = 300,
        .fork_bytes = 1 << 20,
        .fork_serial = MPP_MAX_SERIAL,
        .start_unix_ns = UINT64_C(1764597785250000000),
        .start_monotonic_ns = 12345,
        .utc_offset_s = -3600 * 11,
        .ruby_version = version,
        .ruby_description = description,
        .recorder_version = recorder,
        .command_line = command,
        .command_line_bytes = sizeof(command),
        .sample_period = 100,
        .journal_mode = MPP_JOURNAL_COPIED,
        .max_depth = 256,
    };
    for (int b = 0; b < 16; b++) i->uuid[b] = (uint8_t)b, i->parent_uuid[b] = (uint8_t)(255 - b);
}

static void encode(const struct mpp_log_info *info, unsigned char bytes[MPP_HEADER_MIN_BYTES])
{
    assert_int_equal(mpp_log_header_bytes(info), MPP_HEADER_MIN_BYTES);
    assert_int_equal(mpp_log_header_encode(info, bytes, MPP_HEADER_MIN_BYTES), MPP_OK);
}

static void seal(unsigned char bytes[MPP_HEADER_MIN_BYTES])
{
    mpp_put_u64(bytes + MPP_HEADER_MIN_BYTES - 8, XXH3_64bits(bytes, MPP_HEADER_MIN_BYTES - 8));
}

static void test_round_trip(void **state)
{
    struct mpp_log_info in, out;
    unsigned char bytes[MPP_HEADER_MIN_BYTES];

    (void)state;
    full_info(&in);
    encode(&in, bytes);
    assert_memory_equal(bytes, "\x89MPPLOG\n\x01\0\0\0\0\x10\0\0", 16);
    assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_OK);
    assert_int_equal(out.version_major, 1);
    assert_int_equal(out.version_minor, 0);
    assert_int_equal(out.header_bytes, 4096);
    assert_int_equal(out.journal_offset, in.journal_offset);
    assert_int_equal(out.journal_half_bytes, in.journal_half_bytes);
    assert_int_equal(out.journal_half_count, in.journal_half_count);
    assert_int_equal(out.first_block_offset, in.first_block_offset);
    assert_memory_equal(out.uuid, in.uuid, 16);
    assert_true(out.pid == in.pid);
    assert_int_equal(out.ppid, in.ppid);
    assert_int_equal(out.has_parent, 1);
    assert_memory_equal(out.parent_uuid, in.parent_uuid, 16);
    assert_int_equal(out.fork_sequence, in.fork_sequence);
    assert_int_equal(out.fork_bytes, in.fork_bytes);
    assert_int_equal(out.fork_serial, in.fork_serial);
    assert_int_equal(out.start_unix_ns, in.start_unix_ns);
    assert_int_equal(out.start_monotonic_ns, in.start_monotonic_ns);
    assert_int_equal(out.utc_offset_s, in.utc_offset_s);
    assert_string_equal(out.ruby_version, version);
    assert_string_equal(out.ruby_description, description);
    assert_string_equal(out.recorder_version, recorder);
    assert_int_equal(out.command_line_bytes, sizeof(command));
    assert_memory_equal(out.command_line, command, sizeof(command));
    assert_int_equal(out.sample_period, 100);
    assert_int_equal(out.journal_mode, MPP_JOURNAL_COPIED);
    assert_int_equal(out.max_depth, 256);
    mpp_log_info_release(&out);
    mpp_log_info_release(&out);
}

static void test_absent_fields(void **state)
{
    struct mpp_log_info in = {.first_block_offset = 4096}, out;
    unsigned char bytes[MPP_HEADER_MIN_BYTES];

    (void)state;
    encode(&in, bytes);
    mpp_put_u32(bytes + 28, 0); /* no fields at all */
    seal(bytes);
    assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_OK);
    assert_int_equal(out.sample_period, 1);
    assert_int_equal(out.has_parent, 0);
    assert_null(out.ruby_version);
    assert_null(out.command_line);
    mpp_log_info_release(&out);
}

static void test_large_header(void **state)
{
    struct mpp_log_info in = {0}, out;
    size_t text_bytes = 10000;
    char *text = calloc(1, MPP_HEADER_MAX_BYTES);

    (void)state;
    assert_non_null(text);
    in.command_line = text;
    in.command_line_bytes = text_bytes;
    size_t bytes = mpp_log_header_bytes(&in);
    in.first_block_offset = bytes;
    assert_int_equal(bytes, 3 * 4096);
    unsigned char *header = malloc(bytes);
    assert_non_null(header);
    assert_int_equal(mpp_log_header_encode(&in, header, bytes - 4096), MPP_ERR_INVALID);
    assert_int_equal(mpp_log_header_encode(&in, header, bytes), MPP_OK);
    assert_int_equal(mpp_log_header_decode(&out, header, bytes), MPP_OK);
    assert_int_equal(out.command_line_bytes, text_bytes);
    mpp_log_info_release(&out);
    assert_int_equal(mpp_log_header_decode(&out, header, bytes - 1), MPP_ERR_TRUNCATED);
    in.command_line_bytes = MPP_HEADER_MAX_BYTES;
    assert_int_equal(mpp_log_header_encode(&in, header, bytes), MPP_ERR_TOO_LARGE);
    free(header);
    free(text);
}

/* Property: a header cut anywhere or with any byte changed is never taken for a sound one. */
static void test_cuts_and_flips(void **state)
{
    struct mpp_log_info in, out;
    unsigned char bytes[MPP_HEADER_MIN_BYTES];

    (void)state;
    full_info(&in);
    encode(&in, bytes);
    assert_int_equal(mpp_log_header_decode(&out, bytes, 0), MPP_ERR_EMPTY);
    for (size_t cut = 1; cut < sizeof(bytes); cut++) assert_int_equal(mpp_log_header_decode(&out, bytes, cut), MPP_ERR_TRUNCATED);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x10;
        int error = mpp_log_header_decode(&out, bytes, sizeof(bytes));
        if (i < 8)
            assert_int_equal(error, MPP_ERR_NOT_A_LOG);
        else if (i < 10)
            assert_int_equal(error, MPP_ERR_VERSION);
        else
            assert_true(error == MPP_ERR_DAMAGED || error == MPP_ERR_TRUNCATED);
        bytes[i] ^= 0x10;
    }
}

static void test_versions(void **state)
{
    struct mpp_log_info in, out;
    unsigned char bytes[MPP_HEADER_MIN_BYTES];

    (void)state;
    full_info(&in);
    encode(&in, bytes);
    mpp_put_u16(bytes + 10, 77);
    seal(bytes);
    assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_OK);
    assert_int_equal(out.version_minor, 77);
    mpp_log_info_release(&out);
    mpp_put_u16(bytes + 8, 2);
    assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_VERSION);
    seal(bytes);
    assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_VERSION);
    mpp_put_u16(bytes + 8, 0);
    seal(bytes);
    assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_DAMAGED);
}

/* Impossible numbers under a sound checksum. */
static void test_layouts(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
    } wrong[] = {{12, 0},         {12, 4097}, {12, 2u << 20}, {16, 0},  {16, 100},  {16, 8192}, {20, 0}, {20, 4097}, {20, 12288},
                 {20, 65u << 20}, {24, 0},    {24, 3},        {24, 65}, {28, 4096}, {28, 4049}, {32, 0}, {32, 4096}, {36, 0x80000000}};
    struct mpp_log_info in, out;
    unsigned char bytes[MPP_HEADER_MIN_BYTES];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        full_info(&in);
        encode(&in, bytes);
        mpp_put_u32(bytes + wrong[i].at, wrong[i].value);
        seal(bytes);
        assert_int_equal(mpp_log_header_decode(&out, bytes, sizeof(bytes)), MPP_ERR_DAMAGED);
    }
}

static void test_fields(void **state)
{
    static const unsigned char unknown[] = {0x20, 0x02, 'a', 'b', 0x02, 0x01, 0x07};
    static const unsigned char twice[] = {0x0B, 0x01, 'a', 0x0B, 0x02, 'b', 'c'};
    static const unsigned char period[] = {0x0E, 0x01, 0x00};
    static const struct {
        size_t count;
        unsigned char bytes[8];
    } wrong[] = {
        {1, {0x02}},                                  /* no length */
        {2, {0x02, 0x01}},                            /* no content */
        {2, {0x02, 0x00}},                            /* a number of no bytes */
        {4, {0x02, 0x02, 0x01, 0x01}},                /* a number that does not fill its field */
        {3, {0x02, 0x01, 0x80}},                      /* a number that does not end */
        {3, {0x01, 0x01, 0x01}},                      /* a uuid of one byte */
        {3, {0x04, 0x01, 0x01}},                      /* a parent's uuid of one byte */
        {8, {0x0B, 0x01, 'a', 0x0B, 0x05, 'b', 'c'}}, /* behind a string, which must not leak */
    };
    struct mpp_log_info info = {.header_bytes = 5};

    (void)state;
    assert_int_equal(mpp_log_fields_decode(&info, unknown, sizeof(unknown)), MPP_OK);
    assert_int_equal(info.pid, 7);
    assert_int_equal(info.header_bytes, 5);
    assert_int_equal(mpp_log_fields_decode(&info, twice, sizeof(twice)), MPP_OK);
    assert_string_equal(info.ruby_version, "bc");
    mpp_log_info_release(&info);
    assert_int_equal(mpp_log_fields_decode(&info, period, sizeof(period)), MPP_OK);
    assert_int_equal(info.sample_period, 1);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) assert_int_equal(mpp_log_fields_decode(&info, wrong[i].bytes, wrong[i].count), MPP_ERR_DAMAGED);
}

static void test_half_header(void **state)
{
    unsigned char bytes[MPP_HALF_HEADER_BYTES];
    struct mpp_half_header h;

    (void)state;
    mpp_half_header_encode(bytes, 5, 600, 7000);
    assert_memory_equal(bytes, "MPPHALF\n\x05", 9);
    mpp_half_header_decode(&h, bytes);
    assert_true(h.sound);
    assert_int_equal(h.sequence, 5);
    assert_int_equal(h.first_serial, 600);
    assert_int_equal(h.first_time_ns, 7000);
    assert_int_equal(h.commit_word, 0);
    for (size_t i = 0; i < 48; i++) {
        bytes[i] ^= 1;
        mpp_half_header_decode(&h, bytes);
        assert_false(h.sound);
        bytes[i] ^= 1;
    }
    mpp_half_header_encode(bytes, 5, 600, UINT64_C(1) << 63);
    mpp_half_header_decode(&h, bytes);
    assert_false(h.sound);
}

static void test_footer(void **state)
{
    unsigned char bytes[MPP_FOOTER_BYTES];
    struct mpp_footer in = {.index_offset = 123456, .end_time_ns = 99}, out;

    (void)state;
    mpp_footer_encode(&in, bytes);
    assert_int_equal(mpp_footer_decode(&out, bytes), MPP_OK);
    assert_int_equal(out.index_offset, 123456);
    assert_int_equal(out.end_time_ns, 99);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 1;
        assert_int_equal(mpp_footer_decode(&out, bytes), i < 8 ? MPP_ERR_NOT_A_LOG : MPP_ERR_DAMAGED);
        bytes[i] ^= 1;
    }
    in.end_time_ns = UINT64_C(1) << 63;
    mpp_footer_encode(&in, bytes);
    assert_int_equal(mpp_footer_decode(&out, bytes), MPP_ERR_DAMAGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_absent_fields), cmocka_unit_test(test_large_header),
        cmocka_unit_test(test_cuts_and_flips), cmocka_unit_test(test_versions),      cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_fields),         cmocka_unit_test(test_half_header),   cmocka_unit_test(test_footer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
