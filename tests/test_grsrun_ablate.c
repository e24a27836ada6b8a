/* --ablate without a GPU: the variants and their plans, what their kernels look like to ptxas, the wait counters' arithmetic,
 * and the table as text, JSON and chart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/parallel.h"
#include "generator/classes.h"
#include "generator/emit.h"
#include "runtime/nvrtc.h"
#include "runtime/symm.h"
#include "tools/grsrun_ablate.h"

static grs_error err;

static struct config *parse(const char *yaml) {
    struct config *config = NULL;
    struct buf text = {0};
    buf_printf(&text, "version: 1\n%s", yaml);
    if (config_parse("test.yaml", text.data, text.length, &config, &err)) {
        fail_msg("%s", err.text);
    }
    buf_free(&text);
    return config;
}

/* The plans of all variants of a shape. */
static void make_plans_but(const struct config *config, enum arch arch, struct grsrun_shape shape, int refused,
                           struct plan plans[VARIANT_COUNT]) {
    struct variants_base base;
    if (variants_base(config, arch, &shape, &base, &err)) {
        fail_msg("%s", err.text);
    }
    for (int i = 0; i < VARIANT_COUNT; i++) {
        struct config made;
        struct classes classes;
        variants_config(&base, (enum variant)i, &made);
        classes_make(&made, arch, shape.n, shape.k, shape.tp, &classes);
        grs_status status = plan_solve(&made, arch, classes_find(&classes, shape.m), &plans[i], &err);
        if ((status != GRS_OK) != (i == refused)) {
            fail_msg("M %d tp %d: %s: %s", (int)shape.m, shape.tp, variants_info[i].name, err.text);
        }
    }
}

static void make_plans(const struct config *config, enum arch arch, struct grsrun_shape shape,
                       struct plan plans[VARIANT_COUNT]) {
    make_plans_but(config, arch, shape, -1, plans);
}

/* ---------------------------------------------------------------- variants -------------------------------------- */

static const enum field policies[] = {FIELD_RING_DEPTH,  FIELD_RING_PLACE, FIELD_CHUNK_BYTES,  FIELD_CHUNK_COUNT,
                                      FIELD_GRANULARITY, FIELD_GROUP,      FIELD_DRAIN_POLICY, FIELD_DRAIN_FLUSH,
                                      FIELD_ORDER,       FIELD_LAG};

static bool is_policy(int field) {
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if ((int)policies[i] == field) {
            return true;
        }
    }
    return false;
}

/* Every variant can be planned, and but for the default's tile they differ in policies alone. */
static void variants_differ_in_policies_alone(void **state) {
    (void)state;
    static const int tps[] = {2, 3, 4, 8};
    struct plan plans[VARIANT_COUNT];
    struct config *config;
    assert_int_equal(config_defaults(&config, &err), GRS_OK);
    for (int64_t m = 512; m <= 8192; m *= 2) {
        for (size_t t = 0; t < sizeof(tps) / sizeof(tps[0]); t++) {
            make_plans(config, ARCH_SM90A, (struct grsrun_shape){m, 4096, 2048, tps[t]}, plans);
            for (int i = 0; i < VARIANT_DEFAULT; i++) {
                for (int f = 0; f < FIELD_COUNT; f++) {
                    if (!is_policy(f)) {
                        assert_int_equal(plans[i].value[f], plans[0].value[f]);
                    }
                }
            }
            assert_int_equal(plans[0].value[FIELD_TILE_N], 128);
            assert_int_equal(plans[0].value[FIELD_STAGES_LOAD], 5);
        }
    }
    config_free(config);
}

static void check_policies(const struct plan *plan, const char *granularity, const char *ring, const char *drain,
                           const char *order) {
    struct variants_policies said;
    variants_describe(plan, &said);
    assert_string_equal(said.granularity, granularity);
    assert_string_equal(said.ring, ring);
    assert_string_equal(said.drain, drain);
    assert_string_equal(said.order, order);
}

