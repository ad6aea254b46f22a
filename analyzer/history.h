/* The history of a log (FORMAT.md §7): the records of all EVENTS blocks and of the journal in order, past whatever is damaged, with positions and
 * with a time that never runs backwards. Two ways to walk: block by block with the decoder at hand (the replay), or record by record. */
#ifndef MPP_HISTORY_H
#define MPP_HISTORY_H

#include "analyzer/log.h"

struct history {
    struct log *log;
    size_t block; /* the open one, when in_block */
    size_t next_block;
    int in_block;
    struct mpp_payload payload;
    struct mpp_decoder decoder; /* in the open block */
    uint64_t position;          /* records so far */
    uint64_t time_ns;           /* of the last of them; 0 before all */
    uint64_t next_serial;       /* reached by the blocks before the open one */
};

void history_init(struct history *h, struct log *l);
void history_release(struct history *h);

/* Opens the next block of the history that can be read; damaged ones are reported and passed over. 1, 0 at the end, or an error. */
int history_open_block(struct history *h);
/* Ends the open block: at its end, or (malformed) where a record is none, which is reported. 0 or an error. */
int history_close_block(struct history *h, int malformed);

/* The next record; position and time are then its own. 1, 0 at the end, or an error. */
int history_next(struct history *h, struct mpp_record *r);

/* Makes sure of l->end_time_ns. What the block headers say is taken when it agrees with itself and with the last block; on a damaged log, or one
 * whose numbers do not fit, the whole history is read for it. 0 or an error. */
int history_settle_end(struct log *l);

/* A short message for an error of reading `l`'s history. */
void history_fail(const struct log *l, int error);

#endif
