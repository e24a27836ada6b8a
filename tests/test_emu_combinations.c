/* Emulated ranks: tiles, policies, granularities and orders in combination, and runs drawn at random. D is compared bit for
 * bit with the ring computed on the host, and in the first test with the D of every other kernel too. By default a few; all
 * combinations and a longer campaign with
 *
 *   make build/tests/test_emu_combinations && FULL=1 build/tests/test_emu_combinations [draws [seed]]
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/combinations.h"
#include "tests/emu_fixture.h"
#include "tools/grsrun_trial.h"

#define SAMPLES 8   /* of the family of sm_100a, and half as many of Hopper's, where not all are asked for */
#define STRIDE  149 /* from one sample to the next: prime, so that all parts of a combination change      */

static int draws = 4;
static uint64_t first_seed = 20261130;

static bool make(const struct buf *yaml, enum arch arch, const struct plan_shape *shape, struct trial_kernel *out,
                 struct combination_refusals *refusals) {
    struct plan plan;
    grs_error err = {0};
    if (!combination_plan(yaml, arch, shape, &plan, &err)) {
        combination_refused(refusals, err.text);
        return false;
    }
    if (trial_kernel_build(&plan, NULL, emu_kernel_directory(), out, &err) != GRS_OK)
        fail_msg("%s%s", yaml->data, err.text);
    return true;
}

/* The digest of every D. */
static uint64_t passes(const struct buf *yaml, const struct trial_kernel *kernel, struct emu_group_options *options,
                       const struct trial_launch *launches, int count) {
    static struct trial_result result; /* large */
    grs_error err = {0};
    options->ranks = kernel->plan.shape.tp;
    options->max_steps = UINT64_C(1) << 30;
    if (trial_run(options, launches, count, &result, &err) != GRS_OK)
        fail_msg("%s%s", yaml->data, err.text);
    free(result.verdict);
    if (result.report.verdict != EMU_PASSED) {
        print_message("%s%s, M %" PRId64 " N %" PRId64 " K %" PRId64 " tp %d, %d CTAs, schedule %d, seed %" PRIu64 "\n",
                      yaml->data, config_arch_name(kernel->plan.arch), launches[0].m, kernel->plan.shape.n,
                      kernel->plan.shape.k, options->ranks, options->ctas, (int)options->schedule, options->seed);
        fail_msg("%s: %s", emu_verdict_name(result.report.verdict), result.report.text);
    }
    return result.digest;
}

/* ---------------------------------------------------------------- the same bits */

/* Two launches of each kernel: clipped tiles, then owners without rows. Random operands, so that any other order of addition, or
 * one more rounding, shows. */
static void every_kernel_gives_the_same_bits(void **state) {
    (void)state;
    static const int rings[] = {2, 3, 4, 8};
    static const enum arch archs[] = {ARCH_SM90A, ARCH_SM100A, ARCH_SM100F, ARCH_SM103A};
    enum { RINGS = 4, LAUNCHES = 2 };
    struct combination_refusals refusals = {0};
    uint64_t digest[RINGS] = {0};
    int kernels[RINGS] = {0}, of_family[2] = {0};
    bool full = combination_full();
    for (int i = 0; i < 2 * COMBINATIONS && (full || of_family[0] < SAMPLES / 2 || of_family[1] < SAMPLES); i++) {
        bool tensor = i % 2;
        int number = full ? i / 2 : (int)((int64_t)(i + 1) * STRIDE % COMBINATIONS), ring = i / 2 % RINGS;
        if (!full && of_family[tensor] == (tensor ? SAMPLES : SAMPLES / 2))
            continue;
        enum arch arch = archs[tensor ? 1 + i / 2 % 3 : 0];
        struct buf yaml = {0};
        struct trial_kernel kernel;
        const int64_t m[LAUNCHES] = {140 * rings[ring] - 7, rings[ring] + 1};
        const struct plan_shape shape = {.m_min = 1, .m_max = m[0], .n = 264, .k = 72, .tp = rings[ring]};
        struct emu_group_options options = {
            .ctas = 4, .schedule = (enum emu_schedule)(i / 2 % 4), .seed = (uint64_t)i + 1};
        combination_text(number, arch, options.ctas, number / 2 % 3, &yaml);
        if (make(&yaml, arch, &shape, &kernel, &refusals)) {
            struct trial_launch launches[LAUNCHES];
            for (int l = 0; l < LAUNCHES; l++)
                launches[l] = (struct trial_launch){
                    .kernel = &kernel, .m = m[l], .seed = (uint64_t)l, .mode = VALUES_RANDOM, .pad_d = 8 * l};
            uint64_t found = passes(&yaml, &kernel, &options, launches, LAUNCHES);
            if (kernels[ring]++ == 0)
                digest[ring] = found;
            if (found != digest[ring])
                fail_msg("%s%s, tp %d: other bits than the kernels before", yaml.data, config_arch_name(arch),
                         rings[ring]);
            of_family[tensor]++;
            trial_kernel_free(&kernel);
        }
        buf_free(&yaml);
    }
    for (int r = 0; r < RINGS; r++) {
        assert_true(kernels[r] >= 2);
        print_message("  tp %d: %d kernels, the same bits\n", rings[r], kernels[r]);
    }
    combination_print_refusals(&refusals);
}

