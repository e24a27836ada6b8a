/* The order in which a rank works through its tiles: the host's twin of templates/schedule.cuh.
 *
 * Turn t of a rank is its t-th segment in time. With q = segments / R owner segments a rank, turns 0 .. q-1 are those of
 * the rank after it (START), the last q are its own (END). A segment that is turn t of a rank is turn t+q of its downstream
 * (rank-1). Tiles of a segment are numbered j = 0 .. T-1 along a raster. Sorted by time they get positions p = 0 .. total-1:
 *   segment        by (t, j)
 *   interleave L   by (j / W + t * L, t, j), W tiles a wave; j / W + t * L is called the key
 * Position p belongs to CTA p mod G, and a CTA works through its positions in order.
 *
 * The CTAs of a cluster go through their queues side by side: T, W and G are multiples of their number. */
#ifndef GRS_GENERATOR_TILEORDER_H
#define GRS_GENERATOR_TILEORDER_H

#include "generator/plan.h"

struct tileorder {
    const struct plan *plan; /* outlives the order                                  */
    int64_t M;
    int rank;
    int64_t wave;   /* W, a multiple of the cluster; not used by `segment` order      */
    int64_t lag;    /* L; 0: `segment` order                                         */
    int per_rank;   /* q                                                             */
    int64_t stride; /* slots between two turns: tiles of the largest segment        */
    int64_t total;  /* positions: what one rank computes, the same on every rank     */
};

/* M >= 1, 0 <= rank < R, wave >= the CTAs of a cluster. */
void tileorder_init(const struct plan *plan, int64_t M, int rank, int64_t wave, struct tileorder *out);

/* The segment that is turn t, and its tiles (0 for owners without rows). */
int tileorder_owner(const struct tileorder *order, int turn);
int64_t tileorder_tiles(const struct tileorder *order, int turn);

/* Tile j of an owner, counted in tiles: panels of `raster` tiles of M, M fastest inside a panel. With clusters the CTAs'
 * tiles j = place * cluster + h lie one below the other, and places are what the raster orders; a segment's last place may
 * reach below it. */
void tileorder_raster(const struct tileorder *order, int owner, int64_t tile, int64_t *tile_m, int64_t *tile_n);

/* The two directions of the numbering; both in O(segments). */
int64_t tileorder_position(const struct tileorder *order, int turn, int64_t tile);
void tileorder_at(const struct tileorder *order, int64_t position, int *turn, int64_t *tile);

/* Slot of the partial, and bit with one bit a tile, of (turn, tile) of the receiving rank; turn >= q. */
int64_t tileorder_slot(const struct tileorder *order, int turn, int64_t tile);

/* Walks positions 0, 1, 2 ... without a division each. */
struct tileorder_cursor {
    int turn;
    int64_t tile, key;
};
void tileorder_begin(const struct tileorder *order, struct tileorder_cursor *cursor);
void tileorder_next(const struct tileorder *order, struct tileorder_cursor *cursor); /* not past the last position */

#endif
