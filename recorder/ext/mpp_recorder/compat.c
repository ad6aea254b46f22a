#include "compat.h"

#include <string.h>

#ifdef HAVE_RB_GC_OBJ_SLOT_SIZE
size_t rb_gc_obj_slot_size(VALUE object);
#endif

static uint32_t smallest_slot_bytes = 40;

static VALUE constant_or_nil(VALUE hash, const char *name)
{
    return rb_hash_lookup2(hash, ID2SYM(rb_intern(name)), Qnil);
}

const char *mpp_compat_refusal(void)
{
    const char *version = StringValueCStr(*(VALUE[]){rb_const_get(rb_cObject, rb_intern("RUBY_VERSION"))});
    VALUE config;

    if (strcmp(StringValueCStr(*(VALUE[]){rb_const_get(rb_cObject, rb_intern("RUBY_ENGINE"))}), "ruby")) return "only MRI can be recorded";
    if (!strncmp(version, "2.", 2) || !strncmp(version, "3.0.", 4)) return "Ruby 3.1 or later is needed";
    /* bugs.ruby-lang.org 19482: classes allocated under the hook crash. */
    if (!strcmp(version, "3.2.0") || !strcmp(version, "3.2.1") || !strcmp(version, "3.2.2"))
        return "Ruby 3.2.0 to 3.2.2 crash under allocation hooks: use 3.2.3 or later";
    /* Another collector (3.4+): it frees on threads of its own, or does not tell. */
    if (rb_respond_to(rb_mGC, rb_intern("config"))) {
        config = rb_funcall(rb_mGC, rb_intern("config"), 0);
        if (RB_TYPE_P(config, T_HASH)) {
            VALUE name = constant_or_nil(config, "implementation");
            if (RB_TYPE_P(name, T_STRING) && strcmp(StringValueCStr(name), "default")) return "only Ruby's default garbage collector can be recorded";
        }
    }
    return NULL;
}

int mpp_compat_ractors_lose_frees(void)
{
    return strncmp(StringValueCStr(*(VALUE[]){rb_const_get(rb_cObject, rb_intern("RUBY_VERSION"))}), "4.0.", 4) != 0;
}

static uint32_t common_measure(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int add_slot_size(VALUE heap, VALUE figures, VALUE data)
{
    uint32_t *measure = (uint32_t *)data;
    VALUE bytes = RB_TYPE_P(figures, T_HASH) ? constant_or_nil(figures, "slot_size") : Qnil;

    (void)heap;
    if (FIXNUM_P(bytes)) *measure = common_measure(*measure, NUM2UINT(bytes));
    return ST_CONTINUE;
}

int mpp_compat_heap_geometry(uint32_t *page_bytes, uint32_t *slot_bytes)
{
    VALUE constants = rb_const_get(rb_mGC, rb_intern("INTERNAL_CONSTANTS")), page, slot, overhead, heaps = Qnil;

    if (!RB_TYPE_P(constants, T_HASH)) return -1;
    page = constant_or_nil(constants, "HEAP_PAGE_SIZE");
    slot = constant_or_nil(constants, "BASE_SLOT_SIZE"); /* 3.3 and later */
    if (NIL_P(slot)) slot = constant_or_nil(constants, "RVALUE_SIZE");
    overhead = constant_or_nil(constants, "RVALUE_OVERHEAD");
    if (!FIXNUM_P(page) || !FIXNUM_P(slot)) return -1;
    *page_bytes = NUM2UINT(page);
    *slot_bytes = NUM2UINT(slot) + (FIXNUM_P(overhead) ? NUM2UINT(overhead) : 0);
    smallest_slot_bytes = *slot_bytes;
    if (rb_respond_to(rb_mGC, rb_intern("stat_heap"))) heaps = rb_funcall(rb_mGC, rb_intern("stat_heap"), 0); /* 3.2 and later */
    if (RB_TYPE_P(heaps, T_HASH)) rb_hash_foreach(heaps, add_slot_size, (VALUE)slot_bytes);
    return 0;
}

uint32_t mpp_compat_slot_bytes(VALUE object)
{
#ifdef HAVE_RB_GC_OBJ_SLOT_SIZE
    return (uint32_t)rb_gc_obj_slot_size(object);
#else
    (void)object; /* 3.1: all slots are of one size */
    return smallest_slot_bytes;
#endif
}

#define JOBS_MAX 4
static mpp_job_function jobs[JOBS_MAX];
static int job_count;

#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
static rb_postponed_job_handle_t handles[JOBS_MAX];
#endif

int mpp_compat_job_ready(mpp_job_function function)
{
    for (int i = 0; i < job_count; i++) {
        if (jobs[i] == function) return i;
    }
    if (job_count == JOBS_MAX) return -1;
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
    handles[job_count] = rb_postponed_job_preregister(0, function, NULL);
    if (handles[job_count] == POSTPONED_JOB_HANDLE_INVALID) return -1;
#endif
    jobs[job_count] = function;
    return job_count++;
}

void mpp_compat_job_trigger(int handle)
{
#ifdef HAVE_RB_POSTPONED_JOB_PREREGISTER
    rb_postponed_job_trigger(handles[handle]);
#else
    rb_postponed_job_register_one(0, jobs[handle], NULL);
#endif
}
