/* The rules of FORMAT.md §7, one by one, over logs in memory. */
#include "analyzer/group.h"
#include "book.h"

static struct book book;
static struct replay replay;

static int setup(void **state)
{
    (void)state;
    book_init(&book);
    book_site(&book, 1, 0, 0, MPP_TYPE_STRING, 40);
    book_site(&book, 2, 0, 1, MPP_TYPE_ARRAY, 80);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    replay_release(&replay);
    book_release(&book);
    return 0;
}

/* Ends the log and replays it up to `m`. */
static void run(struct moment m)
{
    replay_init(&replay, book_open(&book, book.time_ns));
    assert_int_equal(replay_run(&replay, m), 0);
}

static struct counters of_site(uint32_t id)
{
    return heap_site_counters(&replay.heap, id_map_find(&book.log.definitions.site_ids, id));
}

#define assert_counters(n, ao, ab, fo, fb, uo, ub)                                                                                                   \
    do {                                                                                                                                             \
        struct counters got = (n);                                                                                                                   \
        assert_int_equal(got.allocated_objects, ao);                                                                                                 \
        assert_int_equal(got.allocated_bytes, ab);                                                                                                   \
        assert_int_equal(got.freed_objects, fo);                                                                                                     \
        assert_int_equal(got.freed_bytes, fb);                                                                                                       \
        assert_int_equal(got.unknown_objects, uo);                                                                                                   \
        assert_int_equal(got.unknown_bytes, ub);                                                                                                     \
    } while (0)

static void test_empty_log(void **state)
{
    (void)state;
    book.at = book.payload;
    run(MOMENT_END);
    assert_int_equal(replay.history.position, 0);
    assert_counters(heap_totals(&replay.heap), 0, 0, 0, 0, 0, 0);
}

static void test_alloc_and_free(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_alloc(&book, 1);
    book_alloc(&book, 2);
    book_free(&book, a);
    run(MOMENT_END);
    assert_counters(of_site(1), 2, 80, 1, 40, 0, 0);
    assert_counters(of_site(2), 1, 80, 0, 0, 0, 0);
    assert_counters(heap_totals(&replay.heap), 3, 160, 1, 40, 0, 0);
    assert_int_equal(replay.history.position, 6);
}

static void test_weight_counts_for_many(void **state)
{
    (void)state;
    uint64_t a = book_alloc_weighted(&book, 1, 10);
    book_size(&book, a, 100);
    book_size(&book, a, 60);
    book_free(&book, a);
    run(MOMENT_END);
    assert_counters(of_site(1), 10, 1000, 10, 1000, 0, 0);
}

static void test_size_grows_and_shrinks(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_size(&book, a, 140);
    book_size(&book, a, 90);
    run(MOMENT_END);
    assert_counters(of_site(1), 1, 140, 0, 50, 0, 0);
    assert_int_equal(replay.heap.live_bytes, 90);
}

static void test_free_sized_is_size_then_free(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1), b = book_alloc(&book, 1);
    book_free_sized(&book, a, 500);
    book_free_sized(&book, b, 10);
    run(MOMENT_END);
    assert_counters(of_site(1), 2, 540, 2, 540, 0, 0);
}

static void test_peak_is_never_within_a_free_sized(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1); /* position 3 */
    book_free_sized(&book, a, 100000);
    book_alloc(&book, 1);
    run(MOMENT_END);
    assert_int_equal(replay.heap.peak_bytes, 40);
    assert_int_equal(replay.heap.peak_position, 3);
}

static void test_peak_is_the_earliest(void **state)
{
    (void)state;
    book_time(&book, 5);
    uint64_t a = book_alloc(&book, 2); /* position 4 */
    book_time(&book, 5);
    book_free(&book, a);
    book_alloc(&book, 2);
    run(MOMENT_END);
    assert_int_equal(replay.heap.peak_bytes, 80);
    assert_int_equal(replay.heap.peak_objects, 1);
    assert_int_equal(replay.heap.peak_position, 4);
    assert_int_equal(replay.heap.peak_time_ns, 5);
}

static void test_peak_by_a_size(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_size(&book, a, 1000); /* position 4 */
    book_size(&book, a, 10);
    run(MOMENT_END);
    assert_int_equal(replay.heap.peak_bytes, 1000);
    assert_int_equal(replay.heap.peak_position, 4);
}

