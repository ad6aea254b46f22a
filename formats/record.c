/* Records: FORMAT.md §4. Parsing only: bytes to struct. Nothing of the decoder moves before the whole record is known to be sound. */
#include "mpp_record_decode.h"

#define MAX_TIME_NS (UINT64_MAX >> 1)

/* Reads `count` varints; NULL when one of them is malformed. */
static const unsigned char *get_numbers(const unsigned char *p, const unsigned char *end, uint64_t *v, unsigned count)
{
    for (unsigned i = 0; p && i < count; i++) p = mpp_get_varint(p, end, &v[i]);
    return p;
}

/* Reads a length and takes so many bytes as r->text. */
static const unsigned char *get_text(const unsigned char *p, const unsigned char *end, struct mpp_record *r, uint64_t limit)
{
    uint64_t bytes;

    p = mpp_get_varint(p, end, &bytes);
    if (!p || bytes > limit || bytes > (uint64_t)(end - p)) return NULL;
    r->text = p;
    r->text_bytes = (size_t)bytes;
    return p + bytes;
}

/* Reads n and n pairs, which stay encoded in r->text: few readers want them. */
static const unsigned char *get_pairs(const unsigned char *p, const unsigned char *end, struct mpp_record *r)
{
    uint64_t n, pair[2];

    p = mpp_get_varint(p, end, &n);
    if (!p || n > MPP_MAX_PAIRS) return NULL;
    const unsigned char *first = p;
    for (uint64_t i = 0; p && i < n; i++) p = get_numbers(p, end, pair, 2);
    if (!p) return NULL;
    r->text = first;
    r->text_bytes = (size_t)(p - first);
    r->pair_count = (uint32_t)n;
    return p;
}

/* Adds the zigzag number `u` to `base`; 0 when what comes out is no serial. */
static uint64_t serial_from(uint64_t base, uint64_t u)
{
    uint64_t serial = base + (uint64_t)mpp_unzigzag(u);

    return serial <= MPP_MAX_SERIAL ? serial : 0;
}

static int is_weight(uint64_t weight)
{
    return weight >= 1 && weight <= MPP_MAX_WEIGHT;
}

/* FREE_SIZED, SIZE, RECLASS: a serial relative to *base, and one number up to `limit`. */
static const unsigned char *get_delta_and(const unsigned char *p, const unsigned char *end, uint64_t *base, uint64_t limit, uint64_t *number,
                                          struct mpp_record *r)
{
    uint64_t v[2];

    p = get_numbers(p, end, v, 2);
    if (!p || v[1] > limit) return NULL;
    uint64_t serial = serial_from(*base, v[0]);
    if (serial == 0) return NULL;
    *base = r->serial = serial;
    *number = v[1];
    return p;
}

/* The records of the history but ALLOC and FREE. NULL: malformed. */
static const unsigned char *get_event(struct mpp_decoder *d, struct mpp_record *r, const unsigned char *p)
{
    const unsigned char *end = d->end;
    uint64_t v[6];

    switch (r->kind) {
    case MPP_TIME:
        p = mpp_get_varint(p, end, &v[0]);
        if (!p || d->time_ns > MAX_TIME_NS || v[0] > MAX_TIME_NS - d->time_ns) return NULL;
        r->a = v[0];
        d->time_ns += v[0];
        return p;
    case MPP_ALLOC_WEIGHTED:
        p = get_numbers(p, end, v, 2);
        if (!p || v[0] > MPP_MAX_ID || !is_weight(v[1])) return NULL;
        if (d->next_serial > MPP_MAX_SERIAL || d->next_serial == 0) return NULL;
        r->site = (uint32_t)v[0];
        r->weight = (uint32_t)v[1];
        r->serial = d->next_serial++;
        return p;
    case MPP_FREE_SIZED:
        return get_delta_and(p, end, &d->free_base, MPP_MAX_SIZE_BYTES, &r->size_bytes, r);
    case MPP_SIZE:
        return get_delta_and(p, end, &d->size_base, MPP_MAX_SIZE_BYTES, &r->size_bytes, r);
    case MPP_RECLASS:
        p = get_delta_and(p, end, &d->size_base, MPP_MAX_ID, &v[0], r);
        if (p) r->id = (uint32_t)v[0];
        return p;
    case MPP_LIVE:
        p = get_numbers(p, end, v, 6);
        if (!p || v[0] < 1 || v[0] > MPP_MAX_SERIAL || v[1] > MPP_MAX_ID || v[2] > MPP_MAX_SIZE_BYTES || !is_weight(v[3])) return NULL;
        r->serial = v[0];
        r->site = (uint32_t)v[1];
        r->size_bytes = v[2];
        r->weight = (uint32_t)v[3];
        r->a = (uint64_t)mpp_unzigzag(v[4]);
        r->b = v[5];
        return p;
    case MPP_FOLDED:
        p = get_numbers(p, end, v, 3);
        if (!p || v[0] > MPP_MAX_ID) return NULL;
        r->site = (uint32_t)v[0];
        r->a = v[1];
        r->size_bytes = v[2];
        return p;
    case MPP_GC_START:
    case MPP_DROP:
        p = get_numbers(p, end, v, 2);
        if (!p) return NULL;
        r->a = v[0];
        r->b = v[1];
        return p;
    case MPP_GC_END:
        p = mpp_get_varint(p, end, &v[0]);
        if (!p) return NULL;
        r->a = v[0];
        return get_pairs(p, end, r);
    case MPP_PROC:
        return get_pairs(p, end, r);
    case MPP_MARK:
        return get_text(p, end, r, MPP_MAX_STRING_BYTES);
    case MPP_GAP:
    case MPP_CLOCK:
    case MPP_FORK:
        return mpp_get_varint(p, end, &r->a);
    case MPP_SAMPLE_PERIOD:
        p = mpp_get_varint(p, end, &v[0]);
        if (!p || v[0] == 0) return NULL;
        r->a = v[0];
        return p;
    case MPP_LABEL:
        p = get_numbers(p, end, v, 3);
        if (!p || v[0] > MPP_MAX_ID || v[1] > MPP_MAX_ID || v[2] > MPP_MAX_ID) return NULL;
        r->id = (uint32_t)v[0];
        r->a = v[1];
        r->b = v[2];
        return p;
    default:
        return NULL;
    }
}

