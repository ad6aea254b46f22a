/* Writes random logs: the same seed gives the same bytes. For tests (every kind of record, odd and wrong ones too) and for benchmarks.
 *
 *   genlog --seed N --events N --out FILE [--blocks-of BYTES] [--killed] [--hostile] [--model random|bench]
 *
 * --killed   the log of a killed process: no footer; the journal holds the last two blocks, and one that is sealed already
 * --hostile  well-formed, but wrong: undefined sites, serials from the future, sizes of the dead, backward times, holes in the serials
 *
 * Some things go by the seed: seed % 5 == 4 is a fork's child, seed % 3 == 2 a sampled log, seed % 7 == 6 a log without a journal (unless killed).
 */
#include "genlog_bench.h"
#include "genlog_random.h"

static int write_at(void *context, const void *data, size_t bytes, uint64_t offset)
{
    const struct gen *g = context;

    while (bytes) {
        ssize_t n = pwrite(g->fd, data, bytes, (off_t)offset);
        if (n < 0) return MPP_ERR_IO;
        data = (const char *)data + n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static void write_half(struct gen *g, const struct payload *p)
{
    unsigned char header[MPP_HALF_HEADER_BYTES];
    const struct mpp_block_header *h = &p->header;
    uint64_t offset = g->info.journal_offset + (h->sequence % HALVES) * (uint64_t)g->info.journal_half_bytes;

    if (h->sequence == 0) return;
    mpp_half_header_encode(header, h->sequence, h->first_serial, h->first_time_ns);
    uint32_t crc = mpp_crc32c_value(mpp_crc32c_step(MPP_CRC32C_START, p->data, p->bytes));
    if (p->bytes) mpp_put_u64(header + MPP_HALF_COMMIT_OFFSET, p->bytes | (uint64_t)crc << 32);
    check(write_at(g, header, sizeof(header), offset), "writing the journal");
    check(write_at(g, p->data, p->bytes, offset + sizeof(header)), "writing the journal");
}

static void fill_info(struct gen *g, uint64_t seed)
{
    static char ruby[] = "3.1.2", description[] = "ruby 3.1.2p20 (2022-04-12 revision 4491bb740a) [x86_64-linux-gnu]", recorder[] = "0.0-genlog";
    static char command[] = "ruby\0-e\0puts 'h\xc3\xa9llo'";
    struct mpp_log_info *i = &g->info;

    mpp_put_u64(i->uuid, next_random(g));
    mpp_put_u64(i->uuid + 8, seed);
    i->pid = 4242;
    i->ppid = 4000;
    i->start_unix_ns = UINT64_C(1764597785250000000);
    i->start_monotonic_ns = UINT64_C(123456789);
    i->utc_offset_s = 3600;
    i->ruby_version = ruby;
    i->ruby_description = description;
    i->recorder_version = recorder;
    i->command_line = command;
    i->command_line_bytes = sizeof(command);
    i->sample_period = g->is_sampled ? 100 : 1;
    i->max_depth = 256;
    if (g->is_child) {
        i->has_parent = 1;
        memset(i->parent_uuid, 0x5a, sizeof(i->parent_uuid));
        i->fork_sequence = 3;
        i->fork_bytes = 1234;
        i->fork_serial = g->next_serial;
    }
    if (seed % 7 != 6 || g->is_killed) {
        i->journal_half_count = HALVES;
        i->journal_half_bytes = (uint32_t)((g->block_bytes + 2 * MAX_TEXT_BYTES + MPP_HALF_HEADER_BYTES) / MPP_PAGE_BYTES + 1) * MPP_PAGE_BYTES;
    }
}

static void finish(struct gen *g)
{
    check(mpp_block_count(&g->now.header, g->now.data, g->now.bytes), "counting the last block");
    if (g->is_killed) {
        write_half(g, &g->sealed);
        write_half(g, &g->full);
        write_half(g, &g->now);
    } else {
        if (g->now.bytes) append(g, &g->now);
        append_proc(g);
        append_definitions(g);
        check(mpp_writer_finish(g->writer, g->time_ns + below(g, 1000)), "writing the end");
    }
    mpp_writer_free(g->writer);
    if (close(g->fd) != 0) die("closing the log");
    free(g->now.data);
    free(g->full.data);
    free(g->sealed.data);
    free(g->definitions.data);
    free(g->live);
}

static uint64_t number(const char *text)
{
    char *end_of_it;

    errno = 0;
    unsigned long long v = strtoull(text, &end_of_it, 10);
    if (errno || end_of_it == text || *end_of_it) {
        fprintf(stderr, "genlog: not a number: '%s'\n", text);
        exit(2);
    }
    return v;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'},   {"events", 1, NULL, 'e'},  {"out", 1, NULL, 'o'},   {"blocks-of", 1, NULL, 'b'},
                                            {"killed", 0, NULL, 'k'}, {"hostile", 0, NULL, 'x'}, {"model", 1, NULL, 'm'}, {0}};
    struct gen g = {.wanted_events = 1000};
    const char *out = NULL;
    uint64_t seed = 1;
    int option, is_bench = 0;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            seed = number(optarg);
            break;
        case 'e':
            g.wanted_events = number(optarg);
            break;
        case 'o':
            out = optarg;
            break;
        case 'b':
            g.block_bytes = number(optarg);
            break;
        case 'k':
            g.is_killed = 1;
            break;
        case 'x':
            g.is_hostile = 1;
            break;
        case 'm':
            is_bench = strcmp(optarg, "bench") == 0;
            break;
        default:
            return 2;
        }
    }
    if (!out || optind != argc || g.block_bytes > 32u << 20) {
        fprintf(stderr, "usage: genlog --seed N --events N --out FILE [--blocks-of BYTES] [--killed] [--hostile] [--model random|bench]\n");
        return 2;
    }
    if (g.block_bytes == 0) g.block_bytes = is_bench ? 1u << 20 : 1u << 16;
    g.random = seed;
    g.is_child = !is_bench && seed % 5 == 4;
    g.is_sampled = !is_bench && seed % 3 == 2;
    g.next_serial = is_bench ? 1 : 1 + below(&g, 50) + (g.is_child ? 1000 : 0);
    fill_info(&g, seed);
    mpp_crc32c_init();
    g.fd = open(out, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (g.fd < 0) die(out);
    struct mpp_sink sink = {write_at, &g};
    check(mpp_writer_new(&g.writer, &sink, &g.info, g.block_bytes + 4 * MAX_TEXT_BYTES), "starting the log");
    open_block(&g);
    if (is_bench)
        run_bench(&g);
    else
        run_random(&g);
    finish(&g);
    return 0;
}
