/* A slice of what emulated ranks can run, small enough for every `make check`: each config of configs/ on a small shape, and each
 * policy that a config can ask for; 1 to 8 ranks, owners with fewer rows than others and without any, three seeds, each under
 * another schedule. D is compared bit for bit with the ring computed on the host, so policies agree with one another too. */
#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/emu_fixture.h"
#include "tools/grsrun_trial.h"

#define MAX_TESTS 256
#define LAUNCHES  3
#define SEEDS     3
#define SMALL_N   136
#define SMALL_K   72

struct slice {
    char name[128];
    const char *path, *text; /* one of them; `text` follows "version: 1" */
    enum arch arch;
    int64_t n, k;
    int tp;
};

static struct slice slices[MAX_TESTS];
static struct CMUnitTest tests[MAX_TESTS];
static int slice_count;

/* What a config may ask for beside sizes; a slice of the products of these. Those that name no tile.m, Blackwell can do too. */
static const struct {
    const char *name, *text;
    int64_t n, k;
} policies[] = {
    {"tiles of 64x64, lag 1", "tile: {m: 64, n: 64}\norder: {interleave: 1}\n", 200, 72},
    {"tiles of 128x256", "tile: {n: 256}\nring: {place: global}\n", 264, 136},
    {"order: segment", "tile: {n: 64}\norder: segment\n", 200, 72},
    {"signal: group", "tile: {n: 64}\nsignal: {granularity: {group: 2}}\n", 200, 72},
    {"signal: segment", "tile: {n: 64}\nsignal: {granularity: segment}\norder: segment\n", 200, 72},
    {"drain: per_tile", "tile: {n: 64}\ndrain: {policy: per_tile}\n", 136, 72},
    {"ring.depth: 1", "tile: {n: 64}\nring: {depth: 1}\n", 136, 72},
    {"ring.chunk: small", "tile: {n: 64}\nring: {chunk: {bytes: 1024, count: 4}}\n", 136, 72},
    {"ring.place: shared", "tile: {n: 64}\nring: {place: shared, depth: 2}\n", 200, 72},
    {"ring.place: shared, per_tile", "tile: {n: 64}\nring: {place: shared, depth: 2}\ndrain: {policy: per_tile}\n", 200,
     72},
    {"ring.place: shared, lane_per_stage",
     "tile: {n: 64}\nring: {place: shared, depth: 2}\ndrain: {policy: lane_per_stage}\n", 200, 72},
    {"ring.place: shared, six lanes",
     "tile: {n: 64}\nring: {place: shared, depth: 6}\ndrain: {policy: lane_per_stage, flush: never}\n", 200, 72},
    {"outbox, five lanes", "tile: {n: 64}\nring: {chunk: {bytes: 3072, count: 5}}\ndrain: {policy: lane_per_stage}\n",
     200, 72},
    {"cluster: 2", "tile: {n: 128, cluster: 2}\n", 136, 200},
    {"cluster: 2, ring.place: shared", "tile: {n: 128, cluster: 2}\nring: {place: shared, depth: 2}\n", 136, 72},
    {"two stages, long K", "tile: {m: 64, n: 64}\nstages: {load: 2}\n", 72, 456},
    {"ping-pong", "tile: {m: 64, n: 128, schedule: pingpong}\n", 264, 72},
    {"ping-pong, tiles that end inside a panel", "tile: {m: 64, n: 168, schedule: pingpong}\n", 344, 72},
    {"tiles that end inside a panel, ring.place: shared", "tile: {m: 64, n: 168}\nring: {place: shared, depth: 2}\n",
     176, 72},
    {"ping-pong, ring.place: shared, long K",
     "tile: {m: 64, n: 64, schedule: pingpong}\nring: {place: shared, depth: 3}\n", 200, 520},
};

/* CTA pairs, with the policies that touch what a pair shares. */
static const struct {
    const char *name, *text;
} pairs[] = {
    {"pair", "tile: {n: 64, cta_group: 2}\n"},
    {"pair, one accumulator", "tile: {n: 256, cta_group: 2}\nstages: {accum: 1, load: 2}\n"},
    {"pair, signal: segment", "tile: {n: 64, cta_group: 2}\nsignal: {granularity: segment}\norder: segment\n"},
    {"pair, ring.place: shared", "tile: {n: 128, cta_group: 2}\nring: {place: shared, depth: 2}\n"},
    {"pair, outbox, lanes",
     "tile: {n: 64, cta_group: 2}\nring: {chunk: {bytes: 2048, count: 3}}\ndrain: {policy: lane_per_stage}\n"},
    {"pair, lane_per_stage",
     "tile: {n: 64, cta_group: 2}\nring: {place: shared, depth: 2}\ndrain: {policy: lane_per_stage}\n"},
};

