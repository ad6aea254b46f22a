/* What the reports are made of, and the forms that they can be written in. To add a form: a struct report_format in a file of its own, a row in
 * report.c. */
#ifndef MPP_REPORT_H
#define MPP_REPORT_H

#include "analyzer/options.h"
#include "analyzer/output.h"

/* A moment, found. */
struct report_point {
    const char *spec;
    uint64_t position, time_ns;    /* time of the record before it */
    uint64_t now_ns, wall_unix_ns; /* the moment itself, which may be later */
};

/* All objects that share what a sample of a profile tells of them. */
struct sample {
    uint32_t site, bucket; /* bucket: 0 = no age; else 1 + log2-like index of the age's bucket */
    struct cell live;
    uint64_t allocated_objects, allocated_bytes;
    int base; /* of the earlier moment: negated */
};

struct sample_list {
    struct sample *samples;
    size_t count, capacity;
};

struct top_report {
    struct log *log;
    struct report_point at;
    struct grouping *grouping; /* sorted */
    struct counters totals, filtered;
    struct cell filtered_live;
    struct spread filtered_spread;
    uint64_t sample_period;
    struct sample_list *samples; /* for profiles; else NULL */
};

struct diff_report {
    struct log *log;
    struct report_point from, to;
    struct grouping *grouping;
    struct counters totals_from, totals_to;
    struct cell filtered_from, filtered_to, filtered_retained;
    struct spread filtered_spread; /* of retained */
    uint64_t sample_period;
    struct sample_list *samples;
};

struct report_format {
    /* 0, or -1 after a message. */
    int (*top)(const struct top_report *r, const struct options *o, struct output *out);
    int (*diff)(const struct diff_report *r, const struct options *o, struct output *out);
};
extern const struct report_format report_text, report_json, report_pprof, report_folded;
const struct report_format *report_format_of(enum format format);

/* Rows that are shown of `count`. */
size_t report_limit(const struct options *o, size_t count);

/* Opens the output, lets `write` fill it, and ends it. 0 or -1 after a message. */
int report_write(const struct options *o, int (*write)(const void *report, const struct options *o, struct output *out), const void *report);

#endif
