/* What launchers put into the environment, read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/environment.h"

static grs_error err;

/* The variables of a case and no others; ends with NULL. */
static grs_status read_with(const char *const *pairs, struct environment *out) {
    clearenv();
    for (; *pairs != NULL; pairs++) {
        assert_int_equal(putenv((char *)(uintptr_t)*pairs), 0);
    }
    memset(&err, 0, sizeof(err));
    return environment_read(out, &err);
}
#define READ(out, ...) read_with((const char *const[]){__VA_ARGS__, NULL}, out)

static void test_torchrun(void **state) {
    struct environment environment, same, other;
    (void)state;
    assert_int_equal(READ(&environment, "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=5", "LOCAL_WORLD_SIZE=8",
                          "MASTER_ADDR=localhost", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none"),
                     GRS_OK);
    assert_string_equal(environment.launcher, "torchrun");
    assert_int_equal(environment.rank, 5);
    assert_int_equal(environment.size, 8);
    assert_int_equal(environment.local_rank, 5);
    assert_int_equal(environment.local_size, 8);
    assert_string_equal(environment.address, "localhost");
    assert_int_equal(environment.port, 29501); /* torchrun's own store has 29500 */
    /* All ranks of a job derive one token, another job another. */
    assert_int_equal(
        READ(&same, "RANK=0", "WORLD_SIZE=8", "MASTER_ADDR=localhost", "MASTER_PORT=29500", "TORCHELASTIC_RUN_ID=none"),
        GRS_OK);
    assert_string_equal(same.token, environment.token);
    assert_int_equal(READ(&other, "RANK=0", "WORLD_SIZE=8", "MASTER_ADDR=localhost", "MASTER_PORT=29500",
                          "TORCHELASTIC_RUN_ID=another"),
                     GRS_OK);
    assert_string_not_equal(other.token, environment.token);
    /* Before Open MPI's and Slurm's. */
    assert_int_equal(READ(&other, "RANK=1", "WORLD_SIZE=2", "MASTER_PORT=1000", "SLURM_PROCID=7", "SLURM_NTASKS=8",
                          "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "GRS_TOKEN=secret"),
                     GRS_OK);
    assert_int_equal(other.rank, 1);
    assert_string_equal(other.address, "127.0.0.1");
    assert_string_equal(other.token, "secret");
}

static void test_open_mpi(void **state) {
    struct environment environment, again;
    (void)state;
    assert_int_equal(READ(&environment, "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4",
                          "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=prterun-1@1"),
                     GRS_OK);
    assert_string_equal(environment.launcher, "Open MPI");
    assert_int_equal(environment.rank, 2);
    assert_int_equal(environment.size, 4);
    assert_int_equal(environment.local_rank, 0);
    assert_int_equal(environment.local_size, 2);
    assert_in_range(environment.port, 20000, 31999);
    assert_int_equal(READ(&again, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "PMIX_NAMESPACE=prterun-1@1"),
                     GRS_OK);
    assert_int_equal(again.port, environment.port);
    assert_string_equal(again.token, environment.token);
    assert_int_equal(READ(&again, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4"), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "neither GRS_MASTER_PORT nor MASTER_PORT is set, and nothing of Open MPI names the "
                                  "job: set GRS_MASTER_PORT to a free port, the same on all ranks");
    assert_int_equal(READ(&again, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "GRS_MASTER_PORT=4000",
                          "GRS_MASTER_ADDR=10.0.0.1", "MASTER_ADDR=10.0.0.2", "MASTER_PORT=5000"),
                     GRS_OK);
    assert_int_equal(again.port, 4000);
    assert_string_equal(again.address, "10.0.0.1");
}

static void test_slurm_and_hydra(void **state) {
    struct environment environment;
    (void)state;
    assert_int_equal(READ(&environment, "SLURM_PROCID=3", "SLURM_NTASKS=16", "SLURM_STEP_NUM_TASKS=4",
                          "SLURM_LOCALID=3", "SLURM_JOB_ID=99", "SLURM_STEP_ID=0"),
                     GRS_OK);
    assert_string_equal(environment.launcher, "Slurm");
    assert_int_equal(environment.rank, 3);
    assert_int_equal(environment.size, 4); /* of the step, not of the job */
    assert_int_equal(environment.local_rank, 3);
    assert_int_equal(READ(&environment, "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_ID=99"), GRS_OK);
    assert_int_equal(environment.size, 2);
    assert_int_equal(READ(&environment, "SLURM_PROCID=1", "SLURM_JOB_ID=99"), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "SLURM_PROCID is set and SLURM_NTASKS is not: both are needed");
    assert_int_equal(READ(&environment, "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "GRS_MASTER_PORT=4000"),
                     GRS_OK);
    assert_string_equal(environment.launcher, "Hydra");
    assert_int_equal(environment.local_rank, 1);
    /* A batch script, not a step. */
    assert_int_equal(READ(&environment, "SLURM_NTASKS=2", "SLURM_JOB_ID=99"), GRS_ERR_ARGUMENT);
    assert_memory_equal(err.text, "no launcher's variables are set", 31);
}

static void test_what_is_wrong_is_named(void **state) {
    static const struct {
        const char *pairs[6];
        const char *text;
    } cases[] = {
        {{"RANK=0"}, "RANK is set and WORLD_SIZE is not: both are needed"},
        {{"WORLD_SIZE=2"}, "WORLD_SIZE is set and RANK is not: both are needed"},
        {{"RANK=2", "WORLD_SIZE=2"}, "RANK=2; allowed: a number from 0 to 1"},
        {{"RANK=-1", "WORLD_SIZE=2"}, "RANK=-1; allowed: a number from 0 to 1"},
        {{"RANK=0", "WORLD_SIZE=65"}, "WORLD_SIZE=65; allowed: a number from 1 to 64"},
        {{"RANK=0", "WORLD_SIZE=0"}, "WORLD_SIZE=0; allowed: a number from 1 to 64"},
        {{"RANK=0x0", "WORLD_SIZE=2"}, "RANK=0x0; allowed: a number from 0 to 1"},
        {{"RANK=0", "WORLD_SIZE=18446744073709551618"},
         "WORLD_SIZE=18446744073709551618; allowed: a number from 1 to 64"},
        {{"RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=3"}, "LOCAL_WORLD_SIZE=3; allowed: a number from 1 to 2"},
        {{"RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1", "LOCAL_RANK=1"},
         "LOCAL_RANK=1; allowed: a number from 0 to 0"},
        {{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=70000"}, "MASTER_PORT=70000; allowed: a number from 1 to 65535"},
        {{"RANK=0", "WORLD_SIZE=2", "MASTER_PORT="},
         "neither GRS_MASTER_PORT nor MASTER_PORT is set, and nothing of torchrun names the job: set GRS_MASTER_PORT "
         "to a free port, the same on all ranks"},
    };
    struct environment environment;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_with(cases[i].pairs, &environment), GRS_ERR_ARGUMENT);
        assert_string_equal(err.text, cases[i].text);
    }
    static char address[400] = "MASTER_ADDR=", token[400] = "GRS_TOKEN=";
    memset(address + 12, 'a', 300);
    memset(token + 10, 't', 300);
    assert_int_equal(READ(&environment, "RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1", address), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "MASTER_ADDR is longer than 255 bytes");
    assert_int_equal(READ(&environment, "RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1", token), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "GRS_TOKEN is longer than 255 bytes");
}

static void test_devices_in_blocks(void **state) {
    struct environment environment = {.local_size = 4};
    static const int wanted[][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, 1, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}};
    (void)state;
    for (int visible = 0; visible < 6; visible++) {
        for (int rank = 0; rank < 4; rank++) {
            environment.local_rank = rank;
            assert_int_equal(environment_device(&environment, visible), wanted[visible][rank]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torchrun),          cmocka_unit_test(test_open_mpi),
        cmocka_unit_test(test_slurm_and_hydra),   cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_devices_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
