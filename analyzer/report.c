#include "analyzer/report.h"
#include "analyzer/message.h"
#include <sys/stat.h>

const struct report_format *report_format_of(enum format format)
{
    switch (format) {
    case FORMAT_JSON:
        return &report_json;
    case FORMAT_PPROF:
        return &report_pprof;
    case FORMAT_FOLDED:
        return &report_folded;
    default:
        return &report_text;
    }
}

size_t report_limit(const struct options *o, size_t count)
{
    uint64_t limit = o->limit == LIMIT_DEFAULT ? 30 : o->limit;

    return limit == 0 || limit > count ? count : (size_t)limit;
}

static int same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int report_write(const struct options *o, int (*write)(const void *report, const struct options *o, struct output *out), const void *report)
{
    struct output out;

    if (o->output && same_file(o->output, o->log)) {
        message("-o \"%s\" is the log itself: name another file", o->output);
        return -1;
    }
    if (output_open(&out, o->output)) return -1;
    if (write(report, o, &out)) {
        output_abort(&out);
        return -1;
    }
    return output_commit(&out);
}
