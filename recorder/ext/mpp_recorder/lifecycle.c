/* Start, stop, fork, and the work at safe points. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define COMMAND_LINE_MAX_BYTES 2048u /* keeps the header at one page: the journal's place is fixed before the header is written */
#define DESCRIPTION_MAX_BYTES  256
#define SPARSE_FROM_PERIOD     8 /* from here on, entries by slot would mostly be empty */
#define SLICE_NS               1000000u
#define SLICE_GAP_NS           5000000u    /* sizing rests so long between two slices */
#define LABELS_MAX_BYTES       (32u << 20) /* of all texts; a label that comes then is (other) */
#define LAST_SIZING_NS         UINT64_C(250000000)
#define CHILD_LOG_AFTER_NS     UINT64_C(1000000000)
#define DRAIN_MAX_NS           UINT64_C(10000000000)

struct mpp_recorder mpp_recorder;
static VALUE anchor;
static int forks_watched;

/* ---- what the log's header says ---- */

static char *constant_text(const char *name)
{
    VALUE value = rb_const_get(rb_cObject, rb_intern(name));

    return strndup(RB_TYPE_P(value, T_STRING) ? StringValueCStr(value) : "", DESCRIPTION_MAX_BYTES);
}

static void read_command_line(struct mpp_log_info *info)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;

    info->command_line = calloc(1, COMMAND_LINE_MAX_BYTES + 1);
    if (fd < 0 || !info->command_line) {
        if (fd >= 0) close(fd);
        return;
    }
    n = read(fd, info->command_line, COMMAND_LINE_MAX_BYTES);
    close(fd);
    info->command_line_bytes = n > 0 ? (size_t)n : 0;
    if (n == COMMAND_LINE_MAX_BYTES) info->command_line[n - 1] = 0; /* cut short: still ended */
}

static void fill_info_for_now(struct mpp_log_info *info, const struct mpp_clock *clock)
{
    time_t now = time(NULL);
    struct tm local;

    if (getrandom(info->uuid, sizeof info->uuid, 0) != (ssize_t)sizeof info->uuid) memset(info->uuid, 0, sizeof info->uuid);
    info->pid = (uint64_t)getpid();
    info->ppid = (uint64_t)getppid();
    info->start_monotonic_ns = clock->start_ns;
    /* The wall clock at time 0, which lies a moment back. */
    info->start_unix_ns = mpp_clock_ns(CLOCK_REALTIME) - (mpp_clock_ns(CLOCK_MONOTONIC) - clock->start_ns);
    info->utc_offset_s = localtime_r(&now, &local) ? local.tm_gmtoff : 0;
}

static int fill_info(struct mpp_recorder *r, const char **why)
{
    struct mpp_log_info *info = &r->info;

    memset(info, 0, sizeof *info);
    info->ruby_version = constant_text("RUBY_VERSION");
    info->ruby_description = constant_text("RUBY_DESCRIPTION");
    info->recorder_version = strdup(MPP_RECORDER_VERSION);
    read_command_line(info);
    info->sample_period = r->options.period;
    info->max_depth = r->options.max_depth;
    *why = NULL;
    return info->ruby_version && info->ruby_description && info->recorder_version ? 0 : ENOMEM;
}

static void release_info(struct mpp_log_info *info)
{
    free(info->ruby_version);
    free(info->ruby_description);
    free(info->recorder_version);
    free(info->command_line);
    memset(info, 0, sizeof *info);
}

/* ---- figures ---- */

