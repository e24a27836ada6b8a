/* Data that encodes its own index, on emulated ranks: every way in which tiles are cut into pieces, chunks and lanes, at every
 * depth of `drain.policy: lane_per_stage`. An address that depends on what it must not (on the lane that was elected, say)
 * brings elements to wrong places, and the message says from where. By default each kernel runs on one number of ranks under
 * one schedule; with FULL=1 on 2, 3, 4 and 8 ranks and under all four schedules. */
#include <inttypes.h>
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
#include "tests/index_pattern.h"
#include "tests/policies.h"
#include "tools/grsrun_trial.h"

enum { RINGS = 4, PAD = 8 };
static const int rings[RINGS] = {2, 3, 4, 8};
static const int64_t N = 136, K = 72;

struct moved {
    struct trial_kernel kernel;
    struct emu_group *group;
    struct index_pattern pattern;
    uint16_t *d[INDEX_DIGITS][GRS_MAX_TP];
};

static uint16_t *filled(struct emu_group *group, int rank, int64_t rows, int64_t columns, bool output) {
    uint16_t *words = emu_group_memory(group, rank, (size_t)(rows * (columns + PAD)), output);
    assert_non_null(words);
    for (int64_t w = 0; w < rows * (columns + PAD); w++)
        words[w] = values_poison((uint64_t)w);
    return words;
}

static void queue_launch(struct moved *m, int digit) {
    struct emu_operands operands[GRS_MAX_TP] = {0};
    struct index_pattern *p = &m->pattern;
    p->digit = digit;
    for (int rank = 0; rank < p->tp; rank++) {
        uint16_t *a = filled(m->group, rank, p->M, K, false), *b = filled(m->group, rank, N, K, false);
        for (int64_t k = 0; k < K; k++) {
            for (int64_t row = 0; row < p->M; row++)
                a[row * (K + PAD) + k] = values_to_bf16((float)index_a(p, rank, row, k));
            for (int64_t column = 0; column < N; column++)
                b[column * (K + PAD) + k] = values_to_bf16((float)index_b(p, column, k));
        }
        int64_t kept = plan_segment_rows_of(&m->kernel.plan, p->M, rank);
        m->d[digit][rank] = kept ? filled(m->group, rank, kept, N, true) : NULL;
        operands[rank] = (struct emu_operands){a, b, m->d[digit][rank], K + PAD, K + PAD, N + PAD};
    }
    grs_error err;
    if (emu_group_launch(m->group, m->kernel.kernel, &m->kernel.plan, p->M, operands, &err))
        fail_msg("%s", err.text);
}

/* The first element of an owner's D that is not where it belongs, in words; false: none. */
static bool find_moved(const struct moved *m, int owner, char *text, size_t size) {
    int64_t kept = plan_segment_rows_of(&m->kernel.plan, m->pattern.M, owner);
    for (int64_t row = 0; row < kept; row++)
        for (int64_t column = 0; column < N; column++) {
            float digits[INDEX_DIGITS];
            for (int i = 0; i < INDEX_DIGITS; i++)
                digits[i] = values_from_bf16(m->d[i][owner][row * (N + PAD) + column]);
            int64_t found = index_found(digits);
            if (found == row * N + column)
                continue;
            int length = snprintf(text, size, "owner %d: D[%" PRId64 ", %" PRId64 "] holds ", owner, row, column);
            if (found < 0)
                snprintf(text + length, size - (size_t)length, "%g and %g, no element's digits", (double)digits[0],
                         (double)digits[1]);
            else
                snprintf(text + length, size - (size_t)length, "what was made for [%" PRId64 ", %" PRId64 "]",
                         found / N, found % N);
            return true;
        }
    return false;
}

/* Launches one after another, so that buffers, chunks and bits go round between them. */
static void run(struct moved *m, int64_t M, int tp, enum emu_schedule schedule, uint64_t seed,
                struct emu_report *report) {
    const struct emu_group_options options = {
        .ranks = tp, .ctas = 2, .schedule = schedule, .seed = seed, .max_steps = UINT64_C(1) << 30};
    grs_error err;
    m->pattern = (struct index_pattern){.M = M, .N = N, .tp = tp};
    if (emu_group_open(&options, &m->group, &err))
        fail_msg("%s", err.text);
    for (int digit = 0; digit < INDEX_DIGITS; digit++)
        queue_launch(m, digit);
    emu_group_run(m->group, report);
}

