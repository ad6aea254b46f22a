/* Opening a log and reading its payloads. What is damaged is reported and gone around; what cannot be read at all is an error. */
#include "bytes.h"
#include "mpp_reader.h"
#include "reader_parts.h"
#include "wire.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

/* How often the walk goes on when blocks have been sealed between it and the reading of the journal. */
#define WALKS 16

int mpp_reader_read(const struct mpp_reader *r, void *data, size_t bytes, uint64_t offset)
{
    int64_t got = r->source.read_at(r->source.context, data, bytes, offset);

    if (got < 0) return (int)got;
    return (uint64_t)got == bytes ? MPP_OK : MPP_ERR_TRUNCATED;
}

/* Makes room for one more element of `size` bytes behind `count`. */
static int reserve(void **array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return MPP_OK;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted > SIZE_MAX / size) return MPP_ERR_NO_MEMORY;
    void *grown = realloc(*array, wanted * size);
    if (!grown) return MPP_ERR_NO_MEMORY;
    *array = grown;
    *capacity = wanted;
    return MPP_OK;
}

int mpp_reader_add_block(struct mpp_reader *r, const struct mpp_block_ref *ref)
{
    void *blocks = r->blocks;
    int error = reserve(&blocks, r->block_count, &r->block_capacity, sizeof(*r->blocks));

    r->blocks = blocks;
    if (!error) r->blocks[r->block_count++] = *ref;
    return error;
}

int mpp_reader_add_damage(struct mpp_reader *r, const struct mpp_damage *damage)
{
    void *damages = r->damages;
    int error = reserve(&damages, r->damage_count, &r->damage_capacity, sizeof(*r->damages));

    r->damages = damages;
    if (!error) r->damages[r->damage_count++] = *damage;
    return error;
}

/* Reads the log's header; MPP_ERR_DAMAGED and MPP_ERR_TRUNCATED may still be gone around. */
static int read_log_header(struct mpp_reader *r)
{
    uint64_t wanted = MPP_HEADER_MIN_BYTES;
    unsigned char *bytes = malloc(MPP_HEADER_MIN_BYTES);

    if (!bytes) return MPP_ERR_NO_MEMORY;
    int64_t got = r->source.read_at(r->source.context, bytes, (size_t)wanted, 0);
    if (got == MPP_HEADER_MIN_BYTES) {
        wanted = mpp_get_u32(bytes + 12);
        if (wanted > MPP_HEADER_MIN_BYTES && wanted <= MPP_HEADER_MAX_BYTES && wanted <= r->log_bytes) {
            unsigned char *more = realloc(bytes, (size_t)wanted);
            if (!more) {
                free(bytes);
                return MPP_ERR_NO_MEMORY;
            }
            bytes = more;
            got = r->source.read_at(r->source.context, bytes, (size_t)wanted, 0);
        }
    }
    int error = got < 0 ? (int)got : mpp_log_header_decode(&r->info, bytes, (size_t)got);
    free(bytes);
    return error;
}

/* Looks for the footer at the log's present end. A footer that stands and is not sound is reported by settle_footer. */
static int find_footer(struct mpp_reader *r, struct mpp_footer *footer, int *footer_error)
{
    unsigned char bytes[MPP_FOOTER_BYTES];

    r->has_footer = 0;
    r->blocks_end = r->log_bytes;
    *footer_error = MPP_ERR_NOT_A_LOG;
    if (r->log_bytes < r->walked_to || r->log_bytes - r->walked_to < MPP_FOOTER_BYTES) return MPP_OK;
    int error = mpp_reader_read(r, bytes, sizeof(bytes), r->log_bytes - MPP_FOOTER_BYTES);
    if (error) return error;
    *footer_error = mpp_footer_decode(footer, bytes);
    if (*footer_error == MPP_ERR_NOT_A_LOG) return MPP_OK;
    r->blocks_end = r->log_bytes - MPP_FOOTER_BYTES;
    r->has_footer = *footer_error == MPP_OK;
    return MPP_OK;
}

