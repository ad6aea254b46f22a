/* Logs in memory, for tests of writer and reader: a sink that keeps the bytes, a small log with everything in it, and the list of a log's payloads.
 */
#ifndef MPP_TESTS_MEMORY_LOG_H
#define MPP_TESTS_MEMORY_LOG_H

#include "formats/crc32c.h"
#include "formats/mpp_reader.h"
#include "formats/mpp_record_encode.h"
#include "formats/mpp_writer.h"
#include "formats/wire.h"
#include "unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A file in memory. */
struct memory_log {
    unsigned char *data;
    size_t bytes, capacity;
    int fail_writes; /* so many of the next ones */
};

static inline int memory_write_at(void *context, const void *data, size_t bytes, uint64_t offset)
{
    struct memory_log *m = context;
    size_t end = (size_t)offset + bytes;

    if (m->fail_writes > 0) {
        m->fail_writes--;
        errno = ENOSPC;
        return MPP_ERR_IO;
    }
    if (end > m->capacity) {
        size_t capacity = end * 2;
        unsigned char *grown = realloc(m->data, capacity);
        if (!grown) return MPP_ERR_NO_MEMORY;
        m->data = grown;
        m->capacity = capacity;
    }
    if (end > m->bytes) {
        if (offset > m->bytes) memset(m->data + m->bytes, 0, (size_t)offset - m->bytes);
        m->bytes = end;
    }
    memcpy(m->data + offset, data, bytes);
    return MPP_OK;
}

static inline void memory_log_release(struct memory_log *m)
{
    free(m->data);
    *m = (struct memory_log){0};
}

static inline struct mpp_sink memory_sink(struct memory_log *m)
{
    return (struct mpp_sink){memory_write_at, m};
}

/* An EVENTS block of `count` objects and a mark that tells it from others. Returns the serial that follows. */
static inline uint64_t small_payload(unsigned char *out, size_t *bytes, struct mpp_block_header *h, uint64_t sequence, uint64_t first_serial,
                                     unsigned count)
{
    unsigned char *p = out;
    char mark[32];

    *h = (struct mpp_block_header){.kind = MPP_BLOCK_EVENTS, .sequence = sequence, .first_serial = first_serial, .first_time_ns = sequence * 1000};
    p = mpp_encode_time(p, 10);
    for (unsigned i = 0; i < count; i++) p = mpp_encode_alloc(p, 1 + i % 70);
    p = mpp_encode_time(p, 90);
    memset(mark, (int)('a' + sequence % 26), sizeof(mark));
    p = mpp_encode_mark(p, mark, sizeof(mark));
    p = mpp_encode_free_sized(p, (int64_t)(count - 1), 100 + sequence);
    *bytes = (size_t)(p - out);
    assert_int_equal(mpp_block_count(h, out, *bytes), MPP_OK);
    return first_serial + count;
}

#define SMALL_MAX_BYTES  4096
#define SMALL_HALF_BYTES 4096

static inline void small_info(struct mpp_log_info *info, uint32_t half_count)
{
    static char version[] = "3.1.2", command[] = "ruby\0app.rb";

    *info = (struct mpp_log_info){.pid = 42, .start_unix_ns = 1, .sample_period = 1, .ruby_version = version, .command_line = command};
    info->command_line_bytes = sizeof(command);
    memset(info->uuid, 7, sizeof(info->uuid));
    info->journal_half_count = half_count;
    info->journal_half_bytes = half_count ? SMALL_HALF_BYTES : 0;
}

/* Puts a payload into half `half` of a log. */
static inline void put_half(struct memory_log *m, const struct mpp_log_info *info, size_t half, const struct mpp_block_header *h,
                            const unsigned char *payload, size_t bytes)
{
    unsigned char *at = m->data + info->journal_offset + half * info->journal_half_bytes;
    uint32_t crc = mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, payload, bytes));

    assert_true(bytes <= info->journal_half_bytes - MPP_HALF_HEADER_BYTES);
    mpp_half_header_encode(at, h->sequence, h->first_serial, h->first_time_ns);
    memcpy(at + MPP_HALF_HEADER_BYTES, payload, bytes);
    mpp_put_u64(at + MPP_HALF_COMMIT_OFFSET, bytes | (uint64_t)crc << 32);
}

