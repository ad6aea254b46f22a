#include "analyzer/intern.h"
#include "analyzer/arena.h"
#include "analyzer/id_map.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void intern_release(struct intern *in)
{
    free(in->entries);
    free(in->table);
    arena_free(in->arena);
    *in = (struct intern){0};
}

static size_t home(const struct intern *in, const void *bytes, size_t length)
{
    return (size_t)XXH3_64bits(bytes, length) & (in->table_size - 1);
}

static int grow(struct intern *in)
{
    size_t wanted = in->table_size ? in->table_size * 2 : 256;
    uint32_t *table = calloc(wanted, sizeof *table);

    if (!table) return -1;
    free(in->table);
    in->table = table;
    in->table_size = wanted;
    for (size_t i = 0; i < in->count; i++) {
        size_t at = home(in, in->entries[i].bytes, in->entries[i].length);
        while (table[at]) at = (at + 1) & (wanted - 1);
        table[at] = (uint32_t)i + 1;
    }
    return 0;
}

uint32_t intern_put(struct intern *in, const void *bytes, size_t length)
{
    if ((in->count + 1) * 4 > in->table_size * 3 && grow(in)) return INTERN_NONE;
    size_t at = home(in, bytes, length);
    for (; in->table[at]; at = (at + 1) & (in->table_size - 1)) {
        const struct intern_entry *e = &in->entries[in->table[at] - 1];
        if (e->length == length && memcmp(e->bytes, bytes, length) == 0) return in->table[at] - 1;
    }
    if (in->count >= INTERN_NONE - 1) return INTERN_NONE;
    if (array_reserve((void **)&in->entries, &in->capacity, in->count + 1, sizeof *in->entries)) return INTERN_NONE;
    const char *copy = arena_copy(&in->arena, bytes, length);
    if (!copy) return INTERN_NONE;
    in->entries[in->count] = (struct intern_entry){.bytes = copy, .length = length};
    in->table[at] = (uint32_t)++in->count;
    return (uint32_t)in->count - 1;
}
