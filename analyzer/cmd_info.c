#include "analyzer/command.h"
int cmd_info(const struct options *o)
{
    (void)o;
    return EXIT_FAILED;
}
