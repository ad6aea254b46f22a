/* The default command: top's profile, with the recorder's own allocations, so that its totals are the log's. */
#include "analyzer/command.h"

int cmd_pprof(const struct options *given)
{
    struct options o = *given;

    o.format = FORMAT_PPROF;
    o.recorder = 1;
    return cmd_top(&o);
}
