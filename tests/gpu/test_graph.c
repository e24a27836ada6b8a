/* One launch captured in a CUDA graph and replayed a thousand times, with other data each time and every result checked. */
#include "tests/gpu/gpu.h"

#define REPLAYS 1000

/* A copy from pageable memory returns before it is done, and the graph's stream does not wait for the default one. */
static void settle(void) {
    CU(cuStreamSynchronize(NULL));
}

static void test_replays(int tp, bool by_rank) {
    grs_comm *comms[GRS_MAX_TP];
    struct problem *p[2]; /* two sets of operands take turns in the buffers of the first */
    CUstream main_stream, streams[GRS_MAX_TP] = {NULL};
    CUgraph graph;
    CUgraphExec exec;
    CUevent fork, join;
    bool right = true;
    int replay = 0;
    const grs_kernel *kernel = kernel_for(384, 256, 128, tp);
    MUST(grs_comm_create_local(grs_default_ctx(), tp, placement(0), NULL, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, 384, &err));
    p[0] = problem_make(comms, 384, 256, 128, tp, 0, 1);
    p[1] = problem_make(comms, 384, 256, 128, tp, 0, 2);
    CU(cuStreamCreate(&main_stream, CU_STREAM_NON_BLOCKING));
    CU(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    CU(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    for (int rank = 0; rank < tp; rank++) {
        streams[rank] = main_stream;
    }
    CU(cuStreamBeginCapture(main_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (by_rank) { /* a node a rank, side by side: streams forked from the one that captures */
        CU(cuEventRecord(fork, main_stream));
        for (int rank = 1; rank < tp; rank++) {
            CU(cuStreamCreate(&streams[rank], CU_STREAM_NON_BLOCKING));
            CU(cuStreamWaitEvent(streams[rank], fork, 0));
        }
        for (int rank = 0; rank < tp; rank++) {
            MUST(grs_launch(comms[rank], kernel, &p[0]->operands[rank], streams[rank], &err));
        }
        for (int rank = 1; rank < tp; rank++) {
            CU(cuEventRecord(join, streams[rank]));
            CU(cuStreamWaitEvent(main_stream, join, 0));
        }
    } else {
        MUST(grs_launch_local(comms, kernel, p[0]->operands, (void *const *)streams, &err));
    }
    CU(cuStreamEndCapture(main_stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (; replay < REPLAYS && right; replay++) {
        struct problem *data = p[replay % 2];
        for (int rank = 0; rank < tp; rank++) { /* the operands that this replay is to see */
            CU(cuMemcpyHtoD(p[0]->A[rank].base, data->A[rank].host, matrix_bytes(&data->A[rank])));
            CU(cuMemcpyHtoD(p[0]->B[rank].base, data->B[rank].host, matrix_bytes(&data->B[rank])));
        }
        problem_poison(p[0]);
        settle();
        CU(cuGraphLaunch(exec, main_stream));
        CU(cuStreamSynchronize(main_stream));
        int16_t *own = p[0]->sum;
        p[0]->sum = data->sum;
        right = grs_comm_check(comms[0], &err) == GRS_OK && problem_check(p[0]);
        p[0]->sum = own;
    }
    ok(right, "tp %d, %s: %d of %d replays are right", tp, by_rank ? "a node a rank" : "one node", replay, REPLAYS);
    /* Plain launches and replays mix. */
    for (int rank = 0; rank < tp; rank++) {
        upload(&p[0]->A[rank]);
        upload(&p[0]->B[rank]);
    }
    problem_poison(p[0]);
    ok(run_local(comms, kernel, p[0]) && problem_check(p[0]), "a plain launch after the replays");
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuEventDestroy(fork));
    CU(cuEventDestroy(join));
    for (int rank = 1; rank < tp && by_rank; rank++) {
        CU(cuStreamDestroy(streams[rank]));
    }
    CU(cuStreamDestroy(main_stream));
    problem_free(p[0]);
    problem_free(p[1]);
    destroy(comms, tp);
}

/* A graph that was captured before memory grew still runs right. */
static void test_graph_survives_growth(void) {
    enum { TP = 2 };
    grs_comm *comms[TP];
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    bool right = true;
    const grs_kernel *small = kernel_for(128, 256, 128, TP), *large = kernel_for(4096, 256, 128, TP);
    MUST(grs_comm_create_local(grs_default_ctx(), TP, placement(0), NULL, comms, &err));
    MUST(grs_comm_prepare(comms[0], small, 128, &err));
    struct problem *p = problem_make(comms, 128, 256, 128, TP, 0, 3),
                   *q = problem_make(comms, 4096, 256, 128, TP, 0, 4);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *streams[TP] = {stream, stream};
    CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(grs_launch_local(comms, small, p->operands, streams, &err));
    CU(cuStreamEndCapture(stream, &graph));
    CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(grs_comm_prepare(comms[0], large, 4096, &err));
    for (int round = 0; round < 20 && right; round++) {
        problem_poison(p);
        problem_poison(q);
        settle();
        CU(cuGraphLaunch(exec, stream));
        right = grs_launch_local(comms, large, q->operands, streams, &err) == GRS_OK;
        CU(cuStreamSynchronize(stream));
        right = right && grs_comm_check(comms[0], &err) == GRS_OK && problem_check(p) && problem_check(q);
    }
    ok(right, "a graph captured before the memory grew, among larger launches");
    CU(cuGraphExecDestroy(exec));
    CU(cuGraphDestroy(graph));
    CU(cuStreamDestroy(stream));
    problem_free(p);
    problem_free(q);
    destroy(comms, TP);
}

int main(void) {
    open_gpus();
    must(grs_default_ctx() != NULL, "a context");
    test_replays(1, false);
    test_replays(2, false);
    test_replays(4, false);
    test_replays(2, true);
    test_graph_survives_growth();
    return finish();
}
