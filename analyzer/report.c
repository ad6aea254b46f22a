#include "analyzer/report.h"
#include <string.h>

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

int report_write(const struct options *o, int (*write)(const void *report, const struct options *o, struct output *out), const void *report)
{
    struct output out;

    if (output_open(&out, o->output)) return -1;
    if (write(report, o, &out)) {
        output_abort(&out);
        return -1;
    }
    return output_commit(&out);
}
