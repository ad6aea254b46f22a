/* The recorder of one process: its state, and what its rooms ask of each other.
 *
 *   hooks.c      what Ruby tells us: births, deaths, collections → records
 *   capture.c    backtrace, class and thread of a birth → site
 *   sizing.c     sizes of the living, at safe points
 *   names.c      names of functions, classes and threads, at safe points
 *   lifecycle.c  start, stop, fork; definitions.c the definitions written anew at the end
 *   api.c        the Ruby methods; the only file that raises
 *
 * All of it runs with the VM's lock held; only log_file.c's thread does not. What hooks may not do: call Ruby that allocates, raises or releases the
 * lock; use Ruby's allocator; wait long. */
#ifndef MPP_RECORDER_RECORDER_H
#define MPP_RECORDER_RECORDER_H

#include "compat.h"
#include "identities.h"
#include "journal.h"
#include "log_file.h"
#include "slots.h"
#include "stacks.h"

void mpp_api_init(VALUE module); /* api.c */

#define MPP_DEPTH_LIMIT      4096u
#define MPP_FIGURES_EVERY_NS 100000000u /* the writer samples them every second */

/* Functions and a thread that no object stands behind: ids given at start. */
enum { MPP_FUNCTION_RECORDER = 1, MPP_FUNCTION_TRUNCATED = 2, MPP_FUNCTION_OVERFLOW = 3, MPP_FUNCTION_BEFORE = 4 };

/* A class of ours: that an object is a singleton class is known only after its birth. */
enum { MPP_CLASS_OF_SINGLETONS = 1 };

/* So many functions, classes and threads have ids of their own in any case. Of those that come later, functions and nameless classes share the id of
 * a dead one that looks the same, and all threads one id: or programs that make them without end would make our tables grow without end. */
#define MPP_IDS_OF_THEIR_OWN 1024u
enum { MPP_THREAD_OTHERS = 1 };

struct mpp_options {
    char path[PATH_MAX];
    enum mpp_on_exists on_exists;
    uint64_t period; /* 1 = every allocation */
    uint32_t max_depth;
    uint32_t max_stacks;          /* nodes; beyond them a frame is [too many stacks] */
    uint64_t max_tracked_objects; /* 0 = no limit */
    uint64_t journal_bytes;       /* 0 = choose */
    uint64_t max_log_bytes;       /* 0 = no limit; beyond it the recording ends cleanly */
    uint64_t mark_at_rss_bytes;   /* 0 = never; a mark is set when the process first holds so much */
    uint64_t seed;                /* of the sampling's choices; 0 = by chance */
    int baseline;                 /* what lives at the start is live in the log */
};

struct mpp_counts {
    uint64_t recorded_allocs, dropped_allocs, recorded_frees, implied_frees, freeobj_calls, newobj_calls, audited_frees, audits;
    uint64_t unreported_drops[4]; /* by enum mpp_drop_reason: not yet in a DROP record */
    uint64_t pending_frees;       /* slots with MPP_SLOT_PENDING_FREE, and homeless frees */
};

/* Deaths that found no room, and whose slots have become others' since. */
struct mpp_homeless_frees {
    uint64_t *serials;
    size_t count, capacity;
};

struct mpp_recorder {
    int running;  /* hooks are on, and a log (or, in a forked child, memory for one) takes the records */
    int paused;   /* births are not recorded */
    int in_child; /* forked, and no file made yet */
    long pid;
    struct mpp_options options;
    struct mpp_log_info info;
    struct mpp_journal journal;
    struct mpp_journal_memory memory;
    struct mpp_log_file file;
    struct mpp_slots slots;
    struct mpp_stacks stacks;
    struct mpp_strings strings;
    struct mpp_identity_table identities[MPP_IDENTITY_KINDS];
    struct mpp_counts counts;
    struct mpp_homeless_frees homeless_frees;
    int gap_wanted; /* a free was lost for want of memory: what lives is unknown */

