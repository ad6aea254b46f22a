/* What Ruby tells us, turned into records. In here: no Ruby call that can allocate, raise or release the lock, no Ruby allocator. */
#include "recorder.h"

#include <math.h>
#include <stdlib.h>

/* Ruby's type numbers are those of the format (fixed there as 3.1 has them; the same through 4.1-dev). */
static inline unsigned type_of(VALUE object)
{
    return (unsigned)BUILTIN_TYPE(object);
}

static void note_drop(enum mpp_drop_reason reason)
{
    mpp_recorder.counts.dropped_allocs++;
    mpp_recorder.counts.unreported_drops[reason]++;
    /* The disk failed: get out of the program's way at the next safe point. */
    if (atomic_load_explicit(&mpp_recorder.journal.dead, memory_order_relaxed) && !mpp_recorder.detach_wanted) {
        mpp_recorder.detach_wanted = 1;
        mpp_compat_job_trigger(mpp_recorder.job);
    }
}

/* What was dropped is told as soon as there is room: a process that is killed must not leave a log that looks whole. */
static void write_drops(void)
{
    struct mpp_recorder *r = &mpp_recorder;

    for (unsigned reason = 1; reason < 4; reason++) {
        unsigned char *p;
        if (!r->counts.unreported_drops[reason]) continue;
        p = mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_NO_WAIT);
        if (!p) return;
        mpp_journal_commit(&r->journal, mpp_encode_2(p, MPP_DROP, r->counts.unreported_drops[reason], reason));
        r->counts.unreported_drops[reason] = 0;
    }
}

/* The time, and what is due with it. */
static inline void tick(void)
{
    struct mpp_recorder *r = &mpp_recorder;

    if (__builtin_expect(!mpp_clock_due(&r->journal.clock), 1)) return;
    mpp_journal_stamp(&r->journal);
    write_drops();
    if (r->sizing_wanted && !r->sweeping && r->journal.clock.now_ns >= r->next_slice_ns) mpp_compat_job_trigger(r->job);
    if (r->journal.clock.now_ns >= r->next_figures_ns) {
        r->next_figures_ns = r->journal.clock.now_ns + MPP_FIGURES_EVERY_NS;
        mpp_refresh_figures();
        if (mpp_child_log_is_due()) mpp_compat_job_trigger(r->job);
    }
    if (atomic_load_explicit(&r->file.asks_for, memory_order_relaxed)) mpp_compat_job_trigger(r->job);
}

/* ---- frees ---- */

/* Objects are freed inside a step of the collector, which began with GC_ENTER (where the time was looked up), many at a go and without pause: so not
 * each looks at the clock, which costs as much as all the rest of a free. */
#define FREES_BETWEEN_LOOKS 64u

static int put_free(uint64_t serial, const struct mpp_slot *slot, uint64_t size_bytes)
{
    struct mpp_journal *j = &mpp_recorder.journal;
    unsigned char *p;
    int64_t delta;

    if (j->free_count % FREES_BETWEEN_LOOKS == 0) tick();
    p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
    if (!p) return -1;
    delta = (int64_t)(serial - j->free_base);
    if (size_bytes == UINT64_MAX || (size_bytes == slot->size_bytes && size_bytes != UINT32_MAX))
        p = mpp_encode_free(p, delta);
    else
        p = mpp_encode_free_sized(p, delta, size_bytes > MPP_MAX_SIZE_BYTES ? MPP_MAX_SIZE_BYTES : size_bytes);
    j->free_base = serial;
    j->free_count++;
    mpp_journal_commit(j, p);
    mpp_recorder.counts.recorded_frees++;
    return 0;
}

int mpp_write_free(struct mpp_slot_page *page, struct mpp_slot *slot, uint64_t size_bytes)
{
    struct mpp_recorder *r = &mpp_recorder;

    if (put_free(slot->word & MPP_SLOT_SERIAL, slot, size_bytes)) {
        if (!(slot->word & MPP_SLOT_PENDING_FREE)) r->counts.pending_frees++;
        slot->word |= MPP_SLOT_PENDING_FREE;
        return -1;
    }
    if (slot->word & MPP_SLOT_PENDING_FREE) r->counts.pending_frees--;
    mpp_slots_clear(&r->slots, page, slot);
    return 0;
}

