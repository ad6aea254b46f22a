/* Fuzz targets: one property each, stated at the head of its file. A target is built twice: with libFuzzer (`make fuzz`), and without it into
 * replay_corpus, which runs all of them over fixtures/corpus in `make test`. To add one: fuzz_NAME.c that defines FUZZ_TARGET(NAME), a row in
 * replay_corpus.c, seeds in fixtures/corpus. */
#ifndef MPP_TESTS_FUZZ_H
#define MPP_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The property does not hold: the process ends, so that a fuzzer keeps the input. */
#define FUZZ_CHECK(condition)                                                                                                                        \
    do {                                                                                                                                             \
        if (!(condition)) {                                                                                                                          \
            fuzz_failed(__FILE__, __LINE__, #condition);                                                                                             \
        }                                                                                                                                            \
    } while (0)
_Noreturn void fuzz_failed(const char *file, int line, const char *condition);

/* Whether every variant of a target is to be tried with an input, not only the one that the input selects: replay_corpus does. */
extern int fuzz_all_variants;

/* What goes to stderr is thrown away from here on (the fuzzer's own words are not). */
void fuzz_silence_stderr(void);

#ifdef MPP_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#define FUZZ_TARGET(name)                                                                                                                            \
    int fuzz_##name(const uint8_t *data, size_t size);                                                                                               \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                                                     \
    {                                                                                                                                                \
        return fuzz_##name(data, size);                                                                                                              \
    }                                                                                                                                                \
    int fuzz_##name(const uint8_t *data, size_t size)
#else
#define FUZZ_TARGET(name)                                                                                                                            \
    int fuzz_##name(const uint8_t *data, size_t size);                                                                                               \
    int fuzz_##name(const uint8_t *data, size_t size)
#endif

/* A log's bytes. Of an input that begins with a log's magic they are the input itself; else it is a description, from which a log with right
 * checksums is assembled, since no mutation of plain bytes would come past them. Malloc'ed. The description, of which every byte string is one:
 *
 *   byte 0      bit 0: a clean end; bit 1: header of the log damaged; bit 2: the footer's offset is wrong; bits 3 to 5: journal halves (0 to 7)
 *   byte 1      fork_serial
 *   parts       until the input ends: kind, tweak, two bytes of length, so many bytes of payload (as far as there are some)
 *     kind      low 4 bits: the block's kind (0: plain bytes between blocks; 15: a journal half); 10: compressed; 20: the sequence jumps by one; 40:
 *               first_serial jumps by 2^14; 80: the payload stands 256 times; C0: 150 such blocks, each 2^14 serials behind the one before
 *     tweak     0: none; else field (low 5 bits: 1 to 15 before the checksums are made, 16 to 31 the same fields after them) set to the 8 bytes that
 *               the payload begins with, which are no payload then
 */
struct fuzz_log {
    uint8_t *data;
    size_t bytes;
};
void fuzz_log_init(struct fuzz_log *log, const uint8_t *data, size_t size);
void fuzz_log_release(struct fuzz_log *log);

/* Makes all checksums of a log right that stand where they can be found; in place. */
void fuzz_fix_checksums(uint8_t *data, size_t bytes);

#endif
