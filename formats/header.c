/* The log's header, a half's header and the footer: FORMAT.md §1, §3, §6. */
#include "bytes.h"
#include "mpp_reader.h"
#include "mpp_writer.h"
#include "wire.h"
#include <stdlib.h>
#include <xxhash.h>

enum field_tag {
    TAG_UUID = 1,
    TAG_PID,
    TAG_PPID,
    TAG_PARENT_UUID,
    TAG_FORK_SEQUENCE,
    TAG_FORK_BYTES,
    TAG_FORK_SERIAL,
    TAG_START_UNIX_NS,
    TAG_START_MONOTONIC_NS,
    TAG_UTC_OFFSET_S,
    TAG_RUBY_VERSION,
    TAG_RUBY_DESCRIPTION,
    TAG_COMMAND_LINE,
    TAG_SAMPLE_PERIOD,
    TAG_RECORDER_VERSION,
    TAG_JOURNAL_MODE,
    TAG_MAX_DEPTH
};

/* Where fields go: `out` NULL measures. */
struct field_writer {
    unsigned char *out;
    size_t bytes;
};

static void put_field(struct field_writer *w, enum field_tag tag, const void *data, size_t bytes)
{
    unsigned char prefix[2 * MPP_VARINT_MAX_BYTES];
    size_t prefix_bytes = (size_t)(mpp_put_varint(mpp_put_varint(prefix, tag), bytes) - prefix);

    if (w->out) {
        memcpy(w->out + w->bytes, prefix, prefix_bytes);
        if (bytes) memcpy(w->out + w->bytes + prefix_bytes, data, bytes);
    }
    w->bytes += prefix_bytes + bytes;
}

static void put_number(struct field_writer *w, enum field_tag tag, uint64_t number)
{
    unsigned char data[MPP_VARINT_MAX_BYTES];

    put_field(w, tag, data, (size_t)(mpp_put_varint(data, number) - data));
}

static void put_text(struct field_writer *w, enum field_tag tag, const char *text)
{
    if (text) put_field(w, tag, text, strlen(text));
}

size_t mpp_log_fields_encode(const struct mpp_log_info *info, unsigned char *out)
{
    struct field_writer w = {out, 0};

    put_field(&w, TAG_UUID, info->uuid, sizeof(info->uuid));
    put_number(&w, TAG_PID, info->pid);
    put_number(&w, TAG_PPID, info->ppid);
    if (info->has_parent) {
        put_field(&w, TAG_PARENT_UUID, info->parent_uuid, sizeof(info->parent_uuid));
        put_number(&w, TAG_FORK_SEQUENCE, info->fork_sequence);
        put_number(&w, TAG_FORK_BYTES, info->fork_bytes);
        put_number(&w, TAG_FORK_SERIAL, info->fork_serial);
    }
    put_number(&w, TAG_START_UNIX_NS, info->start_unix_ns);
    put_number(&w, TAG_START_MONOTONIC_NS, info->start_monotonic_ns);
    put_number(&w, TAG_UTC_OFFSET_S, mpp_zigzag(info->utc_offset_s));
    put_text(&w, TAG_RUBY_VERSION, info->ruby_version);
    put_text(&w, TAG_RUBY_DESCRIPTION, info->ruby_description);
    if (info->command_line) put_field(&w, TAG_COMMAND_LINE, info->command_line, info->command_line_bytes);
    put_number(&w, TAG_SAMPLE_PERIOD, info->sample_period ? info->sample_period : 1);
    put_text(&w, TAG_RECORDER_VERSION, info->recorder_version);
    put_number(&w, TAG_JOURNAL_MODE, info->journal_mode);
    put_number(&w, TAG_MAX_DEPTH, info->max_depth);
    return w.bytes;
}

