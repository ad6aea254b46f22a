#include "analyzer/command.h"
#include "analyzer/json.h"
#include "analyzer/term.h"
#include "analyzer/units.h"
#include "analyzer/view.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct info {
    struct view *v;
    struct report_point end;
    struct counters totals;
    struct statistics last; /* the last value of each key, by key */
    uint64_t event_count, block_count;
};

static int by_key(const void *a, const void *b)
{
    const struct statistic *x = a, *y = b;

    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Leaves the last value of each key. */
static void keep_last(struct statistics *s)
{
    size_t kept = 0;

    if (s->count) qsort(s->list, s->count, sizeof *s->list, by_key);
    for (size_t i = 0; i < s->count; i++) {
        if (i + 1 == s->count || s->list[i + 1].key != s->list[i].key) s->list[kept++] = s->list[i];
    }
    s->count = kept;
}

static const char *key_name(char *text, size_t size, uint64_t key)
{
    const char *name = mpp_proc_key_name(key);

    if (name) return name;
    snprintf(text, size, "%" PRIu64, key);
    return text;
}

static json_t *header(const struct mpp_log_info *i, const json_t *command_line, int *failed)
{
    json_t *h = json_object();

    json_put(h, "uuid", json_uuid(i->uuid), failed);
    json_put(h, "pid", json_u64(i->pid), failed);
    json_put(h, "ppid", json_u64(i->ppid), failed);
    json_put(h, "parent_uuid", i->has_parent ? json_uuid(i->parent_uuid) : json_null(), failed);
    json_put(h, "fork_sequence", json_u64(i->fork_sequence), failed);
    json_put(h, "fork_bytes", json_u64(i->fork_bytes), failed);
    json_put(h, "fork_serial", json_u64(i->fork_serial), failed);
    json_put(h, "start_unix_ns", json_u64(i->start_unix_ns), failed);
    json_put(h, "start_monotonic_ns", json_u64(i->start_monotonic_ns), failed);
    json_put(h, "utc_offset_s", json_integer(i->utc_offset_s), failed);
    json_put(h, "ruby_version", json_cstring(i->ruby_version), failed);
    json_put(h, "ruby_description", json_cstring(i->ruby_description), failed);
    json_put(h, "command_line", json_deep_copy(command_line), failed);
    json_put(h, "sample_period", json_u64(i->sample_period), failed);
    json_put(h, "recorder_version", json_cstring(i->recorder_version), failed);
    json_put(h, "journal_mode", json_u64(i->journal_mode), failed);
    json_put(h, "max_depth", json_u64(i->max_depth), failed);
    return h;
}

static int write_json(const struct info *n, struct output *out)
{
    const struct replay *r = &n->v->replay;
    const struct log *l = &n->v->log;
    const struct definitions *d = &l->definitions;
    int failed = 0;
    char text[24];
    json_t *document = json_report("mpp.info/1", l, &failed), *records = json_object(), *marks = json_array(), *proc = json_object();
    struct report_point peak = {.spec = "peak", .position = r->heap.peak_position, .time_ns = r->heap.peak_time_ns};
    json_t *peak_json = json_point(&peak, &failed);

    json_put(peak_json, "live_bytes", json_u64(r->heap.peak_bytes), &failed);
    json_put(peak_json, "live_objects", json_u64(r->heap.peak_objects), &failed);
    json_put(document, "end", json_point(&n->end, &failed), &failed);
    json_put(document, "totals", json_counters(&n->totals, &failed), &failed);
    json_put(document, "peak", peak_json, &failed);
    json_put(document, "file_bytes", json_u64(mpp_reader_log_bytes(l->reader)), &failed);
    json_put(document, "block_count", json_u64(n->block_count), &failed);
    json_put(document, "raw_bytes", json_u64(log_raw_bytes(l)), &failed);
    json_put(document, "record_count", json_u64(n->end.position), &failed);
    for (int kind = 0; kind < 256; kind++) {
        if (r->record_counts[kind]) json_put(records, mpp_record_kind_name(kind), json_u64(r->record_counts[kind]), &failed);
    }
    json_put(document, "records", records, &failed);
    double bytes_per_event = n->event_count ? (double)mpp_reader_log_bytes(l->reader) / (double)n->event_count : 0;
    json_put(document, "bytes_per_event", json_real(bytes_per_event), &failed);
    json_put(document, "event_count", json_u64(n->event_count), &failed);
    json_put(document, "stack_count", json_u64(d->stack_count), &failed);
    json_put(document, "site_count", json_u64(d->defined_site_count), &failed);
    json_put(document, "function_count", json_u64(d->function_count), &failed);
    json_put(document, "class_count", json_u64(d->class_count), &failed);
    json_put(document, "gc_count", json_u64(r->record_counts[MPP_GC_END]), &failed);
    for (size_t i = 0; i < r->mark_count; i++) {
        json_t *mark = json_object();
        json_put(mark, "name", json_text(r->marks[i].name, r->marks[i].length), &failed);
        json_put(mark, "time_ns", json_u64(r->marks[i].time_ns), &failed);
        json_put(mark, "position", json_u64(r->marks[i].position), &failed);
        json_add(marks, mark, &failed);
    }
    json_put(document, "marks", marks, &failed);
    json_put(document, "drops", json_u64(r->heap.dropped_objects), &failed);
    json_put(document, "gaps", json_u64(r->heap.gap_epoch), &failed);
    json_put(document, "orphans", json_u64(r->heap.orphan_count), &failed);
    json_put(document, "inherited_frees", json_u64(r->heap.inherited_count), &failed);
    for (size_t i = 0; i < n->last.count; i++) {
        json_put(proc, key_name(text, sizeof text, n->last.list[i].key), json_u64(n->last.list[i].value), &failed);
    }
    json_put(document, "proc", proc, &failed);
    json_put(document, "header", header(l->info, json_object_get(json_object_get(document, "log"), "command_line"), &failed), &failed);
    json_put(document, "damage", json_damage_list(l, &failed), &failed);
    return json_write(document, failed, out->file);
}

static void put_line(FILE *f, const char *label)
{
    fprintf(f, "%-12s", label);
}

static void put_process(const struct term *t, const struct log *l)
{
    const struct mpp_log_info *i = l->info;
    char text[48];

    put_line(t->out, "command");
    for (size_t at = 0; at < i->command_line_bytes;) {
        size_t length = strnlen(i->command_line + at, i->command_line_bytes - at);
        if (at) fputc(' ', t->out);
        term_put(t, i->command_line + at, length);
        at += length + 1;
    }
    fputc('\n', t->out);
    put_line(t->out, "ruby");
    const char *ruby = i->ruby_description ? i->ruby_description : i->ruby_version ? i->ruby_version : "?";
    term_put(t, ruby, strlen(ruby));
    fputc('\n', t->out);
    put_line(t->out, "start");
    fprintf(t->out, "%s\n", format_wall(text, sizeof text, i->start_unix_ns, i->utc_offset_s, 0));
    put_line(t->out, "duration");
    fprintf(t->out, "%s%s\n", format_duration(text, sizeof text, l->end_time_ns),
            mpp_reader_has_footer(l->reader) ? "" : ", no clean end: the process was killed or still runs");
    if (i->has_parent) {
        put_line(t->out, "parent");
        fprintf(t->out, "%s (pid %" PRIu64 ")\n", format_uuid(text, sizeof text, i->parent_uuid), i->ppid);
    }
}

static void put_losses(const struct term *t, const struct info *n)
{
    const struct heap *h = &n->v->replay.heap;
    char text[4][32];

    put_line(t->out, "losses");
    fprintf(t->out, "%s allocations dropped, %s gaps, %s orphans (frees of what no record allocated), %s frees of inherited objects\n",
            term_count(t, text[0], sizeof text[0], h->dropped_objects), term_count(t, text[1], sizeof text[1], h->gap_epoch),
            term_count(t, text[2], sizeof text[2], h->orphan_count), term_count(t, text[3], sizeof text[3], h->inherited_count));
    put_line(t->out, "damage");
    size_t damage = mpp_reader_damage_count(n->v->log.reader);
    if (damage) {
        fprintf(t->out, "%zu place%s: mppanalyze verify tells where\n", damage, damage == 1 ? "" : "s");
    } else {
        fputs("none\n", t->out);
    }
}

/* A figure of the process, in the unit that its key ends with. */
static const char *statistic_text(const struct term *t, char *text, size_t size, const char *key, uint64_t value)
{
    const char *unit = strrchr(key, '_');

    if (unit && strcmp(unit, "_bytes") == 0) return term_bytes(t, text, size, value);
    if (unit && strcmp(unit, "_ns") == 0 && !t->raw) return format_duration(text, size, value);
    return term_count(t, text, size, value);
}

static int write_text(const struct info *n, const struct options *o, struct output *out)
{
    const struct replay *r = &n->v->replay;
    const struct log *l = &n->v->log;
    struct term t;
    char text[6][32];

    term_init(&t, o, out);
    term_log_line(&t, l, "an mpp log");
    put_process(&t, l);
    put_line(t.out, "live at end");
    fprintf(t.out, "%s in %s objects\n", term_bytes(&t, text[0], sizeof text[0], counters_live_bytes(&n->totals)),
            term_count(&t, text[1], sizeof text[1], counters_live_objects(&n->totals)));
    put_line(t.out, "allocated");
    fprintf(t.out, "%s in %s objects\n", term_bytes(&t, text[0], sizeof text[0], n->totals.allocated_bytes),
            term_count(&t, text[1], sizeof text[1], n->totals.allocated_objects));
    if (n->totals.unknown_objects) {
        put_line(t.out, "unknown");
        fprintf(t.out, "%s in %s objects, live before a gap\n", term_bytes(&t, text[0], sizeof text[0], n->totals.unknown_bytes),
                term_count(&t, text[1], sizeof text[1], n->totals.unknown_objects));
    }
    put_line(t.out, "peak");
    fprintf(t.out, "%s in %s objects after %s\n", term_bytes(&t, text[0], sizeof text[0], r->heap.peak_bytes),
            term_count(&t, text[1], sizeof text[1], r->heap.peak_objects), format_duration(text[2], sizeof text[2], r->heap.peak_time_ns));
    put_line(t.out, "log");
    fprintf(t.out, "%s in %s blocks, %s records, %s events (%.2f bytes each)\n",
            term_bytes(&t, text[0], sizeof text[0], mpp_reader_log_bytes(l->reader)), term_count(&t, text[1], sizeof text[1], n->block_count),
            term_count(&t, text[2], sizeof text[2], n->end.position), term_count(&t, text[3], sizeof text[3], n->event_count),
            n->event_count ? (double)mpp_reader_log_bytes(l->reader) / (double)n->event_count : 0);
    put_line(t.out, "names");
    fprintf(t.out, "%s stacks, %s sites, %s functions, %s classes\n", term_count(&t, text[0], sizeof text[0], l->definitions.stack_count),
            term_count(&t, text[1], sizeof text[1], l->definitions.defined_site_count),
            term_count(&t, text[2], sizeof text[2], l->definitions.function_count),
            term_count(&t, text[3], sizeof text[3], l->definitions.class_count));
    put_line(t.out, "GCs");
    fprintf(t.out, "%s\n", term_count(&t, text[0], sizeof text[0], r->record_counts[MPP_GC_END]));
    put_losses(&t, n);
    for (size_t i = 0; i < n->last.count; i++) {
        char key[24];
        const char *name = key_name(key, sizeof key, n->last.list[i].key);
        fprintf(t.out, "%-12s%-22s  %s\n", i ? "" : "process", name, statistic_text(&t, text[0], sizeof text[0], name, n->last.list[i].value));
    }
    for (size_t i = 0; i < r->mark_count; i++) {
        fprintf(t.out, "%-12s%-10s  ", i ? "" : "marks", format_duration(text[0], sizeof text[0], r->marks[i].time_ns));
        term_put(&t, r->marks[i].name, r->marks[i].length);
        fputc('\n', t.out);
    }
    return 0;
}

static int write_info(const void *report, const struct options *o, struct output *out)
{
    return o->format == FORMAT_JSON ? write_json(report, out) : write_text(report, o, out);
}

int cmd_info(const struct options *o)
{
    struct view v;
    struct info n = {.v = &v};
    int status = EXIT_FAILED;

    if (view_open(&v, o)) return EXIT_FAILED;
    v.replay.keep_all = 1;
    if (!view_go(&v, MOMENT_END, &o->to, &n.end) && !view_finish(&v)) {
        n.totals = heap_totals(&v.replay.heap);
        n.event_count = replay_event_count(&v.replay);
        for (size_t i = 0; i < mpp_reader_block_count(v.log.reader); i++) n.block_count += !mpp_reader_block(v.log.reader, i)->in_journal;
        int error = log_statistics(&v.log, &v.replay.statistics, &n.last);
        keep_last(&n.last);
        if (error) {
            view_fail(&v, error);
        } else if (!report_write(o, write_info, &n)) {
            status = EXIT_DONE;
        }
    }
    free(n.last.list);
    view_close(&v);
    return status;
}
