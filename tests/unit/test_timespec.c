/* TIME: its grammar, and what it resolves to. */
#include "analyzer/message.h"
#include "analyzer/timespec.h"
#include "book.h"
#include <stdio.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static void test_grammar(void **state)
{
    static const struct {
        const char *text;
        enum time_kind kind;
        uint64_t ns;
    } cases[] = {
        {"start", TIME_START, 0},
        {"end", TIME_END, 0},
        {"peak", TIME_PEAK, 0},
        {"0", TIME_OFFSET, 0},
        {"12.5", TIME_OFFSET, 12500000000},
        {"12.5s", TIME_OFFSET, 12500000000},
        {"250ms", TIME_OFFSET, 250000000},
        {"2m30s", TIME_OFFSET, 150 * SECOND},
        {"1h", TIME_OFFSET, 3600 * SECOND},
        {"1h2m3.5s4ms", TIME_OFFSET, 3723504000000},
        {"0.1234567899", TIME_OFFSET, 123456789}, /* decimals beyond the ninth are dropped */
        {"-10s", TIME_BEFORE_END, 10 * SECOND},
        {"-0", TIME_BEFORE_END, 0},
        {"50%", TIME_PERCENT, 50 * SECOND},
        {"33.3%", TIME_PERCENT, 33300000000},
        {"100%", TIME_PERCENT, 100 * SECOND},
        {"14:03", TIME_CLOCK, (14 * 60 + 3) * 60 * SECOND},
        {"14:03:05.25", TIME_CLOCK, ((14 * 60 + 3) * 60 + 5) * SECOND + 250000000},
        {"@1764597785.25", TIME_WALL, 1764597785250000000},
        {"2025-12-01T14:03:05Z", TIME_WALL, 1764597785000000000},
        {"2025-12-01T15:03:05.25+01:00", TIME_WALL, 1764597785250000000},
        {"2025-12-01 09:03:05-05:00", TIME_WALL, 1764597785000000000},
        {"2024-02-29t00:00:00z", TIME_WALL, 1709164800000000000},
    };
    struct time_spec t;
    const char *why;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (time_parse(&t, cases[i].text, &why)) fail_msg("\"%s\" is refused: %s", cases[i].text, why);
        if (t.kind != cases[i].kind || t.ns != cases[i].ns) fail_msg("\"%s\" is kind %d, %lu ns", cases[i].text, (int)t.kind, (unsigned long)t.ns);
    }
}

static void test_what_is_no_time(void **state)
{
    static const char *const cases[] = {
        "",
        "x",
        "12.",
        ".5",
        "12.5x",
        "2m30",
        "30s2m",
        "2m2m",
        "-",
        "--5s",
        "-x",
        "5 s",
        " 5s",
        "%",
        "x%",
        "5%%",
        "24:00",
        "14:60",
        "14:03:61",
        "1:03",
        "14:3",
        "14:03x",
        "@",
        "@x",
        "@-5",
        "2025-12-01",
        "2025-12-01T14:03Z",
        "2025-12-01T14:03:05",
        "2025-13-01T14:03:05Z",
        "2025-02-29T14:03:05Z",
        "2025-00-10T14:03:05Z",
        "2025-12-00T14:03:05Z",
        "2025-12-01T14:03:05+0100",
        "2025-12-01T14:03:05Zx",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "gc:",
        "gc:x",
        "gc:-1",
        "gc:99999999999999999999",
        "mark:a#0",
        "mark:a#99999999999999999999",
        "99999999999999999999",
        "9999999999h",
        "end ",
        "START",
    };
    struct time_spec t;
    const char *why = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        if (time_parse(&t, cases[i], &why) == 0) fail_msg("\"%s\" is taken", cases[i]);
        assert_non_null(why);
    }
}

static void test_marks_and_gcs(void **state)
{
    struct time_spec t;
    const char *why;

    (void)state;
    assert_int_equal(time_parse(&t, "mark:warm", &why), 0);
    assert_int_equal(t.kind, TIME_MARK);
    assert_int_equal(t.mark_length, 4);
    assert_int_equal(t.number, 1);
    assert_int_equal(time_parse(&t, "mark:a#b#12", &why), 0);
    assert_int_equal(t.mark_length, 3);
    assert_int_equal(t.number, 12);
    assert_int_equal(time_parse(&t, "mark:#x", &why), 0);
    assert_int_equal(t.mark_length, 2);
    assert_int_equal(time_parse(&t, "mark:", &why), 0); /* a mark may have no name */
    assert_int_equal(t.mark_length, 0);
    assert_int_equal(time_parse(&t, "gc:17", &why), 0);
    assert_int_equal(t.kind, TIME_GC);
    assert_int_equal(t.number, 17);
}

static struct book book;

static int setup(void **state)
{
    (void)state;
    book_init(&book);
    book.log = (struct log){0};
    book_site(&book, 1, 0, 0, MPP_TYPE_STRING, 40);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    book_release(&book);
    return 0;
}

