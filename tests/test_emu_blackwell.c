/* The sm_100a kernel on emulated ranks: rings of every size, odd shapes, every tile. Policies are in test_emu_slice and
 * test_emu_combinations, leaving in test_emu_leave, planted faults in test_emu_faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/emit.h"
#include "tests/emu_fixture.h"
#include "tools/grsrun_trial.h"

#define SINGLE "tile: {n: 64}\nstages: {load: 3, accum: 2}\nring: {chunk: {bytes: 2048, count: 2}}\n"
#define PAIR   "tile: {n: 64, cta_group: 2}\nstages: {load: 3, accum: 2}\nring: {chunk: {bytes: 2048, count: 2}}\n"

/* ---------------------------------------------------------------- kernels and runs */

struct shape {
    int tp, ctas;
    int64_t m, n, k;
};

static void make(const char *yaml, const struct shape *s, struct trial_kernel *out) {
    struct config *config = NULL;
    struct buf text = {0};
    struct plan plan;
    struct plan_shape class = {.m_min = 1, .m_max = 4096, .n = s->n, .k = s->k, .tp = s->tp};
    grs_error err = {0};
    buf_printf(&text, "version: 1\n%s", yaml);
    if (config_parse("test.yaml", text.data, text.length, &config, &err) != GRS_OK ||
        plan_solve(config, ARCH_SM100A, &class, &plan, &err) != GRS_OK ||
        trial_kernel_build(&plan, NULL, emu_kernel_directory(), out, &err) != GRS_OK)
        fail_msg("%s: %s", yaml, err.text);
    config_free(config);
    buf_free(&text);
}

/* Two launches, the second with fewer rows. */
static enum emu_verdict run(const struct trial_kernel *kernel, const struct shape *s, enum emu_schedule schedule,
                            uint64_t seed, struct emu_report *report) {
    struct emu_group_options options = {
        .ranks = s->tp, .ctas = s->ctas, .schedule = schedule, .seed = seed, .max_steps = UINT64_C(1) << 28};
    struct trial_launch launches[2] = {
        {.kernel = kernel, .m = s->m, .seed = seed, .mode = VALUES_RANDOM},
        {.kernel = kernel, .m = s->m * 2 / 3 + 1, .seed = seed + 100, .mode = VALUES_EXACT, .pad_a = 8, .pad_d = 16}};
    struct trial_result result;
    grs_error err = {0};
    if (trial_run(&options, launches, 2, &result, &err) != GRS_OK)
        fail_msg("%s", err.text);
    free(result.verdict);
    *report = result.report;
    return report->verdict;
}

/* Many CTAs take millions of steps where events come late: they run with events that come early instead. */
static void passes(const char *yaml, const struct shape *s) {
    const enum emu_schedule schedules[] = {EMU_SCHEDULE_RANDOM,
                                           s->tp * s->ctas <= 6 ? EMU_SCHEDULE_ADVERSARIAL : EMU_SCHEDULE_EAGER};
    static struct emu_report report;
    struct trial_kernel kernel;
    make(yaml, s, &kernel);
    for (int i = 0; i < 2; i++)
        if (run(&kernel, s, schedules[i], (uint64_t)i + 1, &report) != EMU_PASSED)
            fail_msg("%s, tp %d, schedule %d: %s: %s", yaml, s->tp, schedules[i], emu_verdict_name(report.verdict),
                     report.text);
    trial_kernel_free(&kernel);
}

/* ---------------------------------------------------------------- what must pass */

static void rings_of_every_size(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 8};
    for (int i = 0; i < 5; i++) {
        passes(SINGLE, &(struct shape){sizes[i], 2, 150 * sizes[i] - 5, 72, 136});
        passes(PAIR, &(struct shape){sizes[i], 2, 150 * sizes[i] - 5, 72, 136});
    }
}

/* Owners without rows, one row, one column block, K shorter than a stage. */
static void odd_shapes(void **state) {
    (void)state;
    static const struct shape shapes[] = {
        {4, 2, 5, 8, 8}, {3, 4, 1, 200, 72}, {8, 2, 9, 136, 64}, {2, 2, 257, 64, 56}, {3, 6, 500, 72, 72}};
    for (int i = 0; i < 5; i++) {
        passes(SINGLE, &shapes[i]);
        passes(PAIR, &shapes[i]);
    }
}

static void every_tile(void **state) {
    (void)state;
    for (int n = 64; n <= 256; n += 64)
        for (int kind = 0; kind < 3; kind++) {
            static const char *const kinds[] = {"", ", cluster: 2", ", cta_group: 2"};
            char yaml[64];
            snprintf(yaml, sizeof yaml, "tile: {n: %d%s}\n", n, kinds[kind]);
            passes(yaml, &(struct shape){2, 4, 390, 264, 72});
        }
}

int main(void) {
    EMU_RETURN_IF_UNWATCHABLE();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_of_every_size),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(every_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
