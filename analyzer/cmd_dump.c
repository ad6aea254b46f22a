#include "analyzer/command.h"
#include "analyzer/json.h"
#include "analyzer/message.h"
#include "analyzer/term.h"
#include "analyzer/view.h"
#include <inttypes.h>
#include <string.h>

/* One record on its way out, in either form. */
struct line {
    const struct options *o;
    struct term term;
    json_t *json; /* NULL: text */
    int failed;
};

static void put_number(struct line *l, const char *name, uint64_t value)
{
    if (l->json) {
        json_put(l->json, name, json_u64(value), &l->failed);
    } else {
        fprintf(l->term.out, " %s=%" PRIu64, name, value);
    }
}

static void put_signed(struct line *l, const char *name, int64_t value)
{
    if (l->json) {
        json_put(l->json, name, json_integer(value), &l->failed);
    } else {
        fprintf(l->term.out, " %s=%" PRId64, name, value);
    }
}

static void put_text(struct line *l, const char *name, const unsigned char *bytes, size_t length)
{
    if (l->json) {
        json_put(l->json, name, json_text((const char *)bytes, length), &l->failed);
        return;
    }
    fprintf(l->term.out, " %s=\"", name);
    term_put(&l->term, (const char *)bytes, length);
    fputc('"', l->term.out);
}

static void put_pairs(struct line *l, const struct mpp_record *r)
{
    struct mpp_record rest = *r;
    uint64_t key, value;
    json_t *pairs = l->json ? json_object() : NULL;
    char number[24];

    while (mpp_record_pair(&rest, &key, &value)) {
        const char *name = r->kind == MPP_PROC ? mpp_proc_key_name(key) : mpp_gc_key_name(key);
        if (!name) {
            snprintf(number, sizeof number, "%" PRIu64, key);
            name = number;
        }
        if (pairs) {
            json_put(pairs, name, json_u64(value), &l->failed);
        } else {
            put_number(l, name, value);
        }
    }
    if (l->json) json_put(l->json, "statistics", pairs, &l->failed);
}

/* The fields of FORMAT.md §4 and §5, by name. */
static void put_event(struct line *l, const struct mpp_record *r)
{
    switch (r->kind) {
    case MPP_TIME:
        put_number(l, "delta_ns", r->a);
        break;
    case MPP_ALLOC_WEIGHTED:
    case MPP_ALLOC:
        put_number(l, "serial", r->serial);
        put_number(l, "site", r->site);
        if (r->kind == MPP_ALLOC_WEIGHTED) put_number(l, "weight", r->weight);
        break;
    case MPP_FREE:
        put_number(l, "serial", r->serial);
        break;
    case MPP_FREE_SIZED:
    case MPP_SIZE:
        put_number(l, "serial", r->serial);
        put_number(l, "size_bytes", r->size_bytes);
        break;
    case MPP_RECLASS:
        put_number(l, "serial", r->serial);
        put_number(l, "class", r->id);
        break;
    case MPP_LIVE:
        put_number(l, "serial", r->serial);
        put_number(l, "site", r->site);
        put_number(l, "size_bytes", r->size_bytes);
        put_number(l, "weight", r->weight);
        put_signed(l, "birth_time_ns", (int64_t)r->a);
        put_number(l, "age", r->b);
        break;
    case MPP_GC_START:
        put_number(l, "gc_count", r->a);
        put_number(l, "flags", r->b);
        break;
    case MPP_GC_END:
        put_number(l, "gc_count", r->a);
        put_pairs(l, r);
        break;
    case MPP_PROC:
        put_pairs(l, r);
        break;
    case MPP_MARK:
        put_text(l, "name", r->text, r->text_bytes);
        break;
    case MPP_GAP:
        put_number(l, "reason", r->a);
        break;
    case MPP_DROP:
        put_number(l, "count", r->a);
        put_number(l, "reason", r->b);
        break;
    case MPP_LABEL:
        put_number(l, "thread", r->id);
        put_number(l, "key", r->a);
        put_number(l, "value", r->b);
        break;
    case MPP_CLOCK:
        put_number(l, "unix_ns", r->a);
        break;
    case MPP_FOLDED:
        put_number(l, "site", r->site);
        put_number(l, "objects", r->a);
        put_number(l, "bytes", r->size_bytes);
        break;
    case MPP_SAMPLE_PERIOD:
        put_number(l, "period", r->a);
        break;
    case MPP_FORK:
        put_number(l, "child_pid", r->a);
        break;
    default:
        put_number(l, "first_byte", r->id);
        put_number(l, "length", r->text_bytes);
    }
}

