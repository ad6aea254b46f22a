/* Applies the history to a heap, up to a moment, and on to the next one. The one core that every report stands on. */
#ifndef MPP_REPLAY_H
#define MPP_REPLAY_H

#include "analyzer/apply.h"
#include "analyzer/feed.h"
#include "analyzer/heap.h"
#include "analyzer/history.h"

/* A moment: the first position at which neither holds any more. Both limits are inclusive: records up to `position`, records whose time is ≤
 * `time_ns`. */
struct moment {
    uint64_t position, time_ns;
};
#define MOMENT_START ((struct moment){.position = 0, .time_ns = UINT64_MAX})
#define MOMENT_END   ((struct moment){.position = UINT64_MAX, .time_ns = UINT64_MAX})

struct replay_mark {
    uint64_t position, time_ns;
    char *name; /* malloc'ed, with a zero byte behind it */
    size_t length;
};

struct replay {
    struct history history; /* position, time_ns, and of the open block: block, next_serial */
    struct heap heap;
    enum feed_threads threads; /* may be set before the first replay_run */
    struct feed *feed;
    const struct batch *batch; /* the one that is being applied; NULL: the next has not been fetched */
    struct batch_cursor at;
    /* What passed by so far. */
    uint64_t record_counts[256]; /* by kind; FREEs and ALLOCs too */
    uint64_t gc_count;           /* of the last GC_END */
    int gc_known;
    uint64_t wall_unix_ns, wall_time_ns; /* the wall clock was wall_unix_ns at wall_time_ns */
    uint64_t sample_period;
    struct replay_mark *marks;
    size_t mark_count, mark_capacity;
    struct statistics statistics; /* of PROC records in the history */
    int keep_all;                 /* marks and statistics are kept */
    int definitions_complete;     /* those of the whole log were read ahead */
};

void replay_init(struct replay *r, struct log *l);
void replay_release(struct replay *r);

/* Goes on to `m`. 0, or an error (history_fail tells it). A moment that has passed already changes nothing; replay_is_past asks for that. */
int replay_run(struct replay *r, struct moment m);
/* Whether the present position is behind `m`. */
int replay_is_past(const struct replay *r, struct moment m);

/* Takes the definitions of the rest of the log, for names come late, and finds its damage. The replay cannot go on after it. *record_count:
 * of the whole history. */
int replay_finish(struct replay *r, uint64_t *record_count);

/* Serial of the next ALLOC at this position: objects of lower serials were born before it. */
uint64_t replay_next_serial(const struct replay *r);
/* The wall clock at this position's `time_ns`. */
uint64_t replay_wall_ns(const struct replay *r, uint64_t time_ns);
/* ALLOC, FREE and SIZE kinds so far. */
uint64_t replay_event_count(const struct replay *r);

#endif
