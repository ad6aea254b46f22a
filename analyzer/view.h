/* From a log and a command line to what a report shows: opening, finding moments, replaying, counting. What top, diff and pprof share. */
#ifndef MPP_VIEW_H
#define MPP_VIEW_H

#include "analyzer/report.h"

/* A log, opened, and the replay over it. */
struct view {
    struct log log;
    struct replay replay;
    int opened;
};

/* Opens o->log. 0, or -1 after a message. */
int view_open(struct view *v, const struct options *o);
void view_close(struct view *v);

/* Replays up to `t`. 0, or -1 after a message. `m` is where it was resolved to. */
int view_go(struct view *v, struct moment m, const struct time_spec *t, struct report_point *at);
/* Reads the rest for its definitions and says on stderr what the log lacks. 0, or -1 after a message. */
int view_finish(struct view *v);

/* A message for `error`; always -1. */
int view_fail(const struct view *v, int error);

/* The samples of the heap as it is now: live objects by site and age, and what is dead. 0 or MPP_ERR_NO_MEMORY. */
int view_collect_samples(struct view *v, uint64_t min_age, int base, struct sample_list *list);
/* The age that a sample's bucket begins with. */
uint64_t sample_age(uint32_t bucket);

#endif
