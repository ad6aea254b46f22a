/* The second half of timespec.h: a parsed TIME becomes a moment of a log. */
#include "analyzer/message.h"
#include "analyzer/timespec.h"
#include "analyzer/units.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS      ((uint64_t)1000000000)
#define DAY_NS         (86400 * SECOND_NS)
#define LISTED         5 /* candidates that an error names */
#define WALL_TEXT_SIZE 48

/* From a moment on, the wall clock ran so. */
struct wall_segment {
    uint64_t time_ns, unix_ns;
};

struct wall {
    struct wall_segment *segments;
    size_t count, capacity;
    uint64_t end_time_ns;
    int64_t utc_offset_s;
};

/* A time stands within the log: an error states the log's span. */
static int outside(const struct time_spec *t, const struct log *l)
{
    char end[32], from[WALL_TEXT_SIZE], to[WALL_TEXT_SIZE];

    format_duration(end, sizeof end, l->end_time_ns);
    format_wall(from, sizeof from, l->info->start_unix_ns, l->info->utc_offset_s, 0);
    format_wall(to, sizeof to, l->info->start_unix_ns + l->end_time_ns, l->info->utc_offset_s, 0);
    message("TIME \"%s\" is outside of \"%s\", which spans 0s to %s (%s to %s)", t->text, l->path, end, from, to);
    return -1;
}

static int scan_walls(struct log *l, struct wall *w)
{
    struct history h;
    struct mpp_record r;
    int got;

    *w = (struct wall){.end_time_ns = l->end_time_ns, .utc_offset_s = l->info->utc_offset_s};
    if (array_reserve((void **)&w->segments, &w->capacity, 1, sizeof *w->segments)) return MPP_ERR_NO_MEMORY;
    w->segments[w->count++] = (struct wall_segment){.time_ns = 0, .unix_ns = l->info->start_unix_ns};
    history_init(&h, l);
    while ((got = history_next(&h, &r)) == 1) {
        if (r.kind != MPP_CLOCK) continue;
        got = array_reserve((void **)&w->segments, &w->capacity, w->count + 1, sizeof *w->segments);
        if (got) break;
        w->segments[w->count++] = (struct wall_segment){.time_ns = h.time_ns, .unix_ns = r.a};
    }
    history_release(&h);
    return got;
}

/* How long segment `i` lasted; the last one includes the log's end. */
static uint64_t segment_length(const struct wall *w, size_t i)
{
    uint64_t end = i + 1 < w->count ? w->segments[i + 1].time_ns : w->end_time_ns + 1;

    return end > w->segments[i].time_ns ? end - w->segments[i].time_ns : 0;
}

/* Places of a wall-clock time: the first ones are kept, for the error. */
struct candidates {
    uint64_t time_ns[LISTED], unix_ns[LISTED];
    size_t count;
};

static void add_candidate(struct candidates *c, uint64_t time_ns, uint64_t unix_ns)
{
    for (size_t i = 0; i < c->count && i < LISTED; i++) {
        if (c->time_ns[i] == time_ns) return;
    }
    if (c->count < LISTED) {
        c->time_ns[c->count] = time_ns;
        c->unix_ns[c->count] = unix_ns;
    }
    c->count++;
}

static void find_wall(const struct wall *w, uint64_t unix_ns, struct candidates *c)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct wall_segment *s = &w->segments[i];
        if (unix_ns < s->unix_ns) continue;
        if (unix_ns - s->unix_ns < segment_length(w, i)) {
            add_candidate(c, s->time_ns + (unix_ns - s->unix_ns), unix_ns);
        } else if (i + 1 < w->count && s[1].time_ns && unix_ns < s[1].unix_ns) {
            /* A forward jump left it out: the moment before the jump. */
            add_candidate(c, s[1].time_ns - 1, unix_ns);
        }
    }
}

/* How long from Unix time `unix_ns` until the clock next shows `since_midnight_ns` at the recorder's offset. */
static uint64_t wait_for(const struct wall *w, uint64_t unix_ns, uint64_t since_midnight_ns)
{
    /* Kept positive by a whole number of days. */
    uint64_t local = (uint64_t)(((__int128)unix_ns + (__int128)(w->utc_offset_s % 86400) * (int64_t)SECOND_NS + (__int128)DAY_NS) % (__int128)DAY_NS);

    return (since_midnight_ns % DAY_NS + DAY_NS - local) % DAY_NS;
}

/* All days on which the clock showed `since_midnight_ns` during the log. */
static void find_clock(const struct wall *w, uint64_t since_midnight_ns, struct candidates *c)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct wall_segment *s = &w->segments[i];
        uint64_t length = segment_length(w, i), passed = s->unix_ns + length;
        for (uint64_t wait = wait_for(w, s->unix_ns, since_midnight_ns); wait < length; wait += DAY_NS) {
            add_candidate(c, s->time_ns + wait, s->unix_ns + wait);
        }
        if (i + 1 == w->count || !s[1].time_ns || s[1].unix_ns <= passed) continue;
        uint64_t wait = wait_for(w, passed, since_midnight_ns);
        if (wait < s[1].unix_ns - passed) add_candidate(c, s[1].time_ns - 1, passed + wait);
    }
}

