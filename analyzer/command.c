#include "analyzer/command.h"
#include "analyzer/message.h"
#include "analyzer/progress.h"
#include "formats/mpp_format.h"
#include <string.h>
#include <unistd.h>

const char mppanalyze_version[] = MPP_TOOL_VERSION; /* of the file VERSION, by the Makefile */

#define TEXT_AND_JSON (1u << FORMAT_TEXT | 1u << FORMAT_JSON)
#define ALL_FORMATS   (TEXT_AND_JSON | 1u << FORMAT_PPROF | 1u << FORMAT_FOLDED)
#define TOP_SORTS                                                                                                                                    \
    (1u << SORT_LIVE_BYTES | 1u << SORT_LIVE_OBJECTS | 1u << SORT_ALLOCATED_BYTES | 1u << SORT_ALLOCATED_OBJECTS | 1u << SORT_FREED_BYTES |          \
     1u << SORT_FREED_OBJECTS | 1u << SORT_NAME)
#define DIFF_SORTS                                                                                                                                   \
    (1u << SORT_RETAINED_BYTES | 1u << SORT_RETAINED_OBJECTS | 1u << SORT_DELTA_BYTES | 1u << SORT_DELTA_OBJECTS | 1u << SORT_TO_BYTES |             \
     1u << SORT_NAME)

const struct command commands[] = {
    {"pprof", cmd_pprof, FOR_PPROF, "write the heap of a moment as a pprof profile (the default)",
     "Writes what was live at --at TIME, and all that was allocated until then, as a gzip'ed pprof profile: for go tool pprof, speedscope, "
     "Pyroscope, Parca.\n"
     "Its sample types are alloc_objects, alloc_space, inuse_objects and inuse_space; its labels class, type, thread and gc_age.",
     "  mppanalyze --at 14:03 app.mpp -o heap.pb.gz\n"
     "  go tool pprof -http : heap.pb.gz\n"
     "  mppanalyze pprof --at peak --class '^String$' app.mpp -o strings.pb.gz\n",
     1u << FORMAT_PPROF, 0},
    {"diff", cmd_diff, FOR_DIFF, "what appeared between two moments, and is still there",
     "Compares the live heap of --from TIME with that of --to TIME. Retained is what was allocated between them and is live at --to: a leak stands "
     "at the top. Delta is the growth of all that is live: about 0 for what is only renewed, as a cache is. An older object that grows, such as a "
     "string that is appended to, has delta alone: --sort delta_bytes. Young garbage that waits for the next GC is retained, too: --min-age 2 "
     "leaves it out.",
     "  mppanalyze diff --from 14:03 --to 15:10 app.mpp\n"
     "  mppanalyze diff --from mark:warm --to end --by class --min-age 3 app.mpp\n"
     "  mppanalyze diff --from 10% --to 90% --format pprof app.mpp -o diff.pb.gz\n",
     ALL_FORMATS, DIFF_SORTS},
    {"top", cmd_top, FOR_TOP, "who holds the heap at a moment, the greatest first",
     "Lists what is live at --at TIME (the end, if not given), and what was allocated until then, gathered by line, stack, method, file, class, "
     "type or thread. --sort allocated_bytes shows who makes the garbage.",
     "  mppanalyze top app.mpp\n"
     "  mppanalyze top --at peak --by class app.mpp\n"
     "  mppanalyze top --by stack --focus 'app/models' --limit 5 app.mpp\n"
     "  mppanalyze top --format folded app.mpp | flamegraph.pl > heap.svg\n",
     ALL_FORMATS, TOP_SORTS},
    {"timeline", cmd_timeline, FOR_TIMELINE, "how the heap grew",
     "Tells live objects and bytes, the process's memory, GCs and marks in equal steps of time from the start to the end.",
     "  mppanalyze timeline app.mpp\n"
     "  mppanalyze timeline --points 600 --format json app.mpp -o timeline.json\n",
     TEXT_AND_JSON, 0},
    {"info", cmd_info, FOR_INFO, "what a log is, what is in it and how sound it is",
     "Tells which process the log is of, how much was recorded, its totals, peak, marks, losses and damage.",
     "  mppanalyze info app.mpp\n"
     "  mppanalyze info --format json app.mpp | jq .peak\n",
     TEXT_AND_JSON, 0},
    {"dump", cmd_dump, FOR_DUMP, "every record of a log, one a line",
     "Prints the records in the order of the history. With --all the records of PROC and DEFINITIONS blocks come too.",
     "  mppanalyze dump --limit 20 app.mpp\n"
     "  mppanalyze dump --format json app.mpp | jq -c 'select(.kind == \"MARK\")'\n",
     TEXT_AND_JSON, 0},
    {"verify", cmd_verify, FOR_VERIFY, "read every byte and tell what is damaged",
     "Checks each checksum, count and number of the log against each other. The exit status is 1 when something is wrong.",
     "  mppanalyze verify app.mpp\n", TEXT_AND_JSON, 0},
};
const size_t command_count = sizeof commands / sizeof commands[0];

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    }
    return NULL;
}

