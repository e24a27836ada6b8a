#include "generator/waitgraph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "generator/waitgraph_graph.h"
#include "generator/waitgraph_rules.h"

/* ---------------------------------------------------------------- words */

static void steps_text(const struct waitgraph_result *result, struct buf *out) {
    for (int i = 0; i < result->steps; i++) {
        const struct waitgraph_step *s = &result->step[i];
        buf_printf(out, "\n  rank %d, CTA %d, prefetcher: tile %" PRId64 " of owner %d waits for rank %d, CTA %d, %s: ",
                   s->rank, s->cta, s->tile, s->owner, s->from_rank, s->from_cta, result->shared ? "storer" : "sender");
        if (s->held_owner != s->owner || s->held_tile != s->signal)
            buf_printf(out, "the signal of tile %" PRId64 " is held back until tile %" PRId64 " of owner %d is sent",
                       s->signal, s->held_tile, s->held_owner);
        else
            buf_printf(out, "tile %" PRId64 " of owner %d", s->signal, s->owner);
    }
    if (result->waits > result->steps)
        buf_printf(out, "\n  ... and %" PRId64 " more", result->waits - result->steps);
}

static void refusal_text(const struct waitgraph_result *result, struct buf *out) {
    buf_puts(out, result->why);
    if (result->verdict == WAITGRAPH_CYCLE) {
        buf_printf(out, "; %s of %" PRId64 " waits across ranks:", result->shortest ? "a shortest cycle" : "a cycle",
                   result->waits);
        steps_text(result, out);
    }
}

void waitgraph_explain(const struct waitgraph_result *result, struct buf *out) {
    if (result->verdict != WAITGRAPH_ACYCLIC) {
        buf_puts(out, "wait graph: refused: ");
        refusal_text(result, out);
        buf_puts(out, "\n");
        return;
    }
    buf_printf(out, "wait graph: no cycle with M %" PRId64, result->m_min);
    if (result->m_max != result->m_min)
        buf_printf(out, " to %" PRId64, result->m_max);
    buf_printf(out, " on %d", result->grid_min);
    if (result->grid_max != result->grid_min)
        buf_printf(out, " to %d", result->grid_max);
    buf_printf(out, " CTA%s a rank%s: %s\n", result->grid_max == 1 ? "" : "s",
               result->same_grid ? ", the same on every rank" : "", result->argument);
    if (result->waits < 0)
        return;
    buf_printf(out, "  %" PRId64 " tiles and %" PRId64 " signals a rank; longest chain: %" PRId64 " waits across ranks",
               result->tiles, result->signals, result->waits);
    steps_text(result, out);
    buf_puts(out, "\n");
}

static grs_status refuse(const struct waitgraph_result *result, grs_error *err) {
    struct buf text = {0};
    refusal_text(result, &text);
    grs_status status = text.failed ? error_set(err, GRS_ERR_MEMORY, "wait graph: no memory for the text of a cycle")
                                    : error_set(err, GRS_ERR_PLAN, "%s", text.data);
    buf_free(&text);
    return status;
}

/* ---------------------------------------------------------------- one launch */

static void say_held_back(const struct plan *plan, struct waitgraph_result *out) {
    snprintf(out->why, sizeof out->why,
             "drain.flush: never with ring.depth %" PRId64
             ", ring.place %s and order: %s holds back signals that ranks wait "
             "for in a circle, with M %" PRId64
             " on %d CTA%s a rank, allowed: owner_boundary, per_tile, or ring.depth 1",
             plan->value[FIELD_RING_DEPTH], plan->value[FIELD_RING_PLACE] == PLACE_SHARED ? "shared" : "global",
             plan->value[FIELD_ORDER] == ORDER_SEGMENT ? "segment" : "interleave", out->m_min, out->grid_max,
             out->grid_max == 1 ? "" : "s");
}

