/* The stores below the heap: live objects by serial, tables of ids, equal bytes. Held against simple ones. */
#include "analyzer/id_map.h"
#include "analyzer/intern.h"
#include "analyzer/objects.h"
#include "analyzer/utf8.h"
#include "formats/mpp_error.h"
#include "unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state_of_random;
static uint64_t next_random(void)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return state_of_random >> 20;
}

static void put(struct objects *o, uint64_t serial, uint32_t weight)
{
    assert_int_equal(objects_enter(o, serial), 0);
    o->current->entries[serial & (CHUNK_OBJECTS - 1)] =
        (struct object){.size_and_low = serial * 3 % (UINT64_C(1) << 40), .site = 5, .weight = weight};
    o->current->live++;
}

static void drop(struct objects *o, uint64_t serial)
{
    struct object_chunk *c;
    struct object *e = objects_find(o, serial, &c);

    assert_non_null(e);
    assert_int_equal(object_size(e), serial * 3 % (UINT64_C(1) << 40));
    objects_remove(o, c, e);
    assert_null(objects_find(o, serial, &c));
}

static void count_one(void *context, uint64_t serial, const struct object *object, const struct live_object *live)
{
    uint64_t *sum = context;

    if (!live) assert_int_equal(object_size(object), serial * 3 % (UINT64_C(1) << 40));
    sum[0]++;
    sum[1] += serial;
}

/* Many are born, few survive: the memory follows those that live. */
static void test_survivors(void **state)
{
    struct objects o = {0};
    uint64_t sum[2] = {0}, expected[2] = {0};
    const uint64_t count = 400 * (uint64_t)CHUNK_OBJECTS;

    (void)state;
    for (uint64_t s = 1; s <= count; s++) {
        put(&o, s, 1);
        /* Each dies a chunk later, but for one in a thousand. */
        if (s > CHUNK_OBJECTS && (s - CHUNK_OBJECTS) % 1000) drop(&o, s - CHUNK_OBJECTS);
    }
    assert_true(o.dense_count < 200);
    for (uint64_t s = 1; s <= count; s++) {
        struct object_chunk *c;
        int lives = s > count - CHUNK_OBJECTS || s % 1000 == 0;
        assert_int_equal(objects_find(&o, s, &c) != NULL, lives);
        expected[0] += (uint64_t)lives;
        expected[1] += lives ? s : 0;
    }
    objects_each(&o, count_one, sum);
    assert_int_equal(sum[0], expected[0]);
    assert_int_equal(sum[1], expected[1]);
    for (uint64_t s = 1000; s <= count - CHUNK_OBJECTS; s += 1000) drop(&o, s);
    for (uint64_t s = count - CHUNK_OBJECTS + 1; s <= count; s++) drop(&o, s);
    objects_drop_emptied(&o);
    assert_int_equal(o.chunk_count, 1); /* the current one */
    objects_release(&o);
}

static size_t bytes_of(const struct objects *o)
{
    size_t sum = o->flat_count * sizeof(void *) + (o->chunk_capacity + o->emptied_capacity) * sizeof(void *);

    for (size_t i = 0; i < o->chunk_count; i++) {
        const struct object_chunk *c = o->chunks[i];
        int owns_index = c->index && !c->is_flat;
        sum += sizeof *c + 16 + c->count * sizeof(struct object) + (owns_index ? INDEX_WORDS * sizeof(uint64_t) : 0);
    }
    return sum;
}

/* Of each chunk one object survives, or `survivors` do: what the dead leave behind may cost no more than 32 bytes an object and 64 MiB in all. */
static void survive(uint64_t chunks, uint64_t survivors)
{
    struct objects o = {0};
    uint64_t sum[2] = {0};

    for (uint64_t n = 1; n <= chunks; n++) {
        uint64_t first = n << CHUNK_BITS;
        for (uint64_t s = 0; s < CHUNK_OBJECTS; s++) put(&o, first + s, 1);
        for (uint64_t s = 0; s < CHUNK_OBJECTS; s++) {
            if (s * survivors / CHUNK_OBJECTS == (s + 1) * survivors / CHUNK_OBJECTS) drop(&o, first + s);
        }
    }
    objects_each(&o, count_one, sum);
    assert_int_equal(sum[0], chunks * survivors);
    assert_true(bytes_of(&o) <= ((size_t)48 << 20) + 32 * sum[0]);
    objects_release(&o);
}

static void test_scattered_survivors(void **state)
{
    (void)state;
    survive(1500, 1);
    survive(500, LISTED_OBJECTS - 1);
    survive(500, LISTED_OBJECTS);
    survive(300, CHUNK_OBJECTS / 2 - 1);
    survive(300, CHUNK_OBJECTS / 2);
}

/* A hostile log jumps from serial to serial. */
static void test_far_serials(void **state)
{
    struct objects o = {0};
    uint64_t serial = 1;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        put(&o, serial, 1);
        serial += UINT64_C(1) << 38;
    }
    assert_true(o.dense_count < 200);
    serial = 1;
    for (int i = 0; i < 1000; i++) {
        drop(&o, serial);
        serial += UINT64_C(1) << 38;
    }
    objects_drop_emptied(&o);
    assert_true(o.chunk_count <= 1);
    objects_release(&o);
}

