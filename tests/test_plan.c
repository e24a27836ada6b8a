/* The planner: every refusal with its exact text, the map of shared memory, registers, counts, classes of M, memory and
 * limits. Numbers that the planner chooses freely are not tested here; those that follow from a config are. */
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
#include "generator/machine.h"
#include "generator/plan.h"

#define SHARED_LIMIT 232448 /* 227 KB */

static struct config *parse(const char *text) {
    struct config *config = NULL;
    grs_error err = {0};
    struct buf whole = {0};
    buf_printf(&whole, "version: 1\n%s", text);
    if (config_parse("t.yaml", whole.data, whole.length, &config, &err) != GRS_OK)
        fail_msg("%s", err.text);
    buf_free(&whole);
    return config;
}

static const struct plan_shape any = {.m_min = 1, .m_max = INT32_MAX, .n = 4096, .k = 2048, .tp = 4};

static struct plan solve(const char *text, const struct plan_shape *shape) {
    struct config *config = parse(text);
    struct plan plan;
    grs_error err = {0};
    if (plan_solve(config, ARCH_SM90A, shape, &plan, &err) != GRS_OK)
        fail_msg("%s: %s", text, err.text);
    config_free(config);
    return plan;
}

/* ---------------------------------------------------------------- refusals */

struct refusal {
    const char *yaml; /* from its second line */
    enum arch arch;
    struct plan_shape shape;
    grs_status status;
    const char *text;
};

#define ANY                                                                                                            \
    { 1, INT32_MAX, 4096, 2048, 4 }

