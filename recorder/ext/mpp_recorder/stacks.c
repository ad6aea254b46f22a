#include "stacks.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

int mpp_stacks_init(struct mpp_stacks *s)
{
    *s = (struct mpp_stacks){.node_capacity = 4096, .node_table_capacity = 16384, .site_capacity = 4096, .site_table_capacity = 16384};
    s->nodes = calloc(s->node_capacity, sizeof *s->nodes);
    s->node_table = calloc(s->node_table_capacity, sizeof *s->node_table);
    s->sites = calloc(s->site_capacity, sizeof *s->sites);
    s->site_table = calloc(s->site_table_capacity, sizeof *s->site_table);
    if (s->nodes && s->node_table && s->sites && s->site_table) return 0;
    mpp_stacks_release(s);
    return -1;
}

void mpp_stacks_release(struct mpp_stacks *s)
{
    free(s->nodes);
    free(s->node_table);
    free(s->sites);
    free(s->site_table);
    *s = (struct mpp_stacks){0};
}

size_t mpp_stacks_memory_bytes(const struct mpp_stacks *s)
{
    return s->node_capacity * sizeof *s->nodes + s->node_table_capacity * sizeof *s->node_table + s->site_capacity * sizeof *s->sites +
           s->site_table_capacity * sizeof *s->site_table;
}

static uint64_t node_hash(uint32_t parent, uint32_t function, uint32_t line)
{
    const uint32_t key[3] = {parent, function, line};

    return XXH3_64bits(key, sizeof key);
}

static uint64_t site_hash(const struct mpp_site *site)
{
    return XXH3_64bits(site, sizeof *site);
}

/* Twice the table: the hash of id i is hash(context, i). */
static int grow_table(uint32_t **table, size_t *capacity, uint32_t count, uint64_t (*hash)(const struct mpp_stacks *, uint32_t),
                      const struct mpp_stacks *s)
{
    size_t bigger = *capacity * 2;
    uint32_t *fresh = calloc(bigger, sizeof *fresh);

    if (!fresh) return -1;
    for (uint32_t id = 1; id <= count; id++) {
        size_t i = hash(s, id) & (bigger - 1);
        while (fresh[i]) i = (i + 1) & (bigger - 1);
        fresh[i] = id;
    }
    free(*table);
    *table = fresh;
    *capacity = bigger;
    return 0;
}

static uint64_t hash_of_node(const struct mpp_stacks *s, uint32_t id)
{
    return node_hash(s->nodes[id].parent, s->nodes[id].function, s->nodes[id].line);
}

static uint64_t hash_of_site(const struct mpp_stacks *s, uint32_t id)
{
    return site_hash(&s->sites[id]);
}

/* A list grows by a quarter: it is what most of our memory is, and large blocks are not copied when they grow (mremap). */
static uint32_t more(uint32_t capacity)
{
    return capacity + capacity / 4;
}

uint32_t mpp_stacks_child_slowly(struct mpp_stacks *s, uint32_t parent, uint32_t function, uint32_t line, int *fresh)
{
    size_t i;

    *fresh = 0;
    if ((size_t)(s->node_count + 1) * 2 > s->node_table_capacity &&
        grow_table(&s->node_table, &s->node_table_capacity, s->node_count, hash_of_node, s))
        return 0;
    for (i = node_hash(parent, function, line) & (s->node_table_capacity - 1); s->node_table[i]; i = (i + 1) & (s->node_table_capacity - 1)) {
        const struct mpp_node *n = &s->nodes[s->node_table[i]];
        if (n->parent == parent && n->function == function && n->line == line) {
            s->nodes[parent].last_child = s->node_table[i];
            return s->node_table[i];
        }
    }
    if (s->node_count + 2 > s->node_capacity) {
        struct mpp_node *nodes = realloc(s->nodes, (size_t)more(s->node_capacity) * sizeof *nodes);
        if (!nodes) return 0;
        s->nodes = nodes;
        s->node_capacity = more(s->node_capacity);
    }
    s->nodes[++s->node_count] = (struct mpp_node){.parent = parent, .function = function, .line = line};
    s->node_table[i] = s->node_count;
    s->nodes[parent].last_child = s->node_count;
    *fresh = 1;
    return s->node_count;
}

uint32_t mpp_stacks_site(struct mpp_stacks *s, const struct mpp_site *site, int *fresh)
{
    size_t i;

    *fresh = 0;
    if ((size_t)(s->site_count + 1) * 2 > s->site_table_capacity &&
        grow_table(&s->site_table, &s->site_table_capacity, s->site_count, hash_of_site, s))
        return 0;
    for (i = site_hash(site) & (s->site_table_capacity - 1); s->site_table[i]; i = (i + 1) & (s->site_table_capacity - 1)) {
        const struct mpp_site *o = &s->sites[s->site_table[i]];
        if (!memcmp(o, site, sizeof *site)) {
            return s->site_table[i];
        }
    }
    if (s->site_count + 2 > s->site_capacity) {
        struct mpp_site *sites = realloc(s->sites, (size_t)more(s->site_capacity) * sizeof *sites);
        if (!sites) return 0;
        s->sites = sites;
        s->site_capacity = more(s->site_capacity);
    }
    s->sites[++s->site_count] = *site;
    s->site_table[i] = s->site_count;
    *fresh = 1;
    return s->site_count;
}

/* The newest entry is the last of its probe run, so it can be cleared in place. */
static void undo(uint32_t *table, size_t capacity, uint64_t hash, uint32_t id)
{
    size_t i = hash & (capacity - 1);

    while (table[i] != id) i = (i + 1) & (capacity - 1);
    table[i] = 0;
}

void mpp_stacks_undo_node(struct mpp_stacks *s)
{
    uint32_t id = s->node_count;

    undo(s->node_table, s->node_table_capacity, hash_of_node(s, id), id);
    if (s->nodes[s->nodes[id].parent].last_child == id) s->nodes[s->nodes[id].parent].last_child = 0;
    s->node_count--;
}

void mpp_stacks_undo_site(struct mpp_stacks *s)
{
    uint32_t id = s->site_count;

    undo(s->site_table, s->site_table_capacity, hash_of_site(s, id), id);
    s->site_count--;
}
