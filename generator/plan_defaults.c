#include "generator/plan_defaults.h"

#include "generator/machine.h"
#include "generator/plan_warps.h"

#define WIDE_M   128
#define WIDE_N   256
#define NARROW_N 128
#define SMALL_M  64 /* rows of one warpgroup */

#define LEAST_STAGES 2

static void take(const struct config *config, struct plan *plan, enum field field, int64_t value, const char *reason) {
    if (!config_arch_knows(plan->arch, field)) { /* plan_solve has refused a value that would be lost */
        plan->value[field] = value;
        plan->origin[field] = ORIGIN_PLANNER;
        plan->reason[field] = "a key of another arch";
    } else if (config->is_set[field]) {
        plan->value[field] = config->value[field];
        plan->origin[field] = ORIGIN_CONFIG;
        plan->reason[field] = NULL;
    } else {
        plan->value[field] = value;
        plan->origin[field] = ORIGIN_PLANNER;
        plan->reason[field] = reason;
    }
}

#define FEW_TILES        2  /* of a CTA                                                                       */
#define RING_WAVES       4  /* waves below which the first wave's sends are not hidden (H200: bench/NOTES.md) */
#define SHORT_PRODUCT_US 75 /* above it, what narrow tiles lose to L2 costs more than the first wave's sends  */

/* SMs of a rank: what the config says, else all. */
static int64_t sms_planned(const struct config *config, enum arch arch) {
    return config->is_set[FIELD_SMS] && config->value[FIELD_SMS] ? config->value[FIELD_SMS] : machine_of(arch)->sms;
}

static int64_t wide_across(int64_t n) {
    return (n + WIDE_N - 1) / WIDE_N;
}

/* The largest M whose tiles of 128 x 256 fill the SMs once at most. */
static int64_t wave_m(const struct config *config, enum arch arch, int64_t n) {
    int64_t down = sms_planned(config, arch) / wide_across(n);
    return (down > 0 ? down : 1) * WIDE_M;
}

static bool any_set(const struct config *config, const enum field *fields, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (config->is_set[fields[i]])
            return true;
    return false;
}

static bool wants_pingpong(const struct config *config) {
    return config->is_set[FIELD_SCHEDULE] && config->value[FIELD_SCHEDULE] == SCHEDULE_PINGPONG;
}

int64_t plan_small_m(const struct config *config, enum arch arch, int64_t n, int tp) {
    static const enum field fixed[] = {FIELD_TILE_M, FIELD_TILE_N, FIELD_CLUSTER};
    if (config_arch_family(arch) != ARCH_SM90A || wants_pingpong(config) ||
        any_set(config, fixed, sizeof fixed / sizeof *fixed))
        return 0;
    int64_t across = (n + NARROW_N - 1) / NARROW_N, tiles = (tp > 1 ? FEW_TILES : 1) * sms_planned(config, arch);
    int64_t few = tiles / across * SMALL_M, least = (int64_t)SMALL_M * tp;
    return few > least ? few : least;
}

int64_t plan_few_m(const struct config *config, enum arch arch, int64_t n) {
    int64_t rows = config->is_set[FIELD_TILE_M] ? config->value[FIELD_TILE_M] : WIDE_M;
    int64_t columns = config->is_set[FIELD_TILE_N] ? config->value[FIELD_TILE_N] : NARROW_N;
    int64_t few = FEW_TILES * sms_planned(config, arch) / ((n + columns - 1) / columns) * rows;
    int64_t wave = wave_m(config, arch, n); /* beyond it tiles are wide, where nothing else is asked for */
    return config->is_set[FIELD_TILE_N] || few < wave ? few : wave;
}

