/* What `grsgen --explain` shows of a plan beyond its numbers, gathered once for both renderers: text (plan_explain of
 * plan.h) and JSON. */
#ifndef GRS_GENERATOR_PLAN_EXPLAIN_H
#define GRS_GENERATOR_PLAN_EXPLAIN_H

#include <jansson.h>

#include "generator/plan.h"
#include "generator/tileorder.h"

/* A role of a CTA: which warps play it, and what they wait for. */
struct explain_role {
    const char *name;
    int warp, warps;          /* the first, and how many                                                    */
    int registers;            /* a thread, after setmaxnreg                                                 */
    const char *const *waits; /* NULL-terminated, "barrier or word: what it means"; none: it has nothing to do */
};
#define EXPLAIN_MAX_ROLES 12
int explain_roles(const struct plan *plan, struct explain_role out[EXPLAIN_MAX_ROLES]);

/* Consecutive positions of one rank that belong to one segment: a segment, or a wave of it where segments interleave. */
struct explain_run {
    int64_t position, count;
    int64_t tile; /* the first one's j */
    int turn, owner, distance;
};
/* The run that begins at a position (0 <= position < order->total). */
void explain_run_at(const struct tileorder *order, int64_t position, struct explain_run *out);
/* "START", "MIDDLE", "END"; "ALONE" on a ring of one rank. */
const char *explain_kind(const struct plan *plan, int distance);

/* One tile: its rectangle of D in rows of A and columns, cut at the segment's end and at N. */
struct explain_tile {
    int64_t row, rows, column, columns;
};
void explain_tile_of(const struct tileorder *order, int owner, int64_t tile, struct explain_tile *out);

/* Whether a value has an effect in this plan: not those of another arch, nor the number of a choice that was not taken. */
bool explain_matters(const struct plan *plan, enum field field);

/* CTAs a rank that the planner counts on: `sms`, or all of the machine's. */
int explain_grid(const struct plan *plan);

#define EXPLAIN_RUNS  12 /* shown, and the last */
#define EXPLAIN_TILES 8

/* Adds shown, tiles, roles, order, link, memory, limit and wait_graph to a JSON object. `grid` 0: explain_grid. False: out
 * of memory. */
bool plan_explain_json(const struct plan *plan, int64_t M, int grid, json_t *object);

#endif
