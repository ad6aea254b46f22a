/* pprof_load OUT: builds a profile of 100,000 distinct stacks of depth 30 with four labels each, writes it to OUT and prints the seconds that it
 * took. */
#include "formats/mpp_pprof.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STACKS = 100000, DEPTH = 30, LOCATIONS = 10000 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int argc, char **argv)
{
    static uint64_t ids[LOCATIONS], stack[DEPTH];
    struct mpp_pprof *p;
    char label[64], path[64];
    unsigned char *data;
    size_t bytes;
    const char *why = NULL;

    if (argc != 2) return 2;
    double began = now();
    int error = mpp_pprof_new(&p);
    if (error) return 1;
    for (int i = 0; i < LOCATIONS && !error; i++) {
        snprintf(label, sizeof(label), "Part%d::Worker#step_%d", i / 50, i / 3);
        snprintf(path, sizeof(path), "/app/gems/part-%d/lib/file_%d.rb", i / 500, i / 50);
        ids[i] = mpp_pprof_location(p, label, path, i / 3 % 500, i % 997, &error);
    }
    for (int k = 0; k < DEPTH; k++) stack[k] = ids[k];
    for (int i = 0; i < STACKS && !error; i++) {
        /* the callers near the root stay, as they do where stacks come out of a tree; now and then half of the stack changes */
        uint64_t changed = 1 + next() % (i % 64 ? 8 : DEPTH / 2);
        for (uint64_t k = 0; k < changed; k++) stack[k] = ids[next() % LOCATIONS];
        snprintf(label, sizeof(label), "Class%" PRIu64, next() % 300);
        snprintf(path, sizeof(path), "thread %" PRIu64, next() % 5);
        int64_t n = (int64_t)(next() % 1000);
        const struct mpp_pprof_label labels[] = {
            {.key = "class", .text = label}, {.key = "type", .text = "STRING"}, {.key = "thread", .text = path}, {.key = "gc_age", .number = n % 9}};
        error = mpp_pprof_add_sample(p, stack, DEPTH, (int64_t[]){n * 7, n * 280, n, n * 40}, labels, 4);
    }
    if (!error) error = mpp_pprof_encode(p, &data, &bytes, &why);
    if (error) {
        fprintf(stderr, "pprof_load: %s%s%s\n", mpp_error_string(error), why ? ": " : "", why ? why : "");
        mpp_pprof_free(p);
        return 1;
    }
    double seconds = now() - began;
    FILE *out = fopen(argv[1], "wb");
    if (!out || fwrite(data, 1, bytes, out) != bytes || fclose(out)) return 1;
    printf("{\"seconds\": %.6f, \"bytes\": %zu}\n", seconds, bytes);
    free(data);
    mpp_pprof_free(p);
    return 0;
}
