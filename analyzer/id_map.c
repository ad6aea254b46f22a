#include "analyzer/id_map.h"
#include "formats/mpp_error.h"
#include <stdlib.h>
#include <string.h>

void id_map_release(struct id_map *m)
{
    free(m->flat);
    u64_map_release(&m->far);
    *m = (struct id_map){0};
}

uint32_t id_map_find_far(const struct id_map *m, uint32_t id)
{
    /* Key 0 is not allowed in the table. */
    const uint32_t *index = u64_map_get(&m->far, (uint64_t)id + 1);

    return index ? *index : ID_MAP_NONE;
}

static int widen(struct id_map *m, uint32_t id)
{
    uint32_t wanted = 256;

    while (wanted <= id) wanted *= 2;
    uint32_t *flat = realloc(m->flat, wanted * sizeof *flat);
    if (!flat) return MPP_ERR_NO_MEMORY;
    memset(flat + m->flat_count, 0, (wanted - m->flat_count) * sizeof *flat);
    for (uint32_t i = m->flat_count; i < wanted && m->far.count; i++) {
        const uint32_t *index = u64_map_get(&m->far, (uint64_t)i + 1);
        if (!index) continue;
        flat[i] = *index + 1;
        u64_map_remove(&m->far, (uint64_t)i + 1);
    }
    m->flat = flat;
    m->flat_count = wanted;
    return 0;
}

int id_map_add(struct id_map *m, uint32_t id, uint32_t index)
{
    if (id >= m->flat_count && id / 8 <= m->count + 64) {
        int error = widen(m, id);
        if (error) return error;
    }
    if (id < m->flat_count) {
        m->flat[id] = index + 1;
    } else {
        int error = u64_map_put(&m->far, (uint64_t)id + 1, index);
        if (error) return error;
    }
    m->count++;
    return 0;
}

int array_reserve(void **array, size_t *capacity, size_t needed, size_t size)
{
    size_t wanted = *capacity ? *capacity : 64;

    if (needed <= *capacity) return 0;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2) return MPP_ERR_NO_MEMORY;
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / size) return MPP_ERR_NO_MEMORY;
    void *grown = realloc(*array, wanted * size);
    if (!grown) return MPP_ERR_NO_MEMORY;
    *array = grown;
    *capacity = wanted;
    return 0;
}
