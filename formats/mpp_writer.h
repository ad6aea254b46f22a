/* Writing a log: header, blocks, clean end, over an abstract sink. The journal's content is not its business (the recorder writes it in place);
 * its room is. */
#ifndef MPP_WRITER_H
#define MPP_WRITER_H

#include "mpp_error.h"
#include "mpp_format.h"

/* Where bytes go: a file or memory. */
struct mpp_sink {
    /* Writes all of `data` at `offset`; returns 0, or MPP_ERR_IO with errno set. */
    int (*write_at)(void *context, const void *data, size_t bytes, uint64_t offset);
    void *context;
};

struct mpp_writer; /* opaque */

/* Lays the log out (fills info->header_bytes, journal_offset (0 when info->journal_half_count is 0) and first_block_offset) and writes header and
 * META block. `info` is only read from afterwards not at all. The caller owns *out (mpp_writer_free). Allocates all that it needs later, for payloads
 * up to `max_raw_bytes`, now. */
int mpp_writer_new(struct mpp_writer **out, const struct mpp_sink *sink, struct mpp_log_info *info, size_t max_raw_bytes);

/* Compresses `payload` (zstd level 1; stored as it is if that is shorter), completes *header (the caller has set kind, sequence, first_serial,
 * first_time_ns, last_time_ns and the counts) and appends the block by one write_at. On failure nothing counts as appended: the next append goes to
 * the same offset. */
int mpp_writer_append(struct mpp_writer *w, struct mpp_block_header *header, const void *payload, size_t raw_bytes);

/* INDEX block and footer. Nothing may be appended after it. */
int mpp_writer_finish(struct mpp_writer *w, uint64_t end_time_ns);

/* Length of the log so far, and how many blocks stand in it. */
uint64_t mpp_writer_bytes(const struct mpp_writer *w);
uint64_t mpp_writer_blocks(const struct mpp_writer *w);

void mpp_writer_free(struct mpp_writer *w); /* NULL is fine */

/* Walks a payload that the caller itself has encoded and counts into header->record_count, alloc_count, free_count and last_time_ns;
 * header->first_serial and first_time_ns must be set. MPP_ERR_MALFORMED if it is no payload. */
int mpp_block_count(struct mpp_block_header *header, const void *payload, size_t raw_bytes);

/* Encoding of single parts, for those who place them themselves. */
size_t mpp_log_header_bytes(const struct mpp_log_info *info); /* a multiple of 4096 */
int mpp_log_header_encode(const struct mpp_log_info *info, unsigned char *out, size_t bytes);
/* The 64 bytes that open a journal half; the commit word is zero. */
void mpp_half_header_encode(unsigned char out[MPP_HALF_HEADER_BYTES], uint64_t sequence, uint64_t first_serial, uint64_t first_time_ns);

#endif
