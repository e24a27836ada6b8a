/* The wait graph of one launch: internal to the waitgraph module. A tile is named by rank * total + position. */
#ifndef GRS_GENERATOR_WAITGRAPH_GRAPH_H
#define GRS_GENERATOR_WAITGRAPH_GRAPH_H

#include "generator/tileorder.h"
#include "generator/waitgraph.h"

#define WAITGRAPH_MAX_TILES (1 << 22) /* of all ranks together, in a graph: bounds memory (about 300 MB) and indices */

struct waitgraph_rank {
    struct tileorder order;
    int32_t grid;       /* CTAs                                                                            */
    int32_t *turn;      /* [total] by position                                                             */
    int32_t *tile;      /* [total] by position: j                                                          */
    int32_t *position;  /* [total] by first[turn] + tile                                                   */
    int32_t *hold;      /* [total] position of the tile that must be sent before the signal is set; END: -1 */
    int32_t *first;     /* [segments + 1] tiles of the turns before                                        */
    int32_t *first_bit; /* [sending + 1] signals of the turns before                                       */
};

struct waitgraph_graph {
    const struct plan *plan;
    int ranks;     /* R, or 1 where ranks are alike: the graph of one stands for all, its upstream is itself */
    int ring;      /* R                                                                                      */
    int per_rank;  /* q: owner segments a rank                                                               */
    int sending;   /* turns that send: segments - q                                                          */
    int cluster;   /* CTAs that share the loads of B …                                                       */
    int ahead;     /* … and so are at most this many tiles apart                                             */
    int32_t total; /* tiles of one rank                                                                      */
    int32_t group; /* tiles a signal                                                                         */
    struct waitgraph_rank *rank; /* [ranks] */
};

/* Whether the drain holds signals back until later tiles are sent. */
bool waitgraph_holds_back(const struct plan *plan);

/* GRS_ERR_MEMORY; the caller has checked that total * R <= WAITGRAPH_MAX_TILES. Frees with waitgraph_graph_free. */
grs_status waitgraph_graph_build(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                                 struct waitgraph_graph *out, grs_error *err);
void waitgraph_graph_free(struct waitgraph_graph *graph);

/* Removes tiles that wait for nothing, again and again. Those that remain are on a cycle or behind one. */
struct waitgraph_sort {
    int32_t *left;  /* [ranks * total] waits that remain; 0: removed                                          */
    int32_t *depth; /* waits across ranks on the longest chain that ends here                                 */
    int32_t *from;  /* the tile before on that chain: itself: none; ~id: a tile whose signal is waited for    */
    int64_t removed;
};
grs_status waitgraph_sort_run(const struct waitgraph_graph *graph, struct waitgraph_sort *out, grs_error *err);
void waitgraph_sort_free(struct waitgraph_sort *sort);

/* Fill waits, steps, shortest of the result: the longest chain of a graph without cycle, or a cycle. */
void waitgraph_longest_chain(const struct waitgraph_graph *graph, const struct waitgraph_sort *sort,
                             struct waitgraph_result *out);
grs_status waitgraph_find_cycle(const struct waitgraph_graph *graph, const struct waitgraph_sort *sort,
                                struct waitgraph_result *out, grs_error *err);

/* The tiles of a signal, as positions of the rank that sets it: number `i` of waitgraph_signal_size. `turn` and `tile` are
 * the sender's. */
int32_t waitgraph_signal_size(const struct waitgraph_graph *graph, int rank, int turn, int32_t tile);
int32_t waitgraph_signal_member(const struct waitgraph_graph *graph, int rank, int turn, int32_t tile, int32_t i);

/* `rank` is the true rank (0 .. R-1), positions are those of the graph's rank for it and its upstream. */
void waitgraph_step_fill(const struct waitgraph_graph *graph, int rank, int32_t waiting, int32_t signal,
                         struct waitgraph_step *out);
int waitgraph_graph_rank(const struct waitgraph_graph *graph, int rank); /* index into graph->rank */

#endif
