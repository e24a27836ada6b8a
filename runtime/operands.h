/* What a launch is given, before anything is launched. */
#ifndef GRS_RUNTIME_OPERANDS_H
#define GRS_RUNTIME_OPERANDS_H

#include "generator/plan.h"
#include "grs.h"

/* Operands of one rank of the plan's tp: M of the kernel's class and within what was prepared, matrices aligned and wide enough,
 * D there unless the rank keeps no row. Errors name the rank, what is wrong and what is allowed. */
grs_status operands_validate(int rank, const struct plan *plan, int64_t prepared_m, const grs_operands *operands,
                             grs_error *err);

#endif