/* Reports a footer that does not fit, and takes its end time. */
static int settle_footer(struct mpp_reader *r, const struct mpp_footer *footer, int footer_error)
{
    struct mpp_damage damage = {.kind = MPP_DAMAGE_FOOTER, .offset = r->blocks_end, .end_offset = r->log_bytes};

    damage.first_time_ns = damage.last_time_ns = r->end_time_ns;
    if (footer_error == MPP_ERR_NOT_A_LOG) return MPP_OK;
    if (footer_error) return mpp_reader_add_damage(r, &damage);
    r->footer_time_ns = footer->end_time_ns;
    if (footer->end_time_ns > r->end_time_ns) r->end_time_ns = footer->end_time_ns;
    for (size_t i = r->block_count; i-- > 0;) {
        const struct mpp_block_ref *ref = &r->blocks[i];
        if (ref->offset == footer->index_offset && ref->header.kind == MPP_BLOCK_INDEX && !ref->in_journal) return MPP_OK;
    }
    /* An index that is lost has been reported already. */
    for (size_t i = 0; i < r->damage_count; i++)
        if (footer->index_offset >= r->damages[i].offset && footer->index_offset < r->damages[i].end_offset) return MPP_OK;
    return mpp_reader_add_damage(r, &damage);
}

/* Whether the bytes behind the last sound block are a write() in whose midst the process was killed, and which has cost nothing: the journal goes on,
 * and the block, where its header tells which one it is, has been read from there. */
static int journal_has_tail(const struct mpp_reader *r)
{
    const struct mpp_block_header *tail = &r->tail.header;

    if (r->has_footer || r->half_count == 0) return 0;
    if (!r->tail.header_known || tail->kind != MPP_BLOCK_EVENTS) return 1;
    for (size_t i = r->block_count; i-- > 0;)
        if (r->blocks[i].header.kind == MPP_BLOCK_EVENTS && r->blocks[i].header.sequence == tail->sequence) return 1;
    return 0;
}

static int settle_tail(struct mpp_reader *r)
{
    struct mpp_damage damage = {.kind = MPP_DAMAGE_BLOCK, .offset = r->tail.offset, .end_offset = r->blocks_end};
    const struct mpp_block_header *h = &r->tail.header;

    if (!r->tail.present || journal_has_tail(r)) return MPP_OK;
    damage.first_time_ns = r->reached_time_ns;
    damage.last_time_ns = r->end_time_ns > r->reached_time_ns ? r->end_time_ns : r->reached_time_ns;
    if (r->tail.header_known) {
        damage.sequence = h->sequence;
        damage.alloc_count = h->alloc_count;
        damage.free_count = h->free_count;
        damage.counts_known = 1;
        mpp_damage_set_span(&damage, h);
    }
    return mpp_reader_add_damage(r, &damage);
}

/* A log that ends before its blocks begin. */
static int settle_length(struct mpp_reader *r)
{
    struct mpp_damage damage = {
        .kind = r->info.journal_half_count ? MPP_DAMAGE_JOURNAL : MPP_DAMAGE_BLOCK, .offset = r->log_bytes, .end_offset = r->info.first_block_offset};

    if (r->salvaged || r->log_bytes >= r->info.first_block_offset) return MPP_OK;
    return mpp_reader_add_damage(r, &damage);
}