/* What is said on stderr goes nowhere here. Whether it resolves. */
static int resolve(const char *text, struct moment *m)
{
    struct time_spec t;
    const char *why;
    int old = dup(STDERR_FILENO);

    assert_int_equal(time_parse(&t, text, &why), 0);
    assert_non_null(freopen("/dev/null", "w", stderr));
    int result = time_resolve(&t, &book.log, m);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    return result;
}

static void assert_time(const char *text, uint64_t time_ns)
{
    struct moment m;

    if (resolve(text, &m)) fail_msg("\"%s\" is not found", text);
    assert_int_equal(m.position, UINT64_MAX);
    assert_int_equal(m.time_ns, time_ns);
}

static void assert_position(const char *text, uint64_t position)
{
    struct moment m;

    if (resolve(text, &m)) fail_msg("\"%s\" is not found", text);
    assert_int_equal(m.position, position);
    assert_int_equal(m.time_ns, UINT64_MAX);
}

static void assert_nowhere(const char *text)
{
    struct moment m;

    if (resolve(text, &m) == 0) fail_msg("\"%s\" is found", text);
}

static void test_times(void **state)
{
    (void)state;
    book_time(&book, 100 * SECOND + 1);
    book_open(&book, 0);
    assert_position("start", 0);
    assert_position("end", UINT64_MAX);
    assert_time("0", 0);
    assert_time("100.000000001", 100 * SECOND + 1);
    assert_nowhere("100.000000002");
    assert_time("-0", 100 * SECOND + 1);
    assert_time("-100s", 1);
    assert_time("-100.000000001s", 0);
    assert_nowhere("-101s");
    assert_time("50%", 50 * SECOND); /* rounded down */
    assert_time("100%", 100 * SECOND + 1);
    assert_nowhere("100.1%");
    assert_nowhere("99999999%");
    assert_time("@1764597786", SECOND);
    assert_time("2025-12-01T14:03:06Z", SECOND);
    assert_nowhere("2025-12-01T14:03:04Z");
    assert_nowhere("2025-12-02T14:03:06Z");
    assert_time("14:04", 55 * SECOND);
    assert_time("14:04:40", 95 * SECOND);
    assert_nowhere("14:05");
    assert_nowhere("14:03");
}

static void test_clock_at_the_recorders_offset(void **state)
{
    (void)state;
    book.info.utc_offset_s = 0;
    book_time(&book, 100 * SECOND);
    struct log *l = book_open(&book, 0);
    struct mpp_log_info info = *l->info;
    info.utc_offset_s = -5 * 3600;
    l->info = &info;
    assert_time("09:03:06", SECOND);
    assert_nowhere("14:03:06");
}

static void test_clock_of_several_days(void **state)
{
    (void)state;
    book_time(&book, 3 * 86400 * SECOND);
    book_open(&book, 0);
    assert_nowhere("14:10"); /* three of them */
    assert_nowhere("14:03:05");
    book.log.end_time_ns = 86400 * SECOND - 1;
    assert_time("14:03:05", 0);
    assert_time("14:03:04", 86399 * SECOND);
}

static void test_wall_clock_that_was_set(void **state)
{
    (void)state;
    book_time(&book, 10 * SECOND);
    book_clock(&book, BOOK_START_UNIX_NS + 70 * SECOND); /* a minute forward */
    book_time(&book, 10 * SECOND);
    book_clock(&book, BOOK_START_UNIX_NS + 75 * SECOND); /* five seconds back */
    book_time(&book, 10 * SECOND);
    book_open(&book, 0);
    assert_time("14:03:06", SECOND);
    assert_time("14:03:30", 10 * SECOND - 1); /* left out: the moment before */
    assert_time("14:04:16", 11 * SECOND);
    assert_nowhere("14:04:21"); /* twice */
    assert_nowhere("@1764597861");
    assert_time("14:04:26", 26 * SECOND);
    assert_nowhere("14:04:31");
}

static void test_positions(void **state)
{
    (void)state;
    book_mark(&book, "a"); /* 2 */
    uint64_t x = book_alloc(&book, 1);
    book_mark(&book, "b"); /* 4 */
    book_mark(&book, "a"); /* 5 */
    book_free(&book, x);
    book_gc(&book, 7, 0);
    book_gc(&book, 7, 1); /* 8 */
    book_gc(&book, 9, 1); /* 9 */
    book_gc(&book, 7, 1); /* 10 */
    book_open(&book, 0);
    assert_position("mark:a", 2);
    assert_position("mark:b", 4);
    assert_position("mark:a#2", 5);
    assert_nowhere("mark:a#3");
    assert_nowhere("mark:c");
    assert_nowhere("mark:");
    assert_position("gc:7", 8);
    assert_position("gc:9", 9);
    assert_nowhere("gc:8");
    assert_position("peak", 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),           cmocka_unit_test(test_what_is_no_time), cmocka_unit_test(test_marks_and_gcs), TEST(test_times),
        TEST(test_clock_at_the_recorders_offset), TEST(test_clock_of_several_days),       TEST(test_wall_clock_that_was_set),   TEST(test_positions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
