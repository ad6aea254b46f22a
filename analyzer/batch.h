/* A few hundred records of the history, parsed and taken apart by what they do, so that what applies them need not branch by kind. In a batch the
 * objects that are born come before those that change: no record of a batch touches an object that is born behind it. */
#ifndef MPP_BATCH_H
#define MPP_BATCH_H

#include "formats/mpp_reader.h"

#define BATCH_RECORDS 512

/* ALLOC and ALLOC_WEIGHTED; the first one's serial is the batch's, and they count up. */
struct batch_alloc {
    uint32_t site;
    uint32_t weight; /* with BATCH_WEIGHTED */
};
#define BATCH_WEIGHTED (UINT32_C(1) << 31) /* it is an ALLOC_WEIGHTED */

/* FREE, FREE_SIZED and SIZE. */
struct batch_touch {
    uint64_t serial_and_kind;
    uint64_t size_bytes; /* of those with BATCH_SIZED */
};
#define BATCH_FREES  (UINT64_C(1) << 63)
#define BATCH_SIZED  (UINT64_C(1) << 62)
#define BATCH_SERIAL (BATCH_SIZED - 1)

/* From record `at` on (its number within the batch) the history's time, which never runs backwards, is `time_ns`. */
struct batch_time {
    uint64_t time_ns;
    uint32_t at;
};

/* What comes behind the records of a batch. */
enum batch_end {
    BATCH_GOES_ON,
    BATCH_RARE,       /* one more record, of another kind or one that needs a look: `rare` */
    BATCH_BLOCK_ENDS, /* the block is at its end */
    BATCH_MALFORMED,  /* the block ends here, since what follows is no record */
    BATCH_DAMAGED,    /* the block cannot be read: `damage`; the batch is empty */
    BATCH_LOG_ENDS,   /* no more blocks; the batch is empty */
    BATCH_FAILED      /* `error`, with its errno; the batch is empty */
};

struct batch {
    uint32_t record_count; /* without the rare one */
    uint32_t alloc_count, touch_count, time_count, still_count;
    uint32_t weighted_count, free_sized_count, size_count; /* of the allocs and touches */
    enum batch_end end;
    enum mpp_damage_kind damage;
    int error, error_number;
    size_t block;
    uint64_t block_serial; /* the serial reached by the blocks before this one */
    uint64_t first_serial, next_serial;
    struct mpp_record rare; /* its text lies in the block's payload, which stands as long as the batch */
    struct batch_alloc allocs[BATCH_RECORDS];
    struct batch_touch touches[BATCH_RECORDS];
    struct batch_time times[BATCH_RECORDS + 1];
    uint16_t alloc_at[BATCH_RECORDS], touch_at[BATCH_RECORDS]; /* which record of the batch they are */
    uint16_t still_at[BATCH_RECORDS];                          /* the others, TIME, which change nothing */
};

/* Empties a batch. Fills the records of one, and BATCH_GOES_ON, _RARE, _BLOCK_ENDS or _MALFORMED, from `d`. *reached_ns: the history's time, which
 * goes on. `starts`: the block begins here, whose first time counts from its first record on. */
void batch_clear(struct batch *b);
void batch_fill(struct batch *b, struct mpp_decoder *d, uint64_t *reached_ns, int starts);

#endif
