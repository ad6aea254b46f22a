/* The journal and the thread that writes it, without Ruby: what a producer commits as hooks do is what mpp_reader reads, whatever happens in between.
 * Build it with SAN=thread too. */
#include "formats/mpp_reader.h"
#include "recorder/ext/mpp_recorder/log_file.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a recording: its parts in a directory of its own ---- */

struct recording {
    char directory[64], path[PATH_MAX];
    struct mpp_log_info info;
    struct mpp_journal journal;
    struct mpp_journal_memory memory;
    struct mpp_log_file file;
};

static struct recording r;

static int begin_recording(uint64_t journal_bytes, enum mpp_on_exists on_exists)
{
    size_t header_bytes;

    memset(&r.info, 0, sizeof r.info);
    r.info.pid = 7;
    header_bytes = mpp_log_header_bytes(&r.info);
    assert_int_equal(mpp_journal_memory_map(&r.memory, r.path, header_bytes, journal_bytes), 0);
    mpp_journal_init(&r.journal, r.memory.base + header_bytes, r.memory.half_bytes, r.memory.half_count, 1);
    return mpp_log_file_create(&r.file, r.path, on_exists, &r.info, &r.journal, &r.memory);
}

/* As on a file system that cannot map. */
static void unmapped(void)
{
    assert_int_equal(mpp_journal_memory_after_fork(&r.memory), 0);
    r.file.mapped = 0;
}

static void wake(void *context)
{
    mpp_log_file_wake(context);
}

static void start_writer(void)
{
    r.journal.half_filled = wake;
    r.journal.context = &r.file;
    assert_int_equal(mpp_log_file_start(&r.file), 0);
}

static void end_recording(void)
{
    mpp_journal_stamp(&r.journal);
    mpp_journal_seal(&r.journal);
    mpp_log_file_join(&r.file);
    assert_int_equal(mpp_log_file_finish(&r.file, r.journal.clock.now_ns, &r.memory), 0);
    mpp_log_file_close(&r.file);
    mpp_journal_memory_unmap(&r.memory);
}

static int setup(void **state)
{
    (void)state;
    memset(&r, 0, sizeof r);
    strcpy(r.directory, "/tmp/mpp-journal-XXXXXX");
    assert_non_null(mkdtemp(r.directory));
    snprintf(r.path, sizeof r.path, "%s/app.mpp", r.directory);
    return 0;
}

static int teardown(void **state)
{
    char path[PATH_MAX];
    DIR *d = opendir(r.directory);
    struct dirent *e;

    (void)state;
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s", r.directory, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
    return rmdir(r.directory);
}

/* ---- a stream of records of which each is known by its number ---- */

static uint64_t serial_before(uint64_t n) /* of the last ALLOC among records 0 to n - 1 */
{
    return n / 5 * 3 + (n % 5 < 3 ? n % 5 : 3);
}

/* Record n at the journal's end; 0, or -1 for no room. */
static int put_record(uint64_t n, enum mpp_patience patience)
{
    struct mpp_journal *j = &r.journal;
    uint64_t serial = n / 5 * 3 + 1 + n % 3;
    char text[32];
    unsigned char *p;

    if (n % 64 == 0) mpp_journal_stamp(j);
    p = mpp_journal_room(j, MPP_RECORD_MAX_BYTES, patience);
    if (!p) return -1;
    switch (n % 5) {
    case 3:
        p = n % 2 ? mpp_encode_free(p, (int64_t)(serial - j->free_base)) : mpp_encode_free_sized(p, (int64_t)(serial - j->free_base), n % 100000);
        j->free_base = serial;
        j->free_count++;
        break;
    case 4:
        if (n % 35 == 4) {
            p = mpp_encode_mark(p, text, (size_t)snprintf(text, sizeof text, "mark %llu", (unsigned long long)n));
        } else {
            p = mpp_encode_size(p, (int64_t)(serial - j->size_base), n % 100000);
            j->size_base = serial;
        }
        break;
    default:
        p = mpp_encode_alloc(p, (uint32_t)(n * 7 % 5000));
        j->next_serial++;
        j->alloc_count++;
    }
    mpp_journal_commit(j, p);
    return 0;
}

