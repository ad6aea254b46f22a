/* Rows of a report: objects gathered by stack, line, method, file, class, type or thread, filtered, sorted. To add a group: its name in group_names,
 * a case in group.c. Names and rules: docs/REPORTS.md. */
#ifndef MPP_GROUP_H
#define MPP_GROUP_H

#include "analyzer/heap.h"
#include "analyzer/names.h"

enum group_by { BY_STACK, BY_LINE, BY_METHOD, BY_FILE, BY_CLASS, BY_TYPE, BY_THREAD, BY_COUNT };
extern const char *const group_names[BY_COUNT];

#define ROW_NONE UINT32_MAX

/* Live objects of a group. */
struct cell {
    uint64_t objects, bytes;
};

/* How far sampling may have misled: variances of a sum of live objects (Horvitz-Thompson: each object of weight w was taken with probability 1/w, on
 * its own, so it adds w (w - 1) times its value squared). */
struct spread {
    double objects, bytes;
};
static inline void spread_add(struct spread *to, const struct spread *s)
{
    to->objects += s->objects;
    to->bytes += s->bytes;
}
/* Half the width of the 95 % interval of a sum of this variance. */
double spread_95(double variance);

struct row {
    uint32_t name;                  /* in names.strings */
    uint32_t node;                  /* stack: the backtrace */
    uint32_t path;                  /* line: in names.strings */
    uint64_t line;                  /* line */
    struct counters n;              /* top; zeros under --min-age */
    struct cell live;               /* top */
    struct cell from, to, retained; /* diff */
    struct spread spread;           /* of live (top) or retained (diff); 0 when nothing was sampled */
};

struct group_filter {
    const regex_t *focus, *ignore, *class_name; /* NULL: none */
    int recorder;                               /* keep the recorder's own allocations */
    uint64_t min_age;                           /* 0: none */
};

struct grouping {
    struct names names;
    enum group_by by;
    struct group_filter filter;
    struct row *rows;
    size_t row_count, row_capacity;
    uint32_t *row_of_site; /* 0: not asked yet; else row + 2, or 1 for none */
    struct intern keys;    /* by number: the row */
};

/* The definitions must be complete. 0 or MPP_ERR_NO_MEMORY. */
int grouping_init(struct grouping *g, const struct definitions *d, enum group_by by, const struct group_filter *filter);
void grouping_release(struct grouping *g);

/* The row of a site (index of definitions' sites), or ROW_NONE when a filter takes it out. 0 or MPP_ERR_NO_MEMORY. */
int grouping_row(struct grouping *g, uint32_t site, uint32_t *row);

enum sort_key {
    SORT_LIVE_BYTES,
    SORT_LIVE_OBJECTS,
    SORT_ALLOCATED_BYTES,
    SORT_ALLOCATED_OBJECTS,
    SORT_FREED_BYTES,
    SORT_FREED_OBJECTS,
    SORT_RETAINED_BYTES,
    SORT_RETAINED_OBJECTS,
    SORT_DELTA_BYTES,
    SORT_DELTA_OBJECTS,
    SORT_TO_BYTES,
    SORT_NAME,
    SORT_COUNT
};
extern const char *const sort_names[SORT_COUNT];

/* Sorts, after the rows that are all zero have gone. */
void grouping_sort(struct grouping *g, enum sort_key key);

/* Live objects by site, of those that have seen `min_age` GCs at least, and (when `from_serial` is not 0) that an ALLOC at or after that serial made.
 * `cells` has one for each of the heap's sites and is added to. Unknown objects are not live. */
void count_live(const struct heap *h, uint64_t min_age, uint64_t from_serial, struct cell *cells);
/* The variances of what count_live counts, likewise added to one for each site. */
void count_spread(const struct heap *h, uint64_t min_age, uint64_t from_serial, struct spread *spreads);

#endif
