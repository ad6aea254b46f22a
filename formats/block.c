/* A block's header: FORMAT.md §2. */
#include "bytes.h"
#include "mpp_reader.h"
#include "mpp_writer.h"
#include "wire.h"
#include <xxhash.h>

void mpp_block_header_encode(const struct mpp_block_header *header, unsigned char out[MPP_BLOCK_HEADER_BYTES])
{
    memcpy(out, MPP_BLOCK_MAGIC, sizeof(MPP_BLOCK_MAGIC));
    out[4] = header->kind;
    out[5] = header->compression;
    mpp_put_u16(out + 6, MPP_BLOCK_HEADER_BYTES);
    mpp_put_u64(out + 8, header->sequence);
    mpp_put_u32(out + 16, header->stored_bytes);
    mpp_put_u32(out + 20, header->raw_bytes);
    mpp_put_u64(out + 24, header->first_serial);
    mpp_put_u64(out + 32, header->first_time_ns);
    mpp_put_u64(out + 40, header->last_time_ns);
    mpp_put_u32(out + 48, header->record_count);
    mpp_put_u32(out + 52, header->alloc_count);
    mpp_put_u32(out + 56, header->free_count);
    mpp_put_u32(out + 60, 0);
    mpp_put_u64(out + 64, header->payload_checksum);
    mpp_put_u64(out + 72, XXH3_64bits(out, 72));
}

int mpp_block_header_decode(struct mpp_block_header *out, const unsigned char *bytes, size_t available)
{
    struct mpp_block_header h;

    if (available < MPP_BLOCK_HEADER_BYTES) return MPP_ERR_TRUNCATED;
    if (memcmp(bytes, MPP_BLOCK_MAGIC, sizeof(MPP_BLOCK_MAGIC)) != 0) return MPP_ERR_DAMAGED;
    h.header_bytes = mpp_get_u16(bytes + 6);
    if (h.header_bytes < MPP_BLOCK_HEADER_BYTES || h.header_bytes > MPP_BLOCK_HEADER_MAX_BYTES) return MPP_ERR_DAMAGED;
    if (available < h.header_bytes) return MPP_ERR_TRUNCATED;
    if (mpp_get_u64(bytes + h.header_bytes - 8) != XXH3_64bits(bytes, (size_t)h.header_bytes - 8)) return MPP_ERR_DAMAGED;
    h.kind = bytes[4];
    h.compression = bytes[5];
    h.sequence = mpp_get_u64(bytes + 8);
    h.stored_bytes = mpp_get_u32(bytes + 16);
    h.raw_bytes = mpp_get_u32(bytes + 20);
    h.first_serial = mpp_get_u64(bytes + 24);
    h.first_time_ns = mpp_get_u64(bytes + 32);
    h.last_time_ns = mpp_get_u64(bytes + 40);
    h.record_count = mpp_get_u32(bytes + 48);
    h.alloc_count = mpp_get_u32(bytes + 52);
    h.free_count = mpp_get_u32(bytes + 56);
    h.payload_checksum = mpp_get_u64(bytes + 64);
    if (h.stored_bytes > MPP_BLOCK_MAX_BYTES || h.raw_bytes > MPP_BLOCK_MAX_BYTES) return MPP_ERR_TOO_LARGE;
    *out = h;
    return MPP_OK;
}

int mpp_block_count(struct mpp_block_header *header, const void *payload, size_t raw_bytes)
{
    struct mpp_decoder d;
    struct mpp_record r;
    uint32_t records = 0, allocs = 0, frees = 0;
    int got;

    if (raw_bytes > MPP_BLOCK_MAX_BYTES) return MPP_ERR_TOO_LARGE;
    mpp_decoder_init(&d, payload, raw_bytes, header->first_serial, header->first_time_ns);
    while ((got = mpp_decoder_next(&d, &r)) > 0) {
        records++;
        if (r.kind == MPP_ALLOC || r.kind == MPP_ALLOC_WEIGHTED) allocs++;
        if (r.kind == MPP_FREE || r.kind == MPP_FREE_SIZED) frees++;
    }
    if (got < 0) return got;
    header->record_count = records;
    header->alloc_count = allocs;
    header->free_count = frees;
    header->last_time_ns = d.time_ns;
    return MPP_OK;
}
