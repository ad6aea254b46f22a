/* A map from an object's address (a VALUE) to one of our ids, for the few objects that have an identity in the log:
 * functions, classes, threads. It knows no Ruby and allocates by libc only, for it is used inside hooks. */
#ifndef MPP_RECORDER_IDMAP_H
#define MPP_RECORDER_IDMAP_H

#include <stddef.h>
#include <stdint.h>

struct mpp_idmap {
    uintptr_t *keys; /* 0 = empty */
    uint32_t *ids;
    size_t capacity; /* a power of two */
    size_t count;
};

/* 0 or -1 (no memory). */
int mpp_idmap_init(struct mpp_idmap *map, size_t capacity);
void mpp_idmap_release(struct mpp_idmap *map);

static inline size_t mpp_idmap_place(const struct mpp_idmap *map, uintptr_t key)
{
    return (size_t)(((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (map->capacity - 1);
}

/* The id of `key`, or 0. */
static inline uint32_t mpp_idmap_get(const struct mpp_idmap *map, uintptr_t key)
{
    size_t i = mpp_idmap_place(map, key);

    while (map->keys[i]) {
        if (map->keys[i] == key) return map->ids[i];
        i = (i + 1) & (map->capacity - 1);
    }
    return 0;
}

/* Sets it (replaces an id that stood there). 0 or -1 (no memory; nothing changed). */
int mpp_idmap_put(struct mpp_idmap *map, uintptr_t key, uint32_t id);
/* Removes `key`; returns the id that it had, or 0. */
uint32_t mpp_idmap_remove(struct mpp_idmap *map, uintptr_t key);
/* Gives each key its new place, as `moved(key)` tells, all at once (chains of moves are safe). 0 or -1. */
int mpp_idmap_rekey(struct mpp_idmap *map, uintptr_t (*moved)(uintptr_t key));

#endif
