/* Files of tests/golden: texts that a test compares byte by byte, and writes anew with GRS_UPDATE_GOLDEN=1. */
#ifndef GRS_TESTS_GOLDEN_H
#define GRS_TESTS_GOLDEN_H

/* After cmocka's headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

/* The whole file; no data when there is none. The caller frees. */
static inline struct buf golden_read(const char *path) {
    struct buf b = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return b;
    char piece[4096];
    size_t got;
    while ((got = fread(piece, 1, sizeof piece, file)) > 0)
        buf_append(&b, piece, got);
    buf_append(&b, "", 0);
    fclose(file);
    return b;
}

/* True when the file holds exactly this text; else says what was got. */
static inline bool golden_matches(const char *path, const struct buf *got) {
    assert_false(got->failed);
    if (getenv("GRS_UPDATE_GOLDEN")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(got->data, 1, got->length, file), got->length);
        assert_int_equal(fclose(file), 0);
        return true;
    }
    struct buf golden = golden_read(path);
    bool same = golden.data && golden.length == got->length && !memcmp(golden.data, got->data, got->length);
    if (!same)
        print_error("%s %s; got:\n%s\n", path, golden.data ? "differs" : "is missing", got->data);
    buf_free(&golden);
    return same;
}

#endif
