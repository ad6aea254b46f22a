#include "analyzer/names.h"
#include "analyzer/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a function of the log. */
struct function_names {
    uint64_t first_line;
    uint32_t label, path;
    unsigned char known, native, recorder, focused, ignored;
};

static uint32_t intern_literal(struct names *n, const char *text)
{
    return intern_put(&n->strings, text, strlen(text));
}

int names_init(struct names *n, const struct definitions *d, const struct frame_filter *filter)
{
    *n = (struct names){.d = d};
    if (filter) n->filter = *filter;
    n->stacks = calloc(d->stack_count + 1, sizeof *n->stacks);
    n->functions = calloc(d->function_count + 1, sizeof *n->functions);
    n->unresolved = intern_literal(n, "[unresolved]");
    n->empty = intern_literal(n, "");
    if (!n->stacks || !n->functions || n->unresolved == INTERN_NONE || n->empty == INTERN_NONE) {
        names_release(n);
        return MPP_ERR_NO_MEMORY;
    }
    return 0;
}

void names_release(struct names *n)
{
    intern_release(&n->strings);
    intern_release(&n->frames);
    intern_release(&n->nodes);
    free(n->stacks);
    free(n->functions);
    free(n->first_lines);
    free(n->path_stack);
    *n = (struct names){0};
}

uint32_t names_intern(struct names *n, const char *bytes, size_t length)
{
    if (utf8_is_valid(bytes, length)) return intern_put(&n->strings, bytes, length);
    size_t scrubbed_length;
    char *scrubbed = utf8_scrub(bytes, length, &scrubbed_length);
    if (!scrubbed) return INTERN_NONE;
    uint32_t i = intern_put(&n->strings, scrubbed, scrubbed_length);
    free(scrubbed);
    return i;
}

static uint32_t string_or(struct names *n, uint32_t id, uint32_t fallback)
{
    const struct definition_string *s = definitions_string(n->d, id);

    return s ? names_intern(n, s->bytes, s->length) : fallback;
}

int names_match(const struct names *n, const regex_t *re, uint32_t string)
{
    const struct intern_entry *e = &n->strings.entries[string];
    regmatch_t range = {.rm_so = 0, .rm_eo = (regoff_t)e->length};

    /* STARTEND: a name may hold zero bytes. */
    return regexec(re, e->bytes, 1, &range, REG_STARTEND) == 0;
}

static int matches_function(const struct names *n, const regex_t *re, const struct function_names *f)
{
    return re && (names_match(n, re, f->label) || names_match(n, re, f->path));
}

/* What is known of function `id`; NULL when memory is short. */
static const struct function_names *function_of(struct names *n, uint32_t id)
{
    uint32_t i = id_map_find(&n->d->function_ids, id);
    /* All functions without a name share the place behind the last. */
    struct function_names *f = &n->functions[i == ID_MAP_NONE ? n->d->function_count : i];

    if (f->known) return f;
    f->label = n->unresolved;
    f->path = n->empty;
    if (i != ID_MAP_NONE) {
        const struct definition_function *d = &n->d->functions[i];
        f->label = string_or(n, d->label, n->unresolved);
        f->path = string_or(n, d->path, n->empty);
        if (f->label == INTERN_NONE || f->path == INTERN_NONE) return NULL;
        f->first_line = d->first_line;
        f->native = (d->flags & MPP_FUNCTION_NATIVE) != 0;
    }
    f->recorder = strcmp(names_text(n, f->label), NAMES_RECORDER) == 0;
    f->focused = (unsigned char)matches_function(n, n->filter.focus, f);
    f->ignored = (unsigned char)matches_function(n, n->filter.ignore, f);
    f->known = 1;
    return f;
}