    uint64_t skip;   /* allocations not to be sampled before the next one (period > 1) */
    uint64_t random; /* state of the sampling */

    uintptr_t own_work_thread; /* while the recorder itself works in Ruby: its thread's VALUE, else 0 */
    uint32_t own_stack;        /* the backtrace [mpp_recorder] */

    int names_wanted, sizing_wanted, audit_wanted, detach_wanted; /* for the job */
    int job;                                                      /* handle */
    uint64_t next_full_sizing_ns;                                 /* not before it */
    uint64_t next_slice_ns, next_figures_ns;

    uint64_t gc_count;             /* GCs that have started */
    int sweeping;                  /* between GC_START and END_SWEEP */
    uint64_t serial_at_gc_start;   /* objects below it that live have survived a GC */
    uint64_t total_freed_at_start; /* GC.stat(:total_freed_objects) when the hooks went on */
    uint64_t lost_frees_known;     /* frees that no hook call told of, up to the last audit */
};

extern struct mpp_recorder mpp_recorder;

/* ---- hooks.c ---- */
void mpp_hooks_prepare(void); /* before a baseline: allocates */
void mpp_hooks_attach(void);
void mpp_hooks_detach(void);
/* Births are no longer recorded; deaths still are, so what is live stays true. Resume ends it. */
void mpp_hooks_pause(void);
void mpp_hooks_resume(void);
/* From here on one birth in `period` is recorded. 0, or -1: no room in the journal. */
int mpp_hooks_set_period(uint64_t period);
/* The object of this slot is dead: writes its FREE (of size_bytes, or UINT64_MAX = as recorded) and clears the slot (0), or leaves the slot pending
 * (-1). */
int mpp_write_free(struct mpp_slot_page *page, struct mpp_slot *slot, uint64_t size_bytes);
/* An entry of the table has died unnoticed, or is lost: writes its FREE. */
void mpp_write_gone(const struct mpp_slot *slot);
/* A function, class or thread of ours (MPP_SLOT_IDENTITY) died with its slot. */
void mpp_forget_identity(uintptr_t address, struct mpp_slot *slot);
/* Writes what back-pressure held up: DROP records and pending frees. */
void mpp_write_held_up(void);
int mpp_is_held_up(void); /* whether there is any of it */

/* ---- capture.c ---- */
int mpp_capture_init(uint32_t max_depth);
void mpp_capture_release(void);
size_t mpp_capture_memory_bytes(void);
void mpp_capture_forget(void);        /* VALUEs that the last backtrace held may be dead or moved */
void mpp_capture_forget_owners(void); /* a class or thread has died */
/* The site of an object that is being born here; 0 = no memory, or no room in the journal for its definition. */
uint32_t mpp_capture_site(VALUE klass, unsigned type, uint32_t birth_bytes);
/* The site that is like `site` but of another class. Same failures. */
uint32_t mpp_capture_reclassed(uint32_t site, uint32_t class_id);
/* The id of the class (of the real class, for singletons); 0 = none. */
uint32_t mpp_capture_class(VALUE klass);
/* The same for an object that is whole: of singleton classes it is MPP_CLASS_OF_SINGLETONS. */
uint32_t mpp_capture_class_of(VALUE object, VALUE klass, unsigned type);
uint32_t mpp_capture_function(VALUE frame);
/* The site of an object that was born before the recording. */
uint32_t mpp_capture_site_before(VALUE object, VALUE klass, unsigned type, uint32_t birth_bytes);
uint32_t mpp_capture_thread(void); /* the present thread's id; 0 = none */
void mpp_capture_own_stack(void);  /* makes own_stack */

/* ---- names.c ---- */
void mpp_names_resolve(void); /* at a safe point: allocates */
void mpp_names_resolve_anonymous(void);
/* The id of a text, written to the log if new. 0: no room or no memory; try later. */
uint32_t mpp_names_string(const char *text, size_t bytes);
void mpp_names_mark(void); /* from the GC: keeps alive what has no name yet */

