/* A rank that stands still ends in a wait record within the deadline, every CTA leaves, and a new communicator works. */
#include <unistd.h>

#include "tests/gpu/gpu.h"

enum { TP = 3 };
static const int64_t M = 600, N = 512, K = 256;

/* Opens communicators whose rank `rank` stands still before its first tile. */
static void stalled(grs_ctx *ctx, const grs_kernel *kernel, int tp, int rank, double deadline, grs_comm **comms) {
    grs_comm_options options = GRS_INIT(grs_comm_options);
    char text[32];
    snprintf(text, sizeof(text), "%d:0", rank);
    setenv("GRS_STALL", text, 1);
    options.deadline_seconds = deadline;
    MUST(grs_comm_create_local(ctx, tp, placement(0), &options, comms, &err));
    unsetenv("GRS_STALL");
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
}

static void works_again(grs_ctx *ctx, const grs_kernel *kernel) {
    grs_comm *comms[TP];
    MUST(grs_comm_create_local(ctx, TP, placement(0), NULL, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 5);
    ok(run_local(comms, kernel, p) && problem_check(p), "a new communicator works");
    problem_free(p);
    destroy(comms, TP);
}

static void test_deadline(grs_ctx *ctx, const grs_kernel *kernel, int rank, double deadline) {
    grs_comm *comms[TP];
    grs_error other;
    stalled(ctx, kernel, TP, rank, deadline, comms);
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 5);
    double start = seconds();
    MUST(grs_launch_local(comms, kernel, p->operands, NULL, &err));
    synchronize(); /* every CTA leaves, the context stays usable */
    double took = seconds() - start;
    grs_status status = grs_comm_check(comms[0], &err);
    ok(status == GRS_ERR_TIMEOUT && strstr(err.text, "rank ") != NULL && strstr(err.text, " waited ") != NULL &&
           strstr(err.text, "CTA ") != NULL && strstr(err.text, "owner ") != NULL &&
           strstr(err.text, "epoch 0") != NULL && strstr(err.text, "GRS_DEADLINE") != NULL,
       "rank %d stands still: %s", rank, err.text);
    snprintf(other.text, sizeof(other.text), "it took %.3f s", took);
    err = status == GRS_ERR_TIMEOUT ? other : err;
    ok(took > 0.9 * deadline && took < deadline + 2, "the kernels left %.2f s after the launch, deadline %.2f s", took,
       deadline);
    ok(grs_launch_local(comms, kernel, p->operands, NULL, &err) == GRS_ERR_TIMEOUT, "later launches are refused");
    problem_free(p);
    destroy(comms, TP);
    works_again(ctx, kernel);
}

/* Without a deadline, grs_comm_abort ends kernels that hold every SM. */
static void test_abort(grs_ctx *ctx, const grs_kernel *kernel) {
    grs_comm *comms[TP];
    stalled(ctx, kernel, TP, 1, -1, comms);
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 5);
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *streams[TP] = {stream, stream, stream};
    MUST(grs_launch_local(comms, kernel, p->operands, streams, &err));
    usleep(300000);
    ok(drv->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "without a deadline the kernels wait");
    ok(grs_comm_check(comms[1], &err) == GRS_OK, "and nothing is recorded");
    ok(grs_comm_abort(comms[2], &err) == GRS_OK, "abort beside spinning kernels");
    double start = seconds();
    while (drv->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY && seconds() - start < 10) {
        usleep(1000);
    }
    bool left = drv->cuStreamQuery(stream) == CUDA_SUCCESS;
    must(left, "the kernels leave after an abort");
    ok(left, "the kernels left after %.3f s", seconds() - start);
    ok(grs_comm_check(comms[0], &err) == GRS_ERR_STATE, "the communicator says so: %s", err.text);
    ok(grs_launch_local(comms, kernel, p->operands, NULL, &err) == GRS_ERR_STATE, "later launches are refused");
    CU(cuStreamDestroy(stream));
    problem_free(p);
    destroy(comms, TP);
    works_again(ctx, kernel);
}

/* The device holds every CTA twice as long as one rank is late: lateness below the deadline is no fault. */
static void test_late_rank(grs_ctx *ctx, const grs_kernel *kernel) {
    grs_comm *comms[TP];
    CUstream streams[TP];
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.deadline_seconds = 10;
    MUST(grs_comm_create_local(ctx, TP, placement(0), &options, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 6);
    bool right = true;
    for (int rank = 0; rank < TP; rank++) {
        CU(cuStreamCreate(&streams[rank], CU_STREAM_NON_BLOCKING));
    }
    for (int rank = 0; rank < TP; rank++) {
        right = right && grs_launch(comms[rank], kernel, &p->operands[rank], streams[rank], &err) == GRS_OK;
        usleep(200000);
    }
    synchronize();
    ok(right && grs_comm_check(comms[0], &err) == GRS_OK && problem_check(p),
       "ranks that come 0.2 s late are waited for");
    for (int rank = 0; rank < TP; rank++) {
        CU(cuStreamDestroy(streams[rank]));
    }
    problem_free(p);
    destroy(comms, TP);
}

int main(void) {
    open_gpus();
    grs_ctx *ctx = NULL;
    const grs_kernel *kernel = NULL;
    setenv("GRS_STALL", "0:0", 1); /* kernels of this context carry the hook */
    MUST(grs_ctx_open(NULL, &ctx, &err));
    unsetenv("GRS_STALL");
    MUST(grs_ctx_get(ctx, M, N, K, TP, &kernel, &err));
    works_again(ctx, kernel);
    for (int rank = 0; rank < TP; rank++) {
        test_deadline(ctx, kernel, rank, 0.5);
    }
    test_abort(ctx, kernel);
    test_late_rank(ctx, kernel);
    grs_ctx_close(ctx);
    return finish();
}
