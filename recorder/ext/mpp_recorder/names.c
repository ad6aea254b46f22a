/* Names of functions, classes and threads. They can only be asked at a safe point, since the answers are Ruby strings; until then their objects are
 * kept alive (mpp_names_mark), and their frames print as [unresolved]. */
#include "recorder.h"

#include <stdio.h>
#include <string.h>

/* Text without addresses: they mean nothing outside the process, and would make two logs differ that are alike. "#<Class:0x00007f…>#x" becomes
 * "#<Class>#x". */
static size_t without_addresses(char *out, size_t room, const char *text, size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes && n < room; i++) {
        if (text[i] == ':' && i + 8 < bytes && text[i + 1] == '0' && text[i + 2] == 'x' && strspn(text + i + 3, "0123456789abcdef") >= 6) {
            i += 2 + strspn(text + i + 3, "0123456789abcdef");
            continue;
        }
        out[n++] = text[i];
    }
    return n;
}

uint32_t mpp_names_string(const char *text, size_t bytes)
{
    struct mpp_recorder *r = &mpp_recorder;
    size_t limit = mpp_journal_max_text_bytes(&r->journal);
    unsigned char *p;
    uint32_t id;
    int fresh;

    if (bytes > limit) bytes = limit;
    p = mpp_journal_room(&r->journal, bytes + MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT);
    if (!p) return 0;
    id = mpp_strings_intern(&r->strings, text, bytes, &fresh);
    if (id && fresh) mpp_journal_commit(&r->journal, mpp_encode_string(p, id, text, bytes));
    return id;
}

static uint32_t ruby_string_id(VALUE string)
{
    static char clean[65536];

    if (!RB_TYPE_P(string, T_STRING)) return mpp_names_string("", 0);
    return mpp_names_string(clean, without_addresses(clean, sizeof clean, RSTRING_PTR(string), (size_t)RSTRING_LEN(string)));
}

/* Each of these asks Ruby first, and then writes; 0, or -1: no room, try later. */

static int name_function(uint32_t id)
{
    struct mpp_recorder *r = &mpp_recorder;
    VALUE frame = (VALUE)r->identities[MPP_FUNCTIONS].list[id].value;
    VALUE label = rb_profile_frame_full_label(frame), path = rb_profile_frame_absolute_path(frame), line;
    uint32_t label_id, path_id, flags, first_line;
    unsigned char *p;
    struct mpp_identity *identity;

    if (NIL_P(path)) path = rb_profile_frame_path(frame);
    line = rb_profile_frame_first_lineno(frame);
    /* Functions written in C have neither iseq nor line. */
    flags = NIL_P(line) ? MPP_FUNCTION_NATIVE : 0;
    first_line = FIXNUM_P(line) && FIX2LONG(line) > 0 ? (uint32_t)FIX2LONG(line) : 0;
    label_id = ruby_string_id(label);
    path_id = label_id ? ruby_string_id(path) : 0;
    p = path_id ? mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT) : NULL;
    if (!p) return -1;
    mpp_journal_commit(&r->journal, mpp_encode_function_name(p, id, label_id, path_id, first_line, flags));
    identity = &r->identities[MPP_FUNCTIONS].list[id];
    identity->name = label_id;
    identity->path = path_id;
    identity->first_line = first_line;
    identity->flags = (uint8_t)flags;
    identity->named = 1;
    return 0;
}

static int put_class_name(uint32_t id, uint32_t name, uint32_t flags)
{
    struct mpp_recorder *r = &mpp_recorder;
    struct mpp_identity *identity = &r->identities[MPP_CLASSES].list[id];
    unsigned char *p;

    if (identity->named && identity->name == name) return 0;
    p = name ? mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT) : NULL;
    if (!p) return -1;
    mpp_journal_commit(&r->journal, mpp_encode_class_name(p, id, name, flags));
    identity->name = name;
    identity->flags = (uint8_t)flags;
    identity->named = 1;
    if (!(flags & MPP_CLASS_ANONYMOUS)) identity->key = 0; /* no other class is to have its name */
    return 0;
}