static uint64_t memory_of_tables(void)
{
    const struct mpp_recorder *r = &mpp_recorder;
    uint64_t bytes = r->slots.memory_bytes + mpp_stacks_memory_bytes(&r->stacks) + r->memory.bytes;

    bytes += r->strings.arena_capacity + r->strings.capacity * sizeof(struct mpp_string) + r->strings.table_capacity * sizeof(uint32_t);
    for (int kind = 0; kind < MPP_IDENTITY_KINDS; kind++) {
        const struct mpp_identity_table *t = &r->identities[kind];
        bytes += t->capacity * sizeof *t->list + (t->map.capacity + t->dead.capacity) * (sizeof *t->map.keys + sizeof *t->map.ids);
    }
    bytes += r->homeless_frees.capacity * sizeof *r->homeless_frees.serials;
    bytes += mpp_capture_memory_bytes();
    return bytes + 2 * r->memory.half_bytes; /* about what the writer holds */
}

uint64_t mpp_memory_bytes(void)
{
    return mpp_recorder.running ? memory_of_tables() : 0;
}

void mpp_refresh_figures(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_shared_figures *f = &r->file.figures;

    atomic_store_explicit(&f->tracked_objects, r->slots.tracked_count, memory_order_relaxed);
    atomic_store_explicit(&f->recorded_allocs, r->counts.recorded_allocs, memory_order_relaxed);
    atomic_store_explicit(&f->dropped_allocs, r->counts.dropped_allocs, memory_order_relaxed);
    atomic_store_explicit(&f->stalls, r->journal.stall_count, memory_order_relaxed);
    atomic_store_explicit(&f->stall_ns, r->journal.stall_ns, memory_order_relaxed);
    atomic_store_explicit(&f->memory_bytes, memory_of_tables(), memory_order_relaxed);
}

/* ---- start ---- */

/* The producer's half is full. In a hook: no Ruby. */
static void half_filled(void *context)
{
    struct mpp_recorder *r = context;

    if (r->in_child) {
        if (!atomic_load(&r->journal.dead)) (void)mpp_child_log();
        return;
    }
    mpp_refresh_figures();
    mpp_log_file_wake(&r->file);
    if (atomic_load_explicit(&r->file.asks_for, memory_order_relaxed)) mpp_compat_job_trigger(r->job);
}

/* The id of a text of ours, written to the log if new; 0: no memory or no room. */
static uint32_t own_text(const char *text)
{
    struct mpp_recorder *r = &mpp_recorder;
    unsigned char *p = mpp_journal_room(&r->journal, 512, MPP_LONG_WAIT);
    int fresh;
    uint32_t id = p ? mpp_strings_intern(&r->strings, text, strlen(text), &fresh) : 0;

    if (id && fresh) mpp_journal_commit(&r->journal, mpp_encode_string(p, id, text, strlen(text)));
    return id;
}

/* A function, class or thread that is no object of the program but stands for something, with its name. Ids follow the enums in recorder.h. 0 or -1.
 */
static int add_own(enum mpp_identity_kind kind, const char *name, uint32_t flags)
{
    struct mpp_recorder *r = &mpp_recorder;
    uint32_t id = mpp_identity_add(&r->identities[kind], 0), text = own_text(name), empty = own_text("");
    unsigned char *p = mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_LONG_WAIT);

    if (!id || !text || !empty || !p) return -1;
    if (kind == MPP_FUNCTIONS)
        p = mpp_encode_function_name(p, id, text, empty, 0, flags);
    else if (kind == MPP_CLASSES)
        p = mpp_encode_class_name(p, id, text, flags);
    else
        p = mpp_encode_2(p, MPP_THREAD_NAME, id, text);
    mpp_journal_commit(&r->journal, p);
    r->identities[kind].list[id] = (struct mpp_identity){.name = text, .path = empty, .flags = (uint8_t)flags, .named = 1};
    return 0;
}