/* The records that name something (FORMAT.md §5). NULL: malformed. */
static const unsigned char *get_definition(struct mpp_decoder *d, struct mpp_record *r, const unsigned char *p)
{
    const unsigned char *end = d->end;
    uint64_t v[5];

    p = mpp_get_varint(p, end, &v[0]);
    if (!p || v[0] == 0 || v[0] > MPP_MAX_ID) return NULL;
    r->id = (uint32_t)v[0];
    switch (r->kind) {
    case MPP_STRING:
        return get_text(p, end, r, MPP_MAX_STRING_BYTES);
    case MPP_FUNCTION_NAME:
        p = get_numbers(p, end, v, 4);
        if (!p || v[0] > MPP_MAX_ID || v[1] > MPP_MAX_ID || v[2] > UINT32_MAX) return NULL;
        r->a = v[0];
        r->b = v[1];
        r->c = v[2];
        r->d = v[3];
        return p;
    case MPP_STACK:
        p = get_numbers(p, end, v, 3);
        /* A parent below its child is what keeps walks towards the root finite. */
        if (!p || v[0] >= r->id || v[1] > MPP_MAX_ID || v[2] > UINT32_MAX) return NULL;
        r->a = v[0];
        r->b = v[1];
        r->c = v[2];
        return p;
    case MPP_SITE:
        p = get_numbers(p, end, v, 5);
        if (!p || v[0] > MPP_MAX_ID || v[1] > MPP_MAX_ID || v[2] > UINT32_MAX || v[3] > MPP_MAX_ID || v[4] > MPP_MAX_SIZE_BYTES) return NULL;
        r->a = v[0];
        r->b = v[1];
        r->c = v[2];
        r->d = v[3];
        r->size_bytes = v[4];
        return p;
    case MPP_CLASS_NAME:
        p = get_numbers(p, end, v, 2);
        if (!p || v[0] > MPP_MAX_ID) return NULL;
        r->a = v[0];
        r->b = v[1];
        return p;
    case MPP_THREAD_NAME:
        p = mpp_get_varint(p, end, &v[0]);
        if (!p || v[0] > MPP_MAX_ID) return NULL;
        r->a = v[0];
        return p;
    default:
        return NULL;
    }
}

int mpp_decoder_rare(struct mpp_decoder *d, struct mpp_record *r, unsigned first, const unsigned char *at)
{
    if (first >= MPP_EXTENSION && first < MPP_FREE) {
        r->kind = MPP_EXTENSION;
        r->id = first;
        at = get_text(at, d->end, r, UINT64_MAX);
    } else {
        r->kind = (int)first;
        at = first < MPP_STRING ? get_event(d, r, at) : get_definition(d, r, at);
    }
    if (!at) return MPP_ERR_MALFORMED;
    d->at = at;
    return 1;
}

