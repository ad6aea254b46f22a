/* Numbers as people read them. Each writes into `text` and returns it. */
#ifndef MPP_UNITS_H
#define MPP_UNITS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "12.3 MiB"; exact below 1 KiB: "816 B". */
const char *format_bytes(char *text, size_t size, uint64_t bytes);
/* "1,234,567". */
const char *format_count(char *text, size_t size, uint64_t n);
/* "2m30.5s", "1h02m", "12.345s", "250ms". */
const char *format_duration(char *text, size_t size, uint64_t ns);
/* RFC 3339 with nine decimals in UTC (offset 0: `Z`) or at `utc_offset_s`. */
const char *format_wall(char *text, size_t size, uint64_t unix_ns, int64_t utc_offset_s, int decimals);
/* 8-4-4-4-12 lower-case digits. */
const char *format_uuid(char *text, size_t size, const uint8_t uuid[16]);

#endif
