/* The builder of a profile: interns, copies, keeps. pprof_encode.c writes what it holds. */
#include "mpp_pprof.h"
#include "pprof_internal.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char *const TYPES[MPP_PPROF_VALUES][2] = {
    {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};

/* What a sample without locations stands under: pprof leaves such samples out of its tables and its totals, without a word. */
static const char NO_STACK[] = "(no stack)";

/* The number of a text that is UTF-8. */
static int intern_valid(struct mpp_pprof *p, const char *text, size_t bytes, uint64_t hash, uint32_t *out)
{
    struct pprof_table *t = &p->string_table;
    size_t at = (size_t)hash;
    uint32_t i;

    int error = pprof_table_reserve(t);
    if (!error) error = pprof_grow(&p->strings, &p->strings_capacity, (size_t)t->count + 1, sizeof(*p->strings));
    if (error) return error;
    while ((i = pprof_table_next(t, hash, &at)) != UINT32_MAX) {
        if (p->strings[i].bytes == bytes && !memcmp(p->strings[i].text, text, bytes)) {
            *out = i;
            return 0;
        }
    }
    char *copy = pprof_arena_alloc(&p->arena, bytes + 1);
    if (!copy) return MPP_ERR_NO_MEMORY;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    *out = pprof_table_add(t, hash, at);
    p->strings[*out] = (struct pprof_text){copy, bytes};
    return 0;
}

static int intern(struct mpp_pprof *p, const char *text, uint32_t *out)
{
    size_t bytes = strlen(text);
    uint64_t hash = XXH3_64bits(text, bytes);
    size_t at = (size_t)hash;
    uint32_t i;

    /* What is in the table is UTF-8: only what is new is looked at. */
    while (p->string_table.mask && (i = pprof_table_next(&p->string_table, hash, &at)) != UINT32_MAX) {
        if (p->strings[i].bytes == bytes && !memcmp(p->strings[i].text, text, bytes)) {
            *out = i;
            return 0;
        }
    }
    if (bytes > SIZE_MAX / 8) return MPP_ERR_TOO_LARGE;
    if (!pprof_utf8_valid(text, bytes)) {
        int error = pprof_grow(&p->scrubbed, &p->scrubbed_capacity, bytes * 3, 1);
        if (error) return error;
        bytes = pprof_utf8_scrub(p->scrubbed, text, bytes);
        text = p->scrubbed;
        hash = XXH3_64bits(text, bytes);
    }
    return intern_valid(p, text, bytes, hash, out);
}

int mpp_pprof_new(struct mpp_pprof **out)
{
    struct mpp_pprof *p = pprof_realloc(NULL, sizeof(*p));
    uint32_t empty;

    if (!p) return MPP_ERR_NO_MEMORY;
    memset(p, 0, sizeof(*p));
    p->last_sample = &p->first_sample;
    p->period = 1;
    int error = intern(p, "", &empty); /* string 0 */
    for (int i = 0; !error && i < MPP_PPROF_VALUES; i++) {
        error = intern(p, TYPES[i][0], &p->type_names[i]);
        if (!error) error = intern(p, TYPES[i][1], &p->type_units[i]);
    }
    p->default_type = p->type_names[MPP_PPROF_VALUES - 1];
    p->count_unit = p->type_units[0];
    if (!error) error = intern(p, "ruby", &p->mapping_file);
    if (error) {
        mpp_pprof_free(p);
        return error;
    }
    *out = p;
    return 0;
}

void mpp_pprof_free(struct mpp_pprof *p)
{
    if (!p) return;
    pprof_arena_release(&p->arena);
    pprof_table_release(&p->string_table);
    pprof_table_release(&p->function_table);
    pprof_table_release(&p->location_table);
    free(p->strings);
    free(p->functions);
    free(p->locations);
    free(p->comments);
    free(p->scrubbed);
    free(p);
}

void mpp_pprof_set_time(struct mpp_pprof *p, int64_t time_unix_ns, int64_t duration_ns)
{
    p->time_unix_ns = time_unix_ns;
    p->duration_ns = duration_ns;
}

void mpp_pprof_set_period(struct mpp_pprof *p, int64_t period)
{
    p->period = period;
}

int mpp_pprof_add_comment(struct mpp_pprof *p, const char *text)
{
    uint32_t string;
    int error = pprof_grow(&p->comments, &p->comments_capacity, p->comment_count + 1, sizeof(*p->comments));

    if (!error) error = intern(p, text, &string);
    if (error) return error;
    p->comments[p->comment_count++] = string;
    return 0;
}