static void test_reclass_moves_the_object(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_alloc(&book, 1);
    book_size(&book, a, 100);
    book_size(&book, a, 70);
    book_reclass(&book, a, 9);
    run(MOMENT_END);
    /* Its growth stays where it was, its present size goes. */
    assert_counters(of_site(1), 1, 70, 0, 30, 0, 0);
    uint32_t moved = definitions_reclass(&book.log.definitions, id_map_find(&book.log.definitions.site_ids, 1), 9);
    assert_counters(heap_site_counters(&replay.heap, moved), 1, 70, 0, 0, 0, 0);
    assert_counters(heap_totals(&replay.heap), 2, 140, 0, 30, 0, 0);
}

static void test_reclass_back_and_forth(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 2);
    book_reclass(&book, a, 5);
    book_reclass(&book, a, 6);
    book_reclass(&book, a, 1);
    run(MOMENT_END);
    assert_counters(of_site(2), 1, 80, 0, 0, 0, 0);
}

static void test_gap_makes_unknown(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1), b = book_alloc(&book, 1), c = book_alloc(&book, 1);
    book_gap(&book);
    uint64_t d = book_alloc(&book, 1);
    book_free(&book, a);
    book_size(&book, b, 100);
    book_size(&book, c, 10);
    run(MOMENT_END);
    assert_counters(of_site(1), 4, 220, 1, 70, 2, 110);
    assert_int_equal(replay.heap.live_objects, 1);
    assert_int_equal(replay.heap.live_bytes, 40);
    assert_true(heap_unknown(&replay.heap, b, NULL));
    assert_false(heap_unknown(&replay.heap, d, NULL));
}

static void test_gap_over_unknown_and_reclassed(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_gap(&book);
    book_reclass(&book, a, 9);
    uint64_t b = book_alloc(&book, 2);
    book_gap(&book);
    book_free(&book, b);
    run(MOMENT_END);
    assert_counters(of_site(1), 0, 0, 0, 0, 0, 0);
    uint32_t moved = definitions_reclass(&book.log.definitions, id_map_find(&book.log.definitions.site_ids, 1), 9);
    assert_counters(heap_site_counters(&replay.heap, moved), 1, 40, 0, 0, 1, 40);
    assert_counters(of_site(2), 1, 80, 1, 80, 0, 0);
    assert_int_equal(replay.heap.live_objects, 0);
}

static void test_live_after_a_gap_is_known(void **state)
{
    (void)state;
    book_seal(&book);
    book_block(&book, 100, 0);
    book_gap(&book);
    book_live(&book, 7, 1, 300, 2, 0);
    run(MOMENT_END);
    assert_counters(of_site(1), 2, 600, 0, 0, 0, 0);
    assert_int_equal(replay.heap.live_bytes, 600);
}

static void test_live_is_freed(void **state)
{
    (void)state;
    book_seal(&book);
    book_block(&book, 100, 0);
    book_live(&book, 7, 1, 300, 1, 0);
    book_live(&book, 8, 1, 300, 1, 0);
    book_gap(&book);
    book_free(&book, 7);
    run(MOMENT_END);
    assert_counters(of_site(1), 2, 600, 1, 300, 1, 300);
}

static void test_live_of_the_living_or_unborn_is_an_orphan(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_live(&book, a, 2, 300, 1, 0);
    book_live(&book, a + 1, 2, 300, 1, 0);
    book_live(&book, a + 100, 2, 300, 1, 0);
    run(MOMENT_END);
    assert_int_equal(replay.heap.orphan_count, 3);
    assert_counters(heap_totals(&replay.heap), 1, 40, 0, 0, 0, 0);
}

static void test_folded_comes_and_goes(void **state)
{
    (void)state;
    book.at = mpp_encode_3(book.at, MPP_FOLDED, 2, 5, 600);
    run(MOMENT_END);
    assert_counters(of_site(2), 5, 600, 5, 600, 0, 0);
    assert_int_equal(replay.heap.peak_position, 0);
}

static void test_orphans_and_inherited(void **state)
{
    (void)state;
    book_seal(&book);
    book_block(&book, 50, 0);
    book_free(&book, 10);
    book_size(&book, 11, 5);
    book_reclass(&book, 12, 1);
    book_free_sized(&book, 13, 8);
    book_free(&book, 40);
    replay_init(&replay, book_open(&book, 0));
    replay.heap.fork_serial = 20;
    assert_int_equal(replay_run(&replay, MOMENT_END), 0);
    assert_int_equal(replay.heap.inherited_count, 4);
    assert_int_equal(replay.heap.orphan_count, 1);
    assert_counters(heap_totals(&replay.heap), 0, 0, 0, 0, 0, 0);
}