static void keep_for_later(uint64_t serial)
{
    struct mpp_homeless_frees *h = &mpp_recorder.homeless_frees;

    if (h->count == h->capacity) {
        size_t capacity = h->capacity ? h->capacity * 2 : 256;
        uint64_t *serials = realloc(h->serials, capacity * sizeof *serials);
        if (!serials) {
            mpp_recorder.gap_wanted = 1;
            return;
        }
        h->serials = serials;
        h->capacity = capacity;
    }
    h->serials[h->count++] = serial;
    mpp_recorder.counts.pending_frees++;
}

void mpp_write_gone(const struct mpp_slot *slot)
{
    uint64_t serial = slot->word & MPP_SLOT_SERIAL;

    if (!serial) return;
    if (slot->word & MPP_SLOT_PENDING_FREE)
        mpp_recorder.counts.pending_frees--;
    else
        mpp_recorder.counts.implied_frees++;
    if (put_free(serial, slot, UINT64_MAX)) keep_for_later(serial);
}

int mpp_is_held_up(void)
{
    const struct mpp_recorder *r = &mpp_recorder;
    const uint64_t *drops = r->counts.unreported_drops;

    return r->gap_wanted || r->counts.pending_frees || drops[1] || drops[2] || drops[3];
}

void mpp_write_held_up(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;
    struct mpp_homeless_frees *homeless = &r->homeless_frees;

    write_drops();
    if (r->gap_wanted) {
        unsigned char *p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_NO_WAIT);
        if (!p) return;
        mpp_journal_commit(j, mpp_encode_1(p, MPP_GAP, MPP_GAP_FREES_LOST));
        r->gap_wanted = 0;
    }
    for (; homeless->count; homeless->count--, r->counts.pending_frees--) {
        if (!mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_NO_WAIT)) return;
        if (put_free(homeless->serials[homeless->count - 1], &(struct mpp_slot){0}, UINT64_MAX)) return;
    }
    for (size_t t = 0; t < r->slots.capacity && r->counts.pending_frees; t++) {
        struct mpp_slot_page *page = r->slots.table[t];
        struct mpp_slot *slot;
        for (uint32_t i = 0; page && r->counts.pending_frees && (slot = mpp_slots_next(&r->slots, page, &i)); i++) {
            if (!(slot->word & MPP_SLOT_PENDING_FREE)) continue;
            if (!mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_NO_WAIT)) return;
            mpp_write_free(page, slot, UINT64_MAX);
        }
    }
}

void mpp_forget_identity(uintptr_t address, struct mpp_slot *slot)
{
    struct mpp_recorder *r = &mpp_recorder;

    if (slot->word & MPP_SLOT_FUNCTION) mpp_identity_dies(&r->identities[MPP_FUNCTIONS], address);
    if (slot->word & MPP_SLOT_CLASS) mpp_identity_dies(&r->identities[MPP_CLASSES], address);
    if (slot->word & MPP_SLOT_THREAD) mpp_identity_dies(&r->identities[MPP_THREADS], address);
    if (slot->word & MPP_SLOT_FUNCTION)
        mpp_capture_forget();
    else
        mpp_capture_forget_owners();
    slot->word &= ~MPP_SLOT_IDENTITY;
}

static void on_free(VALUE data, const rb_trace_arg_t *argument)
{
    struct mpp_recorder *r = &mpp_recorder;
    VALUE object = rb_tracearg_object((rb_trace_arg_t *)(uintptr_t)argument);
    struct mpp_slot_page *page;
    struct mpp_slot *slot;

    (void)data;
    r->counts.freeobj_calls++;
    slot = mpp_slots_for_free(&r->slots, (uintptr_t)object, &page);
    if (!slot || !slot->word) return;
    if (slot->word & MPP_SLOT_IDENTITY) mpp_forget_identity((uintptr_t)object, slot);
    if (!(slot->word & MPP_SLOT_SERIAL)) {
        mpp_slots_clear(&r->slots, page, slot);
        return;
    }
    if (slot->word & MPP_SLOT_PENDING_FREE) return;
    mpp_write_free(page, slot, slot->word & MPP_SLOT_SIZABLE ? mpp_size_at_death(object, slot) : UINT64_MAX);
}

