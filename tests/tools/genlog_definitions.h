/* Random strings, functions, stacks, classes, threads and sites. Part of genlog.c. */
#ifndef GENLOG_DEFINITIONS_H
#define GENLOG_DEFINITIONS_H

#include "genlog_core.h"

/* Ends a definition: into the block, and kept for the trailer. */
static void end_definition(struct gen *g, const unsigned char *start, const unsigned char *p)
{
    size_t bytes = (size_t)(p - start);

    end(g, p);
    make_room(&g->definitions, bytes);
    memcpy(g->definitions.data + g->definitions.bytes, start, bytes);
    g->definitions.bytes += bytes;
}

static uint32_t define_string(struct gen *g, const char *text, size_t bytes)
{
    unsigned char *p = begin(g, bytes);

    end_definition(g, p, mpp_encode_string(p, ++g->strings, text, bytes));
    return g->strings;
}

static uint32_t define_text(struct gen *g, const char *text)
{
    return define_string(g, text, strlen(text));
}

static uint32_t random_name(struct gen *g, const char *stem)
{
    static const char *const odd[] = {"caf\xc3\xa9", "\xff\xfe broken", "",     "a;b c\td\"\\",     "\xf0\x9f\x92\x8e", "\xed\xa0\x80",
                                      "e\xcc\x81",   "new\nline\x01",   "\xc3", "\xe2\x80\xaeright"};
    char text[96];

    if (one_in(g, 12)) return define_text(g, odd[below(g, sizeof(odd) / sizeof(odd[0]))]);
    if (g->is_hostile && one_in(g, 30)) return UNDEFINED_ID + id_below(g, 100);
    snprintf(text, sizeof(text), "%s%" PRIu64, stem, below(g, 40));
    return define_text(g, text);
}

static void name_function(struct gen *g, uint32_t id)
{
    char path[64];
    static const char *const roots[] = {"/app/lib/file", "/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack/part", "/usr/lib/ruby/3.1.0/json/x"};
    uint32_t flags = one_in(g, 4) ? MPP_FUNCTION_NATIVE : 0, label, path_id;

    snprintf(path, sizeof(path), "%s%" PRIu64 ".rb", roots[below(g, 3)], below(g, 20));
    if (one_in(g, 40)) {
        label = define_text(g, one_in(g, 2) ? "[truncated]" : "[mpp_recorder]");
        path_id = 0;
        flags = MPP_FUNCTION_REMARK;
    } else {
        label = random_name(g, "Klass#method");
        path_id = define_text(g, path);
    }
    unsigned char *p = begin(g, 0);
    end_definition(g, p, mpp_encode_function_name(p, id, label, path_id, id_below(g, 300), flags));
}

static uint32_t some_function(struct gen *g)
{
    if (g->functions < 3 || one_in(g, 4)) {
        g->functions++;
        if (!one_in(g, 20)) name_function(g, g->functions);
        return g->functions;
    }
    return 1 + id_below(g, g->functions);
}

static uint32_t some_stack(struct gen *g)
{
    uint32_t depth = one_in(g, 100) ? 300 + id_below(g, 1700) : id_below(g, 24);
    uint32_t at = g->stacks ? id_below(g, g->stacks + 1) : 0;

    if (one_in(g, 30)) return 0;
    while (depth--) {
        uint32_t function = depth > 30 ? 1 : some_function(g), line = one_in(g, 20) ? 0 : id_below(g, 500);
        unsigned char *p = begin(g, 0);
        end_definition(g, p, mpp_encode_stack(p, ++g->stacks, at, function, line));
        at = g->stacks;
    }
    return at;
}

static void name_class(struct gen *g, uint32_t id)
{
    uint32_t string = random_name(g, "Module::Class");
    unsigned char *p = begin(g, 0);

    end_definition(g, p, mpp_encode_class_name(p, id, string, id_below(g, 4)));
}

static uint32_t some_class(struct gen *g)
{
    if (one_in(g, 6)) return 0;
    if (g->classes < 2 || one_in(g, 6)) {
        g->classes++;
        if (!one_in(g, 10)) name_class(g, g->classes);
        return g->classes;
    }
    return 1 + id_below(g, g->classes);
}

static void name_thread(struct gen *g, uint32_t id)
{
    uint32_t string = random_name(g, "puma thread ");
    unsigned char *p = begin(g, 0);

    end_definition(g, p, mpp_encode_2(p, MPP_THREAD_NAME, id, string));
}

static uint32_t some_thread(struct gen *g)
{
    if (g->threads < 2 || one_in(g, 40)) {
        g->threads++;
        if (!one_in(g, 8)) name_thread(g, g->threads);
    }
    return 1 + id_below(g, g->threads);
}

static void define_site(struct gen *g)
{
    static const uint32_t types[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 20, 26, 27, 28, 0};
    uint32_t stack = some_stack(g), class_id = some_class(g), thread = some_thread(g), type = types[below(g, 20)];

    if (g->is_hostile && one_in(g, 20)) stack = UNDEFINED_ID;
    if (g->is_hostile && one_in(g, 20)) type = 200;
    unsigned char *p = begin(g, 0);
    end_definition(g, p, mpp_encode_site(p, ++g->sites, stack, class_id, type, thread, 40u << below(g, 5)));
}

/* A site that has not been defined before is, now and then, undefined for ever. */
static uint32_t some_site(struct gen *g)
{
    if (g->is_hostile && one_in(g, 40)) return UNDEFINED_ID + id_below(g, 10);
    if (g->sites < 3 || one_in(g, 60)) define_site(g);
    return 1 + id_below(g, g->sites);
}

/* Equal and, when hostile, different definitions of what has been defined. */
static void define_again(struct gen *g)
{
    unsigned char *p;

    switch (below(g, 3 + (g->is_hostile ? 3u : 0u))) {
    case 0:
        if (g->functions) name_function(g, 1 + id_below(g, g->functions));
        break;
    case 1:
        if (g->classes) name_class(g, 1 + id_below(g, g->classes));
        break;
    case 2:
        if (g->threads) name_thread(g, 1 + id_below(g, g->threads));
        break;
    case 3:
        if (!g->strings) break;
        p = begin(g, 10);
        end_definition(g, p, mpp_encode_string(p, 1 + id_below(g, g->strings), "another", 7));
        break;
    case 4:
        if (!g->stacks) break;
        p = begin(g, 0);
        end_definition(g, p, mpp_encode_stack(p, 1 + id_below(g, g->stacks), 0, 1, 7));
        break;
    default:
        if (!g->sites) break;
        p = begin(g, 0);
        end_definition(g, p, mpp_encode_site(p, 1 + id_below(g, g->sites), 0, 0, 5, 1, 40));
        break;
    }
}

#endif
