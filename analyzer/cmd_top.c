/* top, and pprof, which is its profile. */
#include "analyzer/command.h"
#include "analyzer/view.h"
#include <stdlib.h>

static int write_top(const void *report, const struct options *o, struct output *out)
{
    return report_format_of(o->format)->top(report, o, out);
}

/* Gathers the sites into rows. 0 or an error. */
static int fill_rows(struct heap *h, struct grouping *g, uint64_t min_age, struct top_report *r)
{
    struct cell *live = min_age ? calloc(h->site_count + 1, sizeof *live) : NULL;
    struct spread *spreads = calloc(h->site_count + 1, sizeof *spreads);
    int error = spreads && (live || !min_age) ? 0 : MPP_ERR_NO_MEMORY;

    if (!error && min_age) count_live(h, min_age, 0, live);
    if (!error) count_spread(h, min_age, 0, spreads);
    for (size_t i = 0; i < h->site_count && !error; i++) {
        struct counters n = heap_site_counters(h, i);
        struct cell cell = {.objects = counters_live_objects(&n), .bytes = counters_live_bytes(&n)};
        uint32_t index;
        counters_add(&r->totals, &n);
        if (min_age) {
            cell = live[i];
            n = (struct counters){0};
        }
        if (counters_are_zero(&n) && !cell.objects && !cell.bytes) continue;
        error = grouping_row(g, (uint32_t)i, &index);
        if (error || index == ROW_NONE) continue;
        struct row *row = &g->rows[index];
        counters_add(&row->n, &n);
        row->live.objects += cell.objects;
        row->live.bytes += cell.bytes;
        counters_add(&r->filtered, &n);
        r->filtered_live.objects += cell.objects;
        r->filtered_live.bytes += cell.bytes;
        spread_add(&row->spread, &spreads[i]);
        spread_add(&r->filtered_spread, &spreads[i]);
    }
    free(spreads);
    free(live);
    return error;
}

int cmd_top(const struct options *given)
{
    struct options o = *given; /* shallow: what it owns stays `given`'s */
    struct view v;
    struct moment m;
    struct grouping grouping;
    struct group_filter filter;
    struct sample_list samples = {0};
    struct top_report r = {0};
    int status = EXIT_FAILED, error;

    if (o.format == FORMAT_FOLDED || o.format == FORMAT_PPROF) o.by = BY_STACK;
    if (o.format == FORMAT_FOLDED && o.limit == LIMIT_DEFAULT) o.limit = 0;
    options_filter(&o, &filter);
    if (view_open(&v, &o)) return EXIT_FAILED;
    if (time_resolve(&o.at, &v.log, &m) || view_go(&v, m, &o.at, &r.at)) goto closed;
    r.log = &v.log;
    r.sample_period = v.replay.sample_period;
    if (o.format == FORMAT_PPROF) {
        r.samples = &samples;
        if ((error = view_collect_samples(&v, o.min_age, 0, &samples))) goto failed;
    }
    if (view_finish(&v)) goto closed;
    error = grouping_init(&grouping, &v.log.definitions, o.by, &filter);
    if (error) goto failed;
    r.grouping = &grouping;
    error = fill_rows(&v.replay.heap, &grouping, o.min_age, &r);
    if (error) {
        view_fail(&v, error);
    } else {
        grouping_sort(&grouping, o.sort);
        if (!report_write(&o, write_top, &r)) status = EXIT_DONE;
    }
    grouping_release(&grouping);
    goto closed;
failed:
    view_fail(&v, error);
closed:
    free(samples.samples);
    view_close(&v);
    return status;
}