static void test_age(void **state)
{
    (void)state;
    uint64_t a = book_alloc(&book, 1);
    book_gc(&book, 1, 0);
    uint64_t b = book_alloc(&book, 1); /* born during the first GC */
    book_gc(&book, 1, 1);
    uint64_t c = book_alloc(&book, 1);
    book_gc(&book, 2, 0); /* never ends: the next one starts */
    book_gc(&book, 3, 0);
    book_gc(&book, 3, 1);
    book_gc(&book, 3, 1); /* of no GC */
    book_gc(&book, 4, 0);
    run(MOMENT_END);
    assert_int_equal(heap_age(&replay.heap, a, NULL), 2);
    assert_int_equal(heap_age(&replay.heap, b, NULL), 1);
    assert_int_equal(heap_age(&replay.heap, c, NULL), 1);
    assert_int_equal(heap_age(&replay.heap, c + 1, NULL), 0);
}

static void test_age_of_live(void **state)
{
    (void)state;
    book_seal(&book);
    book_block(&book, 100, 0);
    book_gc(&book, 1, 0);
    book_live(&book, 7, 1, 300, 1, 5);
    book_gc(&book, 1, 1); /* started before it */
    book_gc(&book, 2, 0);
    book_gc(&book, 2, 1);
    book_live(&book, 8, 1, 300, 1, UINT64_MAX);
    book_gc(&book, 3, 0);
    book_gc(&book, 3, 1);
    run(MOMENT_END);
    assert_int_equal(heap_age(&replay.heap, 7, objects_find_live(&replay.heap.objects, 7)), 7);
    assert_int_equal(heap_age(&replay.heap, 8, objects_find_live(&replay.heap.objects, 8)), UINT64_MAX);
}

static void test_retained(void **state)
{
    (void)state;
    struct cell cells[8] = {{0}};

    uint64_t before = book_alloc(&book, 1); /* position 3: P1 */
    uint64_t a = book_alloc(&book, 1);
    book_alloc(&book, 2);
    book_free(&book, a);
    book_free(&book, before);
    book_live(&book, before, 1, 1000, 1, 0); /* no ALLOC */
    run((struct moment){.position = 3, .time_ns = UINT64_MAX});
    uint64_t first = replay_next_serial(&replay);
    assert_int_equal(first, a);
    assert_int_equal(replay_run(&replay, MOMENT_END), 0);
    count_live(&replay.heap, 0, first, cells);
    assert_int_equal(cells[0].objects, 0);
    assert_int_equal(cells[1].objects, 1);
    assert_int_equal(cells[1].bytes, 80);
}

static void test_overflow_is_refused(void **state)
{
    (void)state;
    book.at = mpp_encode_3(book.at, MPP_FOLDED, 1, 1, UINT64_MAX);
    book.at = mpp_encode_3(book.at, MPP_FOLDED, 1, 1, 1);
    replay_init(&replay, book_open(&book, 0));
    assert_int_equal(replay_run(&replay, MOMENT_END), MPP_ERR_OVERFLOW);
}

static void test_overflow_by_an_alloc(void **state)
{
    (void)state;
    book.at = mpp_encode_3(book.at, MPP_FOLDED, 1, UINT64_MAX, 1);
    book_alloc(&book, 1);
    replay_init(&replay, book_open(&book, 0));
    assert_int_equal(replay_run(&replay, MOMENT_END), MPP_ERR_OVERFLOW);
}

static void test_time_stops_after_the_last_record_at_it(void **state)
{
    (void)state;
    book_time(&book, 10); /* position 3 */
    book_alloc(&book, 1);
    book_alloc(&book, 1); /* 5 */
    book_time(&book, 1);
    book_alloc(&book, 1);
    run((struct moment){.position = UINT64_MAX, .time_ns = 9});
    assert_int_equal(replay.history.position, 2);
    assert_int_equal(replay_run(&replay, (struct moment){.position = UINT64_MAX, .time_ns = 10}), 0);
    assert_int_equal(replay.history.position, 5);
    assert_int_equal(replay_run(&replay, (struct moment){.position = UINT64_MAX, .time_ns = 11}), 0);
    assert_int_equal(replay.history.position, 7);
}

static void test_time_never_runs_backwards(void **state)
{
    (void)state;
    book_time(&book, 100); /* 3 */
    book_seal(&book);
    book_block(&book, 1, 50); /* behind: 100 holds */
    book_alloc(&book, 1);     /* 4, at 100 */
    book_time(&book, 20);     /* 5, still at 100 */
    book_alloc(&book, 1);     /* 6 */
    book_time(&book, 40);     /* 7, at 110 */
    run((struct moment){.position = UINT64_MAX, .time_ns = 99});
    assert_int_equal(replay.history.position, 2);
    assert_int_equal(replay_run(&replay, (struct moment){.position = UINT64_MAX, .time_ns = 100}), 0);
    assert_int_equal(replay.history.position, 6);
    assert_int_equal(replay.history.time_ns, 100);
    assert_int_equal(replay_run(&replay, MOMENT_END), 0);
    assert_int_equal(replay.history.time_ns, 110);
}

