/* cuBLASLt and NCCL that compute nothing: they check what they are asked and let time pass, so that the order of the
 * algorithms is known: number 3 of 5 is the fastest, 0 is slower, 1 always fails, 2 is not usable, 4 is as slow as 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/grsrun_baseline_api.h"

static const long microseconds[] = {600, 0, 0, 200, 600};

static void pass_time(long us) {
    struct timespec t = {0, us * 1000}, left;
    while (nanosleep(&t, &left)) {
        t = left;
    }
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FUNCTION(symbol, parameters)                                                                                   \
    int symbol parameters;                                                                                             \
    int symbol parameters

struct cublasLtContext {
    int unused;
};
struct cublas_desc {
    int32_t transposed;
};
struct cublas_layout {
    uint64_t rows, columns;
    int64_t ld;
};
struct cublas_preference {
    uint64_t workspace;
};

#define MAKE(out) ((*(out) = calloc(1, sizeof(**(out)))) ? 0 : 3)

FUNCTION(cublasLtCreate, (cublasLtHandle_t * handle)) {
    return MAKE(handle);
}
FUNCTION(cublasLtDestroy, (cublasLtHandle_t handle)) {
    free(handle);
    return 0;
}
FUNCTION(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * desc, int compute, int scale)) {
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? MAKE(desc) : 7;
}
FUNCTION(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc)) {
    free(desc);
    return 0;
}
FUNCTION(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t desc, int what, const void *value, size_t size)) {
    memcpy(&desc->transposed, value, sizeof(desc->transposed));
    return what == CUBLASLT_MATMUL_DESC_TRANSA && size == 4 ? 0 : 7;
}
FUNCTION(cublasLtMatrixLayoutCreate,
         (cublasLtMatrixLayout_t * layout, int type, uint64_t rows, uint64_t columns, int64_t ld)) {
    if (type != CUDA_R_16BF || ld < (int64_t)rows || MAKE(layout)) {
        return 7;
    }
    **layout = (struct cublas_layout){rows, columns, ld};
    return 0;
}
FUNCTION(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout)) {
    free(layout);
    return 0;
}
FUNCTION(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference)) {
    return MAKE(preference);
}
FUNCTION(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference)) {
    free(preference);
    return 0;
}
FUNCTION(cublasLtMatmulPreferenceSetAttribute,
         (cublasLtMatmulPreference_t preference, int what, const void *value, size_t size)) {
    return what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && size == 8 ? 0 : 7;
}

/* Column-major, the first operand transposed: [k, m'] and [k, n'] give [m', n']. */
static int fits(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                cublasLtMatrixLayout_t c) {
    return desc->transposed == CUBLAS_OP_T && a->rows == b->rows && c->rows == a->columns && c->columns == b->columns;
}

FUNCTION(cublasLtMatmulAlgoGetHeuristic,
         (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
          cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,
          cublasLtMatmulHeuristicResult_t *results, int *found)) {
    if (!fits(desc, a, b, c) || d != c || wanted < 5) {
        return 7;
    }
    *found = 5;
    for (uint64_t i = 0; i < 5; i++) {
        results[i] = (cublasLtMatmulHeuristicResult_t){.algo = {{i}}, .state = i == 2 ? 15 : 0};
    }
    return 0;
}
FUNCTION(cublasLtMatmulAlgoConfigGetAttribute,
         (const cublasLtMatmulAlgo_t *algo, int what, void *value, size_t size, size_t *written)) {
    size_t own = what == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ? 2 : 4;
    if (size != own) {
        return 7;
    }
    int number = (int)algo->data[0] * 10 + what;
    memcpy(value, &number, own);
    *written = own;
    return 0;
}
FUNCTION(cublasLtMatmul, (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                          cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                          const void *c, cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                          const cublasLtMatmulAlgo_t *algo, void *workspace, size_t size, CUstream stream)) {
    if (!fits(desc, la, lb, lc) || ld != lc || c != d || !a || !b || !d || !workspace || !stream ||
        algo->data[0] == 1) {
        return 7;
    }
    memset(d, 0, (size_t)lc->ld * lc->columns * 2);
    pass_time(microseconds[algo->data[0]]);
    return 0;
}
size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) {
    return 130001;
}
const char *cublasLtGetStatusString(int status);
const char *cublasLtGetStatusString(int status) {
    return status == 7 ? "invalid value" : "other";
}

/* ---------------------------------------------------------------- NCCL ------------------------------------------- */

struct ncclComm {
    int rank, count;
};
static int open_groups, scattered, registered;
static void *windows[64]; /* what was registered; 0: free */
#define WINDOWS (sizeof(windows) / sizeof(windows[0]))

static int window_of(const void *buffer) {
    for (size_t i = 0; i < WINDOWS; i++) {
        if (windows[i] == buffer) {
            return (int)i;
        }
    }
    return -1;
}

FUNCTION(ncclGetVersion, (int *version)) {
    *version = 22809;
    return 0;
}
FUNCTION(ncclCommInitAll, (ncclComm_t * comms, int count, const int *devices)) {
    const char *multicast = getenv("NCCL_NVLS_ENABLE");
    if (!multicast || strcmp(multicast, "0")) { /* must be off */
        return 5;
    }
    for (int i = 0; i < count; i++) {
        if (devices[i] != i || MAKE(&comms[i])) {
            return 4;
        }
        *comms[i] = (struct ncclComm){i, count};
    }
    return 0;
}
FUNCTION(ncclCommDestroy, (ncclComm_t comm)) {
    free(comm);
    return 0;
}
FUNCTION(ncclGroupStart, (void)) {
    return open_groups++ ? 5 : 0;
}
static int in_place; /* exchanges of this group that need no copy */
FUNCTION(ncclGroupEnd, (void)) {
    if (scattered) {
        pass_time(in_place ? 300 : 500);
    }
    int complete = scattered == 2 || registered == 2;
    scattered = registered = in_place = 0;
    return --open_groups == 0 && complete ? 0 : 5;
}
FUNCTION(ncclMemAlloc, (void **pointer, size_t bytes)) {
    *pointer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *pointer ? 0 : 1;
}
FUNCTION(ncclMemFree, (void *pointer)) {
    int open = window_of(pointer) >= 0; /* must be deregistered first */
    free(pointer);
    return open ? 4 : 0;
}
/* SHIM_NCCL_WINDOWS=0: a machine that has no such windows. */
FUNCTION(ncclCommWindowRegister, (ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags)) {
    const char *allowed = getenv("SHIM_NCCL_WINDOWS");
    int place = window_of(NULL);
    if (!open_groups || comm->rank != registered++ || flags != NCCL_WIN_COLL_SYMMETRIC || bytes % 4096 || !buffer ||
        place < 0) {
        return 4;
    }
    if (!allowed || strcmp(allowed, "0")) {
        windows[place] = buffer;
        *window = (ncclWindow_t)(void *)&windows[place];
    }
    return 0;
}
FUNCTION(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window)) {
    *(void **)(void *)window = NULL;
    return 0;
}
FUNCTION(ncclReduceScatter,
         (const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, CUstream stream)) {
    if (!open_groups || type != ncclBfloat16 || op != ncclSum || comm->rank != scattered++ || !stream) {
        return 4;
    }
    in_place += window_of(from) >= 0 && window_of(to) >= 0;
    memcpy(to, (const char *)from + (size_t)comm->rank * count * 2, count * 2);
    return 0;
}
const char *ncclGetErrorString(int status);
const char *ncclGetErrorString(int status) {
    return status == 4 ? "invalid argument" : "other";
}
