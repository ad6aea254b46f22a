#include "analyzer/u64_map.h"
#include "formats/mpp_error.h"
#include <stdlib.h>
#include <xxhash.h>

static size_t slot_of(const struct u64_map *m, uint64_t key)
{
    return (size_t)XXH3_64bits(&key, sizeof key) & (m->capacity - 1);
}

void u64_map_release(struct u64_map *m)
{
    free(m->keys);
    free(m->values);
    *m = (struct u64_map){0};
}

uint32_t *u64_map_get(const struct u64_map *m, uint64_t key)
{
    if (m->count == 0) return NULL;
    for (size_t i = slot_of(m, key); m->keys[i]; i = (i + 1) & (m->capacity - 1)) {
        if (m->keys[i] == key) return &m->values[i];
    }
    return NULL;
}

static void place(struct u64_map *m, uint64_t key, uint32_t value)
{
    size_t i = slot_of(m, key);

    while (m->keys[i]) i = (i + 1) & (m->capacity - 1);
    m->keys[i] = key;
    m->values[i] = value; /* NOLINT(clang-analyzer-unix.Malloc): `*m = wider` in grow has replaced what it freed */
}

static int grow(struct u64_map *m)
{
    struct u64_map wider = {.capacity = m->capacity ? m->capacity * 2 : 64, .count = m->count};

    wider.keys = calloc(wider.capacity, sizeof *wider.keys);
    wider.values = malloc(wider.capacity * sizeof *wider.values);
    if (!wider.keys || !wider.values) {
        u64_map_release(&wider);
        return MPP_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < m->capacity; i++) {
        if (m->keys[i]) place(&wider, m->keys[i], m->values[i]);
    }
    free(m->keys);
    free(m->values);
    *m = wider;
    return 0;
}

int u64_map_put(struct u64_map *m, uint64_t key, uint32_t value)
{
    uint32_t *old = u64_map_get(m, key);

    if (old) {
        *old = value;
        return 0;
    }
    if (m->count + 1 > m->capacity - m->capacity / 4) {
        int error = grow(m);
        if (error) return error;
    }
    place(m, key, value);
    m->count++;
    return 0;
}

void u64_map_remove(struct u64_map *m, uint64_t key)
{
    uint32_t *value = u64_map_get(m, key);

    if (!value) return;
    /* Entries behind the hole move up, so that no tombstones pile up. */
    size_t hole = (size_t)(value - m->values), mask = m->capacity - 1;
    for (size_t i = (hole + 1) & mask; m->keys[i]; i = (i + 1) & mask) {
        size_t home = slot_of(m, m->keys[i]);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->keys[hole] = m->keys[i];
            m->values[hole] = m->values[i];
            hole = i;
        }
    }
    m->keys[hole] = 0;
    m->count--;
}