/* Letters to insert, leave out, replace or exchange with their neighbour. */
static size_t distance(const char *a, const char *b)
{
    enum { LIMIT = 16 };
    size_t n = strlen(a), m = strlen(b), d[LIMIT + 1][LIMIT + 1];

    if (n > LIMIT || m > LIMIT) return LIMIT;
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t k = 0; k <= m; k++) d[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        for (size_t k = 1; k <= m; k++) {
            size_t least = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            if (d[i - 1][k] + 1 < least) least = d[i - 1][k] + 1;
            if (d[i][k - 1] + 1 < least) least = d[i][k - 1] + 1;
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] && d[i - 2][k - 2] + 1 < least) least = d[i - 2][k - 2] + 1;
            d[i][k] = least;
        }
    }
    return d[n][m];
}

const char *command_near(const char *name)
{
    const char *nearest = NULL;
    size_t least = 3;

    for (size_t i = 0; i < command_count; i++) {
        size_t here = distance(name, commands[i].name);
        if (here >= least || here >= strlen(commands[i].name)) continue;
        least = here;
        nearest = commands[i].name;
    }
    return nearest;
}

/* Whether `word` can only have been meant as a command: letters alone, and no such file. */
static int looks_like_a_command(const char *word)
{
    return word[0] && strspn(word, "abcdefghijklmnopqrstuvwxyz-") == strlen(word) && word[0] != '-' && access(word, F_OK) != 0;
}

static void print_help(FILE *out)
{
    fputs("mppanalyze asks a log of mpprecord what a Ruby process held, at any moment of its life.\n\n"
          "  mppanalyze [COMMAND] [OPTIONS] LOG        no COMMAND means pprof\n\nCommands:\n",
          out);
    for (size_t i = 0; i < command_count; i++) fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nTIME is one of\n%s", time_help);
    fputs("\nA log may carry its point: app.mpp@mark:warm.\n\nExamples:\n"
          "  mppanalyze info app.mpp                                    what is in it?\n"
          "  mppanalyze top --at 14:03 app.mpp                          what was live at 14:03?\n"
          "  mppanalyze diff --from 14:03 --to 15:10 app.mpp            what appeared and is still there?\n"
          "  mppanalyze --at 14:03 app.mpp -o heap.pb.gz                the same for pprof\n"
          "\nmppanalyze COMMAND --help tells a command's options. Exit status: 0 done, 1 failed, 2 wrong usage.\n",
          out);
}

static void print_command_help(FILE *out, const struct command *c)
{
    fprintf(out, "mppanalyze %s: %s\n\n  mppanalyze %s [OPTIONS] LOG\n\n", c->name, c->summary, c->name);
    print_wrapped(out, c->description, 0, 0);
    fputs("\nOptions:\n", out);
    options_print_help(out, c);
    if (c->bit & (FOR_PPROF | FOR_TOP | FOR_DIFF)) fprintf(out, "\nTIME is one of\n%s", time_help);
    fprintf(out, "\nExamples:\n%s", c->examples);
}

static int finish_stdout(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_DONE;
    message("cannot write to standard output: %m");
    return EXIT_FAILED;
}

/* `mppanalyze help [COMMAND]`, and --help before any command. */
static int help(const char *about)
{
    const struct command *c = about ? command_find(about) : NULL;

    if (about && !c) {
        message("no command \"%s\": mppanalyze --help lists them", about);
        return EXIT_USAGE;
    }
    if (c) {
        print_command_help(stdout, c);
    } else {
        print_help(stdout);
    }
    return finish_stdout();
}

int command_main(int argc, char **argv)
{
    struct options o;
    int status = EXIT_USAGE;

    if (argc < 2) {
        message("no log given: mppanalyze [COMMAND] [OPTIONS] LOG; mppanalyze --help tells more");
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc <= 3) return help(argv[2]);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help(NULL);
    const struct command *named = command_find(argv[1]), *c = named ? named : &commands[0];
    if (!named && looks_like_a_command(argv[1])) {
        const char *near = command_near(argv[1]);
        message("\"%s\" is neither a command nor a log: %s%s%s", argv[1], near ? "did you mean " : "mppanalyze --help lists the commands",
                near ? near : "", near ? "?" : "");
        return EXIT_USAGE;
    }
    /* Parsing begins behind argv[0] of what it gets: the command's name, or ours. */
    switch (options_parse(&o, c, named ? argc - 1 : argc, named ? argv + 1 : argv)) {
    case PARSE_HELP:
        status = help(named ? c->name : NULL);
        break;
    case PARSE_VERSION:
        printf("mppanalyze %s (log format %d.%d)\n", mppanalyze_version, MPP_VERSION_MAJOR, MPP_VERSION_MINOR);
        status = finish_stdout();
        break;
    case PARSE_RUN:
        message_quiet = o.quiet;
        progress_enable(!o.quiet);
        status = c->run(&o);
        progress_clear();
        break;
    case PARSE_FAILED:
        status = EXIT_FAILED;
        break;
    case PARSE_WRONG:
        break;
    }
    options_release(&o);
    return status;
}
