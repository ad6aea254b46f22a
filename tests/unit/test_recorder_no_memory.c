/* Memory that runs out inside the recorder's tables: each allocation fails in turn. A hook that is refused goes on; the table is as it was before,
 * and works again as soon as there is memory. */
#include "recorder/ext/mpp_recorder/identities.h"
#include "recorder/ext/mpp_recorder/slots.h"
#include "recorder/ext/mpp_recorder/stacks.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many allocations succeed before all fail; negative: all succeed. The linker puts these in place of libc's (--wrap). */
static long allowance = -1;
static long refused;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static int refuse(void)
{
    if (allowance < 0) return 0;
    if (allowance > 0) {
        allowance--;
        return 0;
    }
    refused++;
    return 1;
}

void *__wrap_malloc(size_t bytes)
{
    return refuse() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return refuse() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return refuse() ? NULL : __real_realloc(old, bytes);
}

#define BASE UINT64_C(0x7f0000000000)

static uintptr_t address_of(uint64_t n)
{
    return BASE + n / 300 * 16384 + n % 300 * 40;
}

static void test_inits(void **state)
{
    (void)state;
    for (long n = 0; n < 6; n++) {
        struct mpp_slots slots;
        struct mpp_stacks stacks;
        struct mpp_strings strings;
        struct mpp_identity_table identities;
        allowance = n;
        int failed_slots = mpp_slots_init(&slots, 16384, 40, 0);
        allowance = n;
        int failed_stacks = mpp_stacks_init(&stacks);
        allowance = n;
        int failed_strings = mpp_strings_init(&strings);
        allowance = n;
        int failed_identities = mpp_identity_table_init(&identities);
        allowance = -1;
        assert_int_equal(failed_slots, n < 1 ? -1 : 0);
        assert_int_equal(failed_stacks, n < 4 ? -1 : 0);
        assert_int_equal(failed_strings, n < 3 ? -1 : 0);
        assert_int_equal(failed_identities, n < 5 ? -1 : 0);
        mpp_slots_release(&slots); /* after a failure too */
        mpp_stacks_release(&stacks);
        mpp_strings_release(&strings);
        mpp_identity_table_release(&identities);
    }
}

/* One entry more; 0, or -1 with nothing changed. */
static int track(struct mpp_slots *s, uint64_t n)
{
    struct mpp_slot_page *page;
    struct mpp_slot *slot = mpp_slots_for_new(s, address_of(n), &page);

    if (!slot) return -1;
    slot->word = n + 1;
    page->tracked++;
    s->tracked_count++;
    return 0;
}

static void expect_tracked(struct mpp_slots *s, uint64_t n, int known)
{
    struct mpp_slot_page *page;
    struct mpp_slot *slot = mpp_slots_for_free(s, address_of(n), &page);

    assert_int_equal(slot && slot->word == n + 1, known);
}

/* Nearly every step is refused once, and then allowed. */
static void test_slots(void **state)
{
    enum { COUNT = 400000 };

    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        struct mpp_slots s;
        assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
        refused = 0;
        for (uint64_t n = 0; n < COUNT; n++) {
            allowance = 0;
            int failed = track(&s, n);
            allowance = -1;
            if (failed) {
                expect_tracked(&s, n, 0);
                assert_int_equal(s.tracked_count, n);
                assert_int_equal(track(&s, n), 0);
            }
        }
        assert_true(refused > COUNT / 300);
        for (uint64_t n = 0; n < COUNT; n++) expect_tracked(&s, n, 1);
        mpp_slots_release(&s);
    }
}

static uint64_t gone_count;

static uintptr_t moved(uintptr_t address)
{
    return address + (UINT64_C(1) << 34);
}

static void gone(const struct mpp_slot *slot)
{
    assert_true(slot->word > 0);
    gone_count++;
}

