/* Property: reading ahead on a thread changes nothing: at every moment the state is that of one who reads alone, damage and errors come in the same
 * order, and a replay can be given up at any time. */
#include "book.h"

static struct book book;
static uint64_t state_of_random;

static uint64_t below(uint64_t limit)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (state_of_random >> 33) % limit;
}

/* Many more records than are on their way at a time, of all kinds that batches know and some that they do not. */
static void write_records(unsigned blocks, unsigned records)
{
    for (unsigned block = 0; block < blocks; block++) {
        if (block % 7 == 3) book_block(&book, book.next_serial + below(100), book.time_ns / 2); /* a hole, and a time that runs back */
        for (unsigned i = 0; i < records; i++) {
            uint64_t dice = below(100), serial = 1 + below(book.next_serial + (dice % 9 == 0));
            if (dice < 40) {
                book_alloc(&book, 1 + (uint32_t)below(70));
            } else if (dice < 44) {
                book_alloc_weighted(&book, 1 + (uint32_t)below(3), 1 + (uint32_t)below(1000));
            } else if (dice < 70) {
                book_free(&book, serial);
            } else if (dice < 76) {
                book_free_sized(&book, serial, below(UINT64_C(1) << below(40)));
            } else if (dice < 86) {
                book_size(&book, serial, below(UINT64_C(1) << below(40)));
            } else if (dice < 96) {
                book_time(&book, below(1000));
            } else if (dice < 97) {
                book_reclass(&book, serial, 1 + (uint32_t)below(9));
            } else if (dice < 98) {
                book_gc(&book, i, (int)below(2));
            } else if (dice < 99) {
                book_live(&book, serial, 2, below(5000), 1, 3);
            } else if (below(60) == 0) {
                book_gap(&book);
            }
        }
        if (block % 11 == 5) *book.at++ = 0; /* no record: what follows in the block is lost */
        size_t bytes = (size_t)(book.at - book.payload);
        struct mpp_block_header h = book.header;
        h.kind = MPP_BLOCK_EVENTS;
        h.sequence = ++book.sequence;
        h.last_time_ns = book.time_ns;
        assert_int_equal(mpp_writer_append(book.writer, &h, book.payload, bytes), MPP_OK);
        if (block % 13 == 6) book.file.data[book.file.bytes - 9] ^= 1; /* its payload is damaged */
        book_block(&book, book.next_serial, book.time_ns);
    }
}

static int setup(void **state)
{
    (void)state;
    state_of_random = 7;
    book_init(&book);
    for (uint32_t id = 1; id <= 60; id++) book_site(&book, id, 0, id % 5, MPP_TYPE_STRING, 40u << id % 4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    book_release(&book);
    return 0;
}

static void open_log(struct log *l)
{
    struct mpp_source source;

    mpp_source_memory(&source, book.file.data, book.file.bytes);
    assert_int_equal(log_open_source(l, "book", &source), 0);
}

static void assert_same(struct replay *a, struct replay *b)
{
    struct counters x = heap_totals(&a->heap), y = heap_totals(&b->heap);

    assert_memory_equal(&x, &y, sizeof x);
    assert_memory_equal(a->record_counts, b->record_counts, sizeof a->record_counts);
    assert_int_equal(a->history.position, b->history.position);
    assert_int_equal(a->history.time_ns, b->history.time_ns);
    assert_int_equal(replay_next_serial(a), replay_next_serial(b));
    assert_int_equal(a->heap.live_bytes, b->heap.live_bytes);
    assert_int_equal(a->heap.live_objects, b->heap.live_objects);
    assert_int_equal(counters_live_bytes(&x), a->heap.live_bytes);
    assert_int_equal(counters_live_objects(&x), a->heap.live_objects);
    assert_int_equal(a->heap.peak_bytes, b->heap.peak_bytes);
    assert_int_equal(a->heap.peak_objects, b->heap.peak_objects);
    assert_int_equal(a->heap.peak_position, b->heap.peak_position);
    assert_int_equal(a->heap.peak_time_ns, b->heap.peak_time_ns);
    assert_int_equal(a->heap.orphan_count, b->heap.orphan_count);
}

static void assert_same_damage(const struct log *a, const struct log *b)
{
    size_t count = mpp_reader_damage_count(a->reader);

    assert_int_equal(count, mpp_reader_damage_count(b->reader));
    for (size_t i = 0; i < count; i++) {
        const struct mpp_damage *x = mpp_reader_damage(a->reader, i), *y = mpp_reader_damage(b->reader, i);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->offset, y->offset);
    }
}

