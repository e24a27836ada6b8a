/* Emulated ranks of which one stands still: the others' deadlines expire, one of them says who waited for what, and every CTA
 * leaves, under every policy and schedule. The emulator sees to it that what is in flight is awaited, that no thread is left
 * at a barrier, and that nothing is read or written out of turn on the way out. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/classes.h"
#include "tests/emu_fixture.h"
#include "tests/policies.h"
#include "tools/grsrun_trial.h"

enum { TP = 3, SCHEDULES = 4 };
static const int64_t K = 136;

struct leaver {
    const struct policy *policy;
    bool blackwell; /* where the issuer, tensor memory and the other CTA of a pair are to be left in order too */
    char name[96];
};

/* Three tiles across, also of the wide ones. */
static int64_t columns_of(const struct leaver *leaver) {
    return strstr(policy_text(leaver->policy, leaver->blackwell), "n: 256") ? 520 : 136;
}

static void make_kernel(const struct leaver *leaver, int64_t m, struct trial_kernel *out) {
    enum arch arch = leaver->blackwell ? ARCH_SM100A : ARCH_SM90A;
    char text[512];
    struct config *config = NULL;
    struct classes classes;
    struct plan plan;
    grs_error err = {0};
    int length = snprintf(text, sizeof(text), "version: 1\n%s", policy_text(leaver->policy, leaver->blackwell));
    if (config_parse(leaver->name, text, (size_t)length, &config, &err))
        fail_msg("%s", err.text);
    classes_make(config, arch, columns_of(leaver), K, TP, &classes);
    struct plan_shape shape = *classes_find(&classes, m);
    if (plan_solve(config, arch, &shape, &plan, &err))
        fail_msg("%s", err.text);
    plan.stall_hook = true;
    if (trial_kernel_build(&plan, NULL, emu_kernel_directory(), out, &err))
        fail_msg("%s", err.text);
    config_free(config);
}

/* The first record's "rank R CTA C ROLE, tile T of owner O, position P, epoch E". */
static bool has_record(const char *text) {
    int rank, cta, tile, owner;
    long long position, epoch;
    char role[16];
    const char *record = strstr(text, "the kernel's record: rank ");
    return record != NULL &&
           sscanf(record,
                  "the kernel's record: rank %d CTA %d %15[a-z], tile %d of owner %d, position %lld, epoch %lld", &rank,
                  &cta, role, &tile, &owner, &position, &epoch) == 7 &&
           rank >= 0 && rank < TP && cta >= 0 && cta < 2 && position >= 0 && epoch == 0;
}

/* Position 0 is the first that a rank sends; position 4 comes when buffers have gone round, and is none that it keeps. */
static void leaves(void **state) {
    static struct trial_result result; /* large */
    const struct leaver *leaver = *state;
    struct trial_kernel kernel;
    grs_error err;
    int64_t m = leaver->blackwell ? 390 : 200; /* two tiles of rows a segment */
    make_kernel(leaver, m, &kernel);
    for (int i = 0; i < 2 * SCHEDULES; i++) {
        int schedule = i % SCHEDULES, position = i < SCHEDULES ? 0 : 4, rank = i % TP;
        if (leaver->blackwell &&
            schedule % 2 != i / SCHEDULES) /* two schedules each: most of the ways out are Hopper's too */
            continue;
        struct emu_group_options options = {.ranks = TP,
                                            .ctas = 2,
                                            .ranks_per_grid = TP,
                                            .schedule = (enum emu_schedule)schedule,
                                            .seed = (uint64_t)i + 1,
                                            .deadline_ns = 2000000,
                                            .stall = (uint64_t)(rank + 1) << 32 | (uint64_t)(position + 1),
                                            .max_steps = 1 << 26};
        const struct trial_launch launch = {&kernel, m, 1, VALUES_EXACT, 0, 0, 8};
        if (trial_run(&options, &launch, 1, &result, &err))
            fail_msg("%s", err.text);
        /* The launch is not finished: bits are missing, or (nobody else could run) a deadlock was seen before the deadline. */
        bool unfinished = result.report.verdict == EMU_DEADLOCK || result.report.verdict == EMU_BIT_NEVER;
        if (!unfinished || !has_record(result.report.text) || strstr(result.report.text, "grids still run"))
            fail_msg("%s, schedule %d, rank %d stands still before position %d: %s\n%s", leaver->name, schedule, rank,
                     position, emu_verdict_name(result.report.verdict), result.report.text);
        free(result.verdict);
    }
    trial_kernel_free(&kernel);
}

int main(void) {
    enum { TESTS = 2 * POLICIES };
    static struct leaver leavers[TESTS];
    static struct CMUnitTest tests[TESTS];
    EMU_RETURN_IF_UNWATCHABLE();
    for (int i = 0; i < TESTS; i++) {
        leavers[i] = (struct leaver){.policy = &policies[i / 2], .blackwell = i % 2 == 1};
        snprintf(leavers[i].name, sizeof(leavers[i].name), "%s%s", leavers[i].blackwell ? "Blackwell, " : "",
                 policies[i / 2].name);
        tests[i] = (struct CMUnitTest){.name = leavers[i].name, .test_func = leaves, .initial_state = &leavers[i]};
    }
    return _cmocka_run_group_tests("leave", tests, TESTS, NULL, NULL);
}
