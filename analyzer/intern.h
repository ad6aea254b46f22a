/* Equal bytes, one number: 0, 1, 2 … in order of first sight. For names, and for small structs that are told apart by their bytes. */
#ifndef MPP_INTERN_H
#define MPP_INTERN_H

#include <stddef.h>
#include <stdint.h>

#define INTERN_NONE UINT32_MAX

struct intern_entry {
    const char *bytes; /* with a zero byte behind them; aligned for nothing */
    size_t length;
};

struct intern {
    struct intern_entry *entries;
    size_t count, capacity;
    uint32_t *table; /* index + 1 */
    size_t table_size;
    struct arena *arena;
};

void intern_release(struct intern *in);
/* The number of `bytes`, or INTERN_NONE when memory is short. */
uint32_t intern_put(struct intern *in, const void *bytes, size_t length);

static inline const char *intern_text(const struct intern *in, uint32_t i)
{
    return in->entries[i].bytes;
}

#endif