static void put_definition(struct line *l, const struct mpp_record *r)
{
    put_number(l, "id", r->id);
    switch (r->kind) {
    case MPP_STRING:
        put_text(l, "text", r->text, r->text_bytes);
        break;
    case MPP_FUNCTION_NAME:
        put_number(l, "label", r->a);
        put_number(l, "path", r->b);
        put_number(l, "first_line", r->c);
        put_number(l, "flags", r->d);
        break;
    case MPP_STACK:
        put_number(l, "parent", r->a);
        put_number(l, "function", r->b);
        put_number(l, "line", r->c);
        break;
    case MPP_SITE:
        put_number(l, "stack", r->a);
        put_number(l, "class", r->b);
        put_number(l, "type", r->c);
        put_number(l, "thread", r->d);
        put_number(l, "birth_bytes", r->size_bytes);
        break;
    case MPP_CLASS_NAME:
        put_number(l, "string", r->a);
        put_number(l, "flags", r->b);
        break;
    default:
        put_number(l, "string", r->a);
    }
}

static int no_memory(void)
{
    message("not enough memory for the report");
    return -1;
}

/* `position` 0: the record is none of the history. 0, or -1 after a message. */
static int put_record(struct line *l, const struct mpp_record *r, uint64_t position, uint64_t time_ns)
{
    FILE *out = l->term.out;

    if (l->o->format == FORMAT_JSON) {
        l->json = json_object();
        if (!l->json) return no_memory();
        json_put(l->json, "position", position ? json_u64(position) : json_null(), &l->failed);
        json_put(l->json, "time_ns", json_u64(time_ns), &l->failed);
        json_put(l->json, "kind", json_string(mpp_record_kind_name(r->kind)), &l->failed);
    } else {
        if (position) {
            fprintf(out, "%10" PRIu64, position);
        } else {
            fprintf(out, "%10s", "-");
        }
        fprintf(out, " %13.6f %s", (double)time_ns / 1e9, mpp_record_kind_name(r->kind));
    }
    if (is_definition(r->kind)) {
        put_definition(l, r);
    } else {
        put_event(l, r);
    }
    if (l->o->format != FORMAT_JSON) {
        fputc('\n', out);
    } else if (!l->failed) {
        l->failed = json_print(l->json, JSON_COMPACT, out) != 0;
    }
    json_decref(l->json);
    l->json = NULL;
    return l->failed ? no_memory() : 0;
}

struct dump {
    struct history *h;
    size_t aside; /* blocks before it have been looked at for what is no history */
    uint64_t left;
    struct mpp_payload payload;
};

/* The records of PROC and DEFINITIONS blocks that stand before block `end`. 0, -1 after a message, or an error of formats. */
static int put_asides(struct dump *d, struct line *line, size_t end)
{
    struct mpp_reader *reader = d->h->log->reader;

    for (; d->aside < end; d->aside++) {
        const struct mpp_block_ref *b = mpp_reader_block(reader, d->aside);
        struct mpp_decoder decoder;
        struct mpp_record r;
        if (b->header.kind != MPP_BLOCK_PROC && b->header.kind != MPP_BLOCK_DEFINITIONS) continue;
        if (mpp_reader_payload(reader, d->aside, &d->payload)) continue; /* told when the log was opened */
        mpp_decoder_init(&decoder, d->payload.data, d->payload.bytes, b->header.first_serial, b->header.first_time_ns);
        while (d->left && mpp_decoder_next(&decoder, &r) == 1) {
            d->left--;
            if (put_record(line, &r, 0, decoder.time_ns)) return -1;
        }
    }
    return 0;
}

static int write_dump(const void *report, const struct options *o, struct output *out)
{
    struct history h;
    struct dump d = {.h = &h, .left = o->limit == 0 || o->limit == LIMIT_DEFAULT ? UINT64_MAX : o->limit};
    struct log *log = ((const struct view *)report)->replay.history.log;
    struct line line = {.o = o};
    struct mpp_record r;
    int got = 1, failed = 0;

    term_init(&line.term, o, out);
    history_init(&h, log);
    while (!failed && d.left && (got = history_next(&h, &r)) == 1) {
        if (o->all) failed = put_asides(&d, &line, h.block);
        if (failed || !d.left) break;
        d.left--;
        failed = put_record(&line, &r, h.position, h.time_ns);
    }
    if (o->all && !failed && got == 0) failed = put_asides(&d, &line, mpp_reader_block_count(log->reader));
    if (got < 0) history_fail(log, got);
    history_release(&h);
    mpp_payload_release(&d.payload);
    return failed || got < 0 ? -1 : 0;
}

int cmd_dump(const struct options *o)
{
    struct view v;

    if (view_open(&v, o)) return EXIT_FAILED;
    int failed = report_write(o, write_dump, &v);
    if (!failed) failed = view_finish(&v);
    view_close(&v);
    return failed ? EXIT_FAILED : EXIT_DONE;
}
