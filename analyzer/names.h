/* What things are called: the definitions, resolved once the log has been read, as valid UTF-8. Frames and backtraces are told apart by what is
 * shown, not by the log's ids: equal frames are one frame, equal backtraces one node. */
#ifndef MPP_NAMES_H
#define MPP_NAMES_H

#include "analyzer/definitions.h"
#include "analyzer/intern.h"
#include <regex.h>

#define NAMES_RECORDER "[mpp_recorder]"
#define NODE_EMPTY     UINT32_MAX /* the empty backtrace */

/* What is shown of a frame. Strings by their number in names.strings. */
struct frame {
    uint64_t line;
    uint32_t function, path;
};

/* A backtrace: a frame and its caller's node. Equal ones are one. */
struct node {
    uint32_t frame, parent; /* parent: NODE_EMPTY at the root */
};

/* What is known of a stack of the log. */
struct stack_names {
    uint32_t node;       /* in names.nodes; NODE_EMPTY */
    uint32_t line_frame; /* the leaf-most frame that is not written in C, else the leaf; in names.frames; only when node is not NODE_EMPTY */
    unsigned char known, has_ruby, recorder, focused, ignored;
};

/* Which frames are looked for. */
struct frame_filter {
    const regex_t *focus, *ignore; /* NULL: none */
};

struct names {
    const struct definitions *d;
    struct frame_filter filter;
    struct intern strings;            /* shown ones */
    struct intern frames;             /* of struct frame */
    struct intern nodes;              /* of struct node */
    struct stack_names *stacks;       /* by index of d->stacks */
    struct function_names *functions; /* by index of d->functions */
    uint64_t *first_lines;            /* of functions, by frame; 0: unknown */
    size_t first_line_capacity;
    uint32_t *path_stack; /* for the walk */
    size_t path_capacity;
    uint32_t unresolved, empty;
};

/* The definitions must not change any more. 0 or MPP_ERR_NO_MEMORY. */
int names_init(struct names *n, const struct definitions *d, const struct frame_filter *filter);
void names_release(struct names *n);

/* What is known of stack `id` of the log. 0 or MPP_ERR_NO_MEMORY. */
int names_stack(struct names *n, uint32_t id, struct stack_names *out);

/* Numbers of shown strings; INTERN_NONE when memory is short. `site` is an index of d->sites. */
uint32_t names_class(struct names *n, uint32_t site);
uint32_t names_type(struct names *n, uint32_t site);
uint32_t names_thread(struct names *n, uint32_t site);
/* Stack id of the log. */
uint32_t names_site_stack(const struct names *n, uint32_t site);

struct frame names_frame(const struct names *n, uint32_t frame);
struct node names_node(const struct names *n, uint32_t node);
static inline const char *names_text(const struct names *n, uint32_t string)
{
    return intern_text(&n->strings, string);
}
/* Scrubs and interns. */
uint32_t names_intern(struct names *n, const char *bytes, size_t length);
/* Whether `re` finds something in a shown string. */
int names_match(const struct names *n, const regex_t *re, uint32_t string);

#endif
