#include "analyzer/definitions.h"
#include "analyzer/arena.h"
#include <stdlib.h>
#include <string.h>

void definitions_init(struct definitions *d)
{
    *d = (struct definitions){0};
}

void definitions_release(struct definitions *d)
{
    id_map_release(&d->string_ids);
    id_map_release(&d->function_ids);
    id_map_release(&d->stack_ids);
    id_map_release(&d->site_ids);
    id_map_release(&d->class_ids);
    id_map_release(&d->thread_ids);
    free(d->strings);
    free(d->functions);
    free(d->stacks);
    free(d->sites);
    free(d->classes);
    free(d->threads);
    u64_map_release(&d->reclassed);
    arena_free(d->arena);
    *d = (struct definitions){0};
}

/* The index of `id` in the table, a new one (*fresh = 1, the element zeroed) when it is not there. ID_MAP_NONE: no memory. */
static uint32_t place_for(struct id_map *ids, void **array, size_t *count, size_t *capacity, size_t size, uint32_t id, int *fresh)
{
    uint32_t index = id_map_find(ids, id);

    *fresh = 0;
    if (index != ID_MAP_NONE) return index;
    if (*count >= ID_MAP_NONE - 1) return ID_MAP_NONE;
    if (array_reserve(array, capacity, *count + 1, size)) return ID_MAP_NONE;
    index = (uint32_t)*count;
    if (id_map_add(ids, id, index)) return ID_MAP_NONE;
    memset((char *)*array + (size_t)index * size, 0, size);
    ++*count;
    *fresh = 1;
    return index;
}

