/* The constants and structures of a log, as FORMAT.md defines them. No code. */
#ifndef MPP_FORMAT_H
#define MPP_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define MPP_VERSION_MAJOR 1
#define MPP_VERSION_MINOR 0

#define MPP_HEADER_MIN_BYTES     4096u
#define MPP_HEADER_MAX_BYTES     (1u << 20)
#define MPP_HEADER_FIELDS_OFFSET 40u
#define MPP_PAGE_BYTES           4096u

#define MPP_BLOCK_HEADER_BYTES     80u
#define MPP_BLOCK_HEADER_MAX_BYTES 4096u
#define MPP_BLOCK_MAX_BYTES        (64u << 20)

#define MPP_HALF_HEADER_BYTES  64u
#define MPP_HALF_MAX_BYTES     (64u << 20)
#define MPP_HALF_MAX_COUNT     64u
#define MPP_HALF_COMMIT_OFFSET 56u

#define MPP_FOOTER_BYTES 32u

#define MPP_MAX_WEIGHT       ((1u << 24) - 1)
#define MPP_MAX_SIZE_BYTES   ((UINT64_C(1) << 40) - 1)
#define MPP_MAX_ID           ((1u << 28) - 1)
#define MPP_MAX_SERIAL       ((UINT64_C(1) << 48) - 1)
#define MPP_MAX_STRING_BYTES (1u << 20)
#define MPP_MAX_PAIRS        1024u

static const unsigned char MPP_LOG_MAGIC[8] = {0x89, 'M', 'P', 'P', 'L', 'O', 'G', 0x0A};
static const unsigned char MPP_BLOCK_MAGIC[4] = {'M', 'P', 'P', 'B'};
static const unsigned char MPP_HALF_MAGIC[8] = {'M', 'P', 'P', 'H', 'A', 'L', 'F', 0x0A};
static const unsigned char MPP_FOOTER_MAGIC[8] = {'M', 'P', 'P', 'E', 'N', 'D', 0x0A, 0x00};

enum mpp_block_kind { MPP_BLOCK_EVENTS = 1, MPP_BLOCK_DEFINITIONS = 2, MPP_BLOCK_PROC = 3, MPP_BLOCK_META = 4, MPP_BLOCK_INDEX = 5 };

enum mpp_compression { MPP_COMPRESSION_NONE = 0, MPP_COMPRESSION_ZSTD = 1 };

/* A block's header, parsed (FORMAT.md §2). */
struct mpp_block_header {
    uint8_t kind;        /* enum mpp_block_kind, or a later version's */
    uint8_t compression; /* enum mpp_compression */
    uint16_t header_bytes;
    uint64_t sequence;
    uint32_t stored_bytes;
    uint32_t raw_bytes;
    uint64_t first_serial;
    uint64_t first_time_ns;
    uint64_t last_time_ns;
    uint32_t record_count;
    uint32_t alloc_count;
    uint32_t free_count;
    uint64_t payload_checksum; /* XXH3 of the stored payload */
};

/* First bytes of records (FORMAT.md §4). ALLOC and FREE have their number in the byte itself. */
enum mpp_record_kind {
    MPP_TIME = 0x01,
    MPP_ALLOC_WEIGHTED = 0x02,
    MPP_FREE_SIZED = 0x03,
    MPP_SIZE = 0x04,
    MPP_RECLASS = 0x05,
    MPP_LIVE = 0x06,
    MPP_GC_START = 0x07,
    MPP_GC_END = 0x08,
    MPP_MARK = 0x09,
    MPP_GAP = 0x0A,
    MPP_DROP = 0x0B,
    MPP_LABEL = 0x0C,
    MPP_CLOCK = 0x0D,
    MPP_FOLDED = 0x0E,
    MPP_SAMPLE_PERIOD = 0x0F,
    MPP_PROC = 0x10,
    MPP_FORK = 0x11,
    MPP_STRING = 0x18,
    MPP_FUNCTION_NAME = 0x19,
    MPP_STACK = 0x1A,
    MPP_SITE = 0x1B,
    MPP_CLASS_NAME = 0x1C,
    MPP_THREAD_NAME = 0x1D,
    MPP_EXTENSION = 0x20, /* 0x20 to 0x3F */
    MPP_FREE = 0x40,      /* 0x40 to 0x7F */
    MPP_ALLOC = 0x80      /* 0x80 to 0xFF */
};

