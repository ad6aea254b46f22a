/* What the files of the reader share: reader.c opens a log and reads payloads, walk.c finds the blocks, journal.c takes the halves. Internal. */
#ifndef MPP_READER_PARTS_H
#define MPP_READER_PARTS_H

#include "mpp_reader.h"

/* The committed bytes of a half, copied at open: a live log may have written over them since. */
struct mpp_half_copy {
    unsigned char *data;
    size_t bytes;
};

/* Bytes behind the last sound block that are none. What they mean is decided when the journal is known. */
struct mpp_tail {
    int present, header_known;
    uint64_t offset;
    struct mpp_block_header header; /* of a block that reaches past the end */
};

/* What reading the journal changes, kept so that it can be read again. */
struct mpp_walk_state {
    size_t damage_count;
    uint64_t reached_serial, reached_time_ns, end_time_ns;
};

struct mpp_reader {
    struct mpp_source source;
    struct mpp_log_info info;
    int salvaged; /* the log's header is damaged */
    uint64_t log_bytes;
    uint64_t blocks_end; /* where blocks end: before the footer, if there is one */
    int has_footer;
    uint64_t footer_time_ns;
    uint64_t end_time_ns;

    struct mpp_block_ref *blocks;
    size_t block_count, block_capacity;
    struct mpp_half_copy halves[MPP_HALF_MAX_COUNT]; /* the last half_count blocks */
    size_t half_count;

    struct mpp_damage *damages;
    size_t damage_count, damage_capacity;

    /* The walk so far. */
    uint64_t walked_to;       /* behind the last sound block */
    uint64_t last_sequence;   /* of the last EVENTS block in the list */
    uint64_t sealed_sequence; /* the greatest of any EVENTS block with a sound header: halves up to it are stale */
    uint64_t reached_serial, reached_time_ns;
    size_t open_damages; /* damages from here on wait for the next EVENTS block, which bounds what they cost */
    struct mpp_tail tail;
    struct mpp_walk_state before_journal;
};

/* Walks from r->walked_to to r->blocks_end. */
int mpp_walk_blocks(struct mpp_reader *r);
/* Tells the open damages what came behind them: the next EVENTS block or half, or the log's end (sequence 0). */
void mpp_walk_bound_damages(struct mpp_reader *r, uint64_t sequence, uint64_t first_serial, uint64_t first_time_ns);

/* Takes over the times of a block's header, unless they cannot be. */
void mpp_damage_set_span(struct mpp_damage *damage, const struct mpp_block_header *header);

/* Takes the halves that follow r->sealed_sequence, and reports those that do not fit. *unsettled is set when there are such: on a growing log that
 * means that blocks have been sealed since the walk. */
int mpp_journal_read(struct mpp_reader *r, int *unsettled);
/* Forgets what mpp_journal_read took and reported. */
void mpp_journal_forget(struct mpp_reader *r);

int mpp_reader_add_block(struct mpp_reader *r, const struct mpp_block_ref *ref);
/* Reads exactly `bytes`, or says MPP_ERR_TRUNCATED. */
int mpp_reader_read(const struct mpp_reader *r, void *data, size_t bytes, uint64_t offset);

#endif
