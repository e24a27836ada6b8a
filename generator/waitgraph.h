/* Proof that ranks and CTAs cannot wait for one another in a circle, or the circle in words. docs/protocol.md holds the
 * argument; this module applies it and enumerates what it does not reach.
 *
 * A node is a tile in a rank's queue; it stands for "its store has been issued". A tile waits
 *   - for the tile before it in its CTA; in a cluster, whose CTAs share loads, also for a little earlier ones of its mates;
 *   - unless it is START, for upstream's signal: for every tile that shares the bit, landed and signalled. Where the drain
 *     holds signals back (`policy: ring` with `flush: never`), the signal of a tile waits in turn for a later tile of the
 *     same CTA: the one with which ring.depth stores are in flight, or the last that the sender takes.
 * Landing, credits and shared-memory buffers add no edge that leads forward. */
#ifndef GRS_GENERATOR_WAITGRAPH_H
#define GRS_GENERATOR_WAITGRAPH_H

#include "generator/plan.h"

#define WAITGRAPH_STEPS 24 /* of a chain or cycle that are kept for the text */

enum waitgraph_verdict {
    WAITGRAPH_ACYCLIC = 0, /* proved                                                                 */
    WAITGRAPH_CYCLE,       /* refused: `step` holds the cycle                                        */
    WAITGRAPH_RULE,        /* refused: a rule that the proof needs is broken; `why` says which       */
    WAITGRAPH_UNPROVEN     /* refused: neither the argument nor the enumeration covers all of it     */
};

/* One wait across ranks: a prefetcher waits for a signal of the next rank (upstream). */
struct waitgraph_step {
    int rank, cta, owner; /* who waits, and the segment of its tile                                      */
    int64_t tile;         /* j in the segment                                                            */
    int from_rank;        /* upstream …                                                                  */
    int from_cta;         /* … and the CTA of it that sends …                                            */
    int64_t signal;       /* … tile j of the same owner: `tile`, or the last missing one of its group    */
    int held_owner;       /* and sets its bit once it has sent this tile, the same one unless the drain  */
    int64_t held_tile;    /* holds signals back                                                          */
};

struct waitgraph_result {
    enum waitgraph_verdict verdict;
    const char *argument;   /* accepted: why, in a static text                                              */
    char why[320];          /* refused: the reason in words, without the cycle; starts with a config key    */
    int64_t m_min, m_max;   /* the Ms that the verdict is for (equal: one launch); refused: one M           */
    int grid_min, grid_max; /* the CTAs a rank that it is for; refused: one grid                            */
    bool same_grid;         /* proved only for launches with the same grid on every rank                    */
    bool shared;            /* ring.place: who signals is the storer, not the sender                        */
    bool shortest;          /* the cycle has the fewest waits across ranks that any has                     */
    int64_t tiles, signals; /* of one rank; 0: no graph was built                                           */
    int64_t waits;          /* across ranks, on the longest chain or on the cycle; -1: not computed         */
    int steps;              /* the first of them, from the last one that waits towards the first            */
    struct waitgraph_step step[WAITGRAPH_STEPS];
};

/* One launch: M, and the CTAs and wave of each rank ([tp]; `wave` NULL: the smallest grid, on every rank). GRS_OK and
 * WAITGRAPH_ACYCLIC, or GRS_ERR_PLAN with the reason and the cycle as text; `out` is filled in both cases. Other errors:
 * GRS_ERR_ARGUMENT (M below 1, a grid that is no multiple of the cluster), GRS_ERR_MEMORY. */
grs_status waitgraph_check_ranks(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                                 struct waitgraph_result *out, grs_error *err);
/* The same with one grid for every rank. */
grs_status waitgraph_check(const struct plan *plan, int64_t M, int grid, struct waitgraph_result *out, grs_error *err);

/* Every M of the plan's class and every grid from 1 to plan->max_grid; with `sms` set, that grid where no argument covers
 * all. A refusal names one M and grid where there is a cycle, or says that not all of them could be proved. */
grs_status waitgraph_check_class(const struct plan *plan, struct waitgraph_result *out, grs_error *err);

/* Whether launches on these grids ([tp], CTAs of each rank) are among those that waitgraph_check_class accepts. To be asked
 * when the grids are known, before any launch. A launch may use fewer CTAs where there are fewer tiles. */
grs_status waitgraph_check_grids(const struct plan *plan, const int *grid, grs_error *err);

/* The verdict and the longest chain (or the cycle), some lines of text. */
void waitgraph_explain(const struct waitgraph_result *result, struct buf *out);

#endif