static const struct refusal refusals[] = {
    /* shapes */
    {"", ARCH_SM90A, {0, 8, 64, 64, 1}, GRS_ERR_ARGUMENT, "M: 0; allowed: at least 1"},
    {"", ARCH_SM90A, {9, 8, 64, 64, 1}, GRS_ERR_ARGUMENT, "M: 9 to 8; allowed: ascending"},
    {"",
     ARCH_SM90A,
     {1, 8, 4095, 64, 1},
     GRS_ERR_ARGUMENT,
     "N: 4095; allowed: multiples of 8 from 8 to 2147483128 (rows are aligned to 16 bytes); nearest: 4096"},
    {"",
     ARCH_SM90A,
     {1, 8, 4091, 64, 1},
     GRS_ERR_ARGUMENT,
     "N: 4091; allowed: multiples of 8 from 8 to 2147483128 (rows are aligned to 16 bytes); nearest: 4088"},
    {"",
     ARCH_SM90A,
     {1, 8, 64, 4, 1},
     GRS_ERR_ARGUMENT,
     "K: 4; allowed: multiples of 8 from 8 to 2147483128 (rows are aligned to 16 bytes); nearest: 8"},
    {"",
     ARCH_SM90A,
     {1, 8, 64, 2147483136, 1},
     GRS_ERR_ARGUMENT,
     "K: 2147483136; allowed: multiples of 8 from 8 to 2147483128 (rows are aligned to 16 bytes); nearest: "
     "2147483128"},
    {"",
     ARCH_SM90A,
     {1, 8, -8, 64, 1},
     GRS_ERR_ARGUMENT,
     "N: -8; allowed: multiples of 8 from 8 to 2147483128 (rows are aligned to 16 bytes); nearest: 8"},
    {"", ARCH_SM90A, {1, 8, 64, 64, 0}, GRS_ERR_ARGUMENT, "tp: 0; allowed: 1 to 64"},
    {"", ARCH_SM90A, {1, 8, 64, 64, 65}, GRS_ERR_ARGUMENT, "tp: 65; allowed: 1 to 64"},
    {"tile: {m: 128, n: 256}\n",
     ARCH_SM90A,
     {INT32_MAX, INT32_MAX, 4096, 64, 2},
     GRS_ERR_PLAN,
     "M: 2147483647 rows with N = 4096 are more than positions and coordinates can number; allowed: up to 2147483389"},
    {"tile: {m: 128, n: 64}\n",
     ARCH_SM90A,
     {1, 1, 2147483128, 64, 64},
     GRS_ERR_PLAN,
     "N: 2147483128 columns over 64 segments make more than the 1073741824 tiles that positions can number"},

    /* shared memory */
    {"tile: {m: 128, n: 256}\nstages: {load: 4}\nring: {depth: 4, chunk: {bytes: 8192, count: 2}}\n", ARCH_SM90A, ANY,
     GRS_ERR_PLAN,
     "t.yaml:3:16: stages.load: 4 stages of 49152 bytes, 1 tile buffer of 65536 and 2 chunks of 8192 need 279552 bytes "
     "of shared memory, sm_90a has 232448; allowed: at most 3 stages"},
    {"tile: {m: 64, n: 64}\nstages: {load: 12}\nring: {depth: 1, chunk: {bytes: 4096, count: 8}}\n", ARCH_SM90A, ANY,
     GRS_ERR_PLAN,
     "t.yaml:3:16: stages.load: 12 stages of 16384 bytes, 1 tile buffer of 8192 and 8 chunks of 4096 need 238592 bytes "
     "of shared memory, sm_90a has 232448; allowed: at most 11 stages"},
    {"tile: {m: 128, n: 256}\nring: {chunk: {bytes: 65536, count: 2}}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:23: ring.chunk.bytes: 2 stages of 49152 bytes, 1 tile buffer of 65536 and 2 chunks of 65536 need 295936 "
     "bytes of shared memory, sm_90a has 232448; allowed: fewer or smaller chunks, or a smaller tile"},
    {"tile: {m: 128, n: 256}\nring: {chunk: {bytes: 8192, count: 16}}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:23: ring.chunk.bytes: 2 stages of 49152 bytes, 1 tile buffer of 65536 and 16 chunks of 8192 need 295936 "
     "bytes of shared memory, sm_90a has 232448; allowed: fewer or smaller chunks, or a smaller tile"},
    {"tile: {m: 128, n: 256}\nring: {depth: 4, place: shared}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:15: ring.depth: 2 stages of 49152 bytes, 4 tile buffers of 65536 and 1 chunk of 1024 need 362496 bytes "
     "of shared memory, sm_90a has 232448; allowed: at most 2, or a smaller tile"},

    /* registers: reached where another arch of the config makes the tile legal */
    {"arch: [sm_90a, sm_100a]\ntile: {m: 256, n: 256, cta_group: 2}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:19: tile.n: 256 columns need 154 registers a thread (128 accumulators and 26 more); 640 threads share "
     "the 65536 of an SM, 96 each and 104 for these; allowed: at most 128 columns with tile.m 256"},

    {"tile: {n: 256}\nstages: {accum: 3}\n", ARCH_SM100A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:17: stages.accum: 3 accumulators of 256 columns need 768 columns of tensor memory; sm_100a has 512; "
     "allowed: at most 2 with tile.n 256"},

    /* not built */
    {"tile: {k: 32}\n", ARCH_SM90A, ANY, GRS_ERR_UNSUPPORTED,
     "t.yaml:2:11: tile.k: 32 is not built yet for sm_90a: rows of 64 bytes need another swizzle; allowed: 64"},
    {"tile: {k: 128}\n", ARCH_SM90A, ANY, GRS_ERR_UNSUPPORTED,
     "t.yaml:2:11: tile.k: 128 is not built yet for sm_90a: a box in the 128-byte swizzle is 64 columns wide; "
     "allowed: 64"},
    {"arch: [sm_90a, sm_100a]\ntile: {m: 256, n: 128, cta_group: 2}\n", ARCH_SM90A, ANY, GRS_ERR_UNSUPPORTED,
     "t.yaml:3:11: tile.m: 256 is not built yet for sm_90a: four math warpgroups and the roles are 640 threads; "
     "allowed: 64 or 128"},
    {"tile: {k: 128}\n", ARCH_SM100A, ANY, GRS_ERR_UNSUPPORTED,
     "t.yaml:2:11: tile.k: 128 is not built yet for sm_100a: a box in the 128-byte swizzle is 64 columns wide; "
     "allowed: 64"},
    {"tile: {m: 64}\n", ARCH_SM100A, ANY, GRS_ERR_UNSUPPORTED,
     "t.yaml:2:11: tile.m: 64 is not built yet for sm_100a: 64 rows leave half of the lanes of tensor memory unused; "
     "allowed: 128"},
    {"tile: {schedule: pingpong, n: 256}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:31: tile.n: 256 columns need 308 registers a thread (256 accumulators and 52 more); 384 threads share "
     "the 65536 of an SM, 168 each and 224 for these; allowed: at most 168 columns with tile.m 128"},

    {"arch: [sm_100a]\ntile: {m: 256, cta_group: 2}\n", ARCH_SM100A, ANY, GRS_ERR_UNSUPPORTED,
     "t.yaml:3:11: tile.m: 256 is not built yet for sm_100a: each CTA, of a pair too, finishes a row in each lane of "
     "its "
     "tensor memory; allowed: 128"},

    /* keys and policies that exclude one another */
    {"tile: {cta_group: 2, cluster: 1}\n", ARCH_SM100A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:31: tile.cluster: 1 with tile.cta_group 2: the CTAs of a group are a cluster; allowed: 2"},
    {"tile: {cta_group: 2}\nsms: 73\n", ARCH_SM100A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:6: sms: 73 is no multiple of tile.cluster 2; allowed: all or a multiple, such as 74"},
    {"tile: {cta_group: 2}\n", ARCH_SM90A, ANY, GRS_ERR_CONFIG,
     "t.yaml:2:19: tile.cta_group: sm_90a has no such key; allowed: with sm_100a, sm_100f, sm_103a"},
    {"stages: {accum: 2}\n", ARCH_SM90A, ANY, GRS_ERR_CONFIG,
     "t.yaml:2:17: stages.accum: sm_90a has no such key; allowed: with sm_100a, sm_100f, sm_103a"},
    {"tile: {schedule: cooperative}\n", ARCH_SM100A, ANY, GRS_ERR_CONFIG,
     "t.yaml:2:18: tile.schedule: sm_100a has no such key; allowed: with sm_90a"},
    {"tile: {m: 64, n: 256}\nring: {depth: 7, place: shared}\ndrain: {policy: lane_per_stage}\n", ARCH_SM90A, ANY,
     GRS_ERR_PLAN,
     "t.yaml:2:18: tile.n: 256 columns need 154 registers a thread (128 accumulators and 26 more); 512 threads "
     "(lane_per_stage has 5 in warps beside the first four) share the 65536 of an SM, 128 each and 240 for these; "
     "allowed: at most 192 columns with tile.m 64, or ring.depth of at most 6"},
    {"tile: {n: 256}\nstages: {load: 2}\ndrain: {policy: lane_per_stage}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:11: tile.n: 256 columns need 154 registers a thread (128 accumulators and 26 more); 512 threads "
     "(lane_per_stage has 3 in warps beside the first four) share the 65536 of an SM, 128 each and 176 for these; "
     "allowed: at most 192 columns with tile.m 128, or another drain.policy"},
    {"tile: {n: 128}\nring: {chunk: {bytes: 1024, count: 16}}\ndrain: {policy: lane_per_stage}\n", ARCH_SM90A, ANY,
     GRS_ERR_PLAN,
     "t.yaml:2:11: tile.n: 128 columns need 90 registers a thread (64 accumulators and 26 more); 896 threads "
     "(lane_per_stage has 15 in warps beside the first four) share the 65536 of an SM, 72 each and 72 for these; "
     "allowed: at most 64 columns with tile.m 128, or ring.chunk.count of at most 9"},
    {"tile: {m: 128, n: 64, schedule: pingpong}\nring: {chunk: {bytes: 1024, count: 16}}\n"
     "drain: {policy: lane_per_stage}\n",
     ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:19: tile.n: 64 columns need 116 registers a thread (64 accumulators and 52 more); 896 threads "
     "(lane_per_stage has 15 in warps beside the first four) share the 65536 of an SM, 72 each and 72 for these; "
     "allowed: a smaller tile.m, or ring.chunk.count of at most 9"},
    {"drain: {policy: per_tile, flush: never}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:34: drain.flush: never with drain.policy per_tile, which waits for every store; allowed: owner_boundary "
     "or per_tile"},
    {"drain: {policy: lane_per_stage, flush: per_tile}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:40: drain.flush: per_tile with drain.policy lane_per_stage, whose threads wait for their own stores "
     "alone; allowed: owner_boundary, never, or drain.policy per_tile"},
    {"ring: {depth: 4}\ndrain: {flush: never}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:16: drain.flush: never asks for 4 stores in flight, and the sender of ring.place global has one tile in "
     "flight at a time; allowed: owner_boundary, per_tile, or ring.place shared"},
    {"ring: {chunk: {bytes: 8192, count: 1}}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:36: ring.chunk.count: 1 leaves no chunk to load while one is sent; allowed: 2 to 16"},
    {"sms: 33\ntile: {cluster: 2}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:2:6: sms: 33 is no multiple of tile.cluster 2; allowed: all or a multiple, such as 34"},

    /* the wait graph */
    {"tile: {m: 128, n: 256}\nsignal: {granularity: segment}\norder: {interleave: 2}\n", ARCH_SM90A, ANY, GRS_ERR_PLAN,
     "t.yaml:3:23: signal.granularity: segment with order.interleave 2: "},
    {"tile: {m: 128, n: 256}\nsignal: {granularity: {group: 16}}\norder: {interleave: 2}\n", ARCH_SM90A, ANY,
     GRS_ERR_PLAN, "t.yaml:3:23: signal.granularity: {group: 16} with order.interleave 2: "},
    {"tile: {m: 64, n: 128}\nring: {depth: 2, place: shared}\ndrain: {policy: ring, flush: never}\n", ARCH_SM90A, ANY,
     GRS_ERR_PLAN, "t.yaml:4:30: drain.flush: never with ring.depth 2, ring.place shared and order: interleave "},
};

/* Texts that end with a space are the beginning of a longer one: the wait graph's, which its own test holds whole. */
static void refusals_name_key_and_number(void **state) {
    (void)state;
    int different = 0;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *row = &refusals[i];
        struct config *config = parse(row->yaml);
        struct plan plan;
        memset(&plan, 0x5a, sizeof plan);
        grs_error err = {0};
        grs_status status = plan_solve(config, row->arch, &row->shape, &plan, &err);
        size_t length = strlen(row->text);
        bool begins = row->text[length - 1] == ' ';
        if (status != row->status || err.status != status || strncmp(err.text, row->text, length) ||
            (!begins && err.text[length])) {
            print_error("%s\ngives %s:\n%s\nwanted %s:\n%s\n", row->yaml, grs_status_name(status), err.text,
                        grs_status_name(row->status), row->text);
            different++;
        }
        int line = 0, column = 0;
        if (sscanf(row->text, "t.yaml:%d:%d:", &line, &column) == 2) {
            assert_int_equal(err.line, line);
            assert_int_equal(err.column, column);
        } else {
            assert_int_equal(err.line, 0);
        }
        assert_int_equal(plan_solve(config, row->arch, &row->shape, &plan, NULL), row->status);
        for (size_t b = 0; b < sizeof plan; b++) /* untouched on failure */
            assert_int_equal(((unsigned char *)&plan)[b], 0x5a);
        config_free(config);
    }
    assert_int_equal(different, 0);
}

/* Keys of an arch that the config asks for as well are no mistake when the other one is planned. */
static void keys_of_a_listed_arch_are_passed_over(void **state) {
    (void)state;
    struct plan without = solve("tile: {m: 128}\n", &any);
    struct plan plan = solve("arch: [sm_90a, sm_100a]\ntile: {m: 128, cta_group: 2}\nstages: {accum: 4}\n", &any);
    static const enum field passed_over[] = {FIELD_CTA_GROUP, FIELD_STAGES_ACCUM};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(plan.value[passed_over[i]], without.value[passed_over[i]]);
        assert_int_equal(plan.origin[passed_over[i]], ORIGIN_PLANNER);
    }
    assert_int_equal(plan.origin[FIELD_TILE_M], ORIGIN_CONFIG);
}

