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
#define MEASURED_SMALL_STRAIGHT  "tile: {m: 64, n: 128}\nstages: {load: 8}\n" MEASURED_ONE
#define MEASURED_ALONE           "tile: {m: 128, n: 256}\nstages: {load: 3}\n"
/* The same with the lag of short K. */
#define MEASURED_RING_LATER   "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\norder: {interleave: 3}\n"
#define MEASURED_WIDE_LATER   "tile: {m: 128, n: 256}\nstages: {load: 3}\n" MEASURED_RING_LATER
#define MEASURED_NARROW_LATER "tile: {m: 128, n: 128}\nstages: {load: 5}\n" MEASURED_RING_LATER
#define MEASURED_STRAIGHT_LATER                                                                                        \
    "tile: {m: 128, n: 256}\nstages: {load: 3}\nring: {depth: 1, place: shared}\norder: {interleave: 3}\n"
#define MEASURED_STRAIGHT_NARROW_LATER                                                                                 \
    "tile: {m: 128, n: 128}\nstages: {load: 6}\nring: {depth: 1, place: shared}\norder: {interleave: 3}\n"

struct measured_time {
    int64_t m, n, k;
    int tp;
    const char *yaml; /* after "version: 1" */
    double us;
    double weight; /* 0: not fitted to; less than 1: not what the planner chooses, or one rank */
};

static const struct measured_time measured_times[] = {
    /* bench/results/h200-x2-link.json, rows back to back, commit 4c2b7a63b831 */
    {64, 4096, 2048, 2, MEASURED_SMALL_STRAIGHT, 16.6, 1},
    {256, 4096, 2048, 2, MEASURED_SMALL_STRAIGHT, 19.1, 1},
    {512, 4096, 2048, 2, MEASURED_SMALL_STRAIGHT, 23.1, 1},
    {1024, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 33.3, 1},
    {2048, 4096, 2048, 2, MEASURED_NARROW, 56.3, 1},
    {4096, 4096, 2048, 2, MEASURED_WIDE, 99.0, 1},
    {8192, 4096, 2048, 2, MEASURED_WIDE, 193.7, 1},
    {2048, 8192, 1024, 2, MEASURED_NARROW_LATER, 75.4, 1},
    {4096, 8192, 1024, 2, MEASURED_WIDE_LATER, 125.2, 1},
    {8192, 8192, 1024, 2, MEASURED_WIDE_LATER, 228.2, 1},
    {2048, 8192, 4096, 2, MEASURED_STRAIGHT, 186.8, 1},
    {8192, 8192, 4096, 2, MEASURED_STRAIGHT, 759.9, 1},
    {2048, 8192, 14336, 2, MEASURED_STRAIGHT, 685.1, 1},
    {8192, 4096, 7168, 2, MEASURED_STRAIGHT, 669.1, 1},
    /* bench/results/h200-x2-sweep.json: what the planner does not choose there; the same kernels */
    {256, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 23.0, 0.5},
    {512, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 26.3, 0.5},
    {1024, 4096, 2048, 2, MEASURED_SMALL_STRAIGHT, 40.3, 0.5},
    {1024, 4096, 2048, 2, MEASURED_NARROW, 38.5, 0.5},
    {2048, 8192, 4096, 2, MEASURED_WIDE, 186.2, 0.5},
    {8192, 8192, 4096, 2, MEASURED_WIDE, 752.0, 0.5},
    {2048, 4096, 2048, 2, MEASURED_STRAIGHT_NARROW, 57.9, 0.5},
    {2048, 8192, 1024, 2, MEASURED_STRAIGHT_NARROW_LATER, 88.6, 0.5},
    {8192, 4096, 2048, 2, MEASURED_STRAIGHT, 201.8, 0.5},
    {4096, 8192, 1024, 2, MEASURED_STRAIGHT_LATER, 159.7, 0.5},
    {8192, 8192, 1024, 2, MEASURED_STRAIGHT_LATER, 312.5, 0.5},
    {2048, 4096, 2048, 2, MEASURED_WIDE, 58.1, 0.5},
    {2048, 8192, 1024, 2, MEASURED_WIDE_LATER, 78.0, 0.5},
    {4096, 4096, 2048, 2, MEASURED_NARROW, 105.5, 0.5},
    {4096, 8192, 1024, 2, MEASURED_NARROW_LATER, 133.3, 0.5},
    /* bench/results/h200-gemm.json, rows back to back up to K = 2048, the same commit: beyond, the power limit moves
     * cuBLAS and ours by a tenth from run to run */
    {2048, 4096, 1024, 1, MEASURED_ALONE, 25.6, 0.3},
    {4096, 4096, 1024, 1, MEASURED_ALONE, 46.9, 0.3},
    {8192, 4096, 1024, 1, MEASURED_ALONE, 91.2, 0.3},
    {2048, 4096, 2048, 1, MEASURED_ALONE, 46.1, 0.3},
    {4096, 4096, 2048, 1, MEASURED_ALONE, 88.9, 0.3},
    {8192, 4096, 2048, 1, MEASURED_ALONE, 185.0, 0.3},
    {2048, 8192, 1024, 1, MEASURED_ALONE, 47.9, 0.3},
    {4096, 8192, 1024, 1, MEASURED_ALONE, 94.2, 0.3},
    {8192, 8192, 1024, 1, MEASURED_ALONE, 197.0, 0.3},
    {2048, 8192, 2048, 1, MEASURED_ALONE, 96.5, 0.3},
    {4096, 8192, 2048, 1, MEASURED_ALONE, 195.1, 0.3},
    {8192, 8192, 2048, 1, MEASURED_ALONE, 395.7, 0.3},
};
#define MEASURED_TIMES ((int)(sizeof measured_times / sizeof *measured_times))

#endif
