#include "formats/crc32c.h"
#include "unit.h"
#include <string.h>

static uint32_t crc(const void *bytes, size_t count)
{
    return mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, bytes, count));
}

static uint32_t crc_software(const void *bytes, size_t count)
{
    return mpp_crc32c_value(mpp_crc32c_software(MPP_CRC32C_START, bytes, count));
}

/* FORMAT.md's value, and those of RFC 3720 B.4. */
static void test_known_values(void **state)
{
    unsigned char bytes[32];

    (void)state;
    assert_int_equal(crc("123456789", 9), 0xE3069283);
    assert_int_equal(crc_software("123456789", 9), 0xE3069283);
    assert_int_equal(crc("", 0), 0);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc(bytes, sizeof(bytes)), 0x8A9136AA);
    assert_int_equal(crc_software(bytes, sizeof(bytes)), 0x8A9136AA);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc(bytes, sizeof(bytes)), 0x62A8AB43);
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (unsigned char)i;
    assert_int_equal(crc(bytes, sizeof(bytes)), 0x46DD794E);
}

/* Property: however the bytes are cut and however they lie, instruction and table agree. */
static void test_steps_agree(void **state)
{
    unsigned char bytes[80];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (unsigned char)(i * 37 + 11);
    for (size_t start = 0; start < 8; start++) {
        for (size_t count = 0; count <= 64; count++) {
            uint32_t whole = crc_software(bytes + start, count);
            for (size_t cut = 0; cut <= count; cut++) {
                uint32_t at = mpp_crc32c_step(MPP_CRC32C_START, bytes + start, cut);
                at = mpp_crc32c_step(at, bytes + start + cut, count - cut);
                assert_int_equal(mpp_crc32c_value(at), whole);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_values), cmocka_unit_test(test_steps_agree)};

    /* First by the table alone, then as this processor does it. */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mpp_crc32c_init();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
