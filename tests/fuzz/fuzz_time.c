/* Property: any text is a TIME or is refused with a reason; a TIME resolves within the log's positions, or is refused; and twice to the same moment.
 * Input: a byte that selects the log, then the text. */
#include "analyzer/timespec.h"
#include "formats/mpp_record_encode.h"
#include "fuzz.h"
#include <string.h>

/* Descriptions of logs (fuzz.h) with marks, GCs, clocks that are set, in one block each. */
static struct fuzz_log logs[4];

static uint8_t *put_records(uint8_t *p, unsigned which)
{
    static const uint64_t clocks[] = {0, 1, UINT64_MAX, UINT64_C(1764597785000000000), UINT64_C(1764684185000000000), UINT64_MAX >> 1};

    p = mpp_encode_site(p, 1, 0, 0, 5, 0, 40);
    for (unsigned i = 0; i < 12; i++) {
        p = mpp_encode_time(p, which == 2 ? UINT64_C(500000000000000000) : 1000000000u * (i + 1));
        p = mpp_encode_alloc(p, 1);
        if (i % 3 == 0) p = mpp_encode_mark(p, i % 2 ? "warm" : "a#2", i % 2 ? 4 : 3);
        if (i % 4 == 0) p = mpp_encode_gc_end(mpp_encode_2(p, MPP_GC_START, i, 0), i, 0);
        if (which >= 1 && i % 2) p = mpp_encode_1(p, MPP_CLOCK, clocks[i / 2 % 6]);
    }
    return p;
}

static void make_logs(void)
{
    for (unsigned i = 0; i < 4; i++) {
        uint8_t description[2048] = {(uint8_t)(i & 1), 0, MPP_BLOCK_EVENTS, 0};
        uint8_t *end = i == 3 ? description + 6 : put_records(description + 6, i);
        size_t bytes = (size_t)(end - description) - 6;
        description[4] = (uint8_t)bytes;
        description[5] = (uint8_t)(bytes >> 8);
        fuzz_log_init(&logs[i], description, (size_t)(end - description));
    }
}

static int resolve(const struct fuzz_log *bytes, const struct time_spec *t, struct moment *m)
{
    struct mpp_source source;
    struct log log;

    mpp_source_memory(&source, bytes->data, bytes->bytes);
    FUZZ_CHECK(log_open_source(&log, "log", &source) == 0);
    FUZZ_CHECK(history_settle_end(&log) == 0);
    int error = time_resolve(t, &log, m);
    FUZZ_CHECK(error == 0 || error == -1);
    if (!error) {
        FUZZ_CHECK(m->position <= 1000 || m->position == UINT64_MAX);
        FUZZ_CHECK(m->time_ns <= log.end_time_ns || m->time_ns == UINT64_MAX);
    }
    log_close(&log);
    return error;
}

FUZZ_TARGET(time)
{
    static const char unset[] = "unset";
    const char *why = unset;
    struct time_spec t;

    if (size < 1 || size > 4096) return 0;
    fuzz_silence_stderr();
    if (!logs[0].data) make_logs();
    char *text = malloc(size); /* of its exact length */
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    int error = time_parse(&t, text, &why);
    FUZZ_CHECK(error == 0 || (error == -1 && why && why != unset && *why));
    for (unsigned i = 0; i < 4 && !error; i++) {
        struct moment once = MOMENT_START, twice = MOMENT_END;
        if (!fuzz_all_variants && i != data[0] % 4) continue;
        FUZZ_CHECK(t.text == text && t.kind <= TIME_GC);
        int failed = resolve(&logs[i], &t, &once);
        FUZZ_CHECK(resolve(&logs[i], &t, &twice) == failed);
        if (!failed) FUZZ_CHECK(once.position == twice.position && once.time_ns == twice.time_ns);
    }
    free(text);
    return 0;
}