static void make(const char *yaml, enum arch arch, int tp, const struct emu_header *changed, struct trial_kernel *out) {
    const struct plan_shape shape = {.m_min = 1, .m_max = 4096, .n = N, .k = K, .tp = tp};
    struct config *config = NULL;
    struct plan plan;
    struct buf text = {0};
    grs_error err;
    buf_printf(&text, "version: 1\n%s", yaml);
    if (config_parse("test.yaml", text.data, text.length, &config, &err) ||
        plan_solve(config, arch, &shape, &plan, &err) ||
        trial_kernel_build(&plan, changed, emu_kernel_directory(), out, &err))
        fail_msg("%s%s", yaml, err.text);
    config_free(config);
    buf_free(&text);
}

static bool is_full(void) {
    const char *full = getenv("FULL");
    return full && *full && *full != '0';
}

/* Which ring and schedule a kernel gets by default goes by its number, so that all come about. */
static void stays_in_place(const char *yaml, enum arch arch, int number) {
    static struct emu_report report; /* large */
    static const enum emu_schedule schedules[] = {EMU_SCHEDULE_ADVERSARIAL, EMU_SCHEDULE_LAZY, EMU_SCHEDULE_RANDOM,
                                                  EMU_SCHEDULE_EAGER};
    for (int r = 0; r < RINGS; r++) {
        if (!is_full() && r != number % RINGS)
            continue;
        struct moved m = {0};
        make(yaml, arch, rings[r], NULL, &m.kernel);
        for (int s = 0; s < 4; s++) {
            char text[160];
            if (!is_full() && s != number / RINGS % 2) /* adversarial or lazy */
                continue;
            run(&m, rings[r] * 66 - 5, rings[r], schedules[s], (uint64_t)number + 1, &report);
            if (report.verdict != EMU_PASSED)
                fail_msg("%s%s, tp %d, schedule %d: %s: %s", yaml, config_arch_name(arch), rings[r], (int)schedules[s],
                         emu_verdict_name(report.verdict), report.text);
            for (int owner = 0; owner < rings[r]; owner++)
                if (find_moved(&m, owner, text, sizeof text))
                    fail_msg("%s%s, tp %d, schedule %d: %s", yaml, config_arch_name(arch), rings[r], (int)schedules[s],
                             text);
            emu_group_close(m.group);
        }
        trial_kernel_free(&m.kernel);
    }
}

/* ---------------------------------------------------------------- what stays in place */

#define TILE(arch) ((arch) == ARCH_SM90A ? "tile: {m: 64, n: 64}\n" : "tile: {n: 64}\nstages: {load: 3}\n")

static void every_policy(void **state) {
    (void)state;
    for (int i = 0; i < POLICIES; i++)
        stays_in_place(policies[i].text, ARCH_SM90A, i);
}

/* A warp for each tile buffer. */
static void lanes_of_every_depth(void **state) {
    (void)state;
    for (int depth = 1; depth <= 8; depth++)
        for (int arch = ARCH_SM90A; arch <= ARCH_SM100A; arch++) {
            char yaml[160];
            snprintf(yaml, sizeof yaml, "%sring: {place: shared, depth: %d}\ndrain: {policy: lane_per_stage}\n",
                     TILE(arch), depth);
            stays_in_place(yaml, (enum arch)arch, depth + arch);
        }
}

/* A warp for each chunk: more chunks than a tile has pieces, fewer, and a piece that is cut short. */
static void lanes_of_every_count(void **state) {
    (void)state;
    static const int counts[] = {2, 3, 4, 5, 8, 9, 16}, bytes[] = {1024, 3072, 8192};
    for (int i = 0; i < 7; i++)
        for (int arch = ARCH_SM90A; arch <= ARCH_SM100A; arch++) {
            char yaml[200];
            snprintf(yaml, sizeof yaml,
                     "%sring: {depth: %d, chunk: {bytes: %d, count: %d}}\ndrain: {policy: lane_per_stage}\n",
                     TILE(arch), 1 + i % 3, counts[i] > 9 ? 1024 : bytes[i % 3], counts[i]);
            stays_in_place(yaml, (enum arch)arch, i + arch);
        }
}