/* ---------------------------------------------------------------- shared memory and registers */

/* Bytes by the definition of the map, apart from barriers and control words, which the template counts (and asserts). */
static int64_t bulk_bytes(const struct plan *plan) {
    const int64_t *v = plan->value;
    int64_t rows = v[FIELD_TILE_M] + v[FIELD_TILE_N] / v[FIELD_CTA_GROUP]; /* of A, and of B's half in a CTA pair */
    return v[FIELD_STAGES_LOAD] * rows * v[FIELD_TILE_K] * 2 +
           plan->tile_buffers * v[FIELD_TILE_M] * v[FIELD_TILE_N] * 2 + v[FIELD_CHUNK_COUNT] * v[FIELD_CHUNK_BYTES];
}

static void check_map(const struct plan *plan) {
    int64_t end = 0;
    assert_true(plan->region_count >= 4 && plan->region_count <= PLAN_MAX_REGIONS);
    for (int i = 0; i < plan->region_count; i++) {
        const struct plan_region *region = &plan->region[i];
        bool swizzled = i < 3; /* stages, tile buffers, chunks: the copy engine's 128-byte swizzle repeats every KiB */
        assert_int_equal(region->offset % (swizzled ? 1024 : 8), 0);
        assert_true(region->offset >= end && region->offset - end < 1024);
        assert_true(region->bytes > 0);
        assert_int_equal(region->bytes % region->count, 0);
        assert_non_null(region->name);
        assert_non_null(region->what);
        end = region->offset + region->bytes;
    }
    assert_true(plan->shared_bytes >= end && plan->shared_bytes - end < 1024);
    assert_int_equal(plan->shared_bytes % 1024, 0);
    assert_true(plan->shared_bytes <= SHARED_LIMIT);
    assert_int_equal(plan->region[3].offset, bulk_bytes(plan));
}

/* Accepted with a proper map, or refused because it does not fit. */
static bool fits(enum arch arch, int m, int n, int stages, int depth, bool shared) {
    char text[256];
    snprintf(text, sizeof text, "tile: {m: %d, n: %d}\nstages: {load: %d}\nring: {depth: %d, place: %s}\n", m, n,
             stages, depth, shared ? "shared" : "global, chunk: {bytes: 3072, count: 3}");
    struct config *config = parse(text);
    struct plan plan;
    grs_error err = {0};
    grs_status status = plan_solve(config, arch, &any, &plan, &err);
    config_free(config);
    if (status == GRS_OK) {
        check_map(&plan);
        assert_int_equal(plan.value[FIELD_STAGES_LOAD], stages);
        return true;
    }
    int64_t least = stages * (m + n) * 128 + (shared ? depth * m * n * 2 + 1024 : m * n * 2 + 9216);
    assert_int_equal(status, GRS_ERR_PLAN);
    assert_true(least + 1024 > SHARED_LIMIT); /* barriers and control words take less than 1 KiB */
    return false;
}