static int add_own_identities(void)
{
    static const struct {
        enum mpp_identity_kind kind;
        const char *name;
        uint32_t flags;
    } own[] = {{MPP_FUNCTIONS, "[mpp_recorder]", MPP_FUNCTION_REMARK},    {MPP_FUNCTIONS, "[truncated]", MPP_FUNCTION_REMARK},
               {MPP_FUNCTIONS, "[too many stacks]", MPP_FUNCTION_REMARK}, {MPP_FUNCTIONS, "(before recording)", MPP_FUNCTION_REMARK},
               {MPP_CLASSES, "(singleton class)", MPP_CLASS_HIDDEN},      {MPP_THREADS, "(other threads)", 0}};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (add_own(own[i].kind, own[i].name, own[i].flags)) return -1;
    }
    return 0;
}

static void release_tables(struct mpp_recorder *r)
{
    mpp_capture_release();
    mpp_slots_release(&r->slots);
    free(r->homeless_frees.serials);
    r->homeless_frees = (struct mpp_homeless_frees){0};
    mpp_stacks_release(&r->stacks);
    mpp_strings_release(&r->strings);
    for (int kind = 0; kind < MPP_IDENTITY_KINDS; kind++) mpp_identity_table_release(&r->identities[kind]);
    mpp_journal_memory_unmap(&r->memory);
    release_info(&r->info);
}

static int init_tables(struct mpp_recorder *r)
{
    uint32_t page_bytes, slot_bytes;

    if (mpp_compat_heap_geometry(&page_bytes, &slot_bytes)) return EINVAL;
    if (mpp_slots_init(&r->slots, page_bytes, slot_bytes, r->options.period >= SPARSE_FROM_PERIOD) || mpp_stacks_init(&r->stacks) ||
        mpp_strings_init(&r->strings) || mpp_capture_init(r->options.max_depth))
        return ENOMEM;
    for (int kind = 0; kind < MPP_IDENTITY_KINDS; kind++) {
        if (mpp_identity_table_init(&r->identities[kind])) return ENOMEM;
    }
    return 0;
}

static int open_log(struct mpp_recorder *r)
{
    size_t header_bytes = mpp_log_header_bytes(&r->info);
    uint64_t first_serial = r->options.baseline ? 1 + mpp_baseline_room() : 1;
    int error = mpp_journal_memory_map(&r->memory, r->options.path, header_bytes, r->options.journal_bytes);

    if (error) return error;
    mpp_journal_init(&r->journal, r->memory.base + header_bytes, r->memory.half_bytes, r->memory.half_count, first_serial);
    r->journal.half_filled = half_filled;
    r->journal.context = r;
    fill_info_for_now(&r->info, &r->journal.clock);
    r->info.fork_serial = first_serial;
    return mpp_log_file_create(&r->file, r->options.path, r->options.on_exists, &r->info, &r->journal, &r->memory);
}

int mpp_start(const struct mpp_options *options, const char **why)
{
    struct mpp_recorder *r = &mpp_recorder;
    int error;

    *why = mpp_compat_refusal();
    if (*why) return ENOTSUP;
    if (mpp_ractors_run()) {
        *why = "Ractors are running, and this Ruby hides from us what they free";
        return ENOTSUP;
    }
    mpp_ractors_watch();
    memset(r, 0, sizeof *r);
    r->options = *options;
    r->pid = (long)getpid();
    mpp_sizing_begin(MPP_SIZE_NONE);
    if (getrandom(&r->random, sizeof r->random, 0) != (ssize_t)sizeof r->random || !r->random) r->random = UINT64_C(0x9E3779B97F4A7C15);
    if (options->seed) r->random = XXH64(&options->seed, sizeof options->seed, 0) | 1;
    r->job = mpp_compat_job_ready((mpp_job_function)(void (*)(void))mpp_work_at_safe_point);
    if (r->job < 0) {
        *why = "Ruby has no room for one more postponed job";
        return EAGAIN;
    }
    error = fill_info(r, why);
    if (!error) error = init_tables(r);
    if (!error) error = open_log(r);
    if (error) {
        release_tables(r);
        return error;
    }
    r->file.max_bytes = options->max_log_bytes;
    r->file.mark_at_rss_bytes = options->mark_at_rss_bytes;
    mpp_refresh_figures();
    error = mpp_log_file_start(&r->file);
    if (!error && add_own_identities()) error = ENOMEM;
    mpp_hooks_prepare();
    if (!error) mpp_capture_own_stack();
    if (!error && options->baseline && mpp_baseline()) error = ENOMEM;
    if (error) {
        mpp_log_file_join(&r->file);
        mpp_log_file_close(&r->file);
        unlink(r->file.path);
        release_tables(r);
        return error;
    }
    r->running = 1;
    mpp_hooks_attach();
    return 0;
}

