/* Everything that differs between versions of Ruby stands here and in compat.c; no other file has an #if about Ruby.
 * The facts come from Ruby's sources, v3_1_0 to 4.1-dev. */
#ifndef MPP_RECORDER_COMPAT_H
#define MPP_RECORDER_COMPAT_H

#include <ruby.h>
#include <ruby/debug.h>
#include <stdint.h>

/* In no public header, but exported by every Ruby from 3.1 to 4.1-dev. */
size_t rb_obj_memsize_of(VALUE object);
void rb_objspace_each_objects(int (*callback)(void *start, void *end, size_t stride, void *data), void *data);

/* NULL, or why this Ruby cannot be recorded (static text). */
const char *mpp_compat_refusal(void);

/* Whether what Ractors free is hidden from hooks of the main one: everywhere but in 4.0. Below it hooks belong to a Ractor; from 4.1 on each Ractor
 * has a collector of its own, which tells nobody, and the main one's works while others allocate. */
int mpp_compat_ractors_lose_frees(void);

/* The heap's geometry: bytes of a page (a power of two), and the greatest number of bytes that the sizes of all slots are multiples of (up to 4.0
 * that is the smallest slot; 4.1-dev has slots of 32 and of 40 bytes). 0, or -1 when Ruby does not tell. Allocates: not in hooks. */
int mpp_compat_heap_geometry(uint32_t *page_bytes, uint32_t *slot_bytes);

/* The size of the slot that an object lives in. Safe in hooks. */
uint32_t mpp_compat_slot_bytes(VALUE object);

/* Of the flags of a T_OBJECT: whether its instance variables stand in its slot. When Ruby does not tell: no. */
static inline int mpp_compat_embeds_ivars(VALUE flags)
{
#if defined(HAVE_CONST_ROBJECT_EMBED)
    return (flags & ROBJECT_EMBED) != 0;
#elif defined(HAVE_CONST_ROBJECT_HEAP) /* 4.0 and later */
    return !(flags & ROBJECT_HEAP);
#else
    (void)flags;
    return 0;
#endif
}

/* Of the flags of any other object: whether it has instance variables, which stand elsewhere. From 4.0 on they are an object of their own. */
static inline int mpp_compat_has_ivars_elsewhere(VALUE flags)
{
#ifdef HAVE_CONST_RUBY_FL_EXIVAR
    return (flags & RUBY_FL_EXIVAR) != 0;
#else
    (void)flags;
    return 0;
#endif
}

/* A job that Ruby runs at its next safe point, with the VM's lock. Ready it before use; triggers of one job that come before it ran make one run.
 * Safe in hooks; not in signal handlers (3.1 and 3.2: a job registered there clobbers the VM's own, bugs.ruby-lang.org 19991). */
typedef void (*mpp_job_function)(void *);
int mpp_compat_job_ready(mpp_job_function function); /* a handle ≥ 0, or -1: the VM has no room for more jobs */
void mpp_compat_job_trigger(int handle);

#endif
