/* top and diff as pprof profiles. A sample for each (backtrace, class, type, thread, bucket of ages); what has been allocated and is dead goes into
 * one without an age, so that the sums of each backtrace are exact. */
#include "analyzer/message.h"
#include "analyzer/view.h"
#include "formats/mpp_pprof.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* What tells samples of a profile apart; compared by its bytes. */
struct sample_key {
    uint32_t node, class_name, type, thread, bucket, base;
};

struct sample_values {
    uint64_t allocated_objects, allocated_bytes, live_objects, live_bytes;
};

struct profile {
    struct mpp_pprof *pprof;
    struct grouping *g;
    struct intern keys;
    struct sample_values *values; /* by key */
    size_t value_capacity;
    uint64_t *location_of_frame; /* 0: not made yet */
    uint64_t *locations;         /* of one backtrace */
    size_t location_capacity;
};

/* Gathers the sites' samples under their keys. 0 or MPP_ERR_NO_MEMORY. */
static int gather(struct profile *p, const struct sample_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct sample *s = &list->samples[i];
        struct stack_names stack;
        uint32_t row;
        int error = grouping_row(p->g, s->site, &row);
        if (error) return error;
        if (row == ROW_NONE) continue;
        error = names_stack(&p->g->names, names_site_stack(&p->g->names, s->site), &stack);
        if (error) return error;
        struct sample_key key = {.node = stack.node,
                                 .class_name = names_class(&p->g->names, s->site),
                                 .type = names_type(&p->g->names, s->site),
                                 .thread = names_thread(&p->g->names, s->site),
                                 .bucket = s->bucket,
                                 .base = (uint32_t)s->base};
        size_t known = p->keys.count;
        uint32_t index = intern_put(&p->keys, &key, sizeof key);
        if (index == INTERN_NONE || key.class_name == INTERN_NONE || key.type == INTERN_NONE || key.thread == INTERN_NONE) return MPP_ERR_NO_MEMORY;
        if (array_reserve((void **)&p->values, &p->value_capacity, p->keys.count, sizeof *p->values)) return MPP_ERR_NO_MEMORY;
        if (index == known) p->values[index] = (struct sample_values){0};
        p->values[index].allocated_objects += s->allocated_objects;
        p->values[index].allocated_bytes += s->allocated_bytes;
        p->values[index].live_objects += s->live.objects;
        p->values[index].live_bytes += s->live.bytes;
    }
    return 0;
}

static uint64_t location_of(struct profile *p, uint32_t frame, int *error)
{
    const struct names *n = &p->g->names;

    if (p->location_of_frame[frame]) return p->location_of_frame[frame];
    struct frame f = names_frame(n, frame);
    p->location_of_frame[frame] =
        mpp_pprof_location(p->pprof, names_text(n, f.function), names_text(n, f.path), (int64_t)n->first_lines[frame], (int64_t)f.line, error);
    return p->location_of_frame[frame];
}

static int add_sample(struct profile *p, uint32_t index)
{
    const struct names *n = &p->g->names;
    const struct sample_values *v = &p->values[index];
    struct sample_key key;
    struct mpp_pprof_label labels[5];
    size_t depth = 0, label_count = 0;
    int error = 0;

    memcpy(&key, p->keys.entries[index].bytes, sizeof key);
    for (uint32_t node = key.node; node != NODE_EMPTY; node = names_node(n, node).parent) {
        if (array_reserve((void **)&p->locations, &p->location_capacity, depth + 1, sizeof *p->locations)) return MPP_ERR_NO_MEMORY;
        p->locations[depth] = location_of(p, names_node(n, node).frame, &error);
        if (!p->locations[depth++]) return error;
    }
    if (v->allocated_objects > INT64_MAX || v->allocated_bytes > INT64_MAX) return MPP_ERR_OVERFLOW;
    int64_t sign = key.base ? -1 : 1;
    int64_t values[MPP_PPROF_VALUES] = {sign * (int64_t)v->allocated_objects, sign * (int64_t)v->allocated_bytes, sign * (int64_t)v->live_objects,
                                        sign * (int64_t)v->live_bytes};
    labels[label_count++] = (struct mpp_pprof_label){.key = "class", .text = names_text(n, key.class_name)};
    labels[label_count++] = (struct mpp_pprof_label){.key = "type", .text = names_text(n, key.type)};
    labels[label_count++] = (struct mpp_pprof_label){.key = "thread", .text = names_text(n, key.thread)};
    if (key.bucket) {
        uint64_t age = sample_age(key.bucket);
        labels[label_count++] = (struct mpp_pprof_label){.key = "gc_age", .number = age > INT64_MAX ? INT64_MAX : (int64_t)age, .unit = "gcs"};
    }
    if (key.base) labels[label_count++] = (struct mpp_pprof_label){.key = "pprof::base", .text = "true"};
    return mpp_pprof_add_sample(p->pprof, p->locations, depth, values, labels, label_count);
}

