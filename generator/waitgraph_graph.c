#include "generator/waitgraph_graph.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

bool waitgraph_holds_back(const struct plan *plan) {
    /* One store in flight is drained at once; a thread a stage, or a wait after every tile, holds nothing back either. */
    return plan->value[FIELD_DRAIN_POLICY] == DRAIN_RING && plan->value[FIELD_DRAIN_FLUSH] == FLUSH_NEVER &&
           plan->value[FIELD_RING_DEPTH] > 1;
}

/* ---------------------------------------------------------------- building */

/* Stores are counted in the order of the thread that issues them: in shared memory the stores of END tiles to D go through
 * the same buffers and count, with an outbox only what is sent does. */
static bool counts_as_store(const struct waitgraph_graph *graph, int turn) {
    return turn < graph->sending || graph->plan->value[FIELD_RING_PLACE] == PLACE_SHARED;
}

/* With `depth` stores in flight the oldest is drained, and at the end of the queue all are: the signal of the i-th store of
 * a CTA is set once the (i + depth - 1)-th, or the last one, is issued. */
static void hold_back(const struct waitgraph_graph *graph, struct waitgraph_rank *rank) {
    int64_t depth = graph->plan->value[FIELD_RING_DEPTH];
    for (int32_t cta = 0; cta < rank->grid && cta < graph->total; cta++) {
        int32_t ring[8] = {0}, last = -1; /* positions of the stores in flight; ring.depth is at most 8 */
        int64_t issued = 0, drained = 0;
        for (int64_t p = cta; p < graph->total; p += rank->grid) {
            if (!counts_as_store(graph, rank->turn[p]))
                continue;
            last = (int32_t)p;
            ring[issued++ % depth] = last;
            if (issued - drained == depth)
                rank->hold[ring[drained++ % depth]] = last;
        }
        while (drained < issued)
            rank->hold[ring[drained++ % depth]] = last;
    }
}

static grs_status build_rank(struct waitgraph_graph *graph, struct waitgraph_rank *rank, grs_error *err) {
    int32_t total = graph->total, segments = graph->plan->segments;
    rank->turn = malloc(sizeof(int32_t) * (4 * (size_t)total + 2 * (size_t)segments + 2));
    if (!rank->turn)
        return error_set(err, GRS_ERR_MEMORY, "wait graph: no memory for %d tiles", total);
    rank->tile = rank->turn + total;
    rank->position = rank->tile + total;
    rank->hold = rank->position + total;
    rank->first = rank->hold + total;
    rank->first_bit = rank->first + segments + 1;

    rank->first[0] = rank->first_bit[0] = 0;
    for (int t = 0; t < segments; t++) {
        int32_t tiles = (int32_t)tileorder_tiles(&rank->order, t);
        rank->first[t + 1] = rank->first[t] + tiles;
        rank->first_bit[t + 1] =
            rank->first_bit[t] + (t < graph->sending ? (tiles + graph->group - 1) / graph->group : 0);
    }
    struct tileorder_cursor cursor;
    for (int32_t p = 0; p < total; p++) {
        if (p == 0)
            tileorder_begin(&rank->order, &cursor);
        else
            tileorder_next(&rank->order, &cursor);
        rank->turn[p] = cursor.turn;
        rank->tile[p] = (int32_t)cursor.tile;
        rank->position[rank->first[cursor.turn] + cursor.tile] = p;
        rank->hold[p] = cursor.turn < graph->sending ? p : -1;
    }
    if (waitgraph_holds_back(graph->plan)) {
        hold_back(graph, rank);
        for (int32_t p = 0; p < total; p++)
            if (rank->turn[p] >= graph->sending)
                rank->hold[p] = -1; /* stores to D are drained too, but signal nothing */
    }
    return GRS_OK;
}

/* A stage is filled again when the math warps of the whole cluster have read it, and those of a CTA go on to the next tile
 * when they are done with the one before. So a CTA's products of a tile wait for the tile of each mate that lies as many
 * rows back as it takes to fill all stages, and one. Where products run further ahead of what adds the partials (pingpong,
 * accumulators in tensor memory) this is more than is waited for, and so as good for a proof. */
static int tiles_ahead(const struct plan *plan) {
    int64_t blocks = (plan->shape.k + plan->value[FIELD_TILE_K] - 1) / plan->value[FIELD_TILE_K];
    return (int)((plan->value[FIELD_STAGES_LOAD] + blocks) / blocks); /* ceil((stages + 1) / blocks) */
}

/* Ranks with equal segments, grids and waves run the same program with owners renamed. */
static bool ranks_alike(const struct plan *plan, int64_t M, const int *grid, const int *wave) {
    int64_t tiles = plan_segment_tiles_of(plan, M, 0);
    for (int o = 1; o < plan->segments; o++)
        if (plan_segment_tiles_of(plan, M, o) != tiles)
            return false;
    for (int r = 1; r < plan->shape.tp; r++)
        if (grid[r] != grid[0] || wave[r] != wave[0])
            return false;
    return true;
}

