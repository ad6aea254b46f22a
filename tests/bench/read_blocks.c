/* read_blocks LOG: the control of the replay benchmark. Reads, checks and decompresses every block, on one core, and does nothing with it. */
#include "formats/mpp_reader.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct mpp_source source;
    struct mpp_reader *reader;
    struct mpp_payload payload;
    uint64_t raw_bytes = 0, stored_bytes = 0;

    memset(&payload, 0, sizeof(payload));
    if (argc != 2) return 2;
    int error = mpp_source_file(&source, argv[1]);
    if (!error) error = mpp_reader_open(&reader, &source);
    if (error) {
        fprintf(stderr, "read_blocks: %s: '%s'\n", mpp_error_string(error), argv[1]);
        return 1;
    }
    for (size_t i = 0; !error && i < mpp_reader_block_count(reader); i++) {
        if (mpp_reader_block(reader, i)->header.kind != MPP_BLOCK_EVENTS) continue;
        error = mpp_reader_payload(reader, i, &payload);
        raw_bytes += payload.bytes;
        stored_bytes += mpp_reader_block(reader, i)->header.stored_bytes;
    }
    if (error) fprintf(stderr, "read_blocks: %s: '%s'\n", mpp_error_string(error), argv[1]);
    printf("{\"raw_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64 "}\n", raw_bytes, stored_bytes);
    mpp_payload_release(&payload);
    mpp_reader_free(reader);
    return error ? 1 : 0;
}
