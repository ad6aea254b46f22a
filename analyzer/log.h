/* An open log: the reader, the definitions of its DEFINITIONS blocks, what PROC blocks tell, and the bookkeeping of damage. */
#ifndef MPP_LOG_H
#define MPP_LOG_H

#include "analyzer/definitions.h"
#include "formats/mpp_reader.h"

/* One number of a PROC record. */
struct statistic {
    uint64_t time_ns, key, value;
    uint64_t order; /* of equal times: those of the history first, then as they stand */
};

struct statistics {
    struct statistic *list;
    size_t count, capacity;
};

struct log {
    const char *path; /* the caller's */
    struct mpp_reader *reader;
    const struct mpp_log_info *info;
    struct definitions definitions;
    uint64_t end_time_ns;
    unsigned char *reported; /* by block: the enum mpp_damage_kind that was told to the reader, + 1 */

    struct statistics statistics; /* of PROC blocks, in the order of the file */
    uint64_t proc_time_ns;        /* the greatest time in them */
};

/* Opens `path` ("-" is no log). 0, or an error after a message on stderr that names it. */
int log_open(struct log *l, const char *path);
/* The same over any source, which is taken over; no message. */
int log_open_source(struct log *l, const char *path, const struct mpp_source *source);
void log_close(struct log *l);

/* Takes the pairs of a PROC record. 0 or MPP_ERR_NO_MEMORY. */
int statistics_add(struct statistics *s, struct mpp_record *r, uint64_t time_ns, uint64_t order);
/* Those of the whole log by time, into *out (the caller frees out->list): of its PROC blocks, and `history`'s. 0 or MPP_ERR_NO_MEMORY. */
int log_statistics(const struct log *l, const struct statistics *history, struct statistics *out);

/* Damage of block `i` that reading it has shown, once for each block. 0 or MPP_ERR_NO_MEMORY. */
int log_report_damage(struct log *l, size_t i, enum mpp_damage_kind kind);

/* The lengths of all sealed payloads that can be read (once the log has been). */
uint64_t log_raw_bytes(const struct log *l);

/* Tells on stderr what is missing: a line when the log is damaged, a note when it has no clean end. `record_count`: of the history, as far as it was
 * read. */
void log_tell_state(const struct log *l, uint64_t event_count);

#endif