int64_t plan_narrow_m(const struct config *config, enum arch arch, int64_t n, int64_t k, int tp) {
    int64_t wave = wave_m(config, arch, n);
    int64_t sms = sms_planned(config, arch);
    double rate = machine_tflops(machine_of(arch), sms) * 1e6; /* operations a microsecond */
    int64_t quick = (int64_t)(SHORT_PRODUCT_US * rate / (2.0 * (double)n * (double)k));
    int64_t few = RING_WAVES * sms / wide_across(n) * WIDE_M, ring = quick < few ? quick : few;
    return tp > 1 && ring > wave ? ring / WIDE_M * WIDE_M : wave;
}

/* Times that a CTA's share of the link takes a tile while the next one is multiplied, from which on (H200: bench/NOTES.md) one
 * tile buffer is as good as an outbox behind it, and the copies into the outbox and back are saved. */
#define LINK_AHEAD 2.0

enum plan_straight plan_sends_straight(const struct config *config, enum arch arch, int64_t m, int64_t n, int64_t k,
                                       int tp) {
    static const enum field fixed[] = {FIELD_RING_PLACE,  FIELD_RING_DEPTH,  FIELD_CHUNK_BYTES,
                                       FIELD_CHUNK_COUNT, FIELD_GRANULARITY, FIELD_DRAIN_POLICY,
                                       FIELD_DRAIN_FLUSH, FIELD_SCHEDULE,    FIELD_CLUSTER};
    if (tp == 1 || config_arch_family(arch) != ARCH_SM90A || any_set(config, fixed, sizeof fixed / sizeof *fixed))
        return STRAIGHT_NEVER;
    int64_t link = config->is_set[FIELD_LINK_GBPS] ? config->value[FIELD_LINK_GBPS] : machine_of(arch)->link_gbps;
    if (plan_link_ahead(arch, (double)link, k, sms_planned(config, arch)) >= LINK_AHEAD)
        return STRAIGHT_LINK_AHEAD;
    return m <= plan_few_m(config, arch, n) ? STRAIGHT_FEW_TILES : STRAIGHT_NEVER;
}

#define TURN_N      168  /* the widest tile whose accumulators one warpgroup's registers hold */
#define TURN_SPEED  1.01 /* of its loop against that of wide tiles, whose epilogue nobody hides (H200: bench/NOTES.md) */
#define WIDE_STAGES 3    /* that shared memory holds beside a tile of 128 x 256 */
#define TURN_K      4096 /* below it the stages that wide tiles give back early are worth more (the same)      */
#define MOST_ROWS   16384

bool plan_takes_turns(const struct config *config, enum arch arch, int64_t m, int64_t n, int64_t k) {
    static const enum field fixed[] = {FIELD_TILE_M,  FIELD_TILE_N,     FIELD_SCHEDULE,
                                       FIELD_CLUSTER, FIELD_RING_PLACE, FIELD_DRAIN_POLICY};
    bool deep = config->is_set[FIELD_STAGES_LOAD] && config->value[FIELD_STAGES_LOAD] > WIDE_STAGES;
    if (config_arch_family(arch) != ARCH_SM90A || any_set(config, fixed, sizeof fixed / sizeof *fixed))
        return false;
    if (k < TURN_K && !deep)
        return false;
    int64_t sms = sms_planned(config, arch);
    int64_t rows = ((m < MOST_ROWS ? m : MOST_ROWS) + WIDE_M - 1) / WIDE_M;
    int64_t turn = rows * ((n + TURN_N - 1) / TURN_N), wide = rows * ((n + WIDE_N - 1) / WIDE_N);
    return (double)((turn + sms - 1) / sms * TURN_N) < TURN_SPEED * (double)((wide + sms - 1) / sms * WIDE_N);
}

/* A value whose reason is the link: one rank has none, and the reason says so. */
static void take_of_ring(const struct config *config, struct plan *plan, enum field field, int64_t value,
                         const char *reason) {
    take(config, plan, field, value, plan->shape.tp == 1 ? "nothing is sent" : reason);
}