enum small_kind { SMALL_CLEAN, SMALL_KILLED };

/* A log of three EVENTS blocks, a PROC and a DEFINITIONS block. Clean: with its end. Killed: no end, and the journal holds blocks 3 (stale), 4 and 5.
 */
static inline void small_log(struct memory_log *m, struct mpp_log_info *info, enum small_kind kind)
{
    struct mpp_sink sink = memory_sink(m);
    struct mpp_writer *w = NULL;
    struct mpp_block_header h;
    unsigned char payload[SMALL_MAX_BYTES];
    size_t bytes;
    uint64_t serial = 1;

    *m = (struct memory_log){0};
    small_info(info, kind == SMALL_KILLED ? 3 : 2);
    assert_int_equal(mpp_writer_new(&w, &sink, info, SMALL_MAX_BYTES), MPP_OK);
    for (uint64_t sequence = 1; sequence <= (kind == SMALL_KILLED ? 5u : 3u); sequence++) {
        serial = small_payload(payload, &bytes, &h, sequence, serial, 20 + (unsigned)sequence);
        if (sequence <= 3) assert_int_equal(mpp_writer_append(w, &h, payload, bytes), MPP_OK);
        if (kind == SMALL_KILLED && sequence >= 3) put_half(m, info, sequence % 3, &h, payload, bytes);
        if (sequence == 1) {
            unsigned char *p = mpp_put_varint(mpp_put_varint(mpp_encode_1(mpp_encode_time(payload, 5), MPP_PROC, 1), MPP_PROC_RSS_BYTES), 1 << 20);
            struct mpp_block_header proc = {.kind = MPP_BLOCK_PROC, .sequence = 1, .first_time_ns = 1200};
            assert_int_equal(mpp_block_count(&proc, payload, (size_t)(p - payload)), MPP_OK);
            assert_int_equal(mpp_writer_append(w, &proc, payload, (size_t)(p - payload)), MPP_OK);
        }
    }
    if (kind == SMALL_CLEAN) {
        struct mpp_block_header definitions = {.kind = MPP_BLOCK_DEFINITIONS, .sequence = 1};
        unsigned char *p = mpp_encode_string(payload, 1, "name", 4);
        assert_int_equal(mpp_block_count(&definitions, payload, (size_t)(p - payload)), MPP_OK);
        assert_int_equal(mpp_writer_append(w, &definitions, payload, (size_t)(p - payload)), MPP_OK);
        assert_int_equal(mpp_writer_finish(w, 9000), MPP_OK);
    }
    mpp_writer_free(w);
}

static inline int open_memory(struct mpp_reader **r, const void *data, size_t bytes)
{
    struct mpp_source source;

    mpp_source_memory(&source, data, bytes);
    return mpp_reader_open(r, &source);
}

#define MAX_LISTED 64

/* What a log holds: of each block kind, sequence and a hash of header numbers and payload; whether anything is reported. */
struct listing {
    size_t count, damages;
    uint8_t kind[MAX_LISTED];
    uint64_t sequence[MAX_LISTED], hash[MAX_LISTED];
    int has_footer;
    uint64_t info_hash, end_time_ns;
};

static inline uint64_t hash_text(uint64_t hash, const char *text)
{
    return text ? XXH3_64bits_withSeed(text, strlen(text), hash) : hash;
}

static inline uint64_t hash_info(const struct mpp_log_info *i)
{
    uint64_t hash =
        XXH3_64bits(i->uuid, sizeof(i->uuid)) + i->pid * 3 + i->ppid * 5 + i->start_unix_ns * 7 + i->sample_period * 11 + i->max_depth * 13;

    hash = hash_text(hash, i->ruby_version);
    hash = hash_text(hash, i->ruby_description);
    hash = hash_text(hash, i->recorder_version);
    return i->command_line ? XXH3_64bits_withSeed(i->command_line, i->command_line_bytes, hash) : hash;
}

