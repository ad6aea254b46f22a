#include "analyzer/utf8.h"
#include <stdlib.h>
#include <string.h>

size_t utf8_sequence(const char *s, size_t bytes, size_t *bad)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xBF; /* what the second byte may be */
    size_t length;

    *bad = 1;
    if (p[0] < 0x80) return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        length = 2;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        length = 3;
        if (p[0] == 0xE0) low = 0xA0;
        if (p[0] == 0xED) high = 0x9F;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        length = 4;
        if (p[0] == 0xF0) low = 0x90;
        if (p[0] == 0xF4) high = 0x8F;
    } else {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if (i >= bytes || p[i] < low || p[i] > high) {
            *bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

int utf8_is_valid(const char *s, size_t bytes)
{
    size_t bad;

    for (size_t i = 0; i < bytes;) {
        size_t n = utf8_sequence(s + i, bytes - i, &bad);
        if (n == 0) return 0;
        i += n;
    }
    return 1;
}

char *utf8_scrub(const char *s, size_t bytes, size_t *length)
{
    char *out = malloc(bytes * 3 + 1); /* each bad byte becomes three at most */
    size_t at = 0;

    if (!out) return NULL;
    for (size_t i = 0; i < bytes;) {
        size_t bad, n = utf8_sequence(s + i, bytes - i, &bad);
        if (n) {
            memcpy(out + at, s + i, n);
            at += n;
            i += n;
        } else {
            memcpy(out + at, "\xEF\xBF\xBD", 3);
            at += 3;
            i += bad;
        }
    }
    out[at] = 0;
    *length = at;
    return out;
}

size_t utf8_columns(const char *s, size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}