int mpp_pprof_set_default(struct mpp_pprof *p, const char *sample_type)
{
    for (int i = 0; i < MPP_PPROF_VALUES; i++) {
        if (!strcmp(sample_type, TYPES[i][0])) {
            p->default_type = p->type_names[i];
            return 0;
        }
    }
    return MPP_ERR_INVALID;
}

int mpp_pprof_set_mapping(struct mpp_pprof *p, const char *file)
{
    return intern(p, file, &p->mapping_file);
}

static int intern_function(struct mpp_pprof *p, const struct pprof_function *f, uint32_t *out)
{
    struct pprof_table *t = &p->function_table;
    uint64_t hash = XXH3_64bits(f, sizeof(*f));
    size_t at = (size_t)hash;
    uint32_t i;

    int error = pprof_table_reserve(t);
    if (!error) error = pprof_grow(&p->functions, &p->functions_capacity, (size_t)t->count + 1, sizeof(*p->functions));
    if (error) return error;
    while ((i = pprof_table_next(t, hash, &at)) != UINT32_MAX) {
        const struct pprof_function *g = &p->functions[i];
        if (g->name == f->name && g->path == f->path && g->first_line == f->first_line) {
            *out = i;
            return 0;
        }
    }
    *out = pprof_table_add(t, hash, at);
    p->functions[*out] = *f;
    return 0;
}

static int intern_location(struct mpp_pprof *p, const struct pprof_location *l, uint32_t *out)
{
    struct pprof_table *t = &p->location_table;
    uint64_t hash = XXH3_64bits(l, sizeof(*l));
    size_t at = (size_t)hash;
    uint32_t i;

    int error = pprof_table_reserve(t);
    if (!error) error = pprof_grow(&p->locations, &p->locations_capacity, (size_t)t->count + 1, sizeof(*p->locations));
    if (error) return error;
    while ((i = pprof_table_next(t, hash, &at)) != UINT32_MAX) {
        if (p->locations[i].function == l->function && p->locations[i].line == l->line) {
            *out = i;
            return 0;
        }
    }
    *out = pprof_table_add(t, hash, at);
    p->locations[*out] = *l;
    return 0;
}

uint64_t mpp_pprof_location(struct mpp_pprof *p, const char *function, const char *path, int64_t first_line, int64_t line, int *error)
{
    struct pprof_function f = {.first_line = first_line};
    struct pprof_location l = {.line = line};
    uint32_t number;

    int result = intern(p, function, &f.name);
    if (!result) result = intern(p, path, &f.path);
    if (!result) result = intern_function(p, &f, &l.function);
    if (!result) result = intern_location(p, &l, &number);
    if (result) {
        *error = result;
        return 0;
    }
    return (uint64_t)number + 1;
}

int mpp_pprof_add_sample(struct mpp_pprof *p, const uint64_t *locations, size_t depth, const int64_t values[MPP_PPROF_VALUES],
                         const struct mpp_pprof_label *labels, size_t label_count)
{
    uint64_t none;

    if (!depth) {
        int error = 0;
        none = mpp_pprof_location(p, NO_STACK, "", 0, 0, &error);
        if (!none) return error;
        locations = &none;
        depth = 1;
    }
    if (depth > UINT32_MAX / 8 || label_count > UINT32_MAX / 64) return MPP_ERR_TOO_LARGE;
    for (size_t i = 0; i < depth; i++)
        if (!locations[i] || locations[i] > p->location_table.count) return MPP_ERR_INVALID;

    struct pprof_sample *s = pprof_arena_alloc(&p->arena, sizeof(*s) + label_count * sizeof(struct pprof_label) + depth * sizeof(*s->locations));
    if (!s) return MPP_ERR_NO_MEMORY;
    s->next = NULL;
    memcpy(s->values, values, sizeof(s->values));
    s->labels = (struct pprof_label *)(void *)(s + 1);
    s->label_count = (uint32_t)label_count;
    s->locations = (uint32_t *)(void *)(s->labels + label_count);
    s->depth = (uint32_t)depth;
    for (size_t i = 0; i < depth; i++) s->locations[i] = (uint32_t)locations[i];
    for (size_t i = 0; i < label_count; i++) {
        struct pprof_label *l = &s->labels[i];
        *l = (struct pprof_label){.number = labels[i].text ? 0 : labels[i].number};
        int error = intern(p, labels[i].key, &l->key);
        if (!error && labels[i].text) error = intern(p, labels[i].text, &l->text);
        /* pprof drops a label whose number is 0 unless it has a unit; "count" is the one that it shows without a word. */
        if (!labels[i].text) l->unit = p->count_unit;
        if (!error && !labels[i].text && labels[i].unit) error = intern(p, labels[i].unit, &l->unit);
        if (error) return error;
    }
    *p->last_sample = s;
    p->last_sample = &s->next;
    return 0;
}
