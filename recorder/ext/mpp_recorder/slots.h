/* Address → serial. The heap is a table already: pages are aligned, and are filled and swept in order, so what we know of a page's slots stands
 * together and stays in cache where a hash table of addresses misses. It knows no Ruby and allocates by libc only.
 *
 * A slot has an entry when the recorder knows something of the object in it: its serial (it is tracked), or that a function, class or thread of
 * ours lives there (flags), so that its death must be noticed.
 *
 * A page is dense (an array by slot: every allocation is recorded) or sparse (a bit for each slot, and the few entries packed in order: a sampled
 * run, where the bits are the filter that nearly all deaths end at). A pointer to an entry of a sparse page holds only until the next entry of that
 * page is made or cleared. */
#ifndef MPP_RECORDER_SLOTS_H
#define MPP_RECORDER_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#define MPP_SLOT_SERIAL       UINT64_C(0x0000FFFFFFFFFFFF)
#define MPP_SLOT_PENDING_FREE (UINT64_C(1) << 48) /* freed, but the journal had no room: not to be reused before it is written */
#define MPP_SLOT_FUNCTION     (UINT64_C(1) << 49)
#define MPP_SLOT_CLASS        (UINT64_C(1) << 50)
#define MPP_SLOT_THREAD       (UINT64_C(1) << 51)
#define MPP_SLOT_IDENTITY     (MPP_SLOT_FUNCTION | MPP_SLOT_CLASS | MPP_SLOT_THREAD)
#define MPP_SLOT_UNMEASURED   (UINT64_C(1) << 52) /* something is still to be learnt: its size, or what kind of class it is */
#define MPP_SLOT_SIZABLE      (UINT64_C(1) << 53) /* may have memory of its own */

struct mpp_slot {
    uint64_t word;       /* serial (0 = not tracked) and flags; 0 = nothing known */
    uint32_t size_bytes; /* as the log has it; UINT32_MAX = that or more */
    uint32_t site;
};

struct mpp_slot_page {
    uintptr_t base;           /* address of the heap page */
    uint32_t phase;           /* address of slot i = base + phase + i * slot_bytes */
    uint32_t unmeasured;      /* slots with MPP_SLOT_UNMEASURED: pages without are skipped */
    uint32_t tracked;         /* slots with a serial */
    uint32_t audit;           /* number of the last audit that came by */
    uint32_t count, capacity; /* sparse: entries */
    struct mpp_slot *slots;   /* dense: by slot; sparse: packed, in order of their slots */
    uint64_t bits[];          /* sparse: which slots have an entry */
};

struct mpp_slots {
    uint32_t page_bytes, slot_bytes; /* of the running Ruby: a heap page (a power of two), and what all slots are multiples of */
    uint32_t slots_per_page, words_per_page;
    uint32_t reciprocal; /* of slot_bytes, in 32 fraction bits */
    unsigned page_shift;
    int sparse;
    struct mpp_slot_page **table; /* by hash of the page's number */
    size_t capacity, count;
    /* Allocation and sweep each stay on a page for long. A page that we do not know is remembered too (NULL). */
    struct mpp_slot_page *last_new, *last_free;
    uintptr_t last_free_base;
    uint64_t tracked_count;
    size_t memory_bytes;
};

/* 0, or -1: no memory, or numbers that make no sense. */
int mpp_slots_init(struct mpp_slots *s, uint32_t page_bytes, uint32_t slot_bytes, int sparse);
void mpp_slots_release(struct mpp_slots *s);

struct mpp_slot_page *mpp_slots_find_page(const struct mpp_slots *s, uintptr_t base);
struct mpp_slot_page *mpp_slots_add_page(struct mpp_slots *s, uintptr_t address); /* NULL: no memory */
struct mpp_slot *mpp_slots_sparse_new(struct mpp_slots *s, struct mpp_slot_page *page, uint32_t index);
struct mpp_slot *mpp_slots_sparse_find(struct mpp_slot_page *page, uint32_t index);
void mpp_slots_sparse_remove(struct mpp_slot_page *page, struct mpp_slot *slot);

static inline uintptr_t mpp_slots_base(const struct mpp_slots *s, uintptr_t address)
{
    return address & ~(uintptr_t)(s->page_bytes - 1);
}

static inline uint32_t mpp_slots_index(const struct mpp_slots *s, uintptr_t address)
{
    uint64_t offset = address & (s->page_bytes - 1);

    return (uint32_t)((offset * s->reciprocal) >> 32);
}

static inline uintptr_t mpp_slots_address(const struct mpp_slots *s, const struct mpp_slot_page *page, uint32_t index)
{
    return page->base + page->phase + (uintptr_t)index * s->slot_bytes;
}

/* The entry of `address` for a birth: made if need be (then word is 0). NULL: no memory. *page_out is its page. */
static inline struct mpp_slot *mpp_slots_for_new(struct mpp_slots *s, uintptr_t address, struct mpp_slot_page **page_out)
{
    uintptr_t base = mpp_slots_base(s, address);
    struct mpp_slot_page *page = s->last_new;

    if (!page || page->base != base) {
        page = mpp_slots_find_page(s, base);
        if (!page) page = mpp_slots_add_page(s, address);
        if (!page) return NULL;
        s->last_new = page;
    }
    *page_out = page;
    if (s->sparse) return mpp_slots_sparse_new(s, page, mpp_slots_index(s, address));
    return &page->slots[mpp_slots_index(s, address)];
}

/* The entry of `address` for a death, or NULL when nothing is known of it. */
static inline struct mpp_slot *mpp_slots_for_free(struct mpp_slots *s, uintptr_t address, struct mpp_slot_page **page_out)
{
    uintptr_t base = mpp_slots_base(s, address);
    uint32_t index = mpp_slots_index(s, address);
    struct mpp_slot_page *page;

    if (s->last_free_base != base) {
        s->last_free = mpp_slots_find_page(s, base);
        s->last_free_base = base;
    }
    page = s->last_free;
    if (!page) return NULL;
    *page_out = page;
    if (!s->sparse) return &page->slots[index];
    return page->bits[index / 64] >> index % 64 & 1 ? mpp_slots_sparse_find(page, index) : NULL;
}

/* Forgets what a slot holds; keeps the page's counts. The pointer is dead afterwards. */
static inline void mpp_slots_clear(struct mpp_slots *s, struct mpp_slot_page *page, struct mpp_slot *slot)
{
    if (slot->word & MPP_SLOT_UNMEASURED) page->unmeasured--;
    if (slot->word & MPP_SLOT_SERIAL) {
        page->tracked--;
        s->tracked_count--;
    }
    slot->word = 0;
    if (s->sparse) mpp_slots_sparse_remove(page, slot);
}

/* Goes through a page's entries: the first one at or after slot *index (which is moved to it), or NULL at the end. The caller adds 1 to *index to go
 * on; it may clear the entry. */
struct mpp_slot *mpp_slots_next(const struct mpp_slots *s, struct mpp_slot_page *page, uint32_t *index);

/* Moves every entry whose object moved, as `moved(address)` tells, all at once: chains (B to A, C to B) and cycles are safe. An entry that an object
 * moves onto has died unnoticed, and one that cannot be moved for want of memory is lost: both are given to `gone` before they are forgotten. */
void mpp_slots_rekey(struct mpp_slots *s, uintptr_t (*moved)(uintptr_t address), void (*gone)(const struct mpp_slot *slot));

#endif
