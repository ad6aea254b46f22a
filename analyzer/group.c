#include "analyzer/group.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const group_names[BY_COUNT] = {"stack", "line", "method", "file", "class", "type", "thread"};
const char *const sort_names[SORT_COUNT] = {"live_bytes",  "live_objects",  "allocated_bytes", "allocated_objects",
                                            "freed_bytes", "freed_objects", "retained_bytes",  "retained_objects",
                                            "delta_bytes", "delta_objects", "to_bytes",        "name"};

int grouping_init(struct grouping *g, const struct definitions *d, enum group_by by, const struct group_filter *filter)
{
    struct frame_filter frames = {.focus = filter->focus, .ignore = filter->ignore};

    *g = (struct grouping){.by = by, .filter = *filter};
    int error = names_init(&g->names, d, &frames);
    if (error) return error;
    g->row_of_site = calloc(d->site_count + 1, sizeof *g->row_of_site);
    if (!g->row_of_site) {
        grouping_release(g);
        return MPP_ERR_NO_MEMORY;
    }
    return 0;
}

void grouping_release(struct grouping *g)
{
    names_release(&g->names);
    intern_release(&g->keys);
    free(g->rows);
    free(g->row_of_site);
    *g = (struct grouping){0};
}

/* "path:line", the function in place of an empty path; `suffix` behind it. INTERN_NONE: no memory. */
static uint32_t place_name(struct names *n, const struct frame *f, const char *in, uint32_t function)
{
    uint32_t place = f->path == n->empty ? f->function : f->path;
    const struct intern_entry *e = &n->strings.entries[place], *tail = in ? &n->strings.entries[function] : NULL;
    char line[32] = "";
    size_t in_length = in ? strlen(in) : 0;

    if (f->line) snprintf(line, sizeof line, ":%" PRIu64, f->line);
    size_t length = e->length + strlen(line) + in_length + (tail ? tail->length : 0);
    char *text = malloc(length + 1);
    if (!text) return INTERN_NONE;
    char *p = mempcpy(text, e->bytes, e->length);
    p = mempcpy(p, line, strlen(line));
    if (in) p = mempcpy(p, in, in_length);
    if (tail) memcpy(p, tail->bytes, tail->length);
    uint32_t name = intern_put(&n->strings, text, length);
    free(text);
    return name;
}

static uint32_t literal(struct names *n, const char *text)
{
    return intern_put(&n->strings, text, strlen(text));
}

/* What tells rows apart: a zeroed struct, compared by its bytes. */
struct row_key {
    uint64_t line;
    uint32_t name, node;
};

/* Fills in the row's name and key for a site. 0 or MPP_ERR_NO_MEMORY. */
static int describe(struct grouping *g, uint32_t site, const struct stack_names *s, struct row *row)
{
    struct names *n = &g->names;

    *row = (struct row){.node = NODE_EMPTY, .path = n->empty};
    if (g->by <= BY_FILE && s->node == NODE_EMPTY) {
        row->name = literal(n, "(no stack)");
    } else if (g->by == BY_STACK) {
        struct frame leaf = names_frame(n, names_node(n, s->node).frame);
        row->node = s->node;
        row->name = place_name(n, &leaf, " in ", leaf.function);
    } else if (g->by <= BY_FILE) {
        struct frame f = names_frame(n, s->line_frame);
        if (g->by == BY_LINE) {
            row->name = place_name(n, &f, NULL, 0);
            row->path = f.path;
            row->line = f.line;
        } else if (g->by == BY_METHOD) {
            row->name = f.function;
        } else {
            row->name = f.path == n->empty ? literal(n, "(no file)") : f.path;
        }
    } else {
        row->name = g->by == BY_CLASS ? names_class(n, site) : g->by == BY_TYPE ? names_type(n, site) : names_thread(n, site);
    }
    return row->name == INTERN_NONE ? MPP_ERR_NO_MEMORY : 0;
}

/* Whether the filters let a site through. 0 or MPP_ERR_NO_MEMORY. */
static int passes(struct grouping *g, uint32_t site, const struct stack_names *s, int *yes)
{
    *yes = (g->filter.recorder || !s->recorder) && (!g->filter.focus || s->focused) && (!g->filter.ignore || !s->ignored);
    if (*yes && g->filter.class_name) {
        uint32_t class_name = names_class(&g->names, site);
        if (class_name == INTERN_NONE) return MPP_ERR_NO_MEMORY;
        *yes = names_match(&g->names, g->filter.class_name, class_name);
    }
    return 0;
}

int grouping_row(struct grouping *g, uint32_t site, uint32_t *out)
{
    struct stack_names s;
    struct row row;
    int yes, error;

    if (g->row_of_site[site]) {
        *out = g->row_of_site[site] == 1 ? ROW_NONE : g->row_of_site[site] - 2;
        return 0;
    }
    error = names_stack(&g->names, names_site_stack(&g->names, site), &s);
    if (!error) error = passes(g, site, &s, &yes);
    if (error) return error;
    if (!yes) {
        g->row_of_site[site] = 1;
        *out = ROW_NONE;
        return 0;
    }
    if ((error = describe(g, site, &s, &row))) return error;
    /* Lines are told apart by path and line, through the name when the path is empty; stacks by their node; the others by name. */
    struct row_key key = {.line = row.line, .name = g->by == BY_LINE && row.path != g->names.empty ? row.path : row.name, .node = row.node};
    uint32_t index = intern_put(&g->keys, &key, sizeof key);
    if (index == INTERN_NONE) return MPP_ERR_NO_MEMORY;
    if (index == g->row_count) {
        if (array_reserve((void **)&g->rows, &g->row_capacity, g->row_count + 1, sizeof *g->rows)) return MPP_ERR_NO_MEMORY;
        g->rows[g->row_count++] = row;
    }
    g->row_of_site[site] = index + 2;
    *out = index;
    return 0;
}

