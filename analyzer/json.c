#include "analyzer/json.h"
#include "analyzer/message.h"
#include "analyzer/units.h"
#include "analyzer/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void json_put(json_t *object, const char *key, json_t *value, int *failed)
{
    if (json_object_set_new_nocheck(object, key, value) != 0) *failed = 1;
}

void json_add(json_t *array, json_t *value, int *failed)
{
    if (json_array_append_new(array, value) != 0) *failed = 1;
}

json_t *json_u64(uint64_t v)
{
    char digits[24];

    if (v <= INT64_MAX) return json_integer((json_int_t)v);
    snprintf(digits, sizeof digits, "%" PRIu64, v);
    return json_string(digits);
}

json_t *json_delta(uint64_t to, uint64_t from)
{
    char digits[24];
    uint64_t size = to >= from ? to - from : from - to;

    if (size <= INT64_MAX) return json_integer(to >= from ? (json_int_t)size : -(json_int_t)size);
    snprintf(digits, sizeof digits, "%s%" PRIu64, to >= from ? "" : "-", size);
    return json_string(digits);
}

json_t *json_text(const char *bytes, size_t length)
{
    if (utf8_is_valid(bytes, length)) return json_stringn_nocheck(bytes, length);
    size_t scrubbed_length;
    char *scrubbed = utf8_scrub(bytes, length, &scrubbed_length);
    json_t *text = scrubbed ? json_stringn_nocheck(scrubbed, scrubbed_length) : NULL;
    free(scrubbed);
    return text;
}

json_t *json_cstring(const char *text)
{
    return text ? json_text(text, strlen(text)) : json_null();
}

/* Arguments, each ended by a zero byte. */
static json_t *command_line(const struct mpp_log_info *i, int *failed)
{
    json_t *list = json_array();

    for (size_t at = 0; at < i->command_line_bytes;) {
        size_t length = strnlen(i->command_line + at, i->command_line_bytes - at);
        json_add(list, json_text(i->command_line + at, length), failed);
        at += length + 1;
    }
    return list;
}

json_t *json_uuid(const uint8_t uuid[16])
{
    static const uint8_t none[16];
    char text[40];

    return memcmp(uuid, none, sizeof none) ? json_cstring(format_uuid(text, sizeof text, uuid)) : json_null();
}

json_t *json_report(const char *schema, const struct log *l, int *failed)
{
    json_t *document = json_object(), *log = json_object();
    char start[48];

    json_put(log, "path", json_cstring(l->path), failed);
    json_put(log, "uuid", json_uuid(l->info->uuid), failed);
    json_put(log, "start", json_cstring(format_wall(start, sizeof start, l->info->start_unix_ns, 0, 9)), failed);
    json_put(log, "duration_ns", json_u64(l->end_time_ns), failed);
    json_put(log, "clean_end", json_boolean(mpp_reader_has_footer(l->reader)), failed);
    json_put(log, "sample_period", json_u64(l->info->sample_period), failed);
    json_put(log, "pid", json_u64(l->info->pid), failed);
    json_put(log, "command_line", command_line(l->info, failed), failed);
    json_put(log, "ruby_version", json_cstring(l->info->ruby_version), failed);
    json_put(log, "damaged", json_boolean(mpp_reader_damage_count(l->reader) > 0), failed);
    json_put(document, "schema", json_string(schema), failed);
    json_put(document, "log", log, failed);
    return document;
}

json_t *json_point(const struct report_point *p, int *failed)
{
    json_t *point = json_object();

    json_put(point, "spec", json_cstring(p->spec), failed);
    json_put(point, "position", json_u64(p->position), failed);
    json_put(point, "time_ns", json_u64(p->time_ns), failed);
    return point;
}

void json_put_counters(json_t *object, const struct counters *n, int *failed)
{
    json_put(object, "live_objects", json_u64(counters_live_objects(n)), failed);
    json_put(object, "live_bytes", json_u64(counters_live_bytes(n)), failed);
    json_put(object, "allocated_objects", json_u64(n->allocated_objects), failed);
    json_put(object, "allocated_bytes", json_u64(n->allocated_bytes), failed);
    json_put(object, "freed_objects", json_u64(n->freed_objects), failed);
    json_put(object, "freed_bytes", json_u64(n->freed_bytes), failed);
    json_put(object, "unknown_objects", json_u64(n->unknown_objects), failed);
    json_put(object, "unknown_bytes", json_u64(n->unknown_bytes), failed);
}

json_t *json_counters(const struct counters *n, int *failed)
{
    json_t *object = json_object();

    json_put_counters(object, n, failed);
    return object;
}

json_t *json_damage_list(const struct log *l, int *failed)
{
    static const char *const kinds[] = {"header", "block", "payload", "record", "journal", "footer"};
    json_t *list = json_array();

    for (size_t i = 0; i < mpp_reader_damage_count(l->reader); i++) {
        const struct mpp_damage *d = mpp_reader_damage(l->reader, i);
        json_t *one = json_object();
        json_put(one, "kind", json_string(kinds[d->kind <= MPP_DAMAGE_FOOTER ? d->kind : MPP_DAMAGE_BLOCK]), failed);
        json_put(one, "offset", json_u64(d->offset), failed);
        json_put(one, "end_offset", json_u64(d->end_offset), failed);
        json_put(one, "sequence", json_u64(d->sequence), failed);
        json_put(one, "first_time_ns", json_u64(d->first_time_ns), failed);
        json_put(one, "last_time_ns", json_u64(d->last_time_ns), failed);
        json_put(one, "lost_allocs", d->counts_known ? json_u64(d->alloc_count) : json_null(), failed);
        json_put(one, "lost_frees", d->counts_known ? json_u64(d->free_count) : json_null(), failed);
        json_add(list, one, failed);
    }
    return list;
}

/* Printed JSON, as far as it has come. */
struct printed {
    char *bytes;
    size_t length, capacity;
    int failed; /* stays, since jansson passes over some failures */
};

static int take_printed(const char *bytes, size_t length, void *context)
{
    struct printed *p = context;

    if (!p->failed) p->failed = array_reserve((void **)&p->bytes, &p->capacity, p->length + length, 1);
    if (p->failed) return -1;
    if (length) memcpy(p->bytes + p->length, bytes, length);
    p->length += length;
    return 0;
}

int json_print(const json_t *value, size_t flags, FILE *out)
{
    /* As a whole before the first byte goes out: jansson allocates while it prints, and must not fail in the midst. */
    struct printed p = {.length = 0};
    int failed = json_dump_callback(value, take_printed, &p, flags) != 0 || take_printed("\n", 1, &p) != 0;

    /* A failure of writing leaves its mark on `out`, which is asked when it ends. */
    if (!failed) fwrite(p.bytes, 1, p.length, out);
    free(p.bytes);
    return failed ? -1 : 0;
}

int json_write(json_t *document, int failed, FILE *out)
{
    if (!failed && document) failed = json_print(document, JSON_INDENT(2), out);
    if (failed || !document) message("not enough memory for the report: --limit makes it smaller");
    json_decref(document);
    return failed || !document ? -1 : 0;
}
