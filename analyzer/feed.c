#include "analyzer/feed.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A batch is some 25 KiB: those on their way stay in the cache that cores share. */
#define RING_BATCHES 32
/* The blocks that batches on their way lie in: the open one and the one before. Blocks have more records than the ring, so none waits for it. */
#define PAYLOADS 2
/* The thread's stack: what reading and decompressing take is far below. */
#define STACK_BYTES ((size_t)256 << 10)
/* How often a thread looks before it sleeps: some 20 us, in which the other one gets some batches done. */
#define SPINS 2000

#define CACHE_LINE 64

struct feed {
    const struct mpp_reader *reader;
    /* Of the one that fills. */
    size_t next_block, block;
    int in_block, starts, ended;
    struct mpp_decoder decoder;
    uint64_t reached_ns, reached_serial, block_serial;
    struct mpp_payload payloads[PAYLOADS];
    uint64_t payload_until[PAYLOADS]; /* batches up to this number may point into it */
    unsigned payload;

    struct batch *ring;
    uint64_t filled_count; /* the filler's own count, and the taker's own */
    uint64_t taken_count;
    int is_ahead;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filler_may, taker_may;
    /* What the two tell each other. A thread that sleeps has said at which number it wants to be woken; UINT64_MAX: it is awake. */
    _Alignas(CACHE_LINE) _Atomic uint64_t filled;
    _Alignas(CACHE_LINE) _Atomic uint64_t taken;
    _Alignas(CACHE_LINE) _Atomic uint64_t filler_wants;
    _Atomic uint64_t taker_wants;
    _Atomic int stopped;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Waits until *count has come to `wanted`, or the feed was stopped: a while awake, then asleep until it is at `asleep_until`, or `wanted` if that is
 * more. */
static void wait_for(struct feed *f, _Atomic uint64_t *count, uint64_t wanted, uint64_t asleep_until, _Atomic uint64_t *wants, pthread_cond_t *may)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(count, memory_order_acquire) >= wanted || atomic_load_explicit(&f->stopped, memory_order_relaxed)) return;
        relax();
    }
    if (asleep_until < wanted) asleep_until = wanted;
    pthread_mutex_lock(&f->lock);
    atomic_store(wants, asleep_until);
    while (atomic_load(count) < asleep_until && !atomic_load(&f->stopped)) pthread_cond_wait(may, &f->lock);
    atomic_store(wants, UINT64_MAX);
    pthread_mutex_unlock(&f->lock);
}

/* Sets *count, and wakes the other thread if it waits for that. */
static void publish(struct feed *f, _Atomic uint64_t *count, uint64_t value, _Atomic uint64_t *wants, pthread_cond_t *may)
{
    atomic_store(count, value);
    if (atomic_load(wants) > value) return;
    pthread_mutex_lock(&f->lock);
    pthread_cond_signal(may);
    pthread_mutex_unlock(&f->lock);
}

/* Waits until the taker has given back `count` batches; asleep, until half of the ring is free, lest each batch cost a waking. */
static void wait_taken(struct feed *f, uint64_t count)
{
    uint64_t half = f->filled_count > RING_BATCHES / 2 ? f->filled_count - RING_BATCHES / 2 : 0;

    wait_for(f, &f->taken, count, half, &f->filler_wants, &f->filler_may);
}

/* Opens the next block, or says in the batch why there is none. Whether one is open. */
static int open_block(struct feed *f, struct batch *b)
{
    size_t count = mpp_reader_block_count(f->reader);

    for (; f->next_block < count; f->next_block++) {
        const struct mpp_block_ref *ref = mpp_reader_block(f->reader, f->next_block);
        if (ref->header.kind != MPP_BLOCK_EVENTS) continue;
        f->block = b->block = f->next_block++;
        b->end = BATCH_DAMAGED;
        b->damage = MPP_DAMAGE_BLOCK;
        if (ref->header.first_serial < f->reached_serial) return 0;
        if (f->is_ahead) {
            f->payload = (f->payload + 1) % PAYLOADS;
            wait_taken(f, f->payload_until[f->payload]);
        }
        struct mpp_payload *p = &f->payloads[f->payload];
        int error = mpp_reader_payload(f->reader, f->block, p);
        if (error == MPP_ERR_NO_MEMORY || error == MPP_ERR_IO) {
            b->end = BATCH_FAILED;
            b->error = error;
            b->error_number = errno;
            f->ended = 1;
            return 0;
        }
        b->damage = ref->in_journal ? MPP_DAMAGE_JOURNAL : MPP_DAMAGE_PAYLOAD;
        if (error) return 0;
        mpp_decoder_init(&f->decoder, p->data, p->bytes, ref->header.first_serial, ref->header.first_time_ns);
        f->in_block = f->starts = 1;
        f->block_serial = f->reached_serial;
        return 1;
    }
    b->end = BATCH_LOG_ENDS;
    f->ended = 1;
    return 0;
}

