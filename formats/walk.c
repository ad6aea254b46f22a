/* Finding a log's blocks: by their headers one after another, and by search where no sound header stands (FORMAT.md §2). */
#include "reader_parts.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>

/* What a search reads at once: little at first, since the next block is mostly near, and a log may be damaged in very many places. Both are beyond
 * the longest header. */
#define SEARCH_FIRST_BYTES (1u << 13)
#define SEARCH_BYTES       (1u << 20)

/* Reads and checks the block header at `offset`. MPP_ERR_DAMAGED, _TRUNCATED or _TOO_LARGE: none stands there. */
static int read_header(const struct mpp_reader *r, uint64_t offset, struct mpp_block_header *out)
{
    unsigned char bytes[MPP_BLOCK_HEADER_MAX_BYTES];
    size_t available = r->blocks_end - offset < MPP_BLOCK_HEADER_BYTES ? (size_t)(r->blocks_end - offset) : MPP_BLOCK_HEADER_BYTES;

    int error = mpp_reader_read(r, bytes, available, offset);
    if (!error) error = mpp_block_header_decode(out, bytes, available);
    if (error != MPP_ERR_TRUNCATED || available < MPP_BLOCK_HEADER_BYTES) return error;
    /* A later version's, longer header. */
    available = r->blocks_end - offset < sizeof(bytes) ? (size_t)(r->blocks_end - offset) : sizeof(bytes);
    error = mpp_reader_read(r, bytes, available, offset);
    return error ? error : mpp_block_header_decode(out, bytes, available);
}

static int is_fatal(int error)
{
    return error == MPP_ERR_IO || error == MPP_ERR_NO_MEMORY;
}

/* Searches [from, r->blocks_end) for a block header. Returns 1 with *found, 0 when there is none. */
static int search_header(const struct mpp_reader *r, uint64_t from, uint64_t *found)
{
    size_t chunk_bytes = SEARCH_FIRST_BYTES;
    unsigned char *chunk = malloc(chunk_bytes);
    int result = 0;

    if (!chunk) return MPP_ERR_NO_MEMORY;
    while (r->blocks_end - from >= MPP_BLOCK_HEADER_BYTES) {
        size_t wanted = r->blocks_end - from < chunk_bytes ? (size_t)(r->blocks_end - from) : chunk_bytes;
        int64_t got = r->source.read_at(r->source.context, chunk, wanted, from);
        if (got < 0) {
            result = (int)got;
            break;
        }
        int is_last = (size_t)got < wanted || from + wanted == r->blocks_end;
        const unsigned char *at = chunk, *end = chunk + got;
        const unsigned char *hit;
        while ((hit = memmem(at, (size_t)(end - at), MPP_BLOCK_MAGIC, sizeof(MPP_BLOCK_MAGIC))) != NULL) {
            struct mpp_block_header header;
            if (!is_last && (size_t)(end - hit) < MPP_BLOCK_HEADER_MAX_BYTES) break; /* the next chunk begins with it */
            if (mpp_block_header_decode(&header, hit, (size_t)(end - hit)) == MPP_OK) {
                *found = from + (uint64_t)(hit - chunk);
                result = 1;
                goto done;
            }
            at = hit + 1;
        }
        if (is_last) break;
        from += hit ? (uint64_t)(hit - chunk) : (uint64_t)got - (sizeof(MPP_BLOCK_MAGIC) - 1);
        if (chunk_bytes == SEARCH_BYTES) continue;
        free(chunk);
        chunk = malloc(chunk_bytes = SEARCH_BYTES);
        if (!chunk) return MPP_ERR_NO_MEMORY;
    }
done:
    free(chunk);
    return result;
}

void mpp_walk_bound_damages(struct mpp_reader *r, uint64_t sequence, uint64_t first_serial, uint64_t first_time_ns)
{
    int is_missing = sequence > r->last_sequence + 1;

    for (size_t i = r->open_damages; i < r->damage_count; i++) {
        struct mpp_damage *d = &r->damages[i];
        if (d->kind != MPP_DAMAGE_BLOCK || d->counts_known) continue;
        d->last_time_ns = first_time_ns < d->first_time_ns ? d->first_time_ns : first_time_ns;
        if (is_missing) {
            /* The numbers on both sides tell how many allocations the missing blocks held; nothing tells their frees. The first of several gaps
             * stands for all. */
            is_missing = 0;
            d->sequence = r->last_sequence + 1;
            if (first_serial > r->reached_serial && r->reached_serial) d->alloc_count = first_serial - r->reached_serial;
        }
    }
    r->open_damages = r->damage_count;
}

