/* Starting late: what lives already. Every object that stands in the heap gets a serial and a LIVE record, under the backtrace "(before recording)",
 * so that its death counts and the whole heap is in the log. */
#include "recorder.h"

static uint64_t next_serial, first_birth;
static int failed;

uint64_t mpp_baseline_room(void)
{
    /* Slots that are in use, dead ones that are not swept included; a collection can only lessen them, and what we allocate on the way is little. */
    return rb_gc_stat(ID2SYM(rb_intern("heap_live_slots"))) + 65536;
}

static int take(VALUE object)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;
    unsigned type = (unsigned)BUILTIN_TYPE(object);
    VALUE klass = mpp_is_internal(type) ? 0 : RBASIC(object)->klass;
    uint32_t birth_bytes = mpp_compat_slot_bytes(object), site;
    uint64_t size_bytes = mpp_size_may_grow(type) ? rb_obj_memsize_of(object) : birth_bytes;
    struct mpp_slot_page *page;
    struct mpp_slot *slot;
    unsigned char *p;
    uint64_t flags;

    if (next_serial >= first_birth) return -1;
    if (size_bytes > MPP_MAX_SIZE_BYTES) size_bytes = MPP_MAX_SIZE_BYTES;
    site = mpp_capture_site_before(object, klass, type, birth_bytes);
    slot = site ? mpp_slots_for_new(&r->slots, (uintptr_t)object, &page) : NULL;
    p = slot ? mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_LONG_WAIT) : NULL;
    if (!p) return -1;
    mpp_journal_commit(j, mpp_encode_live(p, next_serial, site, size_bytes, 1, 0, 0));
    flags = mpp_size_may_grow(type) ? MPP_SLOT_SIZABLE : 0;
    slot->word |= next_serial++ | flags; /* an identity's flag may stand there */
    slot->size_bytes = size_bytes < UINT32_MAX ? (uint32_t)size_bytes : UINT32_MAX;
    slot->site = site;
    page->tracked++;
    r->slots.tracked_count++;
    return 0;
}

static int take_page(void *start, void *end, size_t stride, void *data)
{
    (void)data;
    for (uintptr_t at = (uintptr_t)start; at < (uintptr_t)end; at += stride) {
        int type = BUILTIN_TYPE((VALUE)at);
        if (type == T_NONE || type == T_ZOMBIE || type == T_MOVED) continue;
        if (take((VALUE)at)) {
            failed = 1;
            return 1;
        }
    }
    return 0;
}

int mpp_baseline(void)
{
    next_serial = 1;
    first_birth = mpp_recorder.journal.next_serial;
    failed = 0;
    rb_objspace_each_objects(take_page, NULL);
    return failed ? -1 : 0;
}
