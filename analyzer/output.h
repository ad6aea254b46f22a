/* Where a report goes: standard output, or a file that appears whole or not at all (a temporary file beside it, synced, then renamed; taken away on
 * failure and on a signal). */
#ifndef MPP_OUTPUT_H
#define MPP_OUTPUT_H

#include <stdio.h>

struct output {
    FILE *file;               /* to write to */
    const char *path;         /* NULL: standard output */
    char *target, *temporary; /* NULL: written in place (standard output, a device, a pipe) */
};

/* `path`: NULL or "-" is standard output. 0, or -1 after a message. */
int output_open(struct output *o, const char *path);
/* Ends it: all is written and in place, or (-1, after a message) nothing is left. */
int output_commit(struct output *o);
/* Ends it and leaves nothing. */
void output_abort(struct output *o);
/* Whether a person will see it. */
int output_is_terminal(const struct output *o);

#endif
