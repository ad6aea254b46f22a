#include "slots.h"

#include <stdlib.h>
#include <string.h>

int mpp_slots_init(struct mpp_slots *s, uint32_t page_bytes, uint32_t slot_bytes, int sparse)
{
    *s = (struct mpp_slots){.page_bytes = page_bytes, .slot_bytes = slot_bytes, .sparse = sparse};
    if (slot_bytes < 8 || page_bytes < slot_bytes || page_bytes > 1u << 24 || (page_bytes & (page_bytes - 1))) return -1;
    /* Rounded up, the reciprocal is exact for every offset in a page, since page_bytes * slot_bytes < 2^32. */
    if ((uint64_t)page_bytes * slot_bytes >= UINT64_C(1) << 32) return -1;
    s->slots_per_page = page_bytes / slot_bytes + 1;
    s->words_per_page = (s->slots_per_page + 63) / 64;
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
    for (size_t i = 0; s->table && i < s->capacity; i++) {
        if (!s->table[i]) continue;
        free(s->table[i]->slots);
        free(s->table[i]);
    }
    free(s->table);
    *s = (struct mpp_slots){0};
}

/* ---- pages ---- */

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
    size_t bytes = sizeof(struct mpp_slot_page) + (s->sparse ? s->words_per_page * sizeof(uint64_t) : 0);
    struct mpp_slot_page *page;

    if ((s->count + 1) * 2 > s->capacity && grow(s)) return NULL;
    page = calloc(1, bytes);
    if (!page) return NULL;
    if (!s->sparse) {
        page->slots = calloc(s->slots_per_page, sizeof *page->slots);
        if (!page->slots) {
            free(page);
            return NULL;
        }
        bytes += s->slots_per_page * sizeof *page->slots;
    }
    page->base = mpp_slots_base(s, address);
    page->phase = (uint32_t)(address - page->base) - mpp_slots_index(s, address) * s->slot_bytes;
    insert(s, page);
    s->count++;
    s->memory_bytes += bytes;
    if (s->last_free_base == page->base) s->last_free = page;
    return page;
}

/* ---- sparse pages ---- */

static uint32_t rank(const struct mpp_slot_page *page, uint32_t index)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < index / 64; w++) n += (uint32_t)__builtin_popcountll(page->bits[w]);
    return n + (uint32_t)__builtin_popcountll(page->bits[index / 64] & ((UINT64_C(1) << index % 64) - 1));
}

struct mpp_slot *mpp_slots_sparse_find(struct mpp_slot_page *page, uint32_t index)
{
    return &page->slots[rank(page, index)];
}

struct mpp_slot *mpp_slots_sparse_new(struct mpp_slots *s, struct mpp_slot_page *page, uint32_t index)
{
    uint32_t at = rank(page, index);

    if (page->bits[index / 64] >> index % 64 & 1) return &page->slots[at];
    if (page->count == page->capacity) {
        uint32_t capacity = page->capacity ? page->capacity * 2 : 4;
        struct mpp_slot *slots = realloc(page->slots, capacity * sizeof *slots);
        if (!slots) return NULL;
        s->memory_bytes += (capacity - page->capacity) * sizeof *slots;
        page->slots = slots;
        page->capacity = capacity;
    }
    memmove(&page->slots[at + 1], &page->slots[at], (page->count - at) * sizeof *page->slots);
    page->slots[at] = (struct mpp_slot){0};
    page->bits[index / 64] |= UINT64_C(1) << index % 64;
    page->count++;
    return &page->slots[at];
}

void mpp_slots_sparse_remove(struct mpp_slot_page *page, struct mpp_slot *slot)
{
    uint32_t at = (uint32_t)(slot - page->slots), left = at, word = 0;

    /* The slot's bit is the at-th one that is set. */
    while ((uint32_t)__builtin_popcountll(page->bits[word]) <= left) left -= (uint32_t)__builtin_popcountll(page->bits[word++]);
    uint64_t bits = page->bits[word];
    while (left--) bits &= bits - 1;
    page->bits[word] &= ~(bits & -bits);
    page->count--;
    memmove(slot, slot + 1, (page->count - at) * sizeof *slot);
}

struct mpp_slot *mpp_slots_next(const struct mpp_slots *s, struct mpp_slot_page *page, uint32_t *index)
{
    if (!s->sparse) {
        for (; *index < s->slots_per_page; ++*index) {
            if (page->slots[*index].word) return &page->slots[*index];
        }
        return NULL;
    }
    for (uint32_t word = *index / 64; word < s->words_per_page; word++) {
        uint64_t bits = page->bits[word];
        if (word == *index / 64) bits &= ~UINT64_C(0) << *index % 64;
        if (!bits) continue;
        *index = word * 64 + (uint32_t)__builtin_ctzll(bits);
        return mpp_slots_sparse_find(page, *index);
    }
    return NULL;
}

/* ---- moves ---- */

struct move {
    uintptr_t to;
    struct mpp_slot slot;
};

struct moves {
    struct move *list;
    size_t count, capacity;
};

static int note_move(struct moves *moves, uintptr_t to, const struct mpp_slot *slot)
{
    if (moves->count == moves->capacity) {
        size_t capacity = moves->capacity ? moves->capacity * 2 : 4096;
        struct move *list = realloc(moves->list, capacity * sizeof *list);
        if (!list) return -1;
        moves->list = list;
        moves->capacity = capacity;
    }
    moves->list[moves->count++] = (struct move){to, *slot};
    return 0;
}

void mpp_slots_rekey(struct mpp_slots *s, uintptr_t (*moved)(uintptr_t address), void (*gone)(const struct mpp_slot *slot))
{
    struct moves moves = {0};

    for (size_t t = 0; t < s->capacity; t++) {
        struct mpp_slot_page *page = s->table[t];
        struct mpp_slot *slot;
        for (uint32_t i = 0; page && (slot = mpp_slots_next(s, page, &i)); i++) {
            uintptr_t from = mpp_slots_address(s, page, i), to;
            if (slot->word & MPP_SLOT_PENDING_FREE) continue; /* a dead object does not move */
            to = moved(from);
            if (to == from) continue;
            if (note_move(&moves, to, slot)) gone(slot);
            mpp_slots_clear(s, page, slot);
        }
    }
    for (size_t i = 0; i < moves.count; i++) {
        struct mpp_slot_page *page;
        struct mpp_slot *slot = mpp_slots_for_new(s, moves.list[i].to, &page);
        if (!slot) {
            gone(&moves.list[i].slot);
            continue;
        }
        if (slot->word) {
            gone(slot);
            mpp_slots_clear(s, page, slot);
            slot = mpp_slots_for_new(s, moves.list[i].to, &page);
            if (!slot) {
                gone(&moves.list[i].slot);
                continue;
            }
        }
        *slot = moves.list[i].slot;
        if (slot->word & MPP_SLOT_UNMEASURED) page->unmeasured++;
        if (slot->word & MPP_SLOT_SERIAL) {
            page->tracked++;
            s->tracked_count++;
        }
    }
    free(moves.list);
}
