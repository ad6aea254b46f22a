/* What other recorders have met in the field, driven without a VM: docs/FIELD_TESTS.md. */
#include "recorder/ext/mpp_recorder/clock.h"
#include "recorder/ext/mpp_recorder/slots.h"
#include "unit.h"

/* A birth at an address of which no death was told: the table still has the old object, so that its death can be written; then one object lives. */
static void test_two_births_at_one_address(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        const uintptr_t address = UINT64_C(0x7f0000004010);
        struct mpp_slots s;
        struct mpp_slot_page *page;
        struct mpp_slot *slot;
        assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
        for (uint64_t serial = 1; serial <= 3; serial++) {
            slot = mpp_slots_for_new(&s, address, &page);
            assert_non_null(slot);
            assert_int_equal(slot->word & MPP_SLOT_SERIAL, serial - 1);
            if (slot->word) {
                mpp_slots_clear(&s, page, slot);
                assert_int_equal(s.tracked_count, 0);
                slot = mpp_slots_for_new(&s, address, &page);
                assert_non_null(slot);
                assert_int_equal(slot->word, 0);
            }
            slot->word = serial;
            page->tracked++;
            s.tracked_count++;
        }
        assert_int_equal(s.tracked_count, 1);
        slot = mpp_slots_for_free(&s, address, &page);
        assert_non_null(slot);
        assert_int_equal(slot->word, 3);
        mpp_slots_release(&s);
    }
}

/* A clock that went back, before the last look or even before the start, stands still; it goes on when it has caught up. */
static void test_a_clock_that_goes_back(void **state)
{
    struct mpp_clock c;
    uint64_t real;

    (void)state;
    mpp_clock_start(&c);
    c.start_ns -= 1000000;
    mpp_clock_look(&c);
    assert_true(c.now_ns >= 1000000);
    real = c.now_ns;

    c.now_ns += 3600 * UINT64_C(1000000000);
    assert_int_equal(mpp_clock_look(&c), 0);
    assert_int_equal(c.now_ns, real + 3600 * UINT64_C(1000000000));

    c.now_ns = real;
    c.start_ns += 3600 * UINT64_C(1000000000);
    assert_int_equal(mpp_clock_look(&c), 0);
    assert_int_equal(c.now_ns, real);

    c.start_ns -= 3600 * UINT64_C(1000000000);
    mpp_clock_look(&c);
    assert_true(c.now_ns >= real);
    assert_true(c.now_ns < real + 3600 * UINT64_C(1000000000));
}

/* Another core's counter may be behind the one that was read last: then the clock is asked at once. */
static void test_a_counter_that_goes_back(void **state)
{
    struct mpp_clock c;

    (void)state;
    mpp_clock_start(&c);
    c.quantum_ticks = UINT64_C(1) << 60;
    assert_false(mpp_clock_due(&c));
    c.looked_ticks = mpp_clock_ticks() + (UINT64_C(1) << 40);
    assert_true(mpp_clock_due(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_births_at_one_address), cmocka_unit_test(test_a_clock_that_goes_back),
                                       cmocka_unit_test(test_a_counter_that_goes_back)};

    return cmocka_run_group_tests_name("recorder field", tests, NULL, NULL);
}
