/* top and diff for people, good enough to paste into a ticket. */
#include "analyzer/term.h"
#include "analyzer/units.h"
#include <string.h>

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_row_name(const struct term *t, const struct names *n, const struct row *r, size_t used)
{
    const struct intern_entry *name = &n->strings.entries[r->name];

    term_put_name(t, name->bytes, name->length, used);
    fputc('\n', t->out);
}

/* The callers of a stack's leaf, below its row. */
static void put_callers(const struct term *t, const struct names *n, uint32_t node, int indent)
{
    const int shown = 12;
    int depth = 0;

    if (node == NODE_EMPTY) return;
    for (node = names_node(n, node).parent; node != NODE_EMPTY; depth++) {
        struct node here = names_node(n, node);
        if (depth < shown) {
            struct frame f = names_frame(n, here.frame);
            const struct intern_entry *path = &n->strings.entries[f.path], *function = &n->strings.entries[f.function];
            fprintf(t->out, "%*s%s", indent, "", t->dim);
            if (path->length) term_put(t, path->bytes, path->length);
            if (path->length && f.line) fprintf(t->out, ":%llu", (unsigned long long)f.line);
            if (path->length) fputs(" in ", t->out);
            term_put(t, function->bytes, function->length);
            fprintf(t->out, "%s\n", t->plain);
        }
        node = here.parent;
    }
    if (depth > shown) fprintf(t->out, "%*s%s… %d more%s\n", indent, "", t->dim, depth - shown, t->plain);
}

static void put_filters(const struct term *t, const struct options *o, const struct grouping *g, size_t shown)
{
    char count[32];

    fprintf(t->out, "by %s, sorted by %s, ", group_names[g->by], sort_names[o->sort]);
    if (shown < g->row_count) {
        fprintf(t->out, "%zu of %s rows", shown, term_count(t, count, sizeof count, g->row_count));
    } else {
        fprintf(t->out, "%s row%s", term_count(t, count, sizeof count, g->row_count), g->row_count == 1 ? "" : "s");
    }
    if (o->min_age) fprintf(t->out, ", live objects of age %llu or more", (unsigned long long)o->min_age);
    if (o->has_focus || o->has_ignore || o->has_class_name) fputs(", filtered", t->out);
    fputs("\n\n", t->out);
}

static void put_counters(const struct term *t, const char *label, const struct counters *n)
{
    char bytes[4][32], counts[4][32];

    fprintf(t->out, "%s%s in %s objects live, %s in %s allocated, %s in %s freed", label,
            term_bytes(t, bytes[0], sizeof bytes[0], counters_live_bytes(n)), term_count(t, counts[0], sizeof counts[0], counters_live_objects(n)),
            term_bytes(t, bytes[1], sizeof bytes[1], n->allocated_bytes), term_count(t, counts[1], sizeof counts[1], n->allocated_objects),
            term_bytes(t, bytes[2], sizeof bytes[2], n->freed_bytes), term_count(t, counts[2], sizeof counts[2], n->freed_objects));
    if (n->unknown_objects) {
        fprintf(t->out, ", %s in %s unknown (their frees may have been missed)", term_bytes(t, bytes[3], sizeof bytes[3], n->unknown_bytes),
                term_count(t, counts[3], sizeof counts[3], n->unknown_objects));
    }
    fputc('\n', t->out);
}

