/* Encoders of records: FORMAT.md §4. Each writes at `p`, which must have room for MPP_RECORD_MAX_BYTES (plus the string's bytes
 * where it takes one), and returns the byte behind the record. They know no buffer and no state; the caller keeps serials, bases and time. */
#ifndef MPP_RECORD_ENCODE_H
#define MPP_RECORD_ENCODE_H

#include "bytes.h"
#include "mpp_format.h"

/* Room that any record without a string or list needs: LIVE is the longest, 1 + 6 varints. */
#define MPP_RECORD_MAX_BYTES 64

/* ALLOC: `83` is site 3, `C5 02` is site 133. */
static inline unsigned char *mpp_encode_alloc(unsigned char *p, uint32_t site)
{
    if (site < 0x40) {
        *p++ = (unsigned char)(0x80 | site);
        return p;
    }
    *p++ = (unsigned char)(0xC0 | (site & 0x3f));
    return mpp_put_varint(p, site >> 6);
}

/* FREE: `41` is delta -1. */
static inline unsigned char *mpp_encode_free(unsigned char *p, int64_t delta)
{
    uint64_t u = mpp_zigzag(delta);

    if (u < 0x20) {
        *p++ = (unsigned char)(0x40 | u);
        return p;
    }
    *p++ = (unsigned char)(0x60 | (u & 0x1f));
    return mpp_put_varint(p, u >> 5);
}

static inline unsigned char *mpp_encode_1(unsigned char *p, enum mpp_record_kind kind, uint64_t a)
{
    *p++ = (unsigned char)kind;
    return mpp_put_varint(p, a);
}

static inline unsigned char *mpp_encode_2(unsigned char *p, enum mpp_record_kind kind, uint64_t a, uint64_t b)
{
    return mpp_put_varint(mpp_encode_1(p, kind, a), b);
}

static inline unsigned char *mpp_encode_3(unsigned char *p, enum mpp_record_kind kind, uint64_t a, uint64_t b, uint64_t c)
{
    return mpp_put_varint(mpp_encode_2(p, kind, a, b), c);
}

/* TIME: `01 90 4E` is 10,000 ns later. */
static inline unsigned char *mpp_encode_time(unsigned char *p, uint64_t delta_ns)
{
    return mpp_encode_1(p, MPP_TIME, delta_ns);
}

static inline unsigned char *mpp_encode_alloc_weighted(unsigned char *p, uint32_t site, uint32_t weight)
{
    return mpp_encode_2(p, MPP_ALLOC_WEIGHTED, site, weight);
}

/* FREE_SIZED: `03 01 C8 01` is delta -1, 200 bytes. */
static inline unsigned char *mpp_encode_free_sized(unsigned char *p, int64_t delta, uint64_t size_bytes)
{
    return mpp_encode_2(p, MPP_FREE_SIZED, mpp_zigzag(delta), size_bytes);
}

static inline unsigned char *mpp_encode_size(unsigned char *p, int64_t delta, uint64_t size_bytes)
{
    return mpp_encode_2(p, MPP_SIZE, mpp_zigzag(delta), size_bytes);
}

static inline unsigned char *mpp_encode_reclass(unsigned char *p, int64_t delta, uint32_t class_id)
{
    return mpp_encode_2(p, MPP_RECLASS, mpp_zigzag(delta), class_id);
}

static inline unsigned char *mpp_encode_live(unsigned char *p, uint64_t serial, uint32_t site, uint64_t size_bytes, uint32_t weight,
                                             int64_t birth_time_ns, uint64_t age)
{
    p = mpp_encode_3(p, MPP_LIVE, serial, site, size_bytes);
    p = mpp_put_varint(p, weight);
    p = mpp_put_varint(p, mpp_zigzag(birth_time_ns));
    return mpp_put_varint(p, age);
}

/* A record that holds `bytes` bytes of text behind its numbers: STRING (with an id) and MARK (without). */
static inline unsigned char *mpp_encode_text(unsigned char *p, const char *text, size_t bytes)
{
    p = mpp_put_varint(p, bytes);
    if (bytes) memcpy(p, text, bytes);
    return p + bytes;
}

static inline unsigned char *mpp_encode_string(unsigned char *p, uint32_t id, const char *text, size_t bytes)
{
    return mpp_encode_text(mpp_encode_1(p, MPP_STRING, id), text, bytes);
}

static inline unsigned char *mpp_encode_mark(unsigned char *p, const char *text, size_t bytes)
{
    *p++ = MPP_MARK;
    return mpp_encode_text(p, text, bytes);
}

static inline unsigned char *mpp_encode_stack(unsigned char *p, uint32_t id, uint32_t parent, uint32_t function, uint32_t line)
{
    return mpp_put_varint(mpp_encode_3(p, MPP_STACK, id, parent, function), line);
}

static inline unsigned char *mpp_encode_site(unsigned char *p, uint32_t id, uint32_t stack, uint32_t class_id, uint32_t type, uint32_t thread,
                                             uint64_t birth_bytes)
{
    p = mpp_encode_3(p, MPP_SITE, id, stack, class_id);
    p = mpp_put_varint(p, type);
    p = mpp_put_varint(p, thread);
    return mpp_put_varint(p, birth_bytes);
}

static inline unsigned char *mpp_encode_function_name(unsigned char *p, uint32_t id, uint32_t label, uint32_t path, uint32_t first_line,
                                                      uint32_t flags)
{
    p = mpp_encode_3(p, MPP_FUNCTION_NAME, id, label, path);
    p = mpp_put_varint(p, first_line);
    return mpp_put_varint(p, flags);
}

static inline unsigned char *mpp_encode_class_name(unsigned char *p, uint32_t id, uint32_t string, uint32_t flags)
{
    return mpp_encode_3(p, MPP_CLASS_NAME, id, string, flags);
}

/* The pairs of GC_END and PROC come behind this, each by two mpp_put_varint. */
static inline unsigned char *mpp_encode_gc_end(unsigned char *p, uint64_t gc_count, uint32_t pair_count)
{
    return mpp_encode_2(p, MPP_GC_END, gc_count, pair_count);
}

#endif