void mpp_damage_set_span(struct mpp_damage *damage, const struct mpp_block_header *header)
{
    if (header->first_time_ns > header->last_time_ns || header->last_time_ns > MPP_MAX_TIME_NS) return;
    damage->first_time_ns = header->first_time_ns;
    damage->last_time_ns = header->last_time_ns;
}

/* Reports [offset, end) as no block; `header` where one is known. */
static int report(struct mpp_reader *r, uint64_t offset, uint64_t end, const struct mpp_block_header *header)
{
    struct mpp_damage damage = {.kind = MPP_DAMAGE_BLOCK, .offset = offset, .end_offset = end, .first_time_ns = r->reached_time_ns};

    damage.last_time_ns = damage.first_time_ns;
    if (header) {
        damage.sequence = header->sequence;
        damage.alloc_count = header->alloc_count;
        damage.free_count = header->free_count;
        damage.counts_known = 1;
        mpp_damage_set_span(&damage, header);
    }
    return mpp_reader_add_damage(r, &damage);
}

/* Whether an EVENTS block may stand where it does. */
static int is_in_order(const struct mpp_reader *r, const struct mpp_block_header *h)
{
    return h->sequence > r->last_sequence && h->first_serial >= r->reached_serial && h->first_serial <= MPP_MAX_SERIAL + 1 &&
           h->first_time_ns <= MPP_MAX_TIME_NS && h->last_time_ns <= MPP_MAX_TIME_NS;
}

/* Takes the block into the list, or reports it. */
static int take_block(struct mpp_reader *r, uint64_t offset, const struct mpp_block_header *h)
{
    struct mpp_block_ref ref = {.header = *h, .offset = offset};
    uint64_t end = offset + h->header_bytes + h->stored_bytes;
    int error = MPP_OK;

    if (h->kind == MPP_BLOCK_EVENTS) {
        if (h->sequence > r->sealed_sequence) r->sealed_sequence = h->sequence;
        if (!is_in_order(r, h)) return report(r, offset, end, h);
        if (h->sequence > r->last_sequence + 1 && r->open_damages == r->damage_count) error = report(r, offset, offset, NULL);
        if (error) return error;
        mpp_walk_bound_damages(r, h->sequence, h->first_serial, h->first_time_ns);
        r->last_sequence = h->sequence;
        r->reached_serial = h->first_serial + h->alloc_count;
        if (h->last_time_ns > r->reached_time_ns) r->reached_time_ns = h->last_time_ns;
    }
    if ((h->kind == MPP_BLOCK_EVENTS || h->kind == MPP_BLOCK_PROC) && h->last_time_ns <= MPP_MAX_TIME_NS && h->last_time_ns > r->end_time_ns)
        r->end_time_ns = h->last_time_ns;
    return mpp_reader_add_block(r, &ref);
}

/* Goes on behind [r->walked_to, from), where no sound block stands: to the next one, or to the log's end, whose meaning is not known yet. */
static int go_around(struct mpp_reader *r, uint64_t from, const struct mpp_block_header *header)
{
    uint64_t next = 0;
    int found = search_header(r, from, &next), error = MPP_OK;

    if (found < 0) return found;
    if (!found) {
        r->tail = (struct mpp_tail){.present = 1, .offset = r->walked_to, .header_known = header != NULL};
        if (header) r->tail.header = *header;
        return MPP_OK;
    }
    /* Behind a damaged header of the log all up to the first block may be journal. */
    if (!(r->salvaged && r->block_count == 0)) error = report(r, r->walked_to, next, header);
    r->walked_to = next;
    return error;
}

int mpp_walk_blocks(struct mpp_reader *r)
{
    r->tail.present = 0; /* what was one may have become a block */
    while (r->walked_to < r->blocks_end && !r->tail.present) {
        struct mpp_block_header h;
        int error = read_header(r, r->walked_to, &h);
        if (is_fatal(error)) return error;
        uint64_t rest = r->blocks_end - r->walked_to;
        if (error) {
            error = go_around(r, r->walked_to + 1, NULL);
        } else if ((uint64_t)h.header_bytes + h.stored_bytes > rest) {
            error = go_around(r, r->walked_to + h.header_bytes, &h);
        } else {
            error = take_block(r, r->walked_to, &h);
            r->walked_to += (uint64_t)h.header_bytes + h.stored_bytes;
        }
        if (error) return error;
    }
    return MPP_OK;
}
