/* An open log: the reader, the definitions of its DEFINITIONS blocks, what PROC blocks tell, and the bookkeeping of damage. */
#ifndef MPP_LOG_H
#define MPP_LOG_H

#include "analyzer/definitions.h"
#include "formats/mpp_reader.h"

struct proc_sample {
    uint64_t time_ns, rss_bytes;
};

#define PROC_KEYS 64 /* keys up to here are kept by number */

struct log {
    const char *path; /* the caller's */
    struct mpp_reader *reader;
    const struct mpp_log_info *info;
    struct definitions definitions;
    uint64_t end_time_ns;
    unsigned char *reported; /* by block: damage was told to the reader */

    struct proc_sample *procs;
    size_t proc_count, proc_capacity;
    uint64_t proc_last[PROC_KEYS];
    unsigned char proc_known[PROC_KEYS];
    uint64_t raw_bytes; /* of all blocks' payloads, by their headers */
};

/* Opens `path` ("-" is no log). 0, or an error after a message on stderr that names it. */
int log_open(struct log *l, const char *path);
/* The same over any source, which is taken over; no message. */
int log_open_source(struct log *l, const char *path, const struct mpp_source *source);
void log_close(struct log *l);

/* Damage of block `i` that reading it has shown, once for each block. 0 or MPP_ERR_NO_MEMORY. */
int log_report_damage(struct log *l, size_t i, enum mpp_damage_kind kind);

/* Tells on stderr what is missing: a line when the log is damaged, a note when it has no clean end. `record_count`: of the history, as far as it was
 * read. */
void log_tell_state(const struct log *l, uint64_t event_count);

#endif
