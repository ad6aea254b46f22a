/* What has a name in the log: strings, functions, classes, threads. A function is a method entry or an instruction sequence, known by its VALUE as
 * long as that lives; its id is for ever. No Ruby here: VALUEs are numbers, and naming them is names.c's work. Allocates by libc only. */
#ifndef MPP_RECORDER_IDENTITIES_H
#define MPP_RECORDER_IDENTITIES_H

#include "idmap.h"

#include <stddef.h>
#include <stdint.h>

struct mpp_string {
    uint32_t offset, bytes; /* in the arena */
    uint64_t hash;
};

/* Interned strings; ids from 1. */
struct mpp_strings {
    struct mpp_string *list;
    uint32_t count; /* ids 1 to count */
    uint32_t capacity;
    char *arena;
    size_t arena_bytes, arena_capacity;
    uint32_t *table; /* ids by hash */
    size_t table_capacity;
};

int mpp_strings_init(struct mpp_strings *s);
void mpp_strings_release(struct mpp_strings *s);
/* The id of these bytes; *fresh tells whether it is new. 0: no memory. */
uint32_t mpp_strings_intern(struct mpp_strings *s, const char *bytes, size_t count, int *fresh);
const char *mpp_strings_get(const struct mpp_strings *s, uint32_t id, size_t *bytes);

enum mpp_identity_kind { MPP_FUNCTIONS, MPP_CLASSES, MPP_THREADS, MPP_IDENTITY_KINDS };

struct mpp_identity {
    uintptr_t value;                 /* the object; 0 once it is dead */
    uintptr_t key;                   /* see mpp_identity_share */
    uint32_t name, path, first_line; /* name and path: string ids, 0 = none yet */
    uint8_t flags, named;
};

struct mpp_identity_table {
    struct mpp_identity *list; /* ids 1 to count; list[0] unused */
    uint32_t count, capacity;
    uint32_t first_unnamed; /* all ids below it are named or dead: names.c works from here */
    struct mpp_idmap map;   /* VALUE → id of the living */
    struct mpp_idmap dead;  /* key → the first that died of those that have it */
};

int mpp_identity_table_init(struct mpp_identity_table *t);
void mpp_identity_table_release(struct mpp_identity_table *t);
/* A new id for `value` (0: no object stands behind it, it is never looked up). 0: no memory. */
uint32_t mpp_identity_add(struct mpp_identity_table *t, uintptr_t value);
/* Programs make the same function, or a nameless class, again and again (templates compiled for each request, singleton classes): were each a new id,
 * the tables would grow for ever. So once one has died, all that look the same from then on (their key: a hash of what can be asked in a hook, of 64
 * bits, since nothing else tells them apart; 0 = nothing does) share its id. Returns that id, or 0: there is none. The caller gives a new id its key.
 */
uint32_t mpp_identity_share(struct mpp_identity_table *t, uintptr_t value, uintptr_t key);
/* The object at `value` has died: it is not looked up any more. Returns its id, or 0. */
uint32_t mpp_identity_dies(struct mpp_identity_table *t, uintptr_t value);
/* All objects may have moved. 0, or -1: no memory (then the table forgets all values, and ids are given anew). */
int mpp_identity_rekey(struct mpp_identity_table *t, uintptr_t (*moved)(uintptr_t value));

#endif
