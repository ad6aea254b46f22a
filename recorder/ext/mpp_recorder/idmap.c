#include "idmap.h"

#include <stdlib.h>

int mpp_idmap_init(struct mpp_idmap *map, size_t capacity)
{
    map->keys = calloc(capacity, sizeof *map->keys);
    map->ids = calloc(capacity, sizeof *map->ids);
    map->capacity = capacity;
    map->count = 0;
    if (map->keys && map->ids) return 0;
    mpp_idmap_release(map);
    return -1;
}

void mpp_idmap_release(struct mpp_idmap *map)
{
    free(map->keys);
    free(map->ids);
    map->keys = NULL;
    map->ids = NULL;
    map->capacity = map->count = 0;
}

static int grow(struct mpp_idmap *map)
{
    struct mpp_idmap bigger;

    if (mpp_idmap_init(&bigger, map->capacity * 2)) return -1;
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->keys[i]) (void)mpp_idmap_put(&bigger, map->keys[i], map->ids[i]); /* has room */
    }
    mpp_idmap_release(map);
    *map = bigger;
    return 0;
}

int mpp_idmap_put(struct mpp_idmap *map, uintptr_t key, uint32_t id)
{
    size_t i;

    if ((map->count + 1) * 2 > map->capacity && grow(map)) return -1;
    for (i = mpp_idmap_place(map, key); map->keys[i] && map->keys[i] != key; i = (i + 1) & (map->capacity - 1)) {
    }
    if (!map->keys[i]) map->count++;
    map->keys[i] = key;
    map->ids[i] = id;
    return 0;
}

uint32_t mpp_idmap_remove(struct mpp_idmap *map, uintptr_t key)
{
    size_t mask = map->capacity - 1, i = mpp_idmap_place(map, key), hole;
    uint32_t id;

    while (map->keys[i] != key) {
        if (!map->keys[i]) return 0;
        i = (i + 1) & mask;
    }
    id = map->ids[i];
    map->count--;
    /* Linear probing without tombstones: pull back what the hole would hide. */
    for (hole = i, i = (i + 1) & mask; map->keys[i]; i = (i + 1) & mask) {
        size_t home = mpp_idmap_place(map, map->keys[i]);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->keys[hole] = map->keys[i];
            map->ids[hole] = map->ids[i];
            hole = i;
        }
    }
    map->keys[hole] = 0;
    return id;
}

int mpp_idmap_rekey(struct mpp_idmap *map, uintptr_t (*moved)(uintptr_t key))
{
    struct mpp_idmap fresh;

    if (mpp_idmap_init(&fresh, map->capacity)) return -1;
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->keys[i]) (void)mpp_idmap_put(&fresh, moved(map->keys[i]), map->ids[i]);
    }
    mpp_idmap_release(map);
    *map = fresh;
    return 0;
}
