/* Launches whose time is known, for the planner's times (generator/plan_time.c): fitted to by bench/fit_times.c, checked against
 * by tests/test_plan_time.c. Configs are spelled out: what the planner chooses for the shape may change. */
#ifndef GRS_BENCH_MEASURED_TIMES_H
#define GRS_BENCH_MEASURED_TIMES_H

#include <stdint.h>

#define MEASURED_RING            "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\norder: {interleave: 2}\n"
#define MEASURED_WIDE            "tile: {m: 128, n: 256}\nstages: {load: 3}\n" MEASURED_RING
#define MEASURED_NARROW          "tile: {m: 128, n: 128}\nstages: {load: 5}\n" MEASURED_RING
#define MEASURED_ONE             "ring: {depth: 1, place: shared}\norder: {interleave: 2}\n"
#define MEASURED_STRAIGHT        "tile: {m: 128, n: 256}\nstages: {load: 3}\n" MEASURED_ONE
#define MEASURED_STRAIGHT_NARROW "tile: {m: 128, n: 128}\nstages: {load: 6}\n" MEASURED_ONE
#define MEASURED_ALONE           "tile: {m: 128, n: 256}\nstages: {load: 3}\n"

struct measured_time {
    int64_t m, n, k;
    int tp;
    const char *yaml; /* after "version: 1" */
    double us;
    double weight; /* 0: not fitted to; less than 1: not what the planner chooses, or one rank */
};

static const struct measured_time measured_times[] = {
    /* bench/results/h200-x2-link.json, rows back to back, commit 7bda97d05fc9; fitted to from M = 256 on */
    {256, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 23.8, 1},
    {512, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 27.5, 1},
    {1024, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 34.7, 1},
    {2048, 4096, 2048, 2, MEASURED_NARROW, 56.6, 1},
    {4096, 4096, 2048, 2, MEASURED_WIDE, 99.5, 1},
    {8192, 4096, 2048, 2, MEASURED_WIDE, 194.2, 1},
    {2048, 8192, 1024, 2, MEASURED_NARROW, 75.3, 1},
    {4096, 8192, 1024, 2, MEASURED_WIDE, 128.6, 1},
    {8192, 8192, 1024, 2, MEASURED_WIDE, 228.8, 1},
    {2048, 8192, 4096, 2, MEASURED_STRAIGHT, 187.7, 1},
    {8192, 8192, 4096, 2, MEASURED_STRAIGHT, 771.0, 1},
    {2048, 8192, 14336, 2, MEASURED_STRAIGHT, 651.2, 1},
    {8192, 4096, 7168, 2, MEASURED_STRAIGHT, 678.0, 1},
    /* bench/results/h200-x2-sweep.json: what the planner does not choose there; the same kernels */
    {512, 4096, 2048, 2, MEASURED_NARROW, 30.2, 0.5},
    {1024, 4096, 2048, 2, MEASURED_NARROW, 39.4, 0.5},
    {2048, 8192, 4096, 2, MEASURED_WIDE, 188.6, 0.5},
    {8192, 8192, 4096, 2, MEASURED_WIDE, 766.7, 0.5},
    {2048, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 59.3, 0.5},
    {8192, 4096, 2048, 2, MEASURED_STRAIGHT, 203.4, 0.5},
    {2048, 8192, 1024, 2, MEASURED_STRAIGHT_NARROW, 88.5, 0.5},
    {4096, 8192, 1024, 2, MEASURED_STRAIGHT, 162.6, 0.5},
    {8192, 8192, 1024, 2, MEASURED_STRAIGHT, 317.3, 0.5},
    /* bench/results/h200-gemm.json, rows back to back up to K = 2048, the same commit: beyond, the power limit moves
     * cuBLAS and ours by a tenth from run to run */
    {2048, 4096, 1024, 1, MEASURED_ALONE, 25.6, 0.3},
    {4096, 4096, 1024, 1, MEASURED_ALONE, 47.2, 0.3},
    {2048, 4096, 2048, 1, MEASURED_ALONE, 46.1, 0.3},
    {4096, 4096, 2048, 1, MEASURED_ALONE, 89.0, 0.3},
    {2048, 8192, 1024, 1, MEASURED_ALONE, 48.0, 0.3},
    {4096, 8192, 1024, 1, MEASURED_ALONE, 95.5, 0.3},
    {8192, 8192, 1024, 1, MEASURED_ALONE, 197.5, 0.3},
    {2048, 8192, 2048, 1, MEASURED_ALONE, 96.1, 0.3},
    {4096, 8192, 2048, 1, MEASURED_ALONE, 195.1, 0.3},
    {8192, 8192, 2048, 1, MEASURED_ALONE, 403.3, 0.3},
};
#define MEASURED_TIMES ((int)(sizeof measured_times / sizeof *measured_times))

#endif
