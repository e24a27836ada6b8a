/* Communicators over several nodes, with numbers. */
#include "tests/staged_fixture.h"

/* Captured once, replayed with other values in A. */
static void replay_and_check(grs_comm *comm, const grs_kernel *kernel, int64_t M, int64_t pad) {
    const struct driver *drv = driver_get(&err);
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    struct problem p = make_problem(grs_comm_rank(comm), M, pad, 3), q = make_problem(grs_comm_rank(comm), M, pad, 4);
    int before = counts()->scatters;
    require(drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    require(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    require(grs_launch(comm, kernel, &p.operands, stream, &err) == GRS_OK);
    require(drv->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    require(drv->cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    require(counts()->scatters == before);
    require(drv->cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    check_problem(&p, 3);
    memcpy((void *)(uintptr_t)p.operands.A, q.operands.A, (size_t)(M * K * 2));
    memcpy((void *)(uintptr_t)p.operands.B, q.operands.B, (size_t)(N * K * 2));
    require(drv->cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    check_problem(&p, 4);
    require(drv->cuGraphExecDestroy(exec) == CUDA_SUCCESS && drv->cuGraphDestroy(graph) == CUDA_SUCCESS);
    require(drv->cuStreamDestroy(stream) == CUDA_SUCCESS);
}

static grs_path_info wanted_path;

static void work_numbers(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    int tp = stage->size;
    const grs_kernel *kernel = NULL;
    grs_path_info info = GRS_INIT(grs_path_info);
    require(grs_comm_rank(comm) == rank && grs_comm_size(comm) == tp && grs_comm_device(comm) == rank);
    require(grs_comm_get_path(comm, &info, &err) == GRS_OK);
    require(info.path == wanted_path.path && info.nodes == wanted_path.nodes);
    require(info.node_ranks == wanted_path.node_ranks && strstr(info.why, wanted_path.why) != NULL);
    require((info.why[0] != '\0') == (info.path == GRS_PATH_UNFUSED));
    require(grs_ctx_get(ctx, 1, N, K, tp, &kernel, &err) == GRS_OK);
    require(grs_comm_prepare(comm, kernel, 2, &err) == GRS_OK);
    launch_and_check(comm, kernel, 1, 0);
    require(grs_comm_prepare(comm, kernel, MOST, &err) == GRS_OK); /* grows */
    require(grs_comm_prepare(comm, kernel, 8, &err) == GRS_OK);    /* is there */
    for (int64_t pad = 0; pad <= 16; pad += 16) {
        for (int64_t M = 1; M <= 3 * tp + 1; M++) {
            launch_and_check(comm, kernel, M, pad);
        }
        launch_and_check(comm, kernel, MOST, pad);
        launch_and_check(comm, kernel, MOST - 1, pad);
        replay_and_check(comm, kernel, 2 * tp - 1, pad);
    }
    require(grs_comm_check(comm, &err) == GRS_OK);
    grs_comm_destroy(comm);
    require(counts()->alive == 0 && counts()->aborted == 0);
    grs_ctx_close(ctx);
}

static void no_peers(int rank) {
    if (letters[rank] == 'b' || letters[rank] == 'z') {
        setenv("HOSTGPU_NO_PEERS", "1", 1);
    }
}
static void not_blocking(int rank) {
    (void)rank;
    nccl.in_progress = 3;
}

static void test_numbers(void **state) {
    static const struct {
        const char *letters;
        void (*prepare)(int);
        grs_path_info info;
    } cases[] = {
        {"aaa", NULL, {.path = GRS_PATH_FUSED, .nodes = 1, .node_ranks = 3, .why = ""}},
        {"aabb", NULL, {.path = GRS_PATH_STAGED, .nodes = 2, .node_ranks = 2, .why = ""}},
        {"aaabbb", NULL, {.path = GRS_PATH_STAGED, .nodes = 2, .node_ranks = 3, .why = ""}},
        {"aabbcc", not_blocking, {.path = GRS_PATH_STAGED, .nodes = 3, .node_ranks = 2, .why = ""}},
        {"abc", NULL, {.path = GRS_PATH_UNFUSED, .nodes = 3, .node_ranks = 1, .why = "on a node of its own"}},
        {"ab", not_blocking, {.path = GRS_PATH_UNFUSED, .nodes = 2, .node_ranks = 1, .why = "on a node of its own"}},
        {"aba", NULL, {.path = GRS_PATH_UNFUSED, .nodes = 3, .node_ranks = 1, .why = "one behind the other"}},
        {"aab", NULL, {.path = GRS_PATH_UNFUSED, .nodes = 3, .node_ranks = 1, .why = "nodes differ in size"}},
        {"aabb",
         no_peers,
         {.path = GRS_PATH_UNFUSED, .nodes = 4, .node_ranks = 1, .why = "node 1 (b): rank 0 (process "}},
        {"zz", no_peers, {.path = GRS_PATH_UNFUSED, .nodes = 2, .node_ranks = 1, .why = "cannot reach the memory of"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        letters = cases[i].letters;
        prepare_rank = cases[i].prepare;
        wanted_path = cases[i].info;
        run_ranks((int)strlen(letters), work_numbers);
        for (int rank = 0; rank < stage->size; rank++) {
            if (stage->ended[rank] != 0) {
                fail_msg("%s: rank %d ended with %#x", letters, rank, (unsigned)stage->ended[rank]);
            }
        }
        leave_stage();
    }
    prepare_rank = NULL;
}

/* ---------------------------------------------------------------- what goes wrong ------------------------------- */

static int bad; /* what goes wrong */
enum { DIFFERING_M, NO_KERNEL, NO_INNER, OTHER_TP, SCATTER_FAILS, ERRORS };

static void fail_scatter(int rank) {
    (void)rank;
    nccl.scatter_fails = bad == SCATTER_FAILS ? 3 : 0;
}

static void work_prepare_errors(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    const grs_kernel *kernel = NULL, *other = NULL;
    struct problem p = make_problem(rank, 4, 0, 1);
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &kernel, &err) == GRS_OK);
    require(grs_ctx_get(ctx, 1, N, K, 5, &other, &err) == GRS_OK);
    if (rank == 1 && (bad == NO_INNER || bad == NO_KERNEL)) {
        setenv("SHIM_NVRTC_FAIL", "1", 1);
    }
    if (rank == 1 && bad == NO_KERNEL) {
        require(grs_ctx_get(ctx, 1, N, 2 * K, stage->size, &other, &err) == GRS_ERR_COMPILER);
    }
    note(rank, grs_comm_prepare(comm,
                                rank != 1          ? kernel
                                : bad == NO_KERNEL ? NULL
                                : bad == OTHER_TP  ? other
                                                   : kernel,
                                rank == 1 && bad == DIFFERING_M ? 8 : 16, &err));
    require(grs_launch(comm, kernel, &p.operands, NULL, &err) == GRS_ERR_STATE);
    require(strstr(err.text, "grs_comm_prepare was not called for ") != NULL);
    if (bad == DIFFERING_M) { /* and nothing is broken by it */
        require(grs_comm_prepare(comm, kernel, 16, &err) == GRS_OK);
        launch_and_check(comm, kernel, 13, 0);
    }
    grs_comm_destroy(comm);
    require(counts()->alive == 0);
    grs_ctx_close(ctx);
}

static void assert_same_error(grs_status status, const char *part) {
    for (int rank = 0; rank < stage->size; rank++) {
        if (stage->ended[rank] != 0 || stage->outcome[rank].status != status ||
            strstr(stage->outcome[rank].text, part) == NULL ||
            strcmp(stage->outcome[rank].text, stage->outcome[0].text) != 0) {
            fail_msg("rank %d ended with %#x: %s: '%s', wanted %s with '%s' on all ranks", rank,
                     (unsigned)stage->ended[rank], grs_status_name(stage->outcome[rank].status),
                     stage->outcome[rank].text, grs_status_name(status), part);
        }
    }
}

static void test_errors_of_prepare(void **state) {
    static const struct {
        grs_status status;
        const char *text;
    } cases[ERRORS] = {
        [DIFFERING_M] = {GRS_ERR_PEER, "the ranks differ: max_M: 16 on ranks 0, 2 and 3; 8 on rank 1"},
        [NO_KERNEL] = {GRS_ERR_COMPILER, "rank 1: "},
        [NO_INNER] = {GRS_ERR_COMPILER, "rank 1: the kernel of tp "},
        [OTHER_TP] = {GRS_ERR_ARGUMENT, "is for tp 5, the communicator has 4 ranks"},
        [SCATTER_FAILS] = {GRS_ERR_PEER, "ncclReduceScatter: unhandled shim error"},
    };
    static const char *const shapes[] = {"aabb", "abcd"};
    (void)state;
    prepare_rank = fail_scatter;
    for (int shape = 0; shape < 2; shape++) {
        letters = shapes[shape];
        for (bad = 0; bad < ERRORS; bad++) {
            run_ranks(4, work_prepare_errors);
            assert_same_error(cases[bad].status, cases[bad].text);
            leave_stage();
        }
    }
    prepare_rank = NULL;
}

static void fail_split(int rank) {
    nccl.split_fails = rank == 1 ? 3 : 0;
}
static void fail_split_late(int rank) { /* the new communicator is there, and then fails */
    nccl.in_progress = 3;
    nccl.async_fails = rank == 1 ? 6 : 0;
}
static void long_name(int rank) {
    char name[80];
    snprintf(name, sizeof(name), "%070d", 0);
    if (rank == 1) {
        setenv("GRS_NODE", name, 1);
    }
}
static void other_options(int rank) {
    if (rank == 1) {
        setenv("GRS_DEADLINE", "soon", 1);
    }
}

static void work_create_errors(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = (grs_comm *)ctx;
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.setup_seconds = 20;
    note(rank, grs_comm_create_nccl(ctx, &nccl, &options, &comm, &err));
    require(comm == NULL && counts()->alive == 0);
    grs_ctx_close(ctx);
}

static void test_errors_of_creation(void **state) {
    static const struct {
        const char *letters;
        void (*prepare)(int);
        grs_status status;
        const char *text;
    } cases[] = {
        {"abc", fail_split, GRS_ERR_PEER, "node 1 (b): ncclCommSplit: unhandled shim error"},
        {"abc", fail_split_late, GRS_ERR_PEER, "node 1 (b): ncclCommSplit: unhandled shim error"},
        {"abc", long_name, GRS_ERR_ARGUMENT, "rank 1: GRS_NODE has 70 bytes; allowed: up to 64"},
        {"abc", other_options, GRS_ERR_ARGUMENT, "node 1 (b): GRS_DEADLINE=soon"},
        {"aaa", other_options, GRS_ERR_ARGUMENT, "on no GPU): GRS_DEADLINE=soon"},
        {"aabb", other_options, GRS_ERR_ARGUMENT, "node 0 (a): rank 1 (process "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        letters = cases[i].letters;
        prepare_rank = cases[i].prepare;
        run_ranks((int)strlen(letters), work_create_errors);
        assert_same_error(cases[i].status, cases[i].text);
        leave_stage();
    }
    prepare_rank = NULL;
}

static void work_faults(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    const grs_kernel *kernel = NULL, *not_prepared = NULL;
    struct problem p = make_problem(rank, 5, 0, 1);
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &kernel, &err) == GRS_OK);
    require(grs_ctx_get(ctx, 1, N, 2 * K, stage->size, &not_prepared, &err) == GRS_OK);
    require(grs_comm_prepare(comm, kernel, 16, &err) == GRS_OK);
    /* The operands' errors speak of the whole communicator. */
    grs_operands operands = p.operands;
    operands.M = 17;
    require(grs_launch(comm, kernel, &operands, NULL, &err) == GRS_ERR_STATE);
    require(strstr(err.text, "with M up to 16") != NULL);
    operands = p.operands;
    operands.A = NULL;
    require(grs_launch(comm, kernel, &operands, NULL, &err) == GRS_ERR_ARGUMENT);
    char text[64];
    snprintf(text, sizeof(text), "rank %d: A is NULL", rank);
    require(strcmp(err.text, text) == 0);
    operands = p.operands;
    operands.D = NULL; /* with M 5 on 4 ranks the last keeps no row */
    if (rank == 2) {
        require(grs_launch(comm, kernel, &operands, NULL, &err) == GRS_ERR_ARGUMENT);
        require(
            strstr(err.text, "rank 2: D is NULL; allowed only where no row is kept, and this rank keeps rows 4 to 4") !=
            NULL);
    }
    require(grs_launch(comm, not_prepared, &p.operands, NULL, &err) == GRS_ERR_STATE);
    require(grs_launch_local(&comm, kernel, &p.operands, NULL, &err) == GRS_ERR_ARGUMENT);
    require(strstr(err.text, "one rank of an ncclComm_t; each rank calls grs_launch") != NULL);

    require(grs_comm_check(comm, &err) == GRS_OK);
    nccl.async_fails = rank == 2 ? 6 : 0;
    require(grs_comm_check(comm, &err) == (rank == 2 ? GRS_ERR_PEER : GRS_OK));
    require(rank != 2 || strcmp(err.text, "rank 2: NCCL between the nodes: unhandled shim error") == 0);
    meet_all();
    require(grs_comm_abort(comm, &err) == GRS_OK && counts()->aborted == 1 && counts()->alive == 0);
    require(grs_comm_abort(comm, &err) == GRS_OK && counts()->aborted == 1);
    require(grs_launch(comm, kernel, &p.operands, NULL, &err) == GRS_ERR_STATE);
    require(strstr(err.text, "the communicator was aborted") != NULL);
    require(grs_comm_prepare(comm, kernel, 32, &err) == GRS_ERR_STATE);
    require(grs_comm_check(comm, &err) == GRS_ERR_STATE);
    meet_all();
    grs_comm_destroy(comm);
    grs_ctx_close(ctx);
}

static void test_faults(void **state) {
    static const char *const shapes[] = {"aabb", "abcd"};
    (void)state;
    for (int shape = 0; shape < 2; shape++) {
        letters = shapes[shape];
        run_ranks(4, work_faults);
        assert_ranks_ended_well();
        leave_stage();
    }
}

/* One rank gets no memory: every rank is told, and can try again. */
static const struct driver *real;
static size_t refused_bytes;

static CUresult refuse(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    return bytes == refused_bytes ? CUDA_ERROR_OUT_OF_MEMORY : real->cuMemsetD8Async(to, value, bytes, stream);
}

static void work_no_memory(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    const grs_kernel *kernel = NULL;
    struct driver table = *comm->group->drv;
    struct problem p = make_problem(rank, 4, 0, 1);
    real = comm->group->drv;
    table.cuMemsetD8Async = refuse;
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &kernel, &err) == GRS_OK);
    refused_bytes = (size_t)(comm->staged->nodes.count * (MOST / stage->size) * N) * 2;
    comm->group->drv = rank == 1 ? &table : real;
    note(rank, grs_comm_prepare(comm, kernel, MOST, &err));
    comm->group->drv = real;
    require(grs_launch(comm, kernel, &p.operands, NULL, &err) == GRS_ERR_STATE);
    require(grs_comm_prepare(comm, kernel, MOST, &err) == GRS_OK);
    launch_and_check(comm, kernel, MOST, 0);
    grs_comm_destroy(comm);
    require(counts()->alive == 0);
    grs_ctx_close(ctx);
}

static void test_no_memory(void **state) {
    static const char *const shapes[] = {"aabb", "abcd"};
    (void)state;
    for (int shape = 0; shape < 2; shape++) {
        letters = shapes[shape];
        run_ranks(4, work_no_memory);
        assert_same_error(GRS_ERR_MEMORY, shape == 0 ? "rank 1: cuMemsetD8Async(1536 bytes for the sums of a node)"
                                                     : "rank 1: cuMemsetD8Async(3072 bytes for the sums of a node)");
        leave_stage();
    }
}

/* Kernels of node a were aborted, by a failed launch say: what NCCL has in flight there may never end, so it is ended by an abort
 * and not waited for. Node b knows nothing of it. */
static void work_aborted_node(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    if (rank == 0) {
        require(group_abort(comm->staged->inner->group, &err) == GRS_OK);
    }
    meet_all();
    require(grs_comm_check(comm, &err) == (rank < 2 ? GRS_ERR_STATE : GRS_OK));
    require(rank >= 2 || strstr(err.text, "node 0, whose ranks 0 to 1 are 0 to 1 in what follows: ") == err.text);
    meet_all();
    grs_comm_destroy(comm);
    require(counts()->alive == 0 && counts()->aborted == (rank < 2));
    grs_ctx_close(ctx);
}

static void test_aborted_node(void **state) {
    (void)state;
    letters = "aabb";
    run_ranks(4, work_aborted_node);
    assert_ranks_ended_well();
    leave_stage();
}

/* A kernel of the caller's that needs two within the node. Which N has such is the planner's business. */
static void work_classes(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    const grs_kernel *kernel = NULL, *first = NULL;
    int64_t n, most = 0;
    for (n = 264; n <= 4096; n += 256) {
        require(grs_ctx_get(ctx, 1, n, K, stage->size, &kernel, &err) == GRS_OK);
        require(grs_ctx_get(ctx, 1, n, K, 1, &first, &err) == GRS_OK);
        most = first->plan.shape.m_max + 1; /* the first M of the second class */
        if (most <= kernel->plan.shape.m_max && most < 100000) {
            break;
        }
    }
    require(n <= 4096);
    require(grs_comm_prepare(comm, kernel, most, &err) == GRS_OK && comm->staged->kernels->count == 2);
    /* Filled with zeros; the launches are looked at, not their results. */
    const grs_operands operands = {.A = calloc((size_t)(most * K), 2),
                                   .lda = K,
                                   .B = calloc((size_t)(n * K), 2),
                                   .ldb = K,
                                   .D = calloc((size_t)(most * n), 2),
                                   .ldd = n};
    for (int64_t M = most; M >= most - 1; M--) {
        grs_operands now = operands;
        now.M = M;
        require(grs_launch(comm, kernel, &now, NULL, &err) == GRS_OK);
        const struct grs_comm *inner = comm->staged->inner;
        require(inner->latest_m == M && inner->latest_kernel == comm->staged->kernels->inner[M == most]);
        const struct plan_shape *shape = &inner->latest_kernel->kernel->plan.shape;
        require(shape->tp == 1 && shape->m_min <= M && M <= shape->m_max);
    }
    free((void *)(uintptr_t)operands.A);
    free((void *)(uintptr_t)operands.B);
    free(operands.D);
    grs_comm_destroy(comm);
    grs_ctx_close(ctx);
}

static void test_classes(void **state) {
    (void)state;
    letters = "ab";
    run_ranks(2, work_classes);
    assert_ranks_ended_well();
    leave_stage();
}

/* Of all ranks, only this one's last exchange fails: it must not take that for the word of all. */
static void work_cut_off_in_creation(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    grs_comm_destroy(comm);
    nccl.gather_fails_at = rank == 1 ? 2 * nccl.gathers : 0;
    grs_status status = grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err);
    require(status == (rank == 1 ? GRS_ERR_DRIVER : GRS_OK) && (comm == NULL) == (rank == 1));
    require(rank != 1 || strstr(err.text, "ncclAllGather: unhandled shim error") != NULL);
    grs_comm_destroy(comm);
}

static void work_cut_off_in_prepare(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    const grs_kernel *kernel = NULL;
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &kernel, &err) == GRS_OK);
    int before = nccl.gathers;
    require(grs_comm_prepare(comm, kernel, 8, &err) == GRS_OK);
    nccl.gather_fails_at = rank == 1 ? 2 * nccl.gathers - before : 0;
    require(grs_comm_prepare(comm, kernel, 16, &err) == (rank == 1 ? GRS_ERR_PEER : GRS_OK));
    if (rank == 1) { /* what NCCL may have pending is ended, and nothing waits for it */
        require(counts()->alive == 0 && counts()->aborted == 1);
        require(grs_comm_prepare(comm, kernel, 32, &err) == GRS_ERR_STATE);
    }
    grs_comm_destroy(comm);
    grs_ctx_close(ctx);
}

static void test_cut_off(void **state) {
    static const struct {
        const char *letters;
        void (*work)(grs_ctx *, int);
    } cases[] = {
        {"aa", work_cut_off_in_creation},
        {"abc", work_cut_off_in_creation},
        {"aabb", work_cut_off_in_creation},
        {"ab", work_cut_off_in_prepare},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        letters = cases[i].letters;
        run_ranks((int)strlen(letters), cases[i].work);
        assert_ranks_ended_well();
        leave_stage();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_errors_of_prepare),
        cmocka_unit_test(test_errors_of_creation),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_aborted_node),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_cut_off),
    };
    return cmocka_run_group_tests(tests, fixture_open, NULL);
}
