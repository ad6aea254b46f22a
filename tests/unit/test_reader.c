#include "memory_log.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static void test_clean(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    struct listing l;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    list_log(r, &l);
    assert_int_equal(l.damages, 0);
    assert_true(l.has_footer);
    assert_int_equal(l.count, 7); /* META, EVENTS, PROC, EVENTS, EVENTS, DEFINITIONS, INDEX */
    assert_sequences(&l, "123");
    assert_int_equal(mpp_reader_log_bytes(r), m.bytes);
    assert_int_equal(mpp_reader_end_time_ns(r), 9000);
    assert_int_equal(mpp_reader_footer_time_ns(r), 9000);
    assert_int_equal(l.info_hash, hash_info(&info));
    assert_null(mpp_reader_block(r, 7));
    assert_null(mpp_reader_damage(r, 0));
    struct mpp_payload payload = {0};
    assert_int_equal(mpp_reader_payload(r, 7, &payload), MPP_ERR_INVALID);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    mpp_reader_free(NULL);
    memory_log_release(&m);
}

static void test_killed(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    struct mpp_block_header h;
    struct listing l;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    list_log(r, &l);
    assert_int_equal(l.damages, 0);
    assert_false(l.has_footer);
    assert_sequences(&l, "12345");
    assert_int_equal(mpp_reader_end_time_ns(r), 5100);
    assert_int_equal(mpp_reader_footer_time_ns(r), 0);

    /* The halves are kept: what the process writes over them later changes nothing. */
    memset(m.data + info.journal_offset, 0xFF, 3 * SMALL_HALF_BYTES);
    size_t i = find_events(r, 4);
    const struct mpp_block_ref *ref = mpp_reader_block(r, i);
    assert_true(ref->in_journal);
    assert_int_equal(mpp_reader_payload(r, i, &payload), MPP_OK);
    assert_int_equal(payload.bytes, ref->header.raw_bytes);
    h = ref->header;
    assert_int_equal(mpp_block_count(&h, payload.data, payload.bytes), MPP_OK);
    assert_int_equal(h.alloc_count, 24);
    assert_int_equal(h.last_time_ns, ref->header.last_time_ns);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* Property: of a changed log, what is read is a part of what stood there, in order; and it is all of it, or damage is reported. */
static void assert_honest(const unsigned char *data, size_t bytes, const struct listing *whole, int may_be_prefix)
{
    struct mpp_reader *r = NULL;
    struct listing l;
    size_t at = 0;

    int error = open_memory(&r, data, bytes);
    if (error) {
        assert_true(error < 0);
        return;
    }
    list_log(r, &l);
    keep_events(&l);
    for (size_t i = 0; i < l.count; i++, at++) {
        while (at < whole->count && (whole->hash[at] != l.hash[i] || whole->sequence[at] != l.sequence[i])) at++;
        if (at == whole->count) fail_msg("a block that the log never held");
    }
    if (l.damages == 0 && !may_be_prefix) {
        assert_int_equal(l.count, whole->count);
        assert_true(l.info_hash == whole->info_hash);
        assert_int_equal(l.has_footer, whole->has_footer);
        assert_int_equal(l.end_time_ns, whole->end_time_ns);
    }
    if (l.damages == 0 && may_be_prefix) {
        for (size_t i = 0; i < l.count; i++) assert_int_equal(l.sequence[i], i + 1);
    }
    mpp_reader_free(r);
}

static void flip_all(enum small_kind kind)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    struct memory_log m;
    struct mpp_log_info info;
    struct listing whole;

    small_log(&m, &info, kind);
    open_and_list(&m, &whole);
    keep_events(&whole);
    for (size_t i = 0; i < m.bytes; i++) {
        for (size_t k = 0; k < COUNT_OF(masks); k++) {
            m.data[i] ^= masks[k];
            assert_honest(m.data, m.bytes, &whole, 0);
            m.data[i] ^= masks[k];
        }
    }
    memory_log_release(&m);
}

static void test_flips_of_clean(void **state)
{
    (void)state;
    flip_all(SMALL_CLEAN);
}

static void test_flips_of_killed(void **state)
{
    (void)state;
    flip_all(SMALL_KILLED);
}

static void cut_all(enum small_kind kind)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct listing whole, l;

    small_log(&m, &info, kind);
    open_and_list(&m, &whole);
    keep_events(&whole);
    for (size_t cut = 0; cut < m.bytes; cut++) {
        /* Exactly so long, so that a sanitizer sees a read behind the end. */
        unsigned char *exact = malloc(cut ? cut : 1);
        struct mpp_reader *r = NULL;
        assert_non_null(exact);
        memcpy(exact, m.data, cut);
        int error = open_memory(&r, exact, cut);
        if (cut == 0)
            assert_int_equal(error, MPP_ERR_EMPTY);
        else if (cut < MPP_HEADER_MIN_BYTES)
            assert_int_equal(error, MPP_ERR_TRUNCATED);
        else
            assert_int_equal(error, MPP_OK);
        if (!error) {
            list_log(r, &l);
            assert_false(l.has_footer);
            if (cut < info.first_block_offset) assert_true(l.damages > 0);
            mpp_reader_free(r);
            assert_honest(exact, cut, &whole, 1);
        }
        free(exact);
    }
    memory_log_release(&m);
}