static void test_is_past(void **state)
{
    (void)state;
    book_time(&book, 10);
    book_alloc(&book, 1);
    run(MOMENT_END);
    assert_false(replay_is_past(&replay, MOMENT_END));
    assert_true(replay_is_past(&replay, MOMENT_START));
    assert_true(replay_is_past(&replay, (struct moment){.position = UINT64_MAX, .time_ns = 9}));
    assert_false(replay_is_past(&replay, (struct moment){.position = UINT64_MAX, .time_ns = 10}));
    assert_true(replay_is_past(&replay, (struct moment){.position = 3, .time_ns = UINT64_MAX}));
}

static void test_every_position_is_reached_alike(void **state)
{
    (void)state;
    uint64_t serials[64];

    /* Stepping record by record gives what one run gives: at equal positions views agree. */
    for (int i = 0; i < 64; i++) {
        serials[i] = book_alloc(&book, 1 + (uint32_t)i % 3); /* site 3 is not defined */
        if (i % 5 == 0) book_time(&book, 3);
        if (i % 7 == 3) book_free(&book, serials[i / 2]);
        if (i % 11 == 4) book_size(&book, serials[i - 2], (uint64_t)i * 10);
        if (i % 20 == 10) book_seal(&book);
        if (i == 40) book_gap(&book);
    }
    run(MOMENT_START);
    struct replay whole;
    for (uint64_t p = 1; p < 90; p++) {
        struct moment m = {.position = p, .time_ns = UINT64_MAX};
        assert_int_equal(replay_run(&replay, m), 0);
        replay_init(&whole, &book.log);
        assert_int_equal(replay_run(&whole, m), 0);
        struct counters x = heap_totals(&replay.heap), y = heap_totals(&whole.heap);
        assert_memory_equal(&x, &y, sizeof x);
        assert_int_equal(replay.history.time_ns, whole.history.time_ns);
        assert_int_equal(replay.heap.peak_position, whole.heap.peak_position);
        assert_int_equal(counters_live_bytes(&x), replay.heap.live_bytes);
        replay_release(&whole);
    }
}

static void test_undefined_site_has_no_birth_bytes(void **state)
{
    (void)state;
    book_alloc(&book, 77);
    run(MOMENT_END);
    assert_counters(of_site(77), 1, 0, 0, 0, 0, 0);
    assert_int_equal(book.log.definitions.sites[id_map_find(&book.log.definitions.site_ids, 77)].state, SITE_UNDEFINED);
}

static void test_site_from_the_trailer(void **state)
{
    (void)state;
    book_alloc(&book, 77);
    book_alloc(&book, 78);
    book_seal(&book);
    book_site(&book, 78, 0, 0, MPP_TYPE_STRING, 16); /* late, in the history: it goes before the trailer's */
    book_seal(&book);
    book_site(&book, 77, 0, 0, MPP_TYPE_STRING, 48);
    book_site(&book, 78, 0, 0, MPP_TYPE_STRING, 32);
    book_seal_as(&book, MPP_BLOCK_DEFINITIONS);
    run(MOMENT_END);
    assert_counters(of_site(77), 1, 48, 0, 0, 0, 0);
    assert_counters(of_site(78), 1, 16, 0, 0, 0, 0);
}

static void test_first_site_holds(void **state)
{
    (void)state;
    book_site(&book, 1, 0, 0, MPP_TYPE_HASH, 4000);
    book_alloc(&book, 1);
    run(MOMENT_END);
    assert_counters(of_site(1), 1, 40, 0, 0, 0, 0);
}

static void test_hole_in_the_serials(void **state)
{
    (void)state;
    book_alloc(&book, 1);
    book_seal(&book);
    book_block(&book, UINT64_C(1) << 40, 0);
    uint64_t far = book_alloc(&book, 1);
    book_free(&book, 500); /* in the hole */
    book_free(&book, far);
    book_alloc(&book, 1);
    run(MOMENT_END);
    assert_counters(of_site(1), 3, 120, 1, 40, 0, 0);
    assert_int_equal(replay.heap.orphan_count, 1);
}

static void test_last_serial(void **state)
{
    (void)state;
    book_seal(&book);
    book_block(&book, MPP_MAX_SERIAL, 0);
    uint64_t last = book_alloc(&book, 1);
    book_free(&book, last);
    run(MOMENT_END);
    assert_counters(of_site(1), 1, 40, 1, 40, 0, 0);
}

