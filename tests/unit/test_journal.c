/* The journal as a reader meets it: of a killed process, damaged, and while it is written. */
#include "formats/wire.h"
#include "memory_log.h"

static unsigned char *half(const struct memory_log *m, const struct mpp_log_info *info, uint64_t sequence)
{
    return m->data + info->journal_offset + (sequence % info->journal_half_count) * info->journal_half_bytes;
}

/* Opens the log; expects `damages` reports, all of the journal, and the EVENTS blocks of the sequences `history`. */
static void expect(const struct memory_log *m, size_t damages, const char *history, struct mpp_damage *first)
{
    struct mpp_reader *r = NULL;
    struct listing l;

    assert_int_equal(open_memory(&r, m->data, m->bytes), MPP_OK);
    list_log(r, &l);
    assert_sequences(&l, history);
    assert_int_equal(l.damages, damages);
    for (size_t i = 0; i < mpp_reader_damage_count(r); i++) assert_int_equal(mpp_reader_damage(r, i)->kind, MPP_DAMAGE_JOURNAL);
    if (first) *first = *mpp_reader_damage(r, 0);
    mpp_reader_free(r);
}

/* small_log(SMALL_KILLED): blocks 1 to 3 are sealed; the halves hold 3 (stale), 4 and 5. */
static void test_damaged_halves(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_damage d;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    unsigned char *four = half(&m, &info, 4), *five = half(&m, &info, 5), *three = half(&m, &info, 3);
    expect(&m, 0, "12345", NULL);

    five[MPP_HALF_HEADER_BYTES + 3] ^= 1;
    expect(&m, 1, "1234", &d);
    assert_int_equal(d.sequence, 5);
    assert_int_equal(d.offset, five - m.data);
    assert_int_equal(d.end_offset, five - m.data + SMALL_HALF_BYTES);
    assert_int_equal(d.first_time_ns, 5000);
    five[MPP_HALF_HEADER_BYTES + 3] ^= 1;

    four[MPP_HALF_HEADER_BYTES + 3] ^= 1; /* it costs itself only */
    expect(&m, 1, "1235", NULL);
    four[MPP_HALF_HEADER_BYTES + 3] ^= 1;

    four[8] ^= 1; /* its header: nothing tells then that 5 follows */
    expect(&m, 2, "123", NULL);
    four[8] ^= 1;

    five[0] ^= 1;
    expect(&m, 1, "1234", &d);
    assert_int_equal(d.sequence, 0);
    five[0] ^= 1;

    three[MPP_HALF_HEADER_BYTES] ^= 1; /* stale: it does not matter */
    expect(&m, 0, "12345", NULL);
    three[8] ^= 1; /* that it is stale is not known any more */
    expect(&m, 1, "12345", NULL);
    memset(three + MPP_HALF_COMMIT_OFFSET, 0, 8); /* being written anew */
    expect(&m, 0, "12345", NULL);
    memset(four + MPP_HALF_COMMIT_OFFSET, 0, 8); /* begun, and nothing in it: no hole */
    expect(&m, 0, "1235", NULL);
    memset(four, 0, MPP_HALF_HEADER_BYTES); /* a hole */
    expect(&m, 1, "123", NULL);
    memset(five + MPP_HALF_COMMIT_OFFSET, 0, 8);
    expect(&m, 0, "123", NULL);
    memory_log_release(&m);
}

static void set_commit(unsigned char *at, uint32_t bytes)
{
    uint32_t crc = bytes < SMALL_HALF_BYTES ? mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, at + MPP_HALF_HEADER_BYTES, bytes)) : 0;

    mpp_put_u64(at + MPP_HALF_COMMIT_OFFSET, bytes | (uint64_t)crc << 32);
}

static void test_commit_words(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    unsigned char *five = half(&m, &info, 5);
    set_commit(five, 5); /* fewer than stand there: only committed bytes count */
    expect(&m, 0, "12345", NULL);
    set_commit(five, SMALL_HALF_BYTES - MPP_HALF_HEADER_BYTES);
    expect(&m, 0, "12345", NULL);
    mpp_put_u64(five + MPP_HALF_COMMIT_OFFSET, SMALL_HALF_BYTES - MPP_HALF_HEADER_BYTES + 1);
    expect(&m, 1, "1234", NULL);
    mpp_put_u64(five + MPP_HALF_COMMIT_OFFSET, UINT64_MAX);
    expect(&m, 1, "1234", NULL);
    mpp_put_u64(five + MPP_HALF_COMMIT_OFFSET, UINT64_C(1) << 40); /* a checksum of nothing */
    expect(&m, 1, "1234", NULL);
    memory_log_release(&m);
}

