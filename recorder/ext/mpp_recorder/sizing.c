/* Sizes. A birth knows only its slot; what an object owns besides is measured by Ruby's own rb_obj_memsize_of, where that is safe:
 *
 *  - never at birth (the object is not set up: bugs.ruby-lang.org 21854);
 *  - at a safe point, while nothing is being swept (a dead object that still stands in the table may have freed children), for objects that have
 *    survived a collection; never for classes, T_IMEMO and T_NODE (of classes it is looked up whether they are singleton classes);
 *  - at death only for types whose memsize reads nothing but their own memory.
 *
 * The survivors of each collection are measured once after it, all of the living again after a major one (at most once a second), in slices. */
#include "recorder.h"

#define PAGES_BETWEEN_LOOKS 16

static struct {
    enum mpp_sizing what;
    size_t at, capacity; /* next page of the slots' table; its capacity when we began */
} pass;

int mpp_size_may_grow(unsigned type)
{
    const unsigned fixed = 1u << T_NONE | 1u << T_CLASS | 1u << T_MODULE | 1u << T_FLOAT | 1u << T_COMPLEX | 1u << T_RATIONAL | 1u << T_SYMBOL |
                           1u << T_IMEMO | 1u << T_NODE | 1u << T_ICLASS;

    return !(fixed >> type & 1);
}

int mpp_size_is_provisional(unsigned type)
{
    return type == T_CLASS || mpp_size_may_grow(type);
}

uint64_t mpp_size_at_death(VALUE object, const struct mpp_slot *slot)
{
    VALUE flags = RBASIC(object)->flags;
    int embedded;

    switch (BUILTIN_TYPE(object)) {
    case T_STRING:
        embedded = !(flags & RSTRING_NOEMBED);
        break;
    case T_ARRAY:
        embedded = (flags & RARRAY_EMBED_FLAG) != 0;
        break;
    case T_OBJECT:
        embedded = mpp_compat_embeds_ivars(flags);
        break;
    case T_HASH:
    case T_STRUCT:
    case T_BIGNUM:
        embedded = 0;
        break;
    default:
        return UINT64_MAX;
    }
    /* Embedded, and no instance variables of the generic kind: just the slot. */
    if (embedded && !mpp_compat_has_ivars_elsewhere(flags) && slot->size_bytes == mpp_recorder.stacks.sites[slot->site].birth_bytes)
        return UINT64_MAX;
    return rb_obj_memsize_of(object);
}

/* Measures one object and writes what changed. 0, or -1: no room. Its entry is looked up after every call that may make others (or let a collection
 * happen, as an extension's dsize function may). */
static int measure(VALUE object, uint64_t serial, enum mpp_patience patience)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;
    unsigned type = (unsigned)BUILTIN_TYPE(object);
    uint64_t size_bytes = mpp_size_may_grow(type) ? rb_obj_memsize_of(object) : 0;
    VALUE klass;
    uint32_t class_id, site;
    struct mpp_slot_page *page;
    struct mpp_slot *slot;
    unsigned char *p;

    if (!r->running) return 0; /* a dsize function let another thread run, which stopped the recording: the tables are gone */
    slot = mpp_slots_for_free(&r->slots, (uintptr_t)object, &page);
    if (!slot || (slot->word & MPP_SLOT_SERIAL) != serial) return 0;
    /* The class at birth is not final: results of Array#product are born without one. */
    klass = RBASIC(object)->klass;
    class_id = mpp_capture_class_of(object, klass, type);
    slot = mpp_slots_for_free(&r->slots, (uintptr_t)object, &page);
    if (!slot) return 0;

    if (size_bytes > MPP_MAX_SIZE_BYTES) size_bytes = MPP_MAX_SIZE_BYTES;
    if (size_bytes && (size_bytes != slot->size_bytes || size_bytes >= UINT32_MAX)) {
        p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, patience);
        if (!p) return -1;
        p = mpp_encode_size(p, (int64_t)(serial - j->size_base), size_bytes);
        j->size_base = serial;
        mpp_journal_commit(j, p);
        slot->size_bytes = size_bytes < UINT32_MAX ? (uint32_t)size_bytes : UINT32_MAX;
    }
    if (class_id != r->stacks.sites[slot->site].class_id && (class_id || !klass)) {
        site = mpp_capture_reclassed(slot->site, class_id);
        p = site ? mpp_journal_room(j, MPP_RECORD_MAX_BYTES, patience) : NULL;
        if (!p) return -1;
        p = mpp_encode_reclass(p, (int64_t)(serial - j->size_base), class_id);
        j->size_base = serial;
        mpp_journal_commit(j, p);
        slot->site = site;
    }
    if (slot->word & MPP_SLOT_UNMEASURED) {
        slot->word &= ~MPP_SLOT_UNMEASURED;
        page->unmeasured--;
    }
    return 0;
}

