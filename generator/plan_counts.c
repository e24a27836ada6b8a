/* What follows from a plan for one M: tiles, bits, memory, bytes over the link. */
#include <string.h>

#include "generator/machine.h"
#include "generator/plan.h"
#include "generator/plan_defaults.h"

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t segment_rows(const struct plan *plan, int64_t M) {
    return ceil_div(M, plan->segments);
}

int64_t plan_segment_rows_of(const struct plan *plan, int64_t M, int owner) {
    int64_t c = segment_rows(plan, M), left = M - owner * c;
    return left < 0 ? 0 : left < c ? left : c;
}

static int64_t tiles_of_rows(const struct plan *plan, int64_t rows) {
    int64_t cluster = plan->value[FIELD_CLUSTER]; /* a cluster's tiles lie one below the other and come together */
    return ceil_div(rows, plan->value[FIELD_TILE_M] * cluster) * cluster *
           ceil_div(plan->shape.n, plan->value[FIELD_TILE_N]);
}

int64_t plan_segment_tiles_of(const struct plan *plan, int64_t M, int owner) {
    return tiles_of_rows(plan, plan_segment_rows_of(plan, M, owner));
}

void plan_tiles_of(const struct plan *plan, int64_t M, struct plan_tiles *out) {
    int64_t c = segment_rows(plan, M);
    out->segment_rows = c;
    out->tiles_n = ceil_div(plan->shape.n, plan->value[FIELD_TILE_N]);
    out->max_tiles = tiles_of_rows(plan, c);
    out->total = M / c * out->max_tiles + tiles_of_rows(plan, M % c);
}

int64_t plan_bits_of(const struct plan *plan, int64_t M) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    int64_t in_segment = plan->group_tiles ? ceil_div(tiles.max_tiles, plan->group_tiles) : 1;
    return (plan->segments - plan->segments / plan->shape.tp) * in_segment;
}

void plan_memory_of(const struct plan *plan, int64_t max_M, int grid, struct plan_memory *out) {
    struct plan_tiles tiles;
    int64_t received = plan->segments - plan->segments / plan->shape.tp, bits = plan_bits_of(plan, max_M);
    plan_tiles_of(plan, max_M, &tiles);
    memset(out, 0, sizeof *out);
    if (plan->shape.tp > 1) {
        out->slots = received * tiles.max_tiles * plan->tile_bytes;
        out->mask = ceil_div(bits, 64) * 8;
        if (plan->value[FIELD_RING_PLACE] == PLACE_GLOBAL)
            out->outbox = (int64_t)grid * plan->outbox_depth * plan->tile_bytes;
        out->groups = plan->group_tiles == 1 ? 0 : bits * 4;
    }
    out->control = (int64_t)sizeof(grs_control);
    out->total = out->slots + out->mask + out->outbox + out->groups + out->control;
}

double plan_link_ahead(enum arch arch, double link_gbps, int64_t k, int64_t sms) {
    return (double)k * link_gbps / (machine_tflops(machine_of(arch), sms) * 1e3);
}

/* Of a CTA's even share of the link: a little more where the link must never be idle, or where the tile's buffer waits for the
 * last byte; where products take longer than what they send, an outbox may fill up meanwhile (bench/NOTES.md). */
#define EAGER_PERCENT 110
#define EVEN_PERCENT  100

static int64_t headroom_percent(const struct plan *plan, double link_gbps) {
    bool outbox = plan->value[FIELD_RING_PLACE] == PLACE_GLOBAL;
    return outbox && plan_link_ahead(plan->arch, link_gbps, plan->shape.k, plan->value[FIELD_SMS]) >= 1 ? EVEN_PERCENT
                                                                                                        : EAGER_PERCENT;
}

/* A ring in shared memory with drain.policy: per_tile is that of older kernels, which had no tempo. */
bool plan_is_paced(const struct plan *plan) {
    bool older = plan->value[FIELD_RING_PLACE] == PLACE_SHARED && plan->value[FIELD_DRAIN_POLICY] == DRAIN_PER_TILE;
    return plan->shape.tp > 1 && !older;
}

/* CTAs that send at the same time: no more than a segment has tiles, since those of the next turn wait for upstream's of this
 * one. 0: there is no tempo. */
static int64_t senders(const struct plan *plan, int64_t M, int grid) {
    struct plan_tiles tiles;
    if (!plan_is_paced(plan))
        return 0;
    plan_tiles_of(plan, M, &tiles);
    return tiles.max_tiles < grid ? tiles.max_tiles : grid;
}

uint32_t plan_send_pace(const struct plan *plan, int64_t M, int grid) {
    int64_t link = plan->value[FIELD_LINK_GBPS];
    return (uint32_t)(100000 * senders(plan, M, grid) / (link * headroom_percent(plan, (double)link)));
}

uint32_t plan_send_pace_at(const struct plan *plan, int64_t M, int grid, uint64_t link_ps_per_kib) {
    int64_t percent = headroom_percent(plan, 1024e3 / (double)link_ps_per_kib);
    double share = (double)link_ps_per_kib / 1024 * (double)senders(plan, M, grid) * 100 / (double)percent;
    return share < UINT32_MAX ? (uint32_t)share : UINT32_MAX;
}

int64_t plan_link_bytes(const struct plan *plan, int64_t M) {
    int64_t kept = 0; /* by rank 0, which owns the segments 0, R, 2R, ...: no rank keeps more */
    for (int owner = 0; owner < plan->segments; owner += plan->shape.tp)
        kept += plan_segment_rows_of(plan, M, owner);
    return (M - kept) * plan->shape.n * 2;
}

bool plan_halves_first(const struct plan *plan) {
    const int64_t *v = plan->value;
    return plan->shape.tp > 1 && v[FIELD_RING_PLACE] == PLACE_GLOBAL && v[FIELD_TILE_M] == 128 &&
           v[FIELD_TILE_N] == 256 && v[FIELD_CLUSTER] == 1 && config_arch_family(plan->arch) == ARCH_SM90A &&
           v[FIELD_SCHEDULE] != SCHEDULE_PINGPONG && plan->shape.k < PLAN_SHORT_K;
}

void plan_boxes(const struct plan *plan, struct plan_boxes *out) {
    int columns = (int)plan->value[FIELD_TILE_K], rows = (int)plan->value[FIELD_TILE_M];
    *out = (struct plan_boxes){
        .a = {columns, rows},
        .b = {columns,
              (int)(plan->value[FIELD_TILE_N] / plan->value[FIELD_CLUSTER] / (plan_halves_first(plan) ? 2 : 1))},
        .d = {PLAN_PANEL_COLUMNS, plan->shape.tp == 1 ? 64 : rows},
        .d_tiles = plan->value[FIELD_TILE_N] % PLAN_PANEL_COLUMNS && plan->shape.n >= plan->value[FIELD_TILE_N]
                       ? (int)plan->value[FIELD_TILE_N]
                       : 0};
}

int64_t plan_max_m(const struct plan *plan) {
    int64_t tiles_n = ceil_div(plan->shape.n, plan->value[FIELD_TILE_N]);
    int64_t cluster_m = plan->value[FIELD_TILE_M] * plan->value[FIELD_CLUSTER];
    int64_t by_tiles = PLAN_MAX_TILES / tiles_n * plan->value[FIELD_TILE_M] - plan->segments * cluster_m;
    int64_t by_rows = INT32_MAX - 2 * cluster_m - plan->segments;
    int64_t most = by_tiles < by_rows ? by_tiles : by_rows;
    return most < 0 ? 0 : most;
}
