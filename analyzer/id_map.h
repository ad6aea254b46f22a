/* From a log's ids (1 to 2^28 - 1, dense in honest logs, anything in others) to indices of our own arrays, 0, 1, 2 …: a flat array for
 * ids that are not far beyond the number of ids seen, a hash table for the rest. */
#ifndef MPP_ID_MAP_H
#define MPP_ID_MAP_H

#include "analyzer/u64_map.h"

#define ID_MAP_NONE UINT32_MAX

struct id_map {
    uint32_t *flat; /* index + 1; 0: none */
    uint32_t flat_count;
    uint32_t count; /* of ids */
    struct u64_map far;
};

void id_map_release(struct id_map *m);
/* The index of `id`, or ID_MAP_NONE. Out of line: the far ones. */
uint32_t id_map_find_far(const struct id_map *m, uint32_t id);
static inline uint32_t id_map_find(const struct id_map *m, uint32_t id)
{
    if (__builtin_expect(id < m->flat_count, 1)) return m->flat[id] - 1;
    return id_map_find_far(m, id);
}
/* Gives `id`, which must not be there yet, the index `index`. 0 or MPP_ERR_NO_MEMORY. */
int id_map_add(struct id_map *m, uint32_t id, uint32_t index);

/* Grows an array of elements of `size` bytes to hold `needed`; capacity doubles. 0 or MPP_ERR_NO_MEMORY, and then *array is as before. */
int array_reserve(void **array, size_t *capacity, size_t needed, size_t size);

#endif