static void test_serials_that_run_backwards_are_damage(void **state)
{
    (void)state;
    book_alloc(&book, 1);
    book_alloc(&book, 1);
    book_seal(&book);
    book_block(&book, 2, 0);
    book_alloc(&book, 1);
    run(MOMENT_END);
    assert_counters(of_site(1), 2, 80, 0, 0, 0, 0);
    assert_true(mpp_reader_damage_count(book.log.reader) > 0);
}

static void test_marks_and_wall_clock(void **state)
{
    (void)state;
    book_time(&book, 1000);
    book_mark(&book, "warm");
    book_time(&book, 1000);
    book_clock(&book, 5000000);
    book_time(&book, 500);
    replay_init(&replay, book_open(&book, 0));
    replay.keep_all = 1;
    assert_int_equal(replay_run(&replay, (struct moment){.position = 4, .time_ns = UINT64_MAX}), 0);
    assert_int_equal(replay_wall_ns(&replay, replay.history.time_ns), BOOK_START_UNIX_NS + 1000);
    assert_int_equal(replay.mark_count, 1);
    assert_string_equal(replay.marks[0].name, "warm");
    assert_int_equal(replay.marks[0].position, 4);
    assert_int_equal(replay_run(&replay, MOMENT_END), 0);
    assert_int_equal(replay_wall_ns(&replay, replay.history.time_ns), 5000500);
}

static void test_end_time(void **state)
{
    (void)state;
    book_time(&book, 100);
    book_seal(&book);
    book_block(&book, 1, 7000);
    book.at = mpp_encode_1(book.at, MPP_PROC, 1);
    book.at = mpp_put_varint(mpp_put_varint(book.at, MPP_PROC_RSS_BYTES), 123);
    book_seal_as(&book, MPP_BLOCK_PROC);
    struct log *l = book_open(&book, 200);
    assert_int_equal(l->end_time_ns, 7000);
    assert_int_equal(l->statistics.count, 1);
    assert_int_equal(l->statistics.list[0].value, 123);
    replay_init(&replay, l);
}

static void test_damaged_last_block_does_not_count_for_the_end(void **state)
{
    (void)state;
    book_time(&book, 100);
    book_seal(&book);
    book_time(&book, 900);
    for (int i = 0; i < 200; i++) book_alloc(&book, 1);
    book_seal(&book);
    book.file.data[book.file.bytes - 1] ^= 1;
    struct log *l = book_open_killed(&book);
    assert_int_equal(l->end_time_ns, 100);
    replay_init(&replay, l);
    assert_int_equal(replay_run(&replay, MOMENT_END), 0);
    assert_int_equal(replay.history.position, 3);
    assert_int_equal(mpp_reader_damage_count(l->reader), 1);
    assert_int_equal(mpp_reader_damage(l->reader, 0)->kind, MPP_DAMAGE_PAYLOAD);
    assert_int_equal(mpp_reader_damage(l->reader, 0)->alloc_count, 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty_log),
        TEST(test_alloc_and_free),
        TEST(test_weight_counts_for_many),
        TEST(test_size_grows_and_shrinks),
        TEST(test_free_sized_is_size_then_free),
        TEST(test_peak_is_never_within_a_free_sized),
        TEST(test_peak_is_the_earliest),
        TEST(test_peak_by_a_size),
        TEST(test_reclass_moves_the_object),
        TEST(test_reclass_back_and_forth),
        TEST(test_gap_makes_unknown),
        TEST(test_gap_over_unknown_and_reclassed),
        TEST(test_live_after_a_gap_is_known),
        TEST(test_live_is_freed),
        TEST(test_live_of_the_living_or_unborn_is_an_orphan),
        TEST(test_folded_comes_and_goes),
        TEST(test_orphans_and_inherited),
        TEST(test_age),
        TEST(test_age_of_live),
        TEST(test_retained),
        TEST(test_overflow_is_refused),
        TEST(test_overflow_by_an_alloc),
        TEST(test_time_stops_after_the_last_record_at_it),
        TEST(test_time_never_runs_backwards),
        TEST(test_is_past),
        TEST(test_every_position_is_reached_alike),
        TEST(test_undefined_site_has_no_birth_bytes),
        TEST(test_site_from_the_trailer),
        TEST(test_first_site_holds),
        TEST(test_hole_in_the_serials),
        TEST(test_last_serial),
        TEST(test_serials_that_run_backwards_are_damage),
        TEST(test_marks_and_wall_clock),
        TEST(test_end_time),
        TEST(test_damaged_last_block_does_not_count_for_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
