/* The recorder's tables, which know no Ruby: addresses, ids, strings, backtraces. */
#include "recorder/ext/mpp_recorder/identities.h"
#include "recorder/ext/mpp_recorder/idmap.h"
#include "recorder/ext/mpp_recorder/slots.h"
#include "recorder/ext/mpp_recorder/stacks.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* ---- slots ---- */

#define PAGE_BYTES 65536u
#define BASE       UINT64_C(0x7f0000000000)

static void test_slots_init(void **state)
{
    struct mpp_slots s;

    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        assert_int_equal(mpp_slots_init(&s, PAGE_BYTES, 40, sparse), 0);
        mpp_slots_release(&s);
        mpp_slots_release(&s); /* harmless */
        assert_int_equal(mpp_slots_init(&s, PAGE_BYTES, 4, sparse), -1);
        assert_int_equal(mpp_slots_init(&s, PAGE_BYTES + 8, 40, sparse), -1);
        assert_int_equal(mpp_slots_init(&s, 32, 40, sparse), -1);
        assert_int_equal(mpp_slots_init(&s, 1u << 25, 40, sparse), -1);
        assert_int_equal(mpp_slots_init(&s, 1u << 20, 1u << 13, sparse), -1);
    }
}

/* Every slot of a page has an index of its own, whatever the sizes, and leads back to its address. */
static void test_slots_geometry(void **state)
{
    static const uint32_t pages[] = {16384, 65536, 1u << 20}, slots[] = {8, 24, 32, 40, 48, 56, 64, 80, 160, 640, 1000};

    (void)state;
    for (size_t p = 0; p < COUNT_OF(pages); p++) {
        for (size_t b = 0; b < COUNT_OF(slots); b++) {
            for (uint32_t header = 8; header <= 72; header += 32) {
                struct mpp_slots s;
                struct mpp_slot_page *page = NULL;
                uint32_t phase = (header + slots[b] - 1) / slots[b] * slots[b] % slots[b] + (header == 40 ? 8 % slots[b] : 0), last = UINT32_MAX;
                assert_int_equal(mpp_slots_init(&s, pages[p], slots[b], 0), 0);
                for (uint32_t at = phase; at + slots[b] <= pages[p]; at += slots[b]) {
                    uint32_t index;
                    assert_non_null(mpp_slots_for_new(&s, BASE + at, &page));
                    index = mpp_slots_index(&s, BASE + at);
                    assert_true(index < s.slots_per_page);
                    assert_true(last == UINT32_MAX || index == last + 1);
                    assert_true(mpp_slots_address(&s, page, index) == BASE + at);
                    last = index;
                }
                assert_int_equal(s.count, 1);
                mpp_slots_release(&s);
            }
        }
    }
}

static void put(struct mpp_slots *s, uintptr_t address, uint64_t word)
{
    struct mpp_slot_page *page;
    struct mpp_slot *slot = mpp_slots_for_new(s, address, &page);

    assert_non_null(slot);
    assert_true(slot->word == 0);
    *slot = (struct mpp_slot){.word = word, .size_bytes = (uint32_t)word & 0xffff, .site = (uint32_t)((word & MPP_SLOT_SERIAL) % 1000)};
    if (word & MPP_SLOT_UNMEASURED) page->unmeasured++;
    if (word & MPP_SLOT_SERIAL) {
        page->tracked++;
        s->tracked_count++;
    }
}

static uint64_t get(struct mpp_slots *s, uintptr_t address)
{
    struct mpp_slot_page *page;
    struct mpp_slot *slot = mpp_slots_for_free(s, address, &page);

    if (!slot || !slot->word) return 0;
    assert_int_equal(slot->site, (slot->word & MPP_SLOT_SERIAL) % 1000);
    return slot->word;
}

static void forget(struct mpp_slots *s, uintptr_t address)
{
    struct mpp_slot_page *page;
    struct mpp_slot *slot = mpp_slots_for_free(s, address, &page);

    assert_non_null(slot);
    mpp_slots_clear(s, page, slot);
}

#define MODEL_PAGES 40u
#define MODEL_SLOTS 409u
#define MODEL_COUNT (MODEL_PAGES * MODEL_SLOTS)

static uint64_t model[MODEL_COUNT];

static uintptr_t address_of(uint32_t n)
{
    /* Pages are not neighbours, as in life. */
    return BASE + (uint64_t)(n / MODEL_SLOTS) * 7 * 16384 + 16 + n % MODEL_SLOTS * 40;
}

