/* --verify: every element of D on every rank against the reference, with new operands each time. */
#ifndef GRS_TOOLS_GRSRUN_VERIFY_H
#define GRS_TOOLS_GRSRUN_VERIFY_H

#include "tools/grsrun_reference.h"
#include "tools/grsrun_report.h"

/* The sums over all ranks of one comparison, and what is wrong in words (a line for each rank, to `notes`). */
grs_status verify_launch(const struct reference *reference, const struct operands *operands, const grs_kernel *kernel,
                         struct values_verdict *out, struct buf *notes, grs_error *err);
/* Whether the statistics of a comparison, of what this process has, are within the limits for these operands. */
bool verify_statistics(const struct team *team, const struct grsrun_shape *shape, enum values_mode mode,
                       const struct values_verdict *verdict);

/* A number that depends on every bit of every rank's D. Waits. */
grs_status verify_checksum(const struct operands *operands, uint64_t *out, grs_error *err);

/* A row before its first round. */
void verify_begin(const struct team *team, const grs_kernel *kernel, const struct grsrun_shape *shape,
                  enum values_mode mode, struct verify_row *out);

/* One round: two new sets of operands, options.repeat launches on each. D is poison before every launch. GRS_OK whether or
 * not D is right: `row`, to which everything is added, and `notes` say. An error means that something else failed: a
 * launch, memory, a helper. */
grs_status verify_round(struct team *team, const grs_kernel *kernel, enum values_mode mode, struct verify_row *row,
                        struct buf *notes, grs_error *err);

#endif