/* Reads every block of a log. */
static inline void list_log(struct mpp_reader *r, struct listing *l)
{
    struct mpp_payload payload = {0};

    *l = (struct listing){.damages = mpp_reader_damage_count(r), .has_footer = mpp_reader_has_footer(r)};
    l->info_hash = hash_info(mpp_reader_info(r));
    l->end_time_ns = mpp_reader_end_time_ns(r);
    for (size_t i = 0; i < mpp_reader_block_count(r); i++) {
        const struct mpp_block_header *h = &mpp_reader_block(r, i)->header;
        int error = mpp_reader_payload(r, i, &payload);
        if (error) {
            assert_int_equal(error, MPP_ERR_DAMAGED);
            l->damages++;
            continue;
        }
        assert_true(l->count < MAX_LISTED);
        l->kind[l->count] = h->kind;
        l->sequence[l->count] = h->sequence;
        l->hash[l->count++] = XXH3_64bits_withSeed(payload.data, payload.bytes, h->first_serial * 31 + h->first_time_ns);
    }
    mpp_payload_release(&payload);
}

/* Keeps of a listing what is history: the EVENTS blocks. */
static inline void keep_events(struct listing *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->count; i++) {
        if (l->kind[i] != MPP_BLOCK_EVENTS) continue;
        l->kind[kept] = l->kind[i];
        l->sequence[kept] = l->sequence[i];
        l->hash[kept++] = l->hash[i];
    }
    l->count = kept;
}

static inline void open_and_list(const struct memory_log *m, struct listing *l)
{
    struct mpp_reader *r = NULL;

    assert_int_equal(open_memory(&r, m->data, m->bytes), MPP_OK);
    list_log(r, l);
    mpp_reader_free(r);
}

static inline void assert_sequences(const struct listing *l, const char *wanted)
{
    char got[MAX_LISTED + 1] = "";
    size_t n = 0;

    for (size_t i = 0; i < l->count; i++)
        if (l->kind[i] == MPP_BLOCK_EVENTS) got[n++] = (char)('0' + l->sequence[i]);
    assert_string_equal(got, wanted);
}

/* Index of the EVENTS block of that sequence. */
static inline size_t find_events(const struct mpp_reader *r, uint64_t sequence)
{
    for (size_t i = 0; i < mpp_reader_block_count(r); i++) {
        const struct mpp_block_header *h = &mpp_reader_block(r, i)->header;
        if (h->kind == MPP_BLOCK_EVENTS && h->sequence == sequence) return i;
    }
    fail_msg("no block of that sequence");
    return 0;
}

/* Where the EVENTS block of that sequence stands, header and payload. */
static inline void locate(const struct memory_log *m, uint64_t sequence, size_t *offset, size_t *bytes)
{
    struct mpp_reader *r = NULL;

    assert_int_equal(open_memory(&r, m->data, m->bytes), MPP_OK);
    const struct mpp_block_ref *ref = mpp_reader_block(r, find_events(r, sequence));
    *offset = (size_t)ref->offset;
    *bytes = (size_t)ref->header.header_bytes + ref->header.stored_bytes;
    mpp_reader_free(r);
}

/* Puts a block of any header and stored bytes at the end of a log without an end. */
static inline void put_raw_block(struct memory_log *m, struct mpp_block_header h, const void *stored, size_t stored_bytes)
{
    unsigned char header[MPP_BLOCK_HEADER_BYTES];

    h.stored_bytes = (uint32_t)stored_bytes;
    h.payload_checksum = XXH3_64bits(stored, stored_bytes);
    mpp_block_header_encode(&h, header);
    assert_int_equal(memory_write_at(m, header, sizeof(header), m->bytes), MPP_OK);
    assert_int_equal(memory_write_at(m, stored, stored_bytes, m->bytes), MPP_OK);
}

static inline void start_log(struct memory_log *m)
{
    struct mpp_sink sink = memory_sink(m);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;

    *m = (struct memory_log){0};
    small_info(&info, 0);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, SMALL_MAX_BYTES), MPP_OK);
    mpp_writer_free(w);
}

#endif