static void each_variant_is_what_it_says(void **state) {
    (void)state;
    struct plan plans[VARIANT_COUNT];
    struct config *config;
    assert_int_equal(config_defaults(&config, &err), GRS_OK);
    make_plans(config, ARCH_SM90A, (struct grsrun_shape){8192, 4096, 2048, 2}, plans);
    config_free(config);
    struct variants_policies ours;
    variants_describe(&plans[VARIANT_DEFAULT], &ours);
    check_policies(&plans[VARIANT_OLDER], "segment", "shared 2", "per_tile", "segment");
    check_policies(&plans[VARIANT_FLAGS], "tile", "shared 2", "per_tile", "segment");
    check_policies(&plans[VARIANT_RING], "segment", ours.ring, "per_tile", "segment");
    check_policies(&plans[VARIANT_DRAIN], "segment", "shared 2", "ring", "segment");
    check_policies(&plans[VARIANT_LANES], "segment", "shared 2", "lane_per_stage", "segment");
    check_policies(&plans[VARIANT_ALL], "tile", ours.ring, "ring", "segment");
    check_policies(&plans[VARIANT_LESS_FLAGS], "segment", ours.ring, "ring", "segment");
    check_policies(&plans[VARIANT_LESS_RING], "tile", "shared 2", "ring", "segment");
    check_policies(&plans[VARIANT_LESS_DRAIN], "tile", ours.ring, "per_tile", "segment");
    check_policies(&plans[VARIANT_ALL_LANES], "tile", ours.ring, "lane_per_stage", "segment");
    check_policies(&plans[VARIANT_ORDER], ours.granularity, ours.ring, ours.drain, ours.order);
    assert_string_equal(ours.granularity, "tile");
    assert_memory_equal(ours.ring, "global ", 7);
    assert_string_equal(ours.drain, "ring");
    assert_memory_equal(ours.order, "interleave ", 11);
    assert_string_equal(ours.tile, "128x256x64"); /* its own */
}

/* What the config sets is kept: its tile, and its policies where a variant is not the older kernel. */
static void config_goes_before_the_planner(void **state) {
    (void)state;
    struct plan plans[VARIANT_COUNT];
    struct config *config =
        parse("sms: 66\ntile: {n: 256}\nring: {depth: 8, place: global, chunk: {bytes: 2048, count: 8}}\n"
              "order: {interleave: 3}\n");
    make_plans_but(config, ARCH_SM90A, (struct grsrun_shape){4096, 4096, 2048, 4}, VARIANT_ALL_LANES, plans);
    for (int i = 0; i < VARIANT_COUNT; i++) {
        if (i == VARIANT_ALL_LANES) { /* eight lanes leave no registers for 256 columns */
            continue;
        }
        assert_int_equal(plans[i].value[FIELD_TILE_N], 256);
        assert_int_equal(plans[i].value[FIELD_SMS], 66);
    }
    assert_int_equal(plans[VARIANT_ALL].value[FIELD_STAGES_LOAD], 2); /* as many as fit beside two tiles */
    check_policies(&plans[VARIANT_ALL], "tile", "global 8", "ring", "segment");
    check_policies(&plans[VARIANT_ORDER], "tile", "global 8", "ring", "interleave 3");
    check_policies(&plans[VARIANT_OLDER], "segment", "shared 2", "per_tile", "segment");
    assert_int_equal(plans[VARIANT_ORDER].value[FIELD_CHUNK_BYTES], 2048);
    config_free(config);
}