/* ---- stop, flush, mark ---- */

static void write_held_up_patiently(struct mpp_recorder *r)
{
    for (int tries = 0; tries < 100; tries++) {
        mpp_write_held_up();
        if (!mpp_is_held_up()) return;
        if (!mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_LONG_WAIT)) return;
    }
}

int mpp_stop(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    int error;

    if (!r->running) return 0;
    if (!atomic_load(&r->journal.dead)) {
        /* The youngest have not seen a collection yet, so nobody has measured them: without this, the end of a short run would be told too small. */
        uintptr_t before = mpp_own_work_begin();
        mpp_sizing_now(MPP_SIZE_NEW, MPP_HOOK_WAIT, LAST_SIZING_NS);
        mpp_own_work_end(before);
        mpp_names_resolve_anonymous();
        if (!r->running) return 0; /* Ruby code that ran under it has done so already */
    }
    mpp_hooks_detach();
    r->running = 0;
    error = r->in_child ? mpp_child_log() : 0;
    if (!error) {
        write_held_up_patiently(r);
        mpp_journal_stamp(&r->journal);
        mpp_journal_seal(&r->journal);
        mpp_refresh_figures();
        mpp_log_file_join(&r->file);
        error = mpp_definitions_write(mpp_log_file_definitions, &r->file);
        if (!error) error = mpp_log_file_finish(&r->file, r->journal.clock.now_ns, &r->memory);
        mpp_log_file_close(&r->file);
    }
    release_tables(r);
    return error;
}

int mpp_flush_begin(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    int error;

    mpp_names_resolve();
    error = r->in_child ? mpp_child_log() : 0;
    if (error) return error;
    mpp_journal_stamp(&r->journal);
    mpp_journal_seal(&r->journal);
    return 0;
}

int mpp_flush_end(void)
{
    return mpp_log_file_drain(&mpp_recorder.file, DRAIN_MAX_NS);
}

int mpp_label(const char *key, size_t key_bytes, const char *value, size_t value_bytes)
{
    struct mpp_recorder *r = &mpp_recorder;
    uint32_t thread = mpp_capture_thread(), key_id, value_id;
    unsigned char *p;

    /* Labels are to be few: one for each request would fill memory for ever. */
    if (value && r->strings.arena_bytes > LABELS_MAX_BYTES) {
        value = "(other)";
        value_bytes = strlen(value);
    }
    key_id = mpp_names_string(key, key_bytes);
    value_id = value ? mpp_names_string(value, value_bytes) : 0;
    if (!thread || !key_id || (value && !value_id)) return EAGAIN;
    mpp_journal_stamp(&r->journal);
    p = mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
    if (!p) return EAGAIN;
    mpp_journal_commit(&r->journal, mpp_encode_3(p, MPP_LABEL, thread, key_id, value_id));
    return 0;
}

