#include "analyzer/units.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

const char *format_bytes(char *text, size_t size, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1023.95 && unit < sizeof units / sizeof units[0] - 1) {
        value /= 1024;
        unit++;
    }
    if (unit == 0) {
        snprintf(text, size, "%" PRIu64 " B", bytes);
    } else {
        snprintf(text, size, "%.1f %s", value, units[unit]);
    }
    return text;
}

const char *format_count(char *text, size_t size, uint64_t n)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;

    for (size_t i = 0; i < length && at + 2 < size; i++) {
        if (i && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

const char *format_duration(char *text, size_t size, uint64_t ns)
{
    uint64_t seconds = ns / 1000000000, ms = ns % 1000000000 / 1000000;

    if (seconds == 0 && ns && ms == 0) {
        snprintf(text, size, "%.6gms", (double)ns / 1e6);
    } else if (seconds == 0) {
        snprintf(text, size, "%" PRIu64 "%s", ns ? ms : 0, ns ? "ms" : "s");
    } else if (seconds < 60) {
        snprintf(text, size, "%" PRIu64 ".%03" PRIu64 "s", seconds, ms);
    } else if (seconds < 3600) {
        snprintf(text, size, "%" PRIu64 "m%02" PRIu64 ".%01" PRIu64 "s", seconds / 60, seconds % 60, ms / 100);
    } else {
        snprintf(text, size, "%" PRIu64 "h%02" PRIu64 "m%02" PRIu64 "s", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    return text;
}

const char *format_wall(char *text, size_t size, uint64_t unix_ns, int64_t utc_offset_s, int decimals)
{
    /* Offsets beyond a day are no offsets; UINT64_MAX ns is the year 2554, so that time_t cannot overflow. */
    int64_t offset = utc_offset_s > -86400 && utc_offset_s < 86400 ? utc_offset_s : 0;
    time_t seconds = (time_t)((int64_t)(unix_ns / 1000000000) + offset);
    char zone[16] = "Z", fraction[16] = "", day[32];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    if (decimals > 0) {
        snprintf(fraction, sizeof fraction, ".%09" PRIu64, unix_ns % 1000000000);
        fraction[decimals < 9 ? decimals + 1 : 10] = 0;
    }
    if (offset) {
        int64_t minutes = (offset < 0 ? -offset : offset) / 60;
        snprintf(zone, sizeof zone, "%c%02d:%02d", offset < 0 ? '-' : '+', (int)(minutes / 60 % 24), (int)(minutes % 60));
    }
    snprintf(text, size, "%s%s%s", day, fraction, zone);
    return text;
}

const char *format_uuid(char *text, size_t size, const uint8_t uuid[16])
{
    size_t at = 0;

    for (size_t i = 0; i < 16 && at + 3 < size; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        at += (size_t)snprintf(text + at, size - at, "%02x", uuid[i]);
    }
    text[at] = 0;
    return text;
}
