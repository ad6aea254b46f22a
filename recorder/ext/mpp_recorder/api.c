/* The Ruby methods of MppRecorder. The only file that raises. */
#include "recorder.h"

#include <errno.h>
#include <math.h>
#include <ruby/thread.h>
#include <stdlib.h>
#include <string.h>

static VALUE error_class;

#define DEFAULT_MAX_DEPTH  256u
#define DEFAULT_MAX_STACKS (1u << 24)

enum {
    OPT_PATH,
    OPT_SAMPLE_RATE,
    OPT_MAX_DEPTH,
    OPT_MAX_STACKS,
    OPT_MAX_TRACKED,
    OPT_JOURNAL_BYTES,
    OPT_MAX_LOG,
    OPT_MARK_AT_RSS,
    OPT_BASELINE,
    OPT_SEED,
    OPT_FORCE,
    OPT_ON_EXISTS,
    OPT_COUNT
};

static uint64_t positive(VALUE value, const char *name, uint64_t fallback, uint64_t limit)
{
    long long number;

    if (NIL_P(value) || value == Qundef) return fallback;
    number = NUM2LL(value);
    if (number < 1 || (uint64_t)number > limit)
        rb_raise(rb_eArgError, "%s must be from 1 to %llu, not %lld", name, (unsigned long long)limit, number);
    return (uint64_t)number;
}

/* 1000000, or "500MB", "2GiB": 0 when not given. */
static uint64_t bytes_option(VALUE value, const char *name)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {
        {"", 1},          {"B", 1},          {"K", 1024}, {"KB", 1000},        {"KiB", 1024},          {"M", 1048576}, {"MB", 1e6},
        {"MiB", 1048576}, {"G", 1073741824}, {"GB", 1e9}, {"GiB", 1073741824}, {"T", 1099511627776.0}, {"TB", 1e12},   {"TiB", 1099511627776.0}};
    char *end;
    double number;

    if (!RB_TYPE_P(value, T_STRING)) return positive(value, name, 0, UINT64_C(1) << 62);
    number = strtod(StringValueCStr(value), &end);
    while (*end == ' ') end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!strcmp(end, units[i].unit) && number * units[i].bytes >= 1 && number * units[i].bytes < 4e18) return (uint64_t)(number * units[i].bytes);
    }
    rb_raise(rb_eArgError, "%s must be a number of bytes, like 1000000 or \"500MB\", not \"%" PRIsVALUE "\"", name, value);
}

static uint64_t period_of(VALUE rate)
{
    double r, period;

    if (NIL_P(rate) || rate == Qundef) return 1;
    r = NUM2DBL(rate);
    if (!(r > 0 && r <= 1)) rb_raise(rb_eArgError, "sample_rate must be above 0 and at most 1, not %g", r);
    period = round(1 / r);
    if (period > MPP_MAX_WEIGHT) rb_raise(rb_eArgError, "sample_rate %g is too small: the least is one in %u", r, (unsigned)MPP_MAX_WEIGHT);
    return (uint64_t)period;
}

static void parse_options(int argc, VALUE *argv, struct mpp_options *options)
{
    static ID names[OPT_COUNT];
    VALUE keywords, values[OPT_COUNT], path, on_exists;

    if (!names[0]) {
        names[OPT_PATH] = rb_intern("path");
        names[OPT_SAMPLE_RATE] = rb_intern("sample_rate");
        names[OPT_MAX_DEPTH] = rb_intern("max_depth");
        names[OPT_MAX_STACKS] = rb_intern("max_stacks");
        names[OPT_MAX_TRACKED] = rb_intern("max_tracked_objects");
        names[OPT_JOURNAL_BYTES] = rb_intern("journal_bytes");
        names[OPT_MAX_LOG] = rb_intern("max_log_bytes");
        names[OPT_MARK_AT_RSS] = rb_intern("mark_at_rss");
        names[OPT_BASELINE] = rb_intern("baseline");
        names[OPT_SEED] = rb_intern("seed");
        names[OPT_FORCE] = rb_intern("force");
        names[OPT_ON_EXISTS] = rb_intern("on_exists");
    }
    rb_scan_args(argc, argv, "0:", &keywords);
    if (NIL_P(keywords)) keywords = rb_hash_new();
    rb_get_kwargs(keywords, names, 1, OPT_COUNT - 1, values);
    path = rb_file_expand_path(rb_get_path(values[OPT_PATH]), Qnil);
    if ((size_t)RSTRING_LEN(path) >= sizeof options->path - 64) rb_raise(error_class, "path is too long: '%" PRIsVALUE "'", path);
    memset(options, 0, sizeof *options);
    memcpy(options->path, RSTRING_PTR(path), (size_t)RSTRING_LEN(path));
    options->period = period_of(values[OPT_SAMPLE_RATE]);
    options->max_depth = (uint32_t)positive(values[OPT_MAX_DEPTH], "max_depth", DEFAULT_MAX_DEPTH, MPP_DEPTH_LIMIT);
    options->max_stacks = (uint32_t)positive(values[OPT_MAX_STACKS], "max_stacks", DEFAULT_MAX_STACKS, MPP_MAX_ID / 2);
    options->max_tracked_objects = positive(values[OPT_MAX_TRACKED], "max_tracked_objects", 0, MPP_MAX_SERIAL);
    options->journal_bytes = positive(values[OPT_JOURNAL_BYTES], "journal_bytes", 0, 1u << 28);
    options->max_log_bytes = bytes_option(values[OPT_MAX_LOG], "max_log_bytes");
    options->mark_at_rss_bytes = bytes_option(values[OPT_MARK_AT_RSS], "mark_at_rss");
    options->baseline = values[OPT_BASELINE] != Qundef && RTEST(values[OPT_BASELINE]);
    if (options->baseline && options->period > 1)
        rb_raise(rb_eArgError, "baseline needs sample_rate 1.0: what lives already cannot be sampled fairly");
    options->seed = positive(values[OPT_SEED], "seed", 0, UINT64_C(1) << 62);
    on_exists = values[OPT_ON_EXISTS];
    if (on_exists != Qundef && !NIL_P(on_exists)) {
        if (on_exists == ID2SYM(rb_intern("next_free")))
            options->on_exists = MPP_EXISTS_NEXT_FREE;
        else if (on_exists != ID2SYM(rb_intern("error")))
            rb_raise(rb_eArgError, "on_exists must be :error or :next_free");
    }
    if (values[OPT_FORCE] != Qundef && RTEST(values[OPT_FORCE])) options->on_exists = MPP_EXISTS_REPLACE;
}

