/* How long a launch takes: the tiles of a rank played through with the times that were measured of a GPU. docs/times.md says
 * how, where the times come from, and how far off they were. */
#ifndef GRS_GENERATOR_PLAN_TIME_H
#define GRS_GENERATOR_PLAN_TIME_H

#include "generator/plan.h"

/* Of a GPU. Fitted to launches by bench/fit_times.c, each with a meaning of its own. */
struct plan_times {
    double tensor_tflops; /* of all SMs: the rate of the matrix loop while operands come in time               */
    double operand_tbps;  /* of all SMs: the rate at which operands come                                       */
    double beside_ns_kib; /* a CTA's products stand still for each KiB that is moved for its tiles beside them */
    double copy_ns_kib;   /* of a KiB in or out of a tile buffer when a tile waits for it                      */
    double launch_us;     /* from one launch to the first products of the next, and from the last D to the end */
    double hop_us;        /* from the last byte of a tile sent to downstream's load of it                      */
    double throttle;      /* what the power limit adds to the products of a long launch, as a part of them     */
};
#define PLAN_TIMES_COUNT 7 /* doubles of the struct: a fit varies them one by one */

/* NULL: nothing was measured on this arch. */
const struct plan_times *plan_times_of(enum arch arch);

/* Why no time can be told of a plan (static text): nothing like it was measured. NULL: it can. */
const char *plan_time_unknown(const struct plan *plan);

/* Microseconds of a launch, one launch after another on a stream, ranks with a GPU each. 0: out of memory. */
double plan_time(const struct plan *plan, int64_t M, const struct plan_times *times);

#endif
