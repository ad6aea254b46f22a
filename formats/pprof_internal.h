/* What the pprof files share: memory, tables, text, and the checker that the encoder feeds part by part. Not for others. */
#ifndef PPROF_INTERNAL_H
#define PPROF_INTERNAL_H

#include "mpp_error.h"
#include "mpp_pprof.h"
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

/* Every allocation of the pprof files goes through this one, so that a test can let each fail in turn. realloc's meaning. */
extern void *(*pprof_realloc)(void *old, size_t bytes);

/* Grows *array (of elements of `element_bytes`) to hold at least `need`. 0 or MPP_ERR_NO_MEMORY, nothing changed then. */
int pprof_grow(void *array, size_t *capacity, size_t need, size_t element_bytes);

/* Memory that goes all at once. Zero-initialise. */
struct pprof_arena_chunk;
struct pprof_arena {
    struct pprof_arena_chunk *first, *current;
    size_t used_bytes; /* of current */
};
void *pprof_arena_alloc(struct pprof_arena *a, size_t bytes); /* NULL: no memory. Aligned to 8 */
void pprof_arena_clear(struct pprof_arena *a);                /* keeps its memory for the next use */
void pprof_arena_release(struct pprof_arena *a);

/* A hash table from a key that the caller keeps to its number 0, 1, 2 …; open addressing, never shrinks. Zero-initialise. */
struct pprof_table_slot {
    uint32_t tag;    /* the high half of the hash, so that most misses touch nothing else */
    uint32_t number; /* + 1; 0: free */
};
struct pprof_table {
    struct pprof_table_slot *slots;
    uint64_t *hashes; /* by number, to grow by */
    size_t hashes_capacity;
    size_t mask; /* slots - 1; 0 before the first reserve */
    uint32_t count;
};
/* Makes room for one more; 0, MPP_ERR_NO_MEMORY or MPP_ERR_TOO_LARGE (2^31 entries). */
int pprof_table_reserve(struct pprof_table *t);
/* Walks the numbers that may have `hash`: start with *at = hash; UINT32_MAX when there are no more, and *at is then the free slot. */
static inline uint32_t pprof_table_next(const struct pprof_table *t, uint64_t hash, size_t *at)
{
    for (;; (*at)++) {
        const struct pprof_table_slot *s = &t->slots[*at & t->mask];
        if (!s->number) return UINT32_MAX;
        if (s->tag == (uint32_t)(hash >> 32)) {
            (*at)++;
            return s->number - 1;
        }
    }
}
/* Puts the next number into the free slot that pprof_table_next has found, and returns it. Room was reserved. */
uint32_t pprof_table_add(struct pprof_table *t, uint64_t hash, size_t at);
void pprof_table_release(struct pprof_table *t);

/* The length of the sequence at `p` (at least one byte is there): a character's, or of the longest invalid part that Unicode would replace by one
 * U+FFFD; *valid tells which. */
size_t pprof_utf8_sequence(const unsigned char *p, const unsigned char *end, int *valid);
int pprof_utf8_valid(const char *text, size_t bytes);
/* Writes `text` with U+FFFD in place of what is invalid; `out` has room for 3 × bytes. Returns the length. */
size_t pprof_utf8_scrub(char *out, const char *text, size_t bytes);

/* A set of ids that come from a file. Those that come in as 1, 2, 3 … (which is usual) need but a counter. */
struct pprof_ids {
    uint64_t dense;  /* 1 to dense are in */
    uint64_t *slots; /* the others; 0: free, for 0 is no id */
    size_t mask, count;
};
int pprof_ids_add(struct pprof_ids *s, uint64_t id); /* 1 added, 0 it was there, MPP_ERR_NO_MEMORY */
int pprof_ids_has(const struct pprof_ids *s, uint64_t id);
void pprof_ids_release(struct pprof_ids *s);

/* The rules of a profile, checked over parts of it: the parts, one behind the other, are the profile (protobuf: repeated fields add up). What a part
 * refers to stands in it or before it. Zero-initialise; release in any case. */
struct pprof_check {
    struct pprof_arena arena; /* of the part that is being looked at */
    int no_memory;
    uint64_t string_count, mapping_count;
    struct pprof_ids mappings, functions, locations;
    int64_t *sample_types; /* their names' indexes */
    size_t sample_types_capacity, sample_type_count;
    int64_t default_sample_type;
    const char *why;
};
/* 0, MPP_ERR_MALFORMED, MPP_ERR_INVALID or MPP_ERR_NO_MEMORY; c->why says what is wrong. */
int pprof_check_part(struct pprof_check *c, const unsigned char *data, size_t bytes);
int pprof_check_finish(struct pprof_check *c);
void pprof_check_release(struct pprof_check *c);

/* The builder. Numbers in it are indexes of the arrays; an id of the profile is index + 1, but a string's id is its index. */
struct pprof_function {
    uint32_t name, path;
    int64_t first_line;
};
struct pprof_location {
    int64_t line;
    uint32_t function;
    uint32_t zero; /* hashed as bytes: no hole may be left */
};
struct pprof_label {
    int64_t number;
    uint32_t key, text, unit; /* strings */
};
struct pprof_sample {
    struct pprof_sample *next;
    int64_t values[MPP_PPROF_VALUES];
    struct pprof_label *labels;
    uint32_t *locations; /* ids, from 1 */
    uint32_t depth, label_count;
};
struct pprof_text {
    char *text; /* ends in a zero byte */
    size_t bytes;
};
struct mpp_pprof {
    struct pprof_arena arena; /* strings and samples */
    struct pprof_table string_table, function_table, location_table;
    struct pprof_text *strings;
    size_t strings_capacity;
    struct pprof_function *functions;
    size_t functions_capacity;
    struct pprof_location *locations;
    size_t locations_capacity;
    struct pprof_sample *first_sample, **last_sample;
    int64_t *comments;
    size_t comments_capacity, comment_count;
    char *scrubbed;
    size_t scrubbed_capacity;
    int64_t time_unix_ns, duration_ns, period;
    uint32_t type_names[MPP_PPROF_VALUES], type_units[MPP_PPROF_VALUES];
    uint32_t default_type, mapping_file, count_unit;
};

#endif
