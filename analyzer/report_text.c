/* top and diff for people, good enough to paste into a ticket. */
#include "analyzer/term.h"
#include "analyzer/units.h"
#include <string.h>

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* Columns as wide as what stands in them. */
#define COLUMNS   8
#define CELL_SIZE 40
struct cells {
    char text[COLUMNS][CELL_SIZE];
};

struct table {
    const struct term *term;
    size_t count; /* of columns before the name */
    int widths[COLUMNS];
};

static void table_measure(struct table *t, const struct cells *c)
{
    for (size_t i = 0; i < t->count; i++) {
        int width = (int)strlen(c->text[i]);
        if (width > t->widths[i]) t->widths[i] = width;
    }
}

/* Columns before the name. */
static size_t table_indent(const struct table *t)
{
    size_t sum = 0;

    for (size_t i = 0; i < t->count; i++) sum += (size_t)t->widths[i] + 2;
    return sum;
}

/* `color` is that of the columns from `first` up to `last`. */
static void table_put(const struct table *t, const struct cells *c, const char *color, size_t first, size_t last)
{
    for (size_t i = 0; i < t->count; i++) {
        fprintf(t->term->out, "%s%*s%s  ", i == first ? color : "", t->widths[i], c->text[i], i == last && *color ? t->term->plain : "");
    }
}