int mpp_mark(const char *name, size_t bytes, int measure, enum mpp_patience patience)
{
    struct mpp_recorder *r = &mpp_recorder;
    size_t limit = mpp_journal_max_text_bytes(&r->journal);
    unsigned char *p;

    if (bytes > limit) bytes = limit;
    if (measure) {
        uintptr_t before = mpp_own_work_begin();
        mpp_sizing_now(MPP_SIZE_ALL, MPP_LONG_WAIT, UINT64_C(1) << 62);
        mpp_own_work_end(before);
    }
    mpp_journal_stamp(&r->journal);
    /* What a moment is asked about is what came before it: what was held up comes first, when there is room again. */
    if (mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, patience)) mpp_write_held_up();
    p = mpp_journal_room(&r->journal, bytes + MPP_RECORD_MAX_BYTES, patience);
    if (!p) return atomic_load(&r->file.failure) ? atomic_load(&r->file.failure) : EAGAIN;
    mpp_journal_commit(&r->journal, mpp_encode_mark(p, name, bytes));
    return 0;
}

/* ---- at safe points ---- */

static int working; /* jobs may nest: Ruby code that we run can come to a safe point of its own */

static VALUE work(VALUE nothing)
{
    struct mpp_recorder *r = &mpp_recorder;
    int wishes = atomic_exchange(&r->file.asks_for, 0);

    if (wishes & MPP_WISH_RSS_MARK) {
        char name[64];
        int length = snprintf(name, sizeof name, "rss >= %llu bytes", (unsigned long long)r->options.mark_at_rss_bytes);
        if (mpp_mark(name, (size_t)length, 0, MPP_HOOK_WAIT) == EAGAIN) atomic_fetch_or(&r->file.asks_for, MPP_WISH_RSS_MARK); /* later */
    }
    if (wishes & MPP_WISH_STOP) {
        mpp_warn("recording to '%s' ended: the log has its greatest length", r->file.path);
        r->detach_wanted = 1;
    }
    if (r->detach_wanted) {
        (void)mpp_stop(); /* the writer has said why */
        return nothing;
    }
    if (mpp_child_log_is_due()) (void)mpp_child_log();
    if (r->names_wanted) mpp_names_resolve();
    if (r->audit_wanted && !r->sweeping) {
        r->audit_wanted = 0;
        mpp_audit();
    }
    if (r->running && r->sizing_wanted && !r->sweeping) {
        if (mpp_sizing_slice(SLICE_NS))
            r->sizing_wanted = MPP_SIZE_NONE;
        else
            r->next_slice_ns = r->journal.clock.now_ns + SLICE_GAP_NS;
    }
    return nothing;
}

void mpp_work_at_safe_point(void)
{
    uintptr_t before;
    int state = 0;

    if (working || !mpp_recorder.running) return;
    working = 1;
    before = mpp_own_work_begin();
    /* A dsize function of an extension may raise, and the thread may be killed: neither is to end our work for good. */
    rb_protect(work, Qnil, &state);
    mpp_own_work_end(before);
    working = 0;
    if (state) rb_jump_tag(state);
}

/* ---- fork ---- */

/* Runs in the child, before any Ruby. The parent's log is the parent's: the mapping is not inherited (MADV_DONTFORK) and is replaced here by private
 * memory. */
static void in_forked_child(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_journal *j = &r->journal;

    if (!r->running) return;
    working = 0; /* a job of another thread, which is not in this process */
    r->own_work_thread = 0;
    r->pid = (long)getpid();
    if (getrandom(&r->random, sizeof r->random, 0) != (ssize_t)sizeof r->random || !r->random) r->random = 1;
    if (r->in_child) {
        /* Forked from a child without a log yet (Process.daemon forks twice): what it holds in memory came after the fork from the process that has a
         * log, so it is this one's past as well. */
        fill_info_for_now(&r->info, &j->clock);
        return;
    }
    close(r->file.fd);
    r->file.fd = -1;
    r->file.thread_runs = 0;
    if (mpp_journal_memory_after_fork(&r->memory)) {
        /* No memory for a journal: this child is not recorded. Its hooks find no room and are taken off at the next safe point; the parent's file is
         * none of its. */
        atomic_store(&r->file.failure, ENOMEM);
        mpp_journal_close(j);
        return;
    }
    memcpy(r->info.parent_uuid, r->info.uuid, sizeof r->info.uuid);
    r->info.has_parent = 1;
    r->info.fork_sequence = j->current >= 0 ? j->next_sequence - 1 : j->next_sequence;
    r->info.fork_bytes = j->current >= 0 ? (uint64_t)(j->at - j->payload) : 0;
    r->info.fork_serial = j->next_serial;
    mpp_journal_restart(j);
    r->next_figures_ns = 0;
    r->next_slice_ns = 0;
    r->next_full_sizing_ns = 0;
    fill_info_for_now(&r->info, &j->clock);
    r->in_child = 1;
    /* Frees that the parent could not write yet are this process's to write as well, into its own log. */
    r->counts = (struct mpp_counts){.pending_frees = r->counts.pending_frees};
    r->total_freed_at_start = UINT64_MAX; /* to be asked at the child's first GC */
    r->lost_frees_known = 0;
}