static void expect_model(struct mpp_slots *s)
{
    uint64_t tracked = 0, walked = 0, known = 0;

    for (uint32_t n = 0; n < MODEL_COUNT; n++) {
        assert_true(get(s, address_of(n)) == model[n]);
        tracked += (model[n] & MPP_SLOT_SERIAL) != 0;
        known += model[n] != 0;
    }
    assert_int_equal(s->tracked_count, tracked);
    for (size_t t = 0; t < s->capacity; t++) {
        struct mpp_slot_page *page = s->table[t];
        struct mpp_slot *slot;
        uint32_t page_tracked = 0, unmeasured = 0;
        uintptr_t last = 0;
        for (uint32_t i = 0; page && (slot = mpp_slots_next(s, page, &i)); i++) {
            uintptr_t address = mpp_slots_address(s, page, i);
            assert_true(address > last);
            last = address;
            assert_true(slot->word == get(s, address));
            page_tracked += (slot->word & MPP_SLOT_SERIAL) != 0;
            unmeasured += (slot->word & MPP_SLOT_UNMEASURED) != 0;
            walked++;
        }
        if (page) assert_int_equal(page->tracked, page_tracked);
        if (page) assert_int_equal(page->unmeasured, unmeasured);
    }
    assert_int_equal(walked, known);
}

/* Random births and deaths, against an array. */
static void test_slots_model(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        struct mpp_slots s;
        uint64_t serial = 0;
        seed = 7;
        memset(model, 0, sizeof model);
        assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
        expect_model(&s);
        for (int step = 0; step < 60000; step++) {
            uint32_t n = (uint32_t)(next_random() % MODEL_COUNT);
            if (model[n]) {
                forget(&s, address_of(n));
                model[n] = 0;
            } else {
                serial++;
                model[n] = serial | (serial % 3 ? 0 : MPP_SLOT_UNMEASURED);
                put(&s, address_of(n), model[n]);
            }
            if (step % 20000 == 0) expect_model(&s);
        }
        expect_model(&s);
        /* Walked and cleared at once. */
        for (size_t t = 0; t < s.capacity; t++) {
            struct mpp_slot *slot;
            for (uint32_t i = 0; s.table[t] && (slot = mpp_slots_next(&s, s.table[t], &i)); i++) mpp_slots_clear(&s, s.table[t], slot);
        }
        memset(model, 0, sizeof model);
        expect_model(&s);
        mpp_slots_release(&s);
    }
}

/* Many pages: the table grows under them. */
static void test_slots_many_pages(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        struct mpp_slots s;
        assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
        assert_int_equal(get(&s, BASE), 0);
        for (uint64_t n = 0; n < 5000; n++) put(&s, BASE + n * 16384 + n % 400 * 40, n + 1);
        for (uint64_t n = 0; n < 5000; n++) assert_true(get(&s, BASE + n * 16384 + n % 400 * 40) == n + 1);
        assert_int_equal(s.count, 5000);
        assert_true(s.capacity >= 10000);
        mpp_slots_release(&s);
    }
}

static uint32_t target[MODEL_COUNT]; /* where the object of slot n goes */
static uint64_t gone_words[16];
static size_t gone_count;

static uintptr_t moved(uintptr_t address)
{
    uint64_t page = (address - BASE) / (7 * 16384), slot = ((address & 16383) - 16) / 40;

    return address_of(target[page * MODEL_SLOTS + slot]);
}

static void gone(const struct mpp_slot *slot)
{
    if (gone_count < COUNT_OF(gone_words)) gone_words[gone_count] = slot->word;
    gone_count++;
}

/* Compaction as a permutation of everything: chains and cycles of all lengths. */
static void test_slots_rekey(void **state)
{
    static uint64_t after[MODEL_COUNT];

    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        struct mpp_slots s;
        seed = 11;
        memset(model, 0, sizeof model);
        assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
        for (uint32_t n = 0; n < MODEL_COUNT; n++) {
            target[n] = n;
            if (next_random() % 3) continue;
            model[n] = (n + 1) | (n % 5 ? 0 : MPP_SLOT_UNMEASURED) | (n % 7 ? 0 : MPP_SLOT_CLASS);
            put(&s, address_of(n), model[n]);
        }
        for (uint32_t n = MODEL_COUNT - 1; n > 0; n--) {
            uint32_t other = (uint32_t)(next_random() % (n + 1)), t = target[n];
            target[n] = target[other];
            target[other] = t;
        }
        gone_count = 0;
        mpp_slots_rekey(&s, moved, gone);
        assert_int_equal(gone_count, 0);
        memset(after, 0, sizeof after);
        for (uint32_t n = 0; n < MODEL_COUNT; n++) after[target[n]] = model[n];
        memcpy(model, after, sizeof model);
        expect_model(&s);
        mpp_slots_release(&s);
    }
}

