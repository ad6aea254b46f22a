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
    rb_objspace_each_objects(look_at_page, NULL);
    /* A page that the walk did not come by holds nothing any more. */
    for (size_t t = 0; t < r->slots.capacity; t++) {
        struct mpp_slot_page *page = r->slots.table[t];
        struct mpp_slot *slot;
        if (!page || page->audit == audit_number) continue;
        for (uint32_t i = 0; (slot = mpp_slots_next(&r->slots, page, &i)); i++) bury(page, slot, mpp_slots_address(&r->slots, page, i));
    }
    lost = rb_gc_stat(ID2SYM(rb_intern("total_freed_objects"))) - r->total_freed_at_start;
    lost = lost > r->counts.freeobj_calls ? lost - r->counts.freeobj_calls : 0;
    /* In a sampled run a birth that is not taken looks at no slot, so a dead object whose slot has a new tenant cannot be told from a live one. */
    if (lost > r->lost_frees_known && r->options.period > 1) {
        unsigned char *p = mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
        if (p) mpp_journal_commit(&r->journal, mpp_encode_1(p, MPP_GAP, MPP_GAP_FREES_LOST));
    }
    r->lost_frees_known = lost;
}
