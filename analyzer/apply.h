/* Applying batches to the heap: what FORMAT.md §7 says of ALLOC, FREE, FREE_SIZED, SIZE and TIME, many records at a time. */
#ifndef MPP_APPLY_H
#define MPP_APPLY_H

#include "analyzer/batch.h"
#include "analyzer/heap.h"

/* How far into a batch its records are applied. */
struct batch_cursor {
    uint32_t record, alloc, touch, time;
};

/* Applies the records of `b` from *at up to number `end`; *at goes on. `counts`: of records by kind; *position and *time_ns: those of the history,
 * which go on too. 0 or an error, after which the heap is of no more use. */
int apply_batch(struct heap *h, const struct batch *b, struct batch_cursor *at, uint32_t end, uint64_t *counts, uint64_t *position,
                uint64_t *time_ns);

#endif
