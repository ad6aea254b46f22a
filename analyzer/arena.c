#include "analyzer/arena.h"
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK_BYTES ((size_t)64 << 10)

struct arena {
    struct arena *previous;
    size_t used, capacity;
    char bytes[];
};

char *arena_copy(struct arena **a, const void *data, size_t bytes)
{
    size_t needed = bytes + 1;

    if (!*a || (*a)->capacity - (*a)->used < needed) {
        size_t capacity = needed > ARENA_BLOCK_BYTES / 4 ? needed : ARENA_BLOCK_BYTES;
        struct arena *fresh = malloc(sizeof *fresh + capacity);
        if (!fresh) return NULL;
        fresh->used = 0;
        fresh->capacity = capacity;
        if (*a && capacity == needed) {
            /* A large string gets a block of its own behind the current one, whose room stays in use. */
            fresh->previous = (*a)->previous;
            (*a)->previous = fresh;
        } else {
            fresh->previous = *a;
            *a = fresh;
        }
        fresh->used = needed;
        if (bytes) memcpy(fresh->bytes, data, bytes);
        fresh->bytes[bytes] = 0;
        return fresh->bytes;
    }
    char *copy = (*a)->bytes + (*a)->used;
    if (bytes) memcpy(copy, data, bytes);
    copy[bytes] = 0;
    (*a)->used += needed;
    return copy;
}

void arena_free(struct arena *a)
{
    while (a) {
        struct arena *previous = a->previous;
        free(a);
        a = previous;
    }
}