/* In threads other than cmocka's nothing can be asserted: the first check that failed is told by its line. */
#define CHECK(condition)                                                                                                                             \
    do {                                                                                                                                             \
        if (!(condition)) return __LINE__;                                                                                                           \
    } while (0)

static int check_record(const struct mpp_record *record, uint64_t n)
{
    uint64_t serial = n / 5 * 3 + 1 + n % 3;
    char text[32];
    size_t length;

    switch (n % 5) {
    case 3:
        CHECK(record->kind == (n % 2 ? MPP_FREE : MPP_FREE_SIZED));
        CHECK(record->serial == serial);
        CHECK(n % 2 || record->size_bytes == n % 100000);
        return 0;
    case 4:
        if (n % 35 == 4) {
            length = (size_t)snprintf(text, sizeof text, "mark %llu", (unsigned long long)n);
            CHECK(record->kind == MPP_MARK);
            CHECK(record->text_bytes == length && !memcmp(record->text, text, length));
        } else {
            CHECK(record->kind == MPP_SIZE);
            CHECK(record->serial == serial && record->size_bytes == n % 100000);
        }
        return 0;
    default:
        CHECK(record->kind == MPP_ALLOC);
        CHECK(record->serial == serial_before(n) + 1);
        CHECK(record->site == n * 7 % 5000);
        return 0;
    }
}

struct reading {
    struct mpp_reader *reader;
    struct mpp_payload payload;
    uint64_t n, time_ns, sequence;
};

static int check_block(struct reading *g, size_t i)
{
    const struct mpp_block_ref *block = mpp_reader_block(g->reader, i);
    struct mpp_decoder decoder;
    struct mpp_record record;
    uint64_t records = 0, allocs = 0, frees = 0;
    int more, line;

    if (block->header.kind != MPP_BLOCK_EVENTS) return 0;
    CHECK(block->header.sequence == ++g->sequence);
    CHECK(mpp_reader_payload(g->reader, i, &g->payload) == MPP_OK);
    mpp_decoder_init(&decoder, g->payload.data, g->payload.bytes, block->header.first_serial, block->header.first_time_ns);
    while ((more = mpp_decoder_next(&decoder, &record)) > 0) {
        records++;
        allocs += record.kind == MPP_ALLOC;
        frees += record.kind == MPP_FREE || record.kind == MPP_FREE_SIZED;
        CHECK(decoder.time_ns >= g->time_ns);
        g->time_ns = decoder.time_ns;
        line = record.kind == MPP_TIME ? 0 : check_record(&record, g->n++);
        if (line) return line;
    }
    CHECK(more == 0);
    if (block->in_journal) return 0;
    CHECK(block->header.record_count == records && block->header.alloc_count == allocs && block->header.free_count == frees);
    CHECK(block->header.last_time_ns == decoder.time_ns);
    return 0;
}

/* Reads a log: *n is how many of the stream's records it holds, which are the first ones. 0, or the line of what is wrong. */
static int check_log(const char *path, int has_footer, uint64_t *n)
{
    struct mpp_source source;
    struct reading g = {0};
    int line = 0;

    CHECK(mpp_source_file(&source, path) == 0);
    CHECK(mpp_reader_open(&g.reader, &source) == MPP_OK);
    if (mpp_reader_damage_count(g.reader)) line = 1000 + (int)mpp_reader_damage(g.reader, 0)->kind;
    if (mpp_reader_has_footer(g.reader) != has_footer) line = 2000;
    for (size_t i = 0; !line && i < mpp_reader_block_count(g.reader); i++) line = check_block(&g, i);
    mpp_payload_release(&g.payload);
    mpp_reader_free(g.reader);
    *n = g.n;
    return line;
}

static uint64_t read_back(const char *path, int has_footer)
{
    uint64_t n;

    assert_int_equal(check_log(path, has_footer, &n), 0);
    return n;
}

/* The log as a process that is killed now would leave it. The blocks are read before the journal: while the producer rests, what is in neither of
 * them when looked at in the other order has moved. */
