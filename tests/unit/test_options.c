/* The command line: what is taken, what is refused, and that help tells all of it. */
#include "analyzer/command.h"
#include "unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char said[8192]; /* on stderr, by the last call */

/* Parses `words` (ended by NULL) as the command line behind `mppanalyze NAME`. */
static enum parse_result parse(struct options *o, const char *name, const char *const *words)
{
    char *argv[32] = {(char *)name};
    int argc = 1, old = dup(STDERR_FILENO);
    FILE *file = tmpfile();

    for (; words[argc - 1]; argc++) argv[argc] = (char *)words[argc - 1];
    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    enum parse_result result = options_parse(o, command_find(name), argc, argv);
    fflush(stderr);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    return result;
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_defaults(void **state)
{
    struct options o;

    (void)state;
    assert_int_equal(parse(&o, "top", WORDS("a.mpp")), PARSE_RUN);
    assert_string_equal(o.log, "a.mpp");
    assert_int_equal(o.at.kind, TIME_END);
    assert_string_equal(o.at.text, "end");
    assert_int_equal(o.by, BY_LINE);
    assert_int_equal(o.sort, SORT_LIVE_BYTES);
    assert_int_equal(o.format, FORMAT_TEXT);
    assert_int_equal(o.limit, LIMIT_DEFAULT);
    options_release(&o);
    assert_int_equal(parse(&o, "pprof", WORDS("a.mpp")), PARSE_RUN);
    assert_int_equal(o.format, FORMAT_PPROF);
    options_release(&o);
    assert_int_equal(parse(&o, "diff", WORDS("a.mpp", "--from", "1s")), PARSE_RUN);
    assert_int_equal(o.sort, SORT_RETAINED_BYTES);
    assert_int_equal(o.to.kind, TIME_END);
    options_release(&o);
}

static void test_options_and_operands_mix(void **state)
{
    struct options o;

    (void)state;
    assert_int_equal(parse(&o, "pprof", WORDS("--at", "-10s", "a.mpp", "-o", "x.pb.gz", "--min-age=3", "-q", "--class", "^S")), PARSE_RUN);
    assert_string_equal(o.log, "a.mpp");
    assert_int_equal(o.at.kind, TIME_BEFORE_END);
    assert_string_equal(o.output, "x.pb.gz");
    assert_int_equal(o.min_age, 3);
    assert_true(o.quiet && o.has_class_name);
    options_release(&o);
}

static void test_wrong_usage(void **state)
{
    static const struct {
        const char *command, *words[6], *says;
    } cases[] = {
        {"top", {NULL}, "no log given"},
        {"top", {"a.mpp", "b.mpp"}, "takes one log"},
        {"top", {"diff", "b.mpp"}, "is a command"},
        {"top", {"a.mpp", "--nonsense"}, "no option \"--nonsense\""},
        {"top", {"a.mpp", "-x"}, "no option"},
        {"top", {"a.mpp", "--from", "1s"}, "no option \"--from\""},
        {"top", {"a.mpp", "--at"}, "needs an argument"},
        {"top", {"a.mpp", "--by", "colour"}, "--by \"colour\": it is none of stack, line"},
        {"top", {"a.mpp", "--sort", "retained_bytes"}, "--sort"},
        {"diff", {"a.mpp", "--from", "1s", "--sort", "live_bytes"}, "--sort"},
        {"diff", {"a.mpp"}, "needs --from"},
        {"top", {"a.mpp", "--format", "yaml"}, "it is none of text, json, pprof, folded"},
        {"timeline", {"a.mpp", "--format", "pprof"}, "--format"},
        {"timeline", {"a.mpp", "--points", "0"}, "--points"},
        {"top", {"a.mpp", "--limit", "-1"}, "--limit"},
        {"top", {"a.mpp", "--limit", "99999999999999999999"}, "--limit"},
        {"top", {"a.mpp", "--limit", ""}, "--limit"},
        {"top", {"a.mpp", "--focus", "("}, "--focus \"(\""},
        {"top", {"a.mpp", "--color", "blue"}, "--color"},
    };
    struct options o;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(parse(&o, cases[i].command, cases[i].words), PARSE_WRONG);
        if (strncmp(said, "mppanalyze: ", 12) != 0 || !strstr(said, cases[i].says) || strchr(said, '\n') != said + strlen(said) - 1)
            fail_msg("case %zu says: %s", i, said);
        options_release(&o);
    }
}

static void test_no_time_is_a_failure(void **state)
{
    struct options o;

    (void)state;
    assert_int_equal(parse(&o, "top", WORDS("a.mpp", "--at", "noon")), PARSE_FAILED);
    assert_non_null(strstr(said, "--at \"noon\""));
    options_release(&o);
}

static void test_slips(void **state)
{
    (void)state;
    assert_string_equal(command_near("toop"), "top");
    assert_string_equal(command_near("tiemline"), "timeline");
    assert_string_equal(command_near("verfy"), "verify");
    assert_null(command_near("app.mpp"));
    assert_null(command_near("x"));
}

static void test_help_and_version(void **state)
{
    struct options o;

    (void)state;
    assert_int_equal(parse(&o, "top", WORDS("--help")), PARSE_HELP);
    options_release(&o);
    assert_int_equal(parse(&o, "top", WORDS("a.mpp", "--version")), PARSE_VERSION);
    options_release(&o);
}

static void test_help_lists_every_option(void **state)
{
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        options_print_help(out, &commands[i]);
        fclose(out);
        assert_non_null(strstr(text, "--help"));
        assert_non_null(strstr(text, "-o, --output FILE"));
        assert_int_equal(strstr(text, "--from TIME") != NULL, commands[i].bit == FOR_DIFF);
        assert_int_equal(strstr(text, "--points N") != NULL, commands[i].bit == FOR_TIMELINE);
        assert_non_null(strstr(commands[i].examples, "mppanalyze"));
        free(text);
    }
}

static void test_log_with_its_point(void **state)
{
    char path[] = "/tmp/mpp-options-XXXXXX", operand[64];
    struct options o;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    snprintf(operand, sizeof operand, "%s@mark:warm", path);
    assert_int_equal(parse(&o, "top", WORDS(operand)), PARSE_RUN);
    assert_string_equal(o.log, path);
    assert_int_equal(o.at.kind, TIME_MARK);
    assert_string_equal(o.at.text, "mark:warm");
    options_release(&o);
    assert_int_equal(parse(&o, "top", WORDS(operand, "--at", "5s")), PARSE_WRONG);
    options_release(&o);
    assert_int_equal(parse(&o, "info", WORDS(operand)), PARSE_WRONG);
    options_release(&o);
    snprintf(operand, sizeof operand, "%s@nonsense", path);
    assert_int_equal(parse(&o, "top", WORDS(operand)), PARSE_FAILED);
    options_release(&o);
    unlink(path);
    assert_int_equal(parse(&o, "top", WORDS(operand)), PARSE_RUN); /* no such file: opening it says so */
    assert_string_equal(o.log, operand);
    options_release(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_options_and_operands_mix),
        cmocka_unit_test(test_wrong_usage),
        cmocka_unit_test(test_no_time_is_a_failure),
        cmocka_unit_test(test_slips),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_help_lists_every_option),
        cmocka_unit_test(test_log_with_its_point),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