#define PLACE(d, what, array, id, fresh)                                                                                                             \
    place_for(&(d)->what##_ids, (void **)&(d)->array, &(d)->what##_count, &(d)->what##_capacity, sizeof *(d)->array, id, fresh)

/* A first definition holds, but one of an EVENTS block goes before one of a DEFINITIONS block, which is read earlier. */
static int holds(int fresh, uint8_t stood, enum definition_origin comes)
{
    return fresh || (stood == FROM_DEFINITIONS && comes == FROM_EVENTS);
}

/* A last name holds, and DEFINITIONS blocks count as after all EVENTS. */
static int renames(int fresh, uint8_t stood, enum definition_origin comes)
{
    return fresh || stood == FROM_EVENTS || comes == FROM_DEFINITIONS;
}

static int apply_string(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    int fresh;
    uint32_t i = PLACE(d, string, strings, r->id, &fresh);

    if (i == ID_MAP_NONE) return MPP_ERR_NO_MEMORY;
    struct definition_string *s = &d->strings[i];
    if (!holds(fresh, s->origin, origin)) return 0;
    if (fresh || s->length != r->text_bytes || memcmp(s->bytes, r->text, r->text_bytes) != 0) {
        const char *bytes = arena_copy(&d->arena, r->text, r->text_bytes);
        if (!bytes) {
            if (fresh) s->bytes = "";
            return MPP_ERR_NO_MEMORY;
        }
        s->bytes = bytes;
        s->length = (uint32_t)r->text_bytes;
    }
    s->origin = (uint8_t)origin;
    return 0;
}

static int apply_stack(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    int fresh;

    uint32_t i = PLACE(d, stack, stacks, r->id, &fresh);
    if (i == ID_MAP_NONE) return MPP_ERR_NO_MEMORY;
    struct definition_stack *s = &d->stacks[i];
    if (!holds(fresh, s->origin, origin)) return 0;
    *s = (struct definition_stack){.id = r->id, .parent = (uint32_t)r->a, .function = (uint32_t)r->b, .line = r->c, .origin = (uint8_t)origin};
    return 0;
}

static int apply_site(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    uint32_t i = definitions_site(d, r->id);

    if (i == ID_MAP_NONE) return MPP_ERR_NO_MEMORY;
    struct definition_site *s = &d->sites[i];
    if (!holds(s->state == SITE_UNDEFINED, s->origin, origin)) return 0;
    if (s->state == SITE_UNDEFINED) d->defined_site_count++;
    *s = (struct definition_site){.stack = (uint32_t)r->a,
                                  .class_id = (uint32_t)r->b,
                                  .type = r->c,
                                  .thread = (uint32_t)r->d,
                                  .birth_bytes = r->size_bytes,
                                  .root = i,
                                  .state = SITE_DEFINED,
                                  .origin = (uint8_t)origin};
    return 0;
}

static int apply_function(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    int fresh;
    uint32_t i = PLACE(d, function, functions, r->id, &fresh);

    if (i == ID_MAP_NONE) return MPP_ERR_NO_MEMORY;
    struct definition_function *f = &d->functions[i];
    if (!renames(fresh, f->origin, origin)) return 0;
    *f = (struct definition_function){
        .label = (uint32_t)r->a, .path = (uint32_t)r->b, .first_line = r->c, .flags = (uint8_t)r->d, .origin = (uint8_t)origin};
    return 0;
}

static int apply_class(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    int fresh;
    uint32_t i = PLACE(d, class, classes, r->id, &fresh);

    if (i == ID_MAP_NONE) return MPP_ERR_NO_MEMORY;
    if (renames(fresh, d->classes[i].origin, origin)) {
        d->classes[i] = (struct definition_name){.string = (uint32_t)r->a, .flags = (uint8_t)r->b, .origin = (uint8_t)origin};
    }
    return 0;
}

static int apply_thread(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    int fresh;
    uint32_t i = PLACE(d, thread, threads, r->id, &fresh);

    if (i == ID_MAP_NONE) return MPP_ERR_NO_MEMORY;
    if (renames(fresh, d->threads[i].origin, origin)) {
        d->threads[i] = (struct definition_name){.string = (uint32_t)r->a, .origin = (uint8_t)origin};
    }
    return 0;
}

int definitions_apply(struct definitions *d, const struct mpp_record *r, enum definition_origin origin)
{
    if (r->id == 0) return 0; /* 0 means none */
    switch (r->kind) {
    case MPP_STRING:
        return apply_string(d, r, origin);
    case MPP_FUNCTION_NAME:
        return apply_function(d, r, origin);
    case MPP_STACK:
        return apply_stack(d, r, origin);
    case MPP_SITE:
        return apply_site(d, r, origin);
    case MPP_CLASS_NAME:
        return apply_class(d, r, origin);
    case MPP_THREAD_NAME:
        return apply_thread(d, r, origin);
    default:
        return 0;
    }
}

uint32_t definitions_site(struct definitions *d, uint32_t id)
{
    int fresh;
    uint32_t i = PLACE(d, site, sites, id, &fresh);

    if (i != ID_MAP_NONE && fresh) d->sites[i].root = i;
    return i;
}

uint32_t definitions_reclass(struct definitions *d, uint32_t site, uint32_t class_id)
{
    uint32_t root = d->sites[site].root;
    const struct definition_site *r = &d->sites[root];
    uint64_t key = ((uint64_t)root + 1) << 28 | class_id;

    if (r->state == SITE_DEFINED && r->class_id == class_id) return root;
    const uint32_t *known = u64_map_get(&d->reclassed, key);
    if (known) return *known;
    if (d->site_count >= ID_MAP_NONE - 1) return ID_MAP_NONE;
    if (array_reserve((void **)&d->sites, &d->site_capacity, d->site_count + 1, sizeof *d->sites)) return ID_MAP_NONE;
    uint32_t i = (uint32_t)d->site_count;
    if (u64_map_put(&d->reclassed, key, i)) return ID_MAP_NONE;
    d->sites[i] = (struct definition_site){.class_id = class_id, .root = root, .state = SITE_RECLASSED};
    d->site_count++;
    return i;
}

const struct definition_string *definitions_string(const struct definitions *d, uint32_t id)
{
    uint32_t i = id_map_find(&d->string_ids, id);
    return i == ID_MAP_NONE ? NULL : &d->strings[i];
}

const struct definition_function *definitions_function(const struct definitions *d, uint32_t id)
{
    uint32_t i = id_map_find(&d->function_ids, id);
    return i == ID_MAP_NONE ? NULL : &d->functions[i];
}

const struct definition_name *definitions_class(const struct definitions *d, uint32_t id)
{
    uint32_t i = id_map_find(&d->class_ids, id);
    return i == ID_MAP_NONE ? NULL : &d->classes[i];
}

const struct definition_name *definitions_thread(const struct definitions *d, uint32_t id)
{
    uint32_t i = id_map_find(&d->thread_ids, id);
    return i == ID_MAP_NONE ? NULL : &d->threads[i];
}

uint32_t definitions_stack(const struct definitions *d, uint32_t id)
{
    return id_map_find(&d->stack_ids, id);
}