grs_status waitgraph_graph_build(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                                 struct waitgraph_graph *out, grs_error *err) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    struct waitgraph_graph graph = {
        .plan = plan,
        .ranks = ranks_alike(plan, M, grid, wave) ? 1 : plan->shape.tp,
        .ring = plan->shape.tp,
        .per_rank = plan->segments / plan->shape.tp,
        .sending = plan->segments - plan->segments / plan->shape.tp,
        .cluster = (int)plan->value[FIELD_CLUSTER],
        .ahead = tiles_ahead(plan),
        .total = (int32_t)tiles.total,
        .group = plan->group_tiles ? plan->group_tiles : (int32_t)tiles.max_tiles,
    };
    graph.rank = calloc((size_t)graph.ranks, sizeof *graph.rank);
    if (!graph.rank)
        return error_set(err, GRS_ERR_MEMORY, "wait graph: no memory for %d ranks", graph.ranks);
    for (int r = 0; r < graph.ranks; r++) {
        struct waitgraph_rank *rank = &graph.rank[r];
        tileorder_init(plan, M, r, wave[r], &rank->order);
        rank->grid = grid[r];
        grs_status status = build_rank(&graph, rank, err);
        if (status != GRS_OK) {
            waitgraph_graph_free(&graph);
            return status;
        }
    }
    *out = graph;
    return GRS_OK;
}

void waitgraph_graph_free(struct waitgraph_graph *graph) {
    for (int r = 0; graph->rank && r < graph->ranks; r++)
        free(graph->rank[r].turn);
    free(graph->rank);
    graph->rank = NULL;
}

/* ---------------------------------------------------------------- looking around */

int waitgraph_graph_rank(const struct waitgraph_graph *graph, int rank) {
    return rank % graph->ring % graph->ranks;
}

int32_t waitgraph_signal_size(const struct waitgraph_graph *graph, int rank, int turn, int32_t tile) {
    const struct waitgraph_rank *sender = &graph->rank[rank];
    int32_t tiles = sender->first[turn + 1] - sender->first[turn], left = tiles - tile / graph->group * graph->group;
    return left < graph->group ? left : graph->group;
}

int32_t waitgraph_signal_member(const struct waitgraph_graph *graph, int rank, int turn, int32_t tile, int32_t i) {
    const struct waitgraph_rank *sender = &graph->rank[rank];
    return sender->position[sender->first[turn] + tile / graph->group * graph->group + i];
}

void waitgraph_step_fill(const struct waitgraph_graph *graph, int rank, int32_t waiting, int32_t signal,
                         struct waitgraph_step *out) {
    const struct waitgraph_rank *here = &graph->rank[waitgraph_graph_rank(graph, rank)];
    const struct waitgraph_rank *up = &graph->rank[waitgraph_graph_rank(graph, rank + 1)];
    struct tileorder order = here->order; /* with the true ranks, which a graph of one rank does not hold */
    struct tileorder order_up = up->order;
    order.rank = rank % graph->ring;
    order_up.rank = (rank + 1) % graph->ring;
    int32_t held = up->hold[signal];
    *out = (struct waitgraph_step){
        .rank = order.rank,
        .cta = waiting % here->grid,
        .owner = tileorder_owner(&order, here->turn[waiting]),
        .tile = here->tile[waiting],
        .from_rank = order_up.rank,
        .from_cta = signal % up->grid,
        .signal = up->tile[signal],
        .held_owner = tileorder_owner(&order_up, up->turn[held]),
        .held_tile = up->tile[held],
    };
}

/* ---------------------------------------------------------------- sorting */

struct sorting {
    const struct waitgraph_graph *graph;
    struct waitgraph_sort out;
    int32_t *queue, filled;
    int32_t *held, *next_held; /* tiles whose signals a tile releases: a list a tile                     */
    int32_t *bit_left, *bit_depth,
        *bit_from;      /* a signal: tiles not yet sent, depth and the tile that made the depth   */
    int32_t *first_bit; /* [ranks] signals of the ranks before                                    */
};

static int32_t bit_of(const struct sorting *s, int rank, int32_t position) {
    const struct waitgraph_rank *r = &s->graph->rank[rank];
    return s->first_bit[rank] + r->first_bit[r->turn[position]] + r->tile[position] / s->graph->group;
}

static void remove_wait(struct sorting *s, int32_t id, int32_t depth, int32_t from) {
    if (depth > s->out.depth[id]) {
        s->out.depth[id] = depth;
        s->out.from[id] = from;
    }
    if (--s->out.left[id] == 0)
        s->queue[s->filled++] = id;
}

/* Every tile that waits for the signal of `position` on `rank` loses that wait. */
static void set_signal(struct sorting *s, int rank, int32_t position, int32_t bit) {
    const struct waitgraph_graph *g = s->graph;
    int down = (rank + g->ranks - 1) % g->ranks, turn = g->rank[rank].turn[position];
    int32_t tile = g->rank[rank].tile[position] / g->group * g->group;
    const struct waitgraph_rank *receiver = &g->rank[down];
    int32_t size = waitgraph_signal_size(g, rank, turn, tile);
    for (int32_t i = 0; i < size; i++) {
        int32_t waiting = receiver->position[receiver->first[turn + g->per_rank] + tile + i];
        remove_wait(s, down * g->total + waiting, s->bit_depth[bit] + 1, ~s->bit_from[bit]);
    }
}