/* Blocks and journal, until the two fit together: a log that is being written moves from one to the other. */
static int read_history(struct mpp_reader *r)
{
    struct mpp_footer footer;
    int footer_error, unsettled;

    for (int walk = 0;; walk++) {
        int error = find_footer(r, &footer, &footer_error);
        if (!error) error = mpp_walk_blocks(r);
        if (!error) error = mpp_journal_read(r, &unsettled);
        if (error) return error;
        if (!unsettled || walk + 1 == WALKS) break;
        int64_t bytes = r->source.size(r->source.context);
        if (bytes < 0) return (int)bytes;
        if ((uint64_t)bytes <= r->log_bytes) break;
        r->log_bytes = (uint64_t)bytes;
        mpp_journal_forget(r);
    }
    if (r->half_count) {
        const struct mpp_block_header *first = &r->blocks[r->block_count - r->half_count].header;
        mpp_walk_bound_damages(r, first->sequence, first->first_serial, first->first_time_ns);
    } else {
        mpp_walk_bound_damages(r, 0, 0, r->end_time_ns);
    }
    int error = settle_tail(r);
    if (!error) error = settle_length(r);
    if (!error) error = settle_footer(r, &footer, footer_error);
    return error;
}

/* Prepares for a log whose header cannot be believed. */
static int start_salvage(struct mpp_reader *r)
{
    struct mpp_damage damage = {.kind = MPP_DAMAGE_HEADER, .end_offset = MPP_HEADER_MIN_BYTES};

    r->salvaged = 1;
    r->info.version_major = MPP_VERSION_MAJOR;
    r->info.sample_period = 1;
    r->info.first_block_offset = MPP_HEADER_MIN_BYTES;
    int error = mpp_reader_add_damage(r, &damage);
    r->open_damages = r->damage_count;
    return error;
}

/* Takes what META repeats of the header. That it is damaged too is for the reader of all blocks to find. */
static int use_meta(struct mpp_reader *r)
{
    struct mpp_payload payload = {0};
    int error = MPP_OK;

    r->info.first_block_offset = r->damages[0].end_offset = r->blocks[0].offset;
    for (size_t i = 0; i < r->block_count; i++) {
        if (r->blocks[i].header.kind != MPP_BLOCK_META || r->blocks[i].in_journal) continue;
        error = mpp_reader_payload(r, i, &payload);
        if (!error) error = mpp_log_fields_decode(&r->info, payload.data, payload.bytes);
        break;
    }
    mpp_payload_release(&payload);
    return error == MPP_ERR_NO_MEMORY || error == MPP_ERR_IO ? error : MPP_OK;
}

static int open_log(struct mpp_reader *r)
{
    int64_t bytes = r->source.size(r->source.context);

    if (bytes < 0) return (int)bytes;
    if (bytes == 0) return MPP_ERR_EMPTY;
    r->log_bytes = (uint64_t)bytes;
    int header_error = read_log_header(r);
    if (header_error && ((header_error != MPP_ERR_DAMAGED && header_error != MPP_ERR_TRUNCATED) || r->log_bytes < MPP_HEADER_MIN_BYTES))
        return header_error;
    int error = header_error ? start_salvage(r) : MPP_OK;
    if (error) return error;
    r->walked_to = r->info.first_block_offset;
    error = read_history(r);
    if (error || !header_error) return error;
    return r->block_count ? use_meta(r) : header_error;
}

int mpp_reader_open(struct mpp_reader **out, const struct mpp_source *source)
{
    struct mpp_reader *r = calloc(1, sizeof(*r));

    if (!r) {
        if (source->close) source->close(source->context);
        return MPP_ERR_NO_MEMORY;
    }
    r->source = *source;
    int error = open_log(r);
    if (error) {
        mpp_reader_free(r);
        return error;
    }
    *out = r;
    return MPP_OK;
}

void mpp_reader_free(struct mpp_reader *r)
{
    if (!r) return;
    if (r->source.close) r->source.close(r->source.context);
    mpp_log_info_release(&r->info);
    for (size_t i = 0; i < r->half_count; i++) free(r->halves[i].data);
    free(r->blocks);
    free(r->damages);
    free(r);
}

const struct mpp_log_info *mpp_reader_info(const struct mpp_reader *r)
{
    return &r->info;
}

size_t mpp_reader_block_count(const struct mpp_reader *r)
{
    return r->block_count;
}

const struct mpp_block_ref *mpp_reader_block(const struct mpp_reader *r, size_t i)
{
    return i < r->block_count ? &r->blocks[i] : NULL;
}