/* Compaction without memory: what can be moved is moved, the rest is given to `gone`; nobody is forgotten in silence. */
static void test_rekey(void **state)
{
    enum { COUNT = 30000 };

    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        for (long n = 0; n < 260; n += n < 10 ? 1 : 25) {
            struct mpp_slots s;
            assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
            for (uint64_t i = 0; i < COUNT; i++) assert_int_equal(track(&s, i), 0);
            gone_count = 0;
            allowance = n;
            mpp_slots_rekey(&s, moved, gone);
            allowance = -1;
            assert_int_equal(s.tracked_count + gone_count, COUNT);
            if (n == 0) assert_int_equal(gone_count, COUNT);
            mpp_slots_release(&s);
        }
    }
}

static void test_strings(void **state)
{
    struct mpp_strings s;
    char text[200];
    int fresh;

    (void)state;
    assert_int_equal(mpp_strings_init(&s), 0);
    refused = 0;
    for (uint32_t n = 1; n <= 20000; n++) {
        size_t length = (size_t)snprintf(text, sizeof text, "%0100u", n);
        allowance = 0;
        uint32_t id = mpp_strings_intern(&s, text, length, &fresh);
        allowance = -1;
        if (!id) {
            assert_int_equal(fresh, 0);
            assert_int_equal(s.count, n - 1);
            id = mpp_strings_intern(&s, text, length, &fresh);
        }
        assert_int_equal(id, n);
        assert_int_equal(fresh, 1);
    }
    assert_true(refused > 10);
    for (uint32_t n = 1; n <= 20000; n++) {
        size_t length = (size_t)snprintf(text, sizeof text, "%0100u", n);
        assert_int_equal(mpp_strings_intern(&s, text, length, &fresh), n);
    }
    mpp_strings_release(&s);
}

static void test_identities(void **state)
{
    struct mpp_identity_table t;

    (void)state;
    assert_int_equal(mpp_identity_table_init(&t), 0);
    refused = 0;
    for (uint32_t n = 1; n <= 50000; n++) {
        allowance = 0;
        uint32_t id = mpp_identity_add(&t, address_of(n));
        allowance = -1;
        if (!id) {
            assert_int_equal(mpp_idmap_get(&t.map, address_of(n)), 0);
            id = mpp_identity_add(&t, address_of(n));
        }
        assert_int_equal(id, n);
    }
    assert_true(refused > 5);
    for (uint32_t n = 1; n <= 50000; n++) assert_int_equal(mpp_idmap_get(&t.map, address_of(n)), n);
    /* All may have moved, and there is no memory: nobody is known any more, nobody is taken for another. */
    allowance = 0;
    assert_int_equal(mpp_identity_rekey(&t, moved), -1);
    allowance = -1;
    for (uint32_t n = 1; n <= 50000; n++) {
        assert_int_equal(mpp_idmap_get(&t.map, address_of(n)), 0);
        assert_int_equal(mpp_idmap_get(&t.map, moved(address_of(n))), 0);
        assert_true(t.list[n].value == 0);
    }
    assert_int_equal(mpp_identity_add(&t, address_of(1)), 50001);
    mpp_identity_table_release(&t);
}

static void test_stacks(void **state)
{
    struct mpp_stacks s;
    int fresh;

    (void)state;
    assert_int_equal(mpp_stacks_init(&s), 0);
    refused = 0;
    for (uint32_t n = 1; n <= 50000; n++) {
        struct mpp_site site = {.stack = n / 2, .class_id = n % 5 + n / 2};
        allowance = 0;
        uint32_t node = mpp_stacks_child(&s, n / 3, n, 1, &fresh);
        uint32_t id = mpp_stacks_site(&s, &site, &fresh);
        allowance = -1;
        if (!node) {
            assert_int_equal(s.node_count, n - 1);
            node = mpp_stacks_child(&s, n / 3, n, 1, &fresh);
            assert_int_equal(fresh, 1);
        }
        if (!id) id = mpp_stacks_site(&s, &site, &fresh);
        assert_int_equal(node, n);
        assert_int_equal(id, n);
    }
    assert_true(refused > 10);
    for (uint32_t n = 1; n <= 50000; n++) assert_int_equal(mpp_stacks_child(&s, n / 3, n, 1, &fresh), n);
    mpp_stacks_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inits),   cmocka_unit_test(test_slots),      cmocka_unit_test(test_rekey),
        cmocka_unit_test(test_strings), cmocka_unit_test(test_identities), cmocka_unit_test(test_stacks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
