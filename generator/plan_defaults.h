/* The planner's choices: everything that a config leaves open, with the reason. */
#ifndef GRS_GENERATOR_PLAN_DEFAULTS_H
#define GRS_GENERATOR_PLAN_DEFAULTS_H

#include "generator/plan.h"

/* Fills value, origin and reason of every field from config, plan->arch, plan->shape and plan->shared_limit. */
void plan_defaults(const struct config *config, struct plan *plan);

/* Below this K the link is the longer half by far: a wave is over before the one before has arrived everywhere (H200: bench/NOTES.md). */
#define PLAN_SHORT_K 1536

/* Hopper: the largest M for which the planner takes tiles of 64 x 128, which one warpgroup makes: as long as a CTA has one of them
 * at most, with a ring two, and as long as a segment has no more rows. 0: it takes none. */
int64_t plan_small_m(const struct config *config, enum arch arch, int64_t n, int tp);

/* The largest M at which a CTA has two tiles at most, were A one piece (of R ranks it is R, and the last tile of each may be
 * half empty): narrow ones, or those that the config asks for. 0: there is none. */
int64_t plan_few_m(const struct config *config, enum arch arch, int64_t n);

/* The largest M for which the planner takes tiles of 128 x 128 instead of 128 x 256: as long as wide tiles do not fill the SMs
 * once, and, with a ring, as long as they come in fewer than four waves of a short product: a wave's partials can only leave
 * when it is done, and narrow tiles are done in half the time. */
int64_t plan_narrow_m(const struct config *config, enum arch arch, int64_t n, int64_t k, int tp);

/* A ring on Hopper: whether tiles go to the peer straight from the one buffer in which they were made (ring.place: shared,
 * ring.depth: 1), and why. Never where the config says something of the way that they take. */
enum plan_straight {
    STRAIGHT_NEVER,     /* by way of an outbox: products do not wait for the link                             */
    STRAIGHT_FEW_TILES, /* m <= plan_few_m: what counts is how soon a tile arrives, not what waits behind it  */
    STRAIGHT_LINK_AHEAD /* whatever M is, a tile is gone well before the next one is made                     */
};
enum plan_straight plan_sends_straight(const struct config *config, enum arch arch, int64_t m, int64_t n, int64_t k,
                                       int tp);

/* One rank on Hopper, above plan_narrow_m: whether two warpgroups take tiles of 128 x 168 in turn (pingpong) instead of sharing
 * tiles of 128 x 256. By the columns that the busiest SM multiplies in so many whole waves of M rows, where K is long. */
bool plan_takes_turns(const struct config *config, enum arch arch, int64_t m, int64_t n, int64_t k);

#endif
