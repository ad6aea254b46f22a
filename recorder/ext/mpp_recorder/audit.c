/* Frees that nobody told us of: while another tool's internal hook runs on a thread, Ruby skips ours in silence (vm_trace.c rb_exec_event_hooks), so
 * objects that a collection frees there die without FREEOBJ. GC.stat's count betrays it; then the heap itself is asked, at a safe point, who is gone.
 */
#include "recorder.h"

static uint32_t audit_number;

static int look_at_page(void *start, void *end, size_t stride, void *data)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_slot_page *page = mpp_slots_find_page(&r->slots, mpp_slots_base(&r->slots, (uintptr_t)start));

    (void)data;
    if (!page) return 0;
    page->audit = audit_number;
    for (uintptr_t at = (uintptr_t)start; at < (uintptr_t)end; at += stride) {
        struct mpp_slot *slot = mpp_slots_for_free(&r->slots, at, &page);
        int type = BUILTIN_TYPE((VALUE)at);
        if (!slot || !slot->word || (type != T_NONE && type != T_ZOMBIE && type != T_MOVED)) continue;
        if (slot->word & MPP_SLOT_FUNCTION) mpp_identity_dies(&r->identities[MPP_FUNCTIONS], at);
        if (slot->word & MPP_SLOT_CLASS) mpp_identity_dies(&r->identities[MPP_CLASSES], at);
        if (slot->word & MPP_SLOT_THREAD) mpp_identity_dies(&r->identities[MPP_THREADS], at);
        slot->word &= ~MPP_SLOT_IDENTITY;
        if (!(slot->word & MPP_SLOT_SERIAL)) {
            mpp_slots_clear(&r->slots, page, slot);
            continue;
        }
        if (slot->word & MPP_SLOT_PENDING_FREE) continue;
        r->counts.audited_frees++;
        mpp_write_free(page, slot, UINT64_MAX);
    }
    return 0;
}

void mpp_audit(void)
{
    struct mpp_recorder *r = &mpp_recorder;

    audit_number++;
    mpp_capture_forget();
    rb_objspace_each_objects(look_at_page, NULL);
    /* A page that the walk did not come by holds nothing any more. */
    for (size_t t = 0; t < r->slots.capacity; t++) {
        struct mpp_slot_page *page = r->slots.table[t];
        struct mpp_slot *slot;
        if (!page || !page->tracked || page->audit == audit_number) continue;
        for (uint32_t i = 0; (slot = mpp_slots_next(&r->slots, page, &i)); i++) {
            if (!(slot->word & MPP_SLOT_SERIAL) || (slot->word & MPP_SLOT_PENDING_FREE)) continue;
            r->counts.audited_frees++;
            mpp_write_free(page, slot, UINT64_MAX);
        }
    }
    r->lost_frees_known = rb_gc_stat(ID2SYM(rb_intern("total_freed_objects"))) - r->total_freed_at_start;
    r->lost_frees_known = r->lost_frees_known > r->counts.freeobj_calls ? r->lost_frees_known - r->counts.freeobj_calls : 0;
}