/* A chain B→A, C→B; a cycle; an object that moves onto one that died unnoticed; one that is dead and waits to be written. */
static void test_slots_rekey_cases(void **state)
{
    (void)state;
    for (int sparse = 0; sparse < 2; sparse++) {
        struct mpp_slots s;
        for (uint32_t n = 0; n < MODEL_COUNT; n++) target[n] = n;
        memset(model, 0, sizeof model);
        gone_count = 0;
        assert_int_equal(mpp_slots_init(&s, 16384, 40, sparse), 0);
        put(&s, address_of(2), 2);
        put(&s, address_of(3), 3);
        target[2] = 1, target[3] = 2;
        model[1] = 2, model[2] = 3;
        put(&s, address_of(500), 500);
        put(&s, address_of(1000), 1000);
        put(&s, address_of(1500), 1500 | MPP_SLOT_UNMEASURED);
        target[500] = 1000, target[1000] = 1500, target[1500] = 500;
        model[1000] = 500, model[1500] = 1000, model[500] = 1500 | MPP_SLOT_UNMEASURED;
        put(&s, address_of(20), 20);
        put(&s, address_of(21), 21);
        target[21] = 20;
        model[20] = 21;
        put(&s, address_of(30), 30 | MPP_SLOT_PENDING_FREE);
        target[30] = 31;
        model[30] = 30 | MPP_SLOT_PENDING_FREE;
        mpp_slots_rekey(&s, moved, gone);
        assert_int_equal(gone_count, 1);
        assert_true(gone_words[0] == 20);
        expect_model(&s);
        /* A late free, after the move: it is the new address that is known. */
        forget(&s, address_of(1));
        model[1] = 0;
        expect_model(&s);
        mpp_slots_release(&s);
    }
}

/* ---- ids by address ---- */

static uintptr_t key_of(uint32_t n)
{
    return BASE + n * 40;
}

static uintptr_t moved_up(uintptr_t key)
{
    return key + 40; /* a chain through all of them */
}

static void test_idmap_model(void **state)
{
    enum { KEYS = 3000 };
    static uint32_t ids[KEYS];
    struct mpp_idmap map;

    (void)state;
    seed = 3;
    memset(ids, 0, sizeof ids);
    assert_int_equal(mpp_idmap_init(&map, 16), 0);
    for (int step = 0; step < 200000; step++) {
        uint32_t n = (uint32_t)(next_random() % KEYS), id = (uint32_t)(next_random() % 1000000 + 1);
        switch (next_random() % 3) {
        case 0:
            assert_int_equal(mpp_idmap_put(&map, key_of(n), id), 0);
            ids[n] = id;
            break;
        case 1:
            assert_int_equal(mpp_idmap_remove(&map, key_of(n)), ids[n]);
            ids[n] = 0;
            break;
        default:
            assert_int_equal(mpp_idmap_get(&map, key_of(n)), ids[n]);
        }
    }
    size_t count = 0;
    for (uint32_t n = 0; n < KEYS; n++) {
        assert_int_equal(mpp_idmap_get(&map, key_of(n)), ids[n]);
        count += ids[n] != 0;
    }
    assert_int_equal(map.count, count);
    assert_int_equal(mpp_idmap_rekey(&map, moved_up), 0);
    for (uint32_t n = 0; n < KEYS; n++) assert_int_equal(mpp_idmap_get(&map, key_of(n + 1)), ids[n]);
    assert_int_equal(mpp_idmap_get(&map, key_of(0)), 0);
    assert_int_equal(map.count, count);
    mpp_idmap_release(&map);
}

