/* The wait graph of a small launch, built from its definition with a matrix of all pairs of tiles, and searched the slow way:
 * what the checker's graphs, chains and shortest cycles are compared with. */
#ifndef GRS_TESTS_NAIVE_WAITGRAPH_H
#define GRS_TESTS_NAIVE_WAITGRAPH_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "generator/tileorder.h"

#define NAIVE_MAX 1600

/* Tiles of all ranks, rank after rank by position. wait[x][y]: x waits for y of the next rank; same[x][y]: y is the tile
 * that x has before it in its CTA or cluster. */
struct naive {
    int ranks, total, nodes;
    int turn[NAIVE_MAX], tile[NAIVE_MAX], grid[GRS_MAX_TP];
    unsigned char wait[NAIVE_MAX][NAIVE_MAX], same[NAIVE_MAX][NAIVE_MAX];
};
static struct naive naive;

static bool naive_counts(const struct plan *plan, int turn) {
    return turn < plan->segments - plan->segments / plan->shape.tp || plan->value[FIELD_RING_PLACE] == PLACE_SHARED;
}

/* The position whose store lets the signal of `position` be set. */
static int naive_hold(const struct plan *plan, int rank, int position) {
    if (plan->value[FIELD_DRAIN_POLICY] != DRAIN_RING || plan->value[FIELD_DRAIN_FLUSH] != FLUSH_NEVER)
        return position;
    int hold = position;
    int64_t more = plan->value[FIELD_RING_DEPTH] - 1;
    for (int p = position + naive.grid[rank]; p < naive.total && more > 0; p += naive.grid[rank])
        if (naive_counts(plan, naive.turn[rank * naive.total + p])) {
            hold = p;
            more--;
        }
    return hold;
}

/* Block `blocks - 1` of a tile goes into the stage of the block `stages` before it; the math warps of a mate read that one
 * once they are done with the tile before the one it belongs to. Counted in tiles back from the first. */
static int naive_ahead(const struct plan *plan) {
    int blocks = (int)((plan->shape.k + 63) / 64), block = blocks - 1 - (int)plan->value[FIELD_STAGES_LOAD], rows = 1;
    for (; block < 0; block += blocks)
        rows++;
    return rows;
}

static bool naive_build(const struct plan *plan, int64_t M, const int *grid, const int *wave) {
    struct plan_tiles tiles;
    int q = plan->segments / plan->shape.tp, cluster = (int)plan->value[FIELD_CLUSTER];
    plan_tiles_of(plan, M, &tiles);
    if (tiles.total * plan->shape.tp > NAIVE_MAX)
        return false;
    memset(&naive, 0, sizeof naive);
    naive.ranks = plan->shape.tp;
    naive.total = (int)tiles.total;
    naive.nodes = naive.ranks * naive.total;
    for (int r = 0; r < naive.ranks; r++) {
        struct tileorder order;
        naive.grid[r] = grid[r];
        tileorder_init(plan, M, r, wave[r], &order);
        for (int p = 0; p < naive.total; p++) {
            int64_t tile;
            tileorder_at(&order, p, &naive.turn[r * naive.total + p], &tile);
            naive.tile[r * naive.total + p] = (int)tile;
        }
    }
    for (int x = 0; x < naive.nodes; x++) {
        int r = x / naive.total, p = x % naive.total, up = (r + 1) % naive.ranks;
        for (int mate = 0; mate < grid[r]; mate++) {
            int rows = mate == p % grid[r] ? 1 : naive_ahead(plan);
            if (p / grid[r] >= rows && mate / cluster == p % grid[r] / cluster)
                naive.same[x][r * naive.total + p - p % grid[r] - rows * grid[r] + mate] = 1;
        }
        for (int y = up * naive.total; y < (up + 1) * naive.total; y++) {
            bool shares =
                plan->group_tiles == 0 || naive.tile[y] / plan->group_tiles == naive.tile[x] / plan->group_tiles;
            if (naive.turn[x] >= q && naive.turn[y] == naive.turn[x] - q && shares)
                naive.wait[x][up * naive.total + naive_hold(plan, up, y % naive.total)] = 1;
        }
    }
    return true;
}

/* Longest chain of waits across ranks that ends in x; -1 on or behind a cycle. */
static int naive_depth[NAIVE_MAX];
static bool naive_sort(void) {
    int removed = 0;
    for (int x = 0; x < naive.nodes; x++)
        naive_depth[x] = -1;
    for (bool progress = true; progress;) {
        progress = false;
        for (int x = 0; x < naive.nodes; x++) {
            int depth = 0;
            for (int y = 0; y < naive.nodes && depth >= 0 && naive_depth[x] < 0; y++)
                if (naive.wait[x][y] || naive.same[x][y]) {
                    int here = naive_depth[y] < 0 ? -1 : naive_depth[y] + naive.wait[x][y];
                    depth = here < 0 ? -1 : here > depth ? here : depth;
                }
            if (naive_depth[x] < 0 && depth >= 0) {
                naive_depth[x] = depth;
                progress = true;
                removed++;
            }
        }
    }
    return removed == naive.nodes;
}

/* Fewest waits across ranks on a cycle, by a search from every tile of rank 0, hop by hop. */
static int naive_shortest(void) {
    static int distance[NAIVE_MAX], list[2][NAIVE_MAX];
    int best = INT_MAX;
    for (int source = 0; source < naive.total; source++) {
        if (naive_depth[source] >= 0)
            continue;
        int count = 1, next;
        for (int x = 0; x < naive.nodes; x++)
            distance[x] = -1;
        list[0][0] = source;
        for (int hops = 1; count > 0 && hops < best && distance[source] < 0; hops++, count = next) {
            next = 0;
            for (int n = 0; n < count; n++)
                for (int y = 0; y < naive.nodes; y++)
                    if (naive.wait[list[0][n]][y] && distance[y] < 0 && naive_depth[y] < 0) {
                        distance[y] = hops;
                        list[1][next++] = y;
                    }
            for (int n = 0; n < next; n++) /* what comes before those tiles needs no further hop */
                for (int y = 0; y < naive.nodes; y++)
                    if (naive.same[list[1][n]][y] && distance[y] < 0 && naive_depth[y] < 0) {
                        distance[y] = hops;
                        list[1][next++] = y;
                    }
            memcpy(list[0], list[1], sizeof(int) * (size_t)next);
        }
        best = distance[source] > 0 ? distance[source] : best;
    }
    return best;
}

#endif