int mpp_child_log_is_due(void)
{
    return mpp_recorder.in_child && !atomic_load(&mpp_recorder.journal.dead) && mpp_recorder.journal.clock.now_ns >= CHILD_LOG_AFTER_NS;
}

int mpp_child_log(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    int error;

    if (!r->in_child) return 0;
    r->in_child = 0;
    mpp_writer_free(r->file.writer); /* the parent's, as memory */
    error = mpp_log_file_create(&r->file, r->options.path, MPP_EXISTS_NEXT_FREE, &r->info, &r->journal, &r->memory);
    r->file.max_bytes = r->options.max_log_bytes;
    mpp_refresh_figures();
    if (!error) error = mpp_definitions_write(mpp_log_file_definitions, &r->file);
    if (!error) error = mpp_log_file_start(&r->file);
    if (error) {
        mpp_warn("no log for the forked process %ld beside '%s': %s", r->pid, r->options.path, strerror(error));
        /* What could be made of it stays as it is: a clean end would say that all is there. */
        atomic_store(&r->file.failure, error);
        atomic_store(&r->journal.dead, 1);
        r->detach_wanted = 1;
        mpp_compat_job_trigger(r->job);
        return error;
    }
    mpp_log_file_wake(&r->file);
    return 0;
}

/* ---- the anchor: how the collector sees us ---- */

static void anchor_mark(void *data)
{
    (void)data;
    if (mpp_recorder.running) mpp_names_mark();
}

static size_t anchor_memsize(const void *data)
{
    (void)data;
    return (size_t)mpp_memory_bytes();
}

static uintptr_t moved_to(uintptr_t address)
{
    return (uintptr_t)rb_gc_location((VALUE)address);
}

/* Objects have moved. There is no event for a move; this is called once, when references are updated, before the rest is swept. */
static void anchor_compact(void *data)
{
    struct mpp_recorder *r = &mpp_recorder;

    (void)data;
    if (!r->running) return;
    mpp_capture_forget();
    mpp_slots_rekey(&r->slots, moved_to, mpp_write_gone);
    for (int kind = 0; kind < MPP_IDENTITY_KINDS; kind++) (void)mpp_identity_rekey(&r->identities[kind], moved_to);
}

static const rb_data_type_t anchor_type = {"mpp_recorder", {anchor_mark, RUBY_NEVER_FREE, anchor_memsize, anchor_compact, {0}}, NULL, NULL, 0};

static void at_exit(VALUE data)
{
    (void)data;
    (void)mpp_stop();
}

VALUE mpp_anchor(void)
{
    return anchor;
}

void mpp_lifecycle_init(void)
{
    /* DATA_PTR must not be NULL: dcompact is not called then (gc.c gc_ref_update, 3.1). */
    rb_gc_register_address(&anchor);
    anchor = TypedData_Wrap_Struct(rb_cObject, &anchor_type, &mpp_recorder);
    rb_set_end_proc(at_exit, Qnil);
    if (!forks_watched) forks_watched = !pthread_atfork(NULL, NULL, in_forked_child);
}
