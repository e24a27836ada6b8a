/* common/: buffer, errors, digests, log. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/parallel.h"

static void buf_grows_and_stays_terminated(void **state) {
    (void)state;
    struct buf b = {0};
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    assert_false(b.failed);
    assert_int_equal(b.length, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(b.data[b.length], 0);
    assert_string_equal(b.data + b.length - 8, "998,999,");
    buf_clear(&b);
    assert_string_equal(b.data, "");
    buf_append(&b, "a\0b", 3);
    assert_int_equal(b.length, 3);
    assert_memory_equal(b.data, "a\0b\0", 4);
    buf_free(&b);
    assert_null(b.data);
}

static void buf_take_of_nothing_is_an_empty_text(void **state) {
    (void)state;
    struct buf b = {0};
    char *text = buf_take(&b);
    assert_string_equal(text, "");
    free(text);
    b.failed = true;
    assert_null(buf_take(&b));
    assert_false(b.failed);
}

static void buf_remembers_failure(void **state) {
    (void)state;
    struct buf b = {0};
    buf_puts(&b, "x");
    buf_append(&b, "", SIZE_MAX / 2);
    assert_true(b.failed);
    buf_puts(&b, "y");
    assert_string_equal(b.data, "x");
    buf_free(&b);
}

static void buf_fixed_ignores_the_locale(void **state) {
    (void)state;
    static const char *const locales[] = {"C", "de_DE.UTF-8", "ar_EG.UTF-8", "ps_AF.UTF-8"};
    for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
        if (!setlocale(LC_ALL, locales[i]))
            continue; /* not installed; C always is */
        struct buf b = {0};
        buf_fixed(&b, 1234.5, 2);
        buf_puts(&b, " ");
        buf_fixed(&b, -0.125, 3);
        buf_puts(&b, " ");
        buf_fixed(&b, 7, 0);
        buf_puts(&b, " ");
        buf_fixed(&b, 1.0 / 0.0, 2);
        assert_string_equal(b.data, "1234.50 -0.125 7 inf");
        buf_free(&b);
    }
    setlocale(LC_ALL, "C");
}

static void error_holds_position_and_context(void **state) {
    (void)state;
    grs_error err;
    assert_int_equal(error_at(&err, GRS_ERR_CONFIG, "a.yaml", 3, 7, "tile.m: %d", 12), GRS_ERR_CONFIG);
    assert_int_equal(err.status, GRS_ERR_CONFIG);
    assert_int_equal(err.line, 3);
    assert_int_equal(err.column, 7);
    assert_string_equal(err.text, "a.yaml:3:7: tile.m: 12");
    assert_int_equal(error_prepend(&err, "shape %d", 2), GRS_ERR_CONFIG);
    assert_string_equal(err.text, "shape 2: a.yaml:3:7: tile.m: 12");
    assert_int_equal(err.line, 3);
    assert_int_equal(error_set(&err, GRS_ERR_IO, "disk"), GRS_ERR_IO);
    assert_int_equal(err.line, 0);
    error_clear(&err);
    assert_int_equal(err.status, GRS_OK);
    assert_string_equal(err.text, "");
}

static void error_slot_may_be_missing(void **state) {
    (void)state;
    assert_int_equal(error_set(NULL, GRS_ERR_IO, "x"), GRS_ERR_IO);
    assert_int_equal(error_at(NULL, GRS_ERR_CONFIG, "f", 1, 1, "x"), GRS_ERR_CONFIG);
    assert_int_not_equal(error_prepend(NULL, "x"), GRS_OK);
    error_clear(NULL);
}

static void long_error_is_cut_at_a_character(void **state) {
    (void)state;
    static char text[3 * 4000 + 2];
    grs_error err;
    for (int shift = 0; shift < 3; shift++) { /* the cut falls on every byte of a three-byte character */
        memset(text, 'x', sizeof text);
        for (int i = 0; i < 3999; i++)
            memcpy(text + shift + 3 * i, "\xe2\x82\xac", 3);
        text[shift + 3 * 3999] = 0;
        error_set(&err, GRS_ERR_IO, "%s", text);
        size_t length = strlen(err.text);
        assert_true(length < sizeof err.text && length > sizeof err.text - 8);
        assert_string_equal(err.text + length - 6, "\xe2\x82\xac\xe2\x80\xa6");
        error_prepend(&err, "ctx");
        assert_memory_equal(err.text, "ctx: ", 5);
        length = strlen(err.text);
        assert_string_equal(err.text + length - 3, "\xe2\x80\xa6");
    }
}

