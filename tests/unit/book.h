/* A log in memory, written record by record, for tests of the analyzer: `book_*` puts a record into the open block, book_seal ends a block, book_open
 * ends the log and opens it. */
#ifndef MPP_TESTS_BOOK_H
#define MPP_TESTS_BOOK_H

#include "analyzer/replay.h"
#include "memory_log.h"

struct book {
    struct memory_log file;
    struct mpp_writer *writer;
    struct mpp_log_info info;
    unsigned char payload[1 << 16], *at;
    struct mpp_block_header header; /* of the open block */
    uint64_t sequence, next_serial, time_ns;
    uint64_t free_base, size_base;
    struct log log;
    int opened;
};

#define BOOK_START_UNIX_NS UINT64_C(1764597785000000000) /* 2025-12-01T14:03:05Z */

static inline void book_block(struct book *b, uint64_t first_serial, uint64_t first_time_ns)
{
    b->at = b->payload;
    b->header = (struct mpp_block_header){.kind = MPP_BLOCK_EVENTS, .first_serial = first_serial, .first_time_ns = first_time_ns};
    b->next_serial = b->free_base = b->size_base = first_serial;
    b->time_ns = first_time_ns;
}

static inline void book_init(struct book *b)
{
    struct mpp_sink sink;

    memset(b, 0, sizeof *b);
    b->info.start_unix_ns = BOOK_START_UNIX_NS;
    b->info.sample_period = 1;
    b->info.pid = 7;
    sink = memory_sink(&b->file);
    assert_int_equal(mpp_writer_new(&b->writer, &sink, &b->info, sizeof b->payload), MPP_OK);
    book_block(b, 1, 0);
}

static inline void book_release(struct book *b)
{
    if (b->opened) log_close(&b->log);
    mpp_writer_free(b->writer);
    memory_log_release(&b->file);
}

/* Ends the open block as one of `kind` and begins the next. */
static inline void book_seal_as(struct book *b, int kind)
{
    size_t bytes = (size_t)(b->at - b->payload);

    b->header.kind = (uint8_t)kind;
    b->header.sequence = kind == MPP_BLOCK_EVENTS ? ++b->sequence : 1;
    assert_int_equal(mpp_block_count(&b->header, b->payload, bytes), MPP_OK);
    if (kind == MPP_BLOCK_DEFINITIONS) b->header.first_serial = b->header.first_time_ns = b->header.last_time_ns = 0;
    assert_int_equal(mpp_writer_append(b->writer, &b->header, b->payload, bytes), MPP_OK);
    book_block(b, b->next_serial, b->time_ns);
}

static inline void book_seal(struct book *b)
{
    book_seal_as(b, MPP_BLOCK_EVENTS);
}

/* Opens what has been written, without an end. */
static inline struct log *book_open_killed(struct book *b)
{
    struct mpp_source source;

    mpp_source_memory(&source, b->file.data, b->file.bytes);
    assert_int_equal(log_open_source(&b->log, "book", &source), 0);
    b->opened = 1;
    assert_int_equal(history_settle_end(&b->log), 0);
    return &b->log;
}

static inline struct log *book_open(struct book *b, uint64_t end_time_ns)
{
    if (b->at != b->payload) book_seal(b);
    assert_int_equal(mpp_writer_finish(b->writer, end_time_ns), MPP_OK);
    return book_open_killed(b);
}

static inline void book_time(struct book *b, uint64_t delta_ns)
{
    b->at = mpp_encode_time(b->at, delta_ns);
    b->time_ns += delta_ns;
}

static inline uint64_t book_alloc(struct book *b, uint32_t site)
{
    b->at = mpp_encode_alloc(b->at, site);
    return b->next_serial++;
}

static inline uint64_t book_alloc_weighted(struct book *b, uint32_t site, uint32_t weight)
{
    b->at = mpp_encode_alloc_weighted(b->at, site, weight);
    return b->next_serial++;
}

static inline void book_free(struct book *b, uint64_t serial)
{
    b->at = mpp_encode_free(b->at, (int64_t)(serial - b->free_base));
    b->free_base = serial;
}

static inline void book_free_sized(struct book *b, uint64_t serial, uint64_t size_bytes)
{
    b->at = mpp_encode_free_sized(b->at, (int64_t)(serial - b->free_base), size_bytes);
    b->free_base = serial;
}

static inline void book_size(struct book *b, uint64_t serial, uint64_t size_bytes)
{
    b->at = mpp_encode_size(b->at, (int64_t)(serial - b->size_base), size_bytes);
    b->size_base = serial;
}

static inline void book_reclass(struct book *b, uint64_t serial, uint32_t class_id)
{
    b->at = mpp_encode_reclass(b->at, (int64_t)(serial - b->size_base), class_id);
    b->size_base = serial;
}

static inline void book_live(struct book *b, uint64_t serial, uint32_t site, uint64_t size_bytes, uint32_t weight, uint64_t age)
{
    b->at = mpp_encode_live(b->at, serial, site, size_bytes, weight, -5, age);
}

static inline void book_gc(struct book *b, uint64_t gc_count, int end)
{
    b->at = end ? mpp_encode_gc_end(b->at, gc_count, 0) : mpp_encode_2(b->at, MPP_GC_START, gc_count, 0);
}

static inline void book_mark(struct book *b, const char *name)
{
    b->at = mpp_encode_mark(b->at, name, strlen(name));
}

static inline void book_gap(struct book *b)
{
    b->at = mpp_encode_1(b->at, MPP_GAP, 1);
}

static inline void book_clock(struct book *b, uint64_t unix_ns)
{
    b->at = mpp_encode_1(b->at, MPP_CLOCK, unix_ns);
}

static inline void book_string(struct book *b, uint32_t id, const char *text)
{
    b->at = mpp_encode_string(b->at, id, text, strlen(text));
}

/* A function whose label and path are the strings `id` * 2 and `id` * 2 + 1. */
static inline void book_function(struct book *b, uint32_t id, const char *label, const char *path, uint32_t flags)
{
    book_string(b, id * 2, label);
    book_string(b, id * 2 + 1, path);
    b->at = mpp_encode_function_name(b->at, id, id * 2, id * 2 + 1, 1, flags);
}

static inline void book_stack(struct book *b, uint32_t id, uint32_t parent, uint32_t function, uint32_t line)
{
    b->at = mpp_encode_stack(b->at, id, parent, function, line);
}

static inline void book_site(struct book *b, uint32_t id, uint32_t stack, uint32_t class_id, uint32_t type, uint64_t birth_bytes)
{
    b->at = mpp_encode_site(b->at, id, stack, class_id, type, 1, birth_bytes);
}

/* A class whose name is the string 1000 + id. */
static inline void book_class(struct book *b, uint32_t id, const char *name)
{
    book_string(b, 1000 + id, name);
    b->at = mpp_encode_class_name(b->at, id, 1000 + id, 0);
}

#endif
