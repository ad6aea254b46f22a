#include "analyzer/report.h"
const struct report_format report_pprof;