int mpp_record_pair(struct mpp_record *r, uint64_t *key, uint64_t *value)
{
    const unsigned char *p = r->text, *end = r->text + r->text_bytes;
    uint64_t v[2];

    if (r->pair_count == 0) return 0;
    p = get_numbers(p, end, v, 2);
    if (!p) return 0;
    r->pair_count--;
    r->text = p;
    r->text_bytes = (size_t)(end - p);
    *key = v[0];
    *value = v[1];
    return 1;
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

const char *mpp_record_kind_name(int kind)
{
    static const char *const names[] = {
        [MPP_TIME] = "TIME",
        [MPP_ALLOC_WEIGHTED] = "ALLOC_WEIGHTED",
        [MPP_FREE_SIZED] = "FREE_SIZED",
        [MPP_SIZE] = "SIZE",
        [MPP_RECLASS] = "RECLASS",
        [MPP_LIVE] = "LIVE",
        [MPP_GC_START] = "GC_START",
        [MPP_GC_END] = "GC_END",
        [MPP_MARK] = "MARK",
        [MPP_GAP] = "GAP",
        [MPP_DROP] = "DROP",
        [MPP_LABEL] = "LABEL",
        [MPP_CLOCK] = "CLOCK",
        [MPP_FOLDED] = "FOLDED",
        [MPP_SAMPLE_PERIOD] = "SAMPLE_PERIOD",
        [MPP_PROC] = "PROC",
        [MPP_FORK] = "FORK",
        [MPP_STRING] = "STRING",
        [MPP_FUNCTION_NAME] = "FUNCTION_NAME",
        [MPP_STACK] = "STACK",
        [MPP_SITE] = "SITE",
        [MPP_CLASS_NAME] = "CLASS_NAME",
        [MPP_THREAD_NAME] = "THREAD_NAME",
    };

    if (kind >= MPP_ALLOC) return "ALLOC";
    if (kind >= MPP_FREE) return "FREE";
    if (kind >= MPP_EXTENSION) return "EXTENSION";
    if (kind < 0 || (size_t)kind >= COUNT_OF(names) || !names[kind]) return "UNKNOWN";
    return names[kind];
}

const char *mpp_type_name(unsigned type)
{
    static const char *const names[] = {
        [MPP_TYPE_OBJECT] = "OBJECT", [MPP_TYPE_CLASS] = "CLASS",     [MPP_TYPE_MODULE] = "MODULE",     [MPP_TYPE_FLOAT] = "FLOAT",
        [MPP_TYPE_STRING] = "STRING", [MPP_TYPE_REGEXP] = "REGEXP",   [MPP_TYPE_ARRAY] = "ARRAY",       [MPP_TYPE_HASH] = "HASH",
        [MPP_TYPE_STRUCT] = "STRUCT", [MPP_TYPE_BIGNUM] = "BIGNUM",   [MPP_TYPE_FILE] = "FILE",         [MPP_TYPE_DATA] = "DATA",
        [MPP_TYPE_MATCH] = "MATCH",   [MPP_TYPE_COMPLEX] = "COMPLEX", [MPP_TYPE_RATIONAL] = "RATIONAL", [MPP_TYPE_SYMBOL] = "SYMBOL",
        [MPP_TYPE_IMEMO] = "IMEMO",   [MPP_TYPE_NODE] = "NODE",       [MPP_TYPE_ICLASS] = "ICLASS",
    };

    return type < COUNT_OF(names) ? names[type] : NULL;
}

const char *mpp_proc_key_name(uint64_t key)
{
    static const char *const names[] = {
        [MPP_PROC_RSS_BYTES] = "rss_bytes",
        [MPP_PROC_CPU_NS] = "cpu_ns",
        [MPP_PROC_WRITER_CPU_NS] = "writer_cpu_ns",
        [MPP_PROC_RECORDER_MEMORY_BYTES] = "recorder_memory_bytes",
        [MPP_PROC_TRACKED_OBJECTS] = "tracked_objects",
        [MPP_PROC_RECORDED_ALLOCS] = "recorded_allocs",
        [MPP_PROC_DROPPED_ALLOCS] = "dropped_allocs",
        [MPP_PROC_WRITTEN_BYTES] = "written_bytes",
        [MPP_PROC_SEALED_BLOCKS] = "sealed_blocks",
        [MPP_PROC_STALLS] = "stalls",
        [MPP_PROC_STALL_NS] = "stall_ns",
    };

    return key < COUNT_OF(names) ? names[key] : NULL;
}

const char *mpp_gc_key_name(uint64_t key)
{
    static const char *const names[] = {
        [MPP_GC_HEAP_LIVE_SLOTS] = "heap_live_slots",
        [MPP_GC_HEAP_FREE_SLOTS] = "heap_free_slots",
        [MPP_GC_TOTAL_ALLOCATED_OBJECTS] = "total_allocated_objects",
        [MPP_GC_TOTAL_FREED_OBJECTS] = "total_freed_objects",
        [MPP_GC_HEAP_PAGES] = "heap_pages",
        [MPP_GC_MALLOC_INCREASE_BYTES] = "malloc_increase_bytes",
        [MPP_GC_OLD_OBJECTS] = "old_objects",
        [MPP_GC_MINOR_COUNT] = "minor_gc_count",
        [MPP_GC_MAJOR_COUNT] = "major_gc_count",
        [MPP_GC_TIME_NS] = "gc_time_ns",
        [MPP_GC_OLDMALLOC_INCREASE_BYTES] = "oldmalloc_increase_bytes",
    };

    return key < COUNT_OF(names) ? names[key] : NULL;
}
