/* The log's file and the thread that writes it. The thread knows no Ruby: it takes full halves off the journal, seals them into blocks, and samples
 * the process (PROC). Errors of the disk end the recording with one warning; they never reach the program. */
#ifndef MPP_RECORDER_LOG_FILE_H
#define MPP_RECORDER_LOG_FILE_H

#include "journal.h"
#include "mpp_writer.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

enum mpp_on_exists {
    MPP_EXISTS_ERROR,    /* the file must not exist */
    MPP_EXISTS_REPLACE,  /* an old regular file is removed first */
    MPP_EXISTS_NEXT_FREE /* app.mpp, else app.PID.mpp, app.PID.2.mpp … */
};

/* Figures of the recorder that the writer thread puts into PROC records; the producer refreshes them now and then. */
struct mpp_shared_figures {
    _Atomic uint64_t tracked_objects, recorded_allocs, dropped_allocs, stalls, stall_ns, memory_bytes;
};

/* Where the journal is not mapped: what the file's copy of a half holds. */
struct mpp_copied_half {
    uint64_t sequence;
    uint32_t bytes;
};

enum mpp_file_wish { MPP_WISH_STOP = 1 /* the log has its greatest length */, MPP_WISH_RSS_MARK = 2 };

struct mpp_log_file {
    int fd;
    char path[PATH_MAX];
    struct mpp_writer *writer;
    struct mpp_journal *journal;
    struct mpp_shared_figures figures;
    uint64_t journal_offset;
    int mapped;
    struct mpp_copied_half copied[MPP_JOURNAL_MAX_HALVES];
    pthread_t thread;
    int thread_runs;
    sem_t wake;
    uint64_t max_bytes, mark_at_rss_bytes; /* 0 = none */
    _Atomic int asks_for;                  /* bits of enum mpp_file_wish: what the thread, which knows no Ruby, wants done */
    _Atomic int stopping;
    _Atomic int failure; /* errno of the write that failed; 0 = none. Nothing is written after it */
    _Atomic uint64_t sealed_blocks, written_bytes, writer_cpu_ns;
    uint64_t next_to_seal; /* sequence */
    uint64_t proc_sequence;
    uint64_t definitions_sequence;
};

/* One line on stderr: "mpp_recorder: …; the program goes on". Needs no Ruby, never blocks, and leaves errno alone. */
void mpp_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory for a journal (and for the header's pages in front of it, which stay unused): *memory is mapped privately at first. Sizes are chosen for the
 * disk that holds `path`: the smaller the less is free. journal_bytes 0 = choose. Returns 0 or errno. */
struct mpp_journal_memory {
    unsigned char *base; /* base + header_bytes is the journal */
    size_t header_bytes, half_bytes, bytes;
    uint32_t half_count;
};
int mpp_journal_memory_map(struct mpp_journal_memory *m, const char *path, size_t header_bytes, uint64_t journal_bytes);
void mpp_journal_memory_unmap(struct mpp_journal_memory *m);
/* In a forked child: fresh private memory at the same addresses. Returns 0 or -1. */
int mpp_journal_memory_after_fork(struct mpp_journal_memory *m);

/* Makes the file, writes its header (completing *info) and puts the journal into it. What the journal's memory already holds is kept. Returns 0 or
 * errno; nothing is left behind on failure. `lf->path` is then the file's name. */
int mpp_log_file_create(struct mpp_log_file *lf, const char *path, enum mpp_on_exists on_exists, struct mpp_log_info *info,
                        struct mpp_journal *journal, const struct mpp_journal_memory *memory);
/* Starts the writer thread. 0 or errno. */
int mpp_log_file_start(struct mpp_log_file *lf);
/* The producer says that a half is full. Async-signal-safe, never blocks. */
void mpp_log_file_wake(struct mpp_log_file *lf);
/* Waits (up to `limit_ns`) until all sealed halves are in the file. 0, or errno of the failure, or ETIMEDOUT. */
int mpp_log_file_drain(struct mpp_log_file *lf, uint64_t limit_ns);
/* Ends the thread after it has written all full halves. */
void mpp_log_file_join(struct mpp_log_file *lf);
/* Appends a DEFINITIONS block. Only without the thread, or before it starts. 0 or errno. */
int mpp_log_file_definitions(struct mpp_log_file *lf, const void *payload, size_t bytes);
/* INDEX and footer, if nothing failed; the journal is zeroed. 0 or errno. */
int mpp_log_file_finish(struct mpp_log_file *lf, uint64_t end_time_ns, const struct mpp_journal_memory *memory);
void mpp_log_file_close(struct mpp_log_file *lf);

#endif
