#include "analyzer/timespec.h"
#include <ctype.h>
#include <string.h>
#include <time.h>

#define SECOND_NS ((uint64_t)1000000000)
#define LIMIT_NS  (UINT64_MAX >> 1)

const char time_help[] = "  start, end, peak            before all, after all, the earliest moment of the greatest live bytes\n"
                         "  12.5, 12.5s, 250ms, 2m30s   after the log's start\n"
                         "  -10s                        before the log's end\n"
                         "  50%                         of the way from start to end\n"
                         "  14:03, 14:03:05             clock time where the program ran\n"
                         "  2026-12-01T14:03:05+01:00   RFC 3339\n"
                         "  @1764597785.25              Unix seconds\n"
                         "  mark:NAME, mark:NAME#2      a mark the program set, the second of that name\n"
                         "  gc:17                       the end of the GC with that GC.count\n";

/* "12", "12.25" in units of `unit` ns. The byte behind it, or NULL. Decimals that make no nanosecond are dropped. */
static const char *parse_decimal(const char *s, uint64_t unit, uint64_t *out)
{
    uint64_t whole = 0, fraction = 0, scale = 1;
    const char *p = s;

    for (; isdigit((unsigned char)*p); p++) {
        if (__builtin_mul_overflow(whole, (uint64_t)10, &whole) || __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole)) return NULL;
    }
    if (p == s) return NULL;
    if (*p == '.') {
        p++;
        if (!isdigit((unsigned char)*p)) return NULL;
        for (; isdigit((unsigned char)*p); p++) {
            if (scale >= SECOND_NS) continue;
            fraction = fraction * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    if (__builtin_mul_overflow(whole, unit, &whole)) return NULL;
    uint64_t part = (uint64_t)((unsigned __int128)fraction * unit / scale);
    if (__builtin_add_overflow(whole, part, &whole) || whole > LIMIT_NS) return NULL;
    *out = whole;
    return p;
}

/* "12.5", "12.5s", "2m30s": units from the greatest down, or one number without a unit. 0 or -1. */
static int parse_duration(const char *s, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"h", 3600 * SECOND_NS}, {"m", 60 * SECOND_NS}, {"s", SECOND_NS}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
    const size_t count = sizeof units / sizeof units[0];
    size_t least = 0;
    uint64_t sum = 0, part;

    const char *end = parse_decimal(s, SECOND_NS, &part);
    if (end && !*end) {
        *out = part;
        return 0;
    }
    while (*s) {
        size_t digits = strspn(s, "0123456789."), letters = strspn(s + digits, "hmsun"), i = least;
        while (i < count && (strlen(units[i].name) != letters || strncmp(units[i].name, s + digits, letters) != 0)) i++;
        if (i == count) return -1;
        end = parse_decimal(s, units[i].ns, &part);
        if (end != s + digits || __builtin_add_overflow(sum, part, &sum) || sum > LIMIT_NS) return -1;
        s += digits + letters;
        least = i + 1;
    }
    *out = sum;
    return 0;
}

/* Exactly `count` digits, at most `max`. The byte behind them, or NULL. */
static const char *parse_digits(const char *s, int count, int max, int *out)
{
    int v = 0;

    for (int i = 0; i < count; i++) {
        if (!isdigit((unsigned char)s[i])) return NULL;
        v = v * 10 + (s[i] - '0');
    }
    if (v > max) return NULL;
    *out = v;
    return s + count;
}

/* "14:03", "14:03:05", "14:03:05.25". The byte behind it, or NULL. */
static const char *parse_clock(const char *s, int needs_seconds, uint64_t *ns)
{
    int hour, minute;
    uint64_t second_ns = 0;

    if (!(s = parse_digits(s, 2, 23, &hour)) || *s++ != ':' || !(s = parse_digits(s, 2, 59, &minute))) return NULL;
    if (*s == ':') {
        int second; /* 60: a leap second, the next minute's first */
        if (!parse_digits(s + 1, 2, 60, &second) || !(s = parse_decimal(s + 1, SECOND_NS, &second_ns))) return NULL;
        if (second_ns / SECOND_NS > 60) return NULL;
    } else if (needs_seconds) {
        return NULL;
    }
    *ns = (uint64_t)(hour * 60 + minute) * 60 * SECOND_NS + second_ns;
    return s;
}

