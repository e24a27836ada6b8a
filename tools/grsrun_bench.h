/* --bench: our kernel, cuBLAS and, with a GPU a rank, cuBLAS + NCCL, on the same operands in the same run. */
#ifndef GRS_TOOLS_GRSRUN_BENCH_H
#define GRS_TOOLS_GRSRUN_BENCH_H

#include "tools/grsrun_cublas.h"
#include "tools/grsrun_nccl.h"
#include "tools/grsrun_report.h"

/* What there is to compare with. Zero-initialise; close with baselines_leave. */
struct baselines {
    bool has_cublas, has_nccl;
    struct cublas cublas;
    struct nccl nccl;
    struct scatter scatter; /* of the team that was joined last, if it has a GPU a rank */
};

/* Opens what is installed; what is not is said in `notes`. */
void baselines_open(struct baselines *out, struct buf *notes);
/* Makes NCCL's communicators for a team (seconds), where it can use them: one rank a GPU, at least 2. A failure is said in
 * `notes`, and there is no such column then. */
void baselines_join(struct baselines *baselines, const struct team *team, struct buf *notes);
void baselines_leave(struct baselines *baselines);

#define BENCH_ROWS 2 /* a shape: back to back, isolated */

/* Times one shape and checks D of a timed kernel on random operands. `notes` gets what is worth saying beside the rows; a
 * wrong D makes `*correct` false. An error means that a launch, memory or a library failed. */
grs_status bench_shape(struct team *team, const grs_kernel *kernel, const struct grsrun_shape *shape,
                       const struct baselines *baselines, struct bench_row rows[BENCH_ROWS], bool *correct,
                       struct buf *notes, grs_error *err);

/* Sets of operands to rotate over: one where L2 is to be warm; else so many that `set_bytes` each overflow it. */
int bench_sets(enum grsrun_l2 l2, int64_t set_bytes, int64_t l2_bytes);

/* max(GEMM, bytes / rate); NAN where either is unknown. `gbps` 0: no link is crossed. */
double bench_limit_us(double gemm_us, int64_t bytes, double gbps);

#endif
