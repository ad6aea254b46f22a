/* The producer's side of the journal: records go straight into the mapped half, each committed by one store. FORMAT.md §3.
 * One producer (the thread that holds the VM's lock), one consumer (the writer thread, log_file.c). It knows no Ruby. */
#ifndef MPP_RECORDER_JOURNAL_H
#define MPP_RECORDER_JOURNAL_H

#include "clock.h"
#include "crc32c.h"
#include "mpp_format.h"
#include "mpp_record_encode.h"

#include <stdatomic.h>
#include <stdint.h>

#define MPP_JOURNAL_MAX_HALVES 16

enum mpp_half_state { MPP_HALF_EMPTY, MPP_HALF_FILLING, MPP_HALF_FULL };

struct mpp_half {
    _Atomic int state;              /* EMPTY → FILLING (producer) → FULL (producer) → EMPTY (writer, once its block is in the file) */
    unsigned char *memory;          /* header, then payload */
    struct mpp_block_header header; /* of the block that it becomes; complete once FULL */
    size_t payload_bytes;           /* once FULL */
};

struct mpp_journal {
    /* The half that is being filled; at == limit when there is none. */
    unsigned char *at, *limit;
    unsigned char *payload;
    _Atomic uint64_t *commit;
    uint32_t crc;
    int current; /* index, or -1 */
    /* State of the encoding, as the reader will have it. */
    uint64_t free_base, size_base, time_ns;
    uint64_t next_serial; /* of the next ALLOC */
    struct mpp_clock clock;

    unsigned char *memory;
    size_t half_bytes;
    uint32_t half_count;
    struct mpp_half halves[MPP_JOURNAL_MAX_HALVES];
    uint64_t next_sequence;
    uint64_t record_count, alloc_count, free_count; /* of the current half */

    /* Back-pressure: a hook may wait 1 ms at a time and 1 % of all time (stall_ns). */
    uint64_t stall_count, stall_ns;
    _Atomic int dead;                   /* the writer failed: there will be no room any more */
    void (*half_filled)(void *context); /* called by the producer when a half became FULL */
    void *context;
};

/* Takes over `memory` (half_count * half_bytes, zeroed), which stays the caller's. */
void mpp_journal_init(struct mpp_journal *j, unsigned char *memory, size_t half_bytes, uint32_t half_count, uint64_t first_serial);
/* All halves empty again, the serials go on: for a forked child. */
void mpp_journal_restart(struct mpp_journal *j);
/* There is no room any more, and the memory is not touched again: for a forked child that has none. */
void mpp_journal_close(struct mpp_journal *j);

/* How mpp_journal_room may wait. */
enum mpp_patience {
    MPP_NO_WAIT,   /* not at all */
    MPP_HOOK_WAIT, /* within the hooks' allowance */
    MPP_CALL_WAIT, /* up to 100 ms: for calls that a request may make */
    MPP_LONG_WAIT  /* up to 10 s: for calls of the API, never in a hook */
};

/* The slow way of mpp_journal_room: seals the current half if it is full, and takes the next. */
unsigned char *mpp_journal_room_slowly(struct mpp_journal *j, size_t bytes, enum mpp_patience patience);

/* Room for `bytes` bytes at the end of the current half (MPP_RECORD_MAX_BYTES are kept free beyond), or NULL. Follow with mpp_journal_commit. */
static inline unsigned char *mpp_journal_room(struct mpp_journal *j, size_t bytes, enum mpp_patience patience)
{
    if (__builtin_expect(j->limit - j->at >= (ptrdiff_t)bytes, 1)) return j->at; /* a TIME may stand beyond the limit */
    return mpp_journal_room_slowly(j, bytes, patience);
}

/* Makes the bytes up to `end` part of the log: whatever happens to the process after this, they are there. */
static inline void mpp_journal_commit(struct mpp_journal *j, unsigned char *end)
{
    j->crc = mpp_crc32c_step(j->crc, j->at, (size_t)(end - j->at));
    j->at = end;
    j->record_count++;
    atomic_store_explicit(j->commit, (uint64_t)mpp_crc32c_value(j->crc) << 32 | (uint64_t)(end - j->payload), memory_order_release);
}

/* Writes a TIME record when the time has moved by a quantum. Call it before a record that needs a time; there must be room behind (mpp_journal_room
 * keeps MPP_RECORD_MAX_BYTES free). */
void mpp_journal_stamp(struct mpp_journal *j);

/* Hands the current half to the writer although it is not full. Does nothing when it is empty. */
void mpp_journal_seal(struct mpp_journal *j);

/* How many bytes of text a record may hold: what fits a half, and less than the format's limit. */
size_t mpp_journal_max_text_bytes(const struct mpp_journal *j);

#endif
