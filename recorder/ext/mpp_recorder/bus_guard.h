/* A log that somebody cuts short under us (`> app.mpp`, a rotation with copytruncate): the next store into its mapped journal is SIGBUS, which would
 * end the program. The guard puts memory of the process's own in the mapping's place, and remembers it. It knows no Ruby. */
#ifndef MPP_RECORDER_BUS_GUARD_H
#define MPP_RECORDER_BUS_GUARD_H

#include <stddef.h>

/* Guards [base, base + bytes) from here on, in all threads that do not block SIGBUS. */
void mpp_bus_guard_set(void *base, size_t bytes);
void mpp_bus_guard_clear(void);
/* Whether the mapping has been replaced since mpp_bus_guard_set. */
int mpp_bus_guard_tripped(void);

#endif