/* ---- births ---- */

/* How many allocations to let pass, so that each is taken with probability 1/period, independently (Knuth 3.4.1: geometric by inversion). */
static uint64_t geometric_gap(struct mpp_recorder *r)
{
    double u, gap;

    /* xorshift64* (Vigna 2016) */
    r->random ^= r->random >> 12;
    r->random ^= r->random << 25;
    r->random ^= r->random >> 27;
    u = ((double)((r->random * UINT64_C(0x2545F4914F6CDD1D)) >> 11) + 0.5) * 0x1p-53;
    gap = log(u) / log1p(-1.0 / (double)r->options.period);
    return gap < 1e15 ? (uint64_t)gap : UINT64_C(1000000000000000);
}

/* An empty entry for an object that is being born; NULL: the birth is dropped, and counted. */
static struct mpp_slot *slot_for_birth(VALUE object, struct mpp_slot_page **page)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_slot *slot = mpp_slots_for_new(&r->slots, (uintptr_t)object, page);

    if (__builtin_expect(slot && slot->word, 0)) {
        /* The slot was freed and nobody told us: hooks of other tools swallow frees. Or its free is still to be written. */
        if (slot->word & MPP_SLOT_IDENTITY) mpp_forget_identity((uintptr_t)object, slot);
        if (slot->word & MPP_SLOT_SERIAL) {
            if (!(slot->word & MPP_SLOT_PENDING_FREE)) r->counts.implied_frees++;
            if (mpp_write_free(*page, slot, UINT64_MAX)) {
                note_drop(MPP_DROP_NO_ROOM);
                return NULL;
            }
        } else {
            mpp_slots_clear(&r->slots, *page, slot);
        }
        slot = mpp_slots_for_new(&r->slots, (uintptr_t)object, page);
    }
    if (!slot) note_drop(MPP_DROP_NO_MEMORY);
    return slot;
}

static void record_birth(VALUE object)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;
    unsigned type = type_of(object);
    VALUE klass = mpp_is_internal(type) ? 0 : RBASIC(object)->klass;
    uint32_t birth_bytes = mpp_compat_slot_bytes(object), site;
    struct mpp_slot_page *page;
    struct mpp_slot *slot;
    unsigned char *p;
    uint64_t word;

    if (r->options.max_tracked_objects && r->slots.tracked_count >= r->options.max_tracked_objects) {
        note_drop(MPP_DROP_TOO_MANY_OBJECTS);
        return;
    }
    tick();
    site = mpp_capture_site(klass, type, birth_bytes);
    if (!site) {
        note_drop(MPP_DROP_NO_ROOM);
        return;
    }
    slot = slot_for_birth(object, &page);
    if (!slot) return;
    p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
    if (!p) {
        mpp_slots_clear(&r->slots, page, slot);
        note_drop(MPP_DROP_NO_ROOM);
        return;
    }
    p = r->options.period == 1 ? mpp_encode_alloc(p, site) : mpp_encode_alloc_weighted(p, site, (uint32_t)r->options.period);
    word = j->next_serial++;
    j->alloc_count++;
    mpp_journal_commit(j, p);
    if (mpp_size_is_provisional(type)) {
        word |= MPP_SLOT_UNMEASURED | (mpp_size_may_grow(type) ? MPP_SLOT_SIZABLE : 0);
        page->unmeasured++;
    }
    slot->word |= word;
    slot->size_bytes = birth_bytes;
    slot->site = site;
    page->tracked++;
    r->slots.tracked_count++;
    r->counts.recorded_allocs++;
}

static void on_new(VALUE data, const rb_trace_arg_t *argument)
{
    (void)data;
    mpp_recorder.counts.newobj_calls++;
    record_birth(rb_tracearg_object((rb_trace_arg_t *)(uintptr_t)argument));
}

