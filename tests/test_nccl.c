/* Communicators from an ncclComm_t, on stand-ins for libcuda and for NCCL. */
#include "tests/processes_fixture.h"
#include "tests/shim_nccl.h"

#define TP 3

static struct ncclComm nccl_of(int rank) {
    return (struct ncclComm){.rank = rank,
                             .size = TP,
                             .device = rank % 2,
                             .shared = stage->gathered[0],
                             .room = sizeof(stage->gathered[0]),
                             .barrier = &stage->barrier};
}

static void use_shim(void) {
    char path[4096];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof(path), "%s/tests/shim/libnccl.so", build == NULL ? "build" : build);
    setenv("GRS_NCCL", path, 1);
}

static void work(grs_ctx *ctx, int rank) {
    struct ncclComm nccl = nccl_of(rank);
    grs_comm *comm;
    use_shim();
    require(grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err) == GRS_OK);
    require(grs_comm_rank(comm) == rank && grs_comm_size(comm) == TP && grs_comm_device(comm) == rank % 2);
    require(grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err) == GRS_OK);
    grs_comm_destroy(comm);
    require(shim->live_memory == 0 && shim->live_streams == 0 && shim->live_host == 0 && shim->live_handles == 0);
    require(shim->device[0].retained == 0 && shim->device[1].retained == 0);
}

static void test_from_nccl(void **state) {
    (void)state;
    run_ranks(TP, work);
    assert_ranks_ended_well();
    leave_stage();
}

static void work_errors(grs_ctx *ctx, int rank) {
    struct ncclComm nccl = nccl_of(rank);
    grs_comm *comm = (grs_comm *)ctx;
    setenv("GRS_NCCL", "/nonexistent/libnccl.so", 1);
    require(grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err) == GRS_ERR_UNSUPPORTED && comm == NULL);
    require(strstr(err.text, "GRS_NCCL=/nonexistent/libnccl.so: ") == err.text);
    setenv("GRS_NCCL", getenv("GRS_LIBCUDA"), 1); /* a library, but not NCCL */
    require(grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err) == GRS_ERR_UNSUPPORTED);
    require(strcmp(err.text, "NCCL lacks ncclCommCount: 2.20 or newer is needed") == 0);
    use_shim();
    nccl.size = 65;
    require(grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err) == GRS_ERR_ARGUMENT);
    require(strstr(err.text, "has 65 ranks; allowed: 1 to 64") != NULL);
    nccl.size = 1;
    nccl.fails = 3;
    require(grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err) == GRS_ERR_PEER);
    require(strcmp(err.text, "ncclAllGather: unhandled shim error") == 0);
    require(grs_comm_create_nccl(ctx, NULL, NULL, &comm, &err) == GRS_ERR_ARGUMENT);
    require(strcmp(err.text, "grs_comm_create_nccl: nccl_comm is NULL") == 0);
    require(shim->live_memory == 0 && shim->live_streams == 0 && shim->device[0].retained == 0);
}

static void test_errors(void **state) {
    (void)state;
    run_ranks(1, work_errors);
    assert_ranks_ended_well();
    leave_stage();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_from_nccl), cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests(tests, fixture_open, NULL);
}
