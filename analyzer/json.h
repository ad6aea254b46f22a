/* Building JSON with jansson: the forms that docs/REPORTS.md fixes. A value that cannot be made is NULL, and its container then lacks it; json_write
 * refuses that. */
#ifndef MPP_JSON_H
#define MPP_JSON_H

#include "analyzer/report.h"
#include <jansson.h>

/* Takes `value` over. *failed is set when something is NULL. */
void json_put(json_t *object, const char *key, json_t *value, int *failed);
void json_add(json_t *array, json_t *value, int *failed);

json_t *json_u64(uint64_t v); /* above 2^63 - 1: digits in a string */
json_t *json_delta(uint64_t to, uint64_t from);
json_t *json_text(const char *bytes, size_t length); /* scrubbed */
json_t *json_cstring(const char *text);              /* NULL: null */
json_t *json_uuid(const uint8_t uuid[16]);           /* all zero, as where the header lacks it: null */

/* {"schema", "log"} of a report. */
json_t *json_report(const char *schema, const struct log *l, int *failed);
json_t *json_point(const struct report_point *p, int *failed);
json_t *json_counters(const struct counters *n, int *failed);
/* The eight counters, put into `object`. */
void json_put_counters(json_t *object, const struct counters *n, int *failed);
json_t *json_damage_list(const struct log *l, int *failed);

/* Prints it and a newline, as a whole or (-1: no memory) not at all. `flags` of jansson. */
int json_print(const json_t *value, size_t flags, FILE *out);
/* Writes and frees it. 0, or -1 after a message (only when memory is short; errors of writing show when the output ends). */
int json_write(json_t *document, int failed, FILE *out);

#endif
