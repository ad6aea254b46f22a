/* Ractors below Ruby 4.0: what a Ractor frees, no hook of the main one is told (and when a Ractor is collected, all hooks stop: bugs.ruby-lang.org
 * 19112); before 3.1.4, making one crashes under a NEWOBJ hook (18464). So the first Ractor ends the recording, cleanly and before it starts. */
#include "recorder.h"

static VALUE new_ractor(int argc, VALUE *argv, VALUE self)
{
    (void)self;
    if (mpp_recorder.running) {
        (void)mpp_stop();
        mpp_warn("recording ends here: a Ractor starts, and this Ruby hides from us what Ractors free");
    }
    return rb_call_super_kw(argc, argv, rb_keyword_given_p());
}

int mpp_ractors_run(void)
{
    VALUE ractor;

    if (!mpp_compat_ractors_lose_frees() || !rb_const_defined(rb_cObject, rb_intern("Ractor"))) return 0;
    ractor = rb_const_get(rb_cObject, rb_intern("Ractor"));
    return NUM2INT(rb_funcall(ractor, rb_intern("count"), 0)) > 1;
}

void mpp_ractors_watch(void)
{
    static int watched;
    VALUE module;

    if (watched || !mpp_compat_ractors_lose_frees() || !rb_const_defined(rb_cObject, rb_intern("Ractor"))) return;
    watched = 1;
    module = rb_module_new();
    rb_define_method(module, "new", new_ractor, -1);
    rb_prepend_module(rb_singleton_class(rb_const_get(rb_cObject, rb_intern("Ractor"))), module);
}