static void fill(struct feed *f, struct batch *b)
{
    if (!f->in_block) {
        batch_clear(b);
        b->first_serial = b->next_serial = b->block_serial = f->reached_serial;
        if (!open_block(f, b)) return;
    }
    b->block = f->block;
    b->block_serial = f->block_serial;
    batch_fill(b, &f->decoder, &f->reached_ns, f->starts);
    f->starts = 0;
    f->payload_until[f->payload] = f->filled_count + 1;
    if (b->end != BATCH_BLOCK_ENDS && b->end != BATCH_MALFORMED) return;
    f->in_block = 0;
    if (f->decoder.next_serial > f->reached_serial) f->reached_serial = f->decoder.next_serial;
}

static void *fill_ahead(void *context)
{
    struct feed *f = context;

    while (!f->ended) {
        if (f->filled_count >= RING_BATCHES) wait_taken(f, f->filled_count - RING_BATCHES + 1);
        if (atomic_load_explicit(&f->stopped, memory_order_relaxed)) break;
        fill(f, &f->ring[f->filled_count % RING_BATCHES]);
        publish(f, &f->filled, ++f->filled_count, &f->taker_wants, &f->taker_may);
    }
    return NULL;
}

static void destroy_locks(struct feed *f)
{
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->filler_may);
    pthread_cond_destroy(&f->taker_may);
}

static int start(struct feed *f)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);

    if (error) return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!error) error = pthread_create(&f->thread, &attributes, fill_ahead, f);
    pthread_attr_destroy(&attributes);
    return error;
}

struct feed *feed_new(const struct mpp_reader *reader, enum feed_threads threads)
{
    struct feed *f = aligned_alloc(CACHE_LINE, sizeof *f);

    if (!f) return NULL;
    *f = (struct feed){.reader = reader, .filler_wants = UINT64_MAX, .taker_wants = UINT64_MAX};
    int ahead = threads == FEED_AHEAD;
    f->ring = malloc((ahead ? RING_BATCHES : 1) * sizeof *f->ring);
    if (!f->ring) {
        free(f);
        return NULL;
    }
    if (!ahead) return f;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->filler_may, NULL);
    pthread_cond_init(&f->taker_may, NULL);
    f->is_ahead = 1;
    if (start(f)) {
        f->is_ahead = 0; /* without the thread it goes as well */
        destroy_locks(f);
    }
    return f;
}

void feed_free(struct feed *f)
{
    if (!f) return;
    if (f->is_ahead) {
        pthread_mutex_lock(&f->lock);
        atomic_store(&f->stopped, 1);
        pthread_cond_signal(&f->filler_may);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
        destroy_locks(f);
    }
    for (unsigned i = 0; i < PAYLOADS; i++) mpp_payload_release(&f->payloads[i]);
    free(f->ring);
    free(f);
}

const struct batch *feed_front(struct feed *f)
{
    if (f->is_ahead) {
        wait_for(f, &f->filled, f->taken_count + 1, 0, &f->taker_wants, &f->taker_may);
        return &f->ring[f->taken_count % RING_BATCHES];
    }
    if (f->filled_count == f->taken_count) {
        fill(f, f->ring);
        f->filled_count++;
    }
    return f->ring;
}

void feed_next(struct feed *f)
{
    f->taken_count++;
    if (f->is_ahead) publish(f, &f->taken, f->taken_count, &f->filler_wants, &f->filler_may);
}
