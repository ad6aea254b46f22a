/* Folded stacks, for flame graphs: root first, ';' between frames, a space, bytes. */
#include "analyzer/message.h"
#include "analyzer/report.h"
#include <inttypes.h>
#include <stdlib.h>

/* A name inside a frame: what the form itself uses, or would end the line, is replaced. */
static void put_name(FILE *out, const struct names *n, uint32_t string)
{
    const struct intern_entry *e = &n->strings.entries[string];

    for (size_t i = 0; i < e->length; i++) {
        unsigned char c = (unsigned char)e->bytes[i];
        fputc(c == ';' ? ':' : c < 0x20 || c == 0x7f ? '?' : c, out);
    }
}

static void put_frame(FILE *out, const struct names *n, const struct frame *f)
{
    put_name(out, n, f->function);
    if (f->path == n->empty) return;
    fputs(" (", out);
    put_name(out, n, f->path);
    if (f->line) fprintf(out, ":%" PRIu64, f->line);
    fputc(')', out);
}

/* Root first; `frames` has room for all of them. */
static void put_stack(FILE *out, const struct names *n, uint32_t node, uint32_t *frames)
{
    size_t depth = 0;

    if (node == NODE_EMPTY) fputs("(no stack)", out);
    for (; node != NODE_EMPTY; node = names_node(n, node).parent) frames[depth++] = names_node(n, node).frame;
    while (depth > 0) {
        struct frame f = names_frame(n, frames[--depth]);
        put_frame(out, n, &f);
        if (depth) fputc(';', out);
    }
}

/* Frames of the deepest of the first `count` rows. */
static size_t greatest_depth(const struct grouping *g, size_t count)
{
    size_t greatest = 0;

    for (size_t i = 0; i < count; i++) {
        size_t depth = 0;
        for (uint32_t node = g->rows[i].node; node != NODE_EMPTY; node = names_node(&g->names, node).parent) depth++;
        if (depth > greatest) greatest = depth;
    }
    return greatest;
}

static int write_rows(const struct grouping *g, const struct options *o, struct output *out, int retained)
{
    size_t count = report_limit(o, g->row_count);
    uint32_t *frames = calloc(greatest_depth(g, count) + 1, sizeof *frames); /* before the first line: there are no half reports */

    if (!frames) {
        message("not enough memory for the report: --limit makes it smaller");
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &g->rows[i];
        uint64_t bytes = retained ? r->retained.bytes : r->live.bytes;
        if (bytes == 0) continue; /* no width in the graph */
        put_stack(out->file, &g->names, r->node, frames);
        fprintf(out->file, " %" PRIu64 "\n", bytes);
    }
    free(frames);
    return 0;
}

static int write_top(const struct top_report *r, const struct options *o, struct output *out)
{
    return write_rows(r->grouping, o, out, 0);
}

static int write_diff(const struct diff_report *r, const struct options *o, struct output *out)
{
    return write_rows(r->grouping, o, out, 1);
}

const struct report_format report_folded = {.top = write_top, .diff = write_diff};
