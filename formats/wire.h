/* Encoding and decoding of the log's frame: fields, block headers, halves, the footer. Internal to formats/: writer and reader share it.
 * All decoders check their bytes, and set *out only on success. */
#ifndef MPP_WIRE_H
#define MPP_WIRE_H

#include "mpp_error.h"
#include "mpp_format.h"

#define MPP_MAX_TIME_NS (UINT64_MAX >> 1)

/* The fields of FORMAT.md §1, as they stand in the header and in META. Encoding with `out` NULL only measures. Decoding keeps what *out holds of the
 * fixed part of the header, and owns no string of its former content. */
size_t mpp_log_fields_encode(const struct mpp_log_info *info, unsigned char *out);
int mpp_log_fields_decode(struct mpp_log_info *out, const unsigned char *bytes, size_t count);

/* The 80 bytes of a block's header, with its checksum. */
void mpp_block_header_encode(const struct mpp_block_header *header, unsigned char out[MPP_BLOCK_HEADER_BYTES]);

/* The first 64 bytes of a journal half. */
struct mpp_half_header {
    uint64_t sequence, first_serial, first_time_ns;
    uint64_t commit_word; /* set even where the header is not sound: zero means that the half does not matter */
    int sound;            /* magic and checksum stand */
};
void mpp_half_header_decode(struct mpp_half_header *out, const unsigned char bytes[MPP_HALF_HEADER_BYTES]);

struct mpp_footer {
    uint64_t index_offset, end_time_ns;
};
void mpp_footer_encode(const struct mpp_footer *footer, unsigned char out[MPP_FOOTER_BYTES]);
/* MPP_ERR_NOT_A_LOG: no footer stands here; MPP_ERR_DAMAGED: one stands, and is not sound. */
int mpp_footer_decode(struct mpp_footer *out, const unsigned char bytes[MPP_FOOTER_BYTES]);

#endif