static void tile_sent(struct sorting *s, int32_t id) {
    const struct waitgraph_graph *g = s->graph;
    int rank = id / g->total;
    int32_t position = id % g->total, grid = g->rank[rank].grid, cta = position % grid, depth = s->out.depth[id];
    for (int32_t mate = cta - cta % g->cluster, i = 0; i < g->cluster; i++, mate++) {
        int64_t next = (int64_t)position - cta + mate + (int64_t)grid * (mate == cta ? 1 : g->ahead);
        if (next < g->total)
            remove_wait(s, rank * g->total + (int32_t)next, depth, id);
    }
    for (int32_t held = s->held[id]; held >= 0; held = s->next_held[held]) {
        int32_t bit = bit_of(s, rank, held % g->total);
        if (depth > s->bit_depth[bit]) {
            s->bit_depth[bit] = depth;
            s->bit_from[bit] = held;
        }
        if (--s->bit_left[bit] == 0)
            set_signal(s, rank, held % g->total, bit);
    }
}

/* Counts the waits of every tile and signal, and starts the queue with the tiles that have none. */
static void count_waits(struct sorting *s) {
    const struct waitgraph_graph *g = s->graph;
    for (int32_t id = 0; id < g->ranks * g->total; id++)
        s->held[id] = -1;
    for (int r = 0; r < g->ranks; r++) {
        const struct waitgraph_rank *rank = &g->rank[r];
        for (int32_t p = 0; p < g->total; p++) {
            int32_t id = r * g->total + p, row = p / rank->grid;
            s->out.left[id] = (row >= 1) + (row >= g->ahead ? g->cluster - 1 : 0) + (rank->turn[p] >= g->per_rank);
            s->out.depth[id] = -1;
            s->out.from[id] = id;
            if (s->out.left[id] == 0) {
                s->out.depth[id] = 0;
                s->queue[s->filled++] = id;
            }
            if (rank->turn[p] < g->sending) {
                int32_t holder = r * g->total + rank->hold[p], bit = bit_of(s, r, p);
                s->next_held[id] = s->held[holder];
                s->held[holder] = id;
                s->bit_left[bit]++;
                s->bit_depth[bit] = -1;
            }
        }
    }
}

grs_status waitgraph_sort_run(const struct waitgraph_graph *graph, struct waitgraph_sort *out, grs_error *err) {
    size_t tiles = (size_t)graph->ranks * (size_t)graph->total, bits = 0;
    struct sorting s = {.graph = graph, .first_bit = malloc(sizeof(int32_t) * (size_t)graph->ranks)};
    grs_status status = GRS_OK;
    for (int r = 0; s.first_bit && r < graph->ranks; r++) {
        s.first_bit[r] = (int32_t)bits;
        bits += (size_t)graph->rank[r].first_bit[graph->sending];
    }
    s.out.left = malloc(sizeof(int32_t) * 3 * tiles);
    s.queue = malloc(sizeof(int32_t) * 3 * tiles);
    s.bit_left = calloc(3 * bits + 1, sizeof(int32_t));
    if (!s.first_bit || !s.out.left || !s.queue || !s.bit_left) {
        free(s.out.left);
        status = error_set(err, GRS_ERR_MEMORY, "wait graph: no memory for %zu tiles", tiles);
        goto done;
    }
    s.out.depth = s.out.left + tiles;
    s.out.from = s.out.depth + tiles;
    s.held = s.queue + tiles;
    s.next_held = s.held + tiles;
    s.bit_depth = s.bit_left + bits;
    s.bit_from = s.bit_depth + bits;

    count_waits(&s);
    for (int32_t i = 0; i < s.filled; i++)
        tile_sent(&s, s.queue[i]);
    s.out.removed = s.filled;
    *out = s.out;
done:
    free(s.first_bit);
    free(s.queue);
    free(s.bit_left);
    return status;
}

void waitgraph_sort_free(struct waitgraph_sort *sort) {
    free(sort->left);
    sort->left = NULL;
}

void waitgraph_longest_chain(const struct waitgraph_graph *graph, const struct waitgraph_sort *sort,
                             struct waitgraph_result *out) {
    int32_t last = 0;
    for (int32_t id = 1; id < graph->ranks * graph->total; id++)
        if (sort->depth[id] > sort->depth[last])
            last = id;
    out->waits = sort->depth[last];
    out->steps = 0;
    int rank = last / graph->total; /* the true rank: a graph of one rank goes on counting */
    for (int32_t id = last; sort->from[id] != id && out->steps < WAITGRAPH_STEPS;) {
        int32_t from = sort->from[id];
        if (from >= 0) {
            id = from; /* the CTA's tile before */
            continue;
        }
        int32_t signal = ~from % graph->total;
        int up = waitgraph_graph_rank(graph, rank + 1);
        waitgraph_step_fill(graph, rank, id % graph->total, signal, &out->step[out->steps++]);
        id = up * graph->total + graph->rank[up].hold[signal];
        rank = (rank + 1) % graph->ring;
    }
}
