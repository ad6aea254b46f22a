/* The halves of the journal: FORMAT.md §3. A live log is read while its process writes into them; so a half is copied, and its header is read again.
 */
#include "crc32c.h"
#include "reader_parts.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS          16
#define CHECKSUM_ATTEMPTS 3

enum outcome { TAKEN = 1, CHANGED = 2, BROKEN = 3 };

static uint64_t half_offset(const struct mpp_reader *r, size_t i)
{
    return r->info.journal_offset + (uint64_t)i * r->info.journal_half_bytes;
}

static int read_half_header(const struct mpp_reader *r, size_t i, struct mpp_half_header *out)
{
    unsigned char bytes[MPP_HALF_HEADER_BYTES];
    int error = mpp_reader_read(r, bytes, sizeof(bytes), half_offset(r, i));

    if (error == MPP_ERR_TRUNCATED) memset(bytes, 0, sizeof(bytes)); /* cut off: the walk says so */
    if (error && error != MPP_ERR_TRUNCATED) return error;
    mpp_half_header_decode(out, bytes);
    return MPP_OK;
}

static int is_same_half(const struct mpp_half_header *a, const struct mpp_half_header *b)
{
    return b->sound && b->commit_word != 0 && a->sequence == b->sequence;
}

/* Copies the committed bytes of half `i` and checks them. An enum outcome, or an error. */
static int copy_half(const struct mpp_reader *r, size_t i, const struct mpp_half_header *h, struct mpp_half_copy *copy)
{
    size_t bytes = (uint32_t)h->commit_word;
    uint32_t crc = (uint32_t)(h->commit_word >> 32);
    uint64_t offset = half_offset(r, i) + MPP_HALF_HEADER_BYTES;
    int result = BROKEN;

    if (bytes == 0 || bytes > r->info.journal_half_bytes - MPP_HALF_HEADER_BYTES) return BROKEN;
    if (offset > r->log_bytes || bytes > r->log_bytes - offset) return BROKEN;
    unsigned char *data = malloc(bytes);
    if (!data) return MPP_ERR_NO_MEMORY;
    /* More than once: where halves are copied into the file, the header may be there a moment before the bytes. */
    for (int attempt = 0; attempt < CHECKSUM_ATTEMPTS && result == BROKEN; attempt++) {
        struct mpp_half_header again;
        int error = mpp_reader_read(r, data, bytes, offset);
        if (error == MPP_ERR_TRUNCATED) break;
        if (!error) error = read_half_header(r, i, &again);
        if (error) {
            result = error;
            break;
        }
        if (!is_same_half(h, &again))
            result = CHANGED;
        else if (mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, data, bytes)) == crc)
            result = TAKEN;
    }
    if (result != TAKEN) {
        free(data);
        return result;
    }
    copy->data = data;
    copy->bytes = bytes;
    return TAKEN;
}

static int report(struct mpp_reader *r, size_t i, const struct mpp_half_header *h)
{
    struct mpp_damage damage = {.kind = MPP_DAMAGE_JOURNAL,
                                .offset = half_offset(r, i),
                                .end_offset = half_offset(r, i) + r->info.journal_half_bytes,
                                .sequence = h->sound ? h->sequence : 0,
                                .first_time_ns = h->sound ? h->first_time_ns : r->reached_time_ns};

    damage.last_time_ns = damage.first_time_ns > r->end_time_ns ? damage.first_time_ns : r->end_time_ns;
    return mpp_reader_add_damage(r, &damage);
}

/* Puts a copied half at the end of the history; it then belongs to the reader. */
static int add_half(struct mpp_reader *r, size_t i, const struct mpp_half_header *h, struct mpp_half_copy *copy)
{
    struct mpp_block_ref ref = {.offset = half_offset(r, i), .in_journal = 1};
    struct mpp_decoder d;
    struct mpp_record record;
    int any = 0;

    mpp_decoder_init(&d, copy->data, copy->bytes, h->first_serial, h->first_time_ns);
    while (mpp_decoder_next(&d, &record) > 0) any = 1;
    ref.header.kind = MPP_BLOCK_EVENTS;
    ref.header.header_bytes = MPP_HALF_HEADER_BYTES;
    ref.header.sequence = h->sequence;
    ref.header.stored_bytes = ref.header.raw_bytes = (uint32_t)copy->bytes;
    ref.header.first_serial = h->first_serial;
    ref.header.first_time_ns = h->first_time_ns;
    ref.header.last_time_ns = d.time_ns;
    int error = mpp_reader_add_block(r, &ref);
    if (error) {
        free(copy->data);
        return error;
    }
    r->halves[r->half_count++] = *copy;
    r->reached_serial = d.next_serial;
    if (any && d.time_ns > r->reached_time_ns) r->reached_time_ns = d.time_ns;
    if (any && d.time_ns > r->end_time_ns) r->end_time_ns = d.time_ns;
    return MPP_OK;
}

