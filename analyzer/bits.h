/* Two things that processors do at once where they can: counting bits, and pulling the bits under a mask together. The caller passes a constant
 * `at_once`, of which bits_at_once tells whether the machine has it; two versions of a loop are then made from one body. */
#ifndef MPP_BITS_H
#define MPP_BITS_H

#include <stdint.h>

#if defined(__x86_64__)
/* For the version that has it. */
#define BITS_AT_ONCE_TARGET __attribute__((target("bmi,bmi2,popcnt")))
static inline int bits_at_once(void)
{
    /* The first two Zens have the instruction, but step through the mask bit by bit. */
    return __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2");
}
#else
#define BITS_AT_ONCE_TARGET
static inline int bits_at_once(void)
{
    return 0;
}
#endif
#define BITS_BODY static inline __attribute__((always_inline))

BITS_BODY uint32_t bits_count(uint64_t v, int at_once)
{
#if defined(__x86_64__)
    if (at_once) {
        uint64_t count;
        __asm__("popcnt %1, %0" : "=r"(count) : "r"(v) : "cc");
        return (uint32_t)count;
    }
#endif
    (void)at_once;
    v -= (v >> 1) & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + ((v >> 2) & UINT64_C(0x3333333333333333));
    v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(v * UINT64_C(0x0101010101010101) >> 56);
}

/* The low seven bits of each of the five bytes of `v`, whose other bits are 0. */
BITS_BODY uint64_t bits_of_varint(uint64_t v, int at_once)
{
#if defined(__x86_64__)
    if (at_once) {
        uint64_t packed;
        __asm__("pext %2, %1, %0" : "=r"(packed) : "r"(v), "r"(UINT64_C(0x7f7f7f7f7f)));
        return packed;
    }
#endif
    (void)at_once;
    return (v & 0x7f) | (v >> 1 & 0x3f80) | (v >> 2 & 0x1fc000) | (v >> 3 & 0xfe00000) | (v >> 4 & UINT64_C(0x7f0000000));
}

#endif
