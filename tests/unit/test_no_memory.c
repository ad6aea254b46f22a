/* Property: whichever allocation fails, writer and reader say MPP_ERR_NO_MEMORY, leak nothing (LeakSanitizer watches), and can be asked again.
 * The linker puts these in place of malloc and its kin (Makefile); of zstd's own allocations, contexts stand for all. */
#include "formats/wire.h"
#include "memory_log.h"
#include <zstd.h>

static int countdown; /* 0: none fails; n: the nth from here on, and all behind it */

static int fails(void)
{
    if (countdown == 0) return 0;
    if (countdown > 1) {
        countdown--;
        return 0;
    }
    return 1;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
ZSTD_CCtx *__real_ZSTD_createCCtx(void);
ZSTD_DCtx *__real_ZSTD_createDCtx(void);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
ZSTD_CCtx *__wrap_ZSTD_createCCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return fails() ? NULL : __real_realloc(p, bytes);
}

ZSTD_CCtx *__wrap_ZSTD_createCCtx(void)
{
    return fails() ? NULL : __real_ZSTD_createCCtx();
}

ZSTD_DCtx *__wrap_ZSTD_createDCtx(void)
{
    return fails() ? NULL : __real_ZSTD_createDCtx();
}

/* A sink that allocates nothing. */
static unsigned char written[1 << 18];
static size_t written_bytes;

static int write_static(void *context, const void *data, size_t bytes, uint64_t offset)
{
    (void)context;
    if (offset + bytes > sizeof(written)) return MPP_ERR_IO;
    memcpy(written + offset, data, bytes);
    if (offset + bytes > written_bytes) written_bytes = (size_t)(offset + bytes);
    return MPP_OK;
}

static int write_log(void)
{
    struct mpp_sink sink = {write_static, NULL};
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .first_serial = 1};
    unsigned char payload[SMALL_MAX_BYTES] = {0};

    small_info(&info, 2);
    int error = mpp_writer_new(&w, &sink, &info, SMALL_MAX_BYTES);
    for (h.sequence = 1; !error && h.sequence <= 3; h.sequence++) {
        uint64_t at = mpp_writer_bytes(w);
        error = mpp_writer_append(w, &h, payload, sizeof(payload));
        if (error) assert_int_equal(mpp_writer_bytes(w), at);
    }
    if (!error) error = mpp_writer_finish(w, 5);
    mpp_writer_free(w);
    return error;
}

static void test_writer(void **state)
{
    int n = 0, error;

    (void)state;
    do {
        countdown = ++n;
        error = write_log();
        countdown = 0;
        assert_true(error == MPP_OK || error == MPP_ERR_NO_MEMORY);
        assert_true(n < 1000);
    } while (error);
    assert_true(n > 5);
}

static int read_log(const struct memory_log *m)
{
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    struct mpp_damage damage = {0};
    int error = open_memory(&r, m->data, m->bytes);

    if (error) return error;
    for (size_t i = 0; !error && i < mpp_reader_block_count(r); i++) {
        error = mpp_reader_payload(r, i, &payload);
        if (error == MPP_ERR_DAMAGED) error = MPP_OK;
    }
    for (int i = 0; !error && i < 40; i++) error = mpp_reader_add_damage(r, &damage);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    return error;
}

static void read_with_failures(const struct memory_log *m)
{
    int n = 0, error;

    do {
        countdown = ++n;
        error = read_log(m);
        countdown = 0;
        assert_true(error == MPP_OK || error == MPP_ERR_NO_MEMORY);
        assert_true(n < 1000);
    } while (error);
    assert_true(n > 5);
}

static void test_reader(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    read_with_failures(&m);
    m.data[100] ^= 1; /* salvage, by META and by search */
    read_with_failures(&m);
    memory_log_release(&m);
    small_log(&m, &info, SMALL_KILLED);
    read_with_failures(&m);
    /* So many blocks that the list has to grow for the first half. */
    for (int i = 0; i < 11; i++) {
        struct mpp_block_header h = {.kind = 9, .payload_checksum = XXH3_64bits("", 0)};
        unsigned char header[MPP_BLOCK_HEADER_BYTES];
        mpp_block_header_encode(&h, header);
        assert_int_equal(memory_write_at(&m, header, sizeof(header), m.bytes), MPP_OK);
    }
    read_with_failures(&m);
    m.data[info.first_block_offset] ^= 1;
    m.data[info.journal_offset + SMALL_HALF_BYTES] ^= 1;
    read_with_failures(&m);
    memory_log_release(&m);
}

/* One allocation fails and those behind it do not: a payload is used again after a failure. */
static void test_payload_again(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    for (int n = 1; n < 6; n++) {
        struct mpp_payload payload = {0};
        countdown = n;
        for (size_t i = 0; i < mpp_reader_block_count(r); i++) {
            int error = mpp_reader_payload(r, i, &payload);
            if (error) assert_int_equal(payload.bytes, 0);
        }
        countdown = 0;
        for (size_t i = 0; i < mpp_reader_block_count(r); i++) assert_int_equal(mpp_reader_payload(r, i, &payload), MPP_OK);
        mpp_payload_release(&payload);
    }
    mpp_reader_free(r);
    memory_log_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_writer), cmocka_unit_test(test_reader), cmocka_unit_test(test_payload_again)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
