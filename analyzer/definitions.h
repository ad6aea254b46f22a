/* What a log's definitions say: strings, functions, stacks, sites, classes, threads (FORMAT.md §5). Ids become indices of our own arrays, so that
 * sparse ids cost nothing. To add a kind of definition: a table here, a case in definitions_apply. */
#ifndef MPP_DEFINITIONS_H
#define MPP_DEFINITIONS_H

#include "analyzer/id_map.h"
#include "formats/mpp_record_decode.h"

/* Where a definition stood. One in a DEFINITIONS block counts as after all EVENTS: its names win, its strings, stacks and sites are only for those
 * that no EVENTS block defines. */
enum definition_origin { FROM_EVENTS = 0, FROM_DEFINITIONS = 1 };

struct definition_string {
    const char *bytes;
    uint32_t length;
    uint8_t origin;
};

struct definition_function {
    uint32_t label, path; /* string ids */
    uint64_t first_line;
    uint8_t flags; /* enum mpp_function_flags */
    uint8_t origin;
};

struct definition_stack {
    uint64_t line;
    uint32_t id, parent, function; /* ids of the log */
    uint8_t origin;
};

enum site_state { SITE_UNDEFINED = 0, SITE_DEFINED = 1, SITE_RECLASSED = 2 };

struct definition_site {
    uint64_t type;
    uint32_t stack, class_id, thread; /* ids of the log; RECLASSED: only class_id, the rest is the root's */
    uint64_t birth_bytes;
    uint32_t root; /* RECLASSED: index of the site that the objects were born with; else its own index */
    uint8_t state, origin;
};

struct definition_name {
    uint32_t string; /* id of the log */
    uint8_t flags, origin;
};

struct definitions {
    struct id_map string_ids, function_ids, stack_ids, site_ids, class_ids, thread_ids;
    struct definition_string *strings;
    struct definition_function *functions;
    struct definition_stack *stacks;
    struct definition_site *sites;
    struct definition_name *classes, *threads;
    size_t string_count, function_count, stack_count, site_count, class_count, thread_count;
    size_t string_capacity, function_capacity, stack_capacity, site_capacity, class_capacity, thread_capacity;
    uint32_t defined_site_count;
    struct u64_map reclassed; /* (root + 1) << 28 | class -> site index */
    struct arena *arena;      /* bytes of strings */
};

void definitions_init(struct definitions *d);
void definitions_release(struct definitions *d);

/* Whether `kind` is one of a definition. */
static inline int is_definition(int kind)
{
    return kind >= MPP_STRING && kind <= MPP_THREAD_NAME;
}

/* Takes a definition over, as the decoder gave it (which sees to it that a stack's parent is below it). 0 or MPP_ERR_NO_MEMORY. */
int definitions_apply(struct definitions *d, const struct mpp_record *r, enum definition_origin origin);

/* The index of site `id`; one that is not defined gets a place. ID_MAP_NONE when memory is short. */
uint32_t definitions_site(struct definitions *d, uint32_t id);
/* The index of the site that is `site` but of class `class_id`. ID_MAP_NONE when memory is short. */
uint32_t definitions_reclass(struct definitions *d, uint32_t site, uint32_t class_id);

/* Lookups by the log's ids; NULL when not defined. */
const struct definition_string *definitions_string(const struct definitions *d, uint32_t id);
const struct definition_function *definitions_function(const struct definitions *d, uint32_t id);
const struct definition_name *definitions_class(const struct definitions *d, uint32_t id);
const struct definition_name *definitions_thread(const struct definitions *d, uint32_t id);
/* Index in d->stacks, or ID_MAP_NONE. */
uint32_t definitions_stack(const struct definitions *d, uint32_t id);

#endif