/* A flush that the config asks for goes with the config's drain, not with the one that a variant has instead. */
static void flush_goes_with_its_drain(void **state) {
    (void)state;
    static const char *const flushes[] = {"per_tile", "never"};
    for (int i = 0; i < 2; i++) {
        char yaml[128];
        struct plan plans[VARIANT_COUNT];
        snprintf(yaml, sizeof(yaml), "sms: 2\ntile: {n: 64}\nring: {place: shared, depth: 2}\ndrain: {flush: %s}\n",
                 flushes[i]);
        struct config *config = parse(yaml);
        struct variants_base base = {.config = config, .tile_n = 64, .stages = 4};
        static const enum variant others[] = {VARIANT_OLDER, VARIANT_FLAGS, VARIANT_LANES, VARIANT_ALL_LANES};
        for (int v = 0; v < 4; v++) {
            struct config made;
            struct plan_shape any = {1, INT32_MAX, 4096, 2048, 2};
            variants_config(&base, others[v], &made);
            if (plan_solve(&made, ARCH_SM90A, &any, &plans[v], &err)) {
                fail_msg("%s: %s", variants_info[others[v]].name, err.text);
            }
            assert_int_equal(plans[v].value[FIELD_DRAIN_FLUSH], FLUSH_OWNER_BOUNDARY);
        }
        config_free(config);
    }
}

static void no_tile_for_the_older_ring(void **state) {
    (void)state;
    struct variants_base base;
    struct grsrun_shape shape = {4096, 4096, 2048, 2};
    struct config *config = parse("tile: {n: 256}\nstages: {load: 4}\n");
    assert_int_equal(variants_base(config, ARCH_SM90A, &shape, &base, &err), GRS_ERR_PLAN);
    assert_memory_equal(err.text, "no tile holds the older kernel's ring in shared memory: ", 56);
    assert_non_null(strstr(err.text, "stages.load"));
    config_free(config);
}

static void blackwell_has_them_too(void **state) {
    (void)state;
    struct plan plans[VARIANT_COUNT];
    struct config *config;
    assert_int_equal(config_defaults(&config, &err), GRS_OK);
    make_plans(config, ARCH_SM100A, (struct grsrun_shape){8192, 4096, 2048, 4}, plans);
    check_policies(&plans[VARIANT_LANES], "segment", "shared 2", "lane_per_stage", "segment");
    config_free(config);
}

/* ---------------------------------------------------------------- kernels --------------------------------------- */

struct compiling {
    const struct nvrtc *compiler;
    struct plan plans[2 * VARIANT_COUNT];
    char failure[2 * VARIANT_COUNT][512];
};

static bool compile_one(void *argument, size_t index) {
    struct compiling *all = argument;
    const struct plan *plan = &all->plans[index];
    struct buf entry = {0};
    struct nvrtc_result result = {0};
    grs_error mine;
    char *failure = all->failure[index];
    if (emit_entry(plan, &entry, &mine) ||
        nvrtc_compile(all->compiler, plan->arch, "entry.cu", entry.data, emit_headers, plan->name, &result, &mine)) {
        snprintf(failure, sizeof(all->failure[0]), "%.500s", mine.text);
    } else if (!result.report.found || result.report.spill_store_bytes || result.report.spill_load_bytes ||
               result.report.stack_bytes) {
        snprintf(failure, sizeof(all->failure[0]), "%.500s", result.log);
    }
    nvrtc_result_free(&result);
    buf_free(&entry);
    return true;
}

/* Plain, and with the wait counters and the link model, which cost registers. */
static void no_variant_spills(void **state) {
    (void)state;
    struct nvrtc_location where;
    struct compiling *all = calloc(1, sizeof(*all));
    struct config *config;
    assert_non_null(all);
    if (nvrtc_locate(NULL, &where, &err) || nvrtc_open(&where, &all->compiler, &err)) {
        print_message("SKIP: no NVRTC: %.*s\n", (int)strcspn(err.text, "\n"), err.text);
        free(all);
        skip();
    }
    assert_int_equal(config_defaults(&config, &err), GRS_OK);
    make_plans(config, ARCH_SM90A, (struct grsrun_shape){8192, 4096, 2048, 2}, all->plans);
    config_free(config);
    for (int i = 0; i < VARIANT_COUNT; i++) {
        all->plans[VARIANT_COUNT + i] = all->plans[i];
        plan_add_hooks(&all->plans[VARIANT_COUNT + i], true, true, false);
    }
    parallel_for(2 * (size_t)VARIANT_COUNT, 0, compile_one, all);
    for (int i = 0; i < 2 * VARIANT_COUNT; i++) {
        if (all->failure[i][0]) {
            fail_msg("%s%s: %s", variants_info[i % VARIANT_COUNT].name, i < VARIANT_COUNT ? "" : ", counting",
                     all->failure[i]);
        }
    }
    free(all);
}

