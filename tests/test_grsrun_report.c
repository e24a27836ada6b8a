/* What grsrun prints: rows as JSON and as text, and the chart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/grsrun_bench.h"
#include "tools/grsrun_gpu.h"
#include "tools/grsrun_report.h"
#include "tools/grsrun_svg.h"
#include "tools/grsrun_team.h"

static struct bench_row measured_row(int64_t m, double ours, double cublas) {
    return (struct bench_row){.shape = {m, 4096, 2048, 2},
                              .ranks_per_gpu = 1,
                              .sms = 132,
                              .pace_gbps = NAN,
                              .config = "0123abcd",
                              .ours_us = ours,
                              .ours_spread = 0.015,
                              .cublas_us = cublas,
                              .cublas_spread = 0.01,
                              .cublas_default_us = cublas * 1.04,
                              .cublas_nccl_us = 349,
                              .registered_us = 301,
                              .link_peak_gbps = 370,
                              .async_tp_us = NAN,
                              .link_gbps = 158.3,
                              .limit_us = cublas,
                              .metric = 4.1e-6,
                              .rel_err = 2.03e-3,
                              .iters = 20};
}

/* The keys that scripts rely on, in this order. */
static const char *const bench_keys[] = {"m",
                                         "n",
                                         "k",
                                         "tp",
                                         "ranks_per_gpu",
                                         "sms",
                                         "pace_gbps",
                                         "config",
                                         "ours_us",
                                         "cublas_us",
                                         "cublas_nccl_us",
                                         "async_tp_us",
                                         "link_gbps",
                                         "limit_us",
                                         "metric",
                                         "rel_err",
                                         "iters",
                                         "mode",
                                         "l2",
                                         "cublas_nccl_registered_us",
                                         "link_peak_gbps",
                                         "waits",
                                         "skew",
                                         "cublas_default_us"};
static const char *const object_keys[] = {"kind", "gpu", "driver", "cuda", "date", "commit", "dirty", "rows"};

static void check_keys(json_t *object, const char *const *keys, size_t count) {
    assert_non_null(object);
    assert_int_equal(json_object_size(object), count);
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach(object, key, value) {
        assert_string_equal(key, keys[i++]);
    }
}

static void bench_json(void **state) {
    (void)state;
    struct bench_row rows[] = {measured_row(8192, 212.5, 182.25), measured_row(256, 20, NAN)};
    rows[1].cublas_nccl_us = rows[1].link_gbps = rows[1].limit_us = rows[1].rel_err = rows[1].metric = NAN;
    rows[1].registered_us = rows[1].link_peak_gbps = NAN;
    rows[1].isolated = true;
    rows[1].l2 = L2_COLD;
    rows[1].pace_gbps = 186;
    struct report_head head = {.kind = "bench", .gpu = "NVIDIA H200", .cuda = "13.0"};
    json_t *object = report_object(&head, report_bench_json(rows, 2));
    check_keys(object, object_keys, 8);
    assert_string_equal(json_string_value(json_object_get(object, "kind")), "bench");
    assert_true(json_is_null(json_object_get(object, "driver")));
    assert_int_equal(strlen(json_string_value(json_object_get(object, "date"))), strlen("2026-11-30T12:00:00Z"));
    assert_true(json_is_string(json_object_get(object, "commit")));
    assert_true(json_is_boolean(json_object_get(object, "dirty")));

    json_t *array = json_object_get(object, "rows"), *row = json_array_get(array, 0);
    assert_int_equal(json_array_size(array), 2);
    check_keys(row, bench_keys, sizeof(bench_keys) / sizeof(bench_keys[0]));
    assert_int_equal(json_integer_value(json_object_get(row, "m")), 8192);
    assert_true(json_real_value(json_object_get(row, "ours_us")) == 212.5);
    assert_true(json_is_null(json_object_get(row, "pace_gbps")));
    assert_true(json_is_null(json_object_get(row, "async_tp_us")));
    assert_string_equal(json_string_value(json_object_get(row, "mode")), "back_to_back");
    assert_string_equal(json_string_value(json_object_get(row, "l2")), "warm");
    row = json_array_get(array, 1);
    check_keys(row, bench_keys, sizeof(bench_keys) / sizeof(bench_keys[0]));
    static const char *const unknown[] = {"cublas_us",      "cublas_nccl_us",
                                          "link_gbps",      "limit_us",
                                          "metric",         "rel_err",
                                          "link_peak_gbps", "cublas_nccl_registered_us",
                                          "waits",          "skew"};
    for (int i = 0; i < 10; i++) {
        assert_true(json_is_null(json_object_get(row, unknown[i])));
    }
    assert_true(json_real_value(json_object_get(row, "pace_gbps")) == 186);
    assert_string_equal(json_string_value(json_object_get(row, "mode")), "isolated");
    assert_string_equal(json_string_value(json_object_get(row, "l2")), "cold");
    json_decref(object);
}