/* With what else a tile passes through: two CTAs or two warpgroups that take turns, bits for several tiles, one order or the other. */
static void lanes_beside_other_policies(void **state) {
    (void)state;
    static const struct {
        enum arch arch;
        const char *text;
    } rows[] = {
        {ARCH_SM90A, "tile: {m: 64, n: 64, cluster: 2}\nring: {place: shared, depth: 5}\n"},
        {ARCH_SM90A, "tile: {m: 64, n: 64, cluster: 2}\nring: {chunk: {bytes: 2048, count: 3}}\norder: segment\n"},
        {ARCH_SM90A, "tile: {m: 64, n: 64, schedule: pingpong}\nring: {place: shared, depth: 3}\n"},
        {ARCH_SM90A, "tile: {m: 64, n: 64, schedule: pingpong}\nring: {chunk: {bytes: 1024, count: 4}}\n"},
        {ARCH_SM90A, "tile: {m: 128, n: 128}\nstages: {load: 2}\nring: {place: shared, depth: 4}\n"
                     "signal: {granularity: {group: 2}}\norder: segment\n"},
        {ARCH_SM90A, "tile: {m: 64, n: 64}\nring: {place: shared, depth: 4}\nsignal: {granularity: segment}\n"
                     "order: segment\n"},
        {ARCH_SM100A, "tile: {n: 64, cta_group: 2}\nring: {place: shared, depth: 4}\n"},
        {ARCH_SM100A, "tile: {n: 128, cta_group: 2}\nring: {chunk: {bytes: 4096, count: 3}}\n"},
        {ARCH_SM100A, "tile: {n: 64, cluster: 2}\nring: {chunk: {bytes: 1024, count: 5}}\n"
                      "signal: {granularity: {group: 3}}\norder: segment\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char yaml[320];
        snprintf(yaml, sizeof yaml, "%sdrain: {policy: lane_per_stage}\n", rows[i].text);
        stays_in_place(yaml, rows[i].arch, (int)i);
    }
}

/* ---------------------------------------------------------------- the check itself */

/* A 16-byte unit that lies one unit further, as an address with a lane's term puts it, is found, and where it came from. */
static void a_shift_is_named(void **state) {
    (void)state;
    static struct emu_report report;
    struct moved m = {0};
    char text[160];
    make(policies[0].text, ARCH_SM90A, 2, NULL, &m.kernel);
    run(&m, 100, 2, EMU_SCHEDULE_RANDOM, 1, &report);
    assert_int_equal(report.verdict, EMU_PASSED);
    assert_false(find_moved(&m, 1, text, sizeof text));
    int64_t unit = 13 * (N + PAD) + 40;
    for (int digit = 0; digit < INDEX_DIGITS; digit++)
        memcpy(&m.d[digit][1][unit + 8], &m.d[digit][1][unit], 16);
    assert_true(find_moved(&m, 1, text, sizeof text));
    assert_string_equal(text, "owner 1: D[13, 48] holds what was made for [13, 40]");
    m.d[1][1][0] = 0; /* nothing came */
    assert_true(find_moved(&m, 1, text, sizeof text));
    assert_string_equal(text, "owner 1: D[0, 0] holds 1 and 0, no element's digits");
    emu_group_close(m.group);
    trial_kernel_free(&m.kernel);
}

/* The same planted in the kernel: two chunks of 16 rows change places on their way. Nothing else in the emulator can object. */
static void a_misplaced_chunk_is_named(void **state) {
    (void)state;
    static struct emu_report report;
    static const char right[] = "bulk_store(slot + leaving.offset()",
                      wrong[] = "bulk_store(slot + (leaving.offset() ^ 2048)";
    const char *ring = NULL;
    for (int i = 0; emit_headers[i].name; i++)
        if (!strcmp(emit_headers[i].name, "grs/ring.cuh"))
            ring = emit_headers[i].text;
    assert_non_null(ring);
    const char *at = strstr(ring, right);
    assert_non_null(at);
    struct buf text = {0};
    buf_append(&text, ring, (size_t)(at - ring));
    buf_printf(&text, "%s%s", wrong, at + strlen(right));
    const struct emu_header changed[] = {{"grs/ring.cuh", text.data}, {NULL, NULL}};
    static const char *const drains[] = {"", "drain: {policy: lane_per_stage}\n"};
    for (int i = 0; i < 2; i++) {
        struct moved m = {0};
        char yaml[160], found[160];
        snprintf(yaml, sizeof yaml, "tile: {m: 64, n: 64}\nring: {chunk: {bytes: 2048, count: 2}}\n%s", drains[i]);
        make(yaml, ARCH_SM90A, 2, changed, &m.kernel);
        run(&m, 128, 2, EMU_SCHEDULE_RANDOM, 1, &report); /* segments of 64 rows: all chunks are whole */
        assert_int_equal(report.verdict, EMU_PASSED);
        assert_true(find_moved(&m, 0, found, sizeof found));
        assert_string_equal(found, "owner 0: D[0, 0] holds what was made for [16, 0]");
        emu_group_close(m.group);
        trial_kernel_free(&m.kernel);
    }
    buf_free(&text);
}

int main(void) {
    EMU_RETURN_IF_UNWATCHABLE();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy),         cmocka_unit_test(lanes_of_every_depth),
        cmocka_unit_test(lanes_of_every_count), cmocka_unit_test(lanes_beside_other_policies),
        cmocka_unit_test(a_shift_is_named),     cmocka_unit_test(a_misplaced_chunk_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
