/* The rules that make google/pprof refuse a profile (its CheckValid and encode.go), and those of our own: a default sample type, one mapping that
 * says that nothing is left to be symbolised, and no sample without a location, since pprof leaves it out. It looks at serialised bytes, so that it
 * sees what a reader will see. */
#include "mpp_pprof.h"
#include "pprof_internal.h"
#include "proto/profile.pb-c.h"
#include <stdlib.h>
#include <string.h>

typedef Perftools__Profiles__Profile Profile;
typedef Perftools__Profiles__ValueType ValueType;
typedef Perftools__Profiles__Sample Sample;
typedef Perftools__Profiles__Label Label;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Function Function;

static void *check_alloc(void *context, size_t bytes)
{
    struct pprof_check *c = context;
    void *p = pprof_arena_alloc(&c->arena, bytes);

    if (!p) c->no_memory = 1;
    return p;
}

/* The arena goes as a whole. */
static void check_free(void *context, void *p)
{
    (void)context;
    (void)p;
}

static int broken(struct pprof_check *c, const char *why)
{
    c->why = why;
    return MPP_ERR_INVALID;
}

static int no_string(const struct pprof_check *c, int64_t index)
{
    return index < 0 || (uint64_t)index >= c->string_count;
}

static int check_strings(struct pprof_check *c, const Profile *p)
{
    for (size_t i = 0; i < p->n_string_table; i++) {
        const char *text = p->string_table[i];
        if (!c->string_count && *text) return broken(c, "string_table[0] is not empty");
        c->string_count++;
        if (!pprof_utf8_valid(text, strlen(text))) return broken(c, "a string is not valid UTF-8");
    }
    if (!c->string_count) return broken(c, "there is no string_table[0]");
    return 0;
}

static int check_head(struct pprof_check *c, const Profile *p)
{
    int error = pprof_grow(&c->sample_types, &c->sample_types_capacity, c->sample_type_count + p->n_sample_type, sizeof(*c->sample_types));

    if (error) return error;
    for (size_t i = 0; i < p->n_sample_type; i++) {
        const ValueType *t = p->sample_type[i];
        if (no_string(c, t->type) || no_string(c, t->unit)) return broken(c, "a sample type has a string index out of range");
        c->sample_types[c->sample_type_count++] = t->type;
    }
    if (p->period_type && (no_string(c, p->period_type->type) || no_string(c, p->period_type->unit)))
        return broken(c, "the period type has a string index out of range");
    for (size_t i = 0; i < p->n_comment; i++)
        if (no_string(c, p->comment[i])) return broken(c, "a comment has a string index out of range");
    if (no_string(c, p->drop_frames) || no_string(c, p->keep_frames) || no_string(c, p->doc_url) || no_string(c, p->default_sample_type))
        return broken(c, "a string index of the profile is out of range");
    if (p->default_sample_type) c->default_sample_type = p->default_sample_type;
    return 0;
}

static int check_mappings(struct pprof_check *c, const Profile *p)
{
    for (size_t i = 0; i < p->n_mapping; i++) {
        const Mapping *m = p->mapping[i];
        if (!m->id) return broken(c, "a mapping has the id 0");
        int added = pprof_ids_add(&c->mappings, m->id);
        if (added < 0) return added;
        if (!added) return broken(c, "two mappings have the same id");
        if (no_string(c, m->filename) || no_string(c, m->build_id)) return broken(c, "a mapping has a string index out of range");
        if (!m->has_functions || !m->has_filenames || !m->has_line_numbers)
            return broken(c, "a mapping lacks has_functions, has_filenames or has_line_numbers");
        c->mapping_count++;
    }
    return 0;
}

static int check_functions(struct pprof_check *c, const Profile *p)
{
    for (size_t i = 0; i < p->n_function; i++) {
        const Function *f = p->function[i];
        if (!f->id) return broken(c, "a function has the id 0");
        int added = pprof_ids_add(&c->functions, f->id);
        if (added < 0) return added;
        if (!added) return broken(c, "two functions have the same id");
        if (no_string(c, f->name) || no_string(c, f->system_name) || no_string(c, f->filename))
            return broken(c, "a function has a string index out of range");
    }
    return 0;
}

