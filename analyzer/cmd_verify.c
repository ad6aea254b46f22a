#include "analyzer/command.h"
#include "analyzer/json.h"
#include "analyzer/message.h"
#include "analyzer/term.h"
#include "analyzer/units.h"
#include "analyzer/view.h"
#include "formats/mpp_writer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is wrong that reading does not mind. */
struct finding {
    const char *kind;
    uint64_t offset, end_offset, sequence;
};

struct verify {
    struct view *v;
    struct finding *findings;
    size_t count, capacity;
    uint64_t block_count, record_count;
};

static int add(struct verify *y, const char *kind, uint64_t offset, uint64_t end_offset, uint64_t sequence)
{
    if (array_reserve((void **)&y->findings, &y->capacity, y->count + 1, sizeof *y->findings)) return MPP_ERR_NO_MEMORY;
    y->findings[y->count++] = (struct finding){.kind = kind, .offset = offset, .end_offset = end_offset, .sequence = sequence};
    return 0;
}

/* The INDEX block: every block before it, as its header says. 0 or an error; *agrees. */
static int index_agrees(const struct log *l, size_t index, const struct mpp_payload *p)
{
    const unsigned char *at = p->data, *end = p->data + p->bytes;
    uint64_t count, offset = 0;

    at = mpp_get_varint(at, end, &count);
    if (!at || count != index) return 0;
    for (size_t i = 0; i < index; i++) {
        const struct mpp_block_ref *b = mpp_reader_block(l->reader, i);
        uint64_t v[7];
        for (int k = 0; k < 7; k++) {
            at = mpp_get_varint(at, end, &v[k]);
            if (!at) return 0;
        }
        offset += v[0];
        if (offset != b->offset || v[1] != b->header.kind || v[2] != b->header.sequence || v[3] != b->header.first_serial ||
            v[4] != b->header.first_time_ns || v[5] != b->header.last_time_ns || v[6] != b->header.record_count)
            return 0;
    }
    return at == end;
}

/* A sealed block's counts and last time against its records. */
static int check_block(struct verify *y, size_t i, const struct mpp_payload *p)
{
    const struct mpp_block_ref *b = mpp_reader_block(y->v->log.reader, i);
    struct mpp_block_header counted = b->header;
    uint64_t end = b->offset + b->header.header_bytes + b->header.stored_bytes;

    if (b->header.kind == MPP_BLOCK_INDEX) return index_agrees(&y->v->log, i, p) ? 0 : add(y, "index", b->offset, end, 0);
    if (b->header.kind > MPP_BLOCK_PROC) return 0;
    if (mpp_block_count(&counted, p->data, p->bytes)) return 0; /* a malformed record: reading tells */
    y->record_count += b->header.kind == MPP_BLOCK_EVENTS ? counted.record_count : 0;
    if (counted.record_count != b->header.record_count || counted.alloc_count != b->header.alloc_count || counted.free_count != b->header.free_count)
        return add(y, "counts", b->offset, end, b->header.sequence);
    if (b->header.kind == MPP_BLOCK_EVENTS && counted.record_count && counted.last_time_ns != b->header.last_time_ns)
        return add(y, "times", b->offset, end, b->header.sequence);
    return 0;
}

static int check_blocks(struct verify *y)
{
    struct mpp_payload p = {0};
    int error = 0;

    for (size_t i = 0; i < mpp_reader_block_count(y->v->log.reader) && !error; i++) {
        if (mpp_reader_block(y->v->log.reader, i)->in_journal) continue;
        y->block_count++;
        error = mpp_reader_payload(y->v->log.reader, i, &p);
        if (!error) {
            error = check_block(y, i, &p);
        } else if (error != MPP_ERR_NO_MEMORY && error != MPP_ERR_IO) {
            error = 0; /* damaged: reading tells */
        }
    }
    mpp_payload_release(&p);
    return error;
}

/* Reports the first nonzero byte of [from, to). 0 or an error. */
static int check_zero(struct verify *y, const struct mpp_source *s, const char *kind, uint64_t from, uint64_t to)
{
    unsigned char bytes[4096];

    while (from < to) {
        size_t wanted = to - from < sizeof bytes ? (size_t)(to - from) : sizeof bytes;
        int64_t got = s->read_at(s->context, bytes, wanted, from);
        if (got < 0) return MPP_ERR_IO;
        if (got == 0) return 0;
        for (int64_t i = 0; i < got; i++) {
            if (bytes[i]) return add(y, kind, from + (uint64_t)i, to, 0);
        }
        from += (uint64_t)got;
    }
    return 0;
}