static int comment(struct mpp_pprof *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int comment(struct mpp_pprof *p, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;

    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return MPP_ERR_NO_MEMORY;
    int error = mpp_pprof_add_comment(p, text);
    free(text);
    return error;
}

/* "ruby\0app.rb\0" as a line; malloc'ed. */
static char *command_line(const struct mpp_log_info *i)
{
    char *line = malloc(i->command_line_bytes + 1);

    if (!line) return NULL;
    if (i->command_line_bytes) memcpy(line, i->command_line, i->command_line_bytes);
    for (size_t k = 0; k < i->command_line_bytes; k++) {
        if (!line[k]) line[k] = ' ';
    }
    size_t end = i->command_line_bytes;
    line[end > 0 && line[end - 1] == ' ' ? end - 1 : end] = 0;
    return line;
}

static int describe(struct mpp_pprof *p, const struct log *l, const struct report_point *from, const struct report_point *at, uint64_t period)
{
    char *command = command_line(l->info);
    int error = command ? 0 : MPP_ERR_NO_MEMORY;

    mpp_pprof_set_time(p, at->wall_unix_ns > INT64_MAX ? INT64_MAX : (int64_t)at->wall_unix_ns, (int64_t)at->now_ns);
    mpp_pprof_set_period(p, period > INT64_MAX ? INT64_MAX : (int64_t)period);
    if (!error) {
        error = comment(p, "mppanalyze of %s: pid %" PRIu64 ", ruby %s, %s", l->path, l->info->pid,
                        l->info->ruby_version ? l->info->ruby_version : "?", command);
    }
    if (!error && from) error = comment(p, "from %s (%" PRIu64 " ns, position %" PRIu64 ")", from->spec, from->now_ns, from->position);
    if (!error) error = comment(p, "%s %s (%" PRIu64 " ns, position %" PRIu64 ")", from ? "to" : "at", at->spec, at->now_ns, at->position);
    if (!error && period > 1) error = comment(p, "sampled: 1 allocation in %" PRIu64 ", values are scaled up", period);
    if (!error && mpp_reader_damage_count(l->reader)) error = comment(p, "the log is damaged: mppanalyze verify tells where");
    free(command);
    return error;
}

static int write_profile(struct grouping *g, const struct sample_list *list, const struct log *l, const struct report_point *from,
                         const struct report_point *at, uint64_t period, struct output *out)
{
    struct profile p = {.g = g};
    unsigned char *data = NULL;
    size_t bytes = 0;
    const char *why = NULL;
    int error;

    if (output_is_terminal(out)) {
        message("a profile is binary and standard output is a terminal: name a file with -o FILE.pb.gz");
        return -1;
    }
    error = mpp_pprof_new(&p.pprof);
    if (!error) error = gather(&p, list);
    if (!error) {
        p.location_of_frame = calloc(g->names.frames.count + 1, sizeof *p.location_of_frame);
        if (!p.location_of_frame) error = MPP_ERR_NO_MEMORY;
    }
    if (!error) error = describe(p.pprof, l, from, at, period);
    for (uint32_t i = 0; i < p.keys.count && !error; i++) error = add_sample(&p, i);
    if (!error) error = mpp_pprof_encode(p.pprof, &data, &bytes, &why);
    if (!error) fwrite(data, 1, bytes, out->file);
    if (error == MPP_ERR_OVERFLOW) {
        message("sums beyond 63 bits in \"%s\": pprof has no numbers for them", l->path);
    } else if (error) {
        message("cannot make the profile: %s%s%s", mpp_error_string(error), why ? ": " : "", why ? why : "");
    }
    free(data);
    mpp_pprof_free(p.pprof);
    intern_release(&p.keys);
    free(p.values);
    free(p.location_of_frame);
    free(p.locations);
    return error ? -1 : 0;
}

static int write_top(const struct top_report *r, const struct options *o, struct output *out)
{
    (void)o;
    return write_profile(r->grouping, r->samples, r->log, NULL, &r->at, r->sample_period, out);
}

static int write_diff(const struct diff_report *r, const struct options *o, struct output *out)
{
    (void)o;
    return write_profile(r->grouping, r->samples, r->log, &r->from, &r->to, r->sample_period, out);
}

const struct report_format report_pprof = {.top = write_top, .diff = write_diff};
