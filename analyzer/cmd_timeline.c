#include "analyzer/command.h"
#include "analyzer/json.h"
#include "analyzer/term.h"
#include "analyzer/units.h"
#include "analyzer/view.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

struct timeline_point {
    uint64_t time_ns, position;
    struct counters n;
    uint64_t gc_count;
    int gc_known;
};

struct timeline {
    struct view *v;
    struct timeline_point *points;
    size_t count;
    struct statistics statistics; /* of the whole log, by time */
};

/* The last `key` known by `time_ns`, found from *from on, which moves along. */
static int statistic_by(const struct statistics *s, uint64_t key, uint64_t time_ns, size_t *from, uint64_t *value, int known)
{
    for (; *from < s->count && s->list[*from].time_ns <= time_ns; ++*from) {
        if (s->list[*from].key != key) continue;
        *value = s->list[*from].value;
        known = 1;
    }
    return known;
}

static int write_json(const struct timeline *t, struct output *out)
{
    const struct replay *r = &t->v->replay;
    int failed = 0, known = 0;
    json_t *document = json_report("mpp.timeline/1", &t->v->log, &failed), *points = json_array();
    size_t at = 0, mark = 0;
    uint64_t rss = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct timeline_point *p = &t->points[i];
        json_t *point = json_object(), *marks = json_array();
        known = statistic_by(&t->statistics, MPP_PROC_RSS_BYTES, p->time_ns, &at, &rss, known);
        json_put(point, "time_ns", json_u64(p->time_ns), &failed);
        json_put(point, "position", json_u64(p->position), &failed);
        json_put_counters(point, &p->n, &failed);
        json_put(point, "rss_bytes", known ? json_u64(rss) : json_null(), &failed);
        json_put(point, "gc_count", p->gc_known ? json_u64(p->gc_count) : json_null(), &failed);
        for (; mark < r->mark_count && r->marks[mark].position <= p->position; mark++) {
            json_add(marks, json_text(r->marks[mark].name, r->marks[mark].length), &failed);
        }
        json_put(point, "marks", marks, &failed);
        json_add(points, point, &failed);
    }
    json_put(document, "points", points, &failed);
    return json_write(document, failed, out->file);
}

/* A bar of `columns` at most; `fill`: with blanks up to there. */
static void print_bar(FILE *f, uint64_t value, uint64_t greatest, int columns, int fill)
{
    int length = greatest ? (int)((double)value / (double)greatest * columns + 0.5) : 0;

    for (int i = 0; i < (fill ? columns : length); i++) fputc(i < length ? '#' : ' ', f);
}

/* What the columns of numbers and, where there are any, some of the marks' names leave of the terminal. */
static int bar_columns(const struct term *t, size_t mark_count)
{
    const int numbers = 59, names = mark_count ? 22 : 0;
    int room = t->width > INT_MAX ? INT_MAX : (int)t->width;

    if (room == 0) return 20;
    room -= numbers + names;
    return room < 10 ? 10 : room > 60 ? 60 : room;
}

static int write_text(const struct timeline *t, const struct options *o, struct output *out)
{
    const struct replay *r = &t->v->replay;
    struct term term;
    size_t at = 0, mark = 0;
    uint64_t rss = 0, greatest = 0;
    int known = 0;
    char time[32], live[32], memory[32], objects[32], gc[32];

    term_init(&term, o, out);
    const int bar = bar_columns(&term, r->mark_count);
    for (size_t i = 0; i < t->count; i++) {
        if (counters_live_bytes(&t->points[i].n) > greatest) greatest = counters_live_bytes(&t->points[i].n);
    }
    term_log_line(&term, &t->v->log, "the heap over time");
    fprintf(out->file, "%s%9s  %10s  %11s  %10s  %7s  %-*s%s%s\n", term.bold, "time", "live bytes", "objects", "rss", "gc", r->mark_count ? bar : 0,
            "", r->mark_count ? "  marks" : "", term.plain);
    for (size_t i = 0; i < t->count; i++) {
        const struct timeline_point *p = &t->points[i];
        known = statistic_by(&t->statistics, MPP_PROC_RSS_BYTES, p->time_ns, &at, &rss, known);
        snprintf(gc, sizeof gc, "%" PRIu64, p->gc_count);
        fprintf(out->file, "%9s  %10s  %11s  %10s  %7s  %s", format_duration(time, sizeof time, p->time_ns),
                term_bytes(&term, live, sizeof live, counters_live_bytes(&p->n)),
                term_count(&term, objects, sizeof objects, counters_live_objects(&p->n)), known ? term_bytes(&term, memory, sizeof memory, rss) : "-",
                p->gc_known ? gc : "-", term.color);
        print_bar(out->file, counters_live_bytes(&p->n), greatest, bar, mark < r->mark_count && r->marks[mark].position <= p->position);
        fputs(term.plain, out->file);
        for (const char *before = "  "; mark < r->mark_count && r->marks[mark].position <= p->position; mark++, before = ", ") {
            fputs(before, out->file);
            term_put(&term, r->marks[mark].name, r->marks[mark].length);
        }
        fputc('\n', out->file);
    }
    return 0;
}

static int write_timeline(const void *report, const struct options *o, struct output *out)
{
    return o->format == FORMAT_JSON ? write_json(report, out) : write_text(report, o, out);
}

/* 0 or an error. */
static int gather(struct timeline *t)
{
    struct replay *r = &t->v->replay;
    uint64_t end = t->v->log.end_time_ns, record_count;

    t->points = calloc(t->count, sizeof *t->points);
    if (!t->points) return MPP_ERR_NO_MEMORY;
    for (size_t i = 0; i < t->count; i++) {
        uint64_t time_ns = t->count == 1 ? end : (uint64_t)((unsigned __int128)end * i / (t->count - 1));
        int error = replay_run(r, (struct moment){.position = UINT64_MAX, .time_ns = time_ns});
        if (error) return error;
        t->points[i] = (struct timeline_point){
            .time_ns = time_ns, .position = r->history.position, .n = heap_totals(&r->heap), .gc_count = r->gc_count, .gc_known = r->gc_known};
    }
    int error = replay_finish(r, &record_count);
    if (error) return error;
    log_tell_state(&t->v->log, record_count);
    return log_statistics(&t->v->log, &r->statistics, &t->statistics);
}

int cmd_timeline(const struct options *o)
{
    struct view v;
    int status = EXIT_FAILED;

    if (view_open(&v, o)) return EXIT_FAILED;
    struct timeline t = {.v = &v, .count = o->points ? (size_t)o->points : o->format == FORMAT_JSON ? 60 : term_default_points(o)};
    v.replay.keep_all = 1;
    int error = gather(&t);
    if (error) {
        view_fail(&v, error);
    } else if (!report_write(o, write_timeline, &t)) {
        status = EXIT_DONE;
    }
    free(t.points);
    free(t.statistics.list);
    view_close(&v);
    return status;
}
