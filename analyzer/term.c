#include "analyzer/term.h"
#include "analyzer/units.h"
#include "analyzer/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int terminal_size(struct winsize *size)
{
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, size) == 0 && size->ws_col > 0;
}

void term_init(struct term *t, const struct options *o, const struct output *out)
{
    struct winsize size;
    const char *no_color = getenv("NO_COLOR");
    int terminal = output_is_terminal(out);
    int color = o->color == COLOR_ALWAYS || (o->color == COLOR_AUTO && terminal && !(no_color && no_color[0]));

    *t = (struct term){.out = out->file, .raw = o->raw, .bold = "", .color = "", .plus = "", .minus = "", .dim = "", .plain = ""};
    if (terminal) t->width = terminal_size(&size) ? size.ws_col : 80;
    if (!color) return;
    t->bold = "\033[1m";
    t->color = "\033[36m";
    t->plus = "\033[31m";
    t->minus = "\033[32m";
    t->dim = "\033[2m";
    t->plain = "\033[0m";
}

size_t term_default_points(const struct options *o)
{
    struct winsize size;

    if (o->output || !isatty(STDOUT_FILENO) || !terminal_size(&size) || size.ws_row < 10) return 20;
    return size.ws_row - 5;
}

const char *term_bytes(const struct term *t, char *text, size_t size, uint64_t bytes)
{
    if (!t->raw) return format_bytes(text, size, bytes);
    snprintf(text, size, "%" PRIu64, bytes);
    return text;
}

const char *term_count(const struct term *t, char *text, size_t size, uint64_t n)
{
    if (!t->raw) return format_count(text, size, n);
    snprintf(text, size, "%" PRIu64, n);
    return text;
}

static const char *with_sign(char *text, size_t size, const char *number, uint64_t to, uint64_t from)
{
    snprintf(text, size, "%s%s", to > from ? "+" : to < from ? "-" : "", number);
    return text;
}

const char *term_delta_bytes(const struct term *t, char *text, size_t size, uint64_t to, uint64_t from)
{
    char number[32];

    return with_sign(text, size, term_bytes(t, number, sizeof number, to > from ? to - from : from - to), to, from);
}

const char *term_delta_count(const struct term *t, char *text, size_t size, uint64_t to, uint64_t from)
{
    char number[32];

    return with_sign(text, size, term_count(t, number, sizeof number, to > from ? to - from : from - to), to, from);
}

/* U+202A to 202E and U+2066 to 2069 turn the direction of what follows them, the rest of the line too. */
static int is_direction(const char *s)
{
    unsigned char a = (unsigned char)s[0], b = (unsigned char)s[1], c = (unsigned char)s[2];

    return a == 0xE2 && ((b == 0x80 && c >= 0xAA && c <= 0xAE) || (b == 0x81 && c >= 0xA6 && c <= 0xA9));
}

void term_put(const struct term *t, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t bad, n = utf8_sequence(bytes + i, length - i, &bad);
        unsigned char c = (unsigned char)bytes[i];
        if (n == 0 || (n == 3 && is_direction(bytes + i))) {
            fputs("\xEF\xBF\xBD", t->out);
        } else if (c < 0x20 || c == 0x7f || (n == 2 && c == 0xC2 && (unsigned char)bytes[i + 1] < 0xA0)) {
            fprintf(t->out, "\\x%02X", n == 2 ? (unsigned char)bytes[i + 1] : c); /* a name must not steer the terminal */
        } else {
            fwrite(bytes + i, 1, n, t->out);
        }
        i += n ? n : bad;
    }
}

/* The byte at which character `column` of `s` begins. */
static size_t byte_of_column(const char *s, size_t length, size_t column)
{
    size_t i = 0;

    while (i < length && column > 0) {
        i++;
        while (i < length && ((unsigned char)s[i] & 0xC0) == 0x80) i++;
        column--;
    }
    return i;
}

void term_put_name(const struct term *t, const char *name, size_t length, size_t used)
{
    size_t columns = utf8_columns(name, length), room = t->width > used + 24 ? t->width - used : 24;

    if (t->width == 0 || columns <= room) {
        term_put(t, name, length);
        return;
    }
    /* The end tells more than the beginning: line and method stand there. Of a path it is all, from a directory's name on where one begins. */
    size_t head = memchr(name, '/', length) ? 0 : (room - 1) / 3, tail = room - 1 - head;
    size_t from = byte_of_column(name, length, columns - tail);
    const char *slash = head ? NULL : memchr(name + from, '/', length - from);
    if (slash && (size_t)(slash - (name + from)) <= room / 3) from = (size_t)(slash - name);
    term_put(t, name, byte_of_column(name, length, head));
    fputs("\xE2\x80\xA6", t->out);
    term_put(t, name + from, length - from);
}

void term_log_line(const struct term *t, const struct log *l, const char *what)
{
    fprintf(t->out, "%s", t->bold);
    term_put(t, l->path, strlen(l->path));
    fprintf(t->out, ": %s%s", what, t->plain);
    fprintf(t->out, "  (pid %" PRIu64, l->info->pid);
    if (l->info->ruby_version) {
        fputs(", ruby ", t->out);
        term_put(t, l->info->ruby_version, strlen(l->info->ruby_version));
    }
    if (l->info->sample_period > 1) fprintf(t->out, ", 1 in %" PRIu64 " sampled", l->info->sample_period);
    fputs(mpp_reader_damage_count(l->reader) ? ", damaged)\n" : ")\n", t->out);
}

void term_point(const struct term *t, const struct log *l, const char *label, const struct report_point *p)
{
    char time[32], wall[48];

    fprintf(t->out, "%s ", label);
    term_put(t, p->spec, strlen(p->spec));
    fprintf(t->out, ": %s after the start, %s\n", format_duration(time, sizeof time, p->now_ns),
            format_wall(wall, sizeof wall, p->wall_unix_ns, l->info->utc_offset_s, 0));
}
