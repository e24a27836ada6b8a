/* Our declarations of the driver's interface against NVIDIA's own header, where there is one. Most of the comparison is
 * done by the compiler: a wrong signature or size does not build. */
#if __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#elif __has_include(<cuda.h>)
#include <cuda.h>
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/cuda_api.h"

#ifdef CUDA_VERSION

#define SAME_SIGNATURE(member, symbol, parameters)                                                                     \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) parameters),                          \
                   #symbol ": signature differs from cuda.h");
CUDA_API_FUNCTIONS(SAME_SIGNATURE)

#define SAME_VALUE(name, value) {#name, (long long)name, value},
static const struct {
    const char *name;
    long long theirs, ours;
} constants[] = {
    CUDA_API_RESULTS(SAME_VALUE) CUDA_API_DEVICE_ATTRIBUTES(SAME_VALUE) CUDA_API_P2P_ATTRIBUTES(SAME_VALUE)
        CUDA_API_FUNCTION_ATTRIBUTES(SAME_VALUE) CUDA_API_LAUNCH_ATTRIBUTES(SAME_VALUE) CUDA_API_JIT_OPTIONS(SAME_VALUE)
            CUDA_API_TENSOR_DATA_TYPES(SAME_VALUE) CUDA_API_TENSOR_INTERLEAVES(SAME_VALUE) CUDA_API_TENSOR_SWIZZLES(
                SAME_VALUE) CUDA_API_TENSOR_PROMOTIONS(SAME_VALUE) CUDA_API_TENSOR_FILLS(SAME_VALUE)
                CUDA_API_CAPTURE_MODES(SAME_VALUE) CUDA_API_CAPTURE_STATUSES(SAME_VALUE) CUDA_API_COPY_TYPES(SAME_VALUE)
                    CUDA_API_MEMORY_HANDLE_TYPES(SAME_VALUE) CUDA_API_MEMORY_TYPES(SAME_VALUE)
                        CUDA_API_MEMORY_LOCATIONS(SAME_VALUE) CUDA_API_MEMORY_ACCESSES(SAME_VALUE)
                            CUDA_API_MEMORY_GRANULARITIES(SAME_VALUE)
                                CUDA_API_FLAGS(SAME_VALUE){"CU_MEMHOSTALLOC_PORTABLE", CU_MEMHOSTALLOC_PORTABLE, 1},
    {"CU_MEMHOSTALLOC_DEVICEMAP", CU_MEMHOSTALLOC_DEVICEMAP, 2},
    {"CU_MEMHOSTREGISTER_PORTABLE", CU_MEMHOSTREGISTER_PORTABLE, 1},
    {"CU_MEMHOSTREGISTER_DEVICEMAP", CU_MEMHOSTREGISTER_DEVICEMAP, 2},
};

static void test_constants(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        if (constants[i].theirs != constants[i].ours) {
            fail_msg("%s is %lld in cuda.h, %lld in runtime/cuda_api.h", constants[i].name, constants[i].theirs,
                     constants[i].ours);
        }
    }
}

#else

static void test_constants(void **state) {
    (void)state;
    print_message("SKIP: no cuda.h on this machine: nothing to compare with\n");
    skip();
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