/* ---- sizing.c ---- */
enum mpp_sizing { MPP_SIZE_NONE, MPP_SIZE_NEW, MPP_SIZE_ALL };
void mpp_sizing_begin(enum mpp_sizing what);
/* At a safe point; up to `limit_ns` (0 = all). Returns 1 when done. */
int mpp_sizing_slice(uint64_t limit_ns);
/* Not in slices: what was never measured, or all that lives, but no longer than about `limit_ns`. Never in a hook. */
void mpp_sizing_now(enum mpp_sizing what, enum mpp_patience patience, uint64_t limit_ns);
/* The size of an object that dies here, where its type's memsize reads only its own memory; UINT64_MAX = as recorded. For the FREEOBJ hook. */
uint64_t mpp_size_at_death(VALUE object, const struct mpp_slot *slot);
int mpp_size_may_grow(unsigned type);
/* Whether more can be told of an object of this type later: its size, or what kind of class it is. */
int mpp_size_is_provisional(unsigned type);

/* ---- baseline.c ---- */
/* Gives everything that lives now a serial below the first birth's, and writes it as LIVE. Before the hooks go on. 0, or -1: no room or no memory. */
int mpp_baseline(void);
/* How many serials it may need. */
uint64_t mpp_baseline_room(void);

/* ---- ractors.c ---- */
int mpp_ractors_run(void);    /* whether more than the main one does, on a Ruby where that matters */
void mpp_ractors_watch(void); /* from now on, Ractor.new ends the recording first */

/* ---- audit.c ---- */
void mpp_audit(void); /* at a safe point: finds the dead that no FREEOBJ told of */

/* ---- definitions.c ---- */
/* Gives all definitions as payloads to `emit` (0 or errno); stops at the first error. */
int mpp_definitions_write(int (*emit)(struct mpp_log_file *, const void *, size_t), struct mpp_log_file *file);

/* ---- lifecycle.c ---- */
/* 0, or errno with *why a static text (NULL: strerror says it all). */
int mpp_start(const struct mpp_options *options, const char **why);
/* Ends the recording cleanly. 0 or errno. */
int mpp_stop(void);
/* Everything recorded so far is in sealed blocks after both; the second waits for the disk and needs no VM's lock. 0 or errno. */
int mpp_flush_begin(void);
int mpp_flush_end(void);
/* The present thread's label from here on; value NULL ends it. 0 or an errno. */
int mpp_label(const char *key, size_t key_bytes, const char *value, size_t value_bytes);
/* 0 or an errno. How long it may wait for room is for the caller to say: at a safe point no longer than a hook. */
int mpp_mark(const char *name, size_t bytes, int measure, enum mpp_patience patience);
void mpp_work_at_safe_point(void); /* what hooks asked for */
/* The child's first half is full, or it has lived for a while, or it exits: make its log. 0 or errno. */
int mpp_child_log(void);
/* Whether a forked child without a log has lived for so long that it will hardly exec any more. */
int mpp_child_log_is_due(void);
void mpp_refresh_figures(void);
uint64_t mpp_memory_bytes(void);
VALUE mpp_anchor(void);        /* the object whose memsize is our memory: our own, though it was there before the recording */
void mpp_lifecycle_init(void); /* once: anchor object, job, fork and exit handlers */

/* Types of which no object is ever seen by Ruby code. The klass field of T_IMEMO and T_NODE is no class but data of their own (gc.c rb_imemo_new,
 * 3.1); that of a T_ICLASS is a module later on. */
static inline int mpp_is_internal(unsigned type)
{
    return type == T_IMEMO || type == T_NODE || type == T_ICLASS;
}

/* While the recorder works in Ruby, its own allocations are told apart. Nests. */
static inline uintptr_t mpp_own_work_begin(void)
{
    uintptr_t before = mpp_recorder.own_work_thread;

    mpp_recorder.own_work_thread = (uintptr_t)rb_thread_current();
    return before;
}

static inline void mpp_own_work_end(uintptr_t before)
{
    mpp_recorder.own_work_thread = before;
}

#endif
