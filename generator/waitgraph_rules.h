/* What can be said of a plan's waits without looking at the graph: internal to the waitgraph module. */
#ifndef GRS_GENERATOR_WAITGRAPH_RULES_H
#define GRS_GENERATOR_WAITGRAPH_RULES_H

#include "generator/waitgraph.h"

/* Why a launch cannot have a cycle, by the theorems of docs/protocol.md; NULL where none of them applies. `grid` is the
 * largest of all ranks, `wave` that of every rank (0: they differ). */
const char *waitgraph_argument(const struct plan *plan, int64_t M, int grid, int wave);

/* Fewest positions between a tile and the one of upstream that it waits for, over all ranks, in segment order. */
int64_t waitgraph_distance(const struct plan *plan, int64_t M);

/* The most waves that a signal's last tile comes after its first. */
int64_t waitgraph_span(const struct plan *plan, int64_t M, int64_t wave);

/* The rule of interleaving that a launch breaks, in words that start with its config key, into `why`; false: none. */
bool waitgraph_breaks_rule(const struct plan *plan, int64_t M, const int *wave, char *why, size_t size);

#endif
