/* A cycle of the wait graph with the fewest waits across ranks.
 *
 * One hop is: tile X waits for a signal, which is set once tile Y of the next rank is sent, which comes after every earlier
 * tile of Y's CTA. So what h hops reach on a CTA is a prefix of its queue, and one number a CTA describes it. Let
 * reach_h(X) be that vector over the CTAs of rank 0, for a tile X of rank -h mod R. It follows from reach_{h-1} of the tiles
 * before Y by maxima, and X of rank 0 lies on a cycle of h hops if reach_h(X) covers X itself. Every cycle passes rank 0,
 * so the first h (a multiple of R) for which that happens is the shortest; a breadth-first search from that X finds the
 * cycle itself. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/waitgraph_graph.h"

#define REACH_WORK (INT64_C(1) << 26) /* maxima that the search may take: about a tenth of a second */

struct search {
    const struct waitgraph_graph *graph;
    const struct waitgraph_sort *sort;
    struct waitgraph_result *out;
};

static bool remains(const struct search *s, int rank, int32_t position) {
    return s->sort->left[waitgraph_graph_rank(s->graph, rank) * s->graph->total + position] > 0;
}

static const struct waitgraph_rank *rank_of(const struct search *s, int rank) {
    return &s->graph->rank[waitgraph_graph_rank(s->graph, rank)];
}

static int32_t largest_grid(const struct waitgraph_graph *graph) {
    int32_t largest = 0;
    for (int r = 0; r < graph->ranks; r++)
        largest = graph->rank[r].grid > largest ? graph->rank[r].grid : largest;
    return largest;
}

static void keep_step(const struct search *s, int rank, int32_t waiting, int32_t signal) {
    if (s->out->steps < WAITGRAPH_STEPS)
        waitgraph_step_fill(s->graph, rank, waiting, signal, &s->out->step[s->out->steps++]);
    s->out->waits++;
}

/* ---------------------------------------------------------------- the number of hops */

/* Vectors are padded to whole blocks, so that the compiler need not guess how to use the machine's. */
#define BLOCK 16

static void take_maxima(int16_t *restrict into, const int16_t *restrict from, int32_t columns) {
    for (int32_t block = 0; block < columns; block += BLOCK)
        for (int32_t i = block; i < block + BLOCK; i++)
            into[i] = into[i] > from[i] ? into[i] : from[i];
}

/* Rows of `reach` become what a tile reaches through itself or the tiles before it in its CTA and cluster. */
static void include_earlier(const struct search *s, int rank, int16_t *reach, int32_t columns) {
    const struct waitgraph_rank *r = rank_of(s, rank);
    for (int64_t p = r->grid; p < s->graph->total; p++) {
        int32_t cta = (int32_t)(p % r->grid), mate = cta - cta % s->graph->cluster;
        for (int32_t i = 0; i < s->graph->cluster; i++, mate++) {
            int64_t earlier = p - cta + mate - (int64_t)r->grid * (mate == cta ? 1 : s->graph->ahead);
            if (earlier >= 0)
                take_maxima(reach + p * columns, reach + earlier * columns, columns);
        }
    }
}

/* reach_h from reach_{h-1}, in place; `rank` is that of the new rows. `signal` has room for one vector a tile. Returns the
 * position of a tile that reaches itself, -1 if none does. */
static int32_t hop(const struct search *s, int rank, int16_t *reach, int16_t *signal, int32_t columns, bool complete) {
    const struct waitgraph_graph *g = s->graph;
    int up = waitgraph_graph_rank(g, rank + 1);
    const struct waitgraph_rank *here = rank_of(s, rank), *sender = &g->rank[up];
    int32_t found = -1;
    for (int turn = 0; turn < g->sending; turn++)
        for (int32_t tile = 0; tile < sender->first[turn + 1] - sender->first[turn]; tile += g->group) {
            int16_t *vector = signal + (sender->first_bit[turn] + tile / g->group) * (int64_t)columns;
            memset(vector, 0xff, sizeof *vector * (size_t)columns); /* -1: nothing */
            for (int32_t i = waitgraph_signal_size(g, up, turn, tile); i-- > 0;) {
                int32_t sent = sender->hold[waitgraph_signal_member(g, up, turn, tile, i)];
                if (remains(s, rank + 1, sent))
                    take_maxima(vector, reach + (int64_t)sent * columns, columns);
            }
        }
    for (int32_t p = 0; p < g->total; p++) {
        int16_t *row = reach + (int64_t)p * columns;
        int turn = here->turn[p] - g->per_rank;
        if (turn < 0 || !remains(s, rank, p)) {
            memset(row, 0xff, sizeof *row * (size_t)columns);
            continue;
        }
        memcpy(row, signal + (sender->first_bit[turn] + here->tile[p] / g->group) * (int64_t)columns,
               sizeof *row * (size_t)columns);
        if (complete && row[p % here->grid] >= p / here->grid) {
            found = p;
            break;
        }
    }
    if (found < 0)
        include_earlier(s, rank, reach, columns);
    return found;
}