static void test_identities(void **state)
{
    struct mpp_identity_table t;

    (void)state;
    assert_int_equal(mpp_identity_table_init(&t), 0);
    assert_int_equal(mpp_identity_add(&t, 0), 1);
    for (uint32_t n = 0; n < 5000; n++) assert_int_equal(mpp_identity_add(&t, key_of(n)), n + 2);
    assert_int_equal(mpp_idmap_get(&t.map, key_of(4999)), 5001);
    /* Another value that leads to the same id, as a singleton class does: its death is not that of the id's object. */
    assert_int_equal(mpp_idmap_put(&t.map, key_of(9000), 2), 0);
    assert_int_equal(mpp_identity_dies(&t, key_of(9000)), 2);
    assert_true(t.list[2].value == key_of(0));
    assert_int_equal(mpp_identity_dies(&t, key_of(0)), 2);
    assert_true(t.list[2].value == 0);
    assert_int_equal(mpp_identity_dies(&t, key_of(0)), 0);
    /* An id is for ever: the address that comes back gets another one. */
    assert_int_equal(mpp_identity_add(&t, key_of(0)), 5002);
    assert_int_equal(mpp_identity_rekey(&t, moved_up), 0);
    assert_int_equal(mpp_idmap_get(&t.map, key_of(1)), 5002);
    assert_int_equal(mpp_idmap_get(&t.map, key_of(2)), 3);
    assert_true(t.list[3].value == key_of(2));
    assert_true(t.list[1].value == 0 && t.list[2].value == 0);
    mpp_identity_table_release(&t);
}

/* What looks the same as one that is dead shares its id; what has no key is never taken for another, nor is what died without a name. */
static void test_identities_shared(void **state)
{
    struct mpp_identity_table t;

    (void)state;
    assert_int_equal(mpp_identity_table_init(&t), 0);
    for (uint32_t n = 0; n < 3000; n++) {
        assert_int_equal(mpp_identity_share(&t, key_of(n), n % 4), 0);
        assert_int_equal(mpp_identity_add(&t, key_of(n)), n + 1);
        t.list[n + 1].key = n % 4;
        t.list[n + 1].named = n % 4 != 3;
    }
    for (uint32_t n = 100; n < 3000; n++) assert_int_equal(mpp_identity_dies(&t, key_of(n)), n + 1);
    assert_int_equal(mpp_identity_share(&t, key_of(100), 0), 0);
    assert_int_equal(mpp_identity_share(&t, key_of(100), 3), 0);
    assert_int_equal(mpp_identity_share(&t, key_of(100), 4), 0);
    assert_int_equal(mpp_identity_share(&t, key_of(100), (UINT64_C(1) << 32) + 1), 0); /* all of a key counts */
    for (uint32_t n = 0; n < 9000; n++) assert_int_equal(mpp_identity_share(&t, key_of(5000 + n), 1 + n % 2), 102 + n % 2);
    /* They move and die, the living keep their own. */
    assert_int_equal(mpp_identity_rekey(&t, moved_up), 0);
    for (uint32_t n = 0; n < 9000; n++) assert_int_equal(mpp_identity_dies(&t, key_of(5001 + n)), 102 + n % 2);
    assert_int_equal(mpp_identity_dies(&t, key_of(5001)), 0);
    for (uint32_t n = 0; n < 100; n++) assert_int_equal(mpp_idmap_get(&t.map, key_of(n + 1)), n + 1);
    assert_int_equal(t.map.count, 100);
    assert_int_equal(t.count, 3000);
    mpp_identity_table_release(&t);
}

static void test_strings(void **state)
{
    struct mpp_strings s;
    char text[32];
    size_t bytes;
    int fresh;

    (void)state;
    assert_int_equal(mpp_strings_init(&s), 0);
    for (int round = 0; round < 2; round++) {
        for (uint32_t n = 0; n < 20000; n++) {
            int length = snprintf(text, sizeof text, "%s%u", n % 2 ? "a longer name " : "", n);
            assert_int_equal(mpp_strings_intern(&s, text, (size_t)length, &fresh), n + 1);
            assert_int_equal(fresh, round == 0);
        }
    }
    assert_memory_equal(mpp_strings_get(&s, 13, &bytes), "12", 2);
    assert_int_equal(bytes, 2);
    /* Bytes are bytes: zeros count, and the empty string is one. */
    assert_int_equal(mpp_strings_intern(&s, "a\0b", 3, &fresh), 20001);
    assert_int_equal(mpp_strings_intern(&s, "a\0c", 3, &fresh), 20002);
    assert_int_equal(mpp_strings_intern(&s, "a", 1, &fresh), 20003);
    assert_int_equal(mpp_strings_intern(&s, "", 0, &fresh), 20004);
    assert_int_equal(mpp_strings_intern(&s, "", 0, &fresh), 20004);
    assert_int_equal(fresh, 0);
    /* Longer than the arena is. */
    size_t huge = 5u << 20;
    char *block = malloc(huge);
    assert_non_null(block);
    memset(block, 'x', huge);
    assert_int_equal(mpp_strings_intern(&s, block, huge, &fresh), 20005);
    assert_memory_equal(mpp_strings_get(&s, 20005, &bytes), block, huge);
    assert_int_equal(bytes, huge);
    free(block);
    mpp_strings_release(&s);
}