static int name_class(uint32_t id)
{
    VALUE klass = (VALUE)mpp_recorder.identities[MPP_CLASSES].list[id].value, name, super;
    char text[512];
    int length;

    /* rb_mod_name, never .name, which programs redefine. */
    name = rb_mod_name(klass);
    if (RB_TYPE_P(name, T_STRING)) return put_class_name(id, ruby_string_id(name), 0);
    if (RB_TYPE_P(klass, T_MODULE)) {
        length = snprintf(text, sizeof text, "(anonymous module)");
    } else {
        super = rb_class_real(rb_class_get_superclass(klass));
        name = super ? rb_mod_name(super) : Qnil;
        if (RB_TYPE_P(name, T_STRING))
            length = snprintf(text, sizeof text, "(anonymous %.*s)", (int)(RSTRING_LEN(name) < 400 ? RSTRING_LEN(name) : 400), RSTRING_PTR(name));
        else
            length = snprintf(text, sizeof text, "(anonymous class)");
    }
    return put_class_name(id, mpp_names_string(text, (size_t)length), MPP_CLASS_ANONYMOUS);
}

static int name_thread(uint32_t id)
{
    struct mpp_recorder *r = &mpp_recorder;
    VALUE thread = (VALUE)r->identities[MPP_THREADS].list[id].value, name;
    char text[64];
    uint32_t string;
    unsigned char *p;

    /* Thread#name itself, whatever a subclass made of it. */
    name = rb_funcall(rb_funcall(rb_cThread, rb_intern("instance_method"), 1, ID2SYM(rb_intern("name"))), rb_intern("bind_call"), 1, thread);
    if (!r->running) return -1; /* another thread has run, and stopped the recording */
    if (RB_TYPE_P(name, T_STRING)) {
        string = ruby_string_id(name);
    } else {
        int length = thread == rb_thread_main() ? snprintf(text, sizeof text, "main")
                                                : snprintf(text, sizeof text, "thread %u", (unsigned)id - MPP_THREAD_OTHERS);
        string = mpp_names_string(text, (size_t)length);
    }
    if (r->identities[MPP_THREADS].list[id].named && r->identities[MPP_THREADS].list[id].name == string) return 0;
    p = string ? mpp_journal_room(&r->journal, MPP_RECORD_MAX_BYTES, MPP_HOOK_WAIT) : NULL;
    if (!p) return -1;
    mpp_journal_commit(&r->journal, mpp_encode_2(p, MPP_THREAD_NAME, id, string));
    r->identities[MPP_THREADS].list[id].name = string;
    r->identities[MPP_THREADS].list[id].named = 1;
    return 0;
}

static int (*const name_one[MPP_IDENTITY_KINDS])(uint32_t) = {name_function, name_class, name_thread};

static void resolve(int again)
{
    struct mpp_recorder *r = &mpp_recorder;

    for (int kind = 0; kind < MPP_IDENTITY_KINDS; kind++) {
        struct mpp_identity_table *t = &r->identities[kind];
        /* Asking allocates, so the table may grow (and move) under way. */
        for (uint32_t id = again ? 1 : t->first_unnamed; id <= t->count; id++) {
            int wanted = t->list[id].value && (!t->list[id].named || (again && (kind == MPP_THREADS || (t->list[id].flags & MPP_CLASS_ANONYMOUS))));
            if (again && kind == MPP_FUNCTIONS) wanted = t->list[id].value && !t->list[id].named;
            if (wanted && name_one[kind](id)) {
                r->names_wanted = 1;
                break;
            }
            if (id == t->first_unnamed) t->first_unnamed = id + 1;
        }
    }
}

static VALUE resolve_protected(VALUE data)
{
    resolve((int)data);
    return Qnil;
}

static void resolve_guarded(int again)
{
    struct mpp_recorder *r = &mpp_recorder;
    uintptr_t before = mpp_own_work_begin();
    VALUE errinfo = rb_errinfo();
    int state = 0;

    r->names_wanted = 0;
    rb_protect(resolve_protected, (VALUE)again, &state);
    if (state) rb_set_errinfo(errinfo);
    mpp_own_work_end(before);
}

void mpp_names_resolve(void)
{
    resolve_guarded(0);
}

void mpp_names_resolve_anonymous(void)
{
    resolve_guarded(1);
}

void mpp_names_mark(void)
{
    for (int kind = 0; kind < MPP_IDENTITY_KINDS; kind++) {
        const struct mpp_identity_table *t = &mpp_recorder.identities[kind];
        /* Pinned: their VALUE is about to be used. */
        for (uint32_t id = t->first_unnamed; t->list && id <= t->count; id++) {
            if (t->list[id].value && !t->list[id].named) rb_gc_mark((VALUE)t->list[id].value);
        }
    }
}
