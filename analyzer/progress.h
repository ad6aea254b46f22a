/* A line on stderr that tells how far a long work is; only when stderr is a terminal, and only after it has taken a while. */
#ifndef MPP_PROGRESS_H
#define MPP_PROGRESS_H

#include <stdint.h>

void progress_enable(int on);
/* `done` of `all` steps of what is called `name`. Cheap enough for every block. */
void progress_step(const char *name, uint64_t done, uint64_t all);
/* Takes the line away, before anything else is said. */
void progress_clear(void);

#endif
