/* Text for people: colour, width, units. Only on terminals is it cut or coloured. */
#ifndef MPP_TERM_H
#define MPP_TERM_H

#include "analyzer/report.h"

struct term {
    FILE *out;
    size_t width;                                          /* 0: unlimited */
    int raw;                                               /* exact numbers */
    const char *bold, *color, *plus, *minus, *dim, *plain; /* escape sequences, or empty */
};

void term_init(struct term *t, const struct options *o, const struct output *out);
/* How many lines a timeline has by default: the terminal's height. */
size_t term_default_points(const struct options *o);

/* Human units, or digits under --raw. */
const char *term_bytes(const struct term *t, char *text, size_t size, uint64_t bytes);
const char *term_count(const struct term *t, char *text, size_t size, uint64_t n);
/* With a sign. */
const char *term_delta_bytes(const struct term *t, char *text, size_t size, uint64_t to, uint64_t from);
const char *term_delta_count(const struct term *t, char *text, size_t size, uint64_t to, uint64_t from);

/* Bytes of a log: scrubbed, control characters made visible. */
void term_put(const struct term *t, const char *bytes, size_t length);
/* A name, shortened in the middle to what is left of the line when `used` columns stand before it. */
void term_put_name(const struct term *t, const char *name, size_t length, size_t used);
/* The head of a report: the log, its process, `what`. */
void term_log_line(const struct term *t, const struct log *l, const char *what);
/* "at end: 2m30.5s (2026-12-01T14:03:05+01:00)". */
void term_point(const struct term *t, const struct log *l, const char *label, const struct report_point *p);

#endif
