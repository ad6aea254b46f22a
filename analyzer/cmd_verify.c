#include "analyzer/command.h"
int cmd_verify(const struct options *o)
{
    (void)o;
    return EXIT_FAILED;
}
