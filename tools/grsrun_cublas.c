#include "tools/grsrun_cublas.h"

#include "common/error.h"
#include "tools/grsrun_library.h"

#define WORKSPACE_BYTES ((size_t)64 << 20) /* more than the largest that cuBLAS recommends (32 MiB on sm_90) */

grs_status cublas_open(struct cublas *out, grs_error *err) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
    const struct library_symbol symbols[] = {
#define CUBLAS_SYMBOL(member, symbol, parameters) {#symbol, &out->member, false},
        CUBLAS_API_FUNCTIONS(CUBLAS_SYMBOL)
#undef CUBLAS_SYMBOL
            {"cublasLtGetVersion", &out->version, false},
        {"cublasLtGetStatusString", &out->status_text, false},
    };
    return library_open("GRS_CUBLASLT", names, "cublas", symbols, sizeof(symbols) / sizeof(symbols[0]), err);
}

static grs_status check(const struct gemm *gemm, int status, const char *what, grs_error *err) {
    return status ? error_set(err, GRS_ERR_DRIVER, "%s on GPU %d: %s", what, gemm->device->ordinal,
                              gemm->cublas->status_text(status))
                  : GRS_OK;
}

/* cuBLAS is column-major. What lies in memory as our C [m, n] is its matrix [n, m], the product of its B^T and A: our B,
 * which it sees as [k, n], is its first operand, transposed; our A, which it sees as [k, m], is its second, as it lies. */
static grs_status describe_problem(struct gemm *gemm, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb,
                                   int64_t ldc, grs_error *err) {
    const struct cublas *cublas = gemm->cublas;
    const int32_t transposed = CUBLAS_OP_T;
    grs_status status = check(gemm, cublas->create(&gemm->handle), "cublasLtCreate", err);
    status = status ? status
                    : check(gemm, cublas->desc_create(&gemm->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                            "cublasLtMatmulDescCreate", err);
    status =
        status ? status
               : check(gemm, cublas->desc_set(gemm->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
                       "cublasLtMatmulDescSetAttribute", err);
    const struct {
        cublasLtMatrixLayout_t *out;
        int64_t rows, columns, ld;
    } layouts[] = {{&gemm->b, k, n, ldb}, {&gemm->a, k, m, lda}, {&gemm->c, n, m, ldc}};
    for (int i = 0; i < 3 && !status; i++) {
        status = check(gemm,
                       cublas->layout_create(layouts[i].out, CUDA_R_16BF, (uint64_t)layouts[i].rows,
                                             (uint64_t)layouts[i].columns, layouts[i].ld),
                       "cublasLtMatrixLayoutCreate", err);
    }
    return status;
}

static grs_status ask_heuristic(struct gemm *gemm, grs_error *err) {
    const struct cublas *cublas = gemm->cublas;
    const uint64_t workspace = WORKSPACE_BYTES;
    cublasLtMatmulPreference_t preference;
    grs_status status = check(gemm, cublas->preference_create(&preference), "cublasLtMatmulPreferenceCreate", err);
    if (status) {
        return status;
    }
    status = check(
        gemm,
        cublas->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)),
        "cublasLtMatmulPreferenceSetAttribute", err);
    status = status ? status
                    : check(gemm,
                            cublas->heuristic(gemm->handle, gemm->desc, gemm->b, gemm->a, gemm->c, gemm->c, preference,
                                              GEMM_ALGORITHMS_MAX, gemm->algorithms, &gemm->count),
                            "cublasLtMatmulAlgoGetHeuristic", err);
    cublas->preference_destroy(preference);
    int usable = 0;
    for (int i = 0; i < gemm->count && !status; i++) {
        if (gemm->algorithms[i].state == 0) {
            gemm->algorithms[usable++] = gemm->algorithms[i];
        }
    }
    gemm->count = usable;
    return status || usable ? status : error_set(err, GRS_ERR_DRIVER, "cuBLAS offers no algorithm for this product");
}

grs_status gemm_make(const struct cublas *cublas, const struct device *device, int64_t m, int64_t n, int64_t k,
                     int64_t lda, int64_t ldb, int64_t ldc, struct gemm *out, grs_error *err) {
    *out = (struct gemm){.cublas = cublas, .device = device};
    grs_status status = device_alloc(device, WORKSPACE_BYTES, &out->workspace, err); /* makes the context current */
    status = status ? status : describe_problem(out, m, n, k, lda, ldb, ldc, err);
    status = status ? status : ask_heuristic(out, err);
    if (status) {
        gemm_free(out);
    }
    return status;
}

void gemm_free(struct gemm *gemm) {
    if (!gemm->device || device_use(gemm->device, NULL)) {
        return;
    }
    device_free(gemm->device, gemm->workspace);
    const cublasLtMatrixLayout_t layouts[] = {gemm->a, gemm->b, gemm->c};
    for (int i = 0; i < 3; i++) {
        if (layouts[i]) {
            gemm->cublas->layout_destroy(layouts[i]);
        }
    }
    if (gemm->desc) {
        gemm->cublas->desc_destroy(gemm->desc);
    }
    if (gemm->handle) {
        gemm->cublas->destroy(gemm->handle);
    }
    *gemm = (struct gemm){0};
}

grs_status gemm_run(const struct gemm *gemm, int algorithm, const void *a, const void *b, void *c, grs_error *err) {
    const float one = 1, zero = 0;
    grs_status status = device_use(gemm->device, err);
    return status
               ? status
               : check(gemm,
                       gemm->cublas->matmul(gemm->handle, gemm->desc, &one, b, gemm->b, a, gemm->a, &zero, c, gemm->c,
                                            c, gemm->c, &gemm->algorithms[algorithm].algo,
                                            (void *)(uintptr_t)gemm->workspace, WORKSPACE_BYTES, gemm->device->stream),
                       "cublasLtMatmul", err);
}

void gemm_describe(const struct gemm *gemm, struct buf *out) {
    static const struct {
        int attribute;
        const char *name;
    } parts[] = {{CUBLASLT_ALGO_CONFIG_ID, "algorithm"},
                 {CUBLASLT_ALGO_CONFIG_TILE_ID, "tile"},
                 {CUBLASLT_ALGO_CONFIG_STAGES_ID, "stages"},
                 {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, "cluster"},
                 {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, "split-K"}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char value[8] = {0}; /* the cluster's is 16 bits, the others' 32 */
        size_t written = 0;
        int status =
            gemm->cublas->config_get(&gemm->algorithms[gemm->best].algo, parts[i].attribute, value, 4, &written);
        if (status) {
            status =
                gemm->cublas->config_get(&gemm->algorithms[gemm->best].algo, parts[i].attribute, value, 2, &written);
        }
        if (!status) {
            buf_printf(out, "%s%s %u", i ? ", " : "", parts[i].name,
                       (unsigned)(uint8_t)value[0] | (unsigned)(uint8_t)value[1] << 8);
        }
    }
    buf_printf(out, " (number %d of %d that cuBLAS %zu offers)", gemm->best + 1, gemm->count, gemm->cublas->version());
}