static int check_locations(struct pprof_check *c, const Profile *p)
{
    for (size_t i = 0; i < p->n_location; i++) {
        const Location *l = p->location[i];
        if (!l->id) return broken(c, "a location has the id 0");
        int added = pprof_ids_add(&c->locations, l->id);
        if (added < 0) return added;
        if (!added) return broken(c, "two locations have the same id");
        if (!pprof_ids_has(&c->mappings, l->mapping_id)) return broken(c, "a location refers to a mapping that does not exist");
        for (size_t k = 0; k < l->n_line; k++)
            if (!pprof_ids_has(&c->functions, l->line[k]->function_id)) return broken(c, "a line refers to a function that does not exist");
    }
    return 0;
}

static int check_label(struct pprof_check *c, const Label *l)
{
    if (no_string(c, l->key) || no_string(c, l->str) || no_string(c, l->num_unit)) return broken(c, "a label has a string index out of range");
    if (!l->key) return broken(c, "a label has no key");
    if (l->str && (l->num || l->num_unit)) return broken(c, "a label has both a text and a number");
    return 0;
}

static int check_samples(struct pprof_check *c, const Profile *p)
{
    for (size_t i = 0; i < p->n_sample; i++) {
        const Sample *s = p->sample[i];
        if (s->n_value != c->sample_type_count) return broken(c, "a sample has not as many values as there are sample types");
        if (!s->n_location_id) return broken(c, "a sample has no location");
        for (size_t k = 0; k < s->n_location_id; k++)
            if (!pprof_ids_has(&c->locations, s->location_id[k])) return broken(c, "a sample refers to a location that does not exist");
        for (size_t k = 0; k < s->n_label; k++) {
            int error = check_label(c, s->label[k]);
            if (error) return error;
        }
    }
    return 0;
}

int pprof_check_part(struct pprof_check *c, const unsigned char *data, size_t bytes)
{
    ProtobufCAllocator allocator = {.alloc = check_alloc, .free = check_free, .allocator_data = c};
    Profile *p = perftools__profiles__profile__unpack(&allocator, bytes, data);
    int error = 0;

    if (!p) {
        error = c->no_memory ? MPP_ERR_NO_MEMORY : MPP_ERR_MALFORMED;
        if (!c->no_memory) c->why = "it is not a serialised profile";
    }
    if (!error) error = check_strings(c, p);
    if (!error) error = check_head(c, p);
    if (!error) error = check_mappings(c, p);
    if (!error) error = check_functions(c, p);
    if (!error) error = check_locations(c, p);
    if (!error) error = check_samples(c, p);
    pprof_arena_clear(&c->arena);
    return error;
}

int pprof_check_finish(struct pprof_check *c)
{
    if (c->mapping_count != 1) return broken(c, "there is not exactly one mapping");
    for (size_t i = 0; i < c->sample_type_count; i++)
        if (c->default_sample_type && c->sample_types[i] == c->default_sample_type) return 0;
    return broken(c, "default_sample_type is not the name of a sample type");
}

void pprof_check_release(struct pprof_check *c)
{
    pprof_arena_release(&c->arena);
    pprof_ids_release(&c->mappings);
    pprof_ids_release(&c->functions);
    pprof_ids_release(&c->locations);
    free(c->sample_types);
    memset(c, 0, sizeof(*c));
}

int mpp_pprof_validate(const unsigned char *data, size_t bytes, const char **why)
{
    struct pprof_check c;

    memset(&c, 0, sizeof(c));
    int error = pprof_check_part(&c, data, bytes);
    if (!error) error = pprof_check_finish(&c);
    if (why) *why = c.why;
    pprof_check_release(&c);
    return error;
}
