#include "analyzer/options.h"
#include "analyzer/command.h"
#include "analyzer/message.h"
#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const format_names[FORMAT_COUNT] = {"text", "json", "pprof", "folded"};
static const char *const color_names[] = {"auto", "always", "never"};

enum {
    OPT_AT = 256,
    OPT_FROM,
    OPT_TO,
    OPT_FORMAT,
    OPT_BY,
    OPT_SORT,
    OPT_LIMIT,
    OPT_POINTS,
    OPT_FOCUS,
    OPT_IGNORE,
    OPT_CLASS,
    OPT_MIN_AGE,
    OPT_RECORDER,
    OPT_ALL,
    OPT_RAW,
    OPT_COLOR,
    OPT_VERSION
};

#define ROWS (FOR_TOP | FOR_DIFF)

static const struct option_row {
    int code; /* a letter, or above 255 */
    const char *name, *argument, *help;
    unsigned commands;
} rows[] = {
    {OPT_AT, "at", "TIME", "the moment; default: end", FOR_PPROF | FOR_TOP},
    {OPT_FROM, "from", "TIME", "the earlier moment", FOR_DIFF},
    {OPT_TO, "to", "TIME", "the later moment; default: end", FOR_DIFF},
    {OPT_BY, "by", "GROUP", "line (default: the nearest that is not in C), stack, method, file, class, type or thread", ROWS},
    {OPT_SORT, "sort", "KEY", NULL, ROWS},
    {OPT_LIMIT, "limit", "N", "at most N rows; 0: all; default: 30", ROWS},
    {OPT_LIMIT, "limit", "N", "at most N records; default: all", FOR_DUMP},
    {OPT_FOCUS, "focus", "REGEX", "only backtraces with a frame whose function or path matches (POSIX extended)", ROWS | FOR_PPROF},
    {OPT_IGNORE, "ignore", "REGEX", "no backtraces with such a frame", ROWS | FOR_PPROF},
    {OPT_CLASS, "class", "REGEX", "only objects whose class's name matches", ROWS | FOR_PPROF},
    {OPT_MIN_AGE, "min-age", "N", "only live objects that have survived N GCs: 2 or 3 leave young garbage out", ROWS | FOR_PPROF},
    {OPT_RECORDER, "recorder", NULL, "with the recorder's own allocations, which rows leave out", ROWS | FOR_PPROF},
    {OPT_POINTS, "points", "N", "how many moments; default: 60, or the terminal's height", FOR_TIMELINE},
    {OPT_ALL, "all", NULL, "with the records of PROC and DEFINITIONS blocks", FOR_DUMP},
    {OPT_FORMAT, "format", "FORMAT", NULL, FOR_ALL},
    {'o', "output", "FILE", "where to; - is standard output", FOR_ALL},
    {OPT_RAW, "raw", NULL, "exact numbers, without units", FOR_TOP | FOR_DIFF | FOR_TIMELINE | FOR_INFO},
    {OPT_COLOR, "color", "WHEN", "auto (default), always or never", FOR_ALL},
    {'q', "quiet", NULL, "no remarks and no progress on stderr; warnings stay", FOR_ALL},
    {'h', "help", NULL, "this", FOR_ALL},
    {OPT_VERSION, "version", NULL, "the version", FOR_ALL},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

void print_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
    const size_t width = 80;
    int first = 1; /* on its line */

    while (*text) {
        size_t length = strcspn(text, " \n");
        if (!first && at + 1 + length > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = 1;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)length, text);
        at += length + (first ? 0 : 1);
        first = 0;
        text += length;
        text += *text != 0;
    }
    fputc('\n', out);
}

/* "a, b, c" of those in `mask`, behind `text`. */
static void list_choices(char *text, size_t size, const char *const *names, size_t count, unsigned mask)
{
    for (size_t i = 0, n = 0; i < count; i++) {
        size_t used = strlen(text);
        if (mask >> i & 1) snprintf(text + used, size - used, "%s%s", n++ ? ", " : "", names[i]);
    }
}

void options_print_help(FILE *out, const struct command *c)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct option_row *r = &rows[i];
        char left[48], choices[256] = "";
        if (!(r->commands & c->bit)) continue;
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", r->code < 256 ? '-' : ' ', r->code < 256 ? r->code : ' ', r->code < 256 ? ", " : "  ", r->name,
                 r->argument ? " " : "", r->argument ? r->argument : "");
        int at = fprintf(out, "  %-22s ", left);
        if (r->code == OPT_SORT) list_choices(choices, sizeof choices, sort_names, SORT_COUNT, c->sorts);
        if (r->code == OPT_FORMAT) list_choices(choices, sizeof choices, format_names, FORMAT_COUNT, c->formats);
        if (r->code == OPT_SORT) strncat(choices, "; default: the first", sizeof choices - strlen(choices) - 1);
        print_wrapped(out, r->help ? r->help : choices, (size_t)at, (size_t)at);
    }
}

