#include "fuzz.h"
#include "formats/bytes.h"
#include "formats/crc32c.h"
#include "formats/mpp_writer.h"
#include "formats/wire.h"
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

int fuzz_all_variants;

void fuzz_failed(const char *file, int line, const char *condition)
{
    fprintf(stdout, "%s:%d: does not hold: %s\n", file, line, condition);
    fflush(stdout);
    abort();
}

void fuzz_silence_stderr(void)
{
    static FILE *nowhere;

    if (!nowhere) nowhere = fopen("/dev/null", "w");
    if (nowhere) stderr = nowhere;
}

/* A description that is being read. */
struct description {
    const uint8_t *at, *end;
};

static unsigned take_byte(struct description *d)
{
    return d->at < d->end ? *d->at++ : 0;
}

#define HALF_BYTES 4096u
#define ROW_BLOCKS 150 /* so many chunks of objects that the analyzer begins to compact them */

/* A log that is being assembled. */
struct assembly {
    struct fuzz_log *out;
    size_t capacity;
    struct mpp_log_info info;
    unsigned flags, half_count, halves_used;
    uint64_t sequence, next_serial, time_ns, aside_sequence;
    uint64_t index_offset;
};

static void append(struct assembly *a, const void *data, size_t bytes)
{
    struct fuzz_log *out = a->out;

    if (out->bytes + bytes > a->capacity) {
        a->capacity = (out->bytes + bytes) * 2;
        out->data = realloc(out->data, a->capacity);
        if (!out->data) abort();
    }
    if (bytes) memcpy(out->data + out->bytes, data, bytes);
    out->bytes += bytes;
}

static void begin_log(struct assembly *a, unsigned fork_serial)
{
    static char version[] = "3.1.2", command[] = "ruby\0app.rb";
    static const uint8_t zeros[HALF_BYTES];

    a->info = (struct mpp_log_info){.pid = 7, .start_unix_ns = UINT64_C(1764597785000000000), .sample_period = 1, .utc_offset_s = 3600};
    a->info.ruby_version = version;
    a->info.command_line = command;
    a->info.command_line_bytes = sizeof command;
    a->info.fork_serial = fork_serial;
    a->info.header_bytes = MPP_HEADER_MIN_BYTES;
    if (a->half_count) {
        a->info.journal_offset = MPP_HEADER_MIN_BYTES;
        a->info.journal_half_bytes = HALF_BYTES;
        a->info.journal_half_count = a->half_count;
    }
    a->info.first_block_offset = MPP_HEADER_MIN_BYTES + a->half_count * HALF_BYTES;
    uint8_t header[MPP_HEADER_MIN_BYTES];
    if (mpp_log_header_encode(&a->info, header, sizeof header) != MPP_OK) abort();
    if (a->flags & 2) header[200] ^= 1;
    append(a, header, sizeof header);
    for (unsigned i = 0; i < a->half_count; i++) append(a, zeros, sizeof zeros);
}

static void tweak_header(struct mpp_block_header *h, unsigned field, uint64_t value)
{
    switch (field) {
    case 1:
        h->kind = (uint8_t)value;
        break;
    case 2:
        h->compression = (uint8_t)value;
        break;
    case 3:
        h->sequence = value;
        break;
    case 4:
        h->stored_bytes = (uint32_t)value;
        break;
    case 5:
        h->raw_bytes = (uint32_t)value;
        break;
    case 6:
        h->first_serial = value;
        break;
    case 7:
        h->first_time_ns = value;
        break;
    case 8:
        h->last_time_ns = value;
        break;
    case 9:
        h->record_count = (uint32_t)value;
        break;
    case 10:
        h->alloc_count = (uint32_t)value;
        break;
    case 11:
        h->free_count = (uint32_t)value;
        break;
    default:
        h->payload_checksum ^= value;
        break;
    }
}