/* ---------------------------------------------------------------- wait counters --------------------------------- */

static void averages_of_counters(void **state) {
    (void)state;
    enum { CTAS = 2, LAUNCHES = 4 };
    uint64_t counters[CTAS * SYMM_WAITS_A_CTA] = {0};
    struct waits waits = {0};
    uint64_t *first = counters, *second = counters + SYMM_WAITS_A_CTA;
    first[GRS_ROLE_LOADER * GRS_WAIT_COUNT + GRS_WAIT_NONE] = 4000;
    first[GRS_ROLE_LOADER * GRS_WAIT_COUNT + GRS_WAIT_STAGE_FREE] = 1000;
    first[GRS_ROLE_MATH * GRS_WAIT_COUNT + GRS_WAIT_NONE] = 4400;
    second[GRS_ROLE_LOADER * GRS_WAIT_COUNT + GRS_WAIT_NONE] = 3600;
    second[GRS_ROLE_LOADER * GRS_WAIT_COUNT + GRS_WAIT_STAGE_FREE] = 2000;
    waits_add(counters, CTAS, LAUNCHES, CTAS, &waits);
    assert_true(fabs(waits.run - (4400 + 3600) / 8.0) < 1e-9); /* of each CTA the role that was there longest */
    assert_true(fabs(waits.cycles[GRS_ROLE_LOADER][GRS_WAIT_STAGE_FREE] - 375) < 1e-9);
    assert_true(fabs(waits_share(&waits, GRS_ROLE_LOADER, GRS_WAIT_STAGE_FREE) - 0.375) < 1e-9);
    assert_true(waits_share(&waits, GRS_ROLE_MATH, GRS_WAIT_STAGE_FULL) == 0);

    json_t *object = waits_json(&waits), *roles = json_object_get(object, "roles");
    assert_true(json_real_value(json_object_get(object, "run_cycles")) == waits.run);
    assert_int_equal(json_object_size(roles), 2);
    json_t *loader = json_object_get(roles, "loader");
    assert_int_equal(json_object_size(loader), 2);
    assert_true(fabs(json_real_value(json_object_get(loader, "run")) - 0.95) < 1e-9);
    assert_true(fabs(json_real_value(json_object_get(loader, "stage_free")) - 0.375) < 1e-9);
    json_decref(object);

    struct buf text = {0};
    waits_text(&waits, &text);
    assert_string_equal(
        text.data, "#   waits: cycles a CTA and launch, and their share of its 1000\n"
                   "#     loader           950  95.0 %  there\n"
                   "#                      375  37.5 %  for a free stage of A and B (the math warps still read it)\n"
                   "#     math warp        550  55.0 %  there\n");
    buf_free(&text);
    struct waits none = {0};
    object = waits_json(&none);
    assert_true(json_is_null(object));
    json_decref(object);
}

/* ---------------------------------------------------------------- table and chart ------------------------------- */