static grs_status check_graph(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                              struct waitgraph_result *out, grs_error *err) {
    struct waitgraph_graph graph = {0};
    struct waitgraph_sort sort = {0};
    grs_status status = waitgraph_graph_build(plan, M, grid, wave, &graph, err);
    if (status != GRS_OK)
        return status;
    if ((status = waitgraph_sort_run(&graph, &sort, err)) != GRS_OK)
        goto done;
    out->tiles = graph.total;
    out->signals = graph.rank[0].first_bit[graph.sending];
    if (sort.removed < (int64_t)graph.ranks * graph.total) {
        out->verdict = WAITGRAPH_CYCLE;
        status = waitgraph_find_cycle(&graph, &sort, out, err);
    } else {
        out->verdict = WAITGRAPH_ACYCLIC;
        waitgraph_longest_chain(&graph, &sort, out);
    }
done:
    waitgraph_sort_free(&sort);
    waitgraph_graph_free(&graph);
    return status;
}

static grs_status check_arguments(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                                  grs_error *err) {
    if (M < 1)
        return error_set(err, GRS_ERR_ARGUMENT, "wait graph: M is %" PRId64 ", allowed: at least 1", M);
    int cluster = (int)plan->value[FIELD_CLUSTER];
    for (int r = 0; r < plan->shape.tp; r++)
        if (grid[r] < 1 || grid[r] % cluster || wave[r] < cluster)
            return error_set(
                err, GRS_ERR_ARGUMENT,
                "wait graph: rank %d has %d CTAs and waves of %d tiles, allowed: multiples of tile.cluster %d", r,
                grid[r], wave[r], cluster);
    return GRS_OK;
}

grs_status waitgraph_check_ranks(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                                 struct waitgraph_result *out, grs_error *err) {
    int smallest[GRS_MAX_TP] = {0}, low = grid[0], high = grid[0], common;
    for (int r = 1; r < plan->shape.tp; r++) {
        low = grid[r] < low ? grid[r] : low;
        high = grid[r] > high ? grid[r] : high;
    }
    for (int r = 0; r < plan->shape.tp; r++)
        smallest[r] = low;
    wave = wave ? wave : smallest;
    grs_status status = check_arguments(plan, M, grid, wave, err);
    if (status != GRS_OK)
        return status;
    common = wave[0];
    for (int r = 1; r < plan->shape.tp; r++)
        common = wave[r] == wave[0] ? common : 0;

    *out = (struct waitgraph_result){.m_min = M,
                                     .m_max = M,
                                     .grid_min = low,
                                     .grid_max = high,
                                     .waits = -1,
                                     .shared = plan->value[FIELD_RING_PLACE] == PLACE_SHARED,
                                     .argument = waitgraph_argument(plan, M, high, common)};
    bool rule = waitgraph_breaks_rule(plan, M, wave, out->why, sizeof out->why);
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    if (tiles.total * plan->shape.tp <= WAITGRAPH_MAX_TILES) {
        status = check_graph(plan, M, grid, wave, out, err);
        if (status != GRS_OK)
            return status;
        if (out->verdict == WAITGRAPH_CYCLE && !rule)
            say_held_back(plan, out);
        if (out->verdict == WAITGRAPH_ACYCLIC && !rule && !out->argument)
            out->argument = "its graph was sorted";
    } else if (!out->argument) {
        out->verdict = WAITGRAPH_UNPROVEN;
        if (!rule)
            snprintf(out->why, sizeof out->why,
                     "drain.flush: never with M %" PRId64 " makes %" PRId64
                     " tiles on %d ranks, too many to look for a cycle "
                     "among them, allowed: owner_boundary, per_tile, or at most %d tiles",
                     M, tiles.total, plan->shape.tp, WAITGRAPH_MAX_TILES / plan->shape.tp);
    }
    if (rule && out->verdict != WAITGRAPH_CYCLE)
        out->verdict = WAITGRAPH_RULE;
    if (out->verdict == WAITGRAPH_ACYCLIC)
        return GRS_OK;
    return refuse(out, err);
}

grs_status waitgraph_check(const struct plan *plan, int64_t M, int grid, struct waitgraph_result *out, grs_error *err) {
    int grids[GRS_MAX_TP];
    for (int r = 0; r < plan->shape.tp; r++)
        grids[r] = grid;
    return waitgraph_check_ranks(plan, M, grids, NULL, out, err);
}