static struct config *load(const struct slice *slice) {
    struct config *config;
    grs_error err;
    if (slice->path) {
        if (config_load(slice->path, &config, &err))
            fail_msg("%s", err.text);
        return config;
    }
    char text[512];
    int length = snprintf(text, sizeof text, "version: 1\n%s", slice->text);
    if (config_parse(slice->name, text, (size_t)length, &config, &err))
        fail_msg("%s", err.text);
    return config;
}

static void slice_runs(void **state) {
    static struct trial_result result; /* large */
    const struct slice *slice = *state;
    struct config *config = load(slice);
    struct trial_kernel kernel;
    grs_error err;
    /* Rows that do not divide; then fewer rows than two a rank, so that the last owners keep none; then the first again. */
    const int64_t m[LAUNCHES] = {slice->tp == 8 ? 41 : 97, slice->tp + 1, slice->tp == 8 ? 41 : 97};
    if (trial_kernel_make(config, slice->arch, m[0], slice->n, slice->k, slice->tp, NULL, emu_kernel_directory(),
                          &kernel, &err))
        fail_msg("%s: %s", slice->name, err.text);
    config_free(config);
    for (int seed = 1; seed <= SEEDS; seed++) {
        static const enum emu_schedule schedules[SEEDS] = {EMU_SCHEDULE_RANDOM, EMU_SCHEDULE_LAZY,
                                                           EMU_SCHEDULE_ADVERSARIAL};
        struct trial_launch launches[LAUNCHES];
        for (int i = 0; i < LAUNCHES; i++)
            launches[i] = (struct trial_launch){.kernel = &kernel,
                                                .m = m[i],
                                                .seed = (uint64_t)(10 * seed + i),
                                                .mode = i % 2 ? VALUES_RANDOM : VALUES_EXACT,
                                                .pad_a = 8 * (i % 2),
                                                .pad_d = 8};
        const struct emu_group_options options = {.ranks = slice->tp,
                                                  .ctas = 2,
                                                  .ranks_per_grid = seed == 2 ? slice->tp : 1,
                                                  .schedule = schedules[seed - 1],
                                                  .seed = (uint64_t)seed,
                                                  .max_steps = 200000000};
        if (trial_run(&options, launches, LAUNCHES, &result, &err))
            fail_msg("%s: %s", slice->name, err.text);
        free(result.verdict);
        if (result.report.verdict != EMU_PASSED)
            fail_msg("%s, schedule %d, seed %d: %s\n%s", slice->name, (int)options.schedule, seed,
                     emu_verdict_name(result.report.verdict), result.report.text);
    }
    trial_kernel_free(&kernel);
}

static void add(const char *path, const char *text, enum arch arch, int64_t n, int64_t k, int tp, const char *name) {
    struct slice *slice = &slices[slice_count];
    *slice = (struct slice){.path = path, .text = text, .arch = arch, .n = n, .k = k, .tp = tp};
    snprintf(slice->name, sizeof slice->name, "%s, %s, R = %d", name, config_arch_name(arch), tp);
    tests[slice_count++] = (struct CMUnitTest){.name = slice->name, .test_func = slice_runs, .initial_state = slice};
}

/* A config serves the arches that it names; one that names none serves any, here Hopper. */
static void add_config(const char *path) {
    static const int ranks[] = {1, 2, 3, 4, 8};
    struct config *config;
    grs_error err;
    if (config_load(path, &config, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (int arch = 0; arch < ARCH_COUNT; arch++)
        for (int r = 0; r < 5 && (config->arch[arch] || arch == ARCH_SM90A) && slice_count < MAX_TESTS; r++)
            add(path, NULL, (enum arch)arch, SMALL_N, SMALL_K, ranks[r], path);
    config_free(config);
}

int main(void) {
    static glob_t found; /* holds the names that the slices point to */
    EMU_RETURN_IF_UNWATCHABLE();
    if (glob("configs/*.yaml", 0, NULL, &found) != 0) {
        fprintf(stderr, "configs/*.yaml: none found; run the tests from the repository's root\n");
        return 1;
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        add_config(found.gl_pathv[i]);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (int tp = 2; tp <= 3; tp++)
            add(NULL, policies[i].text, ARCH_SM90A, policies[i].n, policies[i].k, tp, policies[i].name);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (!strstr(policies[i].text, "m: "))
            add(NULL, policies[i].text, ARCH_SM100A, policies[i].n, policies[i].k, 3, policies[i].name);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        add(NULL, pairs[i].text, ARCH_SM100A, SMALL_N, SMALL_K, 2, pairs[i].name);
    return _cmocka_run_group_tests("slices", tests, (size_t)slice_count, NULL, NULL);
}