static void test_wrong_sequences(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_block_header h;
    unsigned char payload[SMALL_MAX_BYTES];
    size_t bytes;

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    small_payload(payload, &bytes, &h, 4, 1000, 5);
    put_half(&m, &info, 0, &h, payload, bytes); /* 4 twice, and the first one found has other serials: 5's are below them */
    expect(&m, 2, "1234", NULL);
    small_payload(payload, &bytes, &h, 6, 1000, 5);
    put_half(&m, &info, 0, &h, payload, bytes);
    expect(&m, 0, "123456", NULL);
    small_payload(payload, &bytes, &h, 7, 1000, 5);
    put_half(&m, &info, 0, &h, payload, bytes);
    expect(&m, 1, "12345", NULL);
    small_payload(payload, &bytes, &h, 4, 1, 5); /* serials that have been reached */
    put_half(&m, &info, 1, &h, payload, bytes);
    expect(&m, 2, "1235", NULL); /* 4, and 7 which does not follow */
    memory_log_release(&m);
}

/* A clean end, whose process was killed before it had zeroed the journal. */
static void test_stale_behind_footer(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_block_header h;
    unsigned char payload[SMALL_MAX_BYTES];
    size_t bytes;

    (void)state;
    small_log(&m, &info, SMALL_CLEAN);
    small_payload(payload, &bytes, &h, 2, 1, 5);
    put_half(&m, &info, 0, &h, payload, bytes);
    small_payload(payload, &bytes, &h, 3, 1, 5);
    put_half(&m, &info, 1, &h, payload, bytes);
    expect(&m, 0, "123", NULL);

    /* Behind a footer nothing may be torn, whatever the journal holds. */
    struct mpp_reader *r = NULL;
    small_payload(payload, &bytes, &h, 4, 5000, 5);
    put_half(&m, &info, 0, &h, payload, bytes);
    memmove(m.data + m.bytes - MPP_FOOTER_BYTES - 1, m.data + m.bytes - MPP_FOOTER_BYTES, MPP_FOOTER_BYTES);
    m.bytes--;
    assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
    assert_true(mpp_reader_has_footer(r));
    assert_true(mpp_reader_damage_count(r) > 0);
    assert_int_equal(mpp_reader_damage(r, 0)->kind, MPP_DAMAGE_BLOCK);
    mpp_reader_free(r);
    memory_log_release(&m);
}

/* A log that is written while it is read: every few reads its process does its next step. */
#define LIVE_BLOCKS 9
#define LIVE_STEPS  256

struct live {
    struct memory_log now;
    struct memory_log step[LIVE_STEPS];
    size_t step_count, at;
    unsigned reads, reads_per_leap, steps_per_leap;
    unsigned char payload[LIVE_BLOCKS + 1][SMALL_MAX_BYTES];
    size_t payload_bytes[LIVE_BLOCKS + 1];
};

static void take_step(struct live *live)
{
    struct memory_log *copy = &live->step[live->step_count++];

    assert_true(live->step_count < LIVE_STEPS);
    *copy = live->now;
    copy->data = malloc(copy->bytes);
    assert_non_null(copy->data);
    memcpy(copy->data, live->now.data, copy->bytes);
}

/* Every state of a log of LIVE_BLOCKS blocks and two halves, in the order in which FORMAT.md §3 lets its process write. */
static void record_live(struct live *live)
{
    struct mpp_sink sink = memory_sink(&live->now);
    struct mpp_log_info info;
    struct mpp_writer *w = NULL;
    struct mpp_block_header h;
    uint64_t serial = 1;

    small_info(&info, 2);
    assert_int_equal(mpp_writer_new(&w, &sink, &info, SMALL_MAX_BYTES), MPP_OK);
    take_step(live);
    for (uint64_t sequence = 1; sequence <= LIVE_BLOCKS; sequence++) {
        unsigned char *payload = live->payload[sequence], *at = half(&live->now, &info, sequence);
        serial = small_payload(payload, &live->payload_bytes[sequence], &h, sequence, serial, 20);
        memset(at + MPP_HALF_COMMIT_OFFSET, 0, 8);
        take_step(live);
        mpp_half_header_encode(at, sequence, h.first_serial, h.first_time_ns);
        take_step(live);
        static const size_t cuts[] = {3, 9, 23}; /* ends of records */
        for (size_t i = 0; i < COUNT_OF(cuts); i++) {
            size_t bytes = i + 1 < COUNT_OF(cuts) ? cuts[i] : live->payload_bytes[sequence];
            memcpy(at + MPP_HALF_HEADER_BYTES, payload, bytes);
            take_step(live);
            set_commit(at, (uint32_t)bytes);
            take_step(live);
        }
        if (sequence < 2) continue;
        /* The next half is begun only when the block before this one is in the file; at first a part of it. */
        struct mpp_block_header before = {.kind = MPP_BLOCK_EVENTS, .sequence = sequence - 1};
        before.first_serial = h.first_serial - 20;
        before.first_time_ns = (sequence - 1) * 1000;
        assert_int_equal(mpp_block_count(&before, live->payload[sequence - 1], live->payload_bytes[sequence - 1]), MPP_OK);
        size_t bytes = live->now.bytes;
        assert_int_equal(mpp_writer_append(w, &before, live->payload[sequence - 1], live->payload_bytes[sequence - 1]), MPP_OK);
        size_t whole = live->now.bytes;
        live->now.bytes = bytes + 60;
        take_step(live);
        live->now.bytes = whole - 5;
        take_step(live);
        live->now.bytes = whole;
        take_step(live);
    }
    mpp_writer_free(w);
}

