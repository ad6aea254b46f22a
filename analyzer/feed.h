/* The history of a log as a row of batches: blocks read, checked, decompressed and parsed, and ahead of their use by a thread of its own if so
 * asked. The feed changes nothing but itself: what it finds damaged or failed stands in the batches, in the order of the log, so that the outcome is
 * the same with and without the thread. */
#ifndef MPP_FEED_H
#define MPP_FEED_H

#include "analyzer/batch.h"

struct feed; /* opaque */

/* AHEAD is not what AUTO takes as yet: it lost where it was measured (two cores of a virtual machine: half as long again as alone, with some ten
 * thousand changes of thread in a replay; both threads on one core would explain that, but it is not proved). The tests hold it to the same outcome.
 */
enum feed_threads { FEED_AUTO, FEED_ALONE, FEED_AHEAD };

/* The feed of the history from its start. NULL when memory is short. */
struct feed *feed_new(const struct mpp_reader *reader, enum feed_threads threads);
void feed_free(struct feed *f); /* NULL is fine */

/* The batch at the front: the same until feed_next. After one that ends with BATCH_LOG_ENDS or BATCH_FAILED there is none. */
const struct batch *feed_front(struct feed *f);
/* Gives the front back. */
void feed_next(struct feed *f);

#endif
