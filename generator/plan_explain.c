#include "generator/plan_explain.h"

#include "generator/machine.h"

#define MATH_WARPS 4 /* of a warpgroup */
#define LANES      32

static const char *const loader_waits[] = {"stage_free: what is in the stage has been multiplied", NULL};
static const char *const prefetcher_waits[] = {"upstream's mask bit: the partial of a MIDDLE or END tile has landed",
                                               "tile_free: what was in the tile buffer has been stored", NULL};
static const char *const prefetcher_alone_waits[] = {"tile_free: what was in the tile buffer has been stored", NULL};
static const char *const storer_waits[] = {
    "tile_full: the math warps have put the sum into a tile buffer",
    "outbox_sent: the oldest outbox tile has landed; then it sets the tile's bit (slept on only when all are full)",
    NULL};
static const char *const storer_alone_waits[] = {"tile_full: the math warps have put the sum into a tile buffer", NULL};
static const char *const sender_waits[] = {
    "outbox_full: a tile to send", "downstream's credit, once a launch: it has left the launch before",
    "chunk_full: a chunk has come from the outbox", "its pace: this CTA's share of the link", NULL};
static const char *const sender_lane_waits[] = {
    "outbox_full: a tile to send",
    "downstream's credit, once a launch: it has left the launch before",
    "chunk_full: its own chunk has come from the outbox",
    "its pace: its part of this CTA's share of the link",
    "its own stores: the last of these warps to have a tile landed says so with outbox_sent",
    NULL};
static const char *const shipper_waits[] = {
    "tile_full: the math warps have put the sum into a tile buffer",
    "downstream's credit, once a launch: it has left the launch before", "its pace: this CTA's share of the link",
    "its own stores, oldest first, as drain says: then it frees the buffer and sets the bit", NULL};
static const char *const unpaced_shipper_waits[] = {
    "tile_full: the math warps have put the sum into a tile buffer",
    "downstream's credit, once a launch: it has left the launch before",
    "its own stores, oldest first, as drain says: then it frees the buffer and sets the bit", NULL};
static const char *const shipper_lane_waits[] = {"tile_full: the math warps have put the sum into its own tile buffer",
                                                 "downstream's credit, once a launch: it has left the launch before",
                                                 "its pace: this CTA's share of the link",
                                                 "its own store: then it frees the buffer and sets the bit", NULL};
static const char *const math_waits[] = {"stage_full: A and B of a k-block",
                                         "tile_ready: a tile buffer, with the partial in it", NULL};

static const char *const math_tensor_waits[] = {"tile_ready: a tile buffer, with the partial in it",
                                                "accum_full: the products of the tile, in tensor memory", NULL};
static const char *const issuer_waits[] = {"accum_free: the math warps have read what is in the accumulator",
                                           "stage_full: A and B of a k-block", NULL};

int explain_roles(const struct plan *plan, struct explain_role out[EXPLAIN_MAX_ROLES]) {
    bool alone = plan->shape.tp == 1, shared = plan->value[FIELD_RING_PLACE] == PLACE_SHARED;
    bool lanes = plan->ship_lanes > 1;
    int count = 0, few = plan->registers_producer, many = plan->registers_consumer;
    out[count++] = (struct explain_role){"loader", GRS_ROLE_LOADER, 1, few, loader_waits};
    out[count++] = (struct explain_role){"prefetcher", GRS_ROLE_PREFETCHER, 1, few,
                                         alone ? prefetcher_alone_waits : prefetcher_waits};
    if (shared) { /* from where the math warps left the tile, by one thread or by one a buffer */
        out[count++] = (struct explain_role){"storer", GRS_ROLE_STORER, 1, few,
                                             lanes                 ? shipper_lane_waits
                                             : plan_is_paced(plan) ? shipper_waits
                                                                   : unpaced_shipper_waits};
        out[count++] = (struct explain_role){"storer", GRS_ROLE_SENDER, 1, few, lanes ? shipper_lane_waits : NULL};
    } else {
        out[count++] =
            (struct explain_role){"storer", GRS_ROLE_STORER, 1, few, alone ? storer_alone_waits : storer_waits};
        out[count++] = (struct explain_role){"sender", GRS_ROLE_SENDER, 1, few,
                                             alone   ? NULL
                                             : lanes ? sender_lane_waits
                                                     : sender_waits};
    }
    int warp = GRS_ROLE_MATH;
    for (int i = 0; i < plan->consumer_warpgroups; i++, warp += MATH_WARPS)
        out[count++] = (struct explain_role){"math", warp, MATH_WARPS, many,
                                             plan->tensor_columns ? math_tensor_waits : math_waits};
    if (plan->tensor_columns)
        out[count++] = (struct explain_role){"issuer", warp++, 1, few, issuer_waits};
    const char *beside = shared ? "storer" : "sender";
    if (plan->beside_warps)
        out[count++] = (struct explain_role){beside, warp, plan->beside_warps, few,
                                             shared ? shipper_lane_waits : sender_lane_waits};
    warp += plan->beside_warps;
    if (warp < plan->threads / LANES)
        out[count++] = (struct explain_role){"spare", warp, plan->threads / LANES - warp, few, NULL};
    return count;
}

void explain_run_at(const struct tileorder *order, int64_t position, struct explain_run *out) {
    int turn;
    int64_t tile, end;
    tileorder_at(order, position, &turn, &tile);
    end = tileorder_tiles(order, turn);
    if (order->lag && (tile / order->wave + 1) * order->wave < end)
        end = (tile / order->wave + 1) * order->wave;
    *out = (struct explain_run){.position = position,
                                .count = end - tile,
                                .tile = tile,
                                .turn = turn,
                                .owner = tileorder_owner(order, turn),
                                .distance = order->plan->shape.tp - 1 - turn / order->per_rank};
}

const char *explain_kind(const struct plan *plan, int distance) {
    if (plan->shape.tp == 1)
        return "ALONE";
    return distance == 0 ? "END" : distance == plan->shape.tp - 1 ? "START" : "MIDDLE";
}

static int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

void explain_tile_of(const struct tileorder *order, int owner, int64_t tile, struct explain_tile *out) {
    const struct plan *plan = order->plan;
    int64_t tile_m, tile_n, rows = plan_segment_rows_of(plan, order->M, owner);
    struct plan_tiles tiles;
    plan_tiles_of(plan, order->M, &tiles);
    tileorder_raster(order, owner, tile, &tile_m, &tile_n);
    int64_t row = tile_m * plan->value[FIELD_TILE_M], column = tile_n * plan->value[FIELD_TILE_N];
    *out = (struct explain_tile){.row = owner * tiles.segment_rows + row,
                                 .rows = minimum(plan->value[FIELD_TILE_M], rows - row),
                                 .column = column,
                                 .columns = minimum(plan->value[FIELD_TILE_N], plan->shape.n - column)};
}

bool explain_matters(const struct plan *plan, enum field field) {
    if (!config_arch_knows(plan->arch, field))
        return false;
    switch (field) {
    case FIELD_GROUP: return plan->value[FIELD_GRANULARITY] == GRANULARITY_GROUP;
    case FIELD_LAG: return plan->value[FIELD_ORDER] == ORDER_INTERLEAVE;
    case FIELD_CHUNK_BYTES:
    case FIELD_CHUNK_COUNT: return plan->value[FIELD_RING_PLACE] == PLACE_GLOBAL;
    default: return true;
    }
}

int explain_grid(const struct plan *plan) {
    return plan->value[FIELD_SMS] ? (int)plan->value[FIELD_SMS] : machine_of(plan->arch)->sms;
}
