/* Our declarations of cuBLASLt and NCCL against NVIDIA's own headers, where they are, and the libraries as they are opened.
 * Ours pass enumerations as int, so the types of the functions differ and are not compared; constants, the size of what is
 * passed by pointer, and calls of the header's prototypes with parameters like ours are. */
#if __has_include("/usr/local/cuda/include/cublasLt.h") && __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"

#include "/usr/local/cuda/include/cublasLt.h"
#endif
#if __has_include("/usr/local/cuda/include/nccl.h") && defined(CUBLAS_VER_MAJOR)
#include "/usr/local/cuda/include/nccl.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tools/grsrun_cublas.h"
#include "tools/grsrun_nccl.h"

#define SAME_VALUE(name, value) {#name, (long long)name, value},

static void cublas_constants(void **state) {
    (void)state;
#ifdef CUBLAS_VER_MAJOR
    static const struct {
        const char *name;
        long long theirs, ours;
    } constants[] = {CUBLAS_API_CONSTANTS(SAME_VALUE)};
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (constants[i].theirs != constants[i].ours) {
            fail_msg("%s is %lld in cublasLt.h", constants[i].name, constants[i].theirs);
        }
    }
    assert_int_equal(offsetof(cublasLtMatmulHeuristicResult_t, state), 72);
#else
    print_message("SKIP: no cublasLt.h\n");
    skip();
#endif
}

static void nccl_constants(void **state) {
    (void)state;
#ifdef NCCL_MAJOR
    static const struct {
        const char *name;
        long long theirs, ours;
    } constants[] = {NCCL_API_CONSTANTS(SAME_VALUE)};
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (constants[i].theirs != constants[i].ours) {
            fail_msg("%s is %lld in nccl.h", constants[i].name, constants[i].theirs);
        }
    }
#else
    print_message("SKIP: no nccl.h\n");
    skip();
#endif
}

/* The header's own prototypes accept calls with the parameters of our lists, in order: wrong counts, pointers to the wrong
 * type or swapped handles do not compile. */
#ifdef CUBLAS_VER_MAJOR
__attribute__((unused)) static void calls_compile(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                  cublasLtMatrixLayout_t layout, cublasLtMatmulPreference_t preference,
                                                  CUstream stream) {
    cublasLtMatmulHeuristicResult_t result;
    size_t written;
    int found;
    const int32_t value = 1;
    cublasLtCreate(&handle);
    cublasLtDestroy(handle);
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescDestroy(desc);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &value, sizeof(value));
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, (uint64_t)1, (uint64_t)1, (int64_t)1);
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &written,
                                         sizeof(written));
    cublasLtMatmulAlgoGetHeuristic(handle, desc, layout, layout, layout, layout, preference, 1, &result, &found);
    cublasLtMatmulAlgoConfigGetAttribute(&result.algo, CUBLASLT_ALGO_CONFIG_ID, &found, sizeof(found), &written);
    cublasLtMatmul(handle, desc, &value, &value, layout, &value, layout, &value, &value, layout, &written, layout,
                   &result.algo, &written, sizeof(written), stream);
}
#endif

#ifdef NCCL_MAJOR
__attribute__((unused)) static void nccl_calls_compile(ncclComm_t comm, ncclWindow_t window) {
    void *buffer = NULL;
    ncclMemAlloc(&buffer, (size_t)4096);
    ncclCommWindowRegister(comm, buffer, (size_t)4096, &window, NCCL_WIN_COLL_SYMMETRIC);
    ncclCommWindowDeregister(comm, window);
    ncclMemFree(buffer);
}
#endif

/* A file that is named and cannot be opened is an error that names it; nothing else is tried. */
static void named_library_that_is_not_there(void **state) {
    (void)state;
    struct cublas cublas;
    grs_error err;
    setenv("GRS_CUBLASLT", "/nonexistent/libcublasLt.so", 1);
    assert_int_equal(cublas_open(&cublas, &err), GRS_ERR_UNSUPPORTED);
    unsetenv("GRS_CUBLASLT");
    assert_non_null(strstr(err.text, "$GRS_CUBLASLT: /nonexistent/libcublasLt.so"));
}

/* A library that has not what is needed says what. */
static void library_without_the_symbols(void **state) {
    (void)state;
    struct nccl nccl;
    grs_error err;
    setenv("GRS_NCCL", "libm.so.6", 1);
    assert_int_equal(nccl_open(&nccl, &err), GRS_ERR_UNSUPPORTED);
    unsetenv("GRS_NCCL");
    assert_string_equal(err.text, "libm.so.6 lacks ncclGetVersion: too old");
}

static void cublas_opens(void **state) {
    (void)state;
    struct cublas cublas;
    grs_error err;
    if (cublas_open(&cublas, &err)) {
        print_message("SKIP: %s\n", err.text);
        skip();
    }
    assert_true(cublas.version() >= 120000);
    assert_true(strlen(cublas.status_text(0)) > 0);
}

static void nccl_opens(void **state) {
    (void)state;
    struct nccl nccl;
    grs_error err;
    int version = 0;
    if (nccl_open(&nccl, &err)) {
        print_message("SKIP: %s\n", err.text);
        skip();
    }
    assert_int_equal(nccl.get_version(&version), 0);
    assert_true(version >= 22000);
    assert_int_equal(nccl.window_register != NULL, version >= 22700);
    assert_int_equal(nccl.mem_alloc != NULL, version >= 21900);
    assert_string_equal(getenv("NCCL_NVLS_ENABLE"), "0"); /* multicast stays off, whatever the environment said */
    assert_non_null(nccl.error_text(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cublas_constants),
        cmocka_unit_test(nccl_constants),
        cmocka_unit_test(named_library_that_is_not_there),
        cmocka_unit_test(library_without_the_symbols),
        cmocka_unit_test(cublas_opens),
        cmocka_unit_test(nccl_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