static const struct memory_log *live_now(struct live *live)
{
    if (++live->reads % live->reads_per_leap == 0) live->at += live->steps_per_leap;
    if (live->at >= live->step_count) live->at = live->step_count - 1;
    return &live->step[live->at];
}

static int64_t live_read_at(void *context, void *data, size_t bytes, uint64_t offset)
{
    const struct memory_log *m = live_now(context);

    if (offset >= m->bytes) return 0;
    if (bytes > m->bytes - offset) bytes = m->bytes - (size_t)offset;
    memcpy(data, m->data + offset, bytes);
    return (int64_t)bytes;
}

static int64_t live_size(void *context)
{
    return (int64_t)live_now(context)->bytes;
}

/* Property: whenever a log is opened, however fast it grows meanwhile, what is read is the beginning of its history, at least up to where it stood
 * when the reading began, and nothing is reported. */
static void open_live(struct live *live, size_t start)
{
    struct mpp_source source = {.read_at = live_read_at, .size = live_size, .context = live};
    struct mpp_reader *r = NULL;
    struct mpp_payload payload = {0};
    uint64_t sequence = 0;
    int is_whole = 1;

    assert_int_equal(open_memory(&r, live->step[start].data, live->step[start].bytes), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 0);
    uint64_t stood = mpp_reader_block(r, mpp_reader_block_count(r) - 1)->header.sequence;
    mpp_reader_free(r);

    live->at = start;
    live->reads = 0;
    assert_int_equal(mpp_reader_open(&r, &source), MPP_OK);
    assert_int_equal(mpp_reader_damage_count(r), 0);
    for (size_t i = 0; i < mpp_reader_block_count(r); i++) {
        const struct mpp_block_header *h = &mpp_reader_block(r, i)->header;
        if (h->kind != MPP_BLOCK_EVENTS) continue;
        assert_int_equal(h->sequence, ++sequence);
        assert_true(is_whole); /* the one before */
        assert_int_equal(mpp_reader_payload(r, i, &payload), MPP_OK);
        assert_true(payload.bytes <= live->payload_bytes[sequence]);
        assert_memory_equal(payload.data, live->payload[sequence], payload.bytes);
        is_whole = payload.bytes == live->payload_bytes[sequence];
    }
    assert_true(sequence >= stood);
    mpp_payload_release(&payload);
    mpp_reader_free(r);
}

static void test_live(void **state)
{
    static struct live live;

    (void)state;
    record_live(&live);
    for (live.reads_per_leap = 1; live.reads_per_leap <= 30; live.reads_per_leap++)
        for (live.steps_per_leap = 1; live.steps_per_leap <= 14; live.steps_per_leap++)
            for (size_t start = 0; start < live.step_count; start++) open_live(&live, start);
    for (size_t i = 0; i < live.step_count; i++) free(live.step[i].data);
    memory_log_release(&live.now);
}

/* A torn block whose header tells that no half holds it. */
static void test_torn_elsewhere(void **state)
{
    struct memory_log m;
    struct mpp_log_info info;
    struct mpp_reader *r = NULL;
    static const uint64_t sequences[] = {4, 5, 6, 9};

    (void)state;
    small_log(&m, &info, SMALL_KILLED);
    size_t end = m.bytes;
    for (size_t i = 0; i < COUNT_OF(sequences); i++) {
        unsigned char header[MPP_BLOCK_HEADER_BYTES];
        struct mpp_block_header h = {.kind = MPP_BLOCK_EVENTS, .sequence = sequences[i], .stored_bytes = 10, .raw_bytes = 10, .alloc_count = 7};
        mpp_block_header_encode(&h, header);
        assert_int_equal(memory_write_at(&m, header, sizeof(header), end), MPP_OK);
        assert_int_equal(open_memory(&r, m.data, m.bytes), MPP_OK);
        assert_int_equal(mpp_reader_damage_count(r), sequences[i] == 4 || sequences[i] == 5 ? 0 : 1);
        if (mpp_reader_damage_count(r)) assert_int_equal(mpp_reader_damage(r, 0)->alloc_count, 7);
        mpp_reader_free(r);
    }
    memory_log_release(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_halves),      cmocka_unit_test(test_commit_words), cmocka_unit_test(test_wrong_sequences),
        cmocka_unit_test(test_stale_behind_footer), cmocka_unit_test(test_live),         cmocka_unit_test(test_torn_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
