/* Every M of a class on every grid: by argument where one reaches, else launch by launch. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "generator/tileorder.h"
#include "generator/waitgraph_graph.h"
#include "generator/waitgraph_rules.h"

/* Tiles to sort, and Ms to look at, before a class counts as unproven: a fraction of a second. */
#define CLASS_WORK (INT64_C(1) << 23)

struct grids {
    int low, high, step; /* CTAs a rank; whole clusters */
};

/* Where `sms` says it, launches are held to that grid: waitgraph_check_grids. */
static struct grids grids_of(const struct plan *plan) {
    int cluster = (int)plan->value[FIELD_CLUSTER], sms = (int)plan->value[FIELD_SMS];
    struct grids grids = {cluster, plan->max_grid, cluster};
    if (sms && sms <= plan->max_grid)
        grids.low = grids.high = sms;
    return grids;
}

static void accept(const struct plan *plan, const struct grids *grids, const char *argument,
                   struct waitgraph_result *out) {
    *out = (struct waitgraph_result){.verdict = WAITGRAPH_ACYCLIC,
                                     .argument = argument,
                                     .m_min = plan->shape.m_min,
                                     .m_max = plan->shape.m_max,
                                     .grid_min = grids->low,
                                     .grid_max = grids->high,
                                     .waits = -1,
                                     .shared = plan->value[FIELD_RING_PLACE] == PLACE_SHARED};
}

static bool breaks_rule(const struct plan *plan, int64_t M, int wave) {
    int waves[GRS_MAX_TP];
    char why[sizeof((struct waitgraph_result *)0)->why];
    for (int r = 0; r < plan->shape.tp; r++)
        waves[r] = wave;
    return waitgraph_breaks_rule(plan, M, waves, why, sizeof why);
}

/* Interleaved signals of several tiles. More tiles never make the widest signal narrower, so the largest M of the class
 * decides for each wave, and the smallest M that breaks the rule can be bisected. */
static grs_status check_spans(const struct plan *plan, const struct grids *grids, struct waitgraph_result *out,
                              grs_error *err) {
    for (int wave = plan->group_tiles == 1 ? INT_MAX : grids->low; wave <= grids->high; wave += grids->step) {
        if (!breaks_rule(plan, plan->shape.m_max, wave))
            continue;
        int64_t holds = plan->shape.m_min - 1, broken = plan->shape.m_max;
        while (broken - holds > 1) {
            int64_t middle = holds + (broken - holds) / 2;
            if (breaks_rule(plan, middle, wave))
                broken = middle;
            else
                holds = middle;
        }
        return waitgraph_check(plan, broken, wave, out, err); /* refuses, with a cycle where there is one */
    }
    return GRS_OK;
}

/* From this M on, the distance between a tile and what it waits for exceeds what signals are held back over, on any grid
 * of the class: the last owner has at least c - segments + 1 rows. INT64_MAX: never. */
static int64_t distance_suffices_from(const struct plan *plan, const struct grids *grids) {
    if (plan->value[FIELD_ORDER] != ORDER_SEGMENT || plan->group_tiles == 0)
        return INT64_MAX;
    struct plan_tiles tiles;
    plan_tiles_of(plan, 1, &tiles);
    int64_t held = (plan->value[FIELD_RING_DEPTH] - 1) * grids->high + plan->group_tiles - 1;
    int64_t tiles_a_row = tiles.tiles_n * (plan->segments / plan->shape.tp);
    int64_t rows = held / tiles_a_row * plan->value[FIELD_TILE_M] + 1;
    return (rows + plan->segments - 1) * plan->segments;
}

static grs_status unproven(const struct plan *plan, int64_t M, struct waitgraph_result *out, grs_error *err) {
    out->verdict = WAITGRAPH_UNPROVEN;
    snprintf(out->why, sizeof out->why,
             "drain.flush: never: of M %" PRId64 " to %" PRId64 " those from %" PRId64
             " on could not be proved free of cycles "
             "on all grids up to %d, allowed: owner_boundary, per_tile, ring.depth 1, or m: fixed with a number of sms",
             plan->shape.m_min, plan->shape.m_max, M, out->grid_max);
    return error_set(err, GRS_ERR_PLAN, "%s", out->why);
}

