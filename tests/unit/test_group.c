/* Rows: what they are called, what tells them apart, filters and order. And the names below them. */
#include "analyzer/group.h"
#include "book.h"

static struct book book;
static struct replay replay;
static struct grouping grouping;
static int grouped;

static int setup(void **state)
{
    (void)state;
    book_init(&book);
    grouped = 0;
    book_function(&book, 1, "Object#run", "/app/a.rb", 0);
    book_function(&book, 2, "Array#map", "", MPP_FUNCTION_NATIVE);
    book_function(&book, 3, "Object#run", "/app/a.rb", 0); /* as 1 */
    book_function(&book, 4, NAMES_RECORDER, "", MPP_FUNCTION_REMARK);
    book_class(&book, 1, "String");
    book_class(&book, 2, "Foo::Bar");
    book_class(&book, 3, "String");
    book_string(&book, 50, "main");
    book.at = mpp_encode_2(book.at, MPP_THREAD_NAME, 1, 50);
    book_stack(&book, 1, 0, 1, 10); /* run:10 */
    book_stack(&book, 2, 1, 2, 0);  /* map < run:10 */
    book_stack(&book, 3, 0, 3, 10); /* the same frame as 1 */
    book_stack(&book, 4, 1, 4, 0);  /* recorder < run:10 */
    book_stack(&book, 5, 0, 2, 0);  /* map alone */
    book_stack(&book, 6, 0, 9, 7);  /* a function without a name */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (grouped) grouping_release(&grouping);
    replay_release(&replay);
    book_release(&book);
    return 0;
}

/* One object of each of `count` sites, whose stack, class and type are given, of 100, 101 … bytes; then the rows. */
static void run(enum group_by by, const uint32_t sites[][3], size_t count, const struct group_filter *filter)
{
    struct group_filter all = {.recorder = 1};
    uint64_t record_count;

    for (size_t i = 0; i < count; i++) {
        book_site(&book, 1 + (uint32_t)i, sites[i][0], sites[i][1], sites[i][2], 100 + i);
        book_alloc(&book, 1 + (uint32_t)i);
    }
    replay_init(&replay, book_open(&book, 0));
    assert_int_equal(replay_run(&replay, MOMENT_END), 0);
    assert_int_equal(replay_finish(&replay, &record_count), 0);
    assert_int_equal(grouping_init(&grouping, &book.log.definitions, by, filter ? filter : &all), 0);
    grouped = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row;
        struct counters n = heap_site_counters(&replay.heap, i);
        assert_int_equal(grouping_row(&grouping, i, &row), 0);
        if (row == ROW_NONE) continue;
        counters_add(&grouping.rows[row].n, &n);
        grouping.rows[row].live.objects += counters_live_objects(&n);
        grouping.rows[row].live.bytes += counters_live_bytes(&n);
    }
    grouping_sort(&grouping, SORT_LIVE_BYTES);
}

static void assert_row(size_t i, const char *name, uint64_t bytes)
{
    assert_true(i < grouping.row_count);
    assert_string_equal(names_text(&grouping.names, grouping.rows[i].name), name);
    assert_int_equal(grouping.rows[i].live.bytes, bytes);
}

static void test_stacks_are_told_apart_by_their_frames(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {3, 1, 5}, {2, 1, 5}, {0, 1, 5}, {99, 1, 5}, {6, 1, 5}};

    (void)state;
    run(BY_STACK, sites, 6, NULL);
    assert_int_equal(grouping.row_count, 4);
    assert_row(0, "(no stack)", 103 + 104);
    assert_row(1, "/app/a.rb:10 in Object#run", 100 + 101);
    assert_row(2, "[unresolved]:7 in [unresolved]", 105);
    assert_row(3, "Array#map in Array#map", 102);
}

static void test_line_is_of_the_leaf_most_ruby_frame(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {2, 1, 5}, {5, 1, 5}, {0, 0, 5}, {6, 0, 5}};

    (void)state;
    run(BY_LINE, sites, 5, NULL);
    assert_int_equal(grouping.row_count, 4);
    assert_row(0, "/app/a.rb:10", 100 + 101);
    assert_int_equal(grouping.rows[0].line, 10);
    assert_string_equal(names_text(&grouping.names, grouping.rows[0].path), "/app/a.rb");
    assert_row(1, "[unresolved]:7", 104);
    assert_row(2, "(no stack)", 103);
    assert_row(3, "Array#map", 102); /* the leaf, when there is none */
}

static void test_method_and_file(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {2, 1, 5}, {5, 1, 5}};

    (void)state;
    run(BY_METHOD, sites, 3, NULL);
    assert_row(0, "Object#run", 201);
    assert_row(1, "Array#map", 102);
    grouping_release(&grouping);
    struct group_filter all = {.recorder = 1};
    uint32_t row;
    assert_int_equal(grouping_init(&grouping, &book.log.definitions, BY_FILE, &all), 0);
    assert_int_equal(grouping_row(&grouping, 2, &row), 0);
    assert_string_equal(names_text(&grouping.names, grouping.rows[row].name), "(no file)");
}

static void test_classes_by_name(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {1, 3, 5}, {1, 0, 26}, {1, 0, 99}, {1, 77, 5}, {1, 0, 0}};

    (void)state;
    run(BY_CLASS, sites, 6, NULL);
    assert_int_equal(grouping.row_count, 5);
    assert_row(0, "String", 201);
    assert_row(1, "(internal UNKNOWN)", 105);
    assert_row(2, "[unresolved]", 104);
    assert_row(3, "(internal 99)", 103);
    assert_row(4, "(internal IMEMO)", 102);
}

