/* What goes wrong in launches over several nodes, and what the ranks of the other nodes hear of it; aborts beside calls. */
#include "tests/staged_fixture.h"

/* A launch that is left early on one node: the other nodes hear of it by the exchange behind it. */
static struct {
    int node; /* that fails */
    enum { DEADLINE, REPLAY, NOT_LAUNCHED } how;
    const char *told; /* to the others */
} left;

static void short_deadline(int rank) {
    setenv("GRS_DEADLINE", letters[rank] == 'a' + left.node ? "0.2" : "30", 1);
}

/* The last rank of the node cannot launch, once the other one has. */
static const struct driver *launching;
static bool refuses;
static CUresult launch_or_refuse(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    if (!refuses) {
        stage->flag = 1;
        return launching->cuLaunchKernelEx(config, function, parameters, extra);
    }
    while (!stage->flag) {
        usleep(100);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static void launch_on(grs_comm *comm, const grs_kernel *kernel, const struct problem *p, CUstream stream) {
    require(grs_launch(comm, kernel, &p->operands, stream, &err) == GRS_OK);
}

/* What the launch is spoilt by is in the arguments that a graph keeps. */
static void launch_captured(grs_comm *comm, const grs_kernel *kernel, const struct problem *p) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    require(launching->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    require(launching->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    launch_on(comm, kernel, p, stream);
    require(launching->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    require(launching->cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    require(grs_comm_check(comm, &err) == GRS_OK);
    meet_all();
    require(launching->cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    require(launching->cuGraphExecDestroy(exec) == CUDA_SUCCESS && launching->cuGraphDestroy(graph) == CUDA_SUCCESS);
    require(launching->cuStreamDestroy(stream) == CUDA_SUCCESS);
}

/* The launch that fails, on every rank: in one node the first rank stands still, or the last one cannot launch. */
static void fail_a_launch(grs_comm *comm, const grs_kernel *kernel, const struct problem *p, bool fails) {
    struct group *group = comm->staged->inner->group;
    struct driver table = *group->drv;
    launching = group->drv;
    if (fails && left.how == NOT_LAUNCHED) {
        refuses = comm->staged->inner->rank == group->tp - 1;
        stage->flag |= group->tp == 1;
        table.cuLaunchKernelEx = launch_or_refuse;
        group->drv = &table;
        require(grs_launch(comm, kernel, &p->operands, NULL, &err) == (refuses ? GRS_ERR_DRIVER : GRS_OK));
        group->drv = launching;
        return;
    }
    group->stall = fails ? (uint64_t)1 << 32 | 1 : 0;
    if (fails && group->tp == 1) {
        setenv("HOSTGPU_FAULT", "timeout", 1);
    }
    if (left.how == REPLAY) {
        launch_captured(comm, kernel, p);
    } else {
        launch_on(comm, kernel, p, NULL);
    }
    unsetenv("HOSTGPU_FAULT");
}

static void work_left_early(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    const grs_kernel *kernel = NULL;
    struct problem p = make_problem(rank, 13, 0, 1);
    bool fails = rank / comm->staged->nodes.local == left.node;
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &kernel, &err) == GRS_OK);
    require(grs_comm_prepare(comm, kernel, 16, &err) == GRS_OK);
    int before = counts()->groups;
    for (int i = 0; i < 3; i++) {
        launch_and_check(comm, kernel, 13, 8 * i);
        require(grs_comm_check(comm, &err) == GRS_OK &&
                counts()->groups == before + i + 1); /* one call of NCCL's each */
        meet_all();
    }
    fail_a_launch(comm, kernel, &p, fails);
    char told[200], text[sizeof(told)];
    snprintf(told, sizeof(told), "rank %d: %s left a launch early: D of that launch", rank, left.told);
    snprintf(text, sizeof(text), "node %d, whose ranks", left.node);
    const char *begin = fails && comm->staged->nodes.local == 1 ? "rank" : fails ? text : told;
    grs_status wanted = fails ? left.how == NOT_LAUNCHED ? GRS_ERR_STATE : GRS_ERR_TIMEOUT : GRS_ERR_PEER;
    for (int i = 0; i < 2; i++) {
        require(grs_comm_check(comm, &err) == wanted && strncmp(err.text, begin, strlen(begin)) == 0);
        before = counts()->scatters;
        require(grs_launch(comm, kernel, &p.operands, NULL, &err) == wanted &&
                strncmp(err.text, begin, strlen(begin)) == 0);
        require(counts()->scatters == before);
    }
    meet_all();
    require(grs_comm_abort(comm, &err) == GRS_OK);
    require(grs_comm_check(comm, &err) == wanted); /* what was first stays */
    meet_all();
    grs_comm_destroy(comm);
    require(counts()->alive == 0);
    grs_ctx_close(ctx);
}

static void test_left_early(void **state) {
    static const struct {
        const char *letters;
        int node;
        const char *told;
    } cases[] = {
        {"aabb", 0, "node 0 (a, ranks 0 to 1)"},
        {"aabbcc", 1, "node 1 (b, ranks 2 to 3)"},
        {"abc", 2, "rank 2 (c)"},
    };
    (void)state;
    prepare_rank = short_deadline;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int how = DEADLINE; how <= NOT_LAUNCHED; how++) {
            letters = cases[i].letters;
            left.node = cases[i].node;
            left.told = cases[i].told;
            left.how = how;
            run_ranks((int)strlen(letters), work_left_early);
            for (int rank = 0; rank < stage->size; rank++) {
                if (stage->ended[rank] != 0) {
                    fail_msg("%s, %d: rank %d ended with %#x", letters, how, rank, (unsigned)stage->ended[rank]);
                }
            }
            leave_stage();
        }
    }
    prepare_rank = NULL;
}

/* A word of the own node that has come before the record behind it. */
static void work_own_word(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    grs_comm *comm = must_create(ctx);
    meet_all();
    uint32_t *told = comm->staged->inner->group->host->rank[0].told;
    told[1] = rank >= 2;
    meet_all();
    require(grs_comm_check(comm, &err) == (rank < 2 ? GRS_OK : GRS_ERR_PEER));
    require(rank < 2 || strstr(err.text, ": node 1 (b, ranks 2 to 3) left a launch early: ") != NULL);
    meet_all();
    told[0] = rank >= 2;
    meet_all();
    require(rank < 2 || grs_comm_check(comm, &err) == GRS_ERR_PEER);
    require(rank < 2 || strstr(err.text, ": node 0 (a, ranks 0 to 1) and node 1 (b, ranks 2 to 3) left") != NULL);
    meet_all();
    require(rank != 2 || group_abort(comm->staged->inner->group, &err) == GRS_OK);
    meet_all();
    require(rank < 2 || grs_comm_check(comm, &err) == GRS_ERR_PEER);
    require(rank < 2 || strstr(err.text, ": node 0 (a, ranks 0 to 1) left a launch early: ") != NULL);
    meet_all();
    told[0] = 0;
    meet_all();
    require(rank < 2 || grs_comm_check(comm, &err) == GRS_ERR_STATE);
    meet_all();
    grs_comm_destroy(comm);
    grs_ctx_close(ctx);
}

static void test_own_word(void **state) {
    (void)state;
    letters = "aabb";
    run_ranks(4, work_own_word);
    assert_ranks_ended_well();
    leave_stage();
}

/* An abort while another thread is inside a call: of a communicator that does not block, whose call never gets ready; of one that
 * NCCL does not let go before the abort. */
static struct { bool prepares, stands; } beside;

struct caller {
    grs_comm *comm;
    const grs_kernel *kernel;
    struct problem p;
    grs_status status;
    grs_error err;
};

static void *call(void *argument) {
    struct caller *c = argument;
    c->status = beside.prepares ? grs_comm_prepare(c->comm, c->kernel, 16, &c->err)
                                : grs_launch(c->comm, c->kernel, &c->p.operands, NULL, &c->err);
    return NULL;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void work_abort_beside(grs_ctx *unused, int rank) {
    enum { NEVER = 1 << 30 };
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    struct caller c = {.comm = must_create(ctx), .p = make_problem(rank, 5, 0, 1)};
    pthread_t thread;
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &c.kernel, &err) == GRS_OK);
    require(grs_comm_prepare(c.comm, c.kernel, 8, &err) == GRS_OK);
    struct ncclComm *across = c.comm->staged->across.comm;
    nccl.stands = beside.stands;
    __atomic_store_n(&across->in_progress, beside.stands ? 0 : NEVER, __ATOMIC_RELAXED);
    require(pthread_create(&thread, NULL, call, &c) == 0);
    while (beside.stands ? __atomic_load_n(&nccl.standing, __ATOMIC_ACQUIRE) == 0
                         : __atomic_load_n(&across->in_progress, __ATOMIC_RELAXED) == NEVER) {
        usleep(1000);
    }
    double start = now();
    require(grs_comm_abort(c.comm, &err) == GRS_OK);
    double took = now() - start;
    require(pthread_join(thread, NULL) == 0);
    require(counts()->alive == 0 && counts()->aborted == 1);
    require(beside.stands ? took > 0.9 && took < 10 : took < 0.9);
    require(c.status == GRS_ERR_STATE && strstr(c.err.text, "the communicator was aborted") != NULL);
    grs_comm_destroy(c.comm);
    grs_ctx_close(ctx);
}

static void test_abort_beside_a_call(void **state) {
    (void)state;
    letters = "ab";
    for (int i = 0; i < 4; i++) {
        beside.prepares = i & 1;
        beside.stands = i & 2;
        run_ranks(2, work_abort_beside);
        assert_ranks_ended_well();
        leave_stage();
    }
}

/* A rank that never launches: its partner in the other node waits inside NCCL, and hears of it by its own node. */
static void work_missing_rank(grs_ctx *unused, int rank) {
    (void)unused;
    use_shims(rank);
    grs_ctx *ctx = new_context();
    struct caller c = {.comm = must_create(ctx), .p = make_problem(rank, 5, 0, 1)};
    pthread_t thread;
    require(grs_ctx_get(ctx, 1, N, K, stage->size, &c.kernel, &err) == GRS_OK);
    require(grs_comm_prepare(c.comm, c.kernel, 8, &err) == GRS_OK);
    if (rank == 3) {
        require(pthread_create(&thread, NULL, call, &c) == 0);
    } else if (rank != 1) {
        require(grs_launch(c.comm, c.kernel, &c.p.operands, NULL, &err) == GRS_OK);
    }
    grs_status wanted = rank < 2 ? GRS_ERR_TIMEOUT : GRS_ERR_PEER;
    while (grs_comm_check(c.comm, &err) == GRS_OK) {
        usleep(1000);
    }
    require(grs_comm_check(c.comm, &err) == wanted);
    require(rank < 2 || strstr(err.text, ": node 0 (a, ranks 0 to 1) left a launch early: ") != NULL);
    meet_all();
    _exit(0); /* the stand-in cannot end the exchange that waits */
}

static void test_missing_rank(void **state) {
    (void)state;
    letters = "aabb";
    left.node = 0;
    beside.prepares = beside.stands = false;
    prepare_rank = short_deadline;
    run_ranks(4, work_missing_rank);
    assert_ranks_ended_well();
    leave_stage();
    prepare_rank = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_early),
        cmocka_unit_test(test_own_word),
        cmocka_unit_test(test_abort_beside_a_call),
        cmocka_unit_test(test_missing_rank),
    };
    return cmocka_run_group_tests(tests, fixture_open, NULL);
}