/* A tile of rank 0 on a cycle with the fewest hops; -1 where the search would be too long. */
static grs_status tile_on_shortest(const struct search *s, int32_t *out, grs_error *err) {
    const struct waitgraph_graph *g = s->graph;
    const struct waitgraph_rank *zero = &g->rank[0];
    int32_t columns = ((zero->grid < g->total ? zero->grid : g->total) + BLOCK - 1) / BLOCK * BLOCK;
    int64_t cells = (int64_t)g->total * columns, work = 0;
    *out = -1;
    if (cells > REACH_WORK / 8 || g->total / zero->grid >= SHRT_MAX)
        return GRS_OK;
    int16_t *reach = malloc(sizeof *reach * 2 * (size_t)cells);
    if (!reach)
        return error_set(err, GRS_ERR_MEMORY, "wait graph: no memory to look for a cycle among %d tiles", g->total);
    memset(reach, 0xff, sizeof *reach * (size_t)cells);
    for (int32_t p = 0; p < g->total; p++)
        if (remains(s, 0, p))
            reach[(int64_t)p * columns + p % zero->grid] = (int16_t)(p / zero->grid);
    include_earlier(s, 0, reach, columns);
    for (int rank = g->ring - 1; *out < 0 && work < REACH_WORK; rank = (rank + g->ring - 1) % g->ring, work += cells)
        *out = hop(s, rank, reach, reach + cells, columns, rank == 0);
    free(reach);
    return GRS_OK;
}

/* ---------------------------------------------------------------- the cycle itself */

struct visit {
    int32_t *parent; /* [R * total] by rank and position: the waiting tile of the rank before, -1: not yet reached */
    int32_t *signal; /* … and the signal it waits for                                                              */
    int32_t *top;    /* [R * largest grid] what is reached of each CTA's queue: its first `top` tiles              */
    char *asked;     /* [R * total] by rank that waits and signal: its tiles are reached already              */
    int32_t *level[2], count[2]; /* positions reached with this hop and the next */
};

/* Everything that comes with `sent` of `rank` is reached from `waiting`, a tile of the rank before. */
static void reach_tile(const struct search *s, struct visit *v, int rank, int32_t sent, int32_t waiting, int32_t signal,
                       int32_t stride) {
    const struct waitgraph_graph *g = s->graph;
    const struct waitgraph_rank *r = rank_of(s, rank);
    int32_t cta = sent % r->grid, mate = cta - cta % g->cluster;
    for (int32_t i = 0; i < g->cluster; i++, mate++) {
        int32_t end = sent / r->grid + 1 - (mate == cta ? 0 : g->ahead), *top = &v->top[rank * stride + mate];
        for (; *top < end; ++*top) {
            int32_t position = mate + *top * r->grid;
            if (!remains(s, rank, position) || r->turn[position] < g->per_rank)
                continue;
            v->parent[rank * g->total + position] = waiting;
            v->signal[rank * g->total + position] = signal;
            v->level[1][v->count[1]++] = position;
        }
    }
}

static void search_from(const struct search *s, struct visit *v, int32_t source, int32_t stride) {
    const struct waitgraph_graph *g = s->graph;
    v->level[0][0] = source;
    v->count[0] = 1;
    for (int rank = 0; v->parent[source] < 0 && v->count[0] > 0; rank = (rank + 1) % g->ring) {
        const struct waitgraph_rank *here = rank_of(s, rank), *sender = rank_of(s, rank + 1);
        int up = waitgraph_graph_rank(g, rank + 1);
        v->count[1] = 0;
        for (int32_t n = 0; n < v->count[0]; n++) {
            int32_t waiting = v->level[0][n], turn = here->turn[waiting] - g->per_rank, tile = here->tile[waiting];
            char *asked = &v->asked[rank * g->total + sender->first_bit[turn] + tile / g->group];
            if (*asked)
                continue;
            *asked = 1;
            for (int32_t i = waitgraph_signal_size(g, up, turn, tile); i-- > 0;) {
                int32_t signal = waitgraph_signal_member(g, up, turn, tile, i);
                if (remains(s, rank + 1, sender->hold[signal]))
                    reach_tile(s, v, (rank + 1) % g->ring, sender->hold[signal], waiting, signal, stride);
            }
        }
        int32_t *swap = v->level[0];
        v->level[0] = v->level[1];
        v->level[1] = swap;
        v->count[0] = v->count[1];
    }
}

