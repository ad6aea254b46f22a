#include "recorder.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* The last backtrace: the next one is the same more often than not. */
static VALUE *frames, *last_frames;
static int *lines, *last_lines;
static int last_depth; /* -1: none */
static uint32_t last_node;
static uint32_t depth_limit;

/* A cache from the hash of a backtrace (XXH3 over VALUEs and lines) to its node, so that no frame needs to be looked up. Chosen over comparing frame
 * by frame with the last backtrace and looking up those that differ by `make bench-hotpath`. An entry is 36 bits of the hash and 28 of the node's id,
 * eight of them a cache line, which is picked by other bits of the hash: small, since a program's own data wants the processor's cache as well. It is
 * emptied when a function dies or moves, since its VALUE may come back as another function's (on 3.1 one in six of eval'd methods did). */
#define WAYS          8u
#define FIRST_BUCKETS 1024u
#define MOST_BUCKETS  16384u
#define NODE_BITS     28
static uint64_t (*known)[WAYS]; /* 0: free */
static uint32_t buckets, known_count;
static int known_is_stale;
#define GUESS_COUNT 2048u
static uint32_t site_guesses[GUESS_COUNT]; /* ids */

static uintptr_t last_thread_value;
static uint32_t last_thread;
static VALUE last_class_value;
static uint32_t last_class;

int mpp_capture_init(uint32_t max_depth)
{
    depth_limit = max_depth;
    memset(site_guesses, 0, sizeof site_guesses);
    frames = calloc(max_depth + 1, sizeof *frames);
    last_frames = calloc(max_depth + 1, sizeof *last_frames);
    lines = calloc(max_depth + 1, sizeof *lines);
    last_lines = calloc(max_depth + 1, sizeof *last_lines);
    known = calloc(FIRST_BUCKETS, sizeof *known);
    buckets = FIRST_BUCKETS;
    known_count = 0;
    mpp_capture_forget();
    if (frames && last_frames && lines && last_lines && known) return 0;
    mpp_capture_release();
    return -1;
}

void mpp_capture_release(void)
{
    free(frames);
    free(last_frames);
    free(lines);
    free(last_lines);
    free(known);
    frames = last_frames = NULL;
    lines = last_lines = NULL;
    known = NULL;
}

size_t mpp_capture_memory_bytes(void)
{
    return buckets * sizeof *known + 2 * (depth_limit + 1) * (sizeof *frames + sizeof *lines);
}

void mpp_capture_forget(void)
{
    last_depth = -1;
    last_thread_value = 0;
    last_class_value = 0;
    known_is_stale = 1;
}

/* As mpp_capture_forget, for the death of a class or thread: backtraces hold neither. */
void mpp_capture_forget_owners(void)
{
    last_thread_value = 0;
    last_class_value = 0;
}

/* The node of the backtrace of this hash, or 0. */
static uint32_t known_node(uint64_t hash)
{
    const uint64_t *bucket = known[hash & (buckets - 1)];

    for (uint32_t way = 0; way < WAYS; way++) {
        if (bucket[way] >> NODE_BITS == hash >> NODE_BITS) return (uint32_t)(bucket[way] & MPP_MAX_ID);
    }
    return 0;
}

static void know_node(uint64_t hash, uint32_t node)
{
    uint64_t *bucket;
    uint32_t way = 0;

    /* More backtraces than half of it: twice the table. What was known is found again. */
    if (++known_count > buckets * WAYS / 2 && buckets < MOST_BUCKETS) {
        void *bigger = calloc(buckets * 2, sizeof *known);
        if (bigger) {
            free(known);
            known = bigger;
            buckets *= 2;
            known_count = 1;
        }
    }
    bucket = known[hash & (buckets - 1)];
    while (way < WAYS && bucket[way]) way++;
    bucket[way < WAYS ? way : (hash >> 20) % WAYS] = hash >> NODE_BITS << NODE_BITS | node;
}

/* Something of ours lives at `value`: its death must be noticed. 0 or -1. */
static int watch(VALUE value, uint64_t flag)
{
    struct mpp_slot_page *page;
    struct mpp_slot *slot = mpp_slots_for_new(&mpp_recorder.slots, (uintptr_t)value, &page);

    if (!slot) return -1;
    slot->word |= flag;
    return 0;
}

static uintptr_t text_key(VALUE text, uintptr_t seed)
{
    if (!RB_TYPE_P(text, T_STRING)) return seed;
    return (uintptr_t)XXH3_64bits_withSeed(RSTRING_PTR(text), (size_t)RSTRING_LEN(text), seed);
}

