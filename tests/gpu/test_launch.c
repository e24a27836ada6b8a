/* Launches through the public interface: every element of D on every rank is right, and nothing else is touched. */
#include "tests/gpu/gpu.h"

enum { SHAPES = 7, TPS = 5 };
static const struct {
    int64_t m, n, k, padding;
} shapes[SHAPES] = {{512, 512, 256, 0}, {1023, 136, 72, 8}, {5, 520, 136, 24},  {129, 264, 2056, 0},
                    {1, 8, 8, 0},       {257, 1032, 64, 8}, {2048, 256, 128, 0}};
static const int tps[TPS] = {1, 2, 3, 4, 8};

static void compile_shapes(void) {
    struct wanted list[SHAPES * TPS];
    for (int i = 0; i < SHAPES * TPS; i++) {
        list[i] =
            (struct wanted){shapes[i % SHAPES].m, shapes[i % SHAPES].n, shapes[i % SHAPES].k, tps[i / SHAPES], NULL};
    }
    compile_all(list, SHAPES * TPS);
}

static void test_shapes(int tp, int where) {
    grs_comm *comms[GRS_MAX_TP];
    MUST(grs_comm_create_local(grs_default_ctx(), tp, placement(where), NULL, comms, &err));
    for (uint64_t i = 0; i < SHAPES; i++) {
        const grs_kernel *kernel = kernel_for(shapes[i].m, shapes[i].n, shapes[i].k, tp);
        struct problem *p = problem_make(comms, shapes[i].m, shapes[i].n, shapes[i].k, tp, shapes[i].padding, i + 1);
        MUST(grs_comm_prepare(comms[0], kernel, shapes[i].m, &err));
        bool right = run_local(comms, kernel, p) && problem_check(p);
        for (int again = 0; again < 2 && right; again++) { /* new data, the same communicator */
            problem_fill(p, 100 + i * 10 + (uint64_t)again);
            problem_poison(p);
            right = run_local(comms, kernel, p) && problem_check(p);
        }
        ok(right, "M %ld, N %ld, K %ld, tp %d %s", (long)shapes[i].m, (long)shapes[i].n, (long)shapes[i].k, tp,
           placement_name(where));
        problem_free(p);
    }
    destroy(comms, tp);
}

/* One grid a rank, each on a stream of its own, launched in either order. */
static void test_launch_by_rank(int where) {
    enum { TP = 3 };
    grs_comm *comms[TP];
    CUstream streams[TP];
    bool right = true;
    const grs_kernel *kernel = kernel_for(700, 520, 192, TP);
    MUST(grs_comm_create_local(grs_default_ctx(), TP, placement(where), NULL, comms, &err));
    MUST(grs_comm_prepare(comms[TP - 1], kernel, 700, &err));
    struct problem *p = problem_make(comms, 700, 520, 192, TP, 0, 7);
    for (int rank = 0; rank < TP; rank++) {
        CU(cuCtxSetCurrent(contexts[grs_comm_device(comms[rank])]));
        CU(cuStreamCreate(&streams[rank], CU_STREAM_NON_BLOCKING));
    }
    for (int round = 0; round < 10 && right; round++) {
        problem_poison(p);
        synchronize();
        for (int i = 0; i < TP; i++) {
            int rank = round % 2 ? i : TP - 1 - i;
            right = right && grs_launch(comms[rank], kernel, &p->operands[rank], streams[rank], &err) == GRS_OK;
        }
        synchronize();
        right = right && grs_comm_check(comms[0], &err) == GRS_OK && problem_check(p);
    }
    ok(right, "a grid a rank, on streams of their own, %s", placement_name(where));
    for (int rank = 0; rank < TP; rank++) {
        CU(cuCtxSetCurrent(contexts[grs_comm_device(comms[rank])]));
        CU(cuStreamDestroy(streams[rank]));
    }
    problem_free(p);
    destroy(comms, TP);
}

/* Different kernels, M's and data on one communicator, back to back. */
static void test_mixed(int where) {
    enum { TP = 4, KINDS = 4 };
    static const int64_t m[KINDS] = {1000, 64, 3, 513}, n[KINDS] = {256, 1032, 256, 520}, k[KINDS] = {128, 64, 128, 72};
    grs_comm *comms[TP];
    struct problem *p[KINDS];
    const grs_kernel *kernels[KINDS];
    bool right = true;
    MUST(grs_comm_create_local(grs_default_ctx(), TP, placement(where), NULL, comms, &err));
    for (int i = 0; i < KINDS; i++) {
        kernels[i] = kernel_for(m[i], n[i], k[i], TP);
        p[i] = problem_make(comms, m[i], n[i], k[i], TP, 0, 40 + (uint64_t)i);
        MUST(grs_comm_prepare(comms[0], kernels[i], m[i], &err));
    }
    for (int round = 0; round < 25 && right; round++) {
        for (int i = 0; i < KINDS; i++) {
            problem_poison(p[i]);
        }
        for (int i = 0; i < KINDS && right; i++) { /* no wait between them */
            right = grs_launch_local(comms, kernels[i], p[i]->operands, NULL, &err) == GRS_OK;
        }
        synchronize();
        right = right && grs_comm_check(comms[0], &err) == GRS_OK;
        for (int i = 0; i < KINDS && right; i++) {
            right = problem_check(p[i]);
        }
    }
    ok(right, "a hundred launches of mixed kernels and M's %s", placement_name(where));
    for (int i = 0; i < KINDS; i++) {
        problem_free(p[i]);
    }
    destroy(comms, TP);
}

/* The errors that need a real driver to show. */
static void test_arguments(void) {
    grs_comm *comms[2];
    const int absent[2] = {0, 1000};
    const grs_kernel *kernel = kernel_for(300, 256, 128, 2);
    ok(grs_comm_create_local(grs_default_ctx(), 2, absent, NULL, comms, &err) == GRS_ERR_ARGUMENT && comms[0] == NULL &&
           strstr(err.text, "devices[1] is 1000") != NULL,
       "a GPU that is not there is refused");
    MUST(grs_comm_create_local(grs_default_ctx(), 2, placement(0), NULL, comms, &err));
    struct problem *p = problem_make(comms, 300, 256, 128, 2, 0, 1);
    ok(grs_launch_local(comms, kernel, p->operands, NULL, &err) == GRS_ERR_STATE, "a launch before prepare is refused");
    const grs_kernel *endless = kernel_for(1 << 20, 256, 128, 2); /* of the last class: any M */
    ok(grs_comm_prepare(comms[0], endless, INT64_MAX, &err) == GRS_ERR_MEMORY && strstr(err.text, "cuMemAlloc") != NULL,
       "more memory than the GPU has is refused");
    MUST(grs_comm_prepare(comms[0], kernel, 300, &err));
    p->operands[1].lda += 1;
    ok(grs_launch_local(comms, kernel, p->operands, NULL, &err) == GRS_ERR_ARGUMENT && strstr(err.text, "lda") != NULL,
       "a stride that is no multiple of 8 is refused");
    p->operands[1].lda -= 1;
    ok(run_local(comms, kernel, p) && problem_check(p), "and the communicator works after all of these");
    problem_free(p);
    destroy(comms, 2);
}

int main(void) {
    open_gpus();
    must(grs_default_ctx() != NULL, "a context");
    compile_shapes();
    for (int where = 0; where < placements(); where++) {
        for (int i = 0; i < TPS; i++) {
            test_shapes(tps[i], where);
        }
        test_launch_by_rank(where);
        test_mixed(where);
    }
    test_arguments();
    return finish();
}