static grs_status shortest_through(const struct search *s, int32_t source, grs_error *err) {
    const struct waitgraph_graph *g = s->graph;
    int32_t stride = largest_grid(g), *path;
    size_t tiles = (size_t)g->ring * (size_t)g->total;
    grs_status status = GRS_OK;
    struct visit v = {.parent = malloc(sizeof(int32_t) * (2 * tiles + 2 * (size_t)g->total)),
                      .top = calloc((size_t)g->ring * (size_t)stride, sizeof(int32_t)),
                      .asked = calloc(tiles, 1)};
    path = malloc(sizeof *path * 2 * tiles);
    if (!v.parent || !v.top || !v.asked || !path) {
        status = error_set(err, GRS_ERR_MEMORY, "wait graph: no memory to look for a cycle among %zu tiles", tiles);
        goto done;
    }
    v.signal = v.parent + tiles;
    v.level[0] = v.signal + tiles;
    v.level[1] = v.level[0] + g->total;
    memset(v.parent, 0xff, sizeof(int32_t) * tiles);
    search_from(s, &v, source, stride);

    int32_t length = 0, at = source;
    int rank = 0;
    do { /* from the source back to itself; a path may pass a tile of rank 0 other than the source */
        path[length++] = v.signal[rank * g->total + at];
        at = v.parent[rank * g->total + at];
        rank = (rank + g->ring - 1) % g->ring;
        path[length++] = at;
    } while (rank != 0 || at != source);
    for (rank = 0; length > 0; length -= 2, rank++)
        keep_step(s, rank, path[length - 1], path[length - 2]);
    s->out->shortest = true;
done:
    free(v.parent);
    free(v.top);
    free(v.asked);
    free(path);
    return status;
}

/* The first tile that remains in the queues of a cluster: the one at which it hangs, so it waits for a signal. */
static int32_t front_of(const struct search *s, int rank, int32_t position) {
    const struct waitgraph_graph *g = s->graph;
    int32_t grid = rank_of(s, rank)->grid, cta = position % grid, first = cta - cta % g->cluster;
    for (int32_t row = 0;; row++)
        for (int32_t mate = first; mate < first + g->cluster; mate++)
            if (remains(s, rank, row * grid + mate))
                return row * grid + mate;
}

/* The tile whose sending would set the signal that `waiting` waits for, and does not come. */
static int32_t missing_signal(const struct search *s, int rank, int32_t waiting) {
    const struct waitgraph_graph *g = s->graph;
    const struct waitgraph_rank *here = rank_of(s, rank);
    int up = waitgraph_graph_rank(g, rank + 1), turn = here->turn[waiting] - g->per_rank;
    for (int32_t i = 0;; i++) {
        int32_t signal = waitgraph_signal_member(g, up, turn, here->tile[waiting], i);
        if (remains(s, rank + 1, g->rank[up].hold[signal]))
            return signal;
    }
}

/* Where a search would take too long: from what one CTA hangs at to what that waits for, until a CTA repeats. */
static grs_status first_found(const struct search *s, grs_error *err) {
    const struct waitgraph_graph *g = s->graph;
    int32_t at = 0, stride = largest_grid(g), length = 0, first;
    while (!remains(s, 0, at)) /* every cycle passes rank 0 */
        at++;
    size_t places = (size_t)g->ring * (size_t)stride;
    int32_t *seen = calloc(3 * places, sizeof *seen), *waiting, *signal; /* seen: hops until there, plus 1 */
    if (!seen)
        return error_set(err, GRS_ERR_MEMORY, "wait graph: no memory to look for a cycle");
    waiting = seen + places;
    signal = waiting + places;
    for (int rank = 0;; rank = (rank + 1) % g->ring) {
        at = front_of(s, rank, at);
        int32_t *place = &seen[rank * stride + at % rank_of(s, rank)->grid];
        first = *place;
        if (first)
            break;
        *place = length + 1;
        waiting[length] = at;
        signal[length] = missing_signal(s, rank, at);
        at = rank_of(s, rank + 1)->hold[signal[length++]];
    }
    for (int32_t i = first - 1; i < length; i++)
        keep_step(s, i % g->ring, waiting[i], signal[i]);
    free(seen);
    return GRS_OK;
}

grs_status waitgraph_find_cycle(const struct waitgraph_graph *graph, const struct waitgraph_sort *sort,
                                struct waitgraph_result *out, grs_error *err) {
    struct search s = {graph, sort, out};
    int32_t source;
    out->waits = out->steps = 0;
    out->shortest = false;
    grs_status status = tile_on_shortest(&s, &source, err);
    if (status != GRS_OK)
        return status;
    return source >= 0 ? shortest_through(&s, source, err) : first_found(&s, err);
}