/* Functions of one place and label look the same, even if they are methods of several classes of which one has died. What is asked here only reads
 * (of functions written in C nothing can be asked that tells them apart). */
static uintptr_t function_key(VALUE frame)
{
    VALUE line = rb_profile_frame_first_lineno(frame);

    return FIXNUM_P(line) ? text_key(rb_profile_frame_path(frame), text_key(rb_profile_frame_label(frame), (uintptr_t)FIX2LONG(line))) : 0;
}

/* So do nameless classes of one superclass. rb_mod_name only reads. */
static uintptr_t class_key(VALUE klass)
{
    VALUE super = NIL_P(rb_mod_name(klass)) && RB_TYPE_P(klass, T_CLASS) ? rb_class_get_superclass(klass) : 0;

    super = super ? rb_class_real(super) : 0;
    return super ? text_key(rb_mod_name(super), 1) : 0;
}

static uint32_t identity(enum mpp_identity_kind kind, VALUE value, uint64_t flag)
{
    struct mpp_identity_table *table = &mpp_recorder.identities[kind];
    uint32_t id = mpp_idmap_get(&table->map, (uintptr_t)value);
    uintptr_t key;

    if (id) return id;
    if (watch(value, flag)) return 0;
    key = kind == MPP_FUNCTIONS ? function_key(value) : kind == MPP_CLASSES ? class_key(value) : 0;
    id = table->count >= MPP_IDS_OF_THEIR_OWN ? mpp_identity_share(table, (uintptr_t)value, key) : 0;
    if (id) return id;
    id = mpp_identity_add(table, (uintptr_t)value);
    if (!id) return 0;
    table->list[id].key = key;
    mpp_recorder.names_wanted = 1;
    mpp_compat_job_trigger(mpp_recorder.job);
    return id;
}

uint32_t mpp_capture_function(VALUE frame)
{
    return identity(MPP_FUNCTIONS, frame, MPP_SLOT_FUNCTION);
}

/* rb_class_real only reads: safe in hooks. */
uint32_t mpp_capture_class(VALUE klass)
{
    struct mpp_identity_table *table = &mpp_recorder.identities[MPP_CLASSES];
    VALUE real;
    uint32_t id;

    if (!klass) return 0;
    if (klass == last_class_value) return last_class;
    id = mpp_idmap_get(&table->map, (uintptr_t)klass);
    if (!id) {
        real = rb_class_real(klass);
        if (!real) return 0;
        id = identity(MPP_CLASSES, real, MPP_SLOT_CLASS);
        /* A singleton class leads to its class's id as long as it lives. */
        if (id && real != klass && !watch(klass, MPP_SLOT_CLASS) && mpp_idmap_put(&table->map, (uintptr_t)klass, id)) return id;
    }
    last_class_value = klass;
    last_class = id;
    return id;
}

uint32_t mpp_capture_class_of(VALUE object, VALUE klass, unsigned type)
{
    return type == T_CLASS && RB_FL_TEST_RAW(object, RUBY_FL_SINGLETON) ? MPP_CLASS_OF_SINGLETONS : mpp_capture_class(klass);
}

uint32_t mpp_capture_thread(void)
{
    const struct mpp_identity_table *threads = &mpp_recorder.identities[MPP_THREADS];
    VALUE thread = rb_thread_current();

    if ((uintptr_t)thread == last_thread_value) return last_thread;
    if (!thread || SPECIAL_CONST_P(thread)) return 0;
    if (threads->count > MPP_IDS_OF_THEIR_OWN && !mpp_idmap_get(&threads->map, (uintptr_t)thread))
        last_thread =
            MPP_THREAD_OTHERS; /* where each request has a thread of its own, their number has no end, and each would have sites of its own */
    else
        last_thread = identity(MPP_THREADS, thread, MPP_SLOT_THREAD);
    last_thread_value = last_thread ? (uintptr_t)thread : 0;
    return last_thread;
}

/* The child of `parent`, written to the log if new. 0: no room or no memory. */
static uint32_t child(uint32_t parent, uint32_t function, uint32_t line)
{
    struct mpp_stacks *s = &mpp_recorder.stacks;
    struct mpp_journal *j = &mpp_recorder.journal;
    int fresh;
    uint32_t id = mpp_stacks_child(s, parent, function, line, &fresh);

    if (fresh) {
        unsigned char *p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
        if (!p) {
            mpp_stacks_undo_node(s);
            return 0;
        }
        mpp_journal_commit(j, mpp_encode_stack(p, id, parent, function, line));
    }
    return id;
}

