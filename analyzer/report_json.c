/* top and diff as JSON: docs/REPORTS.md. */
#include "analyzer/json.h"

static json_t *string_of(const struct names *n, uint32_t i)
{
    return json_stringn_nocheck(n->strings.entries[i].bytes, n->strings.entries[i].length);
}

static json_t *frames_of(const struct names *n, uint32_t node, int *failed)
{
    json_t *frames = json_array();

    while (node != NODE_EMPTY) {
        struct node here = names_node(n, node);
        struct frame f = names_frame(n, here.frame);
        json_t *frame = json_object();
        json_put(frame, "function", string_of(n, f.function), failed);
        json_put(frame, "path", string_of(n, f.path), failed);
        json_put(frame, "line", json_u64(f.line), failed);
        json_add(frames, frame, failed);
        node = here.parent;
    }
    return frames;
}

/* What a row is of. */
static json_t *row_head(const struct grouping *g, const struct row *r, int *failed)
{
    json_t *row = json_object();

    json_put(row, "name", string_of(&g->names, r->name), failed);
    if (g->by == BY_STACK) json_put(row, "frames", frames_of(&g->names, r->node, failed), failed);
    if (g->by == BY_LINE) {
        json_put(row, "path", string_of(&g->names, r->path), failed);
        json_put(row, "line", json_u64(r->line), failed);
    }
    return row;
}

/* Under --min-age only what is live is known; it stands apart from the counters. */
static void put_shown(json_t *object, const struct counters *n, const struct cell *live, int *failed)
{
    json_put_counters(object, n, failed);
    json_put(object, "live_objects", json_u64(live->objects), failed);
    json_put(object, "live_bytes", json_u64(live->bytes), failed);
}

static int write_top(const struct top_report *r, const struct options *o, struct output *out)
{
    const struct grouping *g = r->grouping;
    int failed = 0;
    json_t *document = json_report("mpp.top/1", r->log, &failed), *filtered = json_object(), *rows = json_array();

    put_shown(filtered, &r->filtered, &r->filtered_live, &failed);
    json_put(document, "at", json_point(&r->at, &failed), &failed);
    json_put(document, "by", json_string(group_names[g->by]), &failed);
    json_put(document, "sort", json_string(sort_names[o->sort]), &failed);
    json_put(document, "totals", json_counters(&r->totals, &failed), &failed);
    json_put(document, "filtered", filtered, &failed);
    json_put(document, "row_count", json_u64(g->row_count), &failed);
    for (size_t i = 0, n = report_limit(o, g->row_count); i < n; i++) {
        json_t *row = row_head(g, &g->rows[i], &failed);
        put_shown(row, &g->rows[i].n, &g->rows[i].live, &failed);
        json_add(rows, row, &failed);
    }
    json_put(document, "rows", rows, &failed);
    return json_write(document, failed, out->file);
}

static json_t *cell_of(const struct cell *c, int *failed)
{
    json_t *cell = json_object();

    json_put(cell, "objects", json_u64(c->objects), failed);
    json_put(cell, "bytes", json_u64(c->bytes), failed);
    return cell;
}

static void put_cells(json_t *object, const struct cell *from, const struct cell *to, const struct cell *retained, int *failed)
{
    json_t *delta = json_object();

    json_put(delta, "objects", json_delta(to->objects, from->objects), failed);
    json_put(delta, "bytes", json_delta(to->bytes, from->bytes), failed);
    json_put(object, "from", cell_of(from, failed), failed);
    json_put(object, "to", cell_of(to, failed), failed);
    json_put(object, "delta", delta, failed);
    json_put(object, "retained", cell_of(retained, failed), failed);
}

static int write_diff(const struct diff_report *r, const struct options *o, struct output *out)
{
    const struct grouping *g = r->grouping;
    int failed = 0;
    json_t *document = json_report("mpp.diff/1", r->log, &failed), *totals = json_object(), *filtered = json_object(), *rows = json_array();

    json_put(totals, "from", json_counters(&r->totals_from, &failed), &failed);
    json_put(totals, "to", json_counters(&r->totals_to, &failed), &failed);
    put_cells(filtered, &r->filtered_from, &r->filtered_to, &r->filtered_retained, &failed);
    json_put(document, "from", json_point(&r->from, &failed), &failed);
    json_put(document, "to", json_point(&r->to, &failed), &failed);
    json_put(document, "by", json_string(group_names[g->by]), &failed);
    json_put(document, "sort", json_string(sort_names[o->sort]), &failed);
    json_put(document, "totals", totals, &failed);
    json_put(document, "filtered", filtered, &failed);
    json_put(document, "row_count", json_u64(g->row_count), &failed);
    for (size_t i = 0, n = report_limit(o, g->row_count); i < n; i++) {
        json_t *row = row_head(g, &g->rows[i], &failed);
        put_cells(row, &g->rows[i].from, &g->rows[i].to, &g->rows[i].retained, &failed);
        json_add(rows, row, &failed);
    }
    json_put(document, "rows", rows, &failed);
    return json_write(document, failed, out->file);
}

const struct report_format report_json = {.top = write_top, .diff = write_diff};
