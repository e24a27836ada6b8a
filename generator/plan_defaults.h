/* The planner's choices: everything that a config leaves open, with the reason. */
#ifndef GRS_GENERATOR_PLAN_DEFAULTS_H
#define GRS_GENERATOR_PLAN_DEFAULTS_H

#include "generator/plan.h"

/* Fills value, origin and reason of every field from config, plan->arch, plan->shape and plan->shared_limit. */
void plan_defaults(const struct config *config, struct plan *plan);

/* The largest M for which tiles of 128 x 256 do not fill the SMs once: below it the planner takes narrower tiles. */
int64_t plan_narrow_m(const struct config *config, enum arch arch, int64_t n);

#endif
