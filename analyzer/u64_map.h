/* A hash table from a nonzero 64-bit key to a 32-bit value, for keys that may be anything a log says. Memory is bounded by what was put in. */
#ifndef MPP_U64_MAP_H
#define MPP_U64_MAP_H

#include <stddef.h>
#include <stdint.h>

struct u64_map {
    uint64_t *keys; /* 0: free */
    uint32_t *values;
    size_t capacity, count; /* capacity: 0 or a power of two */
};

void u64_map_release(struct u64_map *m);
/* The value's place, or NULL. Good until the next put or remove. */
uint32_t *u64_map_get(const struct u64_map *m, uint64_t key);
/* Sets key's value. 0 or MPP_ERR_NO_MEMORY. */
int u64_map_put(struct u64_map *m, uint64_t key, uint32_t value);
void u64_map_remove(struct u64_map *m, uint64_t key);

#endif
