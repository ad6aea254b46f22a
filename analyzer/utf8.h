/* Strings of a log are bytes; what is shown is UTF-8. */
#ifndef MPP_UTF8_H
#define MPP_UTF8_H

#include <stddef.h>

/* Length of the sound UTF-8 sequence at `s` (`bytes` bytes, at least 1), or 0; then *bad is the length of the invalid one: the longest beginning of a
 * sound sequence, at least 1 byte, as Unicode advises and Ruby's String#scrub does. */
size_t utf8_sequence(const char *s, size_t bytes, size_t *bad);
int utf8_is_valid(const char *s, size_t bytes);
/* A copy with U+FFFD in place of each invalid sequence, malloc'ed, with a zero byte behind it; its length in *length. NULL: no memory. */
char *utf8_scrub(const char *s, size_t bytes, size_t *length);
/* Columns that `s` (valid UTF-8) takes on a terminal, roughly: one for each character. */
size_t utf8_columns(const char *s, size_t bytes);

#endif