static int wrong(const char *name, const char *argument, const char *why)
{
    message("--%s \"%s\": %s", name, argument, why);
    return -1;
}

static int take_choice(const char *name, const char *argument, const char *const *names, size_t count, unsigned mask, unsigned *out)
{
    for (size_t i = 0; i < count; i++) {
        if ((mask >> i & 1) && strcmp(names[i], argument) == 0) {
            *out = (unsigned)i;
            return 0;
        }
    }
    char list[300] = "it is none of ";
    list_choices(list, sizeof list, names, count, mask);
    return wrong(name, argument, list);
}

static int take_number(const char *name, const char *argument, uint64_t *out)
{
    uint64_t v = 0;

    for (const char *p = argument; *p || p == argument; p++) {
        if (!isdigit((unsigned char)*p) || __builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v) ||
            v >= LIMIT_DEFAULT)
            return wrong(name, argument, "it takes a number of 0 or more");
    }
    *out = v;
    return 0;
}

/* What is a failure and not wrong usage: no memory; and a TIME that is none, as one that the log lacks, since what it may be depends on the log. */
#define FAILED (-2)

static int take_time(const char *name, const char *argument, struct time_spec *t, int *has)
{
    const char *why;

    *has = 1;
    if (time_parse(t, argument, &why) == 0) return 0;
    wrong(name, argument, why);
    return FAILED;
}

static int take_regex(const char *name, const char *argument, regex_t *re, int *has)
{
    char why[256];

    if (*has) regfree(re);
    *has = 0;
    int error = regcomp(re, argument, REG_EXTENDED);
    if (error) {
        regerror(error, re, why, sizeof why);
        return wrong(name, argument, why);
    }
    *has = 1;
    return 0;
}

/* One option. 0 or -1. */
static int take(struct options *o, const struct command *c, int code, const char *argument)
{
    unsigned choice;

    switch (code) {
    case OPT_AT:
        return take_time("at", argument, &o->at, &o->has_at);
    case OPT_FROM:
        return take_time("from", argument, &o->from, &o->has_from);
    case OPT_TO:
        return take_time("to", argument, &o->to, &o->has_to);
    case OPT_FORMAT:
        if (take_choice("format", argument, format_names, FORMAT_COUNT, c->formats, &choice)) return -1;
        o->format = (enum format)choice;
        o->has_format = 1;
        return 0;
    case OPT_BY:
        if (take_choice("by", argument, group_names, BY_COUNT, UINT32_MAX, &choice)) return -1;
        o->by = (enum group_by)choice;
        return 0;
    case OPT_SORT:
        if (take_choice("sort", argument, sort_names, SORT_COUNT, c->sorts, &choice)) return -1;
        o->sort = (enum sort_key)choice;
        o->has_sort = 1;
        return 0;
    case OPT_COLOR:
        if (take_choice("color", argument, color_names, 3, 7, &choice)) return -1;
        o->color = (enum color)choice;
        return 0;
    case OPT_LIMIT:
        return take_number("limit", argument, &o->limit);
    case OPT_POINTS:
        if (take_number("points", argument, &o->points)) return -1;
        return o->points >= 1 && o->points <= 1000000 ? 0 : wrong("points", argument, "it takes a number from 1 to 1000000");
    case OPT_MIN_AGE:
        return take_number("min-age", argument, &o->min_age);
    case OPT_FOCUS:
        return take_regex("focus", argument, &o->focus, &o->has_focus);
    case OPT_IGNORE:
        return take_regex("ignore", argument, &o->ignore, &o->has_ignore);
    case OPT_CLASS:
        return take_regex("class", argument, &o->class_name, &o->has_class_name);
    case OPT_RECORDER:
        o->recorder = 1;
        return 0;
    case OPT_ALL:
        o->all = 1;
        return 0;
    case OPT_RAW:
        o->raw = 1;
        return 0;
    case 'o':
        o->output = argument;
        return 0;
    case 'q':
        o->quiet = 1;
        return 0;
    default:
        return -1;
    }
}

static int no_memory(void)
{
    message("not enough memory for the command line");
    return FAILED;
}