static uint64_t read_copy(void)
{
    char copy[PATH_MAX + 8];
    struct stat st;
    unsigned char *bytes;
    size_t first = r.info.first_block_offset;
    uint64_t n;
    int from = open(r.path, O_RDONLY), to;

    snprintf(copy, sizeof copy, "%s.copy", r.path);
    to = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(fstat(from, &st), 0);
    bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(pread(from, bytes + first, (size_t)st.st_size - first, (off_t)first), (size_t)st.st_size - first);
    assert_int_equal(pread(from, bytes, first, 0), first);
    assert_int_equal(write(to, bytes, (size_t)st.st_size), st.st_size);
    free(bytes);
    close(from);
    close(to);
    n = read_back(copy, 0);
    unlink(copy);
    return n;
}

/* ---- one thread ---- */

static void test_room(void **state)
{
    static _Alignas(4096) unsigned char memory[2 * 8192];
    struct mpp_journal *j = &r.journal;
    const size_t payload = 8192 - MPP_HALF_HEADER_BYTES - MPP_RECORD_MAX_BYTES;
    unsigned char *p;

    (void)state;
    mpp_journal_init(j, memory, 8192, 2, 100);
    mpp_journal_seal(j); /* nothing to seal */
    assert_int_equal(j->next_sequence, 1);
    assert_null(mpp_journal_room(j, payload + 1, MPP_NO_WAIT));
    assert_non_null(mpp_journal_room(j, payload, MPP_NO_WAIT));
    assert_int_equal(mpp_journal_max_text_bytes(j), 4096);
    for (int half = 0; half < 2; half++) {
        assert_non_null(p = mpp_journal_room(j, payload, MPP_NO_WAIT));
        memset(p, 0x80, payload);
        mpp_journal_commit(j, p + payload);
    }
    /* Both are taken, and nobody writes them. */
    assert_null(mpp_journal_room(j, 1, MPP_NO_WAIT));
    assert_int_equal(atomic_load(&j->halves[0].state), MPP_HALF_FULL);
    assert_int_equal(atomic_load(&j->halves[1].state), MPP_HALF_FULL);
    assert_int_equal(j->halves[0].payload_bytes, payload);
    assert_true(j->halves[0].header.sequence == 1 && j->halves[1].header.sequence == 2);
    /* A hook waits a while, and gives up; what it waited is counted. */
    while (!j->stall_count) assert_null(mpp_journal_room(j, 1, MPP_HOOK_WAIT));
    assert_true(j->stall_ns > 0);
    atomic_store(&j->dead, 1);
    assert_null(mpp_journal_room(j, 1, MPP_LONG_WAIT));
    atomic_store(&j->dead, 0);
    /* A half that has been written is taken again, in turn. */
    atomic_store(&j->halves[1].state, MPP_HALF_EMPTY);
    assert_null(mpp_journal_room(j, 1, MPP_NO_WAIT));
    atomic_store(&j->halves[0].state, MPP_HALF_EMPTY);
    assert_non_null(p = mpp_journal_room(j, 1, MPP_NO_WAIT));
    assert_ptr_equal(p, memory + MPP_HALF_HEADER_BYTES);
    assert_int_equal(j->next_sequence, 4);
    assert_true(atomic_load(j->commit) == 0); /* the old content does not count under the new header */
    mpp_journal_restart(j);
    assert_int_equal(j->next_sequence, 1);
    assert_int_equal(j->next_serial, 100);
    assert_non_null(mpp_journal_room(j, 1, MPP_NO_WAIT));
}

