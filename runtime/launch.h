/* One rank's part of a launch, for callers that have checked everything. */
#ifndef GRS_RUNTIME_LAUNCH_H
#define GRS_RUNTIME_LAUNCH_H

#include "runtime/group.h"

/* Launches for operands->M rows, of which A holds the first `a_rows` (at least 1): the others count as zeros and are not read.
 * Rows of D that the rank keeps are those of operands->M. */
grs_status launch_rows(struct grs_comm *comm, const struct group_kernel *prepared, const grs_operands *operands,
                       int64_t a_rows, void *stream, grs_error *err);

#endif
