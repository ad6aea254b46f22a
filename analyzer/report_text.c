/* top and diff for people, good enough to paste into a ticket. */
#include "analyzer/term.h"
#include "analyzer/units.h"
#include <inttypes.h>
#include <stdlib.h>
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
    unsigned hidden; /* a bit for each column that a narrow terminal has no room for */
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

    for (size_t i = 0; i < t->count; i++) {
        if (!(t->hidden >> i & 1)) sum += (size_t)t->widths[i] + 2;
    }
    return sum;
}

/* Leaves out columns, in the order of `spare`, until names have room: what a row is of tells more than one number more. */
static void table_fit(struct table *t, const size_t *spare, size_t count)
{
    const size_t name = 30;

    for (size_t i = 0; t->term->width > 0 && i < count && table_indent(t) + name > t->term->width; i++) t->hidden |= 1u << spare[i];
}

/* `color` is that of the columns from `first` up to `last`. */
static void table_put(const struct table *t, const struct cells *c, const char *color, size_t first, size_t last)
{
    FILE *out = t->term->out;

    for (size_t i = 0; i < t->count; i++) {
        if (i == first) fputs(color, out);
        if (!(t->hidden >> i & 1)) fprintf(out, "%*s", t->widths[i], c->text[i]);
        if (i == last && *color) fputs(t->term->plain, out);
        if (!(t->hidden >> i & 1)) fputs("  ", out);
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

static void put_frame(const struct term *t, const struct names *n, struct frame f, size_t indent)
{
    const struct intern_entry *path = &n->strings.entries[f.path], *function = &n->strings.entries[f.function];
    const int has_line = path->length > 0 && f.line > 0;
    char line[24] = "", *text;

    if (has_line) snprintf(line, sizeof line, ":%" PRIu64, f.line);
    const size_t length = path->length + strlen(line) + (path->length ? 4 : 0) + function->length;
    fprintf(t->out, "%*s%s", (int)indent, "", t->dim);
    text = t->width ? malloc(length + 1) : NULL; /* names may hold zero bytes */
    if (text) {
        size_t at = path->length;
        memcpy(text, path->bytes, path->length);
        at += (size_t)snprintf(text + at, length + 1 - at, "%s%s", line, path->length ? " in " : "");
        memcpy(text + at, function->bytes, function->length);
        term_put_name(t, text, length, indent);
    } else {
        term_put(t, path->bytes, path->length);
        fprintf(t->out, "%s%s", line, path->length ? " in " : "");
        term_put(t, function->bytes, function->length);
    }
    free(text);
    fprintf(t->out, "%s\n", t->plain);
}

/* The callers of a stack's leaf, below its row: under its name where there is room. */
static void put_callers(const struct term *t, const struct names *n, uint32_t node, size_t used)
{
    const int shown = 12;
    const size_t indent = t->width && used + 60 > t->width ? 6 : used + 2;
    int depth = 0;

    if (node == NODE_EMPTY) return;
    for (node = names_node(n, node).parent; node != NODE_EMPTY; depth++) {
        struct node here = names_node(n, node);
        if (depth < shown) put_frame(t, n, names_frame(n, here.frame), indent);
        node = here.parent;
    }
    if (depth > shown) fprintf(t->out, "%*s%s\xE2\x80\xA6 %d more%s\n", (int)indent, "", t->dim, depth - shown, t->plain);
}

/* `live` bytes of the log at the moment, of which `rows` are in rows. */
static void put_filters(const struct term *t, const struct options *o, const struct grouping *g, size_t shown, uint64_t live, uint64_t rows)
{
    const int filtered = o->has_focus || o->has_ignore || o->has_class_name;
    char count[32], bytes[32];

    fprintf(t->out, "by %s, sorted by %s, ", group_names[g->by], sort_names[o->sort]);
    if (shown < g->row_count) {
        fprintf(t->out, "%zu of %s rows", shown, term_count(t, count, sizeof count, g->row_count));
    } else {
        fprintf(t->out, "%s row%s", term_count(t, count, sizeof count, g->row_count), g->row_count == 1 ? "" : "s");
    }
    if (o->min_age) fprintf(t->out, ", live objects of age %llu or more", (unsigned long long)o->min_age);
    if (filtered) fputs(", filtered", t->out);
    /* Nothing else can be missing then; a trifle is not worth a word. */
    if (!filtered && !o->min_age && !o->recorder && live > rows && live - rows > live / 100)
        fprintf(t->out, ", without %s of the recorder's own", term_bytes(t, bytes, sizeof bytes, live - rows));
    fputs("\n\n", t->out);
}

static void put_sampling(const struct term *t, uint64_t period, int sampled)
{
    if (!sampled) return;
    if (period > 1)
        fprintf(t->out, "sampled: one allocation in %llu was recorded; ", (unsigned long long)period);
    else
        fputs("sampled in part; ", t->out);
    fputs("estimates, +- holds in 95 of 100\n", t->out);
}

static void put_counters(const struct term *t, const char *label, const struct counters *n)
{
    char bytes[4][32], counts[4][32];

    fprintf(t->out, "%s%s in %s objects live, %s in %s allocated", label, term_bytes(t, bytes[0], sizeof bytes[0], counters_live_bytes(n)),
            term_count(t, counts[0], sizeof counts[0], counters_live_objects(n)), term_bytes(t, bytes[1], sizeof bytes[1], n->allocated_bytes),
            term_count(t, counts[1], sizeof counts[1], n->allocated_objects));
    if (t->width == 0 || t->width >= 100) { /* it is the difference of the two */
        fprintf(t->out, ", %s in %s freed", term_bytes(t, bytes[2], sizeof bytes[2], n->freed_bytes),
                term_count(t, counts[2], sizeof counts[2], n->freed_objects));
    }
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
    static const size_t spare_exact[] = {4, 3}, spare_estimate[] = {6, 5, 4};
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
    put_filters(&t, o, g, shown, whole, r->filtered_live.bytes);
    top_cells(&t, o, r, &r->filtered_live, &r->filtered_spread, &r->filtered, &sum);
    table_measure(&table, &head);
    table_measure(&table, &sum);
    for (size_t i = 0; i < shown; i++) {
        top_cells(&t, o, r, &g->rows[i].live, &g->rows[i].spread, &g->rows[i].n, &c);
        table_measure(&table, &c);
    }
    table_fit(&table, sampled ? spare_estimate : spare_exact, sampled ? 3 : 2);
    fputs(t.bold, t.out);
    table_put(&table, &head, "", 0, 0);
    fprintf(t.out, "name%s\n", t.plain);
    for (size_t i = 0; i < shown; i++) {
        top_cells(&t, o, r, &g->rows[i].live, &g->rows[i].spread, &g->rows[i].n, &c);
        table_put(&table, &c, t.color, 0, 0);
        put_row_name(&t, &g->names, &g->rows[i], table_indent(&table));
        if (g->by == BY_STACK) put_callers(&t, &g->names, g->rows[i].node, table_indent(&table));
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

/* What an old object has grown by is nobody's retained: of the rows not shown, the one that grew most, if it would stand among those shown. */
static void put_growth(const struct term *t, const struct options *o, const struct grouping *g, size_t shown)
{
    const struct row *most = NULL, *last = shown ? &g->rows[shown - 1] : NULL;
    uint64_t growth = last ? last->retained.bytes : 0;
    char bytes[32];

    if (o->sort != SORT_RETAINED_BYTES || o->min_age) return; /* by age, rows gain what only got older */
    for (size_t i = shown; i < g->row_count; i++) {
        const struct row *r = &g->rows[i];
        if (r->to.bytes <= r->from.bytes || r->to.bytes - r->from.bytes <= growth) continue;
        growth = r->to.bytes - r->from.bytes;
        most = r;
    }
    if (!most) return;
    fprintf(t->out, "\nnot shown: older objects that grew, by %s at ", term_bytes(t, bytes, sizeof bytes, growth));
    term_put(t, g->names.strings.entries[most->name].bytes, g->names.strings.entries[most->name].length);
    fputs(": see --sort delta_bytes\n", t->out);
}

static int write_diff(const struct diff_report *r, const struct options *o, struct output *out)
{
    static const struct cells exact = {{"retained", "objects", "delta", "objects", "from", "to"}};
    static const struct cells estimate = {{"retained", "95 %", "objects", "95 %", "delta", "objects", "from", "to"}};
    static const size_t spare_exact[] = {4, 3, 5}, spare_estimate[] = {6, 5, 3, 7, 2};
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
    put_filters(&t, o, g, shown, counters_live_bytes(&r->totals_to), r->filtered_to.bytes);
    diff_cells(&t, r, &r->filtered_from, &r->filtered_to, &r->filtered_retained, &r->filtered_spread, &sum);
    table_measure(&table, &head);
    table_measure(&table, &sum);
    for (size_t i = 0; i < shown; i++) {
        diff_cells(&t, r, &g->rows[i].from, &g->rows[i].to, &g->rows[i].retained, &g->rows[i].spread, &c);
        table_measure(&table, &c);
    }
    table_fit(&table, sampled ? spare_estimate : spare_exact, sampled ? 5 : 3);
    fputs(t.bold, t.out);
    table_put(&table, &head, "", 0, 0);
    fprintf(t.out, "name%s\n", t.plain);
    for (size_t i = 0; i < shown; i++) {
        const struct row *row = &g->rows[i];
        diff_cells(&t, r, &row->from, &row->to, &row->retained, &row->spread, &c);
        table_put(&table, &c, row->to.bytes > row->from.bytes ? t.plus : row->to.bytes < row->from.bytes ? t.minus : "", delta, delta + 1);
        put_row_name(&t, &g->names, row, table_indent(&table));
        if (g->by == BY_STACK) put_callers(&t, &g->names, row->node, table_indent(&table));
    }
    if (g->row_count != 1) {
        fputs(t.dim, t.out);
        table_put(&table, &sum, "", 0, 0);
        fprintf(t.out, "all rows%s\n", t.plain);
    }
    put_growth(&t, o, g, shown);
    return 0;
}

const struct report_format report_text = {.top = write_top, .diff = write_diff};
