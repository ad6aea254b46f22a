#include "analyzer/view.h"
#include "analyzer/message.h"
#include <stdlib.h>

int view_open(struct view *v, const struct options *o)
{
    *v = (struct view){.opened = 0};
    if (log_open(&v->log, o->log)) return -1;
    int error = history_settle_end(&v->log);
    if (error) {
        history_fail(&v->log, error);
        log_close(&v->log);
        return -1;
    }
    replay_init(&v->replay, &v->log);
    v->opened = 1;
    return 0;
}

void view_close(struct view *v)
{
    if (!v->opened) return;
    replay_release(&v->replay);
    log_close(&v->log);
    v->opened = 0;
}

int view_fail(const struct view *v, int error)
{
    history_fail(&v->log, error);
    return -1;
}

int view_go(struct view *v, struct moment m, const struct time_spec *t, struct report_point *at)
{
    int error = replay_run(&v->replay, m);

    if (error) return view_fail(v, error);
    const struct history *h = &v->replay.history;
    /* A time between two records is a moment all the same: the wall clock went on. */
    uint64_t now = m.time_ns <= v->log.end_time_ns ? m.time_ns : h->time_ns;
    if (t->kind == TIME_END) now = v->log.end_time_ns;
    *at = (struct report_point){.spec = t->text,
                                .position = h->position,
                                .time_ns = h->position ? h->time_ns : 0,
                                .now_ns = now,
                                .wall_unix_ns = replay_wall_ns(&v->replay, now)};
    return 0;
}

int view_finish(struct view *v)
{
    uint64_t record_count;
    int error = replay_finish(&v->replay, &record_count);

    if (error) return view_fail(v, error);
    log_tell_state(&v->log, record_count);
    return 0;
}

struct sampling {
    const struct heap *heap;
    uint64_t min_age;
    struct u64_map index; /* (site + 1) << 8 | bucket -> sample */
    struct sample_list *list;
    size_t first; /* samples before it are of another moment */
    int base, error;
};

static uint32_t bucket_of(uint64_t age)
{
    return age == 0 ? 1 : 2 + (uint32_t)(63 - __builtin_clzll(age));
}

uint64_t sample_age(uint32_t bucket)
{
    return bucket < 2 ? 0 : UINT64_C(1) << (bucket - 2);
}

static struct sample *sample_for(struct sampling *s, uint32_t site, uint32_t bucket)
{
    uint64_t key = ((uint64_t)site + 1) << 8 | bucket;
    const uint32_t *known = u64_map_get(&s->index, key);
    struct sample_list *l = s->list;

    if (known) return &l->samples[*known];
    if (l->count >= UINT32_MAX || array_reserve((void **)&l->samples, &l->capacity, l->count + 1, sizeof *l->samples) ||
        u64_map_put(&s->index, key, (uint32_t)l->count)) {
        s->error = MPP_ERR_NO_MEMORY;
        return NULL;
    }
    l->samples[l->count] = (struct sample){.site = site, .bucket = bucket, .base = s->base};
    return &l->samples[l->count++];
}

static void sample_object(void *context, uint64_t serial, const struct object *o, const struct live_object *live)
{
    struct sampling *s = context;

    if (s->error || heap_unknown(s->heap, serial, live)) return;
    uint64_t age = heap_age(s->heap, serial, live);
    if (age < s->min_age) return;
    struct sample *sample = sample_for(s, o->site, bucket_of(age));
    if (!sample) return;
    sample->live.objects += o->weight;
    sample->live.bytes += o->weight * object_size(o);
    sample->allocated_objects += o->weight;
    sample->allocated_bytes += o->weight * object_size(o);
}

static int by_site(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

int view_collect_samples(struct view *v, uint64_t min_age, int base, struct sample_list *list)
{
    struct heap *h = &v->replay.heap;
    struct sampling s = {.heap = h, .min_age = min_age, .list = list, .first = list->count, .base = base};

    objects_each(&h->objects, sample_object, &s);
    /* What has come and gone (or is unknown) has no age; it makes the sums exact. */
    for (size_t i = 0; i < h->site_count && !s.error && min_age == 0; i++) {
        struct counters n = heap_site_counters(h, i);
        uint64_t objects = n.allocated_objects - counters_live_objects(&n), bytes = n.allocated_bytes - counters_live_bytes(&n);
        if (!objects && !bytes) continue;
        struct sample *sample = sample_for(&s, (uint32_t)i, 0);
        if (!sample) break;
        sample->allocated_objects = objects;
        sample->allocated_bytes = bytes;
    }
    u64_map_release(&s.index);
    if (!s.error && list->count > s.first) qsort(list->samples + s.first, list->count - s.first, sizeof *list->samples, by_site);
    return s.error;
}
