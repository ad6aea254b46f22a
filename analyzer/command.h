/* The commands of mppanalyze, one file each (cmd_NAME.c), thin over the library. To add one: a handler there, its declaration here, a bit in
 * options.h, a row in command.c's table. */
#ifndef MPP_COMMAND_H
#define MPP_COMMAND_H

#include "analyzer/options.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    int (*run)(const struct options *o); /* its value is the exit status */
    enum command_bit bit;
    const char *summary;     /* one line, for the list */
    const char *description; /* a paragraph */
    const char *examples;    /* lines of two spaces and a command line */
    unsigned formats;        /* 1 << enum format; 0: it knows one form only */
    unsigned sorts;          /* 1 << enum sort_key */
};

extern const struct command commands[];
extern const size_t command_count;
const struct command *command_find(const char *name);
/* The command that `name` may be a slip of, or NULL. */
const char *command_near(const char *name);
extern const char mppanalyze_version[];

/* All that main does. */
int command_main(int argc, char **argv);

int cmd_pprof(const struct options *o);
int cmd_diff(const struct options *o);
int cmd_top(const struct options *o);
int cmd_timeline(const struct options *o);
int cmd_info(const struct options *o);
int cmd_dump(const struct options *o);
int cmd_verify(const struct options *o);

#endif