size_t mpp_log_header_bytes(const struct mpp_log_info *info)
{
    size_t bytes = MPP_HEADER_FIELDS_OFFSET + mpp_log_fields_encode(info, NULL) + 8;

    return (bytes + MPP_PAGE_BYTES - 1) / MPP_PAGE_BYTES * MPP_PAGE_BYTES;
}

int mpp_log_header_encode(const struct mpp_log_info *info, unsigned char *out, size_t bytes)
{
    size_t needed = mpp_log_header_bytes(info);

    if (needed > MPP_HEADER_MAX_BYTES) return MPP_ERR_TOO_LARGE;
    if (bytes < needed || bytes > MPP_HEADER_MAX_BYTES || bytes % MPP_PAGE_BYTES != 0) return MPP_ERR_INVALID;
    memset(out, 0, bytes);
    memcpy(out, MPP_LOG_MAGIC, sizeof(MPP_LOG_MAGIC));
    mpp_put_u16(out + 8, MPP_VERSION_MAJOR);
    mpp_put_u16(out + 10, MPP_VERSION_MINOR);
    mpp_put_u32(out + 12, (uint32_t)bytes);
    mpp_put_u32(out + 16, info->journal_offset);
    mpp_put_u32(out + 20, info->journal_half_bytes);
    mpp_put_u32(out + 24, info->journal_half_count);
    mpp_put_u64(out + 32, info->first_block_offset);
    mpp_put_u32(out + 28, (uint32_t)mpp_log_fields_encode(info, out + MPP_HEADER_FIELDS_OFFSET));
    mpp_put_u64(out + bytes - 8, XXH3_64bits(out, bytes - 8));
    return MPP_OK;
}

/* Replaces *to by a copy of the field that ends in a zero byte. */
static int copy_text(char **to, const unsigned char *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);

    if (!copy) return MPP_ERR_NO_MEMORY;
    if (bytes) memcpy(copy, data, bytes);
    copy[bytes] = 0;
    free(*to);
    *to = copy;
    return MPP_OK;
}

static int copy_uuid(uint8_t to[16], const unsigned char *data, size_t bytes)
{
    if (bytes != 16) return MPP_ERR_DAMAGED;
    memcpy(to, data, 16);
    return MPP_OK;
}

/* A number is a varint that fills its field. */
static int copy_number(uint64_t *to, const unsigned char *data, size_t bytes)
{
    uint64_t v = 0;

    if (mpp_get_varint(data, data + bytes, &v) != data + bytes) return MPP_ERR_DAMAGED;
    *to = v;
    return MPP_OK;
}

static int set_field(struct mpp_log_info *info, uint64_t tag, const unsigned char *data, size_t bytes)
{
    uint64_t v = 0;
    int error;

    switch (tag) {
    case TAG_UUID:
        return copy_uuid(info->uuid, data, bytes);
    case TAG_PID:
        return copy_number(&info->pid, data, bytes);
    case TAG_PPID:
        return copy_number(&info->ppid, data, bytes);
    case TAG_PARENT_UUID:
        info->has_parent = 1;
        return copy_uuid(info->parent_uuid, data, bytes);
    case TAG_FORK_SEQUENCE:
        return copy_number(&info->fork_sequence, data, bytes);
    case TAG_FORK_BYTES:
        return copy_number(&info->fork_bytes, data, bytes);
    case TAG_FORK_SERIAL:
        return copy_number(&info->fork_serial, data, bytes);
    case TAG_START_UNIX_NS:
        return copy_number(&info->start_unix_ns, data, bytes);
    case TAG_START_MONOTONIC_NS:
        return copy_number(&info->start_monotonic_ns, data, bytes);
    case TAG_UTC_OFFSET_S:
        error = copy_number(&v, data, bytes);
        info->utc_offset_s = mpp_unzigzag(v);
        return error;
    case TAG_RUBY_VERSION:
        return copy_text(&info->ruby_version, data, bytes);
    case TAG_RUBY_DESCRIPTION:
        return copy_text(&info->ruby_description, data, bytes);
    case TAG_COMMAND_LINE:
        info->command_line_bytes = bytes;
        return copy_text(&info->command_line, data, bytes);
    case TAG_SAMPLE_PERIOD:
        error = copy_number(&v, data, bytes);
        info->sample_period = v ? v : 1;
        return error;
    case TAG_RECORDER_VERSION:
        return copy_text(&info->recorder_version, data, bytes);
    case TAG_JOURNAL_MODE:
        return copy_number(&info->journal_mode, data, bytes);
    case TAG_MAX_DEPTH:
        return copy_number(&info->max_depth, data, bytes);
    default:
        return MPP_OK; /* a later version's */
    }
}

