/* D as it should be, for every owner on its own GPU, and the comparison with what the ranks wrote. */
#ifndef GRS_TOOLS_GRSRUN_REFERENCE_H
#define GRS_TOOLS_GRSRUN_REFERENCE_H

#include "tools/grsrun_team.h"

struct reference { /* zero-initialise; free with reference_free */
    struct team *team;
    struct grsrun_shape shape;
    uint64_t seed;
    enum values_mode mode;
    uint32_t threshold;
    CUdeviceptr sums[GRS_MAX_TP], bounds[GRS_MAX_TP]; /* FP32 [rows kept, N], by owner; 0: no row */
    CUdeviceptr node_sums, node_bounds;               /* [nodes, rows kept, N] of one owner; 0: there is one node */
};

grs_status reference_make(struct team *team, const struct grsrun_shape *shape, struct reference *out, grs_error *err);
void reference_free(struct reference *reference);

/* Computes it for the operands of a seed. With mode exact a seed for which a partial sum leaves the range of exact integers
 * is passed over: `seed` becomes the one that was taken. A few elements are computed again on the host; a difference is
 * GRS_ERR_STATE. Waits. */
grs_status reference_compute(struct reference *reference, enum values_mode mode, uint64_t *seed, grs_error *err);

/* Compares one owner's D. Waits. */
grs_status reference_compare(const struct reference *reference, const struct operands *operands, int owner,
                             struct values_verdict *out, grs_error *err);

/* In words: how many elements differ, where the first and the last are, what was got and what was wanted. */
grs_status reference_describe(const struct reference *reference, const struct operands *operands,
                              const grs_kernel *kernel, int owner, const struct values_verdict *verdict,
                              struct buf *out, grs_error *err);

/* The exact sum of one element on the host, in FP64 from the seed alone; row counts in A. */
double reference_element(const struct reference *reference, int64_t row, int64_t column);

#endif
