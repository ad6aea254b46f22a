/* From a builder to bytes. The profile is serialised in parts of some hundred messages: protobuf adds up the repeated fields of messages that stand
 * one behind the other, so the parts are one profile, and neither the whole of its messages nor its uncompressed bytes ever stand in memory at once.
 * Each part goes through the checker before it goes into gzip. */
#include "mpp_pprof.h"
#include "pprof_internal.h"
#include "proto/profile.pb-c.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef Perftools__Profiles__Profile Profile;
typedef Perftools__Profiles__ValueType ValueType;
typedef Perftools__Profiles__Sample Sample;
typedef Perftools__Profiles__Label Label;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Line Line;
typedef Perftools__Profiles__Function Function;

/* How much goes into one part: big enough to be cheap, small enough to stay in the processor's cache. */
#define PART_MESSAGES 256
#define PART_NUMBERS  8192 /* locations and labels of its samples */

/* The fastest level: 2 and more cost a half more time for some percent. */
#define GZIP_LEVEL 1

struct encoder {
    struct pprof_arena arena; /* messages of the part in hand */
    struct pprof_check check;
    unsigned char *part, *out;
    size_t part_capacity, out_capacity, out_bytes;
    z_stream gzip;
    int gzip_open, finish;
};

static void *gzip_alloc(void *context, unsigned count, unsigned bytes)
{
    (void)context;
    if (bytes && count > SIZE_MAX / bytes) return NULL;
    return pprof_realloc(NULL, (size_t)count * bytes);
}

static void gzip_free(void *context, void *p)
{
    (void)context;
    free(p);
}

/* Window bits 15 + 16: a gzip header, in which zlib writes no time. */
static int gzip_open(struct encoder *e)
{
    e->gzip.zalloc = gzip_alloc;
    e->gzip.zfree = gzip_free;
    int result = deflateInit2(&e->gzip, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
    if (result == Z_MEM_ERROR) return MPP_ERR_NO_MEMORY;
    if (result != Z_OK) return MPP_ERR_COMPRESSION;
    e->gzip_open = 1;
    return 0;
}

static int gzip_write(struct encoder *e, unsigned char *data, size_t bytes, int flush)
{
    do {
        unsigned piece = bytes > (1u << 30) ? 1u << 30 : (unsigned)bytes;
        e->gzip.next_in = data;
        e->gzip.avail_in = piece;
        if (piece) data += piece; /* of no bytes there may be no data */
        bytes -= piece;
        do {
            int error = pprof_grow(&e->out, &e->out_capacity, e->out_bytes + 4096, 1);
            if (error) return error;
            size_t room = e->out_capacity - e->out_bytes;
            unsigned out = room > (1u << 30) ? 1u << 30 : (unsigned)room;
            e->gzip.next_out = e->out + e->out_bytes;
            e->gzip.avail_out = out;
            int result = deflate(&e->gzip, bytes ? Z_NO_FLUSH : flush);
            if (result == Z_STREAM_ERROR) return MPP_ERR_COMPRESSION;
            e->out_bytes += out - e->gzip.avail_out;
        } while (!e->gzip.avail_out);
    } while (bytes);
    return 0;
}

/* Serialises the part, checks it and compresses it; the arena is free again then. */
static int emit(struct encoder *e, const Profile *part)
{
    size_t bytes = perftools__profiles__profile__get_packed_size(part);
    int error = pprof_grow(&e->part, &e->part_capacity, bytes, 1);

    if (error) return error;
    bytes = perftools__profiles__profile__pack(part, e->part);
    pprof_arena_clear(&e->arena);
    error = pprof_check_part(&e->check, e->part, bytes);
    if (!error && bytes) error = gzip_write(e, e->part, bytes, Z_NO_FLUSH);
    return error;
}

/* `count` messages of one kind out of the arena, as the array of pointers that protobuf-c wants; `init` is such a message in its initial state. NULL:
 * no memory. */
static void *messages(struct encoder *e, size_t count, const void *init, size_t bytes)
{
    char **pointers = pprof_arena_alloc(&e->arena, count * sizeof(*pointers));
    char *all = pprof_arena_alloc(&e->arena, count * bytes);

    if (!pointers || !all) return NULL;
    for (size_t i = 0; i < count; i++) {
        pointers[i] = all + i * bytes;
        memcpy(pointers[i], init, bytes);
    }
    return pointers;
}
#define MESSAGES(encoder, count, type, init) messages(encoder, count, &(type)init, sizeof(type))

static int emit_strings(struct encoder *e, const struct mpp_pprof *p)
{
    for (uint32_t from = 0, count; from < p->string_table.count; from += count) {
        Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
        char *texts[PART_MESSAGES];

        count = p->string_table.count - from;
        if (count > PART_MESSAGES) count = PART_MESSAGES;
        for (uint32_t i = 0; i < count; i++) texts[i] = p->strings[from + i].text;
        part.n_string_table = count;
        part.string_table = texts;
        int error = emit(e, &part);
        if (error) return error;
    }
    return 0;
}

/* Everything that is there once. */
static int emit_head(struct encoder *e, const struct mpp_pprof *p)
{
    Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
    ValueType period_type = PERFTOOLS__PROFILES__VALUE_TYPE__INIT;
    Mapping mapping = PERFTOOLS__PROFILES__MAPPING__INIT, *mappings = &mapping;

    part.sample_type = MESSAGES(e, MPP_PPROF_VALUES, ValueType, PERFTOOLS__PROFILES__VALUE_TYPE__INIT);
    if (!part.sample_type) return MPP_ERR_NO_MEMORY;
    part.n_sample_type = MPP_PPROF_VALUES;
    for (size_t i = 0; i < MPP_PPROF_VALUES; i++) {
        part.sample_type[i]->type = p->type_names[i];
        part.sample_type[i]->unit = p->type_units[i];
    }
    part.default_sample_type = p->default_type;
    mapping.id = 1;
    mapping.filename = p->mapping_file;
    mapping.has_functions = mapping.has_filenames = mapping.has_line_numbers = 1;
    part.n_mapping = 1;
    part.mapping = &mappings;
    period_type.type = p->type_names[0];
    period_type.unit = p->type_units[0];
    part.period_type = &period_type;
    part.period = p->period;
    part.time_nanos = p->time_unix_ns;
    part.duration_nanos = p->duration_ns;
    part.n_comment = p->comment_count;
    part.comment = p->comments;
    return emit(e, &part);
}

static int emit_functions(struct encoder *e, const struct mpp_pprof *p)
{
    for (uint32_t from = 0, count; from < p->function_table.count; from += count) {
        Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;

        count = p->function_table.count - from;
        if (count > PART_MESSAGES) count = PART_MESSAGES;
        part.n_function = count;
        part.function = MESSAGES(e, count, Function, PERFTOOLS__PROFILES__FUNCTION__INIT);
        if (!part.function) return MPP_ERR_NO_MEMORY;
        for (uint32_t i = 0; i < count; i++) {
            const struct pprof_function *f = &p->functions[from + i];
            part.function[i]->id = (uint64_t)from + i + 1;
            /* No system_name: where it equals the name, pprof takes the name for C++ and cuts what stands in <> off "<main>" and "#<Class>.x"
             * (google/pprof internal/symbolizer demangleSingleFunction). */
            part.function[i]->name = f->name;
            part.function[i]->filename = f->path;
            part.function[i]->start_line = f->first_line;
        }
        int error = emit(e, &part);
        if (error) return error;
    }
    return 0;
}

static int emit_locations(struct encoder *e, const struct mpp_pprof *p)
{
    for (uint32_t from = 0, count; from < p->location_table.count; from += count) {
        Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;

        count = p->location_table.count - from;
        if (count > PART_MESSAGES) count = PART_MESSAGES;
        part.n_location = count;
        part.location = MESSAGES(e, count, Location, PERFTOOLS__PROFILES__LOCATION__INIT);
        Line **lines = MESSAGES(e, count, Line, PERFTOOLS__PROFILES__LINE__INIT);
        if (!part.location || !lines) return MPP_ERR_NO_MEMORY;
        for (uint32_t i = 0; i < count; i++) {
            const struct pprof_location *l = &p->locations[from + i];
            part.location[i]->id = (uint64_t)from + i + 1;
            part.location[i]->mapping_id = 1;
            part.location[i]->n_line = 1;
            part.location[i]->line = &lines[i];
            lines[i]->function_id = (uint64_t)l->function + 1;
            lines[i]->line = l->line;
        }
        int error = emit(e, &part);
        if (error) return error;
    }
    return 0;
}

static int fill_sample(struct encoder *e, Sample *out, const struct pprof_sample *s)
{
    uint64_t *locations = pprof_arena_alloc(&e->arena, s->depth * sizeof(*locations));
    int64_t *values = pprof_arena_alloc(&e->arena, sizeof(s->values));
    Label **labels = MESSAGES(e, s->label_count, Label, PERFTOOLS__PROFILES__LABEL__INIT);

    if (!locations || !values || !labels) return MPP_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < s->depth; i++) locations[i] = s->locations[i];
    memcpy(values, s->values, sizeof(s->values));
    for (uint32_t i = 0; i < s->label_count; i++) {
        labels[i]->key = s->labels[i].key;
        labels[i]->str = s->labels[i].text;
        labels[i]->num = s->labels[i].number;
        labels[i]->num_unit = s->labels[i].unit;
    }
    out->n_location_id = s->depth;
    out->location_id = locations;
    out->n_value = MPP_PPROF_VALUES;
    out->value = values;
    out->n_label = s->label_count;
    out->label = labels;
    return 0;
}