static void append_block(struct assembly *a, struct mpp_block_header *h, int compressed, const uint8_t *payload, size_t bytes, unsigned tweak,
                         uint64_t value)
{
    uint8_t header[MPP_BLOCK_HEADER_BYTES], *stored = NULL;
    size_t stored_bytes = bytes;

    if (compressed) {
        size_t room = ZSTD_compressBound(bytes);
        stored = malloc(room ? room : 1);
        if (!stored) abort();
        stored_bytes = ZSTD_compress(stored, room, payload, bytes, 1);
        if (ZSTD_isError(stored_bytes)) abort();
    }
    const uint8_t *body = compressed ? stored : payload;
    h->compression = compressed ? MPP_COMPRESSION_ZSTD : MPP_COMPRESSION_NONE;
    h->header_bytes = MPP_BLOCK_HEADER_BYTES;
    h->stored_bytes = (uint32_t)stored_bytes;
    h->raw_bytes = (uint32_t)bytes;
    h->payload_checksum = XXH3_64bits(body ? body : (const uint8_t *)"", stored_bytes);
    if (tweak) tweak_header(h, tweak & 15, value);
    mpp_block_header_encode(h, header);
    if (tweak & 16) header[8 + value % 72] ^= (uint8_t)(value >> 8);
    append(a, header, sizeof header);
    append(a, body, stored_bytes);
    free(stored);
}

static void fill_half(struct assembly *a, const struct mpp_block_header *h, const uint8_t *payload, size_t bytes, unsigned tweak, uint64_t value)
{
    if (a->halves_used >= a->half_count) return;
    uint8_t *at = a->out->data + a->info.journal_offset + (size_t)a->halves_used++ * HALF_BYTES;
    if (bytes > HALF_BYTES - MPP_HALF_HEADER_BYTES) bytes = HALF_BYTES - MPP_HALF_HEADER_BYTES;
    struct mpp_block_header changed = *h;
    if (tweak) tweak_header(&changed, tweak & 15, value);
    mpp_half_header_encode(at, changed.sequence, changed.first_serial, changed.first_time_ns);
    if (bytes) memcpy(at + MPP_HALF_HEADER_BYTES, payload, bytes);
    uint32_t crc = mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, at + MPP_HALF_HEADER_BYTES, bytes));
    mpp_put_u64(at + MPP_HALF_COMMIT_OFFSET, bytes ? bytes | (uint64_t)crc << 32 : 0);
    if (tweak & 16) at[value % (MPP_HALF_HEADER_BYTES + bytes)] ^= (uint8_t)(value >> 8);
}

/* One block, half, or row of plain bytes. */
static void put_block(struct assembly *a, unsigned kind, const uint8_t *payload, size_t bytes, unsigned tweak, uint64_t value)
{
    struct mpp_block_header h = {.kind = kind & 15};
    int is_half = h.kind == 15;
    if (is_half) h.kind = MPP_BLOCK_EVENTS;
    if (kind & 0x20) a->sequence++;
    if (kind & 0x40) a->next_serial += 1u << 14;
    if (h.kind == MPP_BLOCK_EVENTS) {
        h.sequence = ++a->sequence;
        h.first_serial = a->next_serial;
        h.first_time_ns = a->time_ns;
    } else if (h.kind == MPP_BLOCK_PROC || h.kind == MPP_BLOCK_DEFINITIONS) {
        h.sequence = ++a->aside_sequence;
        h.first_time_ns = h.kind == MPP_BLOCK_PROC ? a->time_ns : 0;
    }
    uint64_t proc_time_ns = h.first_time_ns;
    if (h.kind >= MPP_BLOCK_EVENTS && h.kind <= MPP_BLOCK_PROC) (void)mpp_block_count(&h, payload, bytes);
    if (h.kind == MPP_BLOCK_DEFINITIONS) h.last_time_ns = proc_time_ns;
    if (h.kind == 0) {
        append(a, payload, bytes);
    } else if (is_half) {
        fill_half(a, &h, payload, bytes, tweak, value);
    } else {
        if (h.kind == MPP_BLOCK_INDEX) a->index_offset = a->out->bytes;
        append_block(a, &h, (kind & 0x10) != 0, payload, bytes, tweak, value);
    }
    if (h.kind == MPP_BLOCK_EVENTS) {
        a->next_serial += h.alloc_count;
        if (h.last_time_ns > a->time_ns && h.last_time_ns <= MPP_MAX_TIME_NS) a->time_ns = h.last_time_ns;
    }
}

static void append_part(struct assembly *a, struct description *d)
{
    unsigned kind = take_byte(d), tweak = take_byte(d) & 31;
    size_t length = take_byte(d);
    uint64_t value = 0;

    length |= (size_t)take_byte(d) << 8;
    for (unsigned i = 0; tweak && i < 8; i++) value |= (uint64_t)take_byte(d) << (8 * i);
    if (length > (size_t)(d->end - d->at)) length = (size_t)(d->end - d->at);
    uint8_t *payload = NULL;
    size_t times = (kind & 0xC0) == 0x80 ? 256 : 1, bytes = length * times;
    if (bytes > (1u << 20)) bytes = length;
    payload = malloc(bytes ? bytes : 1); /* of its exact length, lest reading beyond it goes unseen */
    if (!payload) abort();
    for (size_t i = 0; i < bytes; i++) payload[i] = d->at[i % length];
    d->at += length;

    int is_row = (kind & 0xC0) == 0xC0 && (kind & 15) == MPP_BLOCK_EVENTS;
    for (int i = 0; i < (is_row ? ROW_BLOCKS : 1); i++) put_block(a, kind, payload, bytes, tweak, value);
    free(payload);
}