int mpp_log_fields_decode(struct mpp_log_info *out, const unsigned char *bytes, size_t count)
{
    struct mpp_log_info info = {
        .version_major = out->version_major,
        .version_minor = out->version_minor,
        .header_bytes = out->header_bytes,
        .journal_offset = out->journal_offset,
        .journal_half_bytes = out->journal_half_bytes,
        .journal_half_count = out->journal_half_count,
        .first_block_offset = out->first_block_offset,
        .sample_period = 1,
    };
    const unsigned char *p = bytes, *end = bytes + count;
    int error = MPP_OK;

    while (p < end) {
        uint64_t tag, field_bytes;
        p = mpp_get_varint(p, end, &tag);
        if (p) p = mpp_get_varint(p, end, &field_bytes);
        if (!p || field_bytes > (uint64_t)(end - p)) {
            error = MPP_ERR_DAMAGED;
            break;
        }
        error = set_field(&info, tag, p, (size_t)field_bytes);
        if (error) break;
        p += field_bytes;
    }
    if (error) {
        mpp_log_info_release(&info);
        return error;
    }
    *out = info;
    return MPP_OK;
}

/* Whether the offsets and lengths of the fixed part can be true together. */
static int layout_is_possible(const struct mpp_log_info *info)
{
    if (info->first_block_offset < info->header_bytes || info->first_block_offset > INT64_MAX) return 0;
    if (info->journal_half_count == 0 || info->journal_half_bytes == 0 || info->journal_offset == 0)
        return info->journal_half_count == 0 && info->journal_half_bytes == 0 && info->journal_offset == 0;
    if (info->journal_offset % MPP_PAGE_BYTES != 0 || info->journal_offset < info->header_bytes) return 0;
    if (info->journal_half_bytes % MPP_PAGE_BYTES != 0 || info->journal_half_bytes > MPP_HALF_MAX_BYTES) return 0;
    if (info->journal_half_count > MPP_HALF_MAX_COUNT) return 0;
    return info->first_block_offset >= info->journal_offset + (uint64_t)info->journal_half_bytes * info->journal_half_count;
}

int mpp_log_header_decode(struct mpp_log_info *out, const unsigned char *bytes, size_t available)
{
    size_t magic_bytes = available < sizeof(MPP_LOG_MAGIC) ? available : sizeof(MPP_LOG_MAGIC);
    struct mpp_log_info info = {0};

    if (available == 0) return MPP_ERR_EMPTY;
    if (memcmp(bytes, MPP_LOG_MAGIC, magic_bytes) != 0) return MPP_ERR_NOT_A_LOG;
    if (available < MPP_HEADER_FIELDS_OFFSET) return MPP_ERR_TRUNCATED;
    info.version_major = mpp_get_u16(bytes + 8);
    info.version_minor = mpp_get_u16(bytes + 10);
    /* Before the checksum: a later version may have put it elsewhere. */
    if (info.version_major > MPP_VERSION_MAJOR) return MPP_ERR_VERSION;
    info.header_bytes = mpp_get_u32(bytes + 12);
    if (info.header_bytes < MPP_HEADER_MIN_BYTES || info.header_bytes > MPP_HEADER_MAX_BYTES || info.header_bytes % MPP_PAGE_BYTES != 0)
        return MPP_ERR_DAMAGED;
    if (available < info.header_bytes) return MPP_ERR_TRUNCATED;
    if (mpp_get_u64(bytes + info.header_bytes - 8) != XXH3_64bits(bytes, info.header_bytes - 8)) return MPP_ERR_DAMAGED;
    if (info.version_major == 0) return MPP_ERR_DAMAGED;
    info.journal_offset = mpp_get_u32(bytes + 16);
    info.journal_half_bytes = mpp_get_u32(bytes + 20);
    info.journal_half_count = mpp_get_u32(bytes + 24);
    info.first_block_offset = mpp_get_u64(bytes + 32);
    if (!layout_is_possible(&info)) return MPP_ERR_DAMAGED;

    uint32_t fields_bytes = mpp_get_u32(bytes + 28);
    if (fields_bytes > info.header_bytes - 8 - MPP_HEADER_FIELDS_OFFSET) return MPP_ERR_DAMAGED;
    int error = mpp_log_fields_decode(&info, bytes + MPP_HEADER_FIELDS_OFFSET, fields_bytes);
    if (error == MPP_OK) *out = info;
    return error;
}

