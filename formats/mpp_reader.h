/* Reading a log from an abstract source: what the header says, the list of its blocks (salvaged where it is damaged), each block's payload, and the
 * journal. It trusts no length. Replay is not its business. */
#ifndef MPP_READER_H
#define MPP_READER_H

#include "mpp_error.h"
#include "mpp_format.h"
#include "mpp_record_decode.h"

/* Where bytes come from. */
struct mpp_source {
    /* Reads up to `bytes` at `offset`; returns how many (short only at the end), or MPP_ERR_IO with errno set. */
    int64_t (*read_at)(void *context, void *data, size_t bytes, uint64_t offset);
    /* The present length in bytes, or MPP_ERR_IO. */
    int64_t (*size)(void *context);
    void (*close)(void *context); /* may be NULL */
    void *context;
};

/* A file, read with pread (a log that shrinks under us gives short reads, never SIGBUS). MPP_ERR_IO with errno: EISDIR for a directory. */
int mpp_source_file(struct mpp_source *out, const char *path);
/* `bytes` bytes that the caller keeps until close. */
void mpp_source_memory(struct mpp_source *out, const void *data, size_t bytes);

/* One block of the log, in order: sealed ones as they stand in the file, then journal halves (kind EVENTS). */
struct mpp_block_ref {
    struct mpp_block_header header; /* of a half: counts are 0, stored_bytes = raw_bytes = committed bytes */
    uint64_t offset;                /* of the block's header, or of the half, in the file */
    int in_journal;
};

/* Something wrong that reading goes on after. */
enum mpp_damage_kind {
    MPP_DAMAGE_HEADER,  /* the log's header: META was used, or nothing */
    MPP_DAMAGE_BLOCK,   /* bytes from offset to end_offset are no sound block (found at open: header, length, order) */
    MPP_DAMAGE_PAYLOAD, /* the block at offset: its header is sound, its payload is not (checksum, decompression) */
    MPP_DAMAGE_RECORD,  /* the block at offset: a malformed record; the records before it count */
    MPP_DAMAGE_JOURNAL, /* a journal half */
    MPP_DAMAGE_FOOTER   /* a footer stands but does not fit */
};

struct mpp_damage {
    enum mpp_damage_kind kind;
    uint64_t offset, end_offset;
    uint64_t sequence;                    /* of the block, where known, else 0 */
    uint64_t alloc_count, free_count;     /* of the block, where known, else 0 */
    uint64_t first_time_ns, last_time_ns; /* the span that it covered or may have covered */
    int counts_known;
};

struct mpp_reader; /* opaque */

/* Reads header, block headers and journal; takes over `source` (closes it in mpp_reader_free, and on failure). Errors: MPP_ERR_EMPTY,
 * MPP_ERR_NOT_A_LOG, MPP_ERR_VERSION, MPP_ERR_TRUNCATED (not even a header), MPP_ERR_DAMAGED (the header is damaged and no block was found),
 * MPP_ERR_IO, MPP_ERR_NO_MEMORY. */
int mpp_reader_open(struct mpp_reader **out, const struct mpp_source *source);
void mpp_reader_free(struct mpp_reader *r); /* NULL is fine */

/* Owned by the reader. */
const struct mpp_log_info *mpp_reader_info(const struct mpp_reader *r);
size_t mpp_reader_block_count(const struct mpp_reader *r);
const struct mpp_block_ref *mpp_reader_block(const struct mpp_reader *r, size_t i);
/* Length of the log when it was opened. */
uint64_t mpp_reader_log_bytes(const struct mpp_reader *r);
/* 1 when the log ended cleanly (footer). */
int mpp_reader_has_footer(const struct mpp_reader *r);
/* FORMAT.md §7: the greatest of all blocks' last times and the footer's (halves are decoded for it). */
uint64_t mpp_reader_end_time_ns(const struct mpp_reader *r);

/* The end time that the footer states; 0 without one. */
uint64_t mpp_reader_footer_time_ns(const struct mpp_reader *r);

/* A buffer that payloads are read into; reused from call to call. Zero-initialise; one per thread. */
struct mpp_payload {
    unsigned char *data; /* the raw payload after a successful read */
    size_t bytes;
    unsigned char *stored;
    size_t data_capacity, stored_capacity;
    void *decompressor;
};
void mpp_payload_release(struct mpp_payload *p);

/* Reads block `i`, checks and decompresses it. Thread-safe for different payloads. MPP_ERR_DAMAGED when the payload is not what its header says: the
 * caller tells the reader by mpp_reader_add_damage and goes on. */
int mpp_reader_payload(const struct mpp_reader *r, size_t i, struct mpp_payload *p);

/* The damage found at open, and what callers added. */
size_t mpp_reader_damage_count(const struct mpp_reader *r);
const struct mpp_damage *mpp_reader_damage(const struct mpp_reader *r, size_t i);
int mpp_reader_add_damage(struct mpp_reader *r, const struct mpp_damage *damage);

/* Parsing of single parts, for tests and for those that know better. All check their bytes. */
int mpp_block_header_decode(struct mpp_block_header *out, const unsigned char *bytes, size_t available);
int mpp_log_header_decode(struct mpp_log_info *out, const unsigned char *bytes, size_t available);
void mpp_log_info_release(struct mpp_log_info *info); /* frees the strings that a decode filled */

#endif
