#include "analyzer/command.h"
#include "analyzer/message.h"
#include "analyzer/view.h"
#include <stdlib.h>

static int write_diff(const void *report, const struct options *o, struct output *out)
{
    return report_format_of(o->format)->diff(report, o, out);
}

/* Live cells of all sites at the present position, malloc'ed; NULL: no memory. */
static struct cell *cells_now(struct heap *h, uint64_t min_age)
{
    struct cell *cells = calloc(h->site_count + 1, sizeof *cells);

    if (!cells) return NULL;
    if (min_age) {
        count_live(h, min_age, 0, cells);
        return cells;
    }
    for (size_t i = 0; i < h->site_count; i++) {
        struct counters n = heap_site_counters(h, i);
        cells[i] = (struct cell){.objects = counters_live_objects(&n), .bytes = counters_live_bytes(&n)};
    }
    return cells;
}

/* By site; of `from` there are only `from_count`. */
struct diff_cells {
    struct cell *from, *to, *retained;
    struct spread *spreads; /* of retained */
    size_t from_count;
};

static void add_cell(struct cell *to, const struct cell *c)
{
    to->objects += c->objects;
    to->bytes += c->bytes;
}

static int fill_rows(const struct heap *h, struct grouping *g, const struct diff_cells *cells, struct diff_report *r)
{
    for (size_t i = 0; i < h->site_count; i++) {
        struct cell from = i < cells->from_count ? cells->from[i] : (struct cell){0};
        const struct cell *to = &cells->to[i], *retained = &cells->retained[i];
        uint32_t index;
        if (!(from.objects | from.bytes | to->objects | to->bytes | retained->objects | retained->bytes)) continue;
        int error = grouping_row(g, (uint32_t)i, &index);
        if (error) return error;
        if (index == ROW_NONE) continue;
        add_cell(&g->rows[index].from, &from);
        add_cell(&g->rows[index].to, to);
        add_cell(&g->rows[index].retained, retained);
        add_cell(&r->filtered_from, &from);
        add_cell(&r->filtered_to, to);
        add_cell(&r->filtered_retained, retained);
        spread_add(&g->rows[index].spread, &cells->spreads[i]);
        spread_add(&r->filtered_spread, &cells->spreads[i]);
    }
    return 0;
}

/* Replays to both moments and counts at each. 0, or -1 after a message. */
static int count_both(struct view *v, const struct options *o, struct diff_report *r, struct diff_cells *cells)
{
    struct heap *h = &v->replay.heap;
    struct moment from, to;
    int error = 0;

    if (time_resolve(&o->from, &v->log, &from) || time_resolve(&o->to, &v->log, &to)) return -1;
    if (view_go(v, from, &o->from, &r->from)) return -1;
    if (replay_is_past(&v->replay, to)) {
        message("--from \"%s\" is after --to \"%s\" in \"%s\": exchange them", o->from.text, o->to.text, v->log.path);
        return -1;
    }
    uint64_t first_serial = replay_next_serial(&v->replay);
    r->totals_from = heap_totals(h);
    cells->from_count = h->site_count;
    cells->from = cells_now(h, o->min_age);
    if (!cells->from) return view_fail(v, MPP_ERR_NO_MEMORY);
    if (r->samples) error = view_collect_samples(v, o->min_age, 1, r->samples);
    if (error) return view_fail(v, error);
    if (view_go(v, to, &o->to, &r->to)) return -1;
    r->totals_to = heap_totals(h);
    r->sample_period = v->replay.sample_period;
    cells->to = cells_now(h, o->min_age);
    cells->retained = calloc(h->site_count + 1, sizeof *cells->retained);
    cells->spreads = calloc(h->site_count + 1, sizeof *cells->spreads);
    if (!cells->to || !cells->retained || !cells->spreads) return view_fail(v, MPP_ERR_NO_MEMORY);
    /* Serials are in the order of allocation. 1 is below all: at position 0 no serial has been reached. */
    first_serial = first_serial ? first_serial : 1;
    count_live(h, o->min_age, first_serial, cells->retained);
    count_spread(h, o->min_age, first_serial, cells->spreads);
    if (r->samples) error = view_collect_samples(v, o->min_age, 0, r->samples);
    return error ? view_fail(v, error) : view_finish(v);
}

int cmd_diff(const struct options *given)
{
    struct options o = *given;
    struct view v;
    struct grouping grouping;
    struct group_filter filter;
    struct sample_list samples = {0};
    struct diff_cells cells = {0};
    struct diff_report r = {0};
    int status = EXIT_FAILED;

    if (o.format == FORMAT_FOLDED || o.format == FORMAT_PPROF) o.by = BY_STACK;
    if (o.format == FORMAT_FOLDED && o.limit == LIMIT_DEFAULT) o.limit = 0;
    options_filter(&o, &filter);
    if (view_open(&v, &o)) return EXIT_FAILED;
    r.log = &v.log;
    if (o.format == FORMAT_PPROF) r.samples = &samples;
    if (!count_both(&v, &o, &r, &cells)) {
        int error = grouping_init(&grouping, &v.log.definitions, o.by, &filter);
        if (!error) {
            r.grouping = &grouping;
            error = fill_rows(&v.replay.heap, &grouping, &cells, &r);
            if (!error) {
                grouping_sort(&grouping, o.sort);
                if (!report_write(&o, write_diff, &r)) status = EXIT_DONE;
            }
            grouping_release(&grouping);
        }
        if (error) view_fail(&v, error);
    }
    free(cells.from);
    free(cells.to);
    free(cells.retained);
    free(cells.spreads);
    free(samples.samples);
    view_close(&v);
    return status;
}
