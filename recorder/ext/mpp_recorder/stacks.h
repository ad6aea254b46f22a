/* Backtraces as a tree of nodes (function, line, parent), and sites (stack, class, type, thread, size at birth). Both are interned; ids from 1.
 *
 * Whole backtraces are known by their hash (capture.c); here their frames are looked up, node by node. No Ruby here; allocates by libc only. */
#ifndef MPP_RECORDER_STACKS_H
#define MPP_RECORDER_STACKS_H

#include <stddef.h>
#include <stdint.h>

struct mpp_node {
    uint32_t parent, function, line;
    uint32_t last_child; /* the child that was found last, a guess */
};

struct mpp_site {
    uint32_t stack, class_id, thread, birth_bytes, type; /* no padding: hashed and compared as bytes */
};

struct mpp_stacks {
    struct mpp_node *nodes; /* nodes[0] is the root: no frame */
    uint32_t node_count, node_capacity;
    uint32_t *node_table;
    size_t node_table_capacity;
    struct mpp_site *sites;
    uint32_t site_count, site_capacity;
    uint32_t *site_table;
    size_t site_table_capacity;
};

int mpp_stacks_init(struct mpp_stacks *s);
void mpp_stacks_release(struct mpp_stacks *s);
size_t mpp_stacks_memory_bytes(const struct mpp_stacks *s);

/* The child of `parent` for this frame; *fresh when it is new (it must then be written to the log). 0: no memory. */
uint32_t mpp_stacks_child_slowly(struct mpp_stacks *s, uint32_t parent, uint32_t function, uint32_t line, int *fresh);

static inline uint32_t mpp_stacks_child(struct mpp_stacks *s, uint32_t parent, uint32_t function, uint32_t line, int *fresh)
{
    uint32_t guess = s->nodes[parent].last_child;

    *fresh = 0;
    if (guess && s->nodes[guess].function == function && s->nodes[guess].line == line) return guess;
    return mpp_stacks_child_slowly(s, parent, function, line, fresh);
}

/* The site like *site; *fresh when it is new. 0: no memory. */
uint32_t mpp_stacks_site(struct mpp_stacks *s, const struct mpp_site *site, int *fresh);

/* A new node or site could not be written: it is taken back, so that the next use writes it. Only the newest can be. */
void mpp_stacks_undo_node(struct mpp_stacks *s);
void mpp_stacks_undo_site(struct mpp_stacks *s);

#endif