static void object_as_text(void **state) {
    (void)state;
    struct buf text = {0};
    grs_error err;
    json_t *object = json_pack("{s:f}", "us", 12.3456789);
    assert_int_equal(report_dump(object, &text, &err), GRS_OK);
    assert_string_equal(text.data, "{\n \"us\": 12.3457\n}\n");
    json_decref(object);
    assert_int_equal(report_dump(NULL, &text, &err), GRS_ERR_MEMORY);
    buf_free(&text);
}

static void verify_json(void **state) {
    (void)state;
    static const char *const keys[] = {"m",
                                       "n",
                                       "k",
                                       "tp",
                                       "ranks_per_gpu",
                                       "sms",
                                       "config",
                                       "mode",
                                       "data_sets",
                                       "launches",
                                       "elements",
                                       "mismatches",
                                       "rel_err",
                                       "metric",
                                       "worst",
                                       "repeats_equal",
                                       "surroundings_intact",
                                       "passed",
                                       "pace_gbps"};
    struct verify_row row = {.shape = {5, 8, 8, 8},
                             .ranks_per_gpu = 8,
                             .sms = 16,
                             .config = "k",
                             .mode = "exact",
                             .data_sets = 2,
                             .launches = 4,
                             .elements = 80,
                             .worst = NAN,
                             .pace_gbps = NAN,
                             .repeats_equal = true};
    json_t *rows = report_verify_json(&row, 1), *first = json_array_get(rows, 0);
    check_keys(first, keys, sizeof(keys) / sizeof(keys[0]));
    assert_true(json_is_null(json_object_get(first, "worst")));
    assert_true(json_is_true(json_object_get(first, "repeats_equal")));
    assert_true(json_is_false(json_object_get(first, "passed")));
    json_decref(rows);
}

static void rates(void **state) {
    (void)state;
    struct bench_row row = measured_row(8192, 200, 100);
    assert_true(fabs(report_tflops(&row, 200) - 2.0 * 8192 * 4096 * 2048 / 200e6) < 1e-9);
    row.ranks_per_gpu = 2;
    assert_true(fabs(report_tflops(&row, 200) - 4.0 * 8192 * 4096 * 2048 / 200e6) < 1e-9);
    assert_true(report_ratio(&row) == 2);
    row.limit_us = NAN;
    assert_true(isnan(report_ratio(&row)));
}

static void limit_of_gemm_and_link(void **state) {
    (void)state;
    assert_true(bench_limit_us(182, 33554432, 372) == 182);
    assert_true(fabs(bench_limit_us(55, 33554432, 372) - 90.2) < 0.01);
    assert_true(bench_limit_us(55, 33554432, 0) == 55); /* no link is crossed */
    assert_true(isnan(bench_limit_us(NAN, 33554432, 372)));
}

static void sets_that_overflow_l2(void **state) {
    (void)state;
    assert_int_equal(bench_sets(L2_WARM, 1000, 60 << 20), 1);
    assert_int_equal(bench_sets(L2_COLD, 1 << 30, 60 << 20), 2);
    assert_int_equal(bench_sets(L2_COLD, 20 << 20, 60 << 20), 11);
    assert_int_equal(bench_sets(L2_COLD, 1 << 10, 60 << 20), 32);
}

/* Heads and rows have the same columns at the same places. */
static void check_columns(const char *text, const char *row_text, int columns) {
    const char *head = strrchr(text, '#');
    assert_int_equal(strlen(head), strlen(row_text));
    int count = 0;
    for (size_t i = 1; row_text[i]; i++) {
        count += row_text[i] != ' ' && row_text[i] != '\n' && row_text[i - 1] == ' ';
    }
    assert_int_equal(count, columns);
}