static void raise_errno(const char *what, const char *path, int error)
{
    const char *hint = error == EEXIST   ? ": choose another path, or pass force: true"
                       : error == ENOENT ? ": create the directory first"
                       : error == ENOSPC ? ": free some space, or choose another path"
                                         : "";

    rb_raise(error_class, "%s '%s': %s%s", what, path, strerror(error), hint);
}

/* MppRecorder.start(path:, sample_rate: 1.0, max_depth: 256, …) → true */
static VALUE api_start(int argc, VALUE *argv, VALUE self)
{
    struct mpp_options options;
    const char *why;
    int error;

    (void)self;
    parse_options(argc, argv, &options);
    if (mpp_recorder.running) rb_raise(error_class, "already recording to '%s': stop first", mpp_recorder.file.path);
    error = mpp_start(&options, &why);
    if (error && why) rb_raise(error_class, "cannot record: %s", why);
    if (error) raise_errno("cannot record to", options.path, error);
    return Qtrue;
}

/* MppRecorder.stop → the log's path, or nil when nothing was recording */
static VALUE api_stop(VALUE self)
{
    VALUE path;
    int error;

    (void)self;
    if (!mpp_recorder.running) return Qnil;
    error = mpp_stop();
    if (error) raise_errno("the log did not end cleanly:", mpp_recorder.file.path, error);
    path = rb_str_new_cstr(mpp_recorder.file.path);
    return path;
}

static VALUE api_running(VALUE self)
{
    (void)self;
    return mpp_recorder.running ? Qtrue : Qfalse;
}

/* MppRecorder.path → the log's path while recording, or nil (in a forked child before its own log exists, too) */
static VALUE api_path(VALUE self)
{
    (void)self;
    return mpp_recorder.running && !mpp_recorder.in_child ? rb_str_new_cstr(mpp_recorder.file.path) : Qnil;
}

/* MppRecorder.mark(name, measure: false) → true, or false when it was not recorded: nothing is recording, or the disk does not keep up. */
static VALUE api_mark(int argc, VALUE *argv, VALUE self)
{
    static ID measure;
    VALUE name, keywords, value = Qundef;
    int error;

    (void)self;
    if (!measure) measure = rb_intern("measure");
    rb_scan_args(argc, argv, "1:", &name, &keywords);
    if (!NIL_P(keywords)) rb_get_kwargs(keywords, &measure, 0, 1, &value);
    if (SYMBOL_P(name)) name = rb_sym2str(name);
    StringValue(name);
    if (!mpp_recorder.running) return Qfalse;
    error = mpp_mark(RSTRING_PTR(name), (size_t)RSTRING_LEN(name), value != Qundef && RTEST(value), MPP_CALL_WAIT);
    RB_GC_GUARD(name);
    return error ? Qfalse : Qtrue;
}

/* MppRecorder.pause: births are not recorded until resume; deaths are. true, or false when nothing is recording. */
static VALUE api_pause(VALUE self)
{
    (void)self;
    if (!mpp_recorder.running) return Qfalse;
    mpp_hooks_pause();
    return Qtrue;
}

static VALUE api_resume(VALUE self)
{
    (void)self;
    if (!mpp_recorder.running) return Qfalse;
    mpp_hooks_resume();
    return Qtrue;
}

static VALUE api_paused(VALUE self)
{
    (void)self;
    return mpp_recorder.running && mpp_recorder.paused ? Qtrue : Qfalse;
}

