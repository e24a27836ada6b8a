/* The baseline for the product alone: cuBLASLt, with every algorithm that its heuristic offers. */
#ifndef GRS_TOOLS_GRSRUN_CUBLAS_H
#define GRS_TOOLS_GRSRUN_CUBLAS_H

#include "tools/grsrun_baseline_api.h"
#include "tools/grsrun_device.h"

#define GEMM_ALGORITHMS_MAX 32

struct cublas { /* the library's functions */
#define CUBLAS_MEMBER(member, symbol, parameters) int(*member) parameters;
    CUBLAS_API_FUNCTIONS(CUBLAS_MEMBER)
#undef CUBLAS_MEMBER
    size_t (*version)(void);
    const char *(*status_text)(int status);
};

/* GRS_ERR_UNSUPPORTED: there is no cuBLAS. */
grs_status cublas_open(struct cublas *out, grs_error *err);

/* C [m, n] = A [m, k] · B [n, k]^T in BF16 with FP32 accumulation on one GPU, row-major with leading dimensions.
 * Zero-initialise; free with gemm_free. */
struct gemm {
    const struct cublas *cublas;
    const struct device *device;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    CUdeviceptr workspace;
    int count, best; /* algorithms offered, of which the first is what cuBLAS itself would take; the fastest */
    cublasLtMatmulHeuristicResult_t algorithms[GEMM_ALGORITHMS_MAX];
};

grs_status gemm_make(const struct cublas *cublas, const struct device *device, int64_t m, int64_t n, int64_t k,
                     int64_t lda, int64_t ldb, int64_t ldc, struct gemm *out, grs_error *err);
void gemm_free(struct gemm *gemm);
/* With one of the algorithms. Asynchronous, on the device's stream. */
grs_status gemm_run(const struct gemm *gemm, int algorithm, const void *a, const void *b, void *c, grs_error *err);
/* "algorithm 66, tile 20, stages 36, cluster 5, split-K 1 (3 of 12 offered)": cuBLASLt's own numbers. */
void gemm_describe(const struct gemm *gemm, struct buf *out);

#endif