static struct ablate_row variant_row(int64_t m, enum variant variant, double us) {
    struct ablate_row row = {.shape = {m, 4096, 2048, 2},
                             .ranks_per_gpu = 2,
                             .sms = 66,
                             .iters = 20,
                             .pace_gbps = NAN,
                             .name = variants_info[variant].name,
                             .title = variants_info[variant].title,
                             .config = "0123",
                             .policies = {"128x128x64", "segment", "shared 2", "per_tile", "segment", 5},
                             .us = us,
                             .spread = 0.01,
                             .limit_us = 100,
                             .older_us = 200,
                             .equal = true};
    row.waits.run = 1000;
    row.waits.cycles[GRS_ROLE_MATH][GRS_WAIT_NONE] = 1000;
    row.waits.cycles[GRS_ROLE_MATH][GRS_WAIT_TILE_READY] = 421;
    return row;
}

static struct ablate_row refused_row(int64_t m) {
    struct ablate_row row = variant_row(m, VARIANT_LANES, NAN);
    row.waits = (struct waits){0};
    row.config[0] = row.policies.order[0] = '\0';
    row.equal = false;
    row.spread = NAN;
    strcpy(row.refused, "(defaults): ring.depth: too deep");
    return row;
}

static struct ablate_row baseline_row(int64_t m, double us) {
    struct ablate_row row = {.shape = {m, 4096, 2048, 2},
                             .ranks_per_gpu = 2,
                             .sms = 66,
                             .iters = 20,
                             .pace_gbps = NAN,
                             .name = "cublas",
                             .title = "cuBLAS alone, nothing exchanged",
                             .is_baseline = true,
                             .is_best_baseline = true,
                             .us = us,
                             .spread = 0.02,
                             .limit_us = 100,
                             .older_us = 200};
    return row;
}

static void ratios(void **state) {
    (void)state;
    struct ablate_row row = variant_row(512, VARIANT_ALL, 125);
    assert_true(ablate_ratio(&row) == 1.25 && ablate_speedup(&row) == 1.6);
    row.limit_us = row.us = NAN;
    assert_true(isnan(ablate_ratio(&row)) && isnan(ablate_speedup(&row)));
}

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void text_of_the_table(void **state) {
    (void)state;
    struct ablate_row rows[] = {variant_row(512, VARIANT_OLDER, 200), refused_row(512), baseline_row(512, 100),
                                variant_row(8192, VARIANT_OLDER, 2000)};
    rows[3].equal = false;
    struct buf head = {0}, text = {0};
    ablate_head(&head);
    ablate_text(rows, 4, &text);
    assert_int_equal(
        occurrences(text.data,
                    "# 512,4096,2048 tp 2, 2 a GPU, 66 SMs each; tile 128x128x64, 5 stages; limit 100.00 us\n"),
        1);
    assert_int_equal(occurrences(text.data, "# 8192,4096,2048 tp 2,"), 1);
    assert_non_null(strstr(text.data, "   200.00   1.0  2.000   1.000    0.0   42.1    0.0    0.0  equal\n"));
    assert_non_null(strstr(text.data, "-  -\n#   refused: (defaults): ring.depth: too deep\n"));
    assert_non_null(strstr(text.data, "   100.00   2.0  1.000   2.000      -      -      -      -  *\n"));
    assert_int_equal(occurrences(text.data, "  DIFFERS\n"), 1);
    assert_int_equal(occurrences(text.data, "nan"), 0);
    /* Head and rows end their columns at the same places. */
    const char *what = strstr(head.data, "#what"), *row = strchr(text.data, '\n') + 1;
    assert_int_equal(strcspn(what, "\n") - strlen("D"), strcspn(row, "\n") - strlen("equal"));
    buf_free(&head);
    buf_free(&text);
}

