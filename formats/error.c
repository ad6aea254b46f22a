#include "mpp_error.h"

const char *mpp_error_string(int error)
{
    switch (error) {
    case MPP_OK:
        return "no error";
    case MPP_ERR_NO_MEMORY:
        return "out of memory";
    case MPP_ERR_IO:
        return "reading or writing failed";
    case MPP_ERR_NOT_A_LOG:
        return "not an mpp log";
    case MPP_ERR_VERSION:
        return "the log's format is newer than this program";
    case MPP_ERR_DAMAGED:
        return "damaged";
    case MPP_ERR_TRUNCATED:
        return "ends too early";
    case MPP_ERR_MALFORMED:
        return "malformed record";
    case MPP_ERR_TOO_LARGE:
        return "too large for the format";
    case MPP_ERR_OVERFLOW:
        return "a sum exceeds 64 bits";
    case MPP_ERR_EMPTY:
        return "the file is empty";
    case MPP_ERR_INVALID:
        return "invalid request";
    case MPP_ERR_COMPRESSION:
        return "compression failed";
    default:
        return "unknown error";
    }
}
