/* Every policy on small shapes, with 1, 2 and 3 ranks in one grid of two CTAs a rank; and launches that are left because a
 * rank stands still. Small enough for tools that slow kernels down a hundredfold: test_sanitize.sh runs it under them. */
#include "tests/gpu/gpu.h"
#include "tests/gpu/policies.h"

enum { MAX_TP = 3, SMS = 2 };
static const int64_t M = 200, K = 136;

/* Three tiles across, also of wide ones: the position at which a rank stands still is to be there. */
static int64_t columns_of(const struct policy *policy) {
    return strstr(policy_text(policy, gpu_is_blackwell()), "n: 256") != NULL ? 520 : 136;
}

static void test_policy(grs_ctx *ctx, const struct policy *policy, int tp) {
    grs_comm *comms[MAX_TP];
    const grs_kernel *kernel = NULL;
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.sms = SMS;
    MUST(grs_ctx_get(ctx, M, columns_of(policy), K, tp, &kernel, &err));
    MUST(grs_comm_create_local(ctx, tp, placement(0), &options, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, columns_of(policy), K, tp, 8, (uint64_t)tp);
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
    MUST(grs_ctx_get(ctx, M, columns_of(policy), K, MAX_TP, &kernel, &err));
    make_stalling(ctx, MAX_TP, 1, position, &options, comms);
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, columns_of(policy), K, MAX_TP, 8, 1);
    ok(!run_local(comms, kernel, p) && grs_comm_check(comms[0], &err) == GRS_ERR_TIMEOUT,
       "%s: a launch is left at position %d", policy->name, position);
    problem_free(p);
    destroy(comms, MAX_TP);
}

/* A part: a policy's launches, or those of it that are left. No two kernels of a part have the same name, and a part takes
 * a tool less time than all of them. */
enum { PARTS = 2 * POLICIES };
static bool is_left(int part) {
    return part % 2 != 0;
}

static void test_part(grs_ctx *ctx, int part) {
    const struct policy *policy = &policies[part / 2];
    if (is_left(part)) {
        test_leaving(ctx, policy, 0);
        test_leaving(ctx, policy, 4);
    } else {
        for (int tp = 1; tp <= MAX_TP; tp++) {
            test_policy(ctx, policy, tp);
        }
    }
}

/* Arguments: none for all parts; the number of one; or "parts", to be told how many there are. */
int main(int count, char **argument) {
    grs_ctx *ctx[PARTS];
    struct wanted list[PARTS * MAX_TP];
    int first = 0, end = PARTS, wanted = 0;
    if (count == 2 && strcmp(argument[1], "parts") == 0) {
        printf("%d\n", PARTS);
        return 0;
    }
    if (count == 2) {
        char *rest;
        first = (int)strtol(argument[1], &rest, 10);
        must(*rest == '\0' && first >= 0 && first < PARTS, "the argument: the number of a part");
        end = first + 1;
    }
    setenv("GRS_DEADLINE", "120", 0);
    open_gpus();
    for (int part = first; part < end; part++) {
        const struct policy *policy = &policies[part / 2];
        ctx[part] = is_left(part) ? policy_open_stalling(policy) : policy_open(policy);
        for (int tp = is_left(part) ? MAX_TP : 1; tp <= MAX_TP; tp++) {
            list[wanted++] = (struct wanted){M, columns_of(policy), K, tp, ctx[part]};
        }
    }
    compile_all(list, wanted);
    for (int part = first; part < end; part++) {
        test_part(ctx[part], part);
        grs_ctx_close(ctx[part]);
    }
    close_gpus();
    return finish();
}
