/* Profiles: what the builder writes, read back by protobuf-c; and what the validator refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/mpp_pprof.h"
#include "formats/pprof_internal.h"
#include "proto/profile.pb-c.h"
#include <zlib.h>

typedef Perftools__Profiles__Profile Profile;

#define RAW_ROOM ((size_t)4 << 20)

/* Unpacks a gzip'ed profile; the caller frees it by perftools__profiles__profile__free_unpacked. */
static Profile *read_profile(const unsigned char *data, size_t bytes)
{
    unsigned char *raw = malloc(RAW_ROOM);
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)bytes, .next_out = raw, .avail_out = (unsigned)RAW_ROOM};
    const char *why = NULL;

    assert_non_null(raw);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.avail_in, 0); /* one member, nothing behind it */
    size_t raw_bytes = RAW_ROOM - z.avail_out;
    inflateEnd(&z);
    assert_int_equal(mpp_pprof_validate(raw, raw_bytes, &why), 0);
    assert_null(why);
    Profile *p = perftools__profiles__profile__unpack(NULL, raw_bytes, raw);
    assert_non_null(p);
    free(raw);
    return p;
}

static Profile *encode_and_read(struct mpp_pprof *b)
{
    unsigned char *data = NULL;
    size_t bytes = 0;
    const char *why = NULL;

    assert_int_equal(mpp_pprof_encode(b, &data, &bytes, &why), 0);
    Profile *p = read_profile(data, bytes);
    free(data);
    return p;
}

static const char *text_of(const Profile *p, int64_t index)
{
    assert_true(index >= 0 && (size_t)index < p->n_string_table);
    return p->string_table[index];
}

static uint64_t location(struct mpp_pprof *b, const char *function, int64_t line)
{
    int error = 0;
    uint64_t id = mpp_pprof_location(b, function, "/app/a.rb", 10, line, &error);

    assert_int_equal(error, 0);
    assert_true(id > 0);
    return id;
}