void mpp_log_info_release(struct mpp_log_info *info)
{
    free(info->ruby_version);
    free(info->ruby_description);
    free(info->recorder_version);
    free(info->command_line);
    info->ruby_version = info->ruby_description = info->recorder_version = info->command_line = NULL;
    info->command_line_bytes = 0;
}

void mpp_half_header_encode(unsigned char out[MPP_HALF_HEADER_BYTES], uint64_t sequence, uint64_t first_serial, uint64_t first_time_ns)
{
    memset(out, 0, MPP_HALF_HEADER_BYTES);
    memcpy(out, MPP_HALF_MAGIC, sizeof(MPP_HALF_MAGIC));
    mpp_put_u64(out + 8, sequence);
    mpp_put_u64(out + 16, first_serial);
    mpp_put_u64(out + 24, first_time_ns);
    mpp_put_u64(out + 40, XXH3_64bits(out, 40));
}

void mpp_half_header_decode(struct mpp_half_header *out, const unsigned char bytes[MPP_HALF_HEADER_BYTES])
{
    out->sequence = mpp_get_u64(bytes + 8);
    out->first_serial = mpp_get_u64(bytes + 16);
    out->first_time_ns = mpp_get_u64(bytes + 24);
    out->commit_word = mpp_get_u64(bytes + MPP_HALF_COMMIT_OFFSET);
    out->sound = memcmp(bytes, MPP_HALF_MAGIC, sizeof(MPP_HALF_MAGIC)) == 0 && mpp_get_u64(bytes + 40) == XXH3_64bits(bytes, 40) &&
                 out->first_time_ns <= MPP_MAX_TIME_NS;
}

void mpp_footer_encode(const struct mpp_footer *footer, unsigned char out[MPP_FOOTER_BYTES])
{
    memcpy(out, MPP_FOOTER_MAGIC, sizeof(MPP_FOOTER_MAGIC));
    mpp_put_u64(out + 8, footer->index_offset);
    mpp_put_u64(out + 16, footer->end_time_ns);
    mpp_put_u64(out + 24, XXH3_64bits(out, 24));
}

int mpp_footer_decode(struct mpp_footer *out, const unsigned char bytes[MPP_FOOTER_BYTES])
{
    if (memcmp(bytes, MPP_FOOTER_MAGIC, sizeof(MPP_FOOTER_MAGIC)) != 0) return MPP_ERR_NOT_A_LOG;
    if (mpp_get_u64(bytes + 24) != XXH3_64bits(bytes, 24) || mpp_get_u64(bytes + 16) > MPP_MAX_TIME_NS) return MPP_ERR_DAMAGED;
    out->index_offset = mpp_get_u64(bytes + 8);
    out->end_time_ns = mpp_get_u64(bytes + 16);
    return MPP_OK;
}
