/* Building and writing a pprof profile (proto/profile.proto). A builder collects functions, locations and samples, validates pprof's hard rules and
 * gives gzip'ed bytes. It knows nothing of logs. */
#ifndef MPP_PPROF_H
#define MPP_PPROF_H

#include "mpp_error.h"
#include <stddef.h>
#include <stdint.h>

struct mpp_pprof; /* opaque */

#define MPP_PPROF_VALUES 4 /* alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes */

struct mpp_pprof_label {
    const char *key;
    const char *text; /* UTF-8; NULL: the label is the number */
    int64_t number;
    const char *unit; /* of the number; NULL: "count", since pprof drops a number 0 without a unit */
};

/* Ownership: all strings are copied (and interned); invalid UTF-8 becomes U+FFFD. Ids are given by the builder, from 1. */
int mpp_pprof_new(struct mpp_pprof **out);
void mpp_pprof_free(struct mpp_pprof *p);

void mpp_pprof_set_time(struct mpp_pprof *p, int64_t time_unix_ns, int64_t duration_ns);
void mpp_pprof_set_period(struct mpp_pprof *p, int64_t period); /* allocations; period_type is "space"/"bytes"-free: objects/count */
int mpp_pprof_add_comment(struct mpp_pprof *p, const char *text);
int mpp_pprof_set_default(struct mpp_pprof *p, const char *sample_type); /* default: inuse_space */
int mpp_pprof_set_mapping(struct mpp_pprof *p, const char *file);        /* the one mapping's name; default "ruby" */

/* The id of the location of (function, line); equal calls give equal ids. 0 and *error set on failure. */
uint64_t mpp_pprof_location(struct mpp_pprof *p, const char *function, const char *path, int64_t first_line, int64_t line, int *error);

/* One sample: `depth` locations, leaf first; 0 deep: it stands under a function "(no stack)". Labels are copied. Samples of the same locations and
 * labels are not merged. */
int mpp_pprof_add_sample(struct mpp_pprof *p, const uint64_t *locations, size_t depth, const int64_t values[MPP_PPROF_VALUES],
                         const struct mpp_pprof_label *labels, size_t label_count);

/* Validates and serialises. *data is malloc'ed and the caller's. MPP_ERR_INVALID: a rule is broken, *why (static) says which. */
int mpp_pprof_encode(struct mpp_pprof *p, unsigned char **data, size_t *bytes, const char **why);

/* The hard rules of google/pprof's CheckValid and encode.go, on serialised, uncompressed bytes; 0, MPP_ERR_MALFORMED (not a profile) or
 * MPP_ERR_INVALID. */
int mpp_pprof_validate(const unsigned char *data, size_t bytes, const char **why);

#endif