static void set(struct cells *c, size_t column, const char *text)
{
    snprintf(c->text[column], CELL_SIZE, "%s", text);
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

static void put_sampling(const struct term *t, uint64_t period, int sampled)
{
    if (!sampled) return;
    if (period > 1)
        fprintf(t->out, "sampled: one allocation in %llu was recorded; ", (unsigned long long)period);
    else
        fputs("sampled in part; ", t->out);
    fputs("numbers are estimates, +- holds in 95 of 100 cases\n", t->out);
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

/* A column of estimated sums' uncertainty: "±1.2 MiB". */
static void set_spread(const struct term *t, struct cells *c, size_t column, double variance, int is_bytes)
{
    char text[CELL_SIZE];
    double spread = spread_95(variance);
    /* Of sums near 2^64 the interval may go beyond it. */
    uint64_t half = spread < 0x1p63 ? (uint64_t)(spread + 0.5) : UINT64_MAX;

    snprintf(c->text[column], CELL_SIZE, "+-%s", is_bytes ? term_bytes(t, text, sizeof text, half) : term_count(t, text, sizeof text, half));
}

/* What is sampled has two columns more. */
static int was_sampled(const struct spread *whole)
{
    return whole->objects > 0;
}

static void top_cells(const struct term *t, const struct options *o, const struct top_report *r, const struct cell *live, const struct spread *spread,
                      const struct counters *n, struct cells *c)
{
    size_t at = 0;
    int sampled = was_sampled(&r->filtered_spread);

    term_bytes(t, c->text[at++], CELL_SIZE, live->bytes);
    if (sampled) set_spread(t, c, at++, spread->bytes, 1);
    snprintf(c->text[at++], CELL_SIZE, "%.1f", percent(live->bytes, counters_live_bytes(&r->totals)));
    term_count(t, c->text[at++], CELL_SIZE, live->objects);
    if (sampled) set_spread(t, c, at++, spread->objects, 0);
    set(c, at, "-");
    set(c, at + 1, "-");
    if (o->min_age) return; /* not known by age */
    term_bytes(t, c->text[at], CELL_SIZE, n->allocated_bytes);
    term_count(t, c->text[at + 1], CELL_SIZE, n->allocated_objects);
}

static int write_top(const struct top_report *r, const struct options *o, struct output *out)
{
    static const struct cells exact = {{"live bytes", "%", "objects", "allocated", "objects"}};
    static const struct cells estimate = {{"live bytes", "95 %", "%", "objects", "95 %", "allocated", "objects"}};
    const struct grouping *g = r->grouping;
    struct term t;
    const int sampled = was_sampled(&r->filtered_spread);
    const struct cells head = sampled ? estimate : exact;
    struct table table = {.term = &t, .count = sampled ? 7 : 5};
    struct cells c, sum;
    size_t shown = report_limit(o, g->row_count);
    uint64_t whole = counters_live_bytes(&r->totals);

    term_init(&t, o, out);
    term_log_line(&t, r->log, "live heap");
    term_point(&t, r->log, "at", &r->at);
    put_counters(&t, "", &r->totals);
    put_sampling(&t, r->sample_period, sampled);
    put_filters(&t, o, g, shown);
    top_cells(&t, o, r, &r->filtered_live, &r->filtered_spread, &r->filtered, &sum);
    table_measure(&table, &head);
    table_measure(&table, &sum);
    for (size_t i = 0; i < shown; i++) {
        top_cells(&t, o, r, &g->rows[i].live, &g->rows[i].spread, &g->rows[i].n, &c);
        table_measure(&table, &c);
    }
    fputs(t.bold, t.out);
    table_put(&table, &head, "", 0, 0);
    fprintf(t.out, "name%s\n", t.plain);
    for (size_t i = 0; i < shown; i++) {
        top_cells(&t, o, r, &g->rows[i].live, &g->rows[i].spread, &g->rows[i].n, &c);
        table_put(&table, &c, t.color, 0, 0);
        put_row_name(&t, &g->names, &g->rows[i], table_indent(&table));
        if (g->by == BY_STACK) put_callers(&t, &g->names, g->rows[i].node, (int)table_indent(&table) + 2);
    }
    if (shown < g->row_count || r->filtered_live.bytes != whole) {
        fputs(t.dim, t.out);
        table_put(&table, &sum, "", 0, 0);
        fprintf(t.out, "all rows%s\n", t.plain);
    }
    return 0;
}

static void diff_cells(const struct term *t, const struct diff_report *r, const struct cell *from, const struct cell *to, const struct cell *retained,
                       const struct spread *spread, struct cells *c)
{
    size_t at = 0;
    int sampled = was_sampled(&r->filtered_spread);

    term_bytes(t, c->text[at++], CELL_SIZE, retained->bytes);
    if (sampled) set_spread(t, c, at++, spread->bytes, 1);
    term_count(t, c->text[at++], CELL_SIZE, retained->objects);
    if (sampled) set_spread(t, c, at++, spread->objects, 0);
    term_delta_bytes(t, c->text[at++], CELL_SIZE, to->bytes, from->bytes);
    term_delta_count(t, c->text[at++], CELL_SIZE, to->objects, from->objects);
    term_bytes(t, c->text[at++], CELL_SIZE, from->bytes);
    term_bytes(t, c->text[at], CELL_SIZE, to->bytes);
}

static int write_diff(const struct diff_report *r, const struct options *o, struct output *out)
{
    static const struct cells exact = {{"retained", "objects", "delta", "objects", "from", "to"}};
    static const struct cells estimate = {{"retained", "95 %", "objects", "95 %", "delta", "objects", "from", "to"}};
    const struct grouping *g = r->grouping;
    struct term t;
    const int sampled = was_sampled(&r->filtered_spread);
    const struct cells head = sampled ? estimate : exact;
    const size_t delta = sampled ? 4 : 2;
    struct table table = {.term = &t, .count = sampled ? 8 : 6};
    struct cells c, sum;
    size_t shown = report_limit(o, g->row_count);

    term_init(&t, o, out);
    term_log_line(&t, r->log, "what appeared between two moments");
    term_point(&t, r->log, "from", &r->from);
    put_counters(&t, "  ", &r->totals_from);
    term_point(&t, r->log, "to", &r->to);
    put_counters(&t, "  ", &r->totals_to);
    put_sampling(&t, r->sample_period, sampled);
    put_filters(&t, o, g, shown);
    diff_cells(&t, r, &r->filtered_from, &r->filtered_to, &r->filtered_retained, &r->filtered_spread, &sum);
    table_measure(&table, &head);
    table_measure(&table, &sum);
    for (size_t i = 0; i < shown; i++) {
        diff_cells(&t, r, &g->rows[i].from, &g->rows[i].to, &g->rows[i].retained, &g->rows[i].spread, &c);
        table_measure(&table, &c);
    }
    fputs(t.bold, t.out);
    table_put(&table, &head, "", 0, 0);
    fprintf(t.out, "name%s\n", t.plain);
    for (size_t i = 0; i < shown; i++) {
        const struct row *row = &g->rows[i];
        diff_cells(&t, r, &row->from, &row->to, &row->retained, &row->spread, &c);
        table_put(&table, &c, row->to.bytes > row->from.bytes ? t.plus : row->to.bytes < row->from.bytes ? t.minus : "", delta, delta + 1);
        put_row_name(&t, &g->names, row, table_indent(&table));
        if (g->by == BY_STACK) put_callers(&t, &g->names, row->node, (int)table_indent(&table) + 2);
    }
    if (g->row_count != 1) {
        fputs(t.dim, t.out);
        table_put(&table, &sum, "", 0, 0);
        fprintf(t.out, "all rows%s\n", t.plain);
    }
    return 0;
}

const struct report_format report_text = {.top = write_top, .diff = write_diff};