static void status_names_are_all_there(void **state) {
    (void)state;
    for (int s = GRS_OK; s <= GRS_ERR_CANCELLED; s++)
        assert_memory_equal(grs_status_name((grs_status)s), s ? "GRS_ERR_" : "GRS_OK", s ? 8 : 6);
    assert_string_equal(grs_status_name((grs_status)99), "unknown grs_status");
}

static void version_names_a_commit(void **state) {
    (void)state;
    assert_memory_equal(grs_version(), "0.1.0 (commit ", 14);
}

static void digests_are_the_published_ones(void **state) {
    (void)state;
    char hex[HASH_HEX_LENGTH + 1];
    hash_sha256_hex("abc", 3, hex); /* FIPS 180-2, appendix B.1 */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    uint8_t digest[16];
    hash_xxh3_128("", 0, digest); /* the value that xxhsum -H2 prints for an empty file */
    static const uint8_t empty[16] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                      0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
    assert_memory_equal(digest, empty, 16);
}

struct sink {
    int count;
    grs_log_level level;
    char last[64];
};

static void keep(void *arg, grs_log_level level, const char *text) {
    struct sink *s = arg;
    s->count++;
    s->level = level;
    strncpy(s->last, text, sizeof s->last - 1);
}

static void log_filters_by_level(void **state) {
    (void)state;
    struct sink s = {0};
    struct log log = {keep, &s, GRS_LOG_INFO};
    log_write(&log, GRS_LOG_DEBUG, "no");
    assert_int_equal(s.count, 0);
    log_write(&log, GRS_LOG_INFO, "yes %d", 5);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.last, "yes 5");
    log_write(NULL, GRS_LOG_ERROR, "nobody listens");
    log_write(&(struct log){0}, GRS_LOG_ERROR, "nobody listens");
}

static void log_once_writes_once_a_cause(void **state) {
    (void)state;
    struct sink s = {0};
    struct log log = {keep, &s, GRS_LOG_WARN};
    assert_false(log_once(&log, GRS_LOG_INFO, "cause-1", "filtered, so not used up"));
    assert_true(log_once(&log, GRS_LOG_WARN, "cause-1", "one"));
    assert_false(log_once(&log, GRS_LOG_WARN, "cause-1", "two"));
    assert_true(log_once(&log, GRS_LOG_ERROR, "cause-2", "three"));
    assert_int_equal(s.count, 2);
    assert_string_equal(s.last, "three");
    assert_int_equal(s.level, GRS_LOG_ERROR);
}

static void log_levels_have_names(void **state) {
    (void)state;
    grs_log_level level = GRS_LOG_ERROR;
    assert_true(log_parse_level("debug", &level));
    assert_int_equal(level, GRS_LOG_DEBUG);
    assert_true(log_parse_level("warn", &level));
    assert_int_equal(level, GRS_LOG_WARN);
    assert_false(log_parse_level("loud", &level));
    assert_false(log_parse_level("", &level));
    assert_false(log_parse_level(NULL, &level));
    assert_int_equal(level, GRS_LOG_WARN);
}

struct tally {
    atomic_int times[100];
    size_t stop_at;
};

static bool count_one(void *arg, size_t index) {
    struct tally *tally = arg;
    atomic_fetch_add(&tally->times[index], 1);
    return index < tally->stop_at;
}

static void parallel_does_each_item_once(void **state) {
    (void)state;
    static const int jobs[] = {0, 1, 3, 300};
    for (int j = 0; j < 4; j++) {
        struct tally tally = {.stop_at = 100};
        parallel_for(100, jobs[j], count_one, &tally);
        for (int i = 0; i < 100; i++)
            assert_int_equal(atomic_load(&tally.times[i]), 1);
    }
    parallel_for(0, 4, count_one, NULL);
    struct tally tally = {.stop_at = 10}; /* one at a time: exactly the items up to the one that says stop */
    parallel_for(100, 1, count_one, &tally);
    for (int i = 0; i < 100; i++)
        assert_int_equal(atomic_load(&tally.times[i]), i <= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buf_grows_and_stays_terminated),
        cmocka_unit_test(buf_take_of_nothing_is_an_empty_text),
        cmocka_unit_test(buf_remembers_failure),
        cmocka_unit_test(buf_fixed_ignores_the_locale),
        cmocka_unit_test(error_holds_position_and_context),
        cmocka_unit_test(error_slot_may_be_missing),
        cmocka_unit_test(long_error_is_cut_at_a_character),
        cmocka_unit_test(status_names_are_all_there),
        cmocka_unit_test(version_names_a_commit),
        cmocka_unit_test(digests_are_the_published_ones),
        cmocka_unit_test(log_filters_by_level),
        cmocka_unit_test(log_once_writes_once_a_cause),
        cmocka_unit_test(log_levels_have_names),
        cmocka_unit_test(parallel_does_each_item_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
