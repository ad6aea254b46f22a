#include "identities.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A list grows by a quarter, since its items stay for ever, and large blocks are not copied when they grow (mremap). */
static uint32_t more(uint32_t capacity)
{
    return capacity + capacity / 4;
}

int mpp_strings_init(struct mpp_strings *s)
{
    *s = (struct mpp_strings){.table_capacity = 4096, .capacity = 1024, .arena_capacity = 65536};
    s->table = calloc(s->table_capacity, sizeof *s->table);
    s->list = calloc(s->capacity, sizeof *s->list);
    s->arena = malloc(s->arena_capacity);
    if (s->table && s->list && s->arena) return 0;
    mpp_strings_release(s);
    return -1;
}

void mpp_strings_release(struct mpp_strings *s)
{
    free(s->table);
    free(s->list);
    free(s->arena);
    *s = (struct mpp_strings){0};
}

static int strings_grow_table(struct mpp_strings *s)
{
    size_t capacity = s->table_capacity * 2;
    uint32_t *table = calloc(capacity, sizeof *table);

    if (!table) return -1;
    for (uint32_t id = 1; id <= s->count; id++) {
        size_t i = s->list[id].hash & (capacity - 1);
        while (table[i]) i = (i + 1) & (capacity - 1);
        table[i] = id;
    }
    free(s->table);
    s->table = table;
    s->table_capacity = capacity;
    return 0;
}

uint32_t mpp_strings_intern(struct mpp_strings *s, const char *bytes, size_t count, int *fresh)
{
    uint64_t hash = XXH3_64bits(bytes, count);
    size_t i;

    *fresh = 0;
    if ((size_t)(s->count + 1) * 2 > s->table_capacity && strings_grow_table(s)) return 0;
    for (i = hash & (s->table_capacity - 1); s->table[i]; i = (i + 1) & (s->table_capacity - 1)) {
        const struct mpp_string *other = &s->list[s->table[i]];
        if (other->hash == hash && other->bytes == count && !memcmp(s->arena + other->offset, bytes, count)) return s->table[i];
    }
    if (s->count + 2 > s->capacity) {
        struct mpp_string *list = realloc(s->list, (size_t)more(s->capacity) * sizeof *list);
        if (!list) return 0;
        s->list = list;
        s->capacity = more(s->capacity);
    }
    if (s->arena_bytes + count > s->arena_capacity) {
        size_t capacity = s->arena_capacity + s->arena_capacity / 4 + count;
        char *arena = capacity <= UINT32_MAX ? realloc(s->arena, capacity) : NULL;
        if (!arena) return 0;
        s->arena = arena;
        s->arena_capacity = capacity;
    }
    if (count) memcpy(s->arena + s->arena_bytes, bytes, count);
    s->list[++s->count] = (struct mpp_string){(uint32_t)s->arena_bytes, (uint32_t)count, hash};
    s->arena_bytes += count;
    s->table[i] = s->count;
    *fresh = 1;
    return s->count;
}

const char *mpp_strings_get(const struct mpp_strings *s, uint32_t id, size_t *bytes)
{
    *bytes = s->list[id].bytes;
    return s->arena + s->list[id].offset;
}

int mpp_identity_table_init(struct mpp_identity_table *t)
{
    *t = (struct mpp_identity_table){.capacity = 1024, .first_unnamed = 1};
    t->list = calloc(t->capacity, sizeof *t->list);
    if (t->list && !mpp_idmap_init(&t->map, 4096) && !mpp_idmap_init(&t->dead, 64)) return 0;
    mpp_identity_table_release(t);
    return -1;
}

void mpp_identity_table_release(struct mpp_identity_table *t)
{
    free(t->list);
    mpp_idmap_release(&t->map);
    mpp_idmap_release(&t->dead);
    *t = (struct mpp_identity_table){0};
}

uint32_t mpp_identity_add(struct mpp_identity_table *t, uintptr_t value)
{
    if (t->count + 2 > t->capacity) {
        struct mpp_identity *list = realloc(t->list, (size_t)more(t->capacity) * sizeof *list);
        if (!list) return 0;
        t->list = list;
        t->capacity = more(t->capacity);
    }
    if (value && mpp_idmap_put(&t->map, value, t->count + 1)) return 0;
    t->list[++t->count] = (struct mpp_identity){.value = value};
    return t->count;
}

uint32_t mpp_identity_share(struct mpp_identity_table *t, uintptr_t value, uintptr_t key)
{
    uint32_t id = key ? mpp_idmap_get(&t->dead, key) : 0;

    return id && !mpp_idmap_put(&t->map, value, id) ? id : 0;
}

uint32_t mpp_identity_dies(struct mpp_identity_table *t, uintptr_t value)
{
    uint32_t id = mpp_idmap_remove(&t->map, value);
    uintptr_t key;

    /* Several values may lead to one id (a singleton class to its class): only the id's own object ends it. */
    if (!id || t->list[id].value != value) return id;
    t->list[id].value = 0;
    key = t->list[id].named ? t->list[id].key : 0;
    if (key && !mpp_idmap_get(&t->dead, key)) (void)mpp_idmap_put(&t->dead, key, id); /* no memory: it is not shared */
    return id;
}

int mpp_identity_rekey(struct mpp_identity_table *t, uintptr_t (*moved)(uintptr_t value))
{
    int error = mpp_idmap_rekey(&t->map, moved);

    if (error) {
        memset(t->map.keys, 0, t->map.capacity * sizeof *t->map.keys);
        t->map.count = 0;
    }
    for (uint32_t id = 1; id <= t->count; id++) {
        if (!t->list[id].value) continue;
        t->list[id].value = error ? 0 : moved(t->list[id].value);
    }
    return error;
}