static void test_cuts_of_clean(void **state)
{
    (void)state;
    cut_all(SMALL_CLEAN);
}

static void test_cuts_of_killed(void **state)
{
    (void)state;
    cut_all(SMALL_KILLED);
}

/* Killed in the midst of the write() of block 4, whose half still stands: nothing is lost, and nothing is said. */
static void test_torn_block(void **state)
{
    struct memory_log m, other = {0};
    struct mpp_sink sink = memory_sink(&other);
    struct mpp_log_info info, other_info;
    struct mpp_writer *w = NULL;
    struct mpp_block_header h;
    unsigned char payload[SMALL_MAX_BYTES];
    size_t bytes;
    struct listing l;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    small_info(&other_info, 0);
    assert_int_equal(mpp_writer_new(&w, &sink, &other_info, SMALL_MAX_BYTES), MPP_OK);
    size_t start = (size_t)mpp_writer_bytes(w), end = m.bytes;
    small_payload(payload, &bytes, &h, 4, 1 + 21 + 22 + 23, 24);
    assert_int_equal(mpp_writer_append(w, &h, payload, bytes), MPP_OK);
    size_t block_bytes = (size_t)mpp_writer_bytes(w) - start;
    for (size_t cut = 1; cut <= block_bytes; cut++) {
        m.bytes = end;
        assert_int_equal(memory_write_at(&m, other.data + start, cut, end), MPP_OK);
        open_and_list(&m, &l);
        assert_int_equal(l.damages, 0);
        assert_sequences(&l, "12345");
    }
    /* Its half is gone: now it is damage, with what its header tells. */
    memset(m.data + info.journal_offset, 0, 3 * SMALL_HALF_BYTES);
    for (size_t cut = 1; cut < block_bytes; cut++) {
        struct mpp_reader *r = NULL;
        assert_int_equal(open_memory(&r, m.data, end + cut), MPP_OK);
        assert_int_equal(mpp_reader_damage_count(r), 1);
        const struct mpp_damage *d = mpp_reader_damage(r, 0);
        assert_int_equal(d->kind, MPP_DAMAGE_BLOCK);
        assert_int_equal(d->offset, end);
        assert_int_equal(d->end_offset, end + cut);
        assert_int_equal(d->counts_known, cut >= MPP_BLOCK_HEADER_BYTES);
        assert_int_equal(d->first_time_ns, cut >= MPP_BLOCK_HEADER_BYTES ? 4000 : 3100);
        if (d->counts_known) {
            assert_int_equal(d->sequence, 4);
            assert_int_equal(d->alloc_count, 24);
            assert_int_equal(d->free_count, 1);
        }
        mpp_reader_free(r);
    }
    mpp_writer_free(w);
    memory_log_release(&other);
    memory_log_release(&m);
}

static void test_damaged_payload(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    size_t offset, bytes;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    locate(&m, 2, &offset, &bytes);
    m.data[offset + bytes - 1] ^= 1;
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 0);
    size_t i = find_events(r, 2);
    assert_int_equal(mpp_reader_payload(r, i, &payload), MPP_ERR_DAMAGED);
    assert_int_equal(payload.bytes, 0);
    assert_int_equal(mpp_reader_payload(r, i + 1, &payload), MPP_OK);
    struct mpp_damage d = {.kind = MPP_DAMAGE_PAYLOAD, .offset = offset};
    for (int n = 0; n < 100; n++) assert_int_equal(mpp_reader_add_damage(r, &d), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 100);
    assert_int_equal(mpp_reader_damage(r, 99)->offset, offset);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* Sound headers over payloads that are not what they say. */
