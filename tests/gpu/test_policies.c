/* Every policy on small shapes, with 1, 2 and 3 ranks in one grid of two CTAs a rank; and launches that are left because a
 * rank stands still. Small enough for tools that slow kernels down a hundredfold: test_sanitize.sh runs it under them. */
#include "tests/gpu/gpu.h"
#include "tests/gpu/policies.h"

enum { MAX_TP = 3, SMS = 2 };
static const int64_t M = 200, N = 136, K = 136;

static void test_policy(grs_ctx *ctx, const struct policy *policy, int tp) {
    grs_comm *comms[MAX_TP];
    const grs_kernel *kernel = NULL;
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.sms = SMS;
    MUST(grs_ctx_get(ctx, M, N, K, tp, &kernel, &err));
    MUST(grs_comm_create_local(ctx, tp, placement(0), &options, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, tp, 8, (uint64_t)tp);
    bool right = run_local(comms, kernel, p) && problem_check(p);
    if (right) { /* again, on what the first launch left */
        problem_poison(p);
        right = run_local(comms, kernel, p) && problem_check(p);
    }
    ok(right, "%s, tp %d", policy->name, tp);
    problem_free(p);
    destroy(comms, tp);
}

/* A rank stands still in the middle: the others leave when the deadline expires, and what is in flight lands. */
static void test_leaving(grs_ctx *ctx, const struct policy *policy, int position) {
    grs_comm *comms[MAX_TP];
    const grs_kernel *kernel = NULL;
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.sms = SMS;
    options.deadline_seconds = 0.3;
    MUST(grs_ctx_get(ctx, M, N, K, MAX_TP, &kernel, &err));
    make_stalling(ctx, MAX_TP, 1, position, &options, comms);
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, MAX_TP, 8, 1);
    ok(!run_local(comms, kernel, p) && grs_comm_check(comms[0], &err) == GRS_ERR_TIMEOUT,
       "%s: a launch is left at position %d", policy->name, position);
    problem_free(p);
    destroy(comms, MAX_TP);
}

int main(void) {
    grs_ctx *plain[POLICIES], *stalling[POLICIES];
    struct wanted list[POLICIES * (MAX_TP + 1)];
    setenv("GRS_DEADLINE", "120", 0);
    open_gpus();
    for (int i = 0; i < POLICIES; i++) {
        plain[i] = policy_open(&policies[i]);
        stalling[i] = policy_open_stalling(&policies[i]);
        for (int tp = 1; tp <= MAX_TP; tp++) {
            list[i * (MAX_TP + 1) + tp - 1] = (struct wanted){M, N, K, tp, plain[i]};
        }
        list[i * (MAX_TP + 1) + MAX_TP] = (struct wanted){M, N, K, MAX_TP, stalling[i]};
    }
    compile_all(list, POLICIES * (MAX_TP + 1));
    for (int i = 0; i < POLICIES; i++) {
        for (int tp = 1; tp <= MAX_TP; tp++) {
            test_policy(plain[i], &policies[i], tp);
        }
        test_leaving(stalling[i], &policies[i], 0);
        test_leaving(stalling[i], &policies[i], 4);
        grs_ctx_close(plain[i]);
        grs_ctx_close(stalling[i]);
    }
    close_gpus();
    return finish();
}
