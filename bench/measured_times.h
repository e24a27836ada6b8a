/* Launches whose time is known, for the planner's times (generator/plan_time.c): fitted to by bench/fit_times.c, checked against
 * by tests/test_plan_time.c. Configs are spelled out: what the planner chooses for the shape may change. */
#ifndef GRS_BENCH_MEASURED_TIMES_H
#define GRS_BENCH_MEASURED_TIMES_H

#include <stdint.h>

#define MEASURED_RING   "ring: {depth: 4, place: global, chunk: {bytes: 4096, count: 4}}\norder: {interleave: 2}\n"
#define MEASURED_WIDE   "tile: {m: 128, n: 256}\nstages: {load: 3}\n" MEASURED_RING
#define MEASURED_NARROW "tile: {m: 128, n: 128}\nstages: {load: 5}\n" MEASURED_RING
#define MEASURED_ALONE  "tile: {m: 128, n: 256}\nstages: {load: 3}\n"
#define MEASURED_TURNS  "tile: {m: 128, n: 168, schedule: pingpong}\nstages: {load: 4}\n"

struct measured_time {
    int64_t m, n, k;
    int tp;
    const char *yaml; /* after "version: 1" */
    double us;
    double
        weight; /* 0: not fitted to; 1: grsrun --bench; less: another harness, or an older kernel of the same structure */
};

static const struct measured_time measured_times[] = {
    /* bench/results/h200-x2-ring.json, rows back to back, commit 37749f25a92b */
    {512, 4096, 2048, 2, MEASURED_NARROW, 34.2, 1},
    {1024, 4096, 2048, 2, MEASURED_NARROW, 39.8, 1},
    {2048, 4096, 2048, 2, MEASURED_NARROW, 60.1, 1},
    {4096, 4096, 2048, 2, MEASURED_NARROW, 110.7, 1},
    {8192, 4096, 2048, 2, MEASURED_WIDE, 205.8, 1},
    {2048, 8192, 1024, 2, MEASURED_NARROW, 76.8, 1},
    {4096, 8192, 1024, 2, MEASURED_WIDE, 131.8, 1},
    {8192, 8192, 1024, 2, MEASURED_WIDE, 232.5, 1},
    {2048, 8192, 4096, 2, MEASURED_WIDE, 195.3, 1},
    {8192, 8192, 4096, 2, MEASURED_WIDE, 803.4, 1},
    {2048, 8192, 14336, 2, MEASURED_WIDE, 698.3, 1},
    {8192, 4096, 7168, 2, MEASURED_WIDE, 699.3, 1},
    /* bench/NOTES.md, "Narrow tiles where waves are few" */
    {2048, 4096, 2048, 2, MEASURED_WIDE, 67.6, 0.5},
    {4096, 4096, 2048, 2, MEASURED_WIDE, 105, 0.5},
    {8192, 4096, 2048, 2, MEASURED_NARROW, 204, 0.5},
    {2048, 8192, 1024, 2, MEASURED_WIDE, 83.9, 0.5},
    /* bench/NOTES.md, "Where the first version stood" and "Tiles move in pieces" */
    {8192, 4096, 2048, 1, MEASURED_ALONE, 180, 0.5},
    {8192, 8192, 1024, 1, MEASURED_ALONE, 183.5, 0.5},
    {2048, 8192, 1024, 1, MEASURED_ALONE, 50.9, 0.5},
    /* bench/results/h200-gemm.json, rows back to back up to K = 2048, commit f46e467a45f2: not fitted to, only
     * checked against; with longer K the power limit moves cuBLAS and ours by a tenth from run to run */
    {2048, 8192, 1024, 1, MEASURED_TURNS, 49.4, 0},
    {4096, 8192, 1024, 1, MEASURED_TURNS, 96.1, 0},
    {8192, 8192, 1024, 1, MEASURED_TURNS, 196.3, 0},
    {2048, 8192, 2048, 1, MEASURED_TURNS, 95.9, 0},
    {4096, 8192, 2048, 1, MEASURED_TURNS, 189.4, 0},
    {8192, 8192, 2048, 1, MEASURED_TURNS, 397.6, 0},
};
#define MEASURED_TIMES ((int)(sizeof measured_times / sizeof *measured_times))

#endif
