/* Property: whatever the bytes, opening them and reading every payload never crashes; every payload that is accepted has the length and the checksum
 * that its block's header states, and every block lies within the log; and what is allocated stays below two payloads of the format's limit (64 MiB)
 * and a multiple of the input's length. Opening the same bytes again gives the same blocks and the same damage. */
#include "formats/mpp_reader.h"
#include "fuzz.h"
#include <string.h>
#include <xxhash.h>

#if defined(__SANITIZE_ADDRESS__)
#define WATCHES_ALLOCATIONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHES_ALLOCATIONS 1
#endif
#endif

#ifdef WATCHES_ALLOCATIONS
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t), void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

static size_t held_bytes, most_bytes;

static void on_malloc(const volatile void *p, size_t bytes)
{
    (void)p;
    held_bytes += bytes;
    if (held_bytes > most_bytes) most_bytes = held_bytes;
}

static void on_free(const volatile void *p)
{
    size_t bytes = p ? __sanitizer_get_allocated_size(p) : 0;

    held_bytes -= bytes < held_bytes ? bytes : held_bytes;
}

static void watch_allocations(void)
{
    static int installed;

    if (!installed) installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    held_bytes = most_bytes = 0;
}

static void check_allocations(size_t input_bytes)
{
    FUZZ_CHECK(most_bytes <= (size_t)2 * MPP_BLOCK_MAX_BYTES + ((size_t)4 << 20) + 16 * input_bytes);
}
#else
static void watch_allocations(void)
{
}
static void check_allocations(size_t input_bytes)
{
    (void)input_bytes;
}
#endif

#ifdef MPP_LIBFUZZER
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Plain logs get right checksums again, but for one in eight. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 && size > sizeof MPP_LOG_MAGIC && memcmp(data, MPP_LOG_MAGIC, sizeof MPP_LOG_MAGIC) == 0) fuzz_fix_checksums(data, size);
    return size;
}
#endif

/* Opens and reads all; a hash of what was found. */
static uint64_t read_all(const struct fuzz_log *log)
{
    struct mpp_source source;
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    uint64_t hash = 1;

    mpp_source_memory(&source, log->data, log->bytes);
    int error = mpp_reader_open(&r, &source);
    if (error) {
        FUZZ_CHECK(r == NULL && error < 0 && error != MPP_ERR_IO && error != MPP_ERR_NO_MEMORY);
        return (uint64_t)-error;
    }
    FUZZ_CHECK(mpp_reader_end_time_ns(r) <= UINT64_MAX >> 1 && mpp_reader_log_bytes(r) == log->bytes);
    for (size_t i = 0; i < mpp_reader_block_count(r); i++) {
        const struct mpp_block_ref *b = mpp_reader_block(r, i);
        const struct mpp_block_header *h = &b->header;
        error = mpp_reader_payload(r, i, &payload);
        FUZZ_CHECK(b->offset < log->bytes && (uint64_t)h->header_bytes + h->stored_bytes <= log->bytes - b->offset);
        FUZZ_CHECK(error == MPP_OK || error == MPP_ERR_DAMAGED);
        FUZZ_CHECK(payload.bytes == (error ? 0 : h->raw_bytes));
        if (!error && !b->in_journal) FUZZ_CHECK(XXH3_64bits(log->data + b->offset + h->header_bytes, h->stored_bytes) == h->payload_checksum);
        hash = XXH3_64bits_withSeed(payload.bytes ? payload.data : (const unsigned char *)"", payload.bytes, hash + (unsigned)-error);
    }
    for (size_t i = 0; i < mpp_reader_damage_count(r); i++) {
        const struct mpp_damage *d = mpp_reader_damage(r, i);
        FUZZ_CHECK(d->offset <= d->end_offset && d->first_time_ns <= d->last_time_ns);
        hash = hash * 31 + (uint64_t)d->kind + d->offset * 7 + d->end_offset * 11 + d->sequence * 13;
    }
    FUZZ_CHECK(mpp_reader_payload(r, mpp_reader_block_count(r), &payload) == MPP_ERR_INVALID);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    return hash;
}

FUZZ_TARGET(reader)
{
    struct fuzz_log log;

    fuzz_log_init(&log, data, size);
    watch_allocations();
    uint64_t hash = read_all(&log);
    check_allocations(log.bytes);
    FUZZ_CHECK(read_all(&log) == hash);
    fuzz_log_release(&log);
    return 0;
}
