/* Property: the validator never crashes and gives a reason whenever it refuses; and whatever is put into a builder, the profile that comes out
 * is valid when it is read again. Input: bytes of a profile when the first is even; else commands for a builder. */
#include "formats/mpp_pprof.h"
#include "fuzz.h"
#include <string.h>
#include <zlib.h>

static void validate(const uint8_t *data, size_t size)
{
    const char *why = NULL;
    uint8_t *copy = malloc(size ? size : 1); /* of its exact length */

    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    int error = mpp_pprof_validate(copy, size, &why);
    FUZZ_CHECK(error == MPP_OK || error == MPP_ERR_MALFORMED || error == MPP_ERR_INVALID);
    FUZZ_CHECK(error == MPP_OK || (why && *why));
    free(copy);
}

/* Unpacks what a builder made; malloc'ed. */
static uint8_t *gunzip(const uint8_t *data, size_t bytes, size_t *raw_bytes)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
    size_t capacity = (size_t)1 << 22;
    uint8_t *raw = malloc(capacity);

    if (!raw || inflateInit2(&z, 15 + 16) != Z_OK) abort();
    z.next_out = raw;
    z.avail_out = (uInt)capacity;
    FUZZ_CHECK(inflate(&z, Z_FINISH) == Z_STREAM_END);
    *raw_bytes = capacity - z.avail_out;
    inflateEnd(&z);
    return raw;
}

/* A text of up to 15 bytes, taken from the input; may be no UTF-8. */
static const char *take_text(const uint8_t **at, const uint8_t *end, char text[16])
{
    size_t length = *at < end ? *(*at)++ & 15 : 0;

    if (length > (size_t)(end - *at)) length = (size_t)(end - *at);
    memcpy(text, *at, length);
    text[length] = 0;
    *at += length;
    return text;
}

static int64_t take_number(const uint8_t **at, const uint8_t *end)
{
    uint64_t v = 0;

    for (int i = 0; i < 8 && *at < end; i++) v = v << 8 | *(*at)++;
    return (int64_t)v;
}

static int command(struct mpp_pprof *p, const uint8_t **at, const uint8_t *end, uint64_t *last)
{
    char a[16], b[16];
    int error = 0;

    switch (*(*at)++ % 6) {
    case 0:
        mpp_pprof_set_time(p, take_number(at, end), take_number(at, end));
        mpp_pprof_set_period(p, take_number(at, end));
        return 0;
    case 1:
        return mpp_pprof_add_comment(p, take_text(at, end, a));
    case 2:
        return mpp_pprof_set_mapping(p, take_text(at, end, a));
    case 3: {
        const char *function = take_text(at, end, a), *path = take_text(at, end, b);
        int64_t first_line = take_number(at, end), line = take_number(at, end);
        uint64_t id = mpp_pprof_location(p, function, path, first_line, line, &error);
        FUZZ_CHECK(id ? mpp_pprof_location(p, function, path, first_line, line, &error) == id : error < 0);
        if (id > *last) *last = id;
        return id ? 0 : error;
    }
    default: {
        uint64_t locations[8];
        int64_t values[MPP_PPROF_VALUES];
        size_t depth = *last ? (size_t)(take_number(at, end) & 7) : 0;
        for (size_t i = 0; i < depth; i++) locations[i] = 1 + (uint64_t)take_number(at, end) % *last;
        for (int i = 0; i < MPP_PPROF_VALUES; i++) values[i] = take_number(at, end);
        struct mpp_pprof_label labels[2] = {{.key = take_text(at, end, a), .text = take_text(at, end, b)},
                                            {.key = "n", .number = take_number(at, end), .unit = *at < end && (**at & 1) ? a : NULL}};
        return mpp_pprof_add_sample(p, locations, depth, values, labels, *at < end ? **at % 3 : 0);
    }
    }
}

static void build(const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    struct mpp_pprof *p = NULL;
    unsigned char *data = NULL;
    const char *why = NULL;
    size_t bytes = 0, raw_bytes;
    uint64_t last = 0;
    int error = 0;

    if (mpp_pprof_new(&p)) abort();
    while (at < end && !error) error = command(p, &at, end, &last);
    FUZZ_CHECK(error == 0 || error == MPP_ERR_INVALID || error == MPP_ERR_TOO_LARGE);
    error = mpp_pprof_encode(p, &data, &bytes, &why);
    FUZZ_CHECK(error == 0 || (error == MPP_ERR_INVALID && why && *why));
    if (!error) {
        uint8_t *raw = gunzip(data, bytes, &raw_bytes);
        FUZZ_CHECK(mpp_pprof_validate(raw, raw_bytes, &why) == MPP_OK);
        free(raw);
    }
    free(data);
    mpp_pprof_free(p);
}

FUZZ_TARGET(pprof)
{
    if (size == 0 || size > 65536) return 0;
    if (data[0] & 1) {
        build(data + 1, size - 1);
    } else {
        validate(data + 1, size - 1);
    }
    return 0;
}