/* RFC 3339. 0 or -1. */
static int parse_rfc3339(const char *s, uint64_t *unix_ns)
{
    int year, month, day, hours = 0, minutes = 0, sign = 0;
    uint64_t clock_ns;

    if (!(s = parse_digits(s, 4, 9999, &year)) || *s++ != '-' || !(s = parse_digits(s, 2, 12, &month)) || *s++ != '-' ||
        !(s = parse_digits(s, 2, 31, &day)))
        return -1;
    if (*s != 'T' && *s != 't' && *s != ' ') return -1;
    if (!(s = parse_clock(s + 1, 1, &clock_ns))) return -1;
    if (*s == 'Z' || *s == 'z') {
        s++;
    } else {
        if (*s != '+' && *s != '-') return -1;
        sign = *s == '-' ? -1 : 1;
        if (!(s = parse_digits(s + 1, 2, 23, &hours)) || *s++ != ':' || !(s = parse_digits(s, 2, 59, &minutes))) return -1;
    }
    if (*s) return -1;
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day}, back;
    time_t midnight = timegm(&tm);
    gmtime_r(&midnight, &back);
    if (month < 1 || day < 1 || back.tm_mday != day || back.tm_mon != month - 1) return -1;
    __int128 ns = (__int128)(midnight - sign * (hours * 3600 + minutes * 60)) * (int64_t)SECOND_NS + clock_ns;
    if (ns < 0 || ns > (__int128)LIMIT_NS) return -1;
    *unix_ns = (uint64_t)ns;
    return 0;
}

static int parse_number(const char *s, size_t length, uint64_t *out)
{
    uint64_t v = 0;

    if (length == 0) return -1;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)s[i])) return -1;
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v)) return -1;
    }
    *out = v;
    return 0;
}

/* NAME or NAME#N. */
static int parse_mark(struct time_spec *t, const char **why)
{
    const char *hash = strrchr(t->mark, '#');

    t->mark_length = strlen(t->mark);
    t->number = 1;
    if (hash && hash[1] && strspn(hash + 1, "0123456789") == strlen(hash + 1)) {
        t->mark_length = (size_t)(hash - t->mark);
        if (parse_number(hash + 1, strlen(hash + 1), &t->number) || t->number == 0) {
            *why = "the number behind # counts from 1";
            return -1;
        }
    }
    return 0;
}

int time_parse(struct time_spec *t, const char *text, const char **why)
{
    size_t length = strlen(text);
    uint64_t ns;

    *t = (struct time_spec){.text = text};
    *why = "it is none of start, end, peak, 12.5s, -10s, 50%, 14:03, 2026-12-01T14:03:05Z, @UNIX_SECONDS, mark:NAME, gc:N";
    if (strcmp(text, "start") == 0 || strcmp(text, "end") == 0 || strcmp(text, "peak") == 0) {
        t->kind = text[0] == 's' ? TIME_START : text[0] == 'e' ? TIME_END : TIME_PEAK;
        return 0;
    }
    if (strncmp(text, "mark:", 5) == 0) {
        t->kind = TIME_MARK;
        t->mark = text + 5;
        return parse_mark(t, why);
    }
    if (strncmp(text, "gc:", 3) == 0) {
        t->kind = TIME_GC;
        *why = "gc: takes a number, the GC.count";
        return parse_number(text + 3, length - 3, &t->number);
    }
    if (text[0] == '@') {
        t->kind = TIME_WALL;
        *why = "@ takes Unix seconds";
        const char *end = parse_decimal(text + 1, SECOND_NS, &t->ns);
        return end && !*end ? 0 : -1;
    }
    if (text[0] == '-') {
        t->kind = TIME_BEFORE_END;
        return text[1] ? parse_duration(text + 1, &t->ns) : -1;
    }
    if (length > 1 && text[length - 1] == '%') {
        t->kind = TIME_PERCENT;
        const char *end = parse_decimal(text, SECOND_NS, &t->ns);
        if (end != text + length - 1) return -1;
        return 0; /* beyond 100% is outside of any log, which says so */
    }
    const char *end = parse_clock(text, 0, &ns);
    if (end && !*end) {
        t->kind = TIME_CLOCK;
        t->ns = ns;
        return 0;
    }
    if (length > 10 && text[4] == '-') {
        t->kind = TIME_WALL;
        *why = "a date is written as in 2026-12-01T14:03:05Z or 2026-12-01T14:03:05+01:00";
        return parse_rfc3339(text, &t->ns);
    }
    t->kind = TIME_OFFSET;
    return length ? parse_duration(text, &t->ns) : -1;
}
