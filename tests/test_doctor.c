/* grsgen doctor's report, on the stand-in for libcuda. */
#include "tests/runtime_fixture.h"

#include <unistd.h>

#include "runtime/doctor.h"

static char root[] = "/tmp/grs-test-doctor-XXXXXX";
static struct doctor doctor;

static int open_all(void **state) {
    if (fixture_open(state) != 0 || mkdtemp(root) == NULL) {
        return -1;
    }
    setenv("GRS_CACHE_DIR", root, 1);
    setenv("GRS_NVRTC", "/nonexistent/libnvrtc.so", 1); /* the same rows with and without a toolkit */
    setenv("GRS_NCCL", "/nonexistent/libnccl.so", 1);
    unsetenv("GRS_CONFIG");
    unsetenv("GRS_ARCH");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    return rmdir(root);
}

static int forget(void **state) {
    (void)state;
    doctor_free(&doctor);
    return 0;
}

static const struct doctor_row *row_of(const char *what) {
    for (int i = 0; i < doctor.count; i++) {
        if (strcmp(doctor.rows[i].what, what) == 0) {
            return &doctor.rows[i];
        }
    }
    fail_msg("no row for %s", what);
    return NULL;
}

static void assert_row(const char *what, enum doctor_state row_state, const char *found) {
    const struct doctor_row *row = row_of(what);
    if (strstr(row->found, found) == NULL) {
        fail_msg("%s: %s", what, row->found);
    }
    assert_int_equal(row->state, row_state);
    assert_int_equal(row->remedy == NULL, row_state == DOCTOR_FINE);
}

static void test_two_gpus(void **state) {
    (void)state;
    doctor_examine(&doctor);
    assert_row("config", DOCTOR_FINE, "kernels for sm_90a");
    assert_row("cache", DOCTOR_FINE, root);
    assert_row("driver", DOCTOR_FINE, "libcuda.so, for CUDA 13.0");
    assert_row("GPU 0", DOCTOR_FINE, "Shim, sm_90, 132 SMs");
    assert_row("GPU 1", DOCTOR_FINE, "Shim, sm_90, 132 SMs");
    assert_row("GPUs", DOCTOR_FINE, "2 of 2 run kernels for sm_90a");
    assert_row("peer access", DOCTOR_FINE, "between all 2 GPUs");
    assert_row("native atomics", DOCTOR_FINE, "between all 2 GPUs");
    assert_row("NVRTC", DOCTOR_MISSING, "/nonexistent/libnvrtc.so");
    assert_row("NCCL", DOCTOR_NOTE, "not found");
    assert_false(doctor_passes(&doctor));
}

static void test_wrong_gpus(void **state) {
    (void)state;
    shim->device[1].major = 8;
    shim->native_atomics = 0;
    doctor_examine(&doctor);
    assert_row("GPU 1", DOCTOR_NOTE, "Shim, sm_80, 132 SMs, 0 MiB, not of the arch");
    assert_row("GPUs", DOCTOR_FINE, "1 of 2 run kernels");
    assert_row("native atomics", DOCTOR_NOTE, "not between GPU 0 and GPU 1");
    doctor_free(&doctor);
    shim->device[0].major = 8;
    doctor_examine(&doctor);
    assert_row("GPUs", DOCTOR_MISSING, "0 of 2 run kernels for sm_90a");
    doctor_free(&doctor);
    shim->device_count = 0;
    doctor_examine(&doctor);
    assert_row("GPUs", DOCTOR_MISSING, "none is visible");
}

static void test_bad_config_and_no_cache(void **state) {
    (void)state;
    setenv("GRS_CONFIG", "/nonexistent.yaml", 1);
    doctor_examine(&doctor);
    assert_row("config", DOCTOR_MISSING, "GRS_CONFIG: ");
    unsetenv("GRS_CONFIG");
    doctor_free(&doctor);
    setenv("GRS_CACHE_DIR", "/proc/no/such/place", 1);
    doctor_examine(&doctor);
    setenv("GRS_CACHE_DIR", root, 1);
    assert_row("cache", DOCTOR_NOTE, "/proc/no/such/place");
}

/* GPUs of the Blackwell family take the arch made for them, or the one of the config's that runs on them. */
static void test_arch_of_the_gpu(void **state) {
    static const struct {
        int minor;
        const char *listed, *named; /* arch of the config, GRS_ARCH; NULL: none */
        const char *config, *gpus;  /* rows */
    } rows[] = {
        {0, NULL, NULL, "kernels for sm_100a", "2 of 2 run kernels for sm_100a"},
        {3, NULL, NULL, "kernels for sm_103a", "2 of 2 run kernels for sm_103a"},
        {0, "sm_90a, sm_100f", NULL, "kernels for sm_100f", "2 of 2 run kernels for sm_100f"},
        {3, "sm_90a, sm_100f", NULL, "kernels for sm_100f", "2 of 2 run kernels for sm_100f"},
        {3, "sm_100a, sm_103a", NULL, "kernels for sm_103a", "2 of 2 run kernels for sm_103a"},
        {3, "sm_90a, sm_100a", NULL, "arch: GPU 0 is sm_103a, which the config does not list", NULL},
        {3, NULL, "sm_100a", "kernels for sm_100a", "0 of 2 run kernels for sm_100a"},
        {0, NULL, "sm_103a", "kernels for sm_103a", "0 of 2 run kernels for sm_103a"},
        {3, NULL, "sm_100f", "kernels for sm_100f", "2 of 2 run kernels for sm_100f"},
    };
    char path[sizeof(root) + 16];
    (void)state;
    snprintf(path, sizeof(path), "%s/arch.yaml", root);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int gpu = 0; gpu < 2; gpu++) {
            shim->device[gpu].major = 10;
            shim->device[gpu].minor = rows[i].minor;
        }
        if (rows[i].named != NULL) {
            setenv("GRS_ARCH", rows[i].named, 1);
        }
        if (rows[i].listed != NULL) {
            FILE *file = fopen(path, "w");
            assert_non_null(file);
            fprintf(file, "version: 1\narch: [%s]\n", rows[i].listed);
            assert_int_equal(fclose(file), 0);
            setenv("GRS_CONFIG", path, 1);
        }
        doctor_examine(&doctor);
        unsetenv("GRS_ARCH");
        unsetenv("GRS_CONFIG");
        unlink(path);
        assert_row("config", rows[i].gpus == NULL ? DOCTOR_MISSING : DOCTOR_FINE, rows[i].config);
        if (rows[i].gpus != NULL) {
            assert_row("GPUs", rows[i].gpus[0] == '0' ? DOCTOR_MISSING : DOCTOR_FINE, rows[i].gpus);
        }
        doctor_free(&doctor);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_gpus, fixture_reset, forget),
        cmocka_unit_test_setup_teardown(test_wrong_gpus, fixture_reset, forget),
        cmocka_unit_test_setup_teardown(test_arch_of_the_gpu, fixture_reset, forget),
        cmocka_unit_test_setup_teardown(test_bad_config_and_no_cache, fixture_reset, forget),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
