/* The plan: config + arch + shape → every number of the kernel, or a refusal by name and number. */
#ifndef GRS_GENERATOR_PLAN_H
#define GRS_GENERATOR_PLAN_H

#include "generator/config.h"

#define PLAN_MAX_REGIONS 16
#define PLAN_MAX_GRID 1024 /* compiled-in maximum of CTAs a rank for `segment` order; launches refuse more */

struct plan_shape {
    int64_t m_min, m_max; /* the class of M that the kernel serves (equal with m: fixed)  */
    int64_t n, k;
    int tp;               /* ring size R                                                  */
};

struct plan_region { /* a piece of dynamic shared memory */
    const char *name;
    int64_t offset, bytes;
};

enum plan_origin { ORIGIN_PLANNER = 0, ORIGIN_CONFIG };

struct plan {
    enum arch arch;
    struct plan_shape shape;
    int segments;                        /* owner segments; equal to tp on one node              */
    int64_t value[FIELD_COUNT];          /* solved: nothing is left open                         */
    enum plan_origin origin[FIELD_COUNT];
    const char *reason[FIELD_COUNT];     /* why the planner chose it (static text); NULL if from the config */

    int threads, consumer_warpgroups;
    int registers_launch, registers_producer, registers_consumer;
    struct plan_region region[PLAN_MAX_REGIONS];
    int region_count;
    int64_t shared_bytes, shared_limit;
    int64_t tile_bytes;                  /* of one partial                                       */
    int max_grid;                        /* largest number of CTAs a rank                        */
    int raster;                          /* tiles of M in one raster panel                       */
    char name[128];                      /* entry name: grs_gemm_rs_n4096_k2048_tp4_128x256x64_… */
};

/* Counts for one M. Tiles are numbered j in a segment, segments t in the order of one rank (START first). */
struct plan_tiles {
    int64_t segment_rows;                /* c = ceil(M / segments)                               */
    int64_t tiles_n;
    int64_t max_tiles;                   /* tiles of the largest segment: the stride of slots    */
    int64_t total;                       /* over all segments: what one rank computes            */
};

grs_status plan_solve(const struct config *config, enum arch arch, const struct plan_shape *shape, struct plan *out,
                      grs_error *err);
void plan_tiles_of(const struct plan *plan, int64_t M, struct plan_tiles *out);
int64_t plan_segment_rows_of(const struct plan *plan, int64_t M, int owner);   /* rows of one owner, 0 .. c */
int64_t plan_segment_tiles_of(const struct plan *plan, int64_t M, int owner);

/* Device bytes a rank reserves for launches with M <= max_M on `grid` CTAs. */
struct plan_memory {
    int64_t slots, mask, outbox, control, total;
};
void plan_memory_of(const struct plan *plan, int64_t max_M, int grid, struct plan_memory *out);

/* Bytes that one rank sends over the link, (R-1)/R * M * N * 2 for whole tiles. */
int64_t plan_link_bytes(const struct plan *plan, int64_t M);

/* The plan in words: shared-memory map, roles, tile order, memory, limit. */
void plan_explain(const struct plan *plan, int64_t M, int grid, struct buf *out);

/* Solved values, one `key: value` a line: the canonical text of the config. */
void plan_canonical(const struct plan *plan, struct buf *out);

#endif
