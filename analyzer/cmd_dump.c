#include "analyzer/command.h"
int cmd_dump(const struct options *o)
{
    (void)o;
    return EXIT_FAILED;
}
