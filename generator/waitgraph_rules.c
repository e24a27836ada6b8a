#include "generator/waitgraph_rules.h"

#include <inttypes.h>
#include <stdio.h>

#include "generator/tileorder.h"
#include "generator/waitgraph_graph.h"

/* Tiles of the largest signal of a launch. */
static int64_t signal_tiles(const struct plan *plan, int64_t M) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    return plan->group_tiles && plan->group_tiles < tiles.max_tiles ? plan->group_tiles : tiles.max_tiles;
}

int64_t waitgraph_distance(const struct plan *plan, int64_t M) {
    int64_t fewest = INT64_MAX;
    for (int rank = 0; rank < plan->shape.tp; rank++) {
        struct tileorder order;
        int64_t start = 0; /* what a rank has before the segments that upstream begins with */
        tileorder_init(plan, M, rank, 1, &order);
        for (int turn = 0; turn < order.per_rank; turn++)
            start += tileorder_tiles(&order, turn);
        fewest = start < fewest ? start : fewest;
    }
    return fewest;
}

int64_t waitgraph_span(const struct plan *plan, int64_t M, int64_t wave) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    int64_t group = signal_tiles(plan, M), widest = 0;
    wave = wave / plan->value[FIELD_CLUSTER] * plan->value[FIELD_CLUSTER];
    /* Groups meet waves alike after `wave` of them; the last group of a segment is no wider than others. */
    for (int64_t first = 0, i = 0; first < tiles.max_tiles && i <= wave; first += group, i++) {
        int64_t last = first + group < tiles.max_tiles ? first + group - 1 : tiles.max_tiles - 1;
        int64_t waves = last / wave - first / wave;
        widest = waves > widest ? waves : widest;
    }
    return widest;
}

/* Waves between a tile and the one that it waits for. */
static int64_t lag_of(const struct plan *plan) {
    return plan->value[FIELD_LAG] * (plan->segments / plan->shape.tp);
}

bool waitgraph_breaks_rule(const struct plan *plan, int64_t M, const int *wave, char *why, size_t size) {
    if (plan->value[FIELD_ORDER] != ORDER_INTERLEAVE || plan->shape.tp == 1)
        return false;
    for (int r = 1; r < plan->shape.tp; r++)
        if (wave[r] != wave[0]) {
            snprintf(
                why, size,
                "order.interleave: waves of %d tiles on rank 0 and %d on rank %d, allowed: the same wave on every rank",
                wave[0], wave[r], r);
            return true;
        }
    int64_t span = waitgraph_span(plan, M, wave[0]), lag = lag_of(plan);
    if (span <= lag)
        return false;
    static const char allowed[] = "(sms: more CTAs make longer waves), signal.granularity: tile, or order: segment";
    if (plan->group_tiles == 0)
        snprintf(why, size,
                 "signal.granularity: segment with order.interleave %" PRId64 ": a segment of %" PRId64
                 " tiles reaches over %" PRId64 " waves of %d, allowed: at most %" PRId64 " waves %s",
                 plan->value[FIELD_LAG], signal_tiles(plan, M), span + 1, wave[0], lag + 1, allowed);
    else
        snprintf(why, size,
                 "signal.granularity: {group: %d} with order.interleave %" PRId64
                 ": the last tile of a group comes %" PRId64 " waves of %d after its first, allowed: at most %" PRId64
                 " waves %s",
                 plan->group_tiles, plan->value[FIELD_LAG], span, wave[0], lag, allowed);
    return true;
}

const char *waitgraph_argument(const struct plan *plan, int64_t M, int grid, int wave) {
    if (plan->shape.tp == 1)
        return "one rank waits for no other";
    if (!waitgraph_holds_back(plan)) {
        if (plan->value[FIELD_ORDER] == ORDER_SEGMENT)
            return "a tile waits for an earlier segment of upstream, whatever the grids";
        if (wave > 0 && waitgraph_span(plan, M, wave) <= lag_of(plan))
            return "waves are alike on all ranks, and a tile waits for no later wave of upstream than its own, "
                   "whatever the "
                   "grids";
        return NULL;
    }
    int64_t held = (plan->value[FIELD_RING_DEPTH] - 1) * grid + signal_tiles(plan, M) - 1;
    if (plan->value[FIELD_ORDER] == ORDER_SEGMENT && waitgraph_distance(plan, M) > held)
        return "signals are held back over fewer positions than a tile comes after the one that it waits for";
    return NULL;
}
