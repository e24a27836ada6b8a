/* What our kernel is compared with: cuBLAS for the products and, with a GPU a rank, cuBLAS followed by NCCL's exchange, the
 * latter also between buffers that NCCL uses in place. */
#ifndef GRS_TOOLS_GRSRUN_RIVALS_H
#define GRS_TOOLS_GRSRUN_RIVALS_H

#include "tools/grsrun_cublas.h"
#include "tools/grsrun_nccl.h"
#include "tools/grsrun_time.h"

/* The libraries. Zero-initialise; close with baselines_leave. */
struct baselines {
    bool has_cublas, has_nccl;
    struct cublas cublas;
    struct nccl nccl;
    struct scatter scatter; /* of the team that was joined last, if it has a GPU a rank */
    double link_gbps;       /* of that team: measured between its GPUs; NAN: they are one */
};

/* Opens what is installed; what is not is said in `notes`. */
void baselines_open(struct baselines *out, struct buf *notes);
/* Measures the team's link, and makes NCCL's communicators (seconds) where it can use them: one rank a GPU, at least 2. A
 * failure is said in `notes`, and there is no such column then. */
void baselines_join(struct baselines *baselines, struct team *team, struct buf *notes);
void baselines_leave(struct baselines *baselines);

enum rival {
    RIVAL_GEMM = 0, /* the products, with cuBLAS's fastest algorithm */
    RIVAL_DEFAULT,  /* with the one that cuBLAS takes by itself, where that is another and runs */
    RIVAL_SCATTER,  /* the fastest, then the exchange */
    RIVAL_REGISTERED,
    RIVAL_COUNT
};

/* All that runs on one shape's operands. Zero-initialise; free with rivals_close. */
struct rivals {
    struct team *team;
    struct grsrun_shape shape;
    const struct baselines *baselines;
    struct operands *const *operands;                     /* sets, borrowed                               */
    struct gemm gemms[GRS_MAX_TP];                        /* by device                                    */
    CUdeviceptr products[GRS_MAX_TP], shares[GRS_MAX_TP]; /* by rank: [tp · c, N], what cuBLAS makes; [c, N] */
    struct scatter_buffers registered;                    /* the same once more                           */
    bool has[RIVAL_COUNT];
};

/* Prepares those that there are libraries for, and finds cuBLAS's best algorithm by `timing`. */
grs_status rivals_open(struct team *team, const struct grsrun_shape *shape, const struct baselines *baselines,
                       struct operands *const *operands, struct timing *timing, struct rivals *out, struct buf *notes,
                       grs_error *err);
void rivals_close(struct rivals *rivals);
/* A fresh contestant; `rivals` must stay where it is. Only where has[which]. */
struct contestant rivals_contestant(struct rivals *rivals, enum rival which);

#endif
