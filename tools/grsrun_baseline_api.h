/* The parts of cuBLASLt and NCCL that the baselines use, in declarations of our own: both libraries are opened at run time
 * and may be absent. Names and values are those of NVIDIA's headers; tests/test_grsrun_baseline.c includes the real ones
 * first, where they are, and compares. */
#ifndef GRS_TOOLS_GRSRUN_BASELINE_API_H
#define GRS_TOOLS_GRSRUN_BASELINE_API_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda_api.h"

/* X(name, value) */
#define CUBLAS_API_CONSTANTS(X)                                                                                        \
    X(CUBLAS_COMPUTE_32F, 68)                                                                                          \
    X(CUDA_R_32F, 0)                                                                                                   \
    X(CUDA_R_16BF, 14)                                                                                                 \
    X(CUBLAS_OP_T, 1)                                                                                                  \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                                                  \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                                                     \
    X(CUBLASLT_ALGO_CONFIG_ID, 0)                                                                                      \
    X(CUBLASLT_ALGO_CONFIG_TILE_ID, 1)                                                                                 \
    X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)                                                                              \
    X(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6)                                                                               \
    X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8)
#define NCCL_API_CONSTANTS(X)                                                                                          \
    X(ncclSuccess, 0)                                                                                                  \
    X(ncclBfloat16, 9)                                                                                                 \
    X(ncclSum, 0)                                                                                                      \
    X(NCCL_WIN_COLL_SYMMETRIC, 1)

#ifndef CUBLAS_VER_MAJOR
#define BASELINE_ENUM(name, value) name = value,
enum cublas_api_constants { CUBLAS_API_CONSTANTS(BASELINE_ENUM) };
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublas_desc *cublasLtMatmulDesc_t;
typedef struct cublas_layout *cublasLtMatrixLayout_t;
typedef struct cublas_preference *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    int state; /* 0: usable */
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "cublasLtMatmulHeuristicResult_t: wrong size");

#ifndef NCCL_MAJOR
enum nccl_api_constants { NCCL_API_CONSTANTS(BASELINE_ENUM) };
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
#endif
#undef BASELINE_ENUM

/* X(member, symbol, parameters): every one returns an enum that is passed as int. Enumerations are ints here. */
#define CUBLAS_API_FUNCTIONS(X)                                                                                        \
    X(create, cublasLtCreate, (cublasLtHandle_t * handle))                                                             \
    X(destroy, cublasLtDestroy, (cublasLtHandle_t handle))                                                             \
    X(desc_create, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * desc, int compute, int scale))                    \
    X(desc_destroy, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                            \
    X(desc_set, cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t desc, int what, const void *value, size_t size)) \
    X(layout_create, cublasLtMatrixLayoutCreate,                                                                       \
      (cublasLtMatrixLayout_t * layout, int type, uint64_t rows, uint64_t columns, int64_t ld))                        \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                    \
    X(preference_create, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                    \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                    \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                            \
      (cublasLtMatmulPreference_t preference, int what, const void *value, size_t size))                               \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                                       \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,         \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,          \
       cublasLtMatmulHeuristicResult_t *results, int *found))                                                          \
    X(config_get, cublasLtMatmulAlgoConfigGetAttribute,                                                                \
      (const cublasLtMatmulAlgo_t *algo, int what, void *value, size_t size, size_t *written))                         \
    X(matmul, cublasLtMatmul,                                                                                          \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                           \
       cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta, const void *c,           \
       cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *algo,                \
       void *workspace, size_t size, CUstream stream))

#define NCCL_API_FUNCTIONS(X)                                                                                          \
    X(get_version, ncclGetVersion, (int *version))                                                                     \
    X(comm_init_all, ncclCommInitAll, (ncclComm_t * comms, int count, const int *devices))                             \
    X(comm_destroy, ncclCommDestroy, (ncclComm_t comm))                                                                \
    X(group_start, ncclGroupStart, (void))                                                                             \
    X(group_end, ncclGroupEnd, (void))                                                                                 \
    X(reduce_scatter, ncclReduceScatter,                                                                               \
      (const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, CUstream stream))

/* A communicator whose ranks are processes. */
#define NCCL_API_PROCESSES(X)                                                                                          \
    X(get_unique_id, ncclGetUniqueId, (ncclUniqueId * id))                                                             \
    X(init_rank, ncclCommInitRank, (ncclComm_t * comm, int size, ncclUniqueId id, int rank))                           \
    X(destroy, ncclCommDestroy, (ncclComm_t comm))                                                                     \
    X(abort, ncclCommAbort, (ncclComm_t comm))

/* Memory of NCCL's own and windows over it, for exchanges without a copy: 2.27 and newer. */
#define NCCL_API_OPTIONAL(X)                                                                                           \
    X(mem_alloc, ncclMemAlloc, (void **pointer, size_t bytes))                                                         \
    X(mem_free, ncclMemFree, (void *pointer))                                                                          \
    X(window_register, ncclCommWindowRegister,                                                                         \
      (ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags))                                  \
    X(window_deregister, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))

#endif