/* LOG, or LOG@TIME when no file has the whole name. 0, -1 or FAILED. */
static int take_log(struct options *o, const struct command *c, const char *operand)
{
    o->log = strdup(operand);
    if (!o->log) return no_memory();
    if (access(operand, F_OK) == 0) return 0;
    for (char *at = strrchr(o->log, '@'); at && at != o->log; at = strrchr(o->log, '@')) {
        *at = 0;
        if (access(o->log, F_OK) != 0) continue;
        if (!(c->bit & (FOR_TOP | FOR_PPROF))) {
            message("\"%s\": %s takes no point behind the log's name", operand, c->name);
            return -1;
        }
        if (o->has_at) {
            message("\"%s\": its point and --at are two moments: give one", operand);
            return -1;
        }
        o->point = strdup(operand + (at - o->log) + 1);
        return o->point ? take_time("at", o->point, &o->at, &o->has_at) : no_memory();
    }
    /* No such file: opening it will say so, by its whole name. */
    free(o->log);
    o->log = strdup(operand);
    return o->log ? 0 : no_memory();
}

static int take_operands(struct options *o, const struct command *c, int argc, char **argv, int first)
{
    if (first >= argc) {
        message("no log given: mppanalyze %s [OPTIONS] LOG; mppanalyze %s --help tells more", c->name, c->name);
        return -1;
    }
    if (first + 1 < argc) {
        if (command_find(argv[first])) {
            message("\"%s\" is a command: it goes first, before the options", argv[first]);
        } else {
            const char *near = command_near(argv[first]);
            message("%s takes one log, and got \"%s\" and \"%s\": %s%s", c->name, argv[first], argv[first + 1],
                    near ? "did you mean " : "mppanalyze --help lists the commands", near ? near : "");
        }
        return -1;
    }
    return take_log(o, c, argv[first]);
}

enum parse_result options_parse(struct options *o, const struct command *c, int argc, char **argv)
{
    struct option longs[ROW_COUNT + 1] = {{0}};
    char shorts[2 * ROW_COUNT + 2] = ":";
    size_t count = 0;
    int code;
    const char *why;

    *o = (struct options){.by = BY_LINE, .limit = LIMIT_DEFAULT, .sort = c->bit == FOR_DIFF ? SORT_RETAINED_BYTES : SORT_LIVE_BYTES};
    (void)time_parse(&o->at, "end", &why);
    (void)time_parse(&o->to, "end", &why);
    if (c->bit == FOR_PPROF) o->format = FORMAT_PPROF;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!(rows[i].commands & c->bit)) continue;
        longs[count++] =
            (struct option){.name = rows[i].name, .has_arg = rows[i].argument ? required_argument : no_argument, .flag = NULL, .val = rows[i].code};
        if (rows[i].code > 255) continue;
        size_t used = strlen(shorts);
        snprintf(shorts + used, sizeof shorts - used, "%c%s", rows[i].code, rows[i].argument ? ":" : "");
    }
    optind = 0; /* glibc: starts anew */
    opterr = 0;
    while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (code == 'h') return PARSE_HELP;
        if (code == OPT_VERSION) return PARSE_VERSION;
        if (code == '?' || code == ':') {
            const char *given = argv[optind - 1];
            if (code == ':') {
                message("option \"%s\" needs an argument: mppanalyze %s --help tells which", given, c->name);
            } else {
                message("%s has no option \"%s\": mppanalyze %s --help lists them", c->name, given, c->name);
            }
            return PARSE_WRONG;
        }
        int taken = take(o, c, code, optarg);
        if (taken) return taken == FAILED ? PARSE_FAILED : PARSE_WRONG;
    }
    int taken = take_operands(o, c, argc, argv, optind);
    if (taken) return taken == FAILED ? PARSE_FAILED : PARSE_WRONG;
    if (c->bit == FOR_DIFF && !o->has_from) {
        message("diff needs --from TIME: mppanalyze diff --from 50%% --to end \"%s\" is a start", o->log);
        return PARSE_WRONG;
    }
    return PARSE_RUN;
}

void options_release(struct options *o)
{
    if (o->has_focus) regfree(&o->focus);
    if (o->has_ignore) regfree(&o->ignore);
    if (o->has_class_name) regfree(&o->class_name);
    free(o->log);
    free(o->point);
    o->has_focus = o->has_ignore = o->has_class_name = 0;
    o->log = o->point = NULL;
}

void options_filter(const struct options *o, struct group_filter *f)
{
    *f = (struct group_filter){.focus = o->has_focus ? &o->focus : NULL,
                               .ignore = o->has_ignore ? &o->ignore : NULL,
                               .class_name = o->has_class_name ? &o->class_name : NULL,
                               .recorder = o->recorder,
                               .min_age = o->min_age};
}