uint64_t mpp_reader_log_bytes(const struct mpp_reader *r)
{
    return r->log_bytes;
}

int mpp_reader_has_footer(const struct mpp_reader *r)
{
    return r->has_footer;
}

uint64_t mpp_reader_end_time_ns(const struct mpp_reader *r)
{
    return r->end_time_ns;
}

uint64_t mpp_reader_footer_time_ns(const struct mpp_reader *r)
{
    return r->footer_time_ns;
}

size_t mpp_reader_damage_count(const struct mpp_reader *r)
{
    return r->damage_count;
}

const struct mpp_damage *mpp_reader_damage(const struct mpp_reader *r, size_t i)
{
    return i < r->damage_count ? &r->damages[i] : NULL;
}

void mpp_payload_release(struct mpp_payload *p)
{
    free(p->data);
    free(p->stored);
    ZSTD_freeDCtx(p->decompressor);
    *p = (struct mpp_payload){0};
}

/* Room for `bytes` bytes; what stood there is gone. */
static int make_room(unsigned char **data, size_t *capacity, size_t bytes)
{
    if (*data && bytes <= *capacity) return MPP_OK;
    free(*data);
    *data = malloc(bytes ? bytes : 1);
    *capacity = *data ? bytes : 0;
    return *data ? MPP_OK : MPP_ERR_NO_MEMORY;
}

/* Decompresses p->stored to exactly h->raw_bytes. */
static int decompress(const struct mpp_block_header *h, struct mpp_payload *p)
{
    if (!p->decompressor) p->decompressor = ZSTD_createDCtx();
    if (!p->decompressor) return MPP_ERR_NO_MEMORY;
    /* One frame: zstd itself would go on to a second one. */
    if (ZSTD_findFrameCompressedSize(p->stored, h->stored_bytes) != h->stored_bytes) return MPP_ERR_DAMAGED;
    int error = make_room(&p->data, &p->data_capacity, h->raw_bytes);
    if (error) return error;
    size_t raw_bytes = ZSTD_decompressDCtx(p->decompressor, p->data, h->raw_bytes, p->stored, h->stored_bytes);
    return raw_bytes == h->raw_bytes ? MPP_OK : MPP_ERR_DAMAGED;
}

int mpp_reader_payload(const struct mpp_reader *r, size_t i, struct mpp_payload *p)
{
    p->bytes = 0;
    if (i >= r->block_count) return MPP_ERR_INVALID;
    const struct mpp_block_ref *ref = &r->blocks[i];
    const struct mpp_block_header *h = &ref->header;
    int error;

    if (ref->in_journal) {
        const struct mpp_half_copy *half = &r->halves[i - (r->block_count - r->half_count)];
        error = make_room(&p->data, &p->data_capacity, half->bytes);
        if (error) return error;
        memcpy(p->data, half->data, half->bytes);
        p->bytes = half->bytes;
        return MPP_OK;
    }
    int is_compressed = h->compression == MPP_COMPRESSION_ZSTD;
    if (!is_compressed && (h->compression != MPP_COMPRESSION_NONE || h->stored_bytes != h->raw_bytes)) return MPP_ERR_DAMAGED;
    /* The walk has seen that the file holds stored_bytes, and that both lengths are within the format's limits. */
    error = is_compressed ? make_room(&p->stored, &p->stored_capacity, h->stored_bytes) : make_room(&p->data, &p->data_capacity, h->raw_bytes);
    if (error) return error;
    unsigned char *stored = is_compressed ? p->stored : p->data;
    error = mpp_reader_read(r, stored, h->stored_bytes, ref->offset + h->header_bytes);
    if (error == MPP_ERR_TRUNCATED || (!error && XXH3_64bits(stored, h->stored_bytes) != h->payload_checksum)) return MPP_ERR_DAMAGED;
    if (!error && is_compressed) error = decompress(h, p);
    if (!error) p->bytes = h->raw_bytes;
    return error;
}