/* ---- backtraces ---- */

static void test_stacks(void **state)
{
    enum { NODES = 30000 };
    struct mpp_stacks s;
    int fresh;

    (void)state;
    assert_int_equal(mpp_stacks_init(&s), 0);
    /* A tree in which many nodes have many children; asked for twice, in two orders, so that the guesses fail often. */
    for (uint32_t n = 1; n <= NODES; n++) {
        assert_int_equal(mpp_stacks_child(&s, n / 3, n % 50, n % 3 + n / 150, &fresh), n);
        assert_int_equal(fresh, 1);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t n = (uint32_t)((uint64_t)i * 7919 % NODES) + 1;
        assert_int_equal(mpp_stacks_child(&s, n / 3, n % 50, n % 3 + n / 150, &fresh), n);
        assert_int_equal(fresh, 0);
    }
    assert_int_equal(s.node_count, NODES);
    assert_true(mpp_stacks_memory_bytes(&s) >= NODES * sizeof(struct mpp_node));

    /* What could not be written is taken back, and made again at its next use; nothing else is lost by it. */
    for (int round = 0; round < 3; round++) {
        assert_int_equal(mpp_stacks_child(&s, 5, 99, 1, &fresh), NODES + 1);
        assert_int_equal(fresh, 1);
        mpp_stacks_undo_node(&s);
        assert_int_equal(s.node_count, NODES);
    }
    for (uint32_t n = 1; n <= NODES; n++) assert_int_equal(mpp_stacks_child(&s, n / 3, n % 50, n % 3 + n / 150, &fresh), n);
    mpp_stacks_release(&s);
}

static struct mpp_site site_of(uint32_t n)
{
    return (struct mpp_site){.stack = n % 700, .class_id = n % 11, .thread = n % 3, .birth_bytes = 40u << n % 4, .type = n / 700 % 20};
}

static void test_sites(void **state)
{
    enum { SITES = 14000 };
    struct mpp_stacks s;
    int fresh;

    (void)state;
    assert_int_equal(mpp_stacks_init(&s), 0);
    for (uint32_t n = 1; n < 700; n++) (void)mpp_stacks_child(&s, 0, n, 1, &fresh);
    for (uint32_t n = 0; n < SITES; n++) {
        struct mpp_site site = site_of(n);
        assert_int_equal(mpp_stacks_site(&s, &site, &fresh), n + 1);
        assert_int_equal(fresh, 1);
    }
    for (uint32_t i = 0; i < SITES; i++) {
        uint32_t n = (uint32_t)((uint64_t)i * 6007 % SITES);
        struct mpp_site site = site_of(n);
        assert_int_equal(mpp_stacks_site(&s, &site, &fresh), n + 1);
        assert_int_equal(fresh, 0);
    }
    for (int round = 0; round < 3; round++) {
        struct mpp_site site = {.stack = 3, .class_id = 77};
        assert_int_equal(mpp_stacks_site(&s, &site, &fresh), SITES + 1);
        assert_int_equal(fresh, 1);
        mpp_stacks_undo_site(&s);
    }
    for (uint32_t n = 0; n < SITES; n++) {
        struct mpp_site site = site_of(n);
        assert_int_equal(mpp_stacks_site(&s, &site, &fresh), n + 1);
    }
    assert_int_equal(s.site_count, SITES);
    mpp_stacks_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_init),       cmocka_unit_test(test_slots_geometry), cmocka_unit_test(test_slots_model),
        cmocka_unit_test(test_slots_many_pages), cmocka_unit_test(test_slots_rekey),    cmocka_unit_test(test_slots_rekey_cases),
        cmocka_unit_test(test_idmap_model),      cmocka_unit_test(test_identities),     cmocka_unit_test(test_identities_shared),
        cmocka_unit_test(test_strings),          cmocka_unit_test(test_stacks),         cmocka_unit_test(test_sites),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
