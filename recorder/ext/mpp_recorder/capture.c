#include "recorder.h"

#include <stdlib.h>
#include <string.h>

/* The last backtrace, and its nodes by depth from the root: what the next one is compared with. */
static VALUE *frames, *last_frames;
static int *lines, *last_lines;
static uint32_t *nodes; /* nodes[i] = node of the frame i + 1 from the root */
static int last_depth;  /* how many of last_frames and nodes hold */
static uint32_t depth_limit;

/* Guesses of a frame's node: one look in a table that stays in cache, instead of one for the function and one for the node. A guess holds as long as
 * its epoch does, which ends when a function dies or moves, since its VALUE may come back as another function's (on 3.1 one in six of eval'd methods
 * did). */
#define GUESS_COUNT 2048u
struct guess {
    VALUE frame;
    uint32_t parent, line, node, epoch;
};
static struct guess guesses[GUESS_COUNT];
static uint32_t epoch = 1;
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
    nodes = calloc(max_depth + 2, sizeof *nodes);
    mpp_capture_forget();
    if (frames && last_frames && lines && last_lines && nodes) return 0;
    mpp_capture_release();
    return -1;
}

void mpp_capture_release(void)
{
    free(frames);
    free(last_frames);
    free(lines);
    free(last_lines);
    free(nodes);
    frames = last_frames = NULL;
    lines = last_lines = NULL;
    nodes = NULL;
}

void mpp_capture_forget(void)
{
    last_depth = 0;
    last_thread_value = 0;
    last_class_value = 0;
    epoch++;
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

static uint32_t identity(enum mpp_identity_kind kind, VALUE value, uint64_t flag)
{
    struct mpp_identity_table *table = &mpp_recorder.identities[kind];
    uint32_t id = mpp_idmap_get(&table->map, (uintptr_t)value);

    if (id) return id;
    if (watch(value, flag)) return 0;
    id = mpp_identity_add(table, (uintptr_t)value);
    if (!id) return 0;
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

uint32_t mpp_capture_thread(void)
{
    VALUE thread = rb_thread_current();

    if ((uintptr_t)thread == last_thread_value) return last_thread;
    if (!thread || SPECIAL_CONST_P(thread)) return 0;
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

/* How many frames, counted from the root, the backtrace of `depth` frames shares with the last one. Frames come leaf first: the roots stand at the
 * ends. */
static int same_from_root(int depth)
{
    const VALUE *f = frames + depth, *lf = last_frames + last_depth;
    const int *l = lines + depth, *ll = last_lines + last_depth;
    int limit = depth < last_depth ? depth : last_depth, same = 0;

    /* Four at a time: backtraces are deep, and mostly the same. */
    while (limit - same >= 4 && !memcmp(f - same - 4, lf - same - 4, 4 * sizeof *f) && !memcmp(l - same - 4, ll - same - 4, 4 * sizeof *l)) same += 4;
    while (same < limit && f[-1 - same] == lf[-1 - same] && l[-1 - same] == ll[-1 - same]) same++;
    return same;
}

/* The node of the present backtrace, or -1. */
static int64_t current_stack(void)
{
    struct mpp_recorder *r = &mpp_recorder;
    int depth, same, truncated;
    uint32_t node;

    if (r->own_work_thread && r->own_work_thread == (uintptr_t)rb_thread_current()) return r->own_stack;
    /* start is always 0: Ruby ignores it, or loops, up to 3.3. One frame more than wanted tells whether there are more. */
    depth = rb_profile_frames(0, (int)depth_limit + 1, frames, lines);
    truncated = depth > (int)depth_limit;
    if (truncated) {
        depth = (int)depth_limit;
        node = child(0, MPP_FUNCTION_TRUNCATED, 0);
        if (!node) return -1;
        last_depth = 0; /* the kept frames hang from another root */
    } else {
        node = 0;
    }

    same = same_from_root(depth);
    if (same) node = nodes[same - 1];
    for (int i = same; i < depth; i++) {
        uint32_t function;
        VALUE frame = frames[depth - 1 - i];
        int line = lines[depth - 1 - i];
        if (r->stacks.node_count >= r->options.max_stacks) {
            node = child(0, MPP_FUNCTION_OVERFLOW, 0);
            last_depth = 0;
            return node ? (int64_t)node : -1;
        }
        struct guess *guess = &guesses[((frame >> 3) + node * 31u + (uint32_t)line * 7u) % GUESS_COUNT];
        if (guess->frame == frame && guess->parent == node && guess->line == (uint32_t)line && guess->epoch == epoch) {
            nodes[i] = node = guess->node;
            continue;
        }
        *guess = (struct guess){.frame = frame, .parent = node, .line = (uint32_t)line};
        function = mpp_capture_function(frame);
        node = function ? child(node, function, line > 0 ? (uint32_t)line : 0) : 0;
        guess->node = node;
        guess->epoch = node ? epoch : 0;
        if (!node) {
            last_depth = 0;
            return -1;
        }
        nodes[i] = node;
    }
    if (truncated) {
        last_depth = 0;
        return node;
    }
    VALUE *swap_frames = frames;
    int *swap_lines = lines;
    frames = last_frames;
    lines = last_lines;
    last_frames = swap_frames;
    last_lines = swap_lines;
    last_depth = depth;
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
    site.class_id = type == T_CLASS && RB_FL_TEST_RAW(object, RUBY_FL_SINGLETON) ? MPP_CLASS_OF_SINGLETONS : mpp_capture_class(klass);
    return site.stack ? intern_site(&site) : 0;
}

uint32_t mpp_capture_reclassed(uint32_t site, uint32_t class_id)
{
    struct mpp_site other = mpp_recorder.stacks.sites[site];

    other.class_id = class_id;
    return intern_site(&other);
}
