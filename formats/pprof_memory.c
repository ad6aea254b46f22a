/* Arenas, tables and sets of the pprof files. */
#include "pprof_internal.h"
#include <stdlib.h>
#include <string.h>

void *(*pprof_realloc)(void *old, size_t bytes) = realloc;

int pprof_grow(void *array, size_t *capacity, size_t need, size_t element_bytes)
{
    void **slot = array;
    size_t wanted = *capacity ? *capacity : 16;

    if (need <= *capacity) return 0;
    while (wanted < need) {
        if (wanted > SIZE_MAX / 2) return MPP_ERR_NO_MEMORY;
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / element_bytes) return MPP_ERR_NO_MEMORY;
    void *grown = pprof_realloc(*slot, wanted * element_bytes);
    if (!grown) return MPP_ERR_NO_MEMORY;
    *slot = grown;
    *capacity = wanted;
    return 0;
}

struct pprof_arena_chunk {
    struct pprof_arena_chunk *next;
    size_t bytes; /* of data */
    uint64_t data[];
};

#define ARENA_FIRST_BYTES ((size_t)16 << 10)
#define ARENA_MOST_BYTES  ((size_t)1 << 20)

void *pprof_arena_alloc(struct pprof_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + 7) & ~(size_t)7;
    while (!a->current || a->current->bytes - a->used_bytes < bytes) {
        struct pprof_arena_chunk *next = a->current ? a->current->next : a->first;
        if (!next) {
            size_t wanted = a->current ? a->current->bytes * 2 : ARENA_FIRST_BYTES;
            if (wanted > ARENA_MOST_BYTES) wanted = ARENA_MOST_BYTES;
            if (wanted < bytes) wanted = bytes;
            next = pprof_realloc(NULL, sizeof(*next) + wanted);
            if (!next) return NULL;
            next->next = NULL;
            next->bytes = wanted;
            if (a->current)
                a->current->next = next;
            else
                a->first = next;
        }
        a->current = next;
        a->used_bytes = 0;
    }
    void *p = (char *)a->current->data + a->used_bytes;
    a->used_bytes += bytes;
    return p;
}

void pprof_arena_clear(struct pprof_arena *a)
{
    a->current = NULL;
    a->used_bytes = 0;
}

void pprof_arena_release(struct pprof_arena *a)
{
    for (struct pprof_arena_chunk *c = a->first, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    memset(a, 0, sizeof(*a));
}

int pprof_table_reserve(struct pprof_table *t)
{
    if (t->count >= UINT32_C(1) << 31) return MPP_ERR_TOO_LARGE;
    int error = pprof_grow(&t->hashes, &t->hashes_capacity, (size_t)t->count + 1, sizeof(*t->hashes));
    if (error) return error;
    if (t->mask && (size_t)t->count * 2 <= t->mask) return 0;

    size_t slot_count = t->mask ? (t->mask + 1) * 2 : 256;
    if (slot_count > SIZE_MAX / sizeof(*t->slots)) return MPP_ERR_NO_MEMORY;
    struct pprof_table_slot *slots = pprof_realloc(NULL, slot_count * sizeof(*slots));
    if (!slots) return MPP_ERR_NO_MEMORY;
    memset(slots, 0, slot_count * sizeof(*slots));
    for (uint32_t i = 0; i < t->count; i++) {
        size_t at = t->hashes[i] & (slot_count - 1);
        while (slots[at].number) at = (at + 1) & (slot_count - 1);
        slots[at].tag = (uint32_t)(t->hashes[i] >> 32);
        slots[at].number = i + 1;
    }
    free(t->slots);
    t->slots = slots;
    t->mask = slot_count - 1;
    return 0;
}

uint32_t pprof_table_add(struct pprof_table *t, uint64_t hash, size_t at)
{
    struct pprof_table_slot *s = &t->slots[at & t->mask];

    s->tag = (uint32_t)(hash >> 32);
    s->number = t->count + 1;
    t->hashes[t->count] = hash;
    return t->count++;
}

void pprof_table_release(struct pprof_table *t)
{
    free(t->slots);
    free(t->hashes);
    memset(t, 0, sizeof(*t));
}

/* A multiplication spreads ids that have a pattern; its high bits are the good ones. */
static size_t id_slot(uint64_t id, size_t mask)
{
    return (size_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & mask;
}

int pprof_ids_has(const struct pprof_ids *s, uint64_t id)
{
    if (id <= s->dense) return id != 0;
    if (!s->mask) return 0;
    for (size_t at = id_slot(id, s->mask); s->slots[at]; at = (at + 1) & s->mask)
        if (s->slots[at] == id) return 1;
    return 0;
}

static void ids_put(uint64_t *slots, size_t mask, uint64_t id)
{
    size_t at = id_slot(id, mask);

    while (slots[at]) at = (at + 1) & mask;
    slots[at] = id;
}

int pprof_ids_add(struct pprof_ids *s, uint64_t id)
{
    if (pprof_ids_has(s, id)) return 0;
    if (id == s->dense + 1) {
        s->dense++;
        return 1;
    }
    if (!s->mask || s->count * 2 > s->mask) {
        size_t slot_count = s->mask ? (s->mask + 1) * 2 : 256;
        if (slot_count > SIZE_MAX / sizeof(*s->slots)) return MPP_ERR_NO_MEMORY;
        uint64_t *slots = pprof_realloc(NULL, slot_count * sizeof(*slots));
        if (!slots) return MPP_ERR_NO_MEMORY;
        memset(slots, 0, slot_count * sizeof(*slots));
        for (size_t i = 0; s->mask && i <= s->mask; i++)
            if (s->slots[i]) ids_put(slots, slot_count - 1, s->slots[i]);
        free(s->slots);
        s->slots = slots;
        s->mask = slot_count - 1;
    }
    ids_put(s->slots, s->mask, id);
    s->count++;
    return 1;
}

void pprof_ids_release(struct pprof_ids *s)
{
    free(s->slots);
    memset(s, 0, sizeof(*s));
}
