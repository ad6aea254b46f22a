/* Property: whatever the log's bytes, every command ends with 0 or 1 (2 would be wrong usage, and ours is right); what it prints is
 * whole and of its form: JSON that parses, text of valid UTF-8 without control characters, a profile that the validator takes; a command that fails
 * prints nothing (verify's report is a failure's too) and leaves no file; one that succeeds leaves its report alone. */
#include "analyzer/command.h"
#include "analyzer/utf8.h"
#include "formats/mpp_pprof.h"
#include "fuzz.h"
#include <dirent.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

enum form { TEXT, DOCUMENT, LINES, PROFILE };

#define MAX_WORDS 12
static const struct variant {
    enum form form;
    const char *words[MAX_WORDS];
} variants[] = {
    {DOCUMENT, {"top", "--format", "json", "--by", "line"}},
    {DOCUMENT, {"top", "--format", "json", "--by", "stack", "--limit", "0", "--recorder", "--at", "50%"}},
    {TEXT, {"top", "--by", "class", "--at", "peak", "--min-age", "1"}},
    {TEXT, {"top", "--format", "folded"}},
    {TEXT, {"top", "--by", "stack", "--focus", "a", "--sort", "name"}},
    {DOCUMENT, {"diff", "--from", "30%", "--format", "json", "--by", "method"}},
    {TEXT, {"diff", "--from", "start", "--to", "peak", "--by", "file"}},
    {PROFILE, {"diff", "--from", "10%", "--format", "pprof"}},
    {DOCUMENT, {"timeline", "--format", "json", "--points", "7"}},
    {TEXT, {"timeline", "--points", "5"}},
    {DOCUMENT, {"info", "--format", "json"}},
    {TEXT, {"info"}},
    {LINES, {"dump", "--format", "json", "--all"}},
    {TEXT, {"dump", "--all"}},
    {DOCUMENT, {"verify", "--format", "json"}},
    {TEXT, {"verify"}},
    {PROFILE, {"pprof"}},
    {PROFILE, {"--at", "gc:1"}},
};
#define VARIANT_COUNT (sizeof variants / sizeof variants[0])

static char directory[] = "/dev/shm/mpp-fuzz-XXXXXX";

static void remove_directory(void)
{
    rmdir(directory);
}

static void check_document(const char *text, size_t bytes)
{
    json_error_t error;
    json_t *document = json_loadb(text, bytes, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);

    if (!document) fprintf(stdout, "%s at %d: %.*s\n", error.text, error.position, (int)(bytes < 2000 ? bytes : 2000), text);
    FUZZ_CHECK(json_is_object(document));
    json_decref(document);
}

static void check_text(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) FUZZ_CHECK((unsigned char)text[i] >= 0x20 ? text[i] != 0x7f : text[i] == '\n');
    FUZZ_CHECK(utf8_is_valid(text, bytes));
}

static void check_profile(const char *data, size_t bytes)
{
    size_t capacity = (size_t)16 << 20;
    unsigned char *raw = malloc(capacity);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
    const char *why;

    if (!raw || inflateInit2(&z, 15 + 16) != Z_OK) abort();
    z.next_out = raw;
    z.avail_out = (uInt)capacity;
    FUZZ_CHECK(inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0);
    FUZZ_CHECK(mpp_pprof_validate(raw, capacity - z.avail_out, &why) == MPP_OK);
    inflateEnd(&z);
    free(raw);
}

static void check_form(enum form form, const char *data, size_t bytes)
{
    switch (form) {
    case TEXT:
        check_text(data, bytes);
        break;
    case DOCUMENT:
        check_document(data, bytes);
        break;
    case PROFILE:
        check_profile(data, bytes);
        break;
    case LINES:
        for (const char *end; bytes > 0; bytes -= (size_t)(end + 1 - data), data = end + 1) {
            end = memchr(data, '\n', bytes);
            FUZZ_CHECK(end);
            check_document(data, (size_t)(end - data));
        }
    }
}

/* The only file in the directory may be the report. */
static void check_directory(int report_expected)
{
    DIR *d = opendir(directory);
    int found = 0;

    if (!d) abort();
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        FUZZ_CHECK(strcmp(e->d_name, "report") == 0);
        found = 1;
    }
    closedir(d);
    FUZZ_CHECK(found == report_expected);
}

static char *slurp(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "r");
    char *data = NULL;

    FUZZ_CHECK(f && fseek(f, 0, SEEK_END) == 0);
    *bytes = (size_t)ftell(f);
    rewind(f);
    data = malloc(*bytes + 1);
    if (!data || fread(data, 1, *bytes, f) != *bytes) abort();
    fclose(f);
    return data;
}

static void run(const struct variant *v, const char *log, int to_file)
{
    char words[MAX_WORDS + 4][64], report[64], *argv[MAX_WORDS + 5] = {NULL};
    int argc = 0;
    char *captured = NULL;
    size_t bytes = 0;
    FILE *real = stdout;

    snprintf(report, sizeof report, "%s/report", directory);
    snprintf(words[argc++], sizeof words[0], "mppanalyze");
    for (int i = 0; i < MAX_WORDS && v->words[i]; i++) snprintf(words[argc++], sizeof words[0], "%s", v->words[i]);
    if (to_file) {
        snprintf(words[argc++], sizeof words[0], "-o");
        snprintf(words[argc++], sizeof words[0], "%s", report);
    }
    snprintf(words[argc++], sizeof words[0], "%s", log);
    for (int i = 0; i < argc; i++) argv[i] = words[i];
    stdout = open_memstream(&captured, &bytes);
    if (!stdout) abort();
    int status = command_main(argc, argv);
    fclose(stdout);
    stdout = real;

    int is_verify = strcmp(words[1], "verify") == 0;
    FUZZ_CHECK(status == EXIT_DONE || status == EXIT_FAILED);
    if (to_file) {
        FUZZ_CHECK(bytes == 0);
        if (!is_verify) check_directory(status == EXIT_DONE);
        free(captured);
        captured = NULL;
        if (access(report, F_OK) == 0) captured = slurp(report, &bytes);
        unlink(report);
        check_directory(0);
    }
    if (status == EXIT_DONE || (is_verify && bytes)) {
        check_form(v->form, captured, bytes);
    } else {
        FUZZ_CHECK(bytes == 0 || strcmp(words[1], "dump") == 0); /* dump prints as it reads */
    }
    free(captured);
}

FUZZ_TARGET(commands)
{
    static int prepared;
    struct fuzz_log bytes;
    char path[64];
    uint64_t selector = XXH3_64bits(data, size);

    if (!prepared) {
        if (!mkdtemp(directory)) abort();
        atexit(remove_directory);
        setenv("TZ", "UTC", 1);
        prepared = 1;
    }
    fuzz_silence_stderr();
    fuzz_log_init(&bytes, data, size);
    int fd = memfd_create("log", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes.data, bytes.bytes) != (ssize_t)bytes.bytes) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < VARIANT_COUNT; i++) {
        if (fuzz_all_variants || i == selector % VARIANT_COUNT) run(&variants[i], path, (selector >> 32) % 4 == 0);
    }
    close(fd);
    fuzz_log_release(&bytes);
    return 0;
}
