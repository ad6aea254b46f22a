/* Frees that nobody told us of: while another tool's internal hook runs on a thread, Ruby skips ours in silence (vm_trace.c rb_exec_event_hooks), so
 * objects that a collection frees there die without FREEOBJ. GC.stat's count betrays it; then the heap itself is asked, at a safe point, who is gone.
 */
#include "recorder.h"

static uint32_t audit_number;

static void bury(struct mpp_slot_page *page, struct mpp_slot *slot, uintptr_t address)
{
    struct mpp_recorder *r = &mpp_recorder;

    if (slot->word & MPP_SLOT_IDENTITY) mpp_forget_identity(address, slot);
    if (!(slot->word & MPP_SLOT_SERIAL)) {
        mpp_slots_clear(&r->slots, page, slot);
        return;
    }
    if (slot->word & MPP_SLOT_PENDING_FREE) return;
    r->counts.audited_frees++;
    mpp_write_free(page, slot, UINT64_MAX);
}

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
        if (slot && slot->word && (type == T_NONE || type == T_ZOMBIE || type == T_MOVED)) bury(page, slot, at);
    }
    return 0;
}

void mpp_audit(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    uint64_t lost;

    audit_number++;
    r->counts.audits++;
    rb_objspace_each_objects(look_at_page, NULL);
    /* A page that the walk did not come by holds nothing any more. */
    for (size_t t = 0; t < r->slots.capacity; t++) {
        struct mpp_slot_page *page = r->slots.table[t];
        struct mpp_slot *slot;
        if (!page || page->audit == audit_number) continue;
        for (uint32_t i = 0; (slot = mpp_slots_next(&r->slots, page, &i)); i++) bury(page, slot, mpp_slots_address(&r->slots, page, i));
    }
    /* This may be more than was really lost: objects that died before our hooks went on can be counted after (finalizers), so it decides when to
     * look, and nothing else. */
    lost = rb_gc_stat(ID2SYM(rb_intern("total_freed_objects"))) - r->total_freed_at_start;
    r->lost_frees_known = lost > r->counts.freeobj_calls ? lost - r->counts.freeobj_calls : 0;
}
