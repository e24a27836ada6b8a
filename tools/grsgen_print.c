#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/grsgen.h"

int fail(int code, const char *format, ...) {
    va_list args;
    fputs("grsgen: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("\n", stderr);
    return code;
}

/* Errors of a config begin with the place in the file, as editors expect: nothing stands before it. */
int fail_with(int code, const grs_error *err) {
    fprintf(stderr, "%s%s\n", err->line ? "" : "grsgen: ", err->text);
    return code;
}

int print_buf(struct buf *text) {
    bool written = !text->failed && fwrite(text->length ? text->data : "", 1, text->length, stdout) == text->length &&
                   fflush(stdout) == 0;
    bool failed = text->failed;
    buf_free(text);
    return written ? GRSGEN_OK : fail(GRSGEN_FAILED, "standard output: %s", failed ? "out of memory" : strerror(errno));
}