void mpp_sizing_begin(enum mpp_sizing what)
{
    /* A pass over everything that is under way goes on, where collections follow each other faster than it ends. */
    if (what == MPP_SIZE_ALL && pass.what == MPP_SIZE_ALL) return;
    pass.what = what;
    pass.at = 0;
    pass.capacity = mpp_recorder.slots.capacity;
}

/* Measures the objects of one page that were born before `below`. 0, 1: a collection came in between, -1: no room. */
static int measure_page(struct mpp_slot_page *page, enum mpp_sizing what, uint64_t below, enum mpp_patience patience)
{
    struct mpp_recorder *r = &mpp_recorder;
    uint64_t gc_count = r->gc_count, wanted = MPP_SLOT_UNMEASURED | (what == MPP_SIZE_ALL ? MPP_SLOT_SIZABLE : 0);
    struct mpp_slot *slot;

    for (uint32_t i = 0; (slot = mpp_slots_next(&r->slots, page, &i)); i++) {
        uint64_t serial = slot->word & MPP_SLOT_SERIAL;
        if (!(slot->word & wanted) || !serial || serial >= below || (slot->word & MPP_SLOT_PENDING_FREE)) continue;
        if (measure((VALUE)mpp_slots_address(&r->slots, page, i), serial, patience)) return -1;
        if (r->gc_count != gc_count || !r->running) return 1;
    }
    return 0;
}

int mpp_sizing_slice(uint64_t limit_ns)
{
    struct mpp_recorder *r = &mpp_recorder;
    uint64_t until_ns = mpp_clock_ns(CLOCK_MONOTONIC) + limit_ns;
    unsigned looked = 0;

    if (pass.what == MPP_SIZE_NONE) return 1;
    if (r->sweeping) return 0;                /* its end begins anew */
    if (pass.capacity != r->slots.capacity) { /* the table was made anew: its order is another */
        pass.at = 0;
        pass.capacity = r->slots.capacity;
    }
    for (; pass.at < r->slots.capacity; pass.at++) {
        struct mpp_slot_page *page = r->slots.table[pass.at];
        if (!page || (pass.what == MPP_SIZE_NEW ? !page->unmeasured : !page->tracked)) continue;
        if (measure_page(page, pass.what, r->serial_at_gc_start, MPP_NO_WAIT)) return 0;
        if (++looked % PAGES_BETWEEN_LOOKS == 0 && mpp_clock_ns(CLOCK_MONOTONIC) > until_ns) {
            pass.at++;
            return 0;
        }
    }
    pass.what = MPP_SIZE_NONE;
    return 1;
}

static int stop_at_once(void *start, void *end, size_t stride, void *data)
{
    (void)start, (void)end, (void)stride, (void)data;
    return 1;
}

void mpp_sizing_now(enum mpp_sizing what, enum mpp_patience patience, uint64_t limit_ns)
{
    struct mpp_recorder *r = &mpp_recorder;
    uint64_t until_ns = mpp_clock_ns(CLOCK_MONOTONIC) + limit_ns;

    for (int tries = 0; tries < 3; tries++) {
        int again = 0;
        unsigned looked = 0;
        /* Walking the heap finishes a sweep that is under way (gc.c objspace_each_objects → gc_rest), which is all that is wanted of it. */
        rb_objspace_each_objects(stop_at_once, NULL);
        if (r->sweeping) return;
        for (size_t t = 0; t < r->slots.capacity && !again; t++) {
            struct mpp_slot_page *page = r->slots.table[t];
            if (!page || !(what == MPP_SIZE_ALL ? page->tracked : page->unmeasured)) continue;
            again = measure_page(page, what, UINT64_MAX, patience);
            if (!r->running) return;
            if (++looked % PAGES_BETWEEN_LOOKS == 0 && mpp_clock_ns(CLOCK_MONOTONIC) > until_ns) return;
        }
        if (again <= 0) return;
    }
}