struct halves {
    struct mpp_half_header header[MPP_HALF_MAX_COUNT];
    unsigned char taken[MPP_HALF_MAX_COUNT];
    int passed_empty; /* one was taken behind one that was empty */
};

/* Index of the half that follows as `sequence`, or the count of halves. */
static size_t find_sequence(const struct mpp_reader *r, const struct halves *halves, uint64_t sequence)
{
    size_t i = 0;

    while (i < r->info.journal_half_count) {
        const struct mpp_half_header *h = &halves->header[i];
        if (h->sound && h->sequence == sequence) break;
        i++;
    }
    return i;
}

/* Takes half `i`. An enum outcome, or an error. */
static int take_half(struct mpp_reader *r, size_t i, struct halves *halves)
{
    const struct mpp_half_header *h = &halves->header[i];
    struct mpp_half_copy copy = {0};
    int outcome = BROKEN;

    if (h->first_serial >= r->reached_serial && h->first_serial <= MPP_MAX_SERIAL + 1) outcome = copy_half(r, i, h, &copy);
    if (outcome != TAKEN) return outcome;
    int error = add_half(r, i, h, &copy);
    if (error) return error;
    halves->taken[i] = 1;
    return TAKEN;
}

/* Takes the halves in order. An enum outcome, or an error. A half that is broken, or empty so far, is no hole before the next one. */
static int take_chain(struct mpp_reader *r, struct halves *halves)
{
    size_t count = r->info.journal_half_count, last = count;
    int error = MPP_OK, empty = 0;

    memset(halves, 0, sizeof(*halves));
    for (size_t i = 0; i < count; i++) {
        error = read_half_header(r, i, &halves->header[i]);
        if (error) return error;
    }
    for (uint64_t sequence = r->sealed_sequence + 1;; sequence++) {
        size_t i = find_sequence(r, halves, sequence);
        if (i == count) break;
        last = i;
        if (halves->header[i].commit_word == 0) {
            empty = 1;
            continue;
        }
        halves->passed_empty |= empty;
        int outcome = take_half(r, i, halves);
        if (outcome < 0 || outcome == CHANGED) return outcome;
    }
    /* All but the last one must be whole: if one of them has grown since, its end is missing before the next one's start. */
    for (size_t i = 0; i < count; i++) {
        struct mpp_half_header again;
        error = read_half_header(r, i, &again);
        if (error) return error;
        if (i == last && halves->taken[i]) continue;
        if (again.sound != halves->header[i].sound || again.commit_word != halves->header[i].commit_word ||
            again.sequence != halves->header[i].sequence)
            return CHANGED;
    }
    return TAKEN;
}

void mpp_journal_forget(struct mpp_reader *r)
{
    const struct mpp_walk_state *before = &r->before_journal;

    for (size_t i = 0; i < r->half_count; i++) free(r->halves[i].data);
    r->block_count -= r->half_count;
    r->half_count = 0;
    r->damage_count = before->damage_count;
    r->reached_serial = before->reached_serial;
    r->reached_time_ns = before->reached_time_ns;
    r->end_time_ns = before->end_time_ns;
}

int mpp_journal_read(struct mpp_reader *r, int *unsettled)
{
    struct halves halves;
    int outcome = CHANGED;

    *unsettled = 0;
    if (r->info.journal_half_count == 0) return MPP_OK;
    if (!mpp_crc32c_in_hardware) mpp_crc32c_init();
    r->before_journal = (struct mpp_walk_state){r->damage_count, r->reached_serial, r->reached_time_ns, r->end_time_ns};
    for (int attempt = 0; attempt < ATTEMPTS && outcome == CHANGED; attempt++) {
        mpp_journal_forget(r);
        outcome = take_chain(r, &halves);
        if (outcome < 0) return outcome;
    }
    if (outcome == CHANGED) {
        /* Too busy a writer. The half that follows the blocks is a sound end all the same; of the others that is not known. */
        *unsettled = 1;
        while (r->half_count > 0 && r->blocks[r->block_count - 1].header.sequence != r->sealed_sequence + 1) {
            free(r->halves[--r->half_count].data);
            r->block_count--;
        }
        return MPP_OK;
    }
    /* It may have been filled, sealed and begun anew since it was found empty. */
    *unsettled = halves.passed_empty;
    for (size_t i = 0; i < r->info.journal_half_count; i++) {
        const struct mpp_half_header *h = &halves.header[i];
        if (halves.taken[i] || h->commit_word == 0 || (h->sound && h->sequence <= r->sealed_sequence)) continue;
        *unsettled = 1;
        int error = report(r, i, h);
        if (error) return error;
    }
    return MPP_OK;
}