enum mpp_gap_reason { MPP_GAP_HOOKS_OFF = 1, MPP_GAP_FREES_LOST = 2, MPP_GAP_RESTARTED = 3 };
enum mpp_drop_reason { MPP_DROP_NO_ROOM = 1, MPP_DROP_TOO_MANY_OBJECTS = 2, MPP_DROP_NO_MEMORY = 3 };

enum mpp_function_flags { MPP_FUNCTION_NATIVE = 1, MPP_FUNCTION_REMARK = 2 };
enum mpp_class_flags { MPP_CLASS_ANONYMOUS = 1, MPP_CLASS_HIDDEN = 2 };
enum mpp_gc_flags { MPP_GC_MAJOR = 1 };

enum mpp_gc_key {
    MPP_GC_HEAP_LIVE_SLOTS = 1,
    MPP_GC_HEAP_FREE_SLOTS = 2,
    MPP_GC_TOTAL_ALLOCATED_OBJECTS = 3,
    MPP_GC_TOTAL_FREED_OBJECTS = 4,
    MPP_GC_HEAP_PAGES = 5,
    MPP_GC_MALLOC_INCREASE_BYTES = 6,
    MPP_GC_OLD_OBJECTS = 7,
    MPP_GC_MINOR_COUNT = 8,
    MPP_GC_MAJOR_COUNT = 9,
    MPP_GC_TIME_NS = 10,
    MPP_GC_OLDMALLOC_INCREASE_BYTES = 11
};

enum mpp_proc_key {
    MPP_PROC_RSS_BYTES = 1,
    MPP_PROC_CPU_NS = 2,
    MPP_PROC_WRITER_CPU_NS = 3,
    MPP_PROC_RECORDER_MEMORY_BYTES = 4,
    MPP_PROC_TRACKED_OBJECTS = 5,
    MPP_PROC_RECORDED_ALLOCS = 6,
    MPP_PROC_DROPPED_ALLOCS = 7,
    MPP_PROC_WRITTEN_BYTES = 8,
    MPP_PROC_SEALED_BLOCKS = 9,
    MPP_PROC_STALLS = 10,
    MPP_PROC_STALL_NS = 11
};

/* Types of objects: FORMAT.md §5. They are Ruby's own T_* numbers of 3.1, which the format fixes. */
enum mpp_type {
    MPP_TYPE_UNKNOWN = 0,
    MPP_TYPE_OBJECT = 1,
    MPP_TYPE_CLASS = 2,
    MPP_TYPE_MODULE = 3,
    MPP_TYPE_FLOAT = 4,
    MPP_TYPE_STRING = 5,
    MPP_TYPE_REGEXP = 6,
    MPP_TYPE_ARRAY = 7,
    MPP_TYPE_HASH = 8,
    MPP_TYPE_STRUCT = 9,
    MPP_TYPE_BIGNUM = 10,
    MPP_TYPE_FILE = 11,
    MPP_TYPE_DATA = 12,
    MPP_TYPE_MATCH = 13,
    MPP_TYPE_COMPLEX = 14,
    MPP_TYPE_RATIONAL = 15,
    MPP_TYPE_SYMBOL = 20,
    MPP_TYPE_IMEMO = 26,
    MPP_TYPE_NODE = 27,
    MPP_TYPE_ICLASS = 28,
    MPP_TYPE_LIMIT = 32
};

enum mpp_journal_mode { MPP_JOURNAL_MAPPED = 0, MPP_JOURNAL_COPIED = 1 };

/* What a log's header says (FORMAT.md §1). Strings are owned by whoever filled the struct (mpp_log_info_release frees what a reader filled);
 * they end in a zero byte and may be NULL where absent. */
struct mpp_log_info {
    uint16_t version_major, version_minor;
    uint32_t header_bytes;
    uint32_t journal_offset;
    uint32_t journal_half_bytes;
    uint32_t journal_half_count;
    uint64_t first_block_offset;
    uint8_t uuid[16];
    uint64_t pid, ppid;
    int has_parent;
    uint8_t parent_uuid[16];
    uint64_t fork_sequence, fork_bytes, fork_serial;
    uint64_t start_unix_ns, start_monotonic_ns;
    int64_t utc_offset_s;
    char *ruby_version, *ruby_description, *recorder_version;
    char *command_line; /* arguments, each ended by a zero byte; length below */
    size_t command_line_bytes;
    uint64_t sample_period;
    uint64_t journal_mode; /* enum mpp_journal_mode */
    uint64_t max_depth;
};

#endif
