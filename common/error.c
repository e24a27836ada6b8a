#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char ellipsis[] = "\xe2\x80\xa6"; /* … */

/* Called after a text of `wanted` bytes was written into the slot: when it did not fit, end it with an ellipsis, at the
 * start of a UTF-8 sequence. */
static void mark_cut(grs_error *err, size_t wanted) {
    if (wanted < sizeof err->text)
        return;
    size_t end = sizeof err->text - sizeof ellipsis;
    while (end > 0 && ((unsigned char)err->text[end] & 0xC0) == 0x80)
        end--;
    memcpy(err->text + end, ellipsis, sizeof ellipsis);
}

static void write_text(grs_error *err, const char *prefix, const char *format, va_list args) {
    int head = snprintf(err->text, sizeof err->text, "%s", prefix);
    size_t used = head < 0 ? 0 : (size_t)head < sizeof err->text ? (size_t)head : sizeof err->text - 1;
    int tail = vsnprintf(err->text + used, sizeof err->text - used, format, args);
    mark_cut(err, (head < 0 ? 0 : (size_t)head) + (tail < 0 ? 0 : (size_t)tail));
}

grs_status error_set(grs_error *err, grs_status status, const char *format, ...) {
    if (!err)
        return status;
    va_list args;
    va_start(args, format);
    err->status = status;
    err->line = err->column = 0;
    write_text(err, "", format, args);
    va_end(args);
    return status;
}

grs_status error_at(grs_error *err, grs_status status, const char *file, int line, int column, const char *format,
                    ...) {
    if (!err)
        return status;
    char where[4200]; /* a path of PATH_MAX bytes and two numbers */
    snprintf(where, sizeof where, "%s:%d:%d: ", file, line, column);
    va_list args;
    va_start(args, format);
    err->status = status;
    err->line = line;
    err->column = column;
    write_text(err, where, format, args);
    va_end(args);
    return status;
}

static void __attribute__((format(printf, 3, 4)))
write_args(grs_error *err, const char *prefix, const char *format, ...) {
    va_list args;
    va_start(args, format);
    write_text(err, prefix, format, args);
    va_end(args);
}

grs_status error_prepend(grs_error *err, const char *format, ...) {
    if (!err)
        return GRS_ERR_STATE;
    char context[sizeof err->text], old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof context, format, args);
    va_end(args);
    write_args(err, context, ": %s", old);
    return err->status;
}

void error_clear(grs_error *err) {
    if (!err)
        return;
    err->status = GRS_OK;
    err->line = err->column = 0;
    err->text[0] = 0;
}

const char *grs_status_name(grs_status status) {
    static const char *const names[] = {
        [GRS_OK] = "GRS_OK",
        [GRS_ERR_ARGUMENT] = "GRS_ERR_ARGUMENT",
        [GRS_ERR_CONFIG] = "GRS_ERR_CONFIG",
        [GRS_ERR_PLAN] = "GRS_ERR_PLAN",
        [GRS_ERR_UNSUPPORTED] = "GRS_ERR_UNSUPPORTED",
        [GRS_ERR_COMPILER] = "GRS_ERR_COMPILER",
        [GRS_ERR_DRIVER] = "GRS_ERR_DRIVER",
        [GRS_ERR_PEER] = "GRS_ERR_PEER",
        [GRS_ERR_IO] = "GRS_ERR_IO",
        [GRS_ERR_MEMORY] = "GRS_ERR_MEMORY",
        [GRS_ERR_STATE] = "GRS_ERR_STATE",
        [GRS_ERR_TIMEOUT] = "GRS_ERR_TIMEOUT",
        [GRS_ERR_CANCELLED] = "GRS_ERR_CANCELLED",
    };
    size_t i = (size_t)status;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown grs_status";
}
