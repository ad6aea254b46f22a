/* All definitions once more: at a clean end, so that a damaged block costs no names, and at the head of a forked child's log. No Ruby in here. */
#include "recorder.h"

#include <errno.h>
#include <stdlib.h>

#define CHUNK_BYTES   (256u << 10)
#define LONGEST_BYTES (65536u + MPP_RECORD_MAX_BYTES)

struct chunk {
    unsigned char *bytes, *at;
    int (*emit)(struct mpp_log_file *, const void *, size_t);
    struct mpp_log_file *file;
    int error;
};

static unsigned char *room(struct chunk *c)
{
    if ((size_t)(c->at - c->bytes) > CHUNK_BYTES - LONGEST_BYTES) {
        if (!c->error) c->error = c->emit(c->file, c->bytes, (size_t)(c->at - c->bytes));
        c->at = c->bytes;
    }
    return c->at;
}

int mpp_definitions_write(int (*emit)(struct mpp_log_file *, const void *, size_t), struct mpp_log_file *file)
{
    const struct mpp_recorder *r = &mpp_recorder;
    struct chunk c = {.emit = emit, .file = file};

    c.bytes = c.at = malloc(CHUNK_BYTES);
    if (!c.bytes) return ENOMEM;
    for (uint32_t id = 1; id <= r->strings.count; id++) {
        size_t bytes;
        const char *text = mpp_strings_get(&r->strings, id, &bytes);
        c.at = mpp_encode_string(room(&c), id, text, bytes);
    }
    for (uint32_t id = 1; id <= r->identities[MPP_FUNCTIONS].count; id++) {
        const struct mpp_identity *f = &r->identities[MPP_FUNCTIONS].list[id];
        if (f->named) c.at = mpp_encode_function_name(room(&c), id, f->name, f->path, f->first_line, f->flags);
    }
    for (uint32_t id = 1; id <= r->identities[MPP_CLASSES].count; id++) {
        const struct mpp_identity *k = &r->identities[MPP_CLASSES].list[id];
        if (k->named) c.at = mpp_encode_class_name(room(&c), id, k->name, k->flags);
    }
    for (uint32_t id = 1; id <= r->identities[MPP_THREADS].count; id++) {
        const struct mpp_identity *t = &r->identities[MPP_THREADS].list[id];
        if (t->named) c.at = mpp_encode_2(room(&c), MPP_THREAD_NAME, id, t->name);
    }
    for (uint32_t id = 1; id <= r->stacks.node_count; id++) {
        const struct mpp_node *n = &r->stacks.nodes[id];
        c.at = mpp_encode_stack(room(&c), id, n->parent, n->function, n->line);
    }
    for (uint32_t id = 1; id <= r->stacks.site_count; id++) {
        const struct mpp_site *s = &r->stacks.sites[id];
        c.at = mpp_encode_site(room(&c), id, s->stack, s->class_id, s->type, s->thread, s->birth_bytes);
    }
    if (!c.error && c.at > c.bytes) c.error = emit(file, c.bytes, (size_t)(c.at - c.bytes));
    free(c.bytes);
    return c.error;
}