static void end_log(struct assembly *a)
{
    uint8_t bytes[MPP_FOOTER_BYTES];

    if (!(a->flags & 1)) return;
    if (!a->index_offset) {
        struct mpp_block_header h = {.kind = MPP_BLOCK_INDEX};
        a->index_offset = a->out->bytes;
        append_block(a, &h, 0, (const uint8_t *)"", 1, 0, 0);
    }
    struct mpp_footer footer = {.index_offset = a->index_offset + (a->flags & 4), .end_time_ns = a->time_ns};
    mpp_footer_encode(&footer, bytes);
    append(a, bytes, sizeof bytes);
}

void fuzz_log_init(struct fuzz_log *log, const uint8_t *data, size_t size)
{
    struct description d = {.at = data, .end = data + size};
    struct assembly a = {.out = log, .next_serial = 1};

    *log = (struct fuzz_log){0};
    mpp_crc32c_init();
    if (size >= sizeof MPP_LOG_MAGIC && memcmp(data, MPP_LOG_MAGIC, sizeof MPP_LOG_MAGIC) == 0) {
        append(&a, data, size);
        return;
    }
    a.flags = take_byte(&d);
    a.half_count = a.flags >> 3 & 7;
    begin_log(&a, take_byte(&d));
    while (d.at < d.end) append_part(&a, &d);
    end_log(&a);
}

void fuzz_log_release(struct fuzz_log *log)
{
    free(log->data);
    *log = (struct fuzz_log){0};
}

static void fix_header(uint8_t *data, size_t bytes)
{
    uint32_t header_bytes = bytes >= MPP_HEADER_MIN_BYTES ? mpp_get_u32(data + 12) : 0;

    if (header_bytes < MPP_HEADER_MIN_BYTES || header_bytes > bytes) return;
    mpp_put_u64(data + header_bytes - 8, XXH3_64bits(data, header_bytes - 8));
}

void fuzz_fix_checksums(uint8_t *data, size_t bytes)
{
    fix_header(data, bytes);
    for (size_t i = 0; i + MPP_FOOTER_BYTES <= bytes; i++) {
        if (memcmp(data + i, MPP_BLOCK_MAGIC, sizeof MPP_BLOCK_MAGIC) == 0 && bytes - i >= MPP_BLOCK_HEADER_BYTES) {
            size_t header_bytes = mpp_get_u16(data + i + 6), stored_bytes = mpp_get_u32(data + i + 16);
            if (header_bytes < MPP_BLOCK_HEADER_BYTES || header_bytes > MPP_BLOCK_HEADER_MAX_BYTES || header_bytes > bytes - i) continue;
            if (stored_bytes <= bytes - i - header_bytes) mpp_put_u64(data + i + 64, XXH3_64bits(data + i + header_bytes, stored_bytes));
            mpp_put_u64(data + i + header_bytes - 8, XXH3_64bits(data + i, header_bytes - 8));
        } else if (memcmp(data + i, MPP_HALF_MAGIC, sizeof MPP_HALF_MAGIC) == 0 && bytes - i >= MPP_HALF_HEADER_BYTES) {
            size_t committed = mpp_get_u32(data + i + MPP_HALF_COMMIT_OFFSET);
            mpp_put_u64(data + i + 40, XXH3_64bits(data + i, 40));
            if (committed > bytes - i - MPP_HALF_HEADER_BYTES) continue;
            uint32_t crc = mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, data + i + MPP_HALF_HEADER_BYTES, committed));
            mpp_put_u32(data + i + MPP_HALF_COMMIT_OFFSET + 4, crc);
        } else if (i + MPP_FOOTER_BYTES == bytes && memcmp(data + i, MPP_FOOTER_MAGIC, sizeof MPP_FOOTER_MAGIC) == 0) {
            mpp_put_u64(data + i + 24, XXH3_64bits(data + i, 24));
        }
    }
}