static void test_types_and_threads(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {1, 1, 31}};
    uint32_t row;
    struct group_filter all = {.recorder = 1};

    (void)state;
    run(BY_TYPE, sites, 2, NULL);
    assert_row(0, "31", 101);
    assert_row(1, "STRING", 100);
    grouping_release(&grouping);
    assert_int_equal(grouping_init(&grouping, &book.log.definitions, BY_THREAD, &all), 0);
    assert_int_equal(grouping_row(&grouping, 0, &row), 0);
    assert_string_equal(names_text(&grouping.names, grouping.rows[row].name), "main");
}

static void test_undefined_site(void **state)
{
    (void)state;
    book_alloc(&book, 60);
    run(BY_CLASS, NULL, 0, NULL);
    uint32_t row;
    assert_int_equal(grouping_row(&grouping, 0, &row), 0);
    assert_string_equal(names_text(&grouping.names, grouping.rows[row].name), "[unresolved]");
    assert_string_equal(names_text(&grouping.names, names_type(&grouping.names, 0)), "UNKNOWN");
    assert_string_equal(names_text(&grouping.names, names_thread(&grouping.names, 0)), "[unresolved]");
}

static void test_recorder_is_left_out(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {4, 1, 5}};
    struct group_filter filter = {.recorder = 0};

    (void)state;
    run(BY_STACK, sites, 2, &filter);
    assert_int_equal(grouping.row_count, 1);
    assert_row(0, "/app/a.rb:10 in Object#run", 100);
}

static void test_filters(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {5, 2, 5}, {0, 0, 26}};
    regex_t re;
    struct group_filter filters[4] = {{.focus = &re}, {.ignore = &re}, {.class_name = &re}, {.class_name = &re}};
    static const char *const patterns[4] = {"^/app/", "map$", "internal", "Foo::"};
    static const uint32_t expected[4][3] = {{1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}};

    (void)state;
    run(BY_STACK, sites, 3, NULL);
    for (int i = 0; i < 4; i++) {
        struct grouping g;
        assert_int_equal(regcomp(&re, patterns[i], REG_EXTENDED), 0);
        assert_int_equal(grouping_init(&g, &book.log.definitions, BY_STACK, &filters[i]), 0);
        for (uint32_t site = 0; site < 3; site++) {
            uint32_t row;
            assert_int_equal(grouping_row(&g, site, &row), 0);
            if ((row != ROW_NONE) != expected[i][site]) fail_msg("filter %s, site %u", patterns[i], site);
        }
        grouping_release(&g);
        regfree(&re);
    }
}

static void test_equal_rows_by_name(void **state)
{
    (void)state;
    book_site(&book, 1, 1, 2, 5, 40);
    book_site(&book, 2, 1, 1, 5, 40);
    book_alloc(&book, 1);
    book_alloc(&book, 2);
    static const uint32_t none[][3] = {{0}};
    run(BY_CLASS, none, 0, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t row;
        assert_int_equal(grouping_row(&grouping, i, &row), 0);
        grouping.rows[row].live = (struct cell){1, 40};
    }
    grouping_sort(&grouping, SORT_LIVE_BYTES);
    assert_row(0, "Foo::Bar", 40);
    assert_row(1, "String", 40);
}

static void test_zero_rows_are_left_out(void **state)
{
    static const uint32_t sites[][3] = {{1, 1, 5}, {1, 2, 5}};

    (void)state;
    run(BY_CLASS, sites, 2, NULL);
    assert_int_equal(grouping.row_count, 2);
    grouping.rows[0].n = (struct counters){0};
    grouping.rows[0].live = (struct cell){0};
    grouping_sort(&grouping, SORT_NAME);
    assert_int_equal(grouping.row_count, 1);
    assert_row(0, "String", 100);
}

static void test_names_come_late_and_the_last_holds(void **state)
{
    uint64_t record_count;
    struct group_filter all = {0};
    uint32_t row;

    (void)state;
    book_site(&book, 1, 1, 40, 5, 10);
    book_alloc(&book, 1);
    book_seal(&book);
    book_class(&book, 40, "Early");
    book_string(&book, 900, "Later");
    book.at = mpp_encode_class_name(book.at, 40, 900, 0);
    book_seal(&book);
    replay_init(&replay, book_open(&book, 0));
    assert_int_equal(replay_run(&replay, (struct moment){.position = 20, .time_ns = UINT64_MAX}), 0);
    assert_int_equal(replay_finish(&replay, &record_count), 0);
    assert_int_equal(grouping_init(&grouping, &book.log.definitions, BY_CLASS, &all), 0);
    grouped = 1;
    assert_int_equal(grouping_row(&grouping, 0, &row), 0);
    assert_string_equal(names_text(&grouping.names, grouping.rows[row].name), "Later");
}

static void test_invalid_bytes_are_replaced(void **state)
{
    static const uint32_t sites[][3] = {{1, 30, 5}};

    (void)state;
    book_class(&book, 30, "a\xff\xe2\x82z\xf0\x9f\x98");
    run(BY_CLASS, sites, 1, NULL);
    assert_row(0, "a\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD", 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_stacks_are_told_apart_by_their_frames),
        TEST(test_line_is_of_the_leaf_most_ruby_frame),
        TEST(test_method_and_file),
        TEST(test_classes_by_name),
        TEST(test_types_and_threads),
        TEST(test_undefined_site),
        TEST(test_recorder_is_left_out),
        TEST(test_filters),
        TEST(test_equal_rows_by_name),
        TEST(test_zero_rows_are_left_out),
        TEST(test_names_come_late_and_the_last_holds),
        TEST(test_invalid_bytes_are_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