/* MppRecorder.sample_rate = 0.01: from here on */
static VALUE api_set_sample_rate(VALUE self, VALUE rate)
{
    uint64_t period = period_of(rate);

    (void)self;
    if (!mpp_recorder.running) rb_raise(error_class, "not recording: give sample_rate to start");
    if (mpp_hooks_set_period(period)) raise_errno("cannot change the sample rate of", mpp_recorder.file.path, EAGAIN);
    return rate;
}

static VALUE api_sample_rate(VALUE self)
{
    (void)self;
    return mpp_recorder.running ? DBL2NUM(1.0 / (double)mpp_recorder.options.period) : Qnil;
}

/* MppRecorder.label(key, value): what the present thread does from here on; nil ends it. true, or false when it was not recorded. */
static VALUE api_label(VALUE self, VALUE key, VALUE value)
{
    int error;

    (void)self;
    if (!mpp_recorder.running) return Qfalse;
    if (SYMBOL_P(key)) key = rb_sym2str(key);
    StringValue(key);
    if (!NIL_P(value)) StringValue(value);
    error = mpp_label(RSTRING_PTR(key), (size_t)RSTRING_LEN(key), NIL_P(value) ? NULL : RSTRING_PTR(value),
                      NIL_P(value) ? 0 : (size_t)RSTRING_LEN(value));
    RB_GC_GUARD(key);
    RB_GC_GUARD(value);
    return error ? Qfalse : Qtrue;
}

static void *drain(void *nothing)
{
    (void)nothing;
    return (void *)(intptr_t)mpp_flush_end();
}

/* MppRecorder.flush → true, or false when nothing is recording. All that was recorded before it stands in the file's sealed blocks. */
static VALUE api_flush(VALUE self)
{
    int error;

    (void)self;
    if (!mpp_recorder.running) return Qfalse;
    error = mpp_flush_begin();
    /* Other threads run while the disk works. */
    if (!error) error = (int)(intptr_t)rb_thread_call_without_gvl(drain, NULL, RUBY_UBF_IO, NULL);
    if (error) raise_errno("cannot flush", mpp_recorder.file.path, error);
    return Qtrue;
}

static void set(VALUE hash, const char *name, uint64_t value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), ULL2NUM(value));
}

/* MppRecorder.stats → a Hash of figures; empty when nothing is recording */
static VALUE api_stats(VALUE self)
{
    const struct mpp_recorder *r = &mpp_recorder;
    const struct mpp_log_file *lf = &r->file;
    const struct mpp_counts counts = r->counts; /* of one moment: making the Hash allocates */
    const uint64_t tracked_objects = r->slots.tracked_count;
    VALUE hash = rb_hash_new();

    (void)self;
    if (!r->running) return hash;
    set(hash, "tracked_objects", tracked_objects);
    set(hash, "recorded_allocs", counts.recorded_allocs);
    set(hash, "dropped_allocs", counts.dropped_allocs);
    set(hash, "recorded_frees", counts.recorded_frees);
    set(hash, "implied_frees", counts.implied_frees);
    set(hash, "audited_frees", counts.audited_frees);
    set(hash, "audits", counts.audits);
    set(hash, "pending_frees", counts.pending_frees);
    set(hash, "newobj_calls", counts.newobj_calls);
    set(hash, "freeobj_calls", counts.freeobj_calls);
    set(hash, "stacks", r->stacks.node_count);
    set(hash, "sites", r->stacks.site_count);
    set(hash, "written_bytes", r->in_child ? 0 : atomic_load(&lf->written_bytes));
    set(hash, "sealed_blocks", r->in_child ? 0 : atomic_load(&lf->sealed_blocks));
    set(hash, "stalls", r->journal.stall_count);
    set(hash, "stall_ns", r->journal.stall_ns);
    set(hash, "writer_cpu_ns", r->in_child ? 0 : atomic_load(&lf->writer_cpu_ns));
    set(hash, "memory_bytes", mpp_memory_bytes());
    return hash;
}

void mpp_api_init(VALUE module)
{
    error_class = rb_define_class_under(module, "Error", rb_eStandardError);
    rb_define_singleton_method(module, "start", api_start, -1);
    rb_define_singleton_method(module, "stop", api_stop, 0);
    rb_define_singleton_method(module, "running?", api_running, 0);
    rb_define_singleton_method(module, "path", api_path, 0);
    rb_define_singleton_method(module, "mark", api_mark, -1);
    rb_define_singleton_method(module, "flush", api_flush, 0);
    rb_define_singleton_method(module, "stats", api_stats, 0);
    rb_define_singleton_method(module, "pause", api_pause, 0);
    rb_define_singleton_method(module, "resume", api_resume, 0);
    rb_define_singleton_method(module, "paused?", api_paused, 0);
    rb_define_singleton_method(module, "sample_rate", api_sample_rate, 0);
    rb_define_singleton_method(module, "sample_rate=", api_set_sample_rate, 1);
    rb_define_singleton_method(module, "label", api_label, 2);
}