/* Fills in stack `i` whose caller is known (NULL: it has none). */
static int resolve(struct names *n, uint32_t i, const struct stack_names *caller)
{
    const struct definition_stack *d = &n->d->stacks[i];
    const struct function_names *f = function_of(n, d->function);
    struct stack_names *s = &n->stacks[i];

    if (!f) return MPP_ERR_NO_MEMORY;
    struct frame frame = {.line = d->line, .function = f->label, .path = f->path};
    uint32_t frame_index = intern_put(&n->frames, &frame, sizeof frame);
    if (frame_index == INTERN_NONE) return MPP_ERR_NO_MEMORY;
    if (array_reserve((void **)&n->first_lines, &n->first_line_capacity, n->frames.count, sizeof *n->first_lines)) return MPP_ERR_NO_MEMORY;
    n->first_lines[frame_index] = f->first_line;
    struct node node = {.frame = frame_index, .parent = caller ? caller->node : NODE_EMPTY};
    uint32_t node_index = intern_put(&n->nodes, &node, sizeof node);
    if (node_index == INTERN_NONE) return MPP_ERR_NO_MEMORY;
    *s = (struct stack_names){.node = node_index, .line_frame = frame_index, .known = 1, .has_ruby = !f->native};
    if (f->native && caller && caller->has_ruby) {
        s->line_frame = caller->line_frame;
        s->has_ruby = 1;
    }
    s->recorder = (unsigned char)(f->recorder || (caller && caller->recorder));
    s->focused = (unsigned char)(f->focused || (caller && caller->focused));
    s->ignored = (unsigned char)(f->ignored || (caller && caller->ignored));
    return 0;
}

int names_stack(struct names *n, uint32_t id, struct stack_names *out)
{
    const struct stack_names *caller = NULL;
    size_t depth = 0;

    *out = (struct stack_names){.node = NODE_EMPTY, .line_frame = INTERN_NONE};
    /* Up to what is known, then down again. Parents have lower ids, so this ends. */
    for (uint32_t i = definitions_stack(n->d, id); id && i != ID_MAP_NONE; i = definitions_stack(n->d, id)) {
        if (n->stacks[i].known) {
            caller = &n->stacks[i];
            break;
        }
        if (array_reserve((void **)&n->path_stack, &n->path_capacity, depth + 1, sizeof *n->path_stack)) return MPP_ERR_NO_MEMORY;
        n->path_stack[depth++] = i;
        id = n->d->stacks[i].parent;
    }
    while (depth > 0) {
        uint32_t i = n->path_stack[--depth];
        if (resolve(n, i, caller)) return MPP_ERR_NO_MEMORY;
        caller = &n->stacks[i];
    }
    if (caller) *out = *caller;
    return 0;
}

uint32_t names_site_stack(const struct names *n, uint32_t site)
{
    return n->d->sites[n->d->sites[site].root].stack;
}

static uint32_t type_text(struct names *n, uint64_t type, int internal)
{
    char number[24], text[64];
    const char *name = mpp_type_name(type < MPP_TYPE_LIMIT ? (unsigned)type : MPP_TYPE_LIMIT);

    if (type == MPP_TYPE_UNKNOWN) {
        name = "UNKNOWN";
    } else if (!name) {
        snprintf(number, sizeof number, "%" PRIu64, type);
        name = number;
    }
    int length = snprintf(text, sizeof text, internal ? "(internal %s)" : "%s", name);
    return intern_put(&n->strings, text, (size_t)length);
}

uint32_t names_type(struct names *n, uint32_t site)
{
    return type_text(n, n->d->sites[n->d->sites[site].root].type, 0);
}

uint32_t names_class(struct names *n, uint32_t site)
{
    const struct definition_site *s = &n->d->sites[site];

    if (s->state == SITE_UNDEFINED) return n->unresolved;
    if (s->class_id == 0) return type_text(n, n->d->sites[s->root].type, 1);
    const struct definition_name *name = definitions_class(n->d, s->class_id);
    return name ? string_or(n, name->string, n->unresolved) : n->unresolved;
}

uint32_t names_thread(struct names *n, uint32_t site)
{
    const struct definition_site *root = &n->d->sites[n->d->sites[site].root];
    const struct definition_name *name = root->state == SITE_UNDEFINED ? NULL : definitions_thread(n->d, root->thread);

    return name ? string_or(n, name->string, n->unresolved) : n->unresolved;
}

struct frame names_frame(const struct names *n, uint32_t frame)
{
    struct frame f;

    memcpy(&f, n->frames.entries[frame].bytes, sizeof f);
    return f;
}

struct node names_node(const struct names *n, uint32_t node)
{
    struct node result;

    memcpy(&result, n->nodes.entries[node].bytes, sizeof result);
    return result;
}
