/* Writing a log: FORMAT.md §1, §2, §6. Each block goes out by one write_at, so that a killed process leaves whole blocks or one torn tail. */
#include "bytes.h"
#include "mpp_writer.h"
#include "wire.h"
#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#define INDEX_ENTRY_MAX_BYTES (7 * MPP_VARINT_MAX_BYTES)

struct mpp_writer {
    struct mpp_sink sink;
    ZSTD_CCtx *compressor;
    unsigned char *buffer; /* a block's header and its payload as stored */
    size_t buffer_bytes, max_raw_bytes;
    uint64_t offset, block_count;
    unsigned char *index; /* the INDEX payload's entries, as they will be written */
    size_t index_bytes, index_capacity;
    uint64_t index_offset; /* of the block in the last entry */
    int finished;
};

static int compression_error(size_t result)
{
    return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? MPP_ERR_NO_MEMORY : MPP_ERR_COMPRESSION;
}

/* zstd allocates its tables with the first compression of a size; a recorder cannot have that fail later. */
static int warm_up(struct mpp_writer *w)
{
    unsigned char *zeros = calloc(1, w->max_raw_bytes ? w->max_raw_bytes : 1);

    if (!zeros) return MPP_ERR_NO_MEMORY;
    size_t result = ZSTD_compressCCtx(w->compressor, w->buffer, w->buffer_bytes, zeros, w->max_raw_bytes, 1);
    free(zeros);
    return ZSTD_isError(result) ? compression_error(result) : MPP_OK;
}

/* Makes room for one more entry of the index. */
static int reserve_entry(struct mpp_writer *w)
{
    if (w->index_capacity - w->index_bytes >= INDEX_ENTRY_MAX_BYTES) return MPP_OK;
    size_t capacity = w->index_capacity ? w->index_capacity * 2 : 65536;
    unsigned char *index = realloc(w->index, capacity);
    if (!index) return MPP_ERR_NO_MEMORY;
    w->index = index;
    w->index_capacity = capacity;
    return MPP_OK;
}

static void add_entry(struct mpp_writer *w, const struct mpp_block_header *h)
{
    unsigned char *p = w->index + w->index_bytes;

    p = mpp_put_varint(p, w->offset - w->index_offset);
    p = mpp_put_varint(p, h->kind);
    p = mpp_put_varint(p, h->sequence);
    p = mpp_put_varint(p, h->first_serial);
    p = mpp_put_varint(p, h->first_time_ns);
    p = mpp_put_varint(p, h->last_time_ns);
    p = mpp_put_varint(p, h->record_count);
    w->index_bytes = (size_t)(p - w->index);
    w->index_offset = w->offset;
}

/* Builds the block at `out`, which has room for header and ZSTD_compressBound(raw_bytes); *bytes is its length. */
static int build_block(struct mpp_writer *w, unsigned char *out, size_t room, struct mpp_block_header *header, const void *payload, size_t raw_bytes,
                       size_t *bytes)
{
    unsigned char *stored = out + MPP_BLOCK_HEADER_BYTES;
    size_t stored_bytes = raw_bytes;

    header->compression = MPP_COMPRESSION_NONE;
    if (raw_bytes) {
        stored_bytes = ZSTD_compressCCtx(w->compressor, stored, room - MPP_BLOCK_HEADER_BYTES, payload, raw_bytes, 1);
        if (ZSTD_isError(stored_bytes)) return compression_error(stored_bytes);
        if (stored_bytes < raw_bytes) {
            header->compression = MPP_COMPRESSION_ZSTD;
        } else {
            memcpy(stored, payload, raw_bytes);
            stored_bytes = raw_bytes;
        }
    }
    header->header_bytes = MPP_BLOCK_HEADER_BYTES;
    header->stored_bytes = (uint32_t)stored_bytes;
    header->raw_bytes = (uint32_t)raw_bytes;
    header->payload_checksum = XXH3_64bits(stored, stored_bytes);
    mpp_block_header_encode(header, out);
    *bytes = MPP_BLOCK_HEADER_BYTES + stored_bytes;
    return MPP_OK;
}

int mpp_writer_append(struct mpp_writer *w, struct mpp_block_header *header, const void *payload, size_t raw_bytes)
{
    size_t bytes;

    if (w->finished) return MPP_ERR_INVALID;
    if (raw_bytes > w->max_raw_bytes) return MPP_ERR_TOO_LARGE;
    int error = reserve_entry(w);
    if (!error) error = build_block(w, w->buffer, w->buffer_bytes, header, payload, raw_bytes, &bytes);
    if (!error) error = w->sink.write_at(w->sink.context, w->buffer, bytes, w->offset);
    if (error) return error;
    add_entry(w, header);
    w->offset += bytes;
    w->block_count++;
    return MPP_OK;
}

