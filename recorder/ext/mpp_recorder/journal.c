#include "journal.h"

#include "mpp_writer.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define STALL_MAX_NS     1000000u /* one wait of a hook */
#define STALL_SHARE      100u     /* hooks wait at most 1/100 of all time */
#define CALL_WAIT_MAX_NS UINT64_C(100000000)
#define LONG_WAIT_MAX_NS UINT64_C(10000000000)
#define WAIT_STEP_NS     20000

void mpp_journal_init(struct mpp_journal *j, unsigned char *memory, size_t half_bytes, uint32_t half_count, uint64_t first_serial)
{
    memset(j, 0, sizeof *j);
    j->memory = memory;
    j->half_bytes = half_bytes;
    j->half_count = half_count;
    j->next_serial = first_serial;
    j->next_sequence = 1;
    for (uint32_t i = 0; i < half_count; i++) j->halves[i].memory = memory + i * half_bytes;
    j->current = -1;
    mpp_crc32c_init();
    mpp_clock_start(&j->clock);
}

void mpp_journal_restart(struct mpp_journal *j)
{
    for (uint32_t i = 0; i < j->half_count; i++) atomic_store(&j->halves[i].state, MPP_HALF_EMPTY);
    j->next_sequence = 1;
    j->at = j->limit = NULL;
    j->current = -1;
    j->stall_count = j->stall_ns = 0;
    mpp_clock_start(&j->clock);
}

void mpp_journal_close(struct mpp_journal *j)
{
    for (uint32_t i = 0; i < j->half_count; i++) atomic_store(&j->halves[i].state, MPP_HALF_FULL);
    j->at = j->limit = NULL;
    j->current = -1;
    atomic_store(&j->dead, 1);
}

static int begin(struct mpp_journal *j, uint32_t index)
{
    struct mpp_half *half = &j->halves[index];
    unsigned char header[MPP_HALF_HEADER_BYTES];

    if (atomic_load_explicit(&half->state, memory_order_acquire) != MPP_HALF_EMPTY) return 0;
    mpp_clock_look(&j->clock);
    j->time_ns = j->clock.now_ns;
    j->free_base = j->size_base = j->next_serial;
    j->commit = (_Atomic uint64_t *)(void *)(half->memory + MPP_HALF_COMMIT_OFFSET);
    /* The old content stops counting before the header changes. */
    atomic_store_explicit(j->commit, 0, memory_order_release);
    mpp_half_header_encode(header, j->next_sequence, j->next_serial, j->time_ns);
    memcpy(half->memory, header, MPP_HALF_COMMIT_OFFSET);
    half->header = (struct mpp_block_header){
        .kind = MPP_BLOCK_EVENTS, .sequence = j->next_sequence++, .first_serial = j->next_serial, .first_time_ns = j->time_ns};
    j->payload = j->at = half->memory + MPP_HALF_HEADER_BYTES;
    j->limit = half->memory + j->half_bytes - MPP_RECORD_MAX_BYTES;
    j->crc = MPP_CRC32C_START;
    j->record_count = j->alloc_count = j->free_count = 0;
    j->current = (int)index;
    atomic_store_explicit(&half->state, MPP_HALF_FILLING, memory_order_release); /* a writer that copies reads the header */
    return 1;
}

void mpp_journal_seal(struct mpp_journal *j)
{
    struct mpp_half *half;

    if (j->current < 0 || j->at == j->payload) return;
    half = &j->halves[j->current];
    half->payload_bytes = (size_t)(j->at - j->payload);
    half->header.last_time_ns = j->time_ns;
    half->header.record_count = (uint32_t)j->record_count;
    half->header.alloc_count = (uint32_t)j->alloc_count;
    half->header.free_count = (uint32_t)j->free_count;
    atomic_store_explicit(&half->state, MPP_HALF_FULL, memory_order_release);
    j->current = -1;
    j->at = j->limit = NULL;
    if (j->half_filled) {
        int error = errno; /* the program's: it is in the midst of something */
        j->half_filled(j->context);
        errno = error;
    }
}

static int take_next(struct mpp_journal *j)
{
    /* Halves are used in turn: the next one is that of the next sequence. */
    return begin(j, (uint32_t)((j->next_sequence - 1) % j->half_count));
}

unsigned char *mpp_journal_room_slowly(struct mpp_journal *j, size_t bytes, enum mpp_patience patience)
{
    uint64_t began_ns, waited_ns = 0, allowed_ns;
    const struct timespec step = {0, WAIT_STEP_NS};
    int error = errno; /* the program's */

    if (bytes > j->half_bytes - MPP_HALF_HEADER_BYTES - MPP_RECORD_MAX_BYTES) return NULL;
    mpp_journal_seal(j);
    if (j->current >= 0 || take_next(j)) return j->at;

    if (patience == MPP_NO_WAIT || atomic_load(&j->dead)) return NULL;
    began_ns = mpp_clock_ns(CLOCK_MONOTONIC);
    if (patience == MPP_HOOK_WAIT) {
        uint64_t share_ns = (began_ns - j->clock.start_ns) / STALL_SHARE;
        allowed_ns = share_ns > j->stall_ns ? share_ns - j->stall_ns : 0;
        if (allowed_ns > STALL_MAX_NS) allowed_ns = STALL_MAX_NS;
        if (!allowed_ns) return NULL;
    } else {
        allowed_ns = patience == MPP_CALL_WAIT ? CALL_WAIT_MAX_NS : LONG_WAIT_MAX_NS;
    }
    j->stall_count++;
    while (waited_ns < allowed_ns) {
        nanosleep(&step, NULL);
        waited_ns = mpp_clock_ns(CLOCK_MONOTONIC) - began_ns;
        if (take_next(j) || atomic_load(&j->dead)) break;
    }
    if (patience == MPP_HOOK_WAIT) j->stall_ns += waited_ns;
    errno = error;
    return j->current >= 0 ? j->at : NULL;
}

void mpp_journal_stamp(struct mpp_journal *j)
{
    mpp_clock_look(&j->clock);
    if (j->current < 0 || j->clock.now_ns - j->time_ns < MPP_CLOCK_QUANTUM_NS / 2) return;
    if (j->at > j->limit) return; /* the next record begins a new half, with the time in its header */
    unsigned char *end = mpp_encode_time(j->at, j->clock.now_ns - j->time_ns);
    j->time_ns = j->clock.now_ns;
    mpp_journal_commit(j, end);
}

size_t mpp_journal_max_text_bytes(const struct mpp_journal *j)
{
    size_t fits = j->half_bytes / 2;

    return fits < 65536 ? fits : 65536;
}