/* A sampled run: a birth that is not taken costs one decrement. */
static void on_new_sampled(VALUE data, const rb_trace_arg_t *argument)
{
    struct mpp_recorder *r = &mpp_recorder;

    (void)data;
    if (__builtin_expect(r->skip-- != 0, 1)) return;
    r->skip = geometric_gap(r);
    r->counts.newobj_calls++;
    record_birth(rb_tracearg_object((rb_trace_arg_t *)(uintptr_t)argument));
}

/* ---- collections ---- */

#define FULL_SIZING_EVERY_NS UINT64_C(1000000000)

static struct {
    VALUE symbol;
    uint64_t key, factor;
} statistics[] = {
    {0, MPP_GC_HEAP_LIVE_SLOTS, 1},
    {0, MPP_GC_HEAP_FREE_SLOTS, 1},
    {0, MPP_GC_TOTAL_ALLOCATED_OBJECTS, 1},
    {0, MPP_GC_TOTAL_FREED_OBJECTS, 1},
    {0, MPP_GC_HEAP_PAGES, 1},
    {0, MPP_GC_MALLOC_INCREASE_BYTES, 1},
    {0, MPP_GC_OLD_OBJECTS, 1},
    {0, MPP_GC_MINOR_COUNT, 1},
    {0, MPP_GC_MAJOR_COUNT, 1},
    {0, MPP_GC_TIME_NS, 1000000},
    {0, MPP_GC_OLDMALLOC_INCREASE_BYTES, 1},
};
static VALUE symbol_major_by, symbol_total_freed;
#define STATISTICS_COUNT (sizeof statistics / sizeof *statistics)

/* Symbols are looked up here, at a safe point; rb_gc_stat with a symbol then neither allocates nor raises (gc.c gc_stat_internal), if Ruby knows the
 * key. */
void mpp_hooks_prepare(void)
{
    static const char *const names[STATISTICS_COUNT] = {
        "heap_live_slots",         "heap_free_slots", "total_allocated_objects", "total_freed_objects", "heap_allocated_pages",
        "malloc_increase_bytes",   "old_objects",     "minor_gc_count",          "major_gc_count",      "time",
        "oldmalloc_increase_bytes"};
    VALUE known = rb_hash_new();

    rb_gc_stat(known);
    for (size_t i = 0; i < STATISTICS_COUNT; i++) {
        VALUE symbol = ID2SYM(rb_intern(names[i]));
        statistics[i].symbol = NIL_P(rb_hash_lookup2(known, symbol, Qnil)) ? 0 : symbol;
    }
    symbol_major_by = ID2SYM(rb_intern("major_by"));
    symbol_total_freed = ID2SYM(rb_intern("total_freed_objects"));
    (void)rb_gc_latest_gc_info(symbol_major_by);
}

static void gc_starts(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;
    uint64_t flags = NIL_P(rb_gc_latest_gc_info(symbol_major_by)) ? 0 : MPP_GC_MAJOR;
    unsigned char *p;

    r->gc_count = rb_gc_count();
    r->sweeping = 1;
    r->serial_at_gc_start = j->next_serial;
    /* A program that collects in full again and again is not to be measured in full each time. */
    if (flags && j->clock.now_ns >= r->next_full_sizing_ns) {
        r->sizing_wanted = MPP_SIZE_ALL;
        r->next_full_sizing_ns = j->clock.now_ns + FULL_SIZING_EVERY_NS;
    }
    tick();
    p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
    if (p) mpp_journal_commit(j, mpp_encode_2(p, MPP_GC_START, r->gc_count, flags));
}

