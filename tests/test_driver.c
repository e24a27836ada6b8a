/* Opening the driver: what is refused and how, and that a refusal is not for ever. The order of the tests matters: after the
 * last of them the driver is open. */
#include <pthread.h>

#include "runtime/driver.h"
#include "tests/runtime_fixture.h"

static char *shim_path;

static int open_all(void **state) {
    if (fixture_open(state) != 0) {
        return -1;
    }
    shim_path = strdup(getenv("GRS_LIBCUDA"));
    return fixture_reset(state);
}

static int close_all(void **state) {
    (void)state;
    free(shim_path);
    return 0;
}

static void test_no_library(void **state) {
    (void)state;
    setenv("GRS_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    assert_null(driver_get(&err));
    assert_int_equal(err.status, GRS_ERR_DRIVER);
    assert_memory_equal(err.text, "the CUDA driver cannot be opened: /nonexistent/libcuda.so.1: ", 61);
    assert_non_null(strstr(err.text, "GRS_LIBCUDA"));
    assert_null(driver_get(NULL));
}

static void test_library_without_the_functions(void **state) {
    (void)state;
    setenv("GRS_LIBCUDA", "libm.so.6", 1);
    assert_null(driver_get(&err));
    assert_string_equal(err.text, "libm.so.6 has no cuInit: the CUDA driver is too old (CUDA 12.1 or newer is needed)");
}

static void test_old_driver(void **state) {
    (void)state;
    setenv("GRS_LIBCUDA", shim_path, 1);
    shim->version = 12000;
    assert_null(driver_get(&err));
    assert_string_equal(err.text, "the CUDA driver supports CUDA 12.0; 12.1 or newer is needed");
    shim->version = 13000;
}

static void test_driver_that_does_not_start(void **state) {
    (void)state;
    shim->fail_at = 1;
    shim->fail_name = "cuInit";
    shim->fail_with = CUDA_ERROR_UNKNOWN;
    assert_null(driver_get(&err));
    assert_int_equal(err.status, GRS_ERR_DRIVER);
    assert_string_equal(err.text, "cuInit: unknown error (CUDA_ERROR_UNKNOWN, 999)");
}

static void *get(void *arg) {
    *(const struct driver **)arg = driver_get(NULL);
    return NULL;
}

static void test_once_for_all_threads(void **state) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    const struct driver *found[THREADS] = {NULL};
    int starts = 0;
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, get, &found[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_non_null(found[i]);
        assert_ptr_equal(found[i], found[0]);
    }
    for (int i = 0; i < shim->call_count; i++) {
        starts += strcmp(shim->calls[i], "cuInit") == 0;
    }
    assert_int_equal(starts, 1);
    assert_int_equal(found[0]->version, 13000);
    assert_string_equal(found[0]->path, shim_path);
}

static void test_errors_name_the_call(void **state) {
    (void)state;
    const struct driver *drv = driver_get(&err);
    assert_int_equal(driver_error(drv, &err, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc(%d bytes)", 4096), GRS_ERR_MEMORY);
    assert_string_equal(err.text, "cuMemAlloc(4096 bytes): out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)");
    assert_int_equal(driver_error(drv, NULL, CUDA_ERROR_UNKNOWN, "cuInit"), GRS_ERR_DRIVER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_library, fixture_reset),
        cmocka_unit_test_setup(test_library_without_the_functions, fixture_reset),
        cmocka_unit_test_setup(test_old_driver, fixture_reset),
        cmocka_unit_test_setup(test_driver_that_does_not_start, fixture_reset),
        cmocka_unit_test_setup(test_once_for_all_threads, fixture_reset),
        cmocka_unit_test_setup(test_errors_name_the_call, fixture_reset),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