static void test_hostile_payloads(void **state)
{
    struct memory_log m;
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    unsigned char frame[200], two[400], raw[1000] = {0}, skippable[16] = {0x50, 0x2A, 0x4D, 0x18, 8};
    struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .compression = MPP_COMPRESSION_ZSTD, .first_serial = 1};
    size_t n = ZSTD_compress(frame, sizeof(frame), raw, sizeof(raw), 1);

    (void)state;
    memcpy(two, frame, n);
    memcpy(two + n, frame, n);
    start_log(&m);
    h.sequence = 1, h.raw_bytes = sizeof(raw);
    put_raw_block(&m, h, frame, n);
    h.sequence++, h.raw_bytes = sizeof(raw) - 1; /* more comes out */
    put_raw_block(&m, h, frame, n);
    h.sequence++, h.raw_bytes = sizeof(raw) + 1; /* less comes out */
    put_raw_block(&m, h, frame, n);
    h.sequence++, h.raw_bytes = 0;
    put_raw_block(&m, h, frame, n);
    h.sequence++, h.raw_bytes = 2 * sizeof(raw); /* two frames */
    put_raw_block(&m, h, two, 2 * n);
    h.sequence++, h.raw_bytes = sizeof(raw);
    put_raw_block(&m, h, two, n + 3); /* something behind the frame */
    h.sequence++;
    put_raw_block(&m, h, two, n - 1); /* not the whole frame */
    h.sequence++;
    put_raw_block(&m, h, raw, sizeof(raw)); /* no frame */
    h.sequence++, h.raw_bytes = MPP_BLOCK_MAX_BYTES;
    put_raw_block(&m, h, skippable, sizeof(skippable));
    h.sequence++, h.compression = 2; /* a compression of later days */
    put_raw_block(&m, h, frame, n);
    h.sequence++, h.compression = MPP_COMPRESSION_NONE, h.raw_bytes = sizeof(raw); /* not as long as it says */
    put_raw_block(&m, h, raw, sizeof(raw) - 1);
    h.sequence++;
    put_raw_block(&m, h, raw, sizeof(raw));

    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 0);
    assert_int_equal(mpp_reader_block_count(r), 1 + h.sequence);
    for (size_t i = 1; i <= h.sequence; i++)
        assert_int_equal(mpp_reader_payload(r, i, &payload), i == 1 || i == h.sequence ? MPP_OK : MPP_ERR_DAMAGED);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
    memory_log_release(&m);
}

static void test_footer(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_footer footer = {.index_offset = 4096, .end_time_ns = 9000};
    struct mpp_reader *r = NULL;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    mpp_footer_encode(&footer, m.data + m.bytes - MPP_FOOTER_BYTES); /* no index there */
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 1);
    assert_int_equal(mpp_reader_damage(r, 0)->kind, MPP_DAMAGE_FOOTER);
    assert_int_equal(mpp_reader_has_footer(r), 1);
    mpp_reader_free(r);
    m.data[m.bytes - 1] ^= 1; /* not sound */
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 1);
    assert_int_equal(mpp_reader_damage(r, 0)->kind, MPP_DAMAGE_FOOTER);
    assert_int_equal(mpp_reader_damage(r, 0)->offset, m.bytes - MPP_FOOTER_BYTES);
    assert_int_equal(mpp_reader_has_footer(r), 0);
    assert_int_equal(mpp_reader_end_time_ns(r), 3100);
    mpp_reader_free(r);
    memory_log_release(&m);
}

static void test_files(void **state)
{
    char directory[] = "/tmp/mpp-test-XXXXXX", path[64];
    struct mpp_source source;
    struct mpp_reader *r = NULL;
    struct memory_log m;
    struct mpp_log_info info;
    struct listing in_memory, in_file;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(mpp_source_file(&source, directory), MPP_ERR_IO);
    assert_int_equal(errno, EISDIR);
    snprintf(path, sizeof(path), "%s/log", directory);
    assert_int_equal(mpp_source_file(&source, path), MPP_ERR_IO);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mpp_source_file(&source, path), MPP_ERR_IO);
    assert_int_equal(errno, ESPIPE);
    assert_int_equal(unlink(path), 0);

    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(mpp_source_file(&source, path), MPP_OK);
    assert_int_equal(mpp_reader_open(&r, &source), MPP_ERR_EMPTY);
    assert_int_equal(pwrite(fd, "hello, world", 12, 0), 12);
    assert_int_equal(mpp_source_file(&source, path), MPP_OK);
    assert_int_equal(mpp_reader_open(&r, &source), MPP_ERR_NOT_A_LOG);

    small_log(&m, &info, SMALL_KILLED);
    open_and_list(&m, &in_memory);
    assert_int_equal(pwrite(fd, m.data, m.bytes, 0), m.bytes);
    assert_int_equal(mpp_source_file(&source, path), MPP_OK);
    assert_int_equal(mpp_reader_open(&r, &source), MPP_OK);
    list_log(r, &in_file);
    assert_memory_equal(in_file.hash, in_memory.hash, in_file.count * sizeof(in_file.hash[0]));
    assert_int_equal(in_file.damages, 0);
    assert_int_equal(in_file.count, in_memory.count);
    /* A log that shrinks under its reader: damage, never a signal. */
    assert_int_equal(ftruncate(fd, 5000), 0);
    list_log(r, &in_file);
    assert_int_equal(in_file.count, 2); /* the halves, which were copied */
    mpp_reader_free(r);
    close(fd);
    unlink(path);
    rmdir(directory);
    memory_log_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),           cmocka_unit_test(test_killed),          cmocka_unit_test(test_flips_of_clean),
        cmocka_unit_test(test_flips_of_killed), cmocka_unit_test(test_cuts_of_clean),   cmocka_unit_test(test_cuts_of_killed),
        cmocka_unit_test(test_torn_block),      cmocka_unit_test(test_damaged_payload), cmocka_unit_test(test_hostile_payloads),
        cmocka_unit_test(test_footer),          cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
