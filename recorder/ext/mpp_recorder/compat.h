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

/* Whether what Ractors free is hidden from hooks of the main one: below 4.0. */
int mpp_compat_ractors_lose_frees(void);

/* The heap's geometry, from GC::INTERNAL_CONSTANTS: bytes of a page (a power of two) and of the smallest slot. 0, or -1 when Ruby does not tell.
 * Allocates: not in hooks. */
int mpp_compat_heap_geometry(uint32_t *page_bytes, uint32_t *slot_bytes);

/* The size of the slot that an object lives in. Safe in hooks. */
uint32_t mpp_compat_slot_bytes(VALUE object);

/* A job that Ruby runs at its next safe point, with the VM's lock. Ready it before use; triggers of one job that come before it ran make one run.
 * Safe in hooks; not in signal handlers (3.1 and 3.2: a job registered there clobbers the VM's own, bugs.ruby-lang.org 19991). */
typedef void (*mpp_job_function)(void *);
int mpp_compat_job_ready(mpp_job_function function); /* a handle ≥ 0, or -1: the VM has no room for more jobs */
void mpp_compat_job_trigger(int handle);

#endif