/* The header's padding, and the journal after a clean end: zero. */
static int check_zeros(struct verify *y)
{
    const struct log *l = &y->v->log;
    const struct mpp_log_info *i = l->info;
    unsigned char fields[4];
    struct mpp_source s;
    int error = mpp_source_file(&s, l->path);

    if (error) return error;
    int64_t got = s.read_at(s.context, fields, sizeof fields, 28);
    for (size_t k = 0; k < mpp_reader_damage_count(l->reader); k++) {
        if (mpp_reader_damage(l->reader, k)->kind == MPP_DAMAGE_HEADER) goto done; /* its numbers mean nothing */
    }
    if (got == sizeof fields) {
        error = check_zero(y, &s, "header", MPP_HEADER_FIELDS_OFFSET + (uint64_t)mpp_get_u32(fields), i->header_bytes - 8);
    }
    if (!error && mpp_reader_has_footer(l->reader) && i->journal_half_count) {
        uint64_t journal_end = i->journal_offset + (uint64_t)i->journal_half_bytes * i->journal_half_count;
        error = check_zero(y, &s, "journal", i->journal_offset, journal_end);
    }
done:
    if (s.close) s.close(s.context);
    return error;
}

static int write_json(const struct verify *y, int ok, struct output *out)
{
    int failed = 0;
    json_t *document = json_report("mpp.verify/1", &y->v->log, &failed), *damage = json_damage_list(&y->v->log, &failed);

    for (size_t i = 0; i < y->count; i++) {
        const struct finding *f = &y->findings[i];
        json_t *one = json_object();
        json_put(one, "kind", json_string(f->kind), &failed);
        json_put(one, "offset", json_u64(f->offset), &failed);
        json_put(one, "end_offset", json_u64(f->end_offset), &failed);
        json_put(one, "sequence", json_u64(f->sequence), &failed);
        json_put(one, "first_time_ns", json_u64(0), &failed);
        json_put(one, "last_time_ns", json_u64(0), &failed);
        json_put(one, "lost_allocs", json_null(), &failed);
        json_put(one, "lost_frees", json_null(), &failed);
        json_add(damage, one, &failed);
    }
    json_put(document, "ok", json_boolean(ok), &failed);
    json_put(document, "block_count", json_u64(y->block_count), &failed);
    json_put(document, "record_count", json_u64(y->record_count), &failed);
    json_put(document, "damage", damage, &failed);
    return json_write(document, failed, out->file);
}

static int write_text(const struct verify *y, int ok, const struct options *o, struct output *out)
{
    static const char *const kinds[] = {"header", "block", "payload", "record", "journal", "footer"};
    const struct mpp_reader *reader = y->v->log.reader;
    struct term t;
    char from[32], to[32];

    term_init(&t, o, out);
    for (size_t i = 0; i < mpp_reader_damage_count(reader); i++) {
        const struct mpp_damage *d = mpp_reader_damage(reader, i);
        fprintf(t.out, "%-8s bytes %" PRIu64 " to %" PRIu64, kinds[d->kind <= MPP_DAMAGE_FOOTER ? d->kind : MPP_DAMAGE_BLOCK], d->offset,
                d->end_offset);
        if (d->sequence) fprintf(t.out, ", sequence %" PRIu64, d->sequence);
        fprintf(t.out, ", %s to %s", format_duration(from, sizeof from, d->first_time_ns), format_duration(to, sizeof to, d->last_time_ns));
        if (d->counts_known) fprintf(t.out, ", %" PRIu64 " allocations and %" PRIu64 " frees lost", d->alloc_count, d->free_count);
        fputc('\n', t.out);
    }
    for (size_t i = 0; i < y->count; i++) {
        fprintf(t.out, "%-8s bytes %" PRIu64 " to %" PRIu64 " do not agree with the rest\n", y->findings[i].kind, y->findings[i].offset,
                y->findings[i].end_offset);
    }
    fprintf(t.out, "%s%s", ok ? t.minus : t.plus, ok ? "ok: " : "damaged: ");
    term_put(&t, y->v->log.path, strlen(y->v->log.path));
    fprintf(t.out, "%s, %" PRIu64 " blocks, %" PRIu64 " records\n", t.plain, y->block_count, y->record_count);
    return 0;
}

static int is_ok(const struct verify *y)
{
    return y->count == 0 && mpp_reader_damage_count(y->v->log.reader) == 0;
}

static int write_verify(const void *report, const struct options *o, struct output *out)
{
    const struct verify *y = report;

    return o->format == FORMAT_JSON ? write_json(y, is_ok(y), out) : write_text(y, is_ok(y), o, out);
}

int cmd_verify(const struct options *o)
{
    struct view v;
    struct verify y = {.v = &v};
    int status = EXIT_FAILED;

    if (view_open(&v, o)) return EXIT_FAILED;
    int error = check_blocks(&y);
    if (!error) error = check_zeros(&y);
    if (error) {
        view_fail(&v, error);
    } else if (!view_finish(&v)) {
        /* A journal's records are no block's yet. */
        y.record_count = v.replay.history.position;
        if (!report_write(o, write_verify, &y) && is_ok(&y)) status = EXIT_DONE;
    }
    free(y.findings);
    view_close(&v);
    return status;
}