void mpp_capture_own_stack(void)
{
    mpp_recorder.own_stack = child(0, MPP_FUNCTION_RECORDER, 0);
}

/* The node of the first `depth` frames, under `node`, found frame by frame from the root; 0: no room or no memory. Frames come leaf first. */
static uint32_t walk_frames(uint32_t node, int depth)
{
    struct mpp_recorder *r = &mpp_recorder;

    for (int i = depth - 1; i >= 0; i--) {
        uint32_t function;
        if (r->stacks.node_count >= r->options.max_stacks) return child(0, MPP_FUNCTION_OVERFLOW, 0);
        function = mpp_capture_function(frames[i]);
        node = function ? child(node, function, lines[i] > 0 ? (uint32_t)lines[i] : 0) : 0;
        if (!node) return 0;
    }
    return node;
}

/* The node of the present backtrace, or -1. */
static int64_t current_stack(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    int depth, truncated;
    uint32_t node;
    uint64_t hash;

    if (r->own_work_thread && r->own_work_thread == (uintptr_t)rb_thread_current()) return r->own_stack;
    /* start is always 0: Ruby ignores it, or loops, up to 3.3. One frame more than wanted tells whether there are more. */
    depth = rb_profile_frames(0, (int)depth_limit + 1, frames, lines);
    if (depth == last_depth && lines[0] == last_lines[0] && !memcmp(frames, last_frames, (size_t)depth * sizeof *frames) &&
        !memcmp(lines, last_lines, (size_t)depth * sizeof *lines))
        return last_node;

    hash = XXH3_64bits_withSeed(lines, (size_t)depth * sizeof *lines, XXH3_64bits(frames, (size_t)depth * sizeof *frames));
    if (known_is_stale) {
        memset(known, 0, buckets * sizeof *known);
        known_count = 0;
        known_is_stale = 0;
    }
    node = known_node(hash);
    if (!node) {
        truncated = depth > (int)depth_limit;
        node = truncated ? child(0, MPP_FUNCTION_TRUNCATED, 0) : 0;
        if (truncated && !node) return -1;
        node = walk_frames(node, truncated ? (int)depth_limit : depth);
        if (!node && depth > 0) return -1;
        if (node) know_node(hash, node);
    }
    VALUE *swap_frames = frames;
    int *swap_lines = lines;
    frames = last_frames;
    lines = last_lines;
    last_frames = swap_frames;
    last_lines = swap_lines;
    last_depth = depth;
    last_node = node;
    return node;
}

static uint32_t intern_site(const struct mpp_site *site)
{
    struct mpp_stacks *s = &mpp_recorder.stacks;
    struct mpp_journal *j = &mpp_recorder.journal;
    uint32_t *guess = &site_guesses[(site->stack * 31u + site->class_id * 7u + site->type) % GUESS_COUNT], id = *guess;
    int fresh;

    /* A line allocates objects of several classes in turn: each has a guess of its own. Sites never end, so neither do the guesses. */
    if (id && !memcmp(&s->sites[id], site, sizeof *site)) return id;
    id = mpp_stacks_site(s, site, &fresh);
    *guess = id;
    if (fresh) {
        unsigned char *p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
        if (!p) {
            mpp_stacks_undo_site(s);
            *guess = 0;
            return 0;
        }
        mpp_journal_commit(j, mpp_encode_site(p, id, site->stack, site->class_id, site->type, site->thread, site->birth_bytes));
    }
    return id;
}

uint32_t mpp_capture_site(VALUE klass, unsigned type, uint32_t birth_bytes)
{
    struct mpp_site site;
    int64_t stack = current_stack();

    if (stack < 0) return 0;
    site = (struct mpp_site){(uint32_t)stack, mpp_capture_class(klass), mpp_capture_thread(), birth_bytes, type};
    return intern_site(&site);
}

uint32_t mpp_capture_site_before(VALUE object, VALUE klass, unsigned type, uint32_t birth_bytes)
{
    struct mpp_site site = {.birth_bytes = birth_bytes, .type = type};

    site.stack = object == mpp_anchor() ? mpp_recorder.own_stack : child(0, MPP_FUNCTION_BEFORE, 0);
    site.class_id = mpp_capture_class_of(object, klass, type);
    return site.stack ? intern_site(&site) : 0;
}

uint32_t mpp_capture_reclassed(uint32_t site, uint32_t class_id)
{
    struct mpp_site other = mpp_recorder.stacks.sites[site];

    other.class_id = class_id;
    return intern_site(&other);
}
