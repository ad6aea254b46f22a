/* Bare hooks: nothing is kept. Floor.start(:noop) counts births and deaths; Floor.start(:frames) also asks for the backtrace of each birth;
 * Floor.start(:births) leaves deaths alone (what a recorder would cost that learnt of them otherwise). */
#include <ruby.h>
#include <ruby/debug.h>

#define DEPTH 512

static unsigned long long births, deaths, depth_sum;
static VALUE frames[DEPTH];
static int lines[DEPTH];

static void count_birth(VALUE data, const rb_trace_arg_t *argument)
{
    births++;
}

static void capture_birth(VALUE data, const rb_trace_arg_t *argument)
{
    births++;
    depth_sum += (unsigned long long)rb_profile_frames(0, DEPTH, frames, lines);
}

static void count_death(VALUE data, const rb_trace_arg_t *argument)
{
    deaths++;
}

static void add(void (*hook)(VALUE, const rb_trace_arg_t *), rb_event_flag_t event)
{
    rb_add_event_hook2((rb_event_hook_func_t)hook, event, Qnil, RUBY_EVENT_HOOK_FLAG_SAFE | RUBY_EVENT_HOOK_FLAG_RAW_ARG);
}

static VALUE start(VALUE self, VALUE mode)
{
    add(mode == ID2SYM(rb_intern("frames")) ? capture_birth : count_birth, RUBY_INTERNAL_EVENT_NEWOBJ);
    if (mode != ID2SYM(rb_intern("births"))) add(count_death, RUBY_INTERNAL_EVENT_FREEOBJ);
    return Qnil;
}

static VALUE counts(VALUE self)
{
    return rb_ary_new_from_args(3, ULL2NUM(births), ULL2NUM(deaths), ULL2NUM(depth_sum));
}

void Init_floor(void)
{
    VALUE module = rb_define_module("Floor");

    rb_define_singleton_method(module, "start", start, 1);
    rb_define_singleton_method(module, "counts", counts, 0);
}