/* Stages that shared memory holds beside tile buffers, chunks and barriers (for which 1 KiB is ample). */
static int64_t stages_beside(const struct plan *plan, int64_t columns) {
    const int64_t *v = plan->value;
    int64_t stage = (v[FIELD_TILE_M] + columns / v[FIELD_CTA_GROUP]) * v[FIELD_TILE_K] * 2;
    int64_t buffers = v[FIELD_RING_PLACE] == PLACE_SHARED ? v[FIELD_RING_DEPTH] : 1;
    int64_t panels = (columns + PLAN_PANEL_COLUMNS - 1) / PLAN_PANEL_COLUMNS;
    int64_t rest = v[FIELD_TILE_M] * panels * PLAN_PANEL_COLUMNS * 2 * buffers +
                   v[FIELD_CHUNK_BYTES] * v[FIELD_CHUNK_COUNT] + 1024;
    return rest > plan->shared_limit ? 0 : (plan->shared_limit - rest) / stage;
}

static int64_t stages_that_fit(const struct plan *plan) {
    int64_t fits = stages_beside(plan, plan->value[FIELD_TILE_N]);
    return fits > 8 ? 8 : fits < LEAST_STAGES ? LEAST_STAGES : fits;
}

/* What a deep ring in shared memory, and the registers of warps that send, leave of the columns that a tile would have. */
static void take_columns(const struct config *config, struct plan *plan, int64_t wanted, const char *reason) {
    plan_assign_warps(plan);
    bool lanes = plan->ship_lanes > 1 && config_arch_family(plan->arch) == ARCH_SM90A;
    for (; wanted > 64; wanted /= 2)
        if (plan->tile_buffers > 1 && stages_beside(plan, wanted) < LEAST_STAGES)
            reason = "ring.depth tile buffers and two stages leave no room for wider ones";
        else if (lanes && plan_most_columns(plan) < wanted)
            reason = "warps that send take registers of wider ones";
        else
            break;
    take(config, plan, FIELD_TILE_N, wanted, reason);
}

static int64_t accumulators_that_fit(const struct plan *plan) {
    int64_t fits = PLAN_TENSOR_COLUMNS / plan->value[FIELD_TILE_N];
    return fits > 4 ? 4 : fits;
}