static int resolve_wall(const struct time_spec *t, struct log *l, uint64_t *time_ns)
{
    struct wall w;
    struct candidates c = {.count = 0};
    int error = scan_walls(l, &w);

    if (error) {
        history_fail(l, error);
    } else {
        if (t->kind == TIME_CLOCK) {
            find_clock(&w, t->ns, &c);
        } else {
            find_wall(&w, t->ns, &c);
        }
        if (c.count == 0) {
            error = outside(t, l);
        } else if (c.count > 1) {
            char list[LISTED * (WALL_TEXT_SIZE + 32)] = "", wall[WALL_TEXT_SIZE];
            for (size_t i = 0; i < c.count && i < LISTED; i++) {
                size_t used = strlen(list);
                format_wall(wall, sizeof wall, c.unix_ns[i], w.utc_offset_s, 0);
                snprintf(list + used, sizeof list - used, "%s%s (%.3fs)", i ? ", " : "", wall, (double)c.time_ns[i] / 1e9);
            }
            message("TIME \"%s\" stands %zu times in \"%s\": %s%s: give one of these, or its seconds", t->text, c.count, l->path, list,
                    c.count > LISTED ? " …" : "");
            error = -1;
        } else {
            *time_ns = c.time_ns[0];
        }
    }
    free(w.segments);
    return error ? -1 : 0;
}

/* What a search for a mark or a GC has seen, for the error. */
struct seen {
    char marks[256];
    int more; /* marks that found no room there */
    uint64_t mark_count, gc_first, gc_last, gc_count, matches;
};

static void see_mark(struct seen *s, const struct mpp_record *r)
{
    size_t used = strlen(s->marks);

    s->mark_count++;
    if (r->text_bytes < 60 && used + r->text_bytes + 8 < sizeof s->marks) {
        snprintf(s->marks + used, sizeof s->marks - used, "%s\"%.*s\"", used ? ", " : "", (int)r->text_bytes, (const char *)r->text);
    } else {
        s->more = 1;
    }
}

static int search(const struct time_spec *t, struct log *l, struct moment *out)
{
    struct seen seen = {.marks = ""};
    struct history h;
    struct mpp_record r;
    int got, found = 0;

    history_init(&h, l);
    while (!found && (got = history_next(&h, &r)) == 1) {
        if (t->kind == TIME_MARK && r.kind == MPP_MARK) {
            int same = r.text_bytes == t->mark_length && memcmp(r.text, t->mark, t->mark_length) == 0;
            if (same) seen.matches++;
            found = same && seen.matches == t->number;
            see_mark(&seen, &r);
        } else if (t->kind == TIME_GC && r.kind == MPP_GC_END) {
            if (seen.gc_count++ == 0) seen.gc_first = r.a;
            seen.gc_last = r.a;
            found = r.a == t->number;
        }
    }
    if (found) *out = (struct moment){.position = h.position, .time_ns = UINT64_MAX};
    history_release(&h);
    if (found) return 0;
    if (got < 0) {
        history_fail(l, got);
    } else if (t->kind == TIME_MARK && seen.matches) {
        message("no mark \"%.*s\" number %" PRIu64 " in \"%s\": there are %" PRIu64 " of that name", (int)t->mark_length, t->mark, t->number, l->path,
                seen.matches);
    } else if (t->kind == TIME_MARK && seen.mark_count) {
        message("no mark \"%.*s\" in \"%s\": its marks are %s%s", (int)t->mark_length, t->mark, l->path, seen.marks, seen.more ? " …" : "");
    } else if (t->kind == TIME_MARK) {
        message("no mark \"%.*s\" in \"%s\": it has no marks at all; set them with MppRecorder.mark", (int)t->mark_length, t->mark, l->path);
    } else if (seen.gc_count) {
        message("no GC %" PRIu64 " ended in \"%s\": it has gc:%" PRIu64 " to gc:%" PRIu64, t->number, l->path, seen.gc_first, seen.gc_last);
    } else {
        message("no GC %" PRIu64 " ended in \"%s\": no GC ran while it was recorded", t->number, l->path);
    }
    return -1;
}

static int find_peak(struct log *l, struct moment *out)
{
    struct replay r;

    replay_init(&r, l);
    int error = replay_run(&r, MOMENT_END);
    if (!error) *out = (struct moment){.position = r.heap.peak_position, .time_ns = UINT64_MAX};
    replay_release(&r);
    if (error) history_fail(l, error);
    return error ? -1 : 0;
}

int time_resolve(const struct time_spec *t, struct log *l, struct moment *out)
{
    uint64_t time_ns = 0;

    switch (t->kind) {
    case TIME_START:
        *out = MOMENT_START;
        return 0;
    case TIME_END:
        *out = MOMENT_END;
        return 0;
    case TIME_PEAK:
        return find_peak(l, out);
    case TIME_MARK:
    case TIME_GC:
        return search(t, l, out);
    case TIME_OFFSET:
        time_ns = t->ns;
        break;
    case TIME_BEFORE_END:
        if (t->ns > l->end_time_ns) return outside(t, l);
        time_ns = l->end_time_ns - t->ns;
        break;
    case TIME_PERCENT:
        time_ns = (uint64_t)((unsigned __int128)l->end_time_ns * t->ns / (100 * SECOND_NS));
        break;
    case TIME_WALL:
    case TIME_CLOCK:
        if (resolve_wall(t, l, &time_ns)) return -1;
        break;
    }
    if (time_ns > l->end_time_ns) return outside(t, l);
    *out = (struct moment){.position = UINT64_MAX, .time_ns = time_ns};
    return 0;
}