int mpp_writer_finish(struct mpp_writer *w, uint64_t end_time_ns)
{
    struct mpp_block_header header = {.kind = MPP_BLOCK_INDEX};
    struct mpp_footer footer = {.index_offset = w->offset, .end_time_ns = end_time_ns};
    size_t raw_capacity = MPP_VARINT_MAX_BYTES + w->index_bytes, bytes;
    int error;

    if (w->finished) return MPP_ERR_INVALID;
    if (raw_capacity > MPP_BLOCK_MAX_BYTES) return MPP_ERR_TOO_LARGE;
    size_t room = MPP_BLOCK_HEADER_BYTES + ZSTD_compressBound(raw_capacity);
    unsigned char *raw = malloc(raw_capacity);
    unsigned char *out = malloc(room + MPP_FOOTER_BYTES);
    if (!raw || !out) {
        error = MPP_ERR_NO_MEMORY;
        goto done;
    }
    unsigned char *p = mpp_put_varint(raw, w->block_count);
    if (w->index_bytes) memcpy(p, w->index, w->index_bytes);
    error = build_block(w, out, room, &header, raw, (size_t)(p - raw) + w->index_bytes, &bytes);
    if (error) goto done;
    /* Index and footer by one write: a log has both or neither. */
    mpp_footer_encode(&footer, out + bytes);
    bytes += MPP_FOOTER_BYTES;
    error = w->sink.write_at(w->sink.context, out, bytes, w->offset);
    if (error) goto done;
    w->offset += bytes;
    w->block_count++;
    w->finished = 1;
done:
    free(raw);
    free(out);
    return error;
}

/* Fills the layout of *info. */
static int lay_out(struct mpp_log_info *info)
{
    size_t header_bytes = mpp_log_header_bytes(info);

    if (header_bytes > MPP_HEADER_MAX_BYTES) return MPP_ERR_TOO_LARGE;
    info->version_major = MPP_VERSION_MAJOR;
    info->version_minor = MPP_VERSION_MINOR;
    info->header_bytes = (uint32_t)header_bytes;
    info->first_block_offset = header_bytes;
    if (info->journal_half_count == 0) {
        info->journal_offset = info->journal_half_bytes = 0;
        return MPP_OK;
    }
    if (info->journal_half_count > MPP_HALF_MAX_COUNT || info->journal_half_bytes == 0 || info->journal_half_bytes > MPP_HALF_MAX_BYTES ||
        info->journal_half_bytes % MPP_PAGE_BYTES != 0)
        return MPP_ERR_INVALID;
    info->journal_offset = (uint32_t)header_bytes;
    info->first_block_offset += (uint64_t)info->journal_half_count * info->journal_half_bytes;
    return MPP_OK;
}

/* Writes the header and the META block. */
static int write_start(struct mpp_writer *w, const struct mpp_log_info *info)
{
    struct mpp_block_header meta = {.kind = MPP_BLOCK_META};
    size_t fields_bytes = mpp_log_fields_encode(info, NULL);
    unsigned char *header = malloc(info->header_bytes);

    if (!header) return MPP_ERR_NO_MEMORY;
    int error = mpp_log_header_encode(info, header, info->header_bytes);
    if (!error) error = w->sink.write_at(w->sink.context, header, info->header_bytes, 0);
    if (!error) error = mpp_writer_append(w, &meta, header + MPP_HEADER_FIELDS_OFFSET, fields_bytes);
    free(header);
    return error;
}

int mpp_writer_new(struct mpp_writer **out, const struct mpp_sink *sink, struct mpp_log_info *info, size_t max_raw_bytes)
{
    if (max_raw_bytes > MPP_BLOCK_MAX_BYTES) return MPP_ERR_TOO_LARGE;
    int error = lay_out(info);
    if (error) return error;
    struct mpp_writer *w = calloc(1, sizeof(*w));
    if (!w) return MPP_ERR_NO_MEMORY;
    w->sink = *sink;
    /* META must fit too. */
    w->max_raw_bytes = max_raw_bytes < info->header_bytes ? info->header_bytes : max_raw_bytes;
    w->offset = info->first_block_offset;
    w->buffer_bytes = MPP_BLOCK_HEADER_BYTES + ZSTD_compressBound(w->max_raw_bytes);
    w->buffer = malloc(w->buffer_bytes);
    w->compressor = ZSTD_createCCtx();
    error = w->buffer && w->compressor ? warm_up(w) : MPP_ERR_NO_MEMORY;
    if (!error) error = write_start(w, info);
    if (error) {
        mpp_writer_free(w);
        return error;
    }
    *out = w;
    return MPP_OK;
}

uint64_t mpp_writer_bytes(const struct mpp_writer *w)
{
    return w->offset;
}

uint64_t mpp_writer_blocks(const struct mpp_writer *w)
{
    return w->block_count;
}

void mpp_writer_free(struct mpp_writer *w)
{
    if (!w) return;
    ZSTD_freeCCtx(w->compressor);
    free(w->buffer);
    free(w->index);
    free(w);
}