static void json_of_the_table(void **state) {
    (void)state;
    static const char *const keys[] = {"m",
                                       "n",
                                       "k",
                                       "tp",
                                       "ranks_per_gpu",
                                       "sms",
                                       "pace_gbps",
                                       "iters",
                                       "variant",
                                       "title",
                                       "baseline",
                                       "best_baseline",
                                       "config",
                                       "tile",
                                       "stages",
                                       "granularity",
                                       "ring",
                                       "drain",
                                       "order",
                                       "us",
                                       "spread",
                                       "limit_us",
                                       "ratio",
                                       "speedup_over_older",
                                       "bitwise_equal",
                                       "refused",
                                       "waits"};
    struct ablate_row rows[] = {variant_row(512, VARIANT_OLDER, 200), refused_row(512), baseline_row(512, 100)};
    rows[0].pace_gbps = 186;
    json_t *array = ablate_json(rows, 3);
    assert_int_equal(json_array_size(array), 3);
    for (size_t i = 0; i < 3; i++) {
        const char *key;
        json_t *value;
        size_t k = 0;
        assert_int_equal(json_object_size(json_array_get(array, i)), sizeof(keys) / sizeof(keys[0]));
        json_object_foreach(json_array_get(array, i), key, value) {
            assert_string_equal(key, keys[k++]);
        }
    }
    json_t *row = json_array_get(array, 0);
    assert_string_equal(json_string_value(json_object_get(row, "variant")), "older");
    assert_string_equal(json_string_value(json_object_get(row, "ring")), "shared 2");
    assert_true(json_real_value(json_object_get(row, "pace_gbps")) == 186);
    assert_true(json_is_true(json_object_get(row, "bitwise_equal")));
    assert_true(json_is_object(json_object_get(row, "waits")));
    row = json_array_get(array, 1);
    static const char *const unknown[] = {"us", "ratio", "speedup_over_older", "bitwise_equal", "waits", "config"};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_true(json_is_null(json_object_get(row, unknown[i])));
    }
    assert_string_equal(json_string_value(json_object_get(row, "refused")), "(defaults): ring.depth: too deep");
    row = json_array_get(array, 2);
    assert_true(json_is_true(json_object_get(row, "baseline")));
    assert_true(json_is_null(json_object_get(row, "stages")));
    json_decref(array);
}

static void chart(void **state) {
    (void)state;
    struct ablate_row rows[] = {variant_row(512, VARIANT_OLDER, 200), variant_row(512, VARIANT_DEFAULT, 110),
                                refused_row(512), baseline_row(512, 100), variant_row(8192, VARIANT_OLDER, 2000)};
    struct buf first = {0}, second = {0};
    rows[4].pace_gbps = 186;
    ablate_draw(rows, 5, &first);
    ablate_draw(rows, 5, &second);
    assert_string_equal(first.data, second.data);
    assert_int_equal(strncmp(first.data, "<svg xmlns=", 11), 0);
    assert_string_equal(first.data + first.length - 7, "</svg>\n");
    assert_int_equal(occurrences(first.data, "<rect"), 1 + 4); /* the page, and a bar a row that was measured */
    assert_int_equal(occurrences(first.data, "<line"), 2);     /* the limit, once a shape */
    assert_int_equal(occurrences(first.data, ">refused</text>"), 1);
    assert_int_equal(occurrences(first.data, ">110.0 µs, 1.10</text>"), 1);
    assert_int_equal(occurrences(first.data, "M 8192, N 4096, K 2048, tp 2, 2 a GPU, link model 186 GB/s a rank"), 1);
    assert_int_equal(occurrences(first.data, "width=\"410.0\""), 2); /* the longest of each group fills the plot */
    assert_int_equal(occurrences(first.data, "nan"), 0);
    buf_free(&first);
    buf_free(&second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_differ_in_policies_alone),
        cmocka_unit_test(each_variant_is_what_it_says),
        cmocka_unit_test(config_goes_before_the_planner),
        cmocka_unit_test(flush_goes_with_its_drain),
        cmocka_unit_test(no_tile_for_the_older_ring),
        cmocka_unit_test(blackwell_has_them_too),
        cmocka_unit_test(no_variant_spills),
        cmocka_unit_test(averages_of_counters),
        cmocka_unit_test(ratios),
        cmocka_unit_test(text_of_the_table),
        cmocka_unit_test(json_of_the_table),
        cmocka_unit_test(chart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