void plan_defaults(const struct config *config, struct plan *plan) {
    const struct plan_shape *shape = &plan->shape;
    bool narrow = shape->m_max <= plan_narrow_m(config, plan->arch, shape->n, shape->k, shape->tp);
    bool small = shape->m_max <= plan_small_m(config, plan->arch, shape->n, shape->tp);
    bool pingpong = wants_pingpong(config), alone = plan->shape.tp == 1;
    bool turns = alone && !narrow && !small && plan_takes_turns(config, plan->arch, shape->m_max, shape->n, shape->k);
    enum plan_straight straight = plan_sends_straight(config, plan->arch, shape->m_max, shape->n, shape->k, shape->tp);

    take(config, plan, FIELD_SMS, 0, "the rank has the GPU to itself, or its share of it");
    take(config, plan, FIELD_LINK_GBPS, machine_of(plan->arch)->link_gbps, machine_of(plan->arch)->measured);
    take(config, plan, FIELD_TILE_M, small ? SMALL_M : WIDE_M,
         small                                           ? "few rows: more tiles, and each is made sooner"
         : config_arch_family(plan->arch) == ARCH_SM100A ? "a row in each lane of tensor memory"
                                                         : "two math warpgroups of 64 rows share B");
    take(config, plan, FIELD_TILE_K, 64, "one 128-byte swizzle panel a stage");
    if (turns)
        take(config, plan, FIELD_SCHEDULE, SCHEDULE_PINGPONG, "one warpgroup's epilogue beside the other's products");
    else
        take(config, plan, FIELD_SCHEDULE, SCHEDULE_COOPERATIVE, "the tile with most reuse");
    take(config, plan, FIELD_CTA_GROUP, 1, "one CTA a tile");
    if (plan->value[FIELD_CTA_GROUP] > 1)
        take(config, plan, FIELD_CLUSTER, plan->value[FIELD_CTA_GROUP], "a CTA pair is a cluster");
    else
        take(config, plan, FIELD_CLUSTER, 1, "no multicast: grids of any size");
    if (straight == STRAIGHT_LINK_AHEAD)
        take(config, plan, FIELD_RING_PLACE, PLACE_SHARED, "the link takes a tile well before the next one is made");
    else if (straight == STRAIGHT_FEW_TILES)
        take(config, plan, FIELD_RING_PLACE, PLACE_SHARED, "tiles are few: how soon one arrives is what counts");
    else
        take_of_ring(config, plan, FIELD_RING_PLACE, PLACE_GLOBAL,
                     "partials that wait for the link take no shared memory from A and B");
    if (straight != STRAIGHT_NEVER)
        take(config, plan, FIELD_RING_DEPTH, 1, "none has to wait for the link");
    else if (plan->value[FIELD_RING_PLACE] == PLACE_SHARED)
        take(config, plan, FIELD_RING_DEPTH, 2, "each more costs as much shared memory as a stage or two");
    else
        take_of_ring(config, plan, FIELD_RING_DEPTH, 4,
                     "a burst of a whole wave may queue for the link without stopping the products");
    if (alone || plan->value[FIELD_RING_PLACE] == PLACE_SHARED) {
        take_of_ring(config, plan, FIELD_CHUNK_BYTES, 1024, "tiles leave from where they were made");
        take_of_ring(config, plan, FIELD_CHUNK_COUNT, 1, "tiles leave from where they were made");
    } else {
        take(config, plan, FIELD_CHUNK_BYTES, 4096, "small enough that the loads of A and B do not wait behind one");
        take(config, plan, FIELD_CHUNK_COUNT, 4, "some come from the outbox while one leaves for the peer");
    }
    take_of_ring(config, plan, FIELD_GRANULARITY, GRANULARITY_TILE, "downstream may start on each tile as it lands");
    take_of_ring(config, plan, FIELD_GROUP, 1, "a bit a tile");
    take_of_ring(config, plan, FIELD_DRAIN_POLICY, DRAIN_RING, "never sleeps on a store in flight");
    take_of_ring(config, plan, FIELD_DRAIN_FLUSH, FLUSH_OWNER_BOUNDARY, "the ring's loop needs no other flush");
    if (alone)
        take(config, plan, FIELD_ORDER, ORDER_SEGMENT, "one segment");
    else if (plan->value[FIELD_GRANULARITY] != GRANULARITY_TILE)
        take(config, plan, FIELD_ORDER, ORDER_SEGMENT, "signals of several tiles, whatever the grid");
    else
        take(config, plan, FIELD_ORDER, ORDER_INTERLEAVE,
             "sending spreads over the whole run, where a segment has more waves than the lag");
    if (shape->k < PLAN_SHORT_K)
        take(config, plan, FIELD_LAG, 3, "waves are short: a burst needs more of them to arrive");
    else
        take(config, plan, FIELD_LAG, 2, "a wave's burst has crossed the link before its partials come due");
    take(config, plan, FIELD_M_MODE, M_DYNAMIC, "M is an argument of the launch");
    if (small)
        take_columns(config, plan, NARROW_N, "enough tiles for the SMs, where rows are few");
    else if (narrow)
        take_columns(config, plan, NARROW_N, "tiles of 256 columns make too few waves at this M");
    else if (turns)
        take_columns(config, plan, TURN_N, "the last wave of wider tiles would leave more SMs idle");
    else if (pingpong)
        take_columns(config, plan, NARROW_N, "each warpgroup keeps a whole tile in its registers");
    else
        take_columns(config, plan, WIDE_N, "the most products for each byte from L2");
    take(config, plan, FIELD_STAGES_ACCUM, accumulators_that_fit(plan), "as many as tensor memory holds, up to four");
    take(config, plan, FIELD_STAGES_LOAD, stages_that_fit(plan), "as many as shared memory holds");
}
