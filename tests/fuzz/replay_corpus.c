/* Every fuzz target over its inputs in fixtures/corpus, without a fuzzer: the seeds, and what once crashed. */
#include "fuzz.h"
#include "tests/unit/unit.h"
#include <dirent.h>
#include <string.h>

#define MAX_PATH 512

int fuzz_reader(const uint8_t *data, size_t size);
int fuzz_record(const uint8_t *data, size_t size);
int fuzz_replay(const uint8_t *data, size_t size);
int fuzz_time(const uint8_t *data, size_t size);
int fuzz_pprof(const uint8_t *data, size_t size);
int fuzz_commands(const uint8_t *data, size_t size);

static void run_file(int (*target)(const uint8_t *data, size_t size), const char *path)
{
    FILE *f = fopen(path, "rb");

    printf("%s\n", path);
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(size ? size : 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, size, f), size);
    fclose(f);
    fflush(stdout); /* whatever happens, the name of the input has been told */
    assert_int_equal(target(data, size), 0);
    free(data);
}

static void run_directory(int (*target)(const uint8_t *data, size_t size), const char *name)
{
    const char *corpus = getenv("MPP_CORPUS") ? getenv("MPP_CORPUS") : "fixtures/corpus";
    char directory[MAX_PATH], path[MAX_PATH + 256];
    struct dirent **entries;

    snprintf(directory, sizeof directory, "%s/%s", corpus, name);
    int count = scandir(directory, &entries, NULL, alphasort), ran = 0;
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
            run_file(target, path);
            ran++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(ran > 0);
}

static void test_reader(void **state)
{
    (void)state;
    run_directory(fuzz_reader, "log");
}

static void test_record(void **state)
{
    (void)state;
    run_directory(fuzz_record, "record");
}

static void test_replay(void **state)
{
    (void)state;
    run_directory(fuzz_replay, "log");
}

static void test_time(void **state)
{
    (void)state;
    run_directory(fuzz_time, "time");
}

static void test_pprof(void **state)
{
    (void)state;
    run_directory(fuzz_pprof, "pprof");
}

static void test_commands(void **state)
{
    (void)state;
    run_directory(fuzz_commands, "log");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reader), cmocka_unit_test(test_record), cmocka_unit_test(test_replay),
                                       cmocka_unit_test(test_time),   cmocka_unit_test(test_pprof),  cmocka_unit_test(test_commands)};

    fuzz_all_variants = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
