/* Bytes that are kept until the end: strings, without an allocation each. */
#ifndef MPP_ARENA_H
#define MPP_ARENA_H

#include <stddef.h>

struct arena; /* opaque; NULL is an empty one */

/* A copy of `bytes` bytes with a zero byte behind them, or NULL. */
char *arena_copy(struct arena **a, const void *data, size_t bytes);
void arena_free(struct arena *a);

#endif
