/* The plan: config + arch + shape → every number of the kernel, or a refusal by name and number. */
#ifndef GRS_GENERATOR_PLAN_H
#define GRS_GENERATOR_PLAN_H

#include "generator/config.h"
#include "templates/args.h"

#define PLAN_PANEL_COLUMNS  64 /* BF16 columns in 128 bytes, the widest swizzle: what tiles are made of */
#define PLAN_MAX_REGIONS    16
#define PLAN_MAX_TILES      (1 << 30) /* positions are 32-bit in the kernel, and a role may look one grid past the end */
#define PLAN_TENSOR_COLUMNS 512       /* of tensor memory, a CTA: 128 lanes x 512 columns of 32 bits */
#define PLAN_MAX_GRID       256 /* CTAs a rank that a plan is proved for where `sms` does not say; launches refuse more */

struct plan_shape {
    int64_t m_min, m_max; /* the class of M that the kernel serves (equal with m: fixed)  */
    int64_t n, k;
    int tp; /* ring size R                                                  */
};

struct plan_region { /* a piece of dynamic shared memory */
    const char *name;
    int64_t offset, bytes;
    int64_t count;    /* equal pieces that it holds, bytes / count each */
    const char *what; /* is in each (static text)                       */
};

enum plan_origin { ORIGIN_PLANNER = 0, ORIGIN_CONFIG };

struct plan {
    enum arch arch;
    struct plan_shape shape;
    int segments;               /* owner segments; equal to tp on one node              */
    int64_t value[FIELD_COUNT]; /* solved: nothing is left open                         */
    enum plan_origin origin[FIELD_COUNT];
    const char *reason[FIELD_COUNT]; /* why the planner chose it (static text); NULL if from the config */

    int threads, consumer_warpgroups;
    int registers_launch, registers_producer, registers_consumer;
    struct plan_region region[PLAN_MAX_REGIONS];
    int region_count;
    int64_t shared_bytes, shared_limit;
    int64_t tile_bytes;  /* of one partial                                       */
    int64_t stage_bytes; /* of A and B in one stage                              */
    int tensor_columns;  /* of tensor memory, a power of two; 0: accumulators in registers */
    int group_tiles;     /* tiles a bit: 1, n, or 0 for a whole segment          */
    int max_grid;        /* largest number of CTAs a rank                        */
    int raster;          /* tiles of M in one raster panel                       */
    int tile_buffers;    /* in shared memory: ring.depth with place: shared, else 1  */
    int outbox_depth;    /* tiles a CTA in global memory: ring.depth with place: global, else 1 */
    int ship_lanes;      /* threads that send: with lane_per_stage one a tile buffer, or one a chunk, else 1 */
    int beside_warps;    /* of them, those that need warps beside the first warpgroup's */
    bool count_waits;    /* compile the wait counters                             */
    bool pace_model;     /* compile the model of the link                         */
    bool stall_hook;     /* compile the test hook that makes a sender stand still */
    char name[128];      /* entry name: grs_gemm_rs_n4096_k2048_tp4_128x256x64_… */
};

/* Counts for one M. Tiles are numbered j in a segment, segments t in the order of one rank (START first). */
struct plan_tiles {
    int64_t segment_rows; /* c = ceil(M / segments)                               */
    int64_t tiles_n;
    int64_t max_tiles; /* tiles of the largest segment: the stride of slots    */
    int64_t total;     /* over all segments: what one rank computes            */
};

grs_status plan_solve(const struct config *config, enum arch arch, const struct plan_shape *shape, struct plan *out,
                      grs_error *err);
/* Says what is compiled in beside the work: see count_waits, pace_model and stall_hook. A solved plan has none of them. */
void plan_add_hooks(struct plan *plan, bool count_waits, bool pace_model, bool stall_hook);
void plan_tiles_of(const struct plan *plan, int64_t M, struct plan_tiles *out);
int64_t plan_segment_rows_of(const struct plan *plan, int64_t M, int owner); /* rows of one owner, 0 .. c */
int64_t plan_segment_tiles_of(const struct plan *plan, int64_t M, int owner);

/* Device bytes a rank reserves for launches with M <= max_M on `grid` CTAs. */
struct plan_memory {
    int64_t slots, mask, outbox, groups, control, total;
};
void plan_memory_of(const struct plan *plan, int64_t max_M, int grid, struct plan_memory *out);

/* Bits of the mask that a launch with this M uses. */
int64_t plan_bits_of(const struct plan *plan, int64_t M);

/* Largest M that the kernel's 32-bit positions and coordinates can hold. */
int64_t plan_max_m(const struct plan *plan);
/* GRS_ERR_PLAN for an M beyond it. A class that is open at the top ends there, and not at the largest M that a config can list. */
grs_status plan_check_m(const struct plan *plan, int64_t M, grs_error *err);

/* Boxes of the tensor maps: {columns, rows} in elements, 128-byte swizzle. d_tiles: columns of the view of D as tiles that lie
 * side by side (args.h), which has boxes as D; 0: there is none.
 * Rows of d: kept_rows in ring.cuh. */
struct plan_boxes {
    int a[2], b[2], d[2], d_tiles;
};
void plan_boxes(const struct plan *plan, struct plan_boxes *out);
/* Whether a CTA makes its first tile in two halves of its columns, if it is a START tile: the link then has something to carry in
 * half the time. Below PLAN_SHORT_K; tiles of 256 columns alone, since products of 64 are slow. It follows from the shape and the
 * config: what the planner believes of SMs and link changes no text. */
bool plan_halves_first(const struct plan *plan);

/* What the planner expects of one rank: the limit from the figures of generator/machine.c scaled by sms, and link_gbps; the time
 * from those of generator/plan_time.c. */
struct plan_estimate {
    double flops, gemm_us, link_us, limit_us; /* limit = max(gemm, link)                                      */
    double expected_us;                       /* of one launch after another; 0: plan_time_unknown             */
};
void plan_estimate(const struct plan *plan, int64_t M, struct plan_estimate *out);

/* How many times a link of so many GB/s could send a tile while `sms` SMs (0: all) make it: an element costs 2*K operations, and 2
 * bytes on the link. */
double plan_link_ahead(enum arch arch, double link_gbps, int64_t k, int64_t sms);

/* Whether sends keep to a pace. */
bool plan_is_paced(const struct plan *plan);

/* The pace of a CTA's sends in a launch of `grid` CTAs, in picoseconds a byte: the share of link_gbps that it has when as many
 * send as a segment has tiles, or a little quicker. 0 where nothing is paced. For grs_args.send_ps_per_byte. */
uint32_t plan_send_pace(const struct plan *plan, int64_t M, int grid);
/* The same on a link that takes so many picoseconds (not 0) for 1024 bytes, whatever link_gbps says. */
uint32_t plan_send_pace_at(const struct plan *plan, int64_t M, int grid, uint64_t link_ps_per_kib);

/* Bytes that one rank sends over the link: (M - rows of the largest owner) * N * 2, that is (R-1)/R * M * N * 2. */
int64_t plan_link_bytes(const struct plan *plan, int64_t M);

/* The plan in words: shared-memory map, roles, tile order of rank 0, memory, limit. `grid` 0: the planner's SMs. */
void plan_explain(const struct plan *plan, int64_t M, int grid, struct buf *out);

/* Solved values, one `key: value` a line: the canonical text of the config. */
void plan_canonical(const struct plan *plan, struct buf *out);

#endif