/* One goes in steps of any length, by position or by time, the other straight to the same moment. */
static void test_a_thread_changes_nothing(void **state)
{
    struct log stepped_log, straight_log;
    struct replay stepped, straight;
    uint64_t position = 0;

    (void)state;
    write_records(40, 1500);
    open_log(&stepped_log);
    replay_init(&stepped, &stepped_log);
    stepped.threads = FEED_AHEAD;
    for (int step = 0; step < 60; step++) {
        position += step % 3 ? below(2000) : below(3);
        struct moment m = {.position = step % 5 == 4 ? UINT64_MAX : position,
                           .time_ns = step % 5 == 4 ? stepped.history.time_ns + below(9000) : UINT64_MAX};
        if (step == 59) m = MOMENT_END;
        assert_int_equal(replay_run(&stepped, m), 0);
        open_log(&straight_log);
        replay_init(&straight, &straight_log);
        straight.threads = FEED_ALONE;
        assert_int_equal(replay_run(&straight, m), 0);
        if (replay_is_past(&stepped, m)) {
            assert_true(stepped.history.position > straight.history.position);
        } else {
            assert_same(&stepped, &straight);
            assert_same_damage(&stepped_log, &straight_log);
        }
        if (stepped.history.position > position) position = stepped.history.position;
        replay_release(&straight);
        log_close(&straight_log);
    }
    assert_true(stepped.history.position > 30000);
    assert_true(mpp_reader_damage_count(stepped_log.reader) >= 6);
    replay_release(&stepped);
    log_close(&stepped_log);
}

static void test_the_rest_is_counted_alike(void **state)
{
    uint64_t counts[2];

    (void)state;
    write_records(30, 1500);
    for (int i = 0; i < 2; i++) {
        struct log l;
        struct replay r;
        open_log(&l);
        replay_init(&r, &l);
        r.threads = i ? FEED_AHEAD : FEED_ALONE;
        assert_int_equal(replay_run(&r, (struct moment){.position = 777, .time_ns = UINT64_MAX}), 0);
        assert_int_equal(replay_finish(&r, &counts[i]), 0);
        replay_release(&r);
        log_close(&l);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_true(counts[0] > 20000);
}

/* Wherever it is: before its first batch, while it waits for room, at its end. */
static void test_it_can_be_given_up(void **state)
{
    (void)state;
    write_records(40, 1500);
    for (uint64_t position = 0; position < 70000; position += 1 + position) {
        struct log l;
        struct replay r;
        open_log(&l);
        replay_init(&r, &l);
        r.threads = FEED_AHEAD;
        assert_int_equal(replay_run(&r, (struct moment){.position = position, .time_ns = UINT64_MAX}), 0);
        replay_release(&r);
        log_close(&l);
    }
}

/* A source that fails once its last bytes are asked for. */
static uint64_t fails_from;
static int64_t failing_read_at(void *context, void *data, size_t bytes, uint64_t offset)
{
    (void)context;
    if (offset >= fails_from) {
        errno = EIO;
        return MPP_ERR_IO;
    }
    if (offset >= book.file.bytes) return 0;
    if (bytes > book.file.bytes - offset) bytes = book.file.bytes - (size_t)offset;
    memcpy(data, book.file.data + offset, bytes);
    return (int64_t)bytes;
}

static int64_t failing_size(void *context)
{
    (void)context;
    return (int64_t)book.file.bytes;
}

static void test_a_read_error_keeps_its_cause(void **state)
{
    const struct mpp_source source = {.read_at = failing_read_at, .size = failing_size};
    uint64_t positions[2];

    (void)state;
    /* Without them, the first use of an undefined site would read all the log for it. */
    for (uint32_t id = 61; id <= 70; id++) book_site(&book, id, 0, 1, MPP_TYPE_STRING, 40);
    write_records(20, 1500);
    for (int i = 0; i < 2; i++) {
        struct log l;
        struct replay r;
        fails_from = UINT64_MAX;
        assert_int_equal(log_open_source(&l, "book", &source), 0);
        fails_from = book.file.bytes / 2;
        replay_init(&r, &l);
        r.threads = i ? FEED_AHEAD : FEED_ALONE;
        errno = 0;
        assert_int_equal(replay_run(&r, MOMENT_END), MPP_ERR_IO);
        assert_int_equal(errno, EIO);
        positions[i] = r.history.position;
        replay_release(&r);
        log_close(&l);
    }
    assert_int_equal(positions[0], positions[1]);
    assert_true(positions[0] > 3000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_thread_changes_nothing),
        TEST(test_the_rest_is_counted_alike),
        TEST(test_it_can_be_given_up),
        TEST(test_a_read_error_keeps_its_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