static int write_top(const struct top_report *r, const struct options *o, struct output *out)
{
    const struct grouping *g = r->grouping;
    const struct names *n = &g->names;
    struct term t;
    size_t shown = report_limit(o, g->row_count);
    char bytes[2][32], counts[2][32];
    uint64_t whole = counters_live_bytes(&r->totals);

    term_init(&t, o, out);
    term_log_line(&t, r->log, "live heap");
    term_point(&t, r->log, "at", &r->at);
    put_counters(&t, "", &r->totals);
    put_filters(&t, o, g, shown);
    fprintf(t.out, "%s%13s  %6s  %12s  %13s  %12s  name%s\n", t.bold, "live bytes", "%", "objects", "allocated", "objects", t.plain);
    for (size_t i = 0; i < shown; i++) {
        const struct row *row = &g->rows[i];
        fprintf(t.out, "%s%13s%s  %6.1f  %12s  %13s  %12s  ", t.color, term_bytes(&t, bytes[0], sizeof bytes[0], row->live.bytes), t.plain,
                percent(row->live.bytes, whole), term_count(&t, counts[0], sizeof counts[0], row->live.objects),
                o->min_age ? "-" : term_bytes(&t, bytes[1], sizeof bytes[1], row->n.allocated_bytes),
                o->min_age ? "-" : term_count(&t, counts[1], sizeof counts[1], row->n.allocated_objects));
        put_row_name(&t, n, row, 66);
        if (g->by == BY_STACK) put_callers(&t, n, row->node, 68);
    }
    if (shown < g->row_count || r->filtered_live.bytes != whole) {
        fprintf(t.out, "%s%13s  %6.1f  %12s  %13s  %12s  all rows%s\n", t.dim, term_bytes(&t, bytes[0], sizeof bytes[0], r->filtered_live.bytes),
                percent(r->filtered_live.bytes, whole), term_count(&t, counts[0], sizeof counts[0], r->filtered_live.objects),
                o->min_age ? "-" : term_bytes(&t, bytes[1], sizeof bytes[1], r->filtered.allocated_bytes),
                o->min_age ? "-" : term_count(&t, counts[1], sizeof counts[1], r->filtered.allocated_objects), t.plain);
    }
    return 0;
}

static void put_cells(const struct term *t, const struct cell *from, const struct cell *to, const struct cell *retained)
{
    char text[6][40];
    const char *sign = to->bytes > from->bytes ? t->plus : to->bytes < from->bytes ? t->minus : "";

    fprintf(t->out, "%13s  %12s  %s%13s  %12s%s  %12s  %12s  ", term_bytes(t, text[0], sizeof text[0], retained->bytes),
            term_count(t, text[1], sizeof text[1], retained->objects), sign, term_delta_bytes(t, text[2], sizeof text[2], to->bytes, from->bytes),
            term_delta_count(t, text[3], sizeof text[3], to->objects, from->objects), t->plain, term_bytes(t, text[4], sizeof text[4], from->bytes),
            term_bytes(t, text[5], sizeof text[5], to->bytes));
}

static int write_diff(const struct diff_report *r, const struct options *o, struct output *out)
{
    const struct grouping *g = r->grouping;
    struct term t;
    size_t shown = report_limit(o, g->row_count);

    term_init(&t, o, out);
    term_log_line(&t, r->log, "what appeared between two moments");
    term_point(&t, r->log, "from", &r->from);
    put_counters(&t, "  ", &r->totals_from);
    term_point(&t, r->log, "to", &r->to);
    put_counters(&t, "  ", &r->totals_to);
    put_filters(&t, o, g, shown);
    fprintf(t.out, "%s%13s  %12s  %13s  %12s  %12s  %12s  name%s\n", t.bold, "retained", "objects", "delta", "objects", "from", "to", t.plain);
    for (size_t i = 0; i < shown; i++) {
        const struct row *row = &g->rows[i];
        put_cells(&t, &row->from, &row->to, &row->retained);
        put_row_name(&t, &g->names, row, 84);
        if (g->by == BY_STACK) put_callers(&t, &g->names, row->node, 86);
    }
    if (g->row_count != 1) {
        fputs(t.dim, t.out);
        put_cells(&t, &r->filtered_from, &r->filtered_to, &r->filtered_retained);
        fprintf(t.out, "all rows%s\n", t.plain);
    }
    return 0;
}

const struct report_format report_text = {.top = write_top, .diff = write_diff};
