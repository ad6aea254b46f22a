/* Property: at every position of every log, live = allocated - freed - unknown without a wrap, for each site and for the whole; the whole's counters
 * agree with the live objects themselves; allocated and freed only grow; and a replay straight to a position gives what a replay in steps gave there.
 * The moment of the greatest live bytes is where they are the greatest. */
#include "analyzer/replay.h"
#include "fuzz.h"
#include <string.h>

#define STEPS 24

struct sums {
    uint64_t objects, bytes;
    const struct heap *heap;
};

static void add_object(void *context, uint64_t serial, const struct object *o, const struct live_object *live)
{
    struct sums *s = context;

    FUZZ_CHECK(o->weight > 0 && o->site < s->heap->site_count && serial > 0);
    if (heap_unknown(s->heap, serial, live)) return;
    s->objects += o->weight;
    s->bytes += o->weight * object_size(o);
}

static void check_state(struct heap *h, const struct counters *before)
{
    struct counters n = heap_totals(h);
    struct sums s = {.heap = h};

    for (size_t i = 0; i < h->site_count; i++) {
        struct counters c = heap_site_counters(h, i);
        FUZZ_CHECK(c.freed_objects <= c.allocated_objects && c.unknown_objects <= c.allocated_objects - c.freed_objects);
        FUZZ_CHECK(c.freed_bytes <= c.allocated_bytes && c.unknown_bytes <= c.allocated_bytes - c.freed_bytes);
    }
    FUZZ_CHECK(n.allocated_objects == h->allocated_objects && n.allocated_bytes == h->allocated_bytes);
    FUZZ_CHECK(counters_live_objects(&n) == h->live_objects && counters_live_bytes(&n) == h->live_bytes);
    FUZZ_CHECK(n.allocated_objects >= before->allocated_objects && n.allocated_bytes >= before->allocated_bytes);
    FUZZ_CHECK(n.freed_objects >= before->freed_objects && n.freed_bytes >= before->freed_bytes);
    objects_each(&h->objects, add_object, &s);
    FUZZ_CHECK(s.objects == h->live_objects && s.bytes == h->live_bytes);
    FUZZ_CHECK(h->peak_bytes >= h->live_bytes || h->live_bytes == 0);
}

struct stop {
    uint64_t position, time_ns;
    struct counters n;
};

/* Replays to `m` on its own and compares. */
static void check_again(struct log *l, struct moment m, const struct stop *s)
{
    struct replay r;

    replay_init(&r, l);
    FUZZ_CHECK(replay_run(&r, m) == 0);
    struct counters n = heap_totals(&r.heap);
    FUZZ_CHECK(r.history.position == s->position);
    FUZZ_CHECK(memcmp(&n, &s->n, sizeof n) == 0);
    replay_release(&r);
}

/* Replays all of it, in steps by position; the stops on the way. An error, or 0. */
static int replay_in_steps(struct log *l, struct stop stops[STEPS], size_t *count, uint64_t *record_count)
{
    struct replay r;
    struct counters before = {0};
    uint64_t position = 0;
    int error = 0;

    replay_init(&r, l);
    r.keep_all = 1;
    *count = 0;
    for (size_t i = 0; i < STEPS && !error; i++) {
        position += 1 + position / 3;
        error = replay_run(&r, i + 1 < STEPS ? (struct moment){.position = position, .time_ns = UINT64_MAX} : MOMENT_END);
        if (error) break;
        check_state(&r.heap, &before);
        before = heap_totals(&r.heap);
        FUZZ_CHECK(i + 1 == STEPS || r.history.position <= position);
        stops[(*count)++] = (struct stop){.position = r.history.position, .time_ns = r.history.time_ns, .n = before};
    }
    if (!error) error = replay_finish(&r, record_count);
    replay_release(&r);
    return error;
}

static void check_end_and_peak(struct log *l, uint64_t record_count)
{
    struct replay r;

    replay_init(&r, l);
    FUZZ_CHECK(replay_run(&r, (struct moment){.position = UINT64_MAX, .time_ns = l->end_time_ns}) == 0);
    /* Times in the headers of blocks are trusted where they agree with each other; records may still go beyond them. */
    FUZZ_CHECK(r.history.position == record_count || r.history.time_ns <= l->end_time_ns);
    uint64_t position = r.heap.peak_position, bytes = r.heap.peak_bytes;
    replay_release(&r);
    replay_init(&r, l);
    FUZZ_CHECK(replay_run(&r, (struct moment){.position = position, .time_ns = UINT64_MAX}) == 0);
    FUZZ_CHECK(r.heap.live_bytes == bytes && r.history.position == position);
    replay_release(&r);
}

FUZZ_TARGET(replay)
{
    struct fuzz_log bytes;
    struct mpp_source source;
    struct log log;
    struct stop stops[STEPS];
    size_t count;
    uint64_t record_count;

    fuzz_silence_stderr();
    fuzz_log_init(&bytes, data, size);
    mpp_source_memory(&source, bytes.data, bytes.bytes);
    if (log_open_source(&log, "log", &source) == 0) {
        FUZZ_CHECK(history_settle_end(&log) == 0);
        FUZZ_CHECK(log.end_time_ns <= UINT64_MAX >> 1);
        int error = replay_in_steps(&log, stops, &count, &record_count);
        FUZZ_CHECK(error == 0 || error == MPP_ERR_OVERFLOW);
        for (size_t i = 0; i < count; i += 3 + size % 7) {
            check_again(&log, (struct moment){.position = stops[i].position, .time_ns = UINT64_MAX}, &stops[i]);
        }
        if (!error) check_end_and_peak(&log, record_count);
        log_close(&log);
    }
    fuzz_log_release(&bytes);
    return 0;
}
