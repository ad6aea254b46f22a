#include "slots.h"

#include <stdlib.h>

int mpp_slots_init(struct mpp_slots *s, uint32_t page_bytes, uint32_t slot_bytes)
{
    *s = (struct mpp_slots){.page_bytes = page_bytes, .slot_bytes = slot_bytes};
    if (slot_bytes < 8 || page_bytes < slot_bytes || page_bytes > 1u << 24 || (page_bytes & (page_bytes - 1))) return -1;
    s->slots_per_page = page_bytes / slot_bytes + 1;
    /* Rounded up: exact for every offset in a page, since page_bytes * slot_bytes < 2^32. */
    if ((uint64_t)page_bytes * slot_bytes >= UINT64_C(1) << 32) return -1;
    s->reciprocal = (uint32_t)((UINT64_C(1) << 32) / slot_bytes + 1);
    s->page_shift = (unsigned)__builtin_ctz(page_bytes);
    s->capacity = 1024;
    s->table = calloc(s->capacity, sizeof *s->table);
    if (!s->table) return -1;
    s->memory_bytes = s->capacity * sizeof *s->table;
    return 0;
}

void mpp_slots_release(struct mpp_slots *s)
{
    for (size_t i = 0; i < s->capacity; i++) free(s->table ? s->table[i] : NULL);
    free(s->table);
    *s = (struct mpp_slots){0};
}

static size_t place(const struct mpp_slots *s, uintptr_t base)
{
    return (size_t)(((uint64_t)(base >> s->page_shift) * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (s->capacity - 1);
}

struct mpp_slot_page *mpp_slots_find_page(const struct mpp_slots *s, uintptr_t base)
{
    for (size_t i = place(s, base); s->table[i]; i = (i + 1) & (s->capacity - 1)) {
        if (s->table[i]->base == base) return s->table[i];
    }
    return NULL;
}

static void insert(struct mpp_slots *s, struct mpp_slot_page *page)
{
    size_t i = place(s, page->base);

    while (s->table[i]) i = (i + 1) & (s->capacity - 1);
    s->table[i] = page;
}

static int grow(struct mpp_slots *s)
{
    struct mpp_slot_page **old = s->table;
    size_t old_capacity = s->capacity;
    struct mpp_slot_page **bigger = calloc(old_capacity * 2, sizeof *bigger);

    if (!bigger) return -1;
    s->table = bigger;
    s->capacity = old_capacity * 2;
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i]) insert(s, old[i]);
    }
    free(old);
    s->memory_bytes += old_capacity * sizeof *bigger;
    return 0;
}

struct mpp_slot_page *mpp_slots_add_page(struct mpp_slots *s, uintptr_t address)
{
    size_t bytes = sizeof(struct mpp_slot_page) + s->slots_per_page * sizeof(struct mpp_slot);
    struct mpp_slot_page *page;

    if ((s->count + 1) * 2 > s->capacity && grow(s)) return NULL;
    page = calloc(1, bytes);
    if (!page) return NULL;
    page->base = mpp_slots_base(s, address);
    page->phase = (uint32_t)(address - page->base) - mpp_slots_index(s, address) * s->slot_bytes;
    insert(s, page);
    s->count++;
    s->memory_bytes += bytes;
    return page;
}

struct move {
    uintptr_t to;
    struct mpp_slot slot;
};

void mpp_slots_rekey(struct mpp_slots *s, uintptr_t (*moved)(uintptr_t address), void (*gone)(const struct mpp_slot *slot))
{
    struct move *moves = NULL;
    size_t count = 0, capacity = 0;

    for (size_t t = 0; t < s->capacity; t++) {
        struct mpp_slot_page *page = s->table[t];
        for (uint32_t i = 0; page && i < s->slots_per_page; i++) {
            struct mpp_slot *slot = &page->slots[i];
            uintptr_t from, to;
            if (!slot->word || (slot->word & MPP_SLOT_PENDING_FREE)) continue; /* a dead object does not move */
            from = mpp_slots_address(s, page, i);
            to = moved(from);
            if (to == from) continue;
            if (count == capacity) {
                size_t wanted = capacity ? capacity * 2 : 4096;
                struct move *more = realloc(moves, wanted * sizeof *moves);
                if (more) {
                    moves = more;
                    capacity = wanted;
                }
            }
            if (count < capacity) {
                moves[count++] = (struct move){to, *slot};
            } else {
                gone(slot);
            }
            mpp_slots_clear(s, page, slot);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct mpp_slot_page *page;
        struct mpp_slot *slot = mpp_slots_for_new(s, moves[i].to, &page);
        if (!slot) {
            gone(&moves[i].slot);
            continue;
        }
        if (slot->word) {
            gone(slot);
            mpp_slots_clear(s, page, slot);
        }
        *slot = moves[i].slot;
        if (slot->word & MPP_SLOT_UNMEASURED) page->unmeasured++;
        if (slot->word & MPP_SLOT_SERIAL) {
            page->tracked++;
            s->tracked_count++;
        }
    }
    free(moves);
}
