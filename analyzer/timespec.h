/* TIME, as a user writes it (docs/REPORTS.md): parsed without a log, then resolved against one. To add a form: a kind, a parser in time_parse, a case
 * in time_resolve. */
#ifndef MPP_TIMESPEC_H
#define MPP_TIMESPEC_H

#include "analyzer/log.h"
#include "analyzer/replay.h"

enum time_kind {
    TIME_START,
    TIME_END,
    TIME_PEAK,
    TIME_OFFSET,     /* ns after the start */
    TIME_BEFORE_END, /* ns */
    TIME_PERCENT,    /* ns: 10^-9 of a percent */
    TIME_WALL,       /* ns: Unix */
    TIME_CLOCK,      /* ns: since midnight, at the recorder's offset */
    TIME_MARK,
    TIME_GC
};

struct time_spec {
    const char *text; /* as given; the caller's */
    enum time_kind kind;
    uint64_t ns;
    const char *mark; /* inside text */
    size_t mark_length;
    uint64_t number; /* gc_count; which of a mark's, from 1 */
};

/* 0, or -1 and *why (static): what is wrong with it. */
int time_parse(struct time_spec *t, const char *text, const char **why);

/* Finds the moment. 0, or -1 after a message. Reads the whole log for marks, GCs, wall clocks, and replays it for the peak. */
int time_resolve(const struct time_spec *t, struct log *l, struct moment *out);

/* For help: the forms, a line each. */
extern const char time_help[];

#endif