static void maps_are_packed_and_fit(void **state) {
    (void)state;
    int accepted = 0, refused = 0;
    for (int arch = 0; arch < ARCH_COUNT; arch++)
        for (int m = config_arch_family((enum arch)arch) == ARCH_SM100A ? 128 : 64; m <= 128; m += 64)
            for (int n = 64; n <= 256; n += 64)
                for (int stages = 2; stages <= 12; stages++)
                    for (int depth = 1; depth <= 8; depth++)
                        for (int shared = 0; shared <= 1; shared++)
                            fits((enum arch)arch, m, n, stages, depth, shared) ? accepted++ : refused++;
    assert_true(accepted > 500 && refused > 500);
}

/* The stage count that a refusal offers is accepted, and one more is not. */
static void the_offered_stage_count_is_the_largest(void **state) {
    (void)state;
    for (int n = 64; n <= 256; n += 64) {
        char text[128];
        struct plan plan;
        grs_error err = {0};
        snprintf(text, sizeof text, "tile: {m: 128, n: %d}\nstages: {load: 12}\n", n);
        struct config *config = parse(text);
        assert_int_equal(plan_solve(config, ARCH_SM90A, &any, &plan, &err), GRS_ERR_PLAN);
        const char *offer = strstr(err.text, "at most ");
        assert_non_null(offer);
        config->value[FIELD_STAGES_LOAD] = atoi(offer + 8);
        assert_int_equal(plan_solve(config, ARCH_SM90A, &any, &plan, &err), GRS_OK);
        config->value[FIELD_STAGES_LOAD]++;
        assert_int_equal(plan_solve(config, ARCH_SM90A, &any, &plan, &err), GRS_ERR_PLAN);
        config_free(config);
    }
}

static void registers_are_dealt_within_the_pool(void **state) {
    (void)state;
    struct plan wide = solve("tile: {m: 128, n: 256}\n", &any), low = solve("tile: {m: 64, n: 256}\n", &any);
    assert_int_equal(wide.threads, 384);
    assert_int_equal(wide.registers_launch, 168);
    assert_int_equal(wide.consumer_warpgroups, 2);
    assert_int_equal(low.threads, 256);
    assert_int_equal(low.consumer_warpgroups, 1);
    const struct plan *plans[] = {&wide, &low};
    for (int i = 0; i < 2; i++) {
        const struct plan *plan = plans[i];
        int math = 128 * plan->consumer_warpgroups;
        assert_true(plan->registers_launch * plan->threads <= 65536 && plan->registers_launch <= 255);
        assert_true(128 * plan->registers_producer + math * plan->registers_consumer <=
                    plan->registers_launch * plan->threads);
        /* what setmaxnreg takes */
        const int dealt[] = {plan->registers_producer, plan->registers_consumer};
        for (int r = 0; r < 2; r++)
            assert_true(dealt[r] % 8 == 0 && dealt[r] >= 24 && dealt[r] <= 256);
        assert_true(plan->registers_consumer >= 128 + 26); /* accumulators of 256 columns and the rest */
    }
}

/* drain.policy: lane_per_stage: a thread for each place that a store leaves from, in whole warpgroups beside the others where
 * setmaxnreg shares registers out, at every depth and count that memory allows. */
static void lanes_get_warps_and_registers(void **state) {
    (void)state;
    static const enum arch archs[] = {ARCH_SM90A, ARCH_SM100A};
    int deepest = 0;
    for (int a = 0; a < 2; a++)
        for (int shared = 0; shared <= 1; shared++)
            for (int lanes = shared ? 1 : 2; lanes <= (shared ? 8 : 16); lanes++)
                for (int counts = 0; counts <= 1; counts++) {
                    char text[160], place[64];
                    snprintf(place, sizeof place,
                             shared ? "depth: %d, place: shared" : "chunk: {bytes: 1024, count: %d}", lanes);
                    snprintf(text, sizeof text, "tile: {m: 128, n: 64}\nring: {%s}\ndrain: {policy: lane_per_stage}\n",
                             place);
                    struct config *config = parse(text);
                    struct plan plan;
                    grs_error err = {0};
                    if (plan_solve(config, archs[a], &any, &plan, &err) != GRS_OK)
                        fail_msg("%s%s", text, err.text);
                    config_free(config);
                    plan_add_hooks(&plan, counts, false, false);
                    int beside = lanes - (shared ? 2 : 1), math = 128 * plan.consumer_warpgroups;
                    beside = beside < 0 ? 0 : a == 0 ? (beside + 3) / 4 * 4 : beside;
                    assert_int_equal(plan.ship_lanes, lanes);
                    assert_int_equal(plan.threads, 128 + math + (a == 0 ? 0 : 32) + 32 * beside);
                    assert_true(plan.threads <= 1024);
                    assert_true(plan.registers_launch * plan.threads <= 65536);
                    assert_true(plan.registers_producer >= 64 && plan.registers_producer % 8 == 0);
                    if (a == 0) {
                        assert_true((plan.threads - math) * plan.registers_producer + math * plan.registers_consumer <=
                                    plan.registers_launch * plan.threads);
                        assert_true(plan.registers_producer <= plan.registers_launch &&
                                    plan.registers_launch <= plan.registers_consumer);
                        assert_true(plan.registers_launch >= 32 + 26);
                    }
                    deepest = plan.threads > deepest ? plan.threads : deepest;
                }
    assert_int_equal(deepest, 896);
}