static void test_names_of_files(void **state)
{
    char expected[PATH_MAX + 64], link[PATH_MAX + 8];
    struct stat st;

    (void)state;
    snprintf(link, sizeof link, "%s.link", r.path);
    for (unsigned n = 0; n < 4; n++) {
        assert_int_equal(begin_recording(0, MPP_EXISTS_NEXT_FREE), 0);
        if (n == 0) snprintf(expected, sizeof expected, "%s", r.path);
        if (n == 1) snprintf(expected, sizeof expected, "%s/app.%ld.mpp", r.directory, (long)getpid());
        if (n > 1) snprintf(expected, sizeof expected, "%s/app.%ld.%u.mpp", r.directory, (long)getpid(), n);
        assert_string_equal(r.file.path, expected);
        assert_int_equal(stat(expected, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        end_recording();
    }
    assert_int_equal(begin_recording(0, MPP_EXISTS_ERROR), EEXIST);
    mpp_journal_memory_unmap(&r.memory);
    assert_int_equal(symlink("elsewhere", link), 0);
    memcpy(r.path, link, strlen(link) + 1);
    assert_int_equal(begin_recording(0, MPP_EXISTS_REPLACE), EEXIST);
    mpp_journal_memory_unmap(&r.memory);
    assert_int_equal(begin_recording(0, MPP_EXISTS_ERROR), EEXIST);
    mpp_journal_memory_unmap(&r.memory);
    snprintf(r.path, sizeof r.path, "%s/none/app.mpp", r.directory);
    assert_int_equal(begin_recording(0, MPP_EXISTS_ERROR), ENOENT);
    mpp_journal_memory_unmap(&r.memory);
    snprintf(r.path, sizeof r.path, "%s/app.mpp", r.directory);
    assert_int_equal(begin_recording(0, MPP_EXISTS_REPLACE), 0);
    end_recording();
    assert_int_equal(read_back(r.path, 1), 0);
}

/* With every record the file holds one more, without a system call of ours. */
static void test_committed_is_in_the_file(void **state)
{
    (void)state;
    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), 0);
    assert_int_equal(r.info.journal_mode, MPP_JOURNAL_MAPPED);
    for (uint64_t n = 0; n < 200; n++) {
        assert_int_equal(read_copy(), n);
        assert_int_equal(put_record(n, MPP_NO_WAIT), 0);
    }
    /* All halves full, and none written. */
    uint64_t n = 200;
    while (!put_record(n, MPP_NO_WAIT)) n++;
    assert_int_equal(read_copy(), n);
    end_recording();
}

/* A forked child's writes are its own. */
static void test_fork(void **state)
{
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), 0);
    for (uint64_t n = 0; n < 50; n++) assert_int_equal(put_record(n, MPP_NO_WAIT), 0);
    child = fork();
    if (child == 0) {
        if (mpp_journal_memory_after_fork(&r.memory)) _exit(1);
        mpp_journal_restart(&r.journal);
        for (uint64_t n = 0; n < 5000; n++) {
            if (put_record(n, MPP_NO_WAIT)) _exit(2);
        }
        _exit(r.journal.next_serial == 3031 ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read_copy(), 50);
    for (uint64_t n = 50; n < 100; n++) assert_int_equal(put_record(n, MPP_NO_WAIT), 0);
    assert_int_equal(read_copy(), 100);
    start_writer();
    end_recording();
    assert_int_equal(read_back(r.path, 1), 100);
}

/* ---- two threads ---- */

#define MANY 400000u

static void produce(uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++) assert_int_equal(put_record(n, MPP_LONG_WAIT), 0);
}

static void test_producer_and_writer(void **state)
{
    (void)state;
    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), 0);
    start_writer();
    produce(0, MANY);
    end_recording();
    assert_int_equal(read_back(r.path, 1), MANY);
    assert_true(atomic_load(&r.file.sealed_blocks) >= 10);
}

/* What a reader finds while the log is written, and what a killed process leaves, is always a beginning, and all that was there before it looked. */
static void live(int mapped)
{
    uint64_t n = 0;

    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), 0);
    if (!mapped) unmapped();
    start_writer();
    for (int round = 0; round < 40; round++) {
        uint64_t found;
        produce(n, n + 3000);
        n += 3000;
        found = read_copy();
        assert_true(found <= n);
        if (mapped) assert_int_equal(found, n);
    }
    /* In the end the copying comes to everything. */
    for (int tries = 0; tries < 1000 && read_copy() < n; tries++) usleep(10000);
    assert_int_equal(read_copy(), n);
    end_recording();
    assert_int_equal(read_back(r.path, 1), n);
}

static void test_live(void **state)
{
    (void)state;
    live(1);
}

static void test_live_copied(void **state)
{
    (void)state;
    live(0);
}

struct tail {
    _Atomic int stop;
    _Atomic uint64_t reads;
    uint64_t last;
    _Atomic int line; /* of what was wrong */
};

