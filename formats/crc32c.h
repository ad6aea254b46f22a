/* CRC-32C of the journal's committed bytes, kept up record by record. On x86-64 the processor's own instruction does it,
 * a few cycles for a record; elsewhere a table. Why not XXH3: it cannot be carried on over two or three bytes at a time. */
#ifndef MPP_CRC32C_H
#define MPP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Whether the processor has the instruction; set by mpp_crc32c_init, which must run before mpp_crc32c_step. */
extern int mpp_crc32c_in_hardware;
void mpp_crc32c_init(void);

/* The table's way; `state` as in mpp_crc32c_step. */
uint32_t mpp_crc32c_software(uint32_t state, const unsigned char *bytes, size_t count);

#define MPP_CRC32C_START 0xFFFFFFFFu
/* The CRC of what went through `state`. */
static inline uint32_t mpp_crc32c_value(uint32_t state)
{
    return ~state;
}

/* Carries `state` (at first MPP_CRC32C_START) over `count` bytes. */
static inline uint32_t mpp_crc32c_step(uint32_t state, const unsigned char *bytes, size_t count)
{
#if defined(__x86_64__)
    if (__builtin_expect(mpp_crc32c_in_hardware, 1)) {
        uint64_t wide = state;
        while (count >= 8) {
            uint64_t v;
            __builtin_memcpy(&v, bytes, 8);
            __asm__("crc32q %1, %0" : "+r"(wide) : "r"(v));
            bytes += 8;
            count -= 8;
        }
        state = (uint32_t)wide;
        if (count & 4) {
            uint32_t v;
            __builtin_memcpy(&v, bytes, 4);
            __asm__("crc32l %1, %0" : "+r"(state) : "r"(v));
            bytes += 4;
        }
        if (count & 2) {
            uint16_t v;
            __builtin_memcpy(&v, bytes, 2);
            __asm__("crc32w %1, %0" : "+r"(state) : "r"(v));
            bytes += 2;
        }
        if (count & 1) __asm__("crc32b %1, %0" : "+r"(state) : "r"(*bytes));
        return state;
    }
#endif
    return mpp_crc32c_software(state, bytes, count);
}

#endif
