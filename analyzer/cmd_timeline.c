#include "analyzer/command.h"
int cmd_timeline(const struct options *o)
{
    (void)o;
    return EXIT_FAILED;
}