static void text_lines_up(void **state) {
    (void)state;
    struct buf head = {0}, text = {0};
    struct bench_row row = measured_row(8192, 212.5, 182.25);
    report_bench_head(&head);
    report_bench_text(&row, &text);
    check_columns(head.data, text.data, 20);
    assert_non_null(strstr(text.data, " 212.50 "));
    assert_non_null(strstr(text.data, " 1.166 "));
    buf_clear(&text);
    row = measured_row(8192, NAN, NAN);
    report_bench_text(&row, &text);
    check_columns(head.data, text.data, 20);
    assert_null(strstr(text.data, "nan"));
    buf_free(&head);
    buf_free(&text);
}

static void verify_text(void **state) {
    (void)state;
    struct verify_row row = {.shape = {1023, 136, 72, 8},
                             .ranks_per_gpu = 8,
                             .sms = 16,
                             .mode = "random",
                             .launches = 4,
                             .mismatches = 17,
                             .rel_err = 2e-3,
                             .metric = 2e-6,
                             .worst = 0.91,
                             .passed = false};
    struct buf text = {0};
    report_verify_text(&row, &text);
    assert_string_equal(
        text.data,
        "    1023     136      72   8     8   16 random        4         17  2.00e-03  2.00e-06    0.910  FAILED\n");
    buf_free(&text);
}

static void commit_of_a_version(void **state) {
    (void)state;
    char commit[64];
    bool dirty = true;
    assert_true(report_commit("0.1.0 (commit 0123456789ab)", commit, &dirty));
    assert_string_equal(commit, "0123456789ab");
    assert_false(dirty);
    assert_true(report_commit("0.1.0 (commit 0123456789ab, dirty)", commit, &dirty));
    assert_string_equal(commit, "0123456789ab");
    assert_true(dirty);
    assert_false(report_commit("0.1.0", commit, &dirty));
    assert_true(report_commit(grs_version(), commit, &dirty)); /* ours has one */
}

static void driver_version(void **state) {
    (void)state;
    char path[] = "/tmp/grsrun-test-XXXXXX", version[32];
    int file = mkstemp(path);
    static const char text[] =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (x)\n";
    assert_true(file >= 0 && write(file, text, sizeof(text) - 1) > 0 && close(file) == 0);
    const char *const paths[] = {"/nonexistent", path, NULL};
    assert_true(gpu_driver_version(paths, version));
    assert_string_equal(version, "580.95.05");
    const char *const none[] = {"/nonexistent", NULL};
    assert_false(gpu_driver_version(none, version));
    unlink(path);
}

/* ---------------------------------------------------------------- ranks on GPUs ---------------------------------- */