static void *follow(void *argument)
{
    struct tail *t = argument;

    while (!atomic_load(&t->stop)) {
        uint64_t n;
        int line = check_log(r.path, 0, &n);
        atomic_store(&t->line, line || n >= t->last ? line : __LINE__);
        if (atomic_load(&t->line)) break;
        t->last = n;
        atomic_fetch_add(&t->reads, 1);
    }
    return NULL;
}

/* Another process that reads the log as it grows: no damage, never less than before. */
static void followed(int mapped)
{
    struct tail t = {0};
    pthread_t reader;

    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), 0);
    if (!mapped) unmapped();
    start_writer();
    assert_int_equal(pthread_create(&reader, NULL, follow, &t), 0);
    for (uint64_t n = 0; n < MANY / 4 || (atomic_load(&t.reads) < 3 && !atomic_load(&t.line)); n++) produce(n, n + 1);
    atomic_store(&t.stop, 1);
    pthread_join(reader, NULL);
    assert_int_equal(atomic_load(&t.line), 0);
    end_recording();
}

static void test_followed(void **state)
{
    (void)state;
    followed(1);
}

static void test_followed_copied(void **state)
{
    (void)state;
    followed(0);
}

static void test_drain(void **state)
{
    (void)state;
    assert_int_equal(begin_recording(0, MPP_EXISTS_ERROR), 0);
    start_writer();
    for (uint64_t n = 0; n < 100; n++) {
        uint64_t blocks = atomic_load(&r.file.sealed_blocks);
        produce(n, n + 1);
        mpp_journal_seal(&r.journal);
        assert_int_equal(mpp_log_file_drain(&r.file, UINT64_C(10000000000)), 0);
        assert_true(atomic_load(&r.file.sealed_blocks) > blocks);
    }
    end_recording();
    assert_int_equal(read_back(r.path, 1), 100);
}

/* ---- the disk fails ---- */

static struct rlimit no_limit;

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, no_limit.rlim_max};

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* stderr goes into a file; returns what it was. */
static int hide_stderr(const char *path)
{
    int old = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);

    assert_true(old >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    return old;
}

/* A block cannot be written: one warning, no more room, and a log without damage that holds all that was committed. */
static void test_disk_full(void **state)
{
    char warnings[PATH_MAX + 16], text[1024] = {0};
    uint64_t n = 0;
    int old, fd;
    ssize_t got;

    (void)state;
    snprintf(warnings, sizeof warnings, "%s.warnings", r.path);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &no_limit), 0);
    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), 0);
    limit_files(200000);
    old = hide_stderr(warnings);
    start_writer();
    while (!put_record(n, MPP_LONG_WAIT)) n++;
    assert_int_equal(atomic_load(&r.file.failure), EFBIG);
    assert_null(mpp_journal_room(&r.journal, 1, MPP_LONG_WAIT));
    assert_int_equal(mpp_log_file_drain(&r.file, 1000), EFBIG);
    mpp_log_file_join(&r.file);
    assert_int_equal(mpp_log_file_definitions(&r.file, "", 0), EFBIG);
    assert_int_equal(mpp_log_file_finish(&r.file, 0, &r.memory), EFBIG);
    mpp_log_file_close(&r.file);
    mpp_journal_memory_unmap(&r.memory);
    dup2(old, STDERR_FILENO);
    close(old);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_limit), 0);
    assert_int_equal(read_back(r.path, 0), n);
    fd = open(warnings, O_RDONLY);
    got = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(got > 0);
    assert_ptr_equal(strchr(text, '\n'), text + got - 1);
    assert_non_null(strstr(text, "File too large; the program goes on"));
    assert_non_null(strstr(text, r.path));
}

static void test_no_room_for_a_journal(void **state)
{
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &no_limit), 0);
    limit_files(8192);
    assert_int_equal(begin_recording(131072, MPP_EXISTS_ERROR), EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_limit), 0);
    assert_int_equal(access(r.path, F_OK), -1); /* nothing is left behind */
    mpp_journal_memory_unmap(&r.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_committed_is_in_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(test_producer_and_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_live, setup, teardown),
        cmocka_unit_test_setup_teardown(test_live_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(test_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_followed_copied, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room_for_a_journal, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
