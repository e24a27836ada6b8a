/* Configs whose generated text is held in tests/golden/emit and compiled by tests/test_compile.c. All but the last two spell
 * out every number, so that tuning the planner's defaults does not touch them. */
#ifndef GRS_TESTS_EMIT_CASES_H
#define GRS_TESTS_EMIT_CASES_H

/* After cmocka's headers. */
#include "generator/plan.h"

struct emit_case {
    const char *name; /* of the golden file */
    const char *yaml; /* after "version: 1" */
    enum arch arch;
    struct plan_shape shape;
};

static const struct emit_case emit_cases[] = {
    {"wide",
     "tile: {m: 128, n: 256, k: 64, cluster: 1}\nstages: {load: 3}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 8192, count: 2}}\norder: {interleave: 2}\n",
     ARCH_SM90A,
     {1025, INT32_MAX, 4096, 2048, 4}},
    {"halves",
     "tile: {m: 128, n: 256, k: 64, cluster: 1}\nstages: {load: 3}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\norder: {interleave: 3}\n",
     ARCH_SM90A,
     {1, INT32_MAX, 8192, 1024, 2}},
    {"narrow",
     "tile: {m: 128, n: 128, k: 64, cluster: 1}\nstages: {load: 5}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\norder: {interleave: 1}\n",
     ARCH_SM90A,
     {1, 1024, 4096, 2048, 8}},
    {"one_rank",
     "tile: {m: 128, n: 256, k: 64, cluster: 1}\nstages: {load: 3}\n"
     "ring: {depth: 1, place: global, chunk: {bytes: 1024, count: 1}}\norder: segment\n",
     ARCH_SM90A,
     {1, INT32_MAX, 8192, 28672, 1}},
    {"odd_shape_fixed_m",
     "tile: {m: 64, n: 64, k: 64, cluster: 1}\nstages: {load: 8}\n"
     "ring: {depth: 8, place: global, chunk: {bytes: 3072, count: 3}}\norder: segment\n",
     ARCH_SM90A,
     {1023, 1023, 136, 72, 8}},
    {"groups_drained_per_tile",
     "tile: {m: 64, n: 192, k: 64, cluster: 1}\nstages: {load: 4}\n"
     "ring: {depth: 2, place: global, chunk: {bytes: 8192, count: 2}}\nsignal: {granularity: {group: 4}}\n"
     "drain: {policy: per_tile}\norder: segment\n",
     ARCH_SM90A,
     {1, INT32_MAX, 4104, 2056, 3}},
    {"cluster",
     "tile: {m: 128, n: 256, k: 64, cluster: 2}\nstages: {load: 3}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 8192, count: 2}}\norder: {interleave: 3}\n",
     ARCH_SM90A,
     {1, INT32_MAX, 8192, 1024, 2}},
    {"shared_ring_segments",
     "tile: {m: 128, n: 128, k: 64, cluster: 1}\nstages: {load: 4}\nring: {depth: 2, place: shared}\n"
     "signal: {granularity: segment}\ndrain: {policy: ring, flush: owner_boundary}\norder: segment\n",
     ARCH_SM90A,
     {1, INT32_MAX, 4096, 2048, 4}},
    {"shared_ring_lanes",
     "tile: {m: 128, n: 256, k: 64, cluster: 1}\nstages: {load: 2}\nring: {depth: 2, place: shared}\n"
     "drain: {policy: lane_per_stage}\norder: {interleave: 2}\n",
     ARCH_SM90A,
     {1, INT32_MAX, 4096, 2048, 2}},
    {"shared_ring_four_lanes",
     "tile: {m: 128, n: 128, k: 64, cluster: 1}\nstages: {load: 2}\nring: {depth: 4, place: shared}\n"
     "drain: {policy: lane_per_stage}\norder: {interleave: 2}\n",
     ARCH_SM90A,
     {1, INT32_MAX, 4096, 2048, 4}},
    {"shared_ring_eight_lanes",
     "tile: {m: 64, n: 64, k: 64, cluster: 1}\nstages: {load: 4}\nring: {depth: 8, place: shared}\n"
     "drain: {policy: lane_per_stage, flush: never}\norder: segment\n",
     ARCH_SM90A,
     {1, INT32_MAX, 136, 72, 3}},
    {"outbox_lanes",
     "tile: {m: 128, n: 192, k: 64, cluster: 1}\nstages: {load: 4}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\ndrain: {policy: lane_per_stage}\n"
     "order: {interleave: 2}\n",
     ARCH_SM90A,
     {1, INT32_MAX, 4096, 2048, 2}},
    {"shared_ring_never_flushed",
     "sms: 8\ntile: {m: 64, n: 128, k: 64, cluster: 1}\nstages: {load: 4}\nring: {depth: 1, place: shared}\n"
     "drain: {policy: ring, flush: never}\norder: segment\n",
     ARCH_SM90A,
     {1, INT32_MAX, 1024, 512, 2}},
    {"blackwell",
     "tile: {m: 128, n: 256, k: 64, cluster: 1, cta_group: 1}\nstages: {load: 3, accum: 2}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 8192, count: 2}}\norder: {interleave: 2}\n",
     ARCH_SM100A,
     {1025, INT32_MAX, 4096, 2048, 4}},
    {"blackwell_narrow",
     "tile: {m: 128, n: 64, k: 64, cluster: 1, cta_group: 1}\nstages: {load: 6, accum: 4}\n"
     "ring: {depth: 2, place: shared}\norder: segment\n",
     ARCH_SM100A,
     {1, INT32_MAX, 136, 72, 8}},
    {"blackwell_pair",
     "tile: {m: 128, n: 256, k: 64, cluster: 2, cta_group: 2}\nstages: {load: 4, accum: 2}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 8192, count: 2}}\norder: {interleave: 2}\n",
     ARCH_SM100A,
     {1, INT32_MAX, 8192, 3584, 4}},
    {"blackwell_cluster",
     "tile: {m: 128, n: 192, k: 64, cluster: 2, cta_group: 1}\nstages: {load: 3, accum: 1}\n"
     "ring: {depth: 2, place: global, chunk: {bytes: 4096, count: 4}}\nsignal: {granularity: {group: 4}}\n"
     "drain: {policy: per_tile}\norder: segment\n",
     ARCH_SM100A,
     {1, INT32_MAX, 4096, 2048, 2}},
    {"blackwell_shared_ring_lanes",
     "tile: {m: 128, n: 64, k: 64, cluster: 1, cta_group: 1}\nstages: {load: 3, accum: 2}\n"
     "ring: {depth: 8, place: shared}\ndrain: {policy: lane_per_stage}\norder: segment\n",
     ARCH_SM100A,
     {1, INT32_MAX, 4096, 2048, 4}},
    {"blackwell_outbox_lanes",
     "tile: {m: 128, n: 256, k: 64, cluster: 2, cta_group: 2}\nstages: {load: 4, accum: 2}\n"
     "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\ndrain: {policy: lane_per_stage}\n"
     "order: {interleave: 2}\n",
     ARCH_SM100A,
     {1, INT32_MAX, 8192, 3584, 4}},
    {"planner_small_m", "", ARCH_SM90A, {1, 256, 4096, 2048, 4}},
    {"planner_large_m", "", ARCH_SM90A, {8192, INT32_MAX, 8192, 3584, 8}},
};
#define EMIT_CASES ((int)(sizeof emit_cases / sizeof *emit_cases))

static inline struct plan emit_case_plan(const struct emit_case *row) {
    struct config *config = NULL;
    struct plan plan = {0};
    struct buf text = {0};
    grs_error err = {0};
    buf_printf(&text, "version: 1\n%s", row->yaml);
    if (config_parse(row->name, text.data, text.length, &config, &err) != GRS_OK ||
        plan_solve(config, row->arch, &row->shape, &plan, &err) != GRS_OK)
        fail_msg("%s: %s", row->name, err.text);
    config_free(config);
    buf_free(&text);
    return plan;
}

#endif