static void test_empty(void **state)
{
    static const char *const names[MPP_PPROF_VALUES][2] = {
        {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};
    struct mpp_pprof *b;

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    Profile *p = encode_and_read(b);
    assert_int_equal(p->n_sample, 0);
    assert_int_equal(p->n_sample_type, MPP_PPROF_VALUES);
    for (size_t i = 0; i < MPP_PPROF_VALUES; i++) {
        assert_string_equal(text_of(p, p->sample_type[i]->type), names[i][0]);
        assert_string_equal(text_of(p, p->sample_type[i]->unit), names[i][1]);
    }
    assert_string_equal(text_of(p, 0), "");
    assert_string_equal(text_of(p, p->default_sample_type), "inuse_space");
    assert_int_equal(p->n_mapping, 1);
    assert_string_equal(text_of(p, p->mapping[0]->filename), "ruby");
    assert_true(p->mapping[0]->has_functions && p->mapping[0]->has_filenames && p->mapping[0]->has_line_numbers);
    assert_int_equal(p->period, 1);
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

static void test_head(void **state)
{
    struct mpp_pprof *b;

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    mpp_pprof_set_time(b, INT64_C(1764597785000000001), INT64_C(5000000002));
    mpp_pprof_set_period(b, 100);
    assert_int_equal(mpp_pprof_add_comment(b, "first"), 0);
    assert_int_equal(mpp_pprof_add_comment(b, "second"), 0);
    assert_int_equal(mpp_pprof_set_default(b, "alloc_objects"), 0);
    assert_int_equal(mpp_pprof_set_default(b, "cpu"), MPP_ERR_INVALID);
    assert_int_equal(mpp_pprof_set_mapping(b, "puma"), 0);
    Profile *p = encode_and_read(b);
    assert_true(p->time_nanos == INT64_C(1764597785000000001));
    assert_true(p->duration_nanos == INT64_C(5000000002));
    assert_int_equal(p->period, 100);
    assert_string_equal(text_of(p, p->period_type->type), "alloc_objects");
    assert_string_equal(text_of(p, p->period_type->unit), "count");
    assert_int_equal(p->n_comment, 2);
    assert_string_equal(text_of(p, p->comment[0]), "first");
    assert_string_equal(text_of(p, p->comment[1]), "second");
    assert_string_equal(text_of(p, p->default_sample_type), "alloc_objects");
    assert_string_equal(text_of(p, p->mapping[0]->filename), "puma");
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

static void test_locations_are_interned(void **state)
{
    struct mpp_pprof *b;
    int error = 0;

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    uint64_t first = location(b, "A#a", 11);
    assert_int_equal(location(b, "A#a", 11), first);
    uint64_t other_line = location(b, "A#a", 12), other_function = location(b, "A#b", 11);
    uint64_t other_path = mpp_pprof_location(b, "A#a", "/app/b.rb", 10, 11, &error);
    uint64_t other_start = mpp_pprof_location(b, "A#a", "/app/a.rb", 9, 11, &error);
    assert_int_equal(error, 0);
    assert_true(first != other_line && first != other_function && first != other_path && first != other_start);
    Profile *p = encode_and_read(b);
    assert_int_equal(p->n_location, 5);
    assert_int_equal(p->n_function, 4);
    for (size_t i = 0; i < p->n_location; i++) {
        assert_int_equal(p->location[i]->id, i + 1);
        assert_int_equal(p->location[i]->mapping_id, 1);
        assert_int_equal(p->location[i]->n_line, 1);
    }
    assert_int_equal(p->location[first - 1]->line[0]->line, 11);
    const Perftools__Profiles__Function *f = p->function[p->location[other_path - 1]->line[0]->function_id - 1];
    assert_string_equal(text_of(p, f->name), "A#a");
    assert_int_equal(f->system_name, 0);
    assert_string_equal(text_of(p, f->filename), "/app/b.rb");
    assert_int_equal(f->start_line, 10);
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

/* More of each than one part holds, and one stack that is larger than a part. */
static void test_many_samples(void **state)
{
    enum { LOCATIONS = 1000, SAMPLES = 3000, DEEP = 20000 };
    static uint64_t ids[LOCATIONS], deep[DEEP];
    struct mpp_pprof *b;
    char name[32];

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    for (int i = 0; i < LOCATIONS; i++) {
        snprintf(name, sizeof(name), "F%d", i);
        ids[i] = location(b, name, i);
    }
    for (int i = 0; i < DEEP; i++) deep[i] = ids[i % LOCATIONS];
    for (int i = 0; i < SAMPLES; i++) {
        int64_t values[MPP_PPROF_VALUES] = {i, -i, INT64_MAX, INT64_MIN};
        snprintf(name, sizeof(name), "C%d", i);
        struct mpp_pprof_label labels[] = {{.key = "class", .text = name}, {.key = "gc_age", .number = i, .unit = "gcs"}};
        assert_int_equal(mpp_pprof_add_sample(b, ids + i % 500, (size_t)i % 40 + 1, values, labels, 2), 0);
    }
    assert_int_equal(mpp_pprof_add_sample(b, deep, DEEP, (int64_t[]){1, 2, 3, 4}, NULL, 0), 0);
    Profile *p = encode_and_read(b);
    assert_int_equal(p->n_sample, SAMPLES + 1);
    for (size_t i = 0; i < SAMPLES; i++) {
        const Perftools__Profiles__Sample *s = p->sample[i];
        assert_int_equal(s->n_location_id, i % 40 + 1);
        for (size_t k = 0; k < s->n_location_id; k++) assert_int_equal(s->location_id[k], ids[i % 500 + k]);
        assert_int_equal(s->n_value, MPP_PPROF_VALUES);
        assert_true(s->value[0] == (int64_t)i && s->value[1] == -(int64_t)i && s->value[2] == INT64_MAX && s->value[3] == INT64_MIN);
        assert_int_equal(s->n_label, 2);
        assert_string_equal(text_of(p, s->label[0]->key), "class");
        snprintf(name, sizeof(name), "C%d", (int)i);
        assert_string_equal(text_of(p, s->label[0]->str), name);
        assert_string_equal(text_of(p, s->label[1]->key), "gc_age");
        assert_int_equal(s->label[1]->num, i);
        assert_string_equal(text_of(p, s->label[1]->num_unit), "gcs");
    }
    assert_int_equal(p->sample[SAMPLES]->n_location_id, DEEP);
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

/* pprof drops a label of number 0 that has no unit: so a number always has one. */
static void test_number_without_unit(void **state)
{
    struct mpp_pprof *b;
    struct mpp_pprof_label label = {.key = "gc_age", .number = 0};

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    uint64_t id = location(b, "A#a", 1);
    assert_int_equal(mpp_pprof_add_sample(b, &id, 1, (int64_t[]){1, 2, 3, 4}, &label, 1), 0);
    Profile *p = encode_and_read(b);
    assert_int_equal(p->sample[0]->label[0]->str, 0);
    assert_string_equal(text_of(p, p->sample[0]->label[0]->num_unit), "count");
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

/* pprof leaves out samples without locations. */
static void test_no_stack(void **state)
{
    struct mpp_pprof *b;

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(mpp_pprof_add_sample(b, NULL, 0, (int64_t[]){1, 2, 3, 4}, NULL, 0), 0);
    Profile *p = encode_and_read(b);
    assert_int_equal(p->n_sample, 2);
    assert_int_equal(p->n_location, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p->sample[i]->n_location_id, 1);
        assert_int_equal(p->sample[i]->location_id[0], 1);
    }
    assert_string_equal(text_of(p, p->function[0]->name), "(no stack)");
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

static void test_unknown_location_is_refused(void **state)
{
    struct mpp_pprof *b;
    uint64_t none = 0, beyond = 2, far = (UINT64_C(1) << 32) + 1;

    (void)state;
    assert_int_equal(mpp_pprof_new(&b), 0);
    location(b, "A#a", 1);
    assert_int_equal(mpp_pprof_add_sample(b, &none, 1, (int64_t[]){1, 2, 3, 4}, NULL, 0), MPP_ERR_INVALID);
    assert_int_equal(mpp_pprof_add_sample(b, &beyond, 1, (int64_t[]){1, 2, 3, 4}, NULL, 0), MPP_ERR_INVALID);
    assert_int_equal(mpp_pprof_add_sample(b, &far, 1, (int64_t[]){1, 2, 3, 4}, NULL, 0), MPP_ERR_INVALID);
    Profile *p = encode_and_read(b);
    assert_int_equal(p->n_sample, 0);
    perftools__profiles__profile__free_unpacked(p, NULL);
    mpp_pprof_free(b);
}

static void test_invalid_utf8(void **state)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"a\xFFz", "a\xEF\xBF\xBDz"},
        {"\x80", "\xEF\xBF\xBD"},                                                                 /* a tail alone */
        {"\xC3", "\xEF\xBF\xBD"},                                                                 /* ends early */
        {"\xE2\x82z", "\xEF\xBF\xBDz"},                                                           /* one for the longest part */
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                                 /* longer than needed */
        {"\xE0\x80\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                                 /* the same in three */
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                                 /* a surrogate */
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* above U+10FFFF */
        {"\xF0\x9F\x98\xFF\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xF0\x9F\x98\x80"},         /* goes on after it */
        {"\xF8\x88\x80\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* five bytes were once allowed */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mpp_pprof *b;
        struct mpp_pprof_label label = {.key = cases[i][0], .text = cases[i][0]};
        assert_int_equal(mpp_pprof_new(&b), 0);
        uint64_t id = location(b, cases[i][0], 1);
        assert_int_equal(location(b, cases[i][0], 1), id);
        assert_int_equal(location(b, cases[i][1], 1), id); /* the same once it is mended */
        assert_int_equal(mpp_pprof_add_sample(b, &id, 1, (int64_t[]){1, 2, 3, 4}, &label, 1), 0);
        assert_int_equal(mpp_pprof_add_comment(b, cases[i][0]), 0);
        assert_int_equal(mpp_pprof_set_mapping(b, cases[i][0]), 0);
        Profile *p = encode_and_read(b);
        assert_string_equal(text_of(p, p->function[0]->name), cases[i][1]);
        assert_string_equal(text_of(p, p->sample[0]->label[0]->key), cases[i][1]);
        assert_string_equal(text_of(p, p->sample[0]->label[0]->str), cases[i][1]);
        assert_string_equal(text_of(p, p->comment[0]), cases[i][1]);
        assert_string_equal(text_of(p, p->mapping[0]->filename), cases[i][1]);
        perftools__profiles__profile__free_unpacked(p, NULL);
        mpp_pprof_free(b);
    }
}

/* A profile with everything in it. NULL on failure, with *error set. */
static struct mpp_pprof *build(int *error)
{
    struct mpp_pprof *b = NULL;
    char name[32];

    *error = mpp_pprof_new(&b);
    if (!*error) *error = mpp_pprof_add_comment(b, "comment \xFF");
    if (!*error) *error = mpp_pprof_set_mapping(b, "app");
    for (int i = 0; !*error && i < 300; i++) {
        uint64_t ids[2];
        snprintf(name, sizeof(name), "F%d", i);
        ids[0] = mpp_pprof_location(b, name, "/app/a.rb", 1, i, error);
        if (*error) break;
        ids[1] = mpp_pprof_location(b, "main", "/app/main.rb", 0, i % 7, error);
        if (*error) break;
        struct mpp_pprof_label labels[] = {{.key = "class", .text = name}, {.key = "gc_age", .number = i}};
        *error = mpp_pprof_add_sample(b, ids, 2, (int64_t[]){i, i * 40, 1, 40}, labels, 2);
    }
    if (*error) {
        mpp_pprof_free(b);
        return NULL;
    }
    return b;
}

static void test_deterministic(void **state)
{
    unsigned char *data[3];
    size_t bytes[3];
    int error;

    (void)state;
    struct mpp_pprof *a = build(&error), *b = build(&error);
    assert_int_equal(mpp_pprof_encode(a, &data[0], &bytes[0], NULL), 0);
    assert_int_equal(mpp_pprof_encode(a, &data[1], &bytes[1], NULL), 0);
    assert_int_equal(mpp_pprof_encode(b, &data[2], &bytes[2], NULL), 0);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(bytes[i], bytes[0]);
        assert_memory_equal(data[i], data[0], bytes[0]);
    }
    assert_memory_equal(data[0], "\x1F\x8B\x08\x00\x00\x00\x00\x00", 8); /* no name, no time in the gzip header */
    for (int i = 0; i < 3; i++) free(data[i]);
    mpp_pprof_free(a);
    mpp_pprof_free(b);
}

static int allocations_left;

static void *failing_realloc(void *old, size_t bytes)
{
    if (allocations_left-- <= 0) return NULL;
    return realloc(old, bytes);
}

/* Every allocation fails once: no crash, no leak (the sanitizers look), the right error, and what was built before still serves. */
static void test_no_memory(void **state)
{
    int failures = 0;

    (void)state;
    for (int n = 0;; n++) {
        int error;
        allocations_left = n;
        pprof_realloc = failing_realloc;
        struct mpp_pprof *b = build(&error);
        pprof_realloc = realloc;
        if (b) {
            mpp_pprof_free(b);
            break;
        }
        assert_int_equal(error, MPP_ERR_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 10);

    int error;
    struct mpp_pprof *b = build(&error);
    assert_non_null(b);
    for (failures = 0;; failures++) {
        unsigned char *data = (unsigned char *)1;
        size_t bytes = 77;
        allocations_left = failures;
        pprof_realloc = failing_realloc;
        error = mpp_pprof_encode(b, &data, &bytes, NULL);
        pprof_realloc = realloc;
        if (!error) {
            Profile *p = read_profile(data, bytes);
            assert_int_equal(p->n_sample, 300);
            perftools__profiles__profile__free_unpacked(p, NULL);
            free(data);
            break;
        }
        assert_int_equal(error, MPP_ERR_NO_MEMORY);
        assert_true(data == (unsigned char *)1 && bytes == 77);
    }
    assert_true(failures > 10);
    mpp_pprof_free(b);
}

/* A profile by hand, sound until a case breaks it. */
struct hand {
    Profile profile;
    Perftools__Profiles__ValueType type, period_type;
    Perftools__Profiles__Mapping mapping[2];
    Perftools__Profiles__Function function[2];
    Perftools__Profiles__Line line;
    Perftools__Profiles__Location location[2];
    Perftools__Profiles__Label label;
    Perftools__Profiles__Sample sample;
    Perftools__Profiles__ValueType *types[1];
    Perftools__Profiles__Mapping *mappings[2];
    Perftools__Profiles__Function *functions[2];
    Perftools__Profiles__Line *lines[1];
    Perftools__Profiles__Location *locations[2];
    Perftools__Profiles__Label *labels[1];
    Perftools__Profiles__Sample *samples[1];
    char *strings[4];
    uint64_t stack[2];
    int64_t values[2], comments[1];
};

static char EMPTY[] = "", SPACE[] = "inuse_space", BYTES[] = "bytes", NAME[] = "name", BAD[] = "\xC3(";

static void hand_init(struct hand *h)
{
    memset(h, 0, sizeof(*h));
    perftools__profiles__profile__init(&h->profile);
    perftools__profiles__value_type__init(&h->type);
    perftools__profiles__value_type__init(&h->period_type);
    perftools__profiles__line__init(&h->line);
    perftools__profiles__label__init(&h->label);
    perftools__profiles__sample__init(&h->sample);
    for (int i = 0; i < 2; i++) {
        perftools__profiles__mapping__init(&h->mapping[i]);
        perftools__profiles__function__init(&h->function[i]);
        perftools__profiles__location__init(&h->location[i]);
        h->mappings[i] = &h->mapping[i];
        h->functions[i] = &h->function[i];
        h->locations[i] = &h->location[i];
        h->mapping[i].id = h->function[i].id = h->location[i].id = (uint64_t)(7 - i * 3); /* neither dense nor rising */
        h->mapping[i].has_functions = h->mapping[i].has_filenames = h->mapping[i].has_line_numbers = 1;
        h->mapping[i].filename = h->function[i].name = h->function[i].filename = 3;
        h->location[i].mapping_id = 7;
        h->stack[i] = h->location[i].id;
    }
    h->strings[0] = EMPTY;
    h->strings[1] = SPACE;
    h->strings[2] = BYTES;
    h->strings[3] = NAME;
    h->type.type = h->profile.default_sample_type = 1;
    h->type.unit = 2;
    h->line.function_id = 4;
    h->lines[0] = &h->line;
    h->location[1].line = h->lines;
    h->location[1].n_line = 1;
    h->label.key = h->label.str = 3;
    h->labels[0] = &h->label;
    h->sample.label = h->labels;
    h->sample.n_label = 1;
    h->sample.location_id = h->stack;
    h->sample.n_location_id = 2;
    h->sample.value = h->values;
    h->sample.n_value = 1;
    h->types[0] = &h->type;
    h->samples[0] = &h->sample;
    h->profile.sample_type = h->types;
    h->profile.n_sample_type = 1;
    h->profile.period_type = &h->period_type;
    h->profile.sample = h->samples;
    h->profile.n_sample = 1;
    h->profile.mapping = h->mappings;
    h->profile.n_mapping = 1;
    h->profile.function = h->functions;
    h->profile.n_function = 2;
    h->profile.location = h->locations;
    h->profile.n_location = 2;
    h->profile.string_table = h->strings;
    h->profile.n_string_table = 4;
    h->profile.comment = h->comments;
    h->profile.n_comment = 1;
}

static int hand_validate(const struct hand *h, const char **why)
{
    unsigned char bytes[1024];

    assert_true(perftools__profiles__profile__get_packed_size(&h->profile) <= sizeof(bytes));
    size_t length = perftools__profiles__profile__pack(&h->profile, bytes);
    *why = NULL;
    return mpp_pprof_validate(bytes, length, why);
}

static void test_broken_profiles(void **state)
{
    struct hand h;
    const char *why;

    (void)state;
    hand_init(&h);
    assert_int_equal(hand_validate(&h, &why), 0);

#define BROKEN(change, reason)                                                                                                                       \
    do {                                                                                                                                             \
        hand_init(&h);                                                                                                                               \
        change;                                                                                                                                      \
        assert_int_equal(hand_validate(&h, &why), MPP_ERR_INVALID);                                                                                  \
        assert_string_equal(why, reason);                                                                                                            \
    } while (0)

    BROKEN(h.profile.n_string_table = 0, "there is no string_table[0]");
    BROKEN(h.strings[0] = NAME, "string_table[0] is not empty");
    BROKEN(h.strings[3] = BAD, "a string is not valid UTF-8");
    BROKEN(h.sample.n_value = 0, "a sample has not as many values as there are sample types");
    BROKEN(h.sample.n_value = 2, "a sample has not as many values as there are sample types");
    BROKEN(h.profile.n_sample_type = 0, "a sample has not as many values as there are sample types");
    BROKEN(h.mapping[0].id = 0, "a mapping has the id 0");
    BROKEN(h.function[0].id = 0, "a function has the id 0");
    BROKEN(h.location[0].id = 0, "a location has the id 0");
    BROKEN((h.profile.n_mapping = 2, h.mapping[1].id = 7), "two mappings have the same id");
    BROKEN(h.function[1].id = 7, "two functions have the same id");
    BROKEN(h.location[1].id = 7, "two locations have the same id");
    BROKEN(h.line.function_id = 0, "a line refers to a function that does not exist");
    BROKEN(h.line.function_id = 5, "a line refers to a function that does not exist");
    BROKEN(h.location[0].mapping_id = 0, "a location refers to a mapping that does not exist");
    BROKEN(h.location[0].mapping_id = 1, "a location refers to a mapping that does not exist");
    BROKEN(h.sample.n_location_id = 0, "a sample has no location");
    BROKEN(h.stack[1] = 0, "a sample refers to a location that does not exist");
    BROKEN(h.stack[1] = 5, "a sample refers to a location that does not exist");
    BROKEN(h.type.type = 4, "a sample type has a string index out of range");
    BROKEN(h.type.unit = -1, "a sample type has a string index out of range");
    BROKEN(h.period_type.unit = 4, "the period type has a string index out of range");
    BROKEN(h.comments[0] = 4, "a comment has a string index out of range");
    BROKEN(h.profile.drop_frames = 4, "a string index of the profile is out of range");
    BROKEN(h.profile.keep_frames = INT64_MIN, "a string index of the profile is out of range");
    BROKEN(h.profile.doc_url = 4, "a string index of the profile is out of range");
    BROKEN(h.profile.default_sample_type = 4, "a string index of the profile is out of range");
    BROKEN(h.mapping[0].filename = 4, "a mapping has a string index out of range");
    BROKEN(h.mapping[0].build_id = 4, "a mapping has a string index out of range");
    BROKEN(h.function[0].name = 4, "a function has a string index out of range");
    BROKEN(h.function[0].system_name = 4, "a function has a string index out of range");
    BROKEN(h.function[1].filename = -4, "a function has a string index out of range");
    BROKEN(h.label.key = 4, "a label has a string index out of range");
    BROKEN(h.label.str = 4, "a label has a string index out of range");
    BROKEN(h.label.num_unit = 4, "a label has a string index out of range");
    BROKEN(h.label.key = 0, "a label has no key");
    BROKEN(h.label.num = 1, "a label has both a text and a number");
    BROKEN((h.profile.n_mapping = 0, h.profile.n_location = 0, h.profile.n_sample = 0), "there is not exactly one mapping");
    BROKEN(h.profile.n_mapping = 2, "there is not exactly one mapping");
    BROKEN(h.mapping[0].has_functions = 0, "a mapping lacks has_functions, has_filenames or has_line_numbers");
    BROKEN(h.mapping[0].has_filenames = 0, "a mapping lacks has_functions, has_filenames or has_line_numbers");
    BROKEN(h.mapping[0].has_line_numbers = 0, "a mapping lacks has_functions, has_filenames or has_line_numbers");
    BROKEN(h.profile.default_sample_type = 0, "default_sample_type is not the name of a sample type");
    /* 2 names the unit. Read as an index of sample_type it would be out of range, 1 would be as well: it is an index of strings */
    BROKEN(h.profile.default_sample_type = 2, "default_sample_type is not the name of a sample type");
#undef BROKEN
}

static void test_no_profile(void **state)
{
    static const unsigned char garbage[] = {0x0A, 0x7F, 0x01, 0x02}, ends_early[] = {0x32};
    const char *why = NULL;

    (void)state;
    assert_int_equal(mpp_pprof_validate(garbage, sizeof(garbage), &why), MPP_ERR_MALFORMED);
    assert_non_null(why);
    assert_int_equal(mpp_pprof_validate(ends_early, sizeof(ends_early), &why), MPP_ERR_MALFORMED);
    assert_int_equal(mpp_pprof_validate(NULL, 0, &why), MPP_ERR_INVALID);
    assert_string_equal(why, "there is no string_table[0]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_locations_are_interned),
        cmocka_unit_test(test_many_samples),
        cmocka_unit_test(test_number_without_unit),
        cmocka_unit_test(test_no_stack),
        cmocka_unit_test(test_unknown_location_is_refused),
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_broken_profiles),
        cmocka_unit_test(test_no_profile),
    };

    return cmocka_run_group_tests_name("pprof", tests, NULL, NULL);
}