static void ranks_are_dealt(void **state) {
    (void)state;
    static const struct {
        int tp, visible, asked, ranks_per_gpu, devices; /* devices 0: refused */
        const char *text;
    } cases[] = {
        {1, 1, 0, 1, 1, NULL},
        {8, 1, 0, 8, 1, NULL},
        {4, 2, 0, 2, 2, NULL},
        {3, 2, 0, 2, 2, NULL},
        {2, 8, 0, 1, 2, NULL},
        {2, 8, 2, 2, 1, NULL},
        {2, 8, 8, 2, 1, NULL},
        {16, 1, 0, 0, 0, "tp 16 on 1 GPU makes 16 ranks a GPU; at most 8 can share one"},
        {4, 1, 1, 0, 0, "tp 4 with --ranks-per-gpu 1 needs 4 GPUs; 1 visible"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int ranks_per_gpu, devices;
        grs_error err;
        grs_status status = team_deal(cases[i].tp, cases[i].visible, cases[i].asked, &ranks_per_gpu, &devices, &err);
        if (cases[i].devices) {
            assert_int_equal(status, GRS_OK);
            assert_int_equal(ranks_per_gpu, cases[i].ranks_per_gpu);
            assert_int_equal(devices, cases[i].devices);
        } else {
            assert_int_equal(status, GRS_ERR_ARGUMENT);
            assert_string_equal(err.text, cases[i].text);
        }
    }
}

static void exit_codes(void **state) {
    (void)state;
    assert_int_equal(grsrun_exit_code(GRS_OK), 0);
    assert_int_equal(grsrun_exit_code(GRS_ERR_CONFIG), 2);
    assert_int_equal(grsrun_exit_code(GRS_ERR_PLAN), 2);
    assert_int_equal(grsrun_exit_code(GRS_ERR_ARGUMENT), 2);
    assert_int_equal(grsrun_exit_code(GRS_ERR_UNSUPPORTED), 2);
    assert_int_equal(grsrun_exit_code(GRS_ERR_DRIVER), 1);
    assert_int_equal(grsrun_exit_code(GRS_ERR_TIMEOUT), 1);
    assert_int_equal(grsrun_exit_code(GRS_ERR_COMPILER), 1);
}

/* ---------------------------------------------------------------- the chart -------------------------------------- */

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void chart(void **state) {
    (void)state;
    struct bench_row rows[] = {measured_row(512, 25, 17), measured_row(512, 30, 17), measured_row(8192, 212, 182),
                               measured_row(4096, 110, 92), measured_row(1024, 40, NAN)};
    rows[1].isolated = true; /* not drawn */
    rows[3].shape.k = 7168;  /* a line of its own */
    struct buf first = {0}, second = {0};
    svg_draw(rows, 5, &first);
    svg_draw(rows, 5, &second);
    assert_string_equal(first.data, second.data);
    assert_int_equal(strncmp(first.data, "<svg xmlns=", 11), 0);
    assert_string_equal(first.data + first.length - 7, "</svg>\n");
    assert_int_equal(occurrences(first.data, "<polyline"), 2);
    assert_int_equal(occurrences(first.data, "<circle"), 3);
    assert_int_equal(occurrences(first.data, "N 4096, K 2048, tp 2"), 1);
    assert_int_equal(occurrences(first.data, "N 4096, K 7168, tp 2"), 1);
    assert_int_equal(occurrences(first.data, ">8192</text>"), 1);
    assert_int_equal(occurrences(first.data, ">1.0</text>"), 1);
    assert_int_equal(occurrences(first.data, "nan"), 0);
    /* The least M is at the left edge, the greatest at the right. */
    assert_non_null(strstr(first.data, "points=\"64.0,"));
    assert_non_null(strstr(first.data, " 700.0,"));
    buf_free(&first);
    buf_free(&second);
}

static void chart_without_figures(void **state) {
    (void)state;
    struct bench_row row = measured_row(512, 25, NAN);
    struct buf text = {0};
    svg_draw(&row, 1, &text);
    assert_int_equal(occurrences(text.data, "nothing to compare with was measured"), 1);
    assert_int_equal(occurrences(text.data, "<polyline"), 0);
    buf_free(&text);
}

static void chart_to_a_file(void **state) {
    (void)state;
    struct bench_row row = measured_row(512, 25, 17);
    char path[64], read[16];
    grs_error err;
    snprintf(path, sizeof(path), "/tmp/grsrun-test-%ld.svg", (long)getpid());
    assert_int_equal(svg_write(path, &row, 1, &err), GRS_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(read, 1, 4, file), 4);
    assert_memory_equal(read, "<svg", 4);
    fclose(file);
    unlink(path);
    assert_int_equal(svg_write("/nonexistent/x.svg", &row, 1, &err), GRS_ERR_IO);
    assert_string_equal(err.text, "/nonexistent/x.svg: No such file or directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_json),
        cmocka_unit_test(object_as_text),
        cmocka_unit_test(verify_json),
        cmocka_unit_test(rates),
        cmocka_unit_test(limit_of_gemm_and_link),
        cmocka_unit_test(sets_that_overflow_l2),
        cmocka_unit_test(text_lines_up),
        cmocka_unit_test(verify_text),
        cmocka_unit_test(commit_of_a_version),
        cmocka_unit_test(driver_version),
        cmocka_unit_test(ranks_are_dealt),
        cmocka_unit_test(exit_codes),
        cmocka_unit_test(chart),
        cmocka_unit_test(chart_without_figures),
        cmocka_unit_test(chart_to_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