/* Names as bytes: strcmp would end at a zero byte. */
static int compare_text(const struct names *n, uint32_t a, uint32_t b)
{
    const struct intern_entry *x = &n->strings.entries[a], *y = &n->strings.entries[b];
    int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);

    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_nodes(const struct names *n, uint32_t a, uint32_t b)
{
    while (a != b && a != NODE_EMPTY && b != NODE_EMPTY) {
        struct node x = names_node(n, a), y = names_node(n, b);
        if (x.frame != y.frame) {
            struct frame f = names_frame(n, x.frame), g = names_frame(n, y.frame);
            int order = compare_text(n, f.function, g.function);
            if (!order) order = compare_text(n, f.path, g.path);
            return order ? order : compare_numbers(f.line, g.line);
        }
        a = x.parent;
        b = y.parent;
    }
    return a == b ? 0 : a == NODE_EMPTY ? -1 : 1;
}

/* Which of two rows has more of `key`: > 0 when a has. */
static int compare_key(const struct row *a, const struct row *b, enum sort_key key)
{
    __int128 x, y;

    switch (key) {
    case SORT_LIVE_BYTES:
        return compare_numbers(a->live.bytes, b->live.bytes);
    case SORT_LIVE_OBJECTS:
        return compare_numbers(a->live.objects, b->live.objects);
    case SORT_ALLOCATED_BYTES:
        return compare_numbers(a->n.allocated_bytes, b->n.allocated_bytes);
    case SORT_ALLOCATED_OBJECTS:
        return compare_numbers(a->n.allocated_objects, b->n.allocated_objects);
    case SORT_FREED_BYTES:
        return compare_numbers(a->n.freed_bytes, b->n.freed_bytes);
    case SORT_FREED_OBJECTS:
        return compare_numbers(a->n.freed_objects, b->n.freed_objects);
    case SORT_RETAINED_BYTES:
        return compare_numbers(a->retained.bytes, b->retained.bytes);
    case SORT_RETAINED_OBJECTS:
        return compare_numbers(a->retained.objects, b->retained.objects);
    case SORT_TO_BYTES:
        return compare_numbers(a->to.bytes, b->to.bytes);
    case SORT_DELTA_BYTES:
        x = (__int128)a->to.bytes - a->from.bytes;
        y = (__int128)b->to.bytes - b->from.bytes;
        return (x > y) - (x < y);
    case SORT_DELTA_OBJECTS:
        x = (__int128)a->to.objects - a->from.objects;
        y = (__int128)b->to.objects - b->from.objects;
        return (x > y) - (x < y);
    case SORT_NAME:
    case SORT_COUNT:
        break;
    }
    return 0;
}

struct order {
    const struct names *names;
    enum sort_key key;
};

static int compare_rows(const void *pa, const void *pb, void *context)
{
    const struct row *a = pa, *b = pb;
    const struct order *o = context;
    int order = compare_key(b, a, o->key);

    if (!order) order = compare_text(o->names, a->name, b->name);
    if (!order) order = compare_text(o->names, a->path, b->path);
    if (!order) order = compare_numbers(a->line, b->line);
    return order ? order : compare_nodes(o->names, a->node, b->node);
}

static int is_zero(const struct row *r)
{
    return counters_are_zero(&r->n) && !(r->live.objects | r->live.bytes | r->from.objects | r->from.bytes | r->to.objects | r->to.bytes |
                                         r->retained.objects | r->retained.bytes);
}

void grouping_sort(struct grouping *g, enum sort_key key)
{
    struct order order = {.names = &g->names, .key = key};
    size_t kept = 0;

    for (size_t i = 0; i < g->row_count; i++) {
        if (!is_zero(&g->rows[i])) g->rows[kept++] = g->rows[i];
    }
    g->row_count = kept;
    if (kept) qsort_r(g->rows, kept, sizeof *g->rows, compare_rows, &order);
}

struct live_count {
    const struct heap *heap;
    uint64_t min_age, from_serial;
    struct cell *cells;     /* or NULL */
    struct spread *spreads; /* or NULL */
};

static void count_object(void *context, uint64_t serial, const struct object *o, const struct live_object *live)
{
    const struct live_count *c = context;

    if (c->from_serial && (live || serial < c->from_serial)) return;
    if (heap_unknown(c->heap, serial, live)) return;
    if (c->min_age && heap_age(c->heap, serial, live) < c->min_age) return;
    if (c->cells) {
        c->cells[o->site].objects += o->weight;
        c->cells[o->site].bytes += o->weight * object_size(o);
    }
    if (c->spreads && o->weight > 1) {
        double once = (double)o->weight * ((double)o->weight - 1), bytes = (double)object_size(o);
        c->spreads[o->site].objects += once;
        c->spreads[o->site].bytes += once * bytes * bytes;
    }
}

void count_live(const struct heap *h, uint64_t min_age, uint64_t from_serial, struct cell *cells)
{
    struct live_count c = {.heap = h, .min_age = min_age, .from_serial = from_serial, .cells = cells};

    objects_each(&h->objects, count_object, &c);
}

void count_spread(const struct heap *h, uint64_t min_age, uint64_t from_serial, struct spread *spreads)
{
    struct live_count c = {.heap = h, .min_age = min_age, .from_serial = from_serial, .spreads = spreads};

    objects_each(&h->objects, count_object, &c);
}

double spread_95(double variance)
{
    return 1.96 * sqrt(variance);
}
