/* The command line. One table of options, each with the commands that take it, from which parsing and help are derived. To add an option: a row in
 * options.c, a field here, a case in take. */
#ifndef MPP_OPTIONS_H
#define MPP_OPTIONS_H

#include "analyzer/group.h"
#include "analyzer/timespec.h"
#include <stdio.h>

/* Bits of commands, for the options' table. */
enum command_bit { FOR_PPROF = 1, FOR_DIFF = 2, FOR_TOP = 4, FOR_TIMELINE = 8, FOR_INFO = 16, FOR_DUMP = 32, FOR_VERIFY = 64, FOR_ALL = 127 };

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_PPROF, FORMAT_FOLDED, FORMAT_COUNT };
extern const char *const format_names[FORMAT_COUNT];

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

#define LIMIT_DEFAULT UINT64_MAX

struct options {
    char *log; /* path; malloc'ed */
    struct time_spec at, from, to;
    char *point;        /* the TIME behind LOG@, which `at` may point into; malloc'ed */
    const char *output; /* NULL: stdout */
    enum format format;
    enum group_by by;
    enum sort_key sort;
    uint64_t limit;  /* 0: all; LIMIT_DEFAULT: not given */
    uint64_t points; /* 0: not given */
    regex_t focus, ignore, class_name;
    int has_focus, has_ignore, has_class_name;
    uint64_t min_age;
    int has_at, has_from, has_to, has_format, has_sort;
    int recorder, all, raw, quiet;
    enum color color;
};

struct command;

enum parse_result { PARSE_RUN, PARSE_HELP, PARSE_VERSION, PARSE_WRONG, PARSE_FAILED };

/* Parses argv[first..] for `c`. PARSE_WRONG: after a message; PARSE_FAILED: the same, of a
 * TIME that is none. *o must be released in every case. */
enum parse_result options_parse(struct options *o, const struct command *c, int argc, char **argv);
void options_release(struct options *o);

void options_filter(const struct options *o, struct group_filter *f);

/* Prints `text` in lines of at most 80 columns; the first goes on at column `at`, the others are indented by `indent`. Ends the last one. */
void print_wrapped(FILE *out, const char *text, size_t at, size_t indent);
/* The options of a command, a line or more each. */
void options_print_help(FILE *out, const struct command *c);

#endif