static void test_live_objects(void **state)
{
    struct objects o = {0};
    uint64_t sum[2] = {0};

    (void)state;
    for (uint64_t s = 1; s <= 1000; s++) {
        struct live_object *l = objects_add_live(&o, s << 30);
        assert_non_null(l);
        l->object.weight = 1;
    }
    for (uint64_t s = 1; s <= 1000; s += 2) objects_remove_live(&o, objects_find_live(&o, s << 30));
    for (uint64_t s = 1; s <= 1000; s++) assert_int_equal(objects_find_live(&o, s << 30) != NULL, s % 2 == 0);
    assert_non_null(objects_add_live(&o, 77));
    objects_find_live(&o, 77)->object.weight = 1;
    assert_int_equal(o.live_count, 1000); /* a freed place is used again */
    objects_each(&o, count_one, sum);
    assert_int_equal(sum[0], 501);
    objects_release(&o);
}

static void test_u64_map(void **state)
{
    struct u64_map m = {0};
    static uint32_t simple[4096]; /* by key; 0: absent */

    (void)state;
    state_of_random = 1;
    memset(simple, 0, sizeof simple);
    assert_null(u64_map_get(&m, 1));
    for (int i = 0; i < 200000; i++) {
        uint32_t key = 1 + (uint32_t)(next_random() % 4095);
        if (next_random() % 3) {
            assert_int_equal(u64_map_put(&m, key, (uint32_t)i + 1), 0);
            simple[key] = (uint32_t)i + 1;
        } else {
            u64_map_remove(&m, key);
            simple[key] = 0;
        }
    }
    size_t count = 0;
    for (uint32_t key = 1; key < 4096; key++) {
        const uint32_t *value = u64_map_get(&m, key);
        assert_int_equal(value ? *value : 0, simple[key]);
        count += simple[key] != 0;
    }
    assert_int_equal(m.count, count);
    u64_map_release(&m);
}

static void test_id_map(void **state)
{
    struct id_map m = {0};
    uint32_t index = 0;

    (void)state;
    /* Sparse ids first, then the dense ones below them: those that come within reach move over. */
    for (uint32_t id = 700; id < 100000; id += 1000) assert_int_equal(id_map_add(&m, id, index++), 0);
    assert_int_equal(id_map_add(&m, (1u << 28) - 1, index++), 0);
    assert_true(m.flat_count < 5000);
    for (uint32_t id = 1; id < 20000; id++) {
        if (id % 1000 != 700) assert_int_equal(id_map_add(&m, id, index++), 0);
    }
    index = 0;
    for (uint32_t id = 700; id < 100000; id += 1000) assert_int_equal(id_map_find(&m, id), index++);
    assert_int_equal(id_map_find(&m, (1u << 28) - 1), index++);
    for (uint32_t id = 1; id < 20000; id++) {
        if (id % 1000 != 700) assert_int_equal(id_map_find(&m, id), index++);
    }
    assert_int_equal(id_map_find(&m, 0), ID_MAP_NONE);
    assert_int_equal(id_map_find(&m, 99999), ID_MAP_NONE);
    assert_true(m.flat_count < 1u << 20);
    id_map_release(&m);
}

static void test_intern(void **state)
{
    struct intern in = {0};
    char text[32];

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            int length = snprintf(text, sizeof text, "name %u", i);
            assert_int_equal(intern_put(&in, text, (size_t)length), i);
        }
    }
    assert_int_equal(intern_put(&in, "a\0b", 3), 5000);
    assert_int_equal(intern_put(&in, "a\0c", 3), 5001);
    assert_int_equal(intern_put(&in, "", 0), 5002);
    assert_string_equal(intern_text(&in, 4321), "name 4321");
    intern_release(&in);
}

/* The same as Ruby's String#scrub. */
static void test_scrub(void **state)
{
#define R "\xEF\xBF\xBD"
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"plain", "plain"},
        {"m\xC3\xA4rz \xE2\x82\xAC \xF0\x9F\x98\x80", "m\xC3\xA4rz \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\xFF", R},
        {"a\xC3", "a" R},
        {"\xE2\x82", R},
        {"\xE2\x28", R "("},
        {"\xF0\x9F\x98z", R "z"},
        {"\xC0\x80", R R},             /* overlong */
        {"\xE0\x80\x80", R R R},       /* overlong */
        {"\xED\xA0\x80", R R R},       /* a surrogate */
        {"\xF4\x90\x80\x80", R R R R}, /* beyond U+10FFFF */
        {"\x80\x80", R R},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t length;
        char *got = utf8_scrub(cases[i].from, strlen(cases[i].from), &length);
        assert_non_null(got);
        assert_string_equal(got, cases[i].to);
        assert_int_equal(length, strlen(cases[i].to));
        assert_int_equal(utf8_is_valid(cases[i].from, strlen(cases[i].from)), strcmp(cases[i].from, cases[i].to) == 0);
        free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_survivors),   cmocka_unit_test(test_scattered_survivors),
        cmocka_unit_test(test_far_serials), cmocka_unit_test(test_live_objects),
        cmocka_unit_test(test_u64_map),     cmocka_unit_test(test_id_map),
        cmocka_unit_test(test_intern),      cmocka_unit_test(test_scrub),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
