/* The warps of a CTA and the registers of its threads. */
#ifndef GRS_GENERATOR_PLAN_WARPS_H
#define GRS_GENERATOR_PLAN_WARPS_H

#include "generator/plan.h"

/* From the values: buffers, threads that send, warpgroups, threads, columns of tensor memory, and what registers leave. Of
 * the fields only stages.load may still be open; tile.n may where nothing but plan_most_columns is asked afterwards. */
void plan_assign_warps(struct plan *plan);
/* The registers alone, anew: they depend on count_waits. */
void plan_share_registers(struct plan *plan);

/* Registers of a math thread with accumulators in registers: those, and what it needs beside. */
int plan_accumulators(const struct plan *plan);
#define PLAN_OTHER_REGISTERS 26                    /* ptxas was seen to want so many for 64 rows … */
int plan_other_registers(const struct plan *plan); /* … and so many for the rows that a warpgroup has */
/* The widest tile.n, a multiple of 64, for which a math thread's registers suffice; 0: none. */
int plan_most_columns(const struct plan *plan);

/* The most threads that send for which tile.n columns fit, 1 where they do with none but those in the first four warps. */
int plan_most_lanes(const struct plan *plan);

#endif
