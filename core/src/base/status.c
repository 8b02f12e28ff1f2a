/* status.c - the names of status codes, and the error message that an object holds after a failure. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *seriatim_status_name(int status)
{
    switch (status) {
#define X(name, code, text)                                                                                            \
    case code:                                                                                                         \
        return #name;
        SERIATIM_STATUSES(X)
#undef X
    default:
        return "UNKNOWN";
    }
}

const char *seriatim_status_text(int status)
{
    switch (status) {
#define X(name, code, text)                                                                                            \
    case code:                                                                                                         \
        return text;
        SERIATIM_STATUSES(X)
#undef X
    default:
        return "unknown status";
    }
}

const char *seriatim_version(void)
{
    return SERIATIM_VERSION;
}

int srt_fail(seriatim_error *error, int status, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
        error->status = status;
    }
    return status;
}

int srt_fail_plain(seriatim_error *error, int status)
{
    return srt_fail(error, status, "%s", seriatim_status_text(status));
}

void srt_error_clear(seriatim_error *error)
{
    error->status = SERIATIM_OK;
    error->message[0] = '\0';
}
