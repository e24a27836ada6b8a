/* --bench: our kernel, cuBLAS and, with a GPU a rank, cuBLAS + NCCL, on the same operands in the same run. */
#ifndef GRS_TOOLS_GRSRUN_BENCH_H
#define GRS_TOOLS_GRSRUN_BENCH_H

#include "generator/plan.h"
#include "tools/grsrun_report.h"
#include "tools/grsrun_rivals.h"

#define BENCH_ROWS     2 /* a shape: back to back, isolated */
#define BENCH_SETS_MAX 32

/* Times one shape and checks D of a timed kernel on random operands. `counting`: the same kernel with wait counters and
 * stamps, whose figures (those that the options ask for) go into the first row; NULL: none. `notes` gets what is worth saying beside the rows; a wrong D makes `*correct`
 * false. An error means that a launch, memory or a library failed. */
grs_status bench_shape(struct team *team, const grs_kernel *kernel, const grs_kernel *counting,
                       const struct grsrun_shape *shape, const struct baselines *baselines,
                       struct bench_row rows[BENCH_ROWS], bool *correct, struct buf *notes, grs_error *err);

/* Sets of operands to rotate over: one where L2 is to be warm; else so many that `set_bytes` each overflow it. */
int bench_sets(enum grsrun_l2 l2, int64_t set_bytes, int64_t l2_bytes);

/* Such sets, with random values in A and B and poison in D: `*count` of them are made also when it fails. */
grs_status bench_operands(struct team *team, const struct grsrun_shape *shape, struct operands *sets[BENCH_SETS_MAX],
                          int *count, grs_error *err);

/* GB/s of the link that a rank sends over: the config's between GPUs, the model's where there is one, the slower of both;
 * 0: none. */
double bench_link_gbps(const struct team *team, const struct plan *plan);

/* max(GEMM, bytes / rate); NAN where either is unknown. `gbps` 0: no link is crossed. */
double bench_limit_us(double gemm_us, int64_t bytes, double gbps);

/* One more launch on the first set, with poison in D, against the reference. A wrong D is described in `notes`. */
grs_status bench_judge(struct team *team, const grs_kernel *kernel, struct operands *operands,
                       struct values_verdict *verdict, bool *correct, struct buf *notes, grs_error *err);

#endif