/* ---------------------------------------------------------------- drawn at random */

static uint64_t draw(uint64_t *state, uint64_t below) {
    *state = values_mix(*state + 1);
    return *state % below;
}

/* Launches of one communicator differ in M; grids, strides and schedules are drawn too. */
static void a_campaign(void **state) {
    (void)state;
    enum { LAUNCHES = 3 };
    struct combination_refusals refusals = {0};
    int done = 0;
    for (uint64_t seed = first_seed; done < draws; seed++) {
        uint64_t x = values_mix(seed);
        bool hopper = draw(&x, 4) == 0;
        enum arch arch = hopper ? ARCH_SM90A : (enum arch)(ARCH_SM100A + draw(&x, 3));
        struct plan_shape shape = {.m_min = 1, .tp = 1 + (int)draw(&x, 8)};
        shape.m_max = 1 + (int64_t)draw(&x, (uint64_t)(200 * shape.tp));
        shape.n = 8 * (1 + (int64_t)draw(&x, 60));
        shape.k = 8 * (1 + (int64_t)draw(&x, 40));
        struct emu_group_options options = {.ctas = 2 * (1 + (int)draw(&x, 3)),
                                            .ranks_per_grid = draw(&x, 2) ? shape.tp : 1,
                                            .schedule = (enum emu_schedule)draw(&x, 4),
                                            .seed = seed};
        struct buf yaml = {0};
        struct trial_kernel kernel;
        combination_text((int)draw(&x, COMBINATIONS), arch, options.ctas, (int)draw(&x, 3), &yaml);
        if (make(&yaml, arch, &shape, &kernel, &refusals)) {
            struct trial_launch launches[LAUNCHES];
            for (int l = 0; l < LAUNCHES; l++)
                launches[l] = (struct trial_launch){.kernel = &kernel,
                                                    .m = l ? 1 + (int64_t)draw(&x, (uint64_t)shape.m_max) : shape.m_max,
                                                    .seed = seed + (uint64_t)l,
                                                    .mode = (enum values_mode)(l % 2),
                                                    .pad_a = 8 * (int64_t)draw(&x, 3),
                                                    .pad_b = 8 * (int64_t)draw(&x, 3),
                                                    .pad_d = 8 * (int64_t)draw(&x, 3)};
            passes(&yaml, &kernel, &options, launches, LAUNCHES);
            trial_kernel_free(&kernel);
            done++;
        }
        buf_free(&yaml);
    }
    print_message("  %d runs\n", done);
    combination_print_refusals(&refusals);
}

int main(int argc, char **argv) {
    EMU_RETURN_IF_UNWATCHABLE();
    draws = argc > 1 ? atoi(argv[1]) : combination_full() ? 300 : draws;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_the_same_bits),
        cmocka_unit_test(a_campaign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