/* The first tile in halves: B comes in boxes of a half. What the planner believes of the machine does not matter. */
static void first_tile_in_halves(void **state) {
    (void)state;
    static const char wide[] = "ring: {place: global}\ntile: {m: 128, n: 256}\n";
    static const struct {
        const char *more;
        int64_t k;
        int tp;
        bool halves;
    } rows[] = {{"", 1024, 2, true},
                {"", 1528, 8, true},
                {"link_gbps: 100000\nsms: 8\n", 1024, 2, true},
                {"", 1536, 2, false},
                {"link_gbps: 1\n", 1536, 2, false},
                {"", 1024, 1, false},
                {"tile: {m: 64, n: 256}\nring: {place: global}\n", 1024, 2, false},
                {"tile: {m: 128, n: 192}\nring: {place: global}\n", 1024, 2, false},
                {"tile: {m: 128, n: 256, cluster: 2}\nring: {place: global}\n", 1024, 2, false},
                {"tile: {m: 128, n: 256}\nring: {place: shared, depth: 1}\n", 1024, 2, false},
                {"tile: {m: 128, n: 128, schedule: pingpong}\nring: {place: global}\n", 1024, 2, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        struct plan_shape shape = {.m_min = 1, .m_max = INT32_MAX, .n = 8192, .k = rows[i].k, .tp = rows[i].tp};
        snprintf(text, sizeof text, "%s%s", strstr(rows[i].more, "tile:") ? "" : wide, rows[i].more);
        struct plan plan = solve(text, &shape);
        struct plan_boxes box;
        plan_boxes(&plan, &box);
        assert_int_equal(plan_halves_first(&plan), rows[i].halves);
        assert_int_equal(box.b[1] * plan.value[FIELD_CLUSTER] * (rows[i].halves ? 2 : 1), plan.value[FIELD_TILE_N]);
    }
}

/* The copy engine: at most 256 elements a side, 128 bytes in the swizzle, whole groups of eight rows. */
static void boxes_are_within_the_copy_engine(void **state) {
    (void)state;
    for (int m = 64; m <= 128; m += 64)
        for (int n = 64; n <= 256; n += 64)
            for (int cluster = 1; cluster <= 2; cluster++) {
                char text[128];
                struct plan_boxes box;
                snprintf(text, sizeof text, "tile: {m: %d, n: %d, cluster: %d}\n", m, n, cluster);
                struct plan plan = solve(text, &any);
                plan_boxes(&plan, &box);
                const int *boxes[] = {box.a, box.b, box.d};
                for (int i = 0; i < 3; i++) {
                    assert_int_equal(boxes[i][0] * 2, 128);
                    assert_true(boxes[i][1] >= 8 && boxes[i][1] <= 256 && boxes[i][1] % 8 == 0);
                }
                assert_int_equal(box.a[1], m);
                assert_int_equal(box.b[1] * cluster, n);
                assert_int_equal(box.d[1], m);
                assert_int_equal((box.a[0] * box.a[1] + cluster * box.b[0] * box.b[1]) * 2, plan.stage_bytes);
            }
}

/* ---------------------------------------------------------------- counts, memory, limits */

static void segments_share_the_rows(void **state) {
    (void)state;
    static const int tps[] = {1, 2, 3, 4, 8, 64};
    for (size_t t = 0; t < sizeof tps / sizeof *tps; t++)
        for (int cluster = 1; cluster <= 2; cluster++) {
            char text[64];
            struct plan_shape shape = {1, INT32_MAX, 136, 72, tps[t]};
            snprintf(text, sizeof text, "tile: {m: 64, n: 64, cluster: %d}\n", cluster);
            struct plan plan = solve(text, &shape);
            for (int64_t M = 1; M < 2000; M += M < 300 ? 1 : 83) {
                struct plan_tiles tiles;
                int64_t rows = 0, total = 0, most = 0, c = (M + tps[t] - 1) / tps[t];
                plan_tiles_of(&plan, M, &tiles);
                assert_int_equal(tiles.segment_rows, c);
                assert_int_equal(tiles.tiles_n, 3);
                for (int owner = 0; owner < tps[t]; owner++) {
                    int64_t kept = plan_segment_rows_of(&plan, M, owner);
                    int64_t here = (kept + 64 * cluster - 1) / (64 * cluster) * cluster * 3;
                    assert_true(kept >= 0 && kept <= c);
                    assert_true(kept == 0 || owner * c + kept <= M);
                    assert_int_equal(plan_segment_tiles_of(&plan, M, owner), here);
                    rows += kept;
                    total += here;
                    most = here > most ? here : most;
                }
                assert_int_equal(rows, M);
                assert_int_equal(tiles.total, total);
                assert_int_equal(tiles.max_tiles, most);
                assert_int_equal(plan_link_bytes(&plan, M), (M - plan_segment_rows_of(&plan, M, 0)) * 136 * 2);
            }
        }
}

static void memory_of_a_rank(void **state) {
    (void)state;
    struct plan_memory memory;
    struct plan plan = solve("tile: {m: 128, n: 256}\nring: {depth: 4}\n", &any);
    plan_memory_of(&plan, 8192, 132, &memory);
    assert_int_equal(memory.slots, 3 * 256 * 65536);
    assert_int_equal(memory.mask, 3 * 256 / 8);
    assert_int_equal(memory.outbox, 132 * 4 * 65536);
    assert_int_equal(memory.groups, 0);
    assert_int_equal(memory.control, sizeof(grs_control));
    assert_int_equal(memory.total, memory.slots + memory.mask + memory.outbox + memory.control);

    plan = solve("tile: {m: 128, n: 256}\nsignal: {granularity: {group: 7}}\norder: segment\n", &any);
    plan_memory_of(&plan, 8192, 132, &memory);
    assert_int_equal(plan_bits_of(&plan, 8192), 3 * 37);
    assert_int_equal(memory.mask, 16);
    assert_int_equal(memory.groups, 3 * 37 * 4);

    plan = solve("tile: {m: 128, n: 256}\nsignal: {granularity: segment}\norder: segment\n", &any);
    assert_int_equal(plan_bits_of(&plan, 8192), 3);

    plan = solve("tile: {m: 128, n: 256}\nring: {depth: 2, place: shared}\n", &any);
    plan_memory_of(&plan, 8192, 132, &memory);
    assert_int_equal(memory.outbox, 0);

    struct plan_shape alone = any;
    alone.tp = 1;
    plan = solve("tile: {m: 128, n: 256}\n", &alone);
    plan_memory_of(&plan, 8192, 132, &memory);
    assert_int_equal(memory.total, sizeof(grs_control));
    assert_int_equal(plan_bits_of(&plan, 8192), 0);
    assert_int_equal(plan_link_bytes(&plan, 8192), 0);

    /* Eight ranks, nine rows: five of them keep two or one, three none. Slots are by the largest segment. */
    struct plan_shape few = {1, INT32_MAX, 136, 72, 8};
    plan = solve("tile: {m: 64, n: 64}\n", &few);
    plan_memory_of(&plan, 9, 1, &memory);
    assert_int_equal(memory.slots, 7 * 3 * 64 * 64 * 2);
    assert_int_equal(plan_link_bytes(&plan, 9), 7 * 136 * 2);
}

/* Memory for a larger M serves every smaller one: prepare reserves by max_M. */
static void memory_never_shrinks_with_m(void **state) {
    (void)state;
    struct plan plan = solve("tile: {m: 64, n: 64}\nsignal: {granularity: {group: 3}}\norder: segment\n", &any);
    struct plan_memory last = {0}, memory;
    for (int64_t M = 1; M < 3000; M++, last = memory) {
        plan_memory_of(&plan, M, 8, &memory);
        assert_true(memory.slots >= last.slots && memory.mask >= last.mask && memory.groups >= last.groups);
        assert_true(plan_bits_of(&plan, M) <= memory.mask * 8);
    }
}

static void estimates_scale_with_sms_and_link(void **state) {
    (void)state;
    const struct machine *machine = machine_of(ARCH_SM90A);
    struct plan_estimate all, half;
    struct plan plan = solve("link_gbps: 400\n", &any);
    plan_estimate(&plan, 8192, &all);
    assert_true(all.flops == 2.0 * 8192 * 4096 * 2048);
    assert_true(all.link_us > 125.82 && all.link_us < 125.84); /* 6144 rows x 4096 x 2 bytes / 400 GB/s */
    double gemm = all.flops / (machine->tflops * 1e6);
    assert_true(all.gemm_us > gemm * 0.999 && all.gemm_us < gemm * 1.001);
    assert_true(all.limit_us == (all.gemm_us > all.link_us ? all.gemm_us : all.link_us));
    plan = solve("sms: 66\nlink_gbps: 10\n", &any);
    plan_estimate(&plan, 8192, &half);
    assert_true(half.gemm_us > gemm * 1.999 && half.gemm_us < gemm * 2.001);
    assert_true(half.limit_us == half.link_us);
    assert_int_equal(plan.max_grid, 66);
}

/* Never slower than an even share of the link; of as many CTAs as can send; none for older kernels and for one rank. */
static void sends_are_paced_by_the_share_of_the_link(void **state) {
    (void)state;
    struct plan_shape alone = any;
    alone.tp = 1;
    struct plan plan = solve("link_gbps: 400\n", &any), shared = solve("link_gbps: 400\nring: {place: shared}\n", &any),
                older = solve("ring: {place: shared}\ndrain: {policy: per_tile}\n", &any), one = solve("", &alone),
                slow = solve("link_gbps: 1\n", &any);
    const int64_t large = 1 << 20;
    for (int grid = 1; grid <= 256; grid++) {
        uint32_t pace = plan_send_pace(&plan, large, grid); /* picoseconds a byte; 400 bytes a nanosecond for all */
        assert_true(pace * 400 <= (uint32_t)grid * 1000 && (pace + 1) * 400 * 2 > (uint32_t)grid * 1000);
        assert_in_range(plan_send_pace(&shared, large, grid), pace * 9 / 10, pace);
    }
    struct plan_tiles tiles;
    plan_tiles_of(&plan, 1, &tiles);
    assert_true(tiles.max_tiles < 132);
    assert_int_equal(plan_send_pace(&plan, 1, 132), plan_send_pace(&plan, large, (int)tiles.max_tiles));
    assert_int_equal(plan_send_pace(&older, large, 132), 0);
    assert_int_equal(plan_send_pace(&one, large, 132), 0);
    assert_true(plan_send_pace(&slow, large, 1024) > 500000 && plan_send_pace(&slow, large, 1024) <= 1024000);
}

static bool goes_straight(const char *text, int64_t m_max, int64_t k, int tp) {
    struct plan_shape shape = {.m_min = 1, .m_max = m_max, .n = 4096, .k = k, .tp = tp};
    struct plan plan = solve(text, &shape);
    bool straight = plan.value[FIELD_RING_PLACE] == PLACE_SHARED;
    assert_true(!straight || plan.value[FIELD_RING_DEPTH] == 1 || plan.origin[FIELD_RING_DEPTH] == ORIGIN_CONFIG);
    return straight;
}

/* Up to two tiles a CTA, and where the link sends a tile in half of the time in which it is made. */
static void tiles_go_straight_where_nothing_waits(void **state) {
    (void)state;
    static const char *const says_something[] = {"ring: {depth: 4}\n",          "ring: {chunk: {bytes: 2048}}\n",
                                                 "ring: {chunk: {count: 3}}\n", "signal: {granularity: {group: 2}}\n",
                                                 "drain: {policy: per_tile}\n", "drain: {policy: lane_per_stage}\n",
                                                 "drain: {flush: per_tile}\n",  "tile: {schedule: pingpong}\n",
                                                 "tile: {cluster: 2}\n",        "ring: {place: global}\n"};
    assert_true(goes_straight("", 1024, 2048, 2) && goes_straight("", 1024, 2048, 8)); /* 256 narrow tiles, 132 SMs */
    assert_false(goes_straight("", 1025, 2048, 2));
    assert_false(goes_straight("sms: 66\n", 1024, 1024, 2));
    assert_true(goes_straight("sms: 66\n", 512, 1024, 2));
    assert_true(goes_straight("tile: {m: 64, n: 64}\n", 256, 2048, 2));
    assert_false(goes_straight("tile: {m: 64, n: 64}\n", 257, 2048, 2));
    /* 2 * 750 TFLOP/s / 372 GB/s = 4032.3 */
    assert_false(goes_straight("", INT32_MAX, 4032, 2));
    assert_true(goes_straight("", INT32_MAX, 4040, 2));
    assert_true(goes_straight("link_gbps: 3000\n", INT32_MAX, 504, 2));
    assert_false(goes_straight("link_gbps: 3000\n", INT32_MAX, 496, 2));
    assert_true(goes_straight("sms: 66\n", INT32_MAX, 2024, 2));
    for (size_t i = 0; i < sizeof says_something / sizeof *says_something; i++)
        assert_false(goes_straight(says_something[i], 1024, 4096, 2));
    struct plan_shape blackwell = {.m_min = 1, .m_max = 128, .n = 4096, .k = 65536, .tp = 2};
    struct config *config = parse("");
    struct plan plan;
    grs_error err = {0};
    assert_int_equal(plan_solve(config, ARCH_SM100A, &blackwell, &plan, &err), GRS_OK);
    assert_int_equal(plan.value[FIELD_RING_PLACE], PLACE_GLOBAL); /* nothing was measured there */
    config_free(config);
}

static bool takes_turns(const char *text, int64_t k) {
    struct plan_shape shape = {.m_min = 4097, .m_max = 8192, .n = 8192, .k = k, .tp = 1};
    struct plan plan = solve(text, &shape);
    return plan.value[FIELD_SCHEDULE] == SCHEDULE_PINGPONG;
}

static void one_rank_takes_turns_where_k_is_long(void **state) {
    (void)state;
    assert_true(takes_turns("", 4096));
    assert_false(takes_turns("", 4088));
    assert_true(takes_turns("stages: {load: 4}\n", 1024)); /* which wide tiles leave no room for */
    assert_false(takes_turns("stages: {load: 3}\n", 1024));
}

/* With an outbox the even share is enough where products are the longer half (K of 2016); else a tenth more. */
static void headroom_is_for_links_that_must_not_idle(void **state) {
    (void)state;
    struct plan_shape shape = {.m_min = 1, .m_max = INT32_MAX, .n = 4096, .k = 2024, .tp = 2};
    const int64_t large = 1 << 20;
    struct plan longer = solve("ring: {place: global}\n", &shape), straight = solve("ring: {place: shared}\n", &shape);
    assert_int_equal(plan_send_pace(&longer, large, 132), 132 * 1000 / 372);
    assert_int_equal(plan_send_pace(&straight, large, 132), 132 * 10000 / (372 * 11));
    shape.k = 2008;
    struct plan shorter = solve("ring: {place: global}\n", &shape);
    assert_int_equal(plan_send_pace(&shorter, large, 132), 132 * 10000 / (372 * 11));
    /* A modelled link of a quarter of the rate makes sends the longer half. */
    uint64_t quarter = 1024 * 1000 / 93;
    assert_in_range(plan_send_pace_at(&longer, large, 132, quarter), 132 * 10000 / (93 * 11) - 2,
                    132 * 10000 / (93 * 11) + 2);
}

/* Tiles and coordinates of the largest M stay within 32 bits, and m_max of a class is cut to it. */
static void largest_m(void **state) {
    (void)state;
    static const struct plan_shape shapes[] = {
        {1, INT32_MAX, 8, 8, 1}, {1, INT32_MAX, 4096, 2048, 8}, {1, INT32_MAX, 1 << 24, 64, 64}};
    for (size_t i = 0; i < 3; i++)
        for (int cluster = 1; cluster <= 2; cluster++) {
            char text[64];
            snprintf(text, sizeof text, "tile: {m: 128, n: 64, cluster: %d}\n", cluster);
            struct plan plan = solve(text, &shapes[i]);
            int64_t most = plan_max_m(&plan);
            struct plan_tiles tiles;
            assert_int_equal(plan.shape.m_max, most);
            plan_tiles_of(&plan, most, &tiles);
            assert_true(tiles.total <= 1 << 30);
            assert_true(tiles.max_tiles * plan.segments <= INT32_MAX);
            assert_true(most + 128 * cluster <= INT32_MAX);
            struct plan_shape exact = shapes[i];
            exact.m_min = exact.m_max = most;
            plan = solve(text, &exact);
            struct config *config = parse(text);
            grs_error err = {0};
            exact.m_min = exact.m_max = most + 1;
            assert_int_equal(plan_solve(config, ARCH_SM90A, &exact, &plan, &err), GRS_ERR_PLAN);
            assert_non_null(strstr(err.text, "allowed: up to "));
            assert_int_equal(atoll(strstr(err.text, "up to ") + 6), most);
            config_free(config);
        }
}

/* ---------------------------------------------------------------- choices, names, classes */

static void every_value_has_an_origin(void **state) {
    (void)state;
    struct plan plan = solve("tile: {n: 192}\nring: {depth: 3}\n", &any);
    for (int f = 0; f < FIELD_COUNT; f++) {
        bool given = f == FIELD_TILE_N || f == FIELD_RING_DEPTH;
        assert_int_equal(plan.origin[f], given ? ORIGIN_CONFIG : ORIGIN_PLANNER);
        if (given)
            assert_null(plan.reason[f]);
        else
            assert_true(strlen(plan.reason[f]) > 8);
    }
    assert_int_equal(plan.value[FIELD_TILE_N], 192);
    assert_int_equal(plan.value[FIELD_RING_DEPTH], 3);
}

/* What a config leaves open is chosen to go with what it says. */
static void choices_suit_what_is_given(void **state) {
    (void)state;
    struct plan plan = solve("signal: {granularity: segment}\n", &any);
    assert_int_equal(plan.value[FIELD_ORDER], ORDER_SEGMENT);
    plan = solve("signal: {granularity: {group: 64}}\n", &any);
    assert_int_equal(plan.value[FIELD_ORDER], ORDER_SEGMENT);
    plan = solve("ring: {place: shared}\n", &any);
    assert_true(plan.tile_buffers >= 2);
    plan = solve("ring: {place: shared}\ndrain: {policy: lane_per_stage}\n", &any);
    assert_true(plan.tile_buffers >= 2);
    for (int depth = 1; depth <= 8; depth++) /* tiles that leave room for the ring */
        for (int lanes = 0; lanes <= 1; lanes++) {
            static const int64_t columns[] = {256, 256, 128, 128, 128, 64, 64, 64};
            char text[96];
            snprintf(text, sizeof text, "ring: {place: shared, depth: %d}\ndrain: {policy: %s}\n", depth,
                     lanes ? "lane_per_stage" : "ring");
            plan = solve(text, &any);
            assert_int_equal(plan.value[FIELD_TILE_N], columns[depth - 1]);
            assert_true(plan.value[FIELD_STAGES_LOAD] >= 2);
        }
    plan = solve("drain: {policy: lane_per_stage}\n", &any); /* registers leave no room for 256 columns */
    assert_int_equal(plan.value[FIELD_RING_PLACE], PLACE_GLOBAL);
    assert_int_equal(plan.ship_lanes, plan.value[FIELD_CHUNK_COUNT]);
    assert_int_equal(plan.value[FIELD_TILE_N], 128);
    plan = solve("ring: {chunk: {bytes: 1024, count: 12}}\ndrain: {policy: lane_per_stage}\n", &any);
    assert_int_equal(plan.value[FIELD_TILE_N], 64);
    plan = solve("ring: {depth: 8}\ntile: {m: 64, n: 64}\n", &any);
    assert_int_equal(plan.outbox_depth, 8);
}

static void names_carry_the_shape(void **state) {
    (void)state;
    struct plan plan = solve("tile: {m: 128, n: 256}\nstages: {load: 3}\n", &any);
    assert_string_equal(plan.name, "grs_gemm_rs_n4096_k2048_tp4_128x256x64_s3");
    struct plan_shape exact = {1023, 1023, 136, 72, 8};
    plan = solve("tile: {m: 64, n: 64}\nstages: {load: 2}\n", &exact);
    assert_string_equal(plan.name, "grs_gemm_rs_n136_k72_tp8_64x64x64_s2_m1023");
    struct plan_shape long_one = {2147480000, 2147480000, 8, 2147483128, 64};
    plan = solve("tile: {m: 128, n: 64}\nstages: {load: 4}\n", &long_one);
    assert_string_equal(plan.name, "grs_gemm_rs_n8_k2147483128_tp64_128x64x64_s4_m2147480000");
}

/* The same config text, whoever chose the values: what is compiled depends on values alone. */
static void canonical_text_names_every_field(void **state) {
    (void)state;
    struct plan plan = solve("sms: 64\ntile: {m: 64, n: 192, cluster: 2}\nsignal: {granularity: {group: 2}}\n"
                             "order: {interleave: 3}\nring: {depth: 5, chunk: {bytes: 4096, count: 3}}\n"
                             "stages: {load: 4}\nlink_gbps: 300\ndrain: {policy: per_tile}\n",
                             &any);
    struct buf text = {0};
    plan.value[FIELD_STAGES_ACCUM] = 1; /* of another arch: the planner's */
    plan_canonical(&plan, &text);
    assert_string_equal(text.data, "sms: 64\n"
                                   "link_gbps: 300\n"
                                   "tile.m: 64\n"
                                   "tile.n: 192\n"
                                   "tile.k: 64\n"
                                   "tile.schedule: cooperative\n"
                                   "tile.cluster: 2\n"
                                   "tile.cta_group: 1\n"
                                   "stages.load: 4\n"
                                   "stages.accum: 1\n"
                                   "ring.depth: 5\n"
                                   "ring.place: global\n"
                                   "ring.chunk.bytes: 4096\n"
                                   "ring.chunk.count: 3\n"
                                   "signal.granularity: group\n"
                                   "signal.granularity.group: 2\n"
                                   "drain.policy: per_tile\n"
                                   "drain.flush: owner_boundary\n"
                                   "order: interleave\n"
                                   "order.interleave: 3\n"
                                   "m: dynamic\n");
    buf_free(&text);
}

/* Classes follow one another without a gap from M = 1; each can be planned, and the planner sees the same class again. */
static void classes_cover_every_m(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "sms: 16\n",
                                        "sms: 1\n",
                                        "tile: {n: 128}\n",
                                        "tile: {n: 64}\n",
                                        "tile: {m: 64}\n",
                                        "tile: {schedule: pingpong}\n",
                                        "link_gbps: 1\n",
                                        "link_gbps: 100000\n",
                                        "drain: {policy: lane_per_stage}\n"};
    static const int64_t ks[] = {8, 2048, 14336};
    static const int64_t ns[] = {8, 136, 4096, 8192, 65536, 1000000};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t i = 0; i < sizeof ns / sizeof *ns * 3; i++)
            for (int tp = 1; tp <= 8; tp *= 2) {
                int64_t n = ns[i / 3], k = ks[i % 3];
                struct config *config = parse(texts[t]);
                struct classes classes;
                struct plan before;
                classes_make(config, ARCH_SM90A, n, k, tp, &classes);
                assert_true(classes.count >= 1 && classes.count <= CLASSES_MAX);
                int64_t next = 1;
                for (int c = 0; c < classes.count; c++) {
                    const struct plan_shape *shape = &classes.shape[c];
                    struct plan plan;
                    grs_error err = {0};
                    assert_int_equal(shape->m_min, next);
                    assert_true(shape->m_max >= shape->m_min);
                    assert_ptr_equal(classes_find(&classes, shape->m_min), shape);
                    assert_ptr_equal(classes_find(&classes, shape->m_max), shape);
                    assert_int_equal(shape->n, n);
                    assert_int_equal(shape->k, k);
                    assert_int_equal(shape->tp, tp);
                    if (plan_solve(config, ARCH_SM90A, shape, &plan, &err) != GRS_OK)
                        fail_msg("%s", err.text);
                    assert_true(plan.shape.m_max <= shape->m_max);
                    assert_true(c == 0 || memcmp(before.value, plan.value, sizeof plan.value) != 0);
                    before = plan;
                    next = shape->m_max + 1;
                }
                assert_int_equal(next - 1, INT32_MAX);
                assert_null(classes_find(&classes, 0));
                /* More would differ in nothing: what is left is the place, and for ping-pong not even that. */
                if (config->is_set[FIELD_TILE_N] || config->is_set[FIELD_SCHEDULE])
                    assert_true(classes.count <= (config->is_set[FIELD_SCHEDULE] ? 1 : 2));
                config_free(config);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_key_and_number),
        cmocka_unit_test(keys_of_a_listed_arch_are_passed_over),
        cmocka_unit_test(maps_are_packed_and_fit),
        cmocka_unit_test(the_offered_stage_count_is_the_largest),
        cmocka_unit_test(registers_are_dealt_within_the_pool),
        cmocka_unit_test(lanes_get_warps_and_registers),
        cmocka_unit_test(boxes_are_within_the_copy_engine),
        cmocka_unit_test(first_tile_in_halves),
        cmocka_unit_test(segments_share_the_rows),
        cmocka_unit_test(memory_of_a_rank),
        cmocka_unit_test(memory_never_shrinks_with_m),
        cmocka_unit_test(estimates_scale_with_sms_and_link),
        cmocka_unit_test(sends_are_paced_by_the_share_of_the_link),
        cmocka_unit_test(tiles_go_straight_where_nothing_waits),
        cmocka_unit_test(one_rank_takes_turns_where_k_is_long),
        cmocka_unit_test(headroom_is_for_links_that_must_not_idle),
        cmocka_unit_test(largest_m),
        cmocka_unit_test(every_value_has_an_origin),
        cmocka_unit_test(choices_suit_what_is_given),
        cmocka_unit_test(names_carry_the_shape),
        cmocka_unit_test(canonical_text_names_every_field),
        cmocka_unit_test(classes_cover_every_m),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