static void gc_ends(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;
    uint32_t count = 0;
    unsigned char *p;

    r->sweeping = 0;
    if (!r->sizing_wanted) r->sizing_wanted = MPP_SIZE_NEW;
    mpp_sizing_begin((enum mpp_sizing)r->sizing_wanted);
    if (r->total_freed_at_start == UINT64_MAX)
        r->total_freed_at_start = rb_gc_stat(symbol_total_freed) - r->counts.freeobj_calls; /* a forked child's first */
    /* FREEOBJ comes before the statistics count it, so ours may be ahead, never behind. */
    if (rb_gc_stat(symbol_total_freed) - r->total_freed_at_start > r->counts.freeobj_calls + r->lost_frees_known) r->audit_wanted = 1;
    mpp_compat_job_trigger(r->job);
    if (mpp_is_held_up()) mpp_write_held_up();
    tick();
    p = mpp_journal_room(j, 512, MPP_HOOK_WAIT);
    if (!p) return;
    for (size_t i = 0; i < STATISTICS_COUNT; i++) count += statistics[i].symbol != 0;
    p = mpp_encode_gc_end(p, r->gc_count, count);
    for (size_t i = 0; i < STATISTICS_COUNT; i++) {
        if (!statistics[i].symbol) continue;
        p = mpp_put_varint(p, statistics[i].key);
        p = mpp_put_varint(p, rb_gc_stat(statistics[i].symbol) * statistics[i].factor);
    }
    mpp_journal_commit(j, p);
}

static void on_gc(VALUE data, const rb_trace_arg_t *argument)
{
    (void)data;
    switch (rb_tracearg_event_flag((rb_trace_arg_t *)(uintptr_t)argument)) {
    case RUBY_INTERNAL_EVENT_GC_ENTER:
        tick();
        break;
    case RUBY_INTERNAL_EVENT_GC_START:
        gc_starts();
        break;
    default:
        gc_ends();
    }
}

/* ---- on and off ---- */

static void (*birth_hook)(VALUE, const rb_trace_arg_t *); /* the one that is on, or NULL */

static void add(void (*hook)(VALUE, const rb_trace_arg_t *), rb_event_flag_t events)
{
    /* RAW_ARG: a third of a TracePoint's cost. Internal events need hooks of their own (alloc_event_hook raises otherwise). */
    rb_add_event_hook2((rb_event_hook_func_t)(void (*)(void))hook, events, Qnil, RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
}

void mpp_hooks_pause(void)
{
    if (birth_hook) rb_remove_event_hook((rb_event_hook_func_t)(void (*)(void))birth_hook);
    birth_hook = NULL;
    mpp_recorder.paused = 1;
}

void mpp_hooks_resume(void)
{
    struct mpp_recorder *r = &mpp_recorder;

    r->paused = 0;
    if (birth_hook) return;
    birth_hook = r->options.period > 1 ? on_new_sampled : on_new;
    r->skip = r->options.period > 1 ? geometric_gap(r) : 0;
    add(birth_hook, RUBY_INTERNAL_EVENT_NEWOBJ);
}

int mpp_hooks_set_period(uint64_t period)
{
    struct mpp_recorder *r = &mpp_recorder;
    int paused = r->paused;
    unsigned char *p;

    if (period == r->options.period) return 0;
    mpp_hooks_pause();
    p = mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_CALL_WAIT);
    if (p) {
        mpp_journal_commit(&r->journal, mpp_encode_1(p, MPP_SAMPLE_PERIOD, period));
        r->options.period = period;
    }
    if (!paused) mpp_hooks_resume();
    return p ? 0 : -1;
}

void mpp_hooks_attach(void)
{
    struct mpp_recorder *r = &mpp_recorder;

    r->gc_count = rb_gc_count();
    r->total_freed_at_start = rb_gc_stat(symbol_total_freed);
    add(on_gc, RUBY_INTERNAL_EVENT_GC_ENTER | RUBY_INTERNAL_EVENT_GC_START | RUBY_INTERNAL_EVENT_GC_END_SWEEP);
    add(on_free, RUBY_INTERNAL_EVENT_FREEOBJ);
    mpp_hooks_resume();
}

void mpp_hooks_detach(void)
{
    mpp_hooks_pause();
    rb_remove_event_hook((rb_event_hook_func_t)(void (*)(void))on_free);
    rb_remove_event_hook((rb_event_hook_func_t)(void (*)(void))on_gc);
}
