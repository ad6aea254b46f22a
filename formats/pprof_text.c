/* UTF-8 for profiles: a string that is not UTF-8 makes readers refuse the whole profile. */
#include "pprof_internal.h"
#include <string.h>

size_t pprof_utf8_sequence(const unsigned char *p, const unsigned char *end, int *valid)
{
    unsigned char lead = *p, low = 0x80, high = 0xBF;
    size_t length;

    *valid = 1;
    if (lead < 0x80) return 1;
    *valid = 0;
    if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        if (lead == 0xE0) low = 0xA0;  /* no longer form than needed */
        if (lead == 0xED) high = 0x9F; /* no surrogates */
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F; /* nothing above U+10FFFF */
    } else {
        return 1;
    }
    for (size_t i = 1; i < length; i++) {
        if (p + i >= end || p[i] < low || p[i] > high) return i;
        low = 0x80;
        high = 0xBF;
    }
    *valid = 1;
    return length;
}

int pprof_utf8_valid(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + bytes;
    int valid;

    while (p < end) {
        p += pprof_utf8_sequence(p, end, &valid);
        if (!valid) return 0;
    }
    return 1;
}

size_t pprof_utf8_scrub(char *out, const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + bytes;
    char *o = out;
    int valid;

    while (p < end) {
        size_t length = pprof_utf8_sequence(p, end, &valid);
        if (valid) {
            memcpy(o, p, length);
            o += length;
        } else {
            memcpy(o, "\xEF\xBF\xBD", 3);
            o += 3;
        }
        p += length;
    }
    return (size_t)(o - out);
}