static bool same_tiles(const struct plan *plan, int64_t M, int64_t other) {
    for (int o = 0; o < plan->segments; o++)
        if (plan_segment_tiles_of(plan, M, o) != plan_segment_tiles_of(plan, other, o))
            return false;
    return true;
}

/* `flush: never`: Ms with different counts of tiles, on every grid. */
static grs_status check_each(const struct plan *plan, const struct grids *grids, struct waitgraph_result *out,
                             grs_error *err) {
    int64_t end = distance_suffices_from(plan, grids), work = 0;
    bool sorted = false;
    if (end > plan->shape.m_max)
        end = plan->shape.m_max + 1;
    for (int64_t M = plan->shape.m_min; M < end; M++) {
        work += plan->segments;
        if (M > plan->shape.m_min && same_tiles(plan, M, M - 1))
            continue;
        struct plan_tiles tiles;
        plan_tiles_of(plan, M, &tiles);
        for (int grid = grids->low; grid <= grids->high; grid += grids->step) {
            if (waitgraph_argument(plan, M, grid, grid))
                continue;
            struct waitgraph_result launch;
            work += tiles.total * plan->shape.tp;
            if (work > CLASS_WORK)
                return unproven(plan, M, out, err);
            grs_status status = waitgraph_check(plan, M, grid, &launch, err);
            if (status != GRS_OK) {
                *out = launch;
                return status;
            }
            sorted = true;
        }
        if (work > CLASS_WORK)
            return unproven(plan, M, out, err);
    }
    if (sorted) {
        out->same_grid = true;
        out->argument =
            "the graph of every count of tiles was sorted on each of these grids, as far as no argument reaches";
    } else {
        out->grid_min = grids->step; /* the argument for the largest grid is one for smaller ones */
        out->argument = "signals are held back over fewer positions than a tile comes after the one that it waits for";
    }
    return GRS_OK;
}

grs_status waitgraph_check_class(const struct plan *plan, struct waitgraph_result *out, grs_error *err) {
    struct grids grids = grids_of(plan);
    bool interleaved = plan->value[FIELD_ORDER] == ORDER_INTERLEAVE;
    grs_status status = GRS_OK;
    accept(plan, &grids, NULL, out);
    if (interleaved && plan->shape.tp > 1)
        status = check_spans(plan, &grids, out, err);
    if (status != GRS_OK)
        return status;
    if (waitgraph_holds_back(plan) && plan->shape.tp > 1)
        return check_each(plan, &grids, out, err);
    /* Spans are within the lag on every grid, and nothing is held back: the argument of one launch is that of all. */
    out->argument = waitgraph_argument(plan, plan->shape.m_max, grids.high, grids.high);
    if (!interleaved || plan->group_tiles == 1)
        out->grid_min = grids.step;
    return GRS_OK;
}

grs_status waitgraph_check_grids(const struct plan *plan, const int *grid, grs_error *err) {
    struct waitgraph_result class;
    char proved[48];
    grs_status status = waitgraph_check_class(plan, &class, err);
    if (status != GRS_OK)
        return status;
    snprintf(proved, sizeof proved, class.grid_min == class.grid_max ? "%d" : "%d to %d", class.grid_min,
             class.grid_max);
    for (int r = 0; r < plan->shape.tp; r++) {
        if (grid[r] < class.grid_min || grid[r] > class.grid_max)
            return error_set(
                err, GRS_ERR_PLAN,
                "%s: rank %d has %d CTAs; that ranks do not wait for one another in a circle is proved for %s "
                "(sms sets the number)",
                plan->name, r, grid[r], proved);
        if (class.same_grid && grid[r] != grid[0])
            return error_set(
                err, GRS_ERR_PLAN,
                "%s: rank 0 has %d CTAs and rank %d has %d; that ranks do not wait for one another in a circle "
                "is proved for the same number on every rank (drain.flush: never)",
                plan->name, grid[0], r, grid[r]);
    }
    return GRS_OK;
}
