/* Property: whichever allocation fails, a whole report either comes out as it would have (some allocations only make things faster), or the command
 * fails with a message, prints nothing, leaves no file, and leaks nothing (LeakSanitizer watches). Each allocation of ours and of jansson fails in
 * turn, alone or with all behind it. The linker puts these in place of malloc and its kin (Makefile). */
#include "analyzer/command.h"
#include "book.h"
#include <dirent.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

/* Atomic: a replay reads ahead in a thread of its own. */
static _Atomic int countdown; /* 0: none fails; n: the nth from here on */
static int fail_all;          /* and all behind it */
static _Atomic unsigned failed_count;

static int fails(void)
{
    int now = countdown;

    while (now > (fail_all ? 1 : 0) && !atomic_compare_exchange_weak(&countdown, &now, now - 1)) {
    }
    if (now != 1) return 0;
    failed_count++;
    return 1;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
char *__real_strdup(const char *text);
char *__real_realpath(const char *path, char *resolved);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
ZSTD_DCtx *__real_ZSTD_createDCtx(void);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_realpath(const char *path, char *resolved);
int __wrap_vasprintf(char **out, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
int __real_vasprintf(char **out, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);

void *__wrap_malloc(size_t bytes)
{
    if (!fails()) return __real_malloc(bytes);
    errno = ENOMEM;
    return NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (!fails()) return __real_calloc(count, bytes);
    errno = ENOMEM;
    return NULL;
}

void *__wrap_realloc(void *p, size_t bytes)
{
    if (!fails()) return __real_realloc(p, bytes);
    errno = ENOMEM;
    return NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    if (!fails()) return __real_aligned_alloc(alignment, bytes);
    errno = ENOMEM;
    return NULL;
}

char *__wrap_strdup(const char *text)
{
    if (!fails()) return __real_strdup(text);
    errno = ENOMEM;
    return NULL;
}

char *__wrap_realpath(const char *path, char *resolved)
{
    if (!fails()) return __real_realpath(path, resolved);
    errno = ENOMEM;
    return NULL;
}

int __wrap_vasprintf(char **out, const char *format, va_list arguments)
{
    if (!fails()) return __real_vasprintf(out, format, arguments);
    errno = ENOMEM;
    return -1;
}

int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = __wrap_vasprintf(out, format, arguments);
    va_end(arguments);
    return length;
}

ZSTD_DCtx *__wrap_ZSTD_createDCtx(void)
{
    return fails() ? NULL : __real_ZSTD_createDCtx();
}

static char log_path[64], directory[] = "/tmp/mpp-no-memory-XXXXXX", report_path[64];

/* A log with something of everything that a report shows, sealed in two compressed blocks. */
static int setup(void **state)
{
    struct book b;

    (void)state;
    book_init(&b);
    book_function(&b, 1, "Leak#grow", "/app/leak.rb", 0);
    book_function(&b, 2, "bad\xFFname", "", MPP_FUNCTION_NATIVE);
    book_class(&b, 1, "Leak\xFE");
    for (uint32_t i = 1; i <= 4; i++) book_stack(&b, i, i - 1, 1 + i % 2, i);
    for (uint32_t i = 1; i <= 4; i++) book_site(&b, i, i, i % 2, 5, 40 * i);
    for (uint64_t i = 0; i < 40; i++) {
        book_time(&b, 1000);
        book_alloc(&b, 1 + (uint32_t)i % 5); /* one site is not defined */
        if (i % 3 == 2) book_free_sized(&b, b.next_serial - 2, 99);
        if (i % 8 == 0) book_gc(&b, i, 0);
        if (i % 8 == 4) book_gc(&b, i, 1);
        if (i == 20) book_seal(&b);
        if (i == 25) book_reclass(&b, 2, 7);
        if (i == 25) book_mark(&b, "warm");
        if (i == 30) book_live(&b, 3, 2, 77, 5, 2);
    }
    b.at = mpp_put_varint(mpp_put_varint(mpp_encode_1(b.at, MPP_PROC, 1), MPP_PROC_RSS_BYTES), 1 << 20);
    book_seal(&b);
    assert_int_equal(mpp_writer_finish(b.writer, 50000), MPP_OK);
    int fd = memfd_create("log", 0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, b.file.data, b.file.bytes), b.file.bytes);
    snprintf(log_path, sizeof log_path, "/proc/self/fd/%d", fd);
    book_release(&b);
    assert_non_null(mkdtemp(directory));
    snprintf(report_path, sizeof report_path, "%s/report", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(directory);
}

static size_t count_files(void)
{
    DIR *d = opendir(directory);
    size_t count = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

struct outcome {
    int status;
    char *out, *err;
    size_t out_bytes, err_bytes;
};

static void outcome_release(struct outcome *o)
{
    free(o->out);
    free(o->err);
}

#define MAX_WORDS 12

/* Runs a command line (the log's path is put behind it) with the nth allocation failing; 0: none. */
static struct outcome run(const char *const words[], int nth, int all)
{
    struct outcome o = {0};
    char *argv[MAX_WORDS + 3] = {NULL};
    FILE *real_out = stdout, *real_err = stderr;
    int argc = 1;

    argv[0] = (char *)(uintptr_t) "mppanalyze";
    for (; words[argc - 1]; argc++) argv[argc] = (char *)(uintptr_t)words[argc - 1];
    argv[argc++] = log_path;
    stdout = open_memstream(&o.out, &o.out_bytes);
    stderr = open_memstream(&o.err, &o.err_bytes);
    fail_all = all;
    failed_count = 0;
    countdown = nth;
    o.status = command_main(argc, argv);
    countdown = 0;
    fclose(stdout);
    fclose(stderr);
    stdout = real_out;
    stderr = real_err;
    return o;
}

/* Fails each allocation of a command in turn. */
static void try_all(const char *const words[], int all)
{
    struct outcome right = run(words, 0, 0);
    int n = 0;
    unsigned failed, harmless = 0;

    assert_int_equal(right.status, EXIT_DONE);
    assert_true(right.out_bytes > 0);
    do {
        struct outcome o = run(words, ++n, all);
        failed = failed_count;
        if (o.status == EXIT_DONE) {
            harmless += failed > 0;
            if (o.out_bytes != right.out_bytes || memcmp(o.out, right.out, o.out_bytes) != 0) {
                fail_msg("allocation %d of %s: exit status 0, and not the right report:\n%s\n%s", n, words[0], o.out, o.err);
            }
        } else {
            if (o.err_bytes < 12 || strncmp(o.err, "mppanalyze: ", 12) != 0) fail_msg("allocation %d of %s: no message: %s", n, words[0], o.err);
            if (o.out_bytes && strcmp(words[0], "dump") != 0) fail_msg("allocation %d of %s: prints, and fails: %s", n, words[0], o.out);
        }
        outcome_release(&o);
        assert_true(n < 20000);
    } while (failed);
    outcome_release(&right);
    assert_true(n > 20 && harmless < (unsigned)n / 2);
}

/* The same into a file. */
static void try_all_to_file(const char *const words[])
{
    int n = 0;
    unsigned failed;

    do {
        struct outcome o = run(words, ++n, 0);
        failed = failed_count;
        assert_int_equal(o.out_bytes, 0);
        assert_int_equal(count_files(), o.status == EXIT_DONE ? 1 : 0);
        if (o.status == EXIT_DONE) unlink(report_path);
        outcome_release(&o);
    } while (failed);
    assert_true(n > 20);
}

static void test_top(void **state)
{
    static const char *const json[] = {"top", "--format", "json", "--by", "stack", "--limit", "2", NULL};
    static const char *const text[] = {"top", "--by", "class", "--at", "peak", "--min-age", "1", "--focus", "Leak", NULL};
    static const char *const folded[] = {"top", "--format", "folded", NULL};

    (void)state;
    for (int all = 0; all < 2; all++) {
        try_all(json, all);
        try_all(text, all);
        try_all(folded, all);
    }
}

static void test_diff(void **state)
{
    static const char *const json[] = {"diff", "--from", "mark:warm", "--format", "json", "--limit", "2", NULL};
    static const char *const text[] = {"diff", "--from", "10%", "--to", "gc:12", "--by", "method", "--min-age", "1", NULL};

    (void)state;
    for (int all = 0; all < 2; all++) {
        try_all(json, all);
        try_all(text, all);
    }
}

static void test_timeline(void **state)
{
    static const char *const json[] = {"timeline", "--points", "3", "--format", "json", NULL};
    static const char *const text[] = {"timeline", "--points", "3", NULL};

    (void)state;
    for (int all = 0; all < 2; all++) {
        try_all(json, all);
        try_all(text, all);
    }
}

static void test_pprof(void **state)
{
    static const char *const pprof[] = {"pprof", "--at", "50%", NULL};
    static const char *const diff[] = {"diff", "--from", "50%", "--format", "pprof", NULL};

    (void)state;
    for (int all = 0; all < 2; all++) {
        try_all(pprof, all);
        try_all(diff, all);
    }
}

static void test_info_and_verify(void **state)
{
    static const char *const info[] = {"info", NULL};
    static const char *const info_json[] = {"info", "--format", "json", NULL};
    static const char *const verify[] = {"verify", "--format", "json", NULL};

    (void)state;
    for (int all = 0; all < 2; all++) {
        try_all(info, all);
        try_all(info_json, all);
        try_all(verify, all);
    }
}

/* Lines that stand whole before a failure are all that dump has printed. */
static void test_dump(void **state)
{
    static const char *const json[] = {"dump", "--format", "json", "--limit", "12", "--all", NULL};
    static const char *const text[] = {"dump", NULL};
    int n = 0;
    unsigned failed;

    (void)state;
    for (int all = 0; all < 2; all++) {
        try_all(json, all);
        try_all(text, all);
    }
    do {
        struct outcome o = run(json, ++n, 0);
        failed = failed_count;
        for (char *line = o.out, *end; *line; line = end + 1) {
            json_t *record;
            end = strchr(line, '\n');
            assert_non_null(end);
            record = json_loadb(line, (size_t)(end - line), 0, NULL);
            assert_true(json_is_object(record));
            json_decref(record);
        }
        outcome_release(&o);
    } while (failed);
}

static void test_files(void **state)
{
    const char *json[] = {"top", "--format", "json", "--limit", "1", "-o", report_path, NULL};
    const char *pprof[] = {"--at", "end", "-o", report_path, NULL};

    (void)state;
    try_all_to_file(json);
    try_all_to_file(pprof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_top),
                                       cmocka_unit_test(test_diff),
                                       cmocka_unit_test(test_timeline),
                                       cmocka_unit_test(test_pprof),
                                       cmocka_unit_test(test_info_and_verify),
                                       cmocka_unit_test(test_dump),
                                       cmocka_unit_test(test_files)};

    json_set_alloc_funcs(__wrap_malloc, free);
    return cmocka_run_group_tests(tests, setup, teardown);
}
