/* Byte-wise little-endian numbers and varints. Internal to formats/ and to those that encode or decode records. */
#ifndef MPP_BYTES_H
#define MPP_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MPP_VARINT_MAX_BYTES 10

static inline void mpp_put_u16(unsigned char *p, uint16_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static inline void mpp_put_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static inline void mpp_put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(v >> (8 * i));
}

static inline uint16_t mpp_get_u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | (uint16_t)(p[1] << 8));
}

static inline uint32_t mpp_get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t mpp_get_u64(const unsigned char *p)
{
    return (uint64_t)mpp_get_u32(p) | (uint64_t)mpp_get_u32(p + 4) << 32;
}

/* Writes `v` at `p`, which has room for MPP_VARINT_MAX_BYTES; returns the byte behind it. */
static inline unsigned char *mpp_put_varint(unsigned char *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (unsigned char)(v | 0x80);
        v >>= 7;
    }
    *p++ = (unsigned char)v;
    return p;
}

/* Reads a varint in [p, end); returns the byte behind it, or NULL when it does not end there or exceeds 64 bits. */
static inline const unsigned char *mpp_get_varint(const unsigned char *p, const unsigned char *end, uint64_t *out)
{
    uint64_t v = 0;

    if (p < end && *p < 0x80) {
        *out = *p;
        return p + 1;
    }
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (p >= end) return NULL;
        unsigned char b = *p++;
        if (shift == 63 && b > 1) return NULL;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return p;
        }
    }
    return NULL;
}

static inline uint64_t mpp_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t mpp_unzigzag(uint64_t u)
{
    return (int64_t)((u >> 1) ^ (0 - (u & 1)));
}

#endif
