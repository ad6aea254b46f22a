/* Errors of formats/: one negative enum and its words. Functions of this room return 0 or a positive number
 * when they are done, and one of these when not; they never print and never exit. To add an error, add it here and in error.c. */
#ifndef MPP_ERROR_H
#define MPP_ERROR_H

enum mpp_error {
    MPP_OK = 0,
    MPP_ERR_NO_MEMORY = -1,
    MPP_ERR_IO = -2,          /* errno tells */
    MPP_ERR_NOT_A_LOG = -3,   /* the magic is absent */
    MPP_ERR_VERSION = -4,     /* a greater major version */
    MPP_ERR_DAMAGED = -5,     /* a checksum fails or a structure is impossible */
    MPP_ERR_TRUNCATED = -6,   /* the bytes end too early */
    MPP_ERR_MALFORMED = -7,   /* a record that FORMAT.md does not allow */
    MPP_ERR_TOO_LARGE = -8,   /* a length beyond the format's limit */
    MPP_ERR_OVERFLOW = -9,    /* a sum would exceed 64 bits */
    MPP_ERR_EMPTY = -10,      /* a file of no bytes */
    MPP_ERR_INVALID = -11,    /* the caller asked for something that makes no sense (a profile that breaks pprof's rules) */
    MPP_ERR_COMPRESSION = -12 /* zstd or zlib failed */
};

/* A short lower-case phrase for `error`, without a full stop. Never NULL; the string is static. */
const char *mpp_error_string(int error);

#endif
