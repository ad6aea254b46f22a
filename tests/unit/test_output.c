/* Reports appear whole or not at all. */
#include "analyzer/output.h"
#include "unit.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/mpp-output-XXXXXX";
static char path[64], said[4096];

static int setup(void **state)
{
    (void)state;
    memcpy(directory + strlen(directory) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/report", directory);
    return 0;
}

static size_t files(void)
{
    DIR *d = opendir(directory);
    size_t n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int teardown(void **state)
{
    char command[96];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static const char *content(const char *file)
{
    static char text[4096];
    FILE *f = fopen(file, "r");

    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* Catches what is said on stderr while `step` runs. */
static int quietly(int (*step)(struct output *), struct output *o)
{
    FILE *file = tmpfile();
    int old = dup(STDERR_FILENO);

    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    int result = step(o);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    return result;
}

static const char *open_path;
static int open_it(struct output *o)
{
    return output_open(o, open_path);
}

static int open_at(struct output *o, const char *where)
{
    open_path = where;
    return quietly(open_it, o);
}

static void test_a_file_appears_at_the_end(void **state)
{
    struct output o;
    struct stat st;

    (void)state;
    umask(022);
    assert_int_equal(output_open(&o, path), 0);
    fputs("hello\n", o.file);
    fflush(o.file);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(output_commit(&o), 0);
    assert_string_equal(content(path), "hello\n");
    assert_int_equal(files(), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
}

static void test_an_abort_leaves_what_was(void **state)
{
    struct output o;

    (void)state;
    assert_int_equal(output_open(&o, path), 0);
    fputs("old", o.file);
    assert_int_equal(output_commit(&o), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(output_open(&o, path), 0);
    fputs("new", o.file);
    output_abort(&o);
    assert_string_equal(content(path), "old");
    assert_int_equal(files(), 1);
    struct stat st;
    assert_int_equal(output_open(&o, path), 0);
    assert_int_equal(output_commit(&o), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600); /* kept */
}

static void test_a_full_disk(void **state)
{
    struct output o;

    (void)state;
    assert_int_equal(output_open(&o, "/dev/full"), 0);
    for (int i = 0; i < 10000; i++) fputs("0123456789", o.file);
    assert_int_equal(quietly(output_commit, &o), -1);
    assert_string_equal(said, "mppanalyze: cannot write \"/dev/full\": No space left on device\n");
}

static void test_a_small_write_on_a_full_disk(void **state)
{
    struct output o;

    (void)state;
    assert_int_equal(output_open(&o, "/dev/full"), 0);
    fputs("x", o.file);
    assert_int_equal(quietly(output_commit, &o), -1);
}

static void test_where_nothing_can_be_written(void **state)
{
    char nowhere[96], loop[96];
    struct output o;

    (void)state;
    snprintf(nowhere, sizeof nowhere, "%s/no/such/directory", directory);
    assert_int_equal(open_at(&o, nowhere), -1);
    assert_non_null(strstr(said, "No such file or directory"));
    assert_int_equal(open_at(&o, directory), -1);
    assert_non_null(strstr(said, "Is a directory"));
    snprintf(loop, sizeof loop, "%s/loop", directory);
    assert_int_equal(symlink(loop, loop), 0);
    (void)open_at(&o, loop);
    if (o.file) output_abort(&o);
    assert_int_equal(files(), 1);
}

static void test_a_link_stays_a_link(void **state)
{
    char link[96];
    struct output o;
    struct stat st;

    (void)state;
    assert_int_equal(output_open(&o, path), 0);
    assert_int_equal(output_commit(&o), 0);
    snprintf(link, sizeof link, "%s/link", directory);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(output_open(&o, link), 0);
    fputs("through", o.file);
    assert_int_equal(output_commit(&o), 0);
    assert_string_equal(content(path), "through");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void test_a_signal_leaves_nothing(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct output o;
            signal(signals[i], SIG_DFL);
            if (output_open(&o, path)) _exit(3);
            fputs("half", o.file);
            fflush(o.file);
            raise(signals[i]);
            _exit(4);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        assert_int_equal(files(), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_file_appears_at_the_end),    TEST(test_an_abort_leaves_what_was),     TEST(test_a_full_disk),
        TEST(test_a_small_write_on_a_full_disk), TEST(test_where_nothing_can_be_written), TEST(test_a_link_stays_a_link),
        TEST(test_a_signal_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