static int emit_samples(struct encoder *e, const struct mpp_pprof *p)
{
    const struct pprof_sample *s = p->first_sample;

    while (s) {
        Profile part = PERFTOOLS__PROFILES__PROFILE__INIT;
        size_t numbers = 0;

        part.sample = MESSAGES(e, PART_MESSAGES, Sample, PERFTOOLS__PROFILES__SAMPLE__INIT);
        if (!part.sample) return MPP_ERR_NO_MEMORY;
        for (; s && part.n_sample < PART_MESSAGES && numbers < PART_NUMBERS; s = s->next) {
            int error = fill_sample(e, part.sample[part.n_sample++], s);
            if (error) return error;
            numbers += (size_t)s->depth + s->label_count;
        }
        int error = emit(e, &part);
        if (error) return error;
    }
    return 0;
}

int mpp_pprof_encode(struct mpp_pprof *p, unsigned char **data, size_t *bytes, const char **why)
{
    struct encoder e;

    memset(&e, 0, sizeof(e));
    int error = gzip_open(&e);
    if (!error) error = emit_strings(&e, p);
    if (!error) error = emit_head(&e, p);
    if (!error) error = emit_functions(&e, p);
    if (!error) error = emit_locations(&e, p);
    if (!error) error = emit_samples(&e, p);
    if (!error) error = pprof_check_finish(&e.check);
    if (!error) error = gzip_write(&e, NULL, 0, Z_FINISH);
    if (why) *why = e.check.why;
    if (!error) {
        *data = e.out;
        *bytes = e.out_bytes;
    } else {
        free(e.out);
    }
    if (e.gzip_open) deflateEnd(&e.gzip);
    free(e.part);
    pprof_check_release(&e.check);
    pprof_arena_release(&e.arena);
    return error;
}
