/* Data that encodes its own index, through every policy: what lies in a wrong place names the place that it was made for. */
#include "tests/gpu/gpu.h"
#include "tests/gpu/policies.h"
#include "tests/index_pattern.h"

enum { RINGS = 4, SMS = 2, PADDING = 8 };
static const int rings[RINGS] = {2, 3, 4, 8};
static const int64_t N = 264, K = 136;

static int64_t rows_of(int tp) { /* of A: segments of 131 rows, the last one shorter */
    return tp * 131 - 5;
}

static void fill(struct problem *p, const struct index_pattern *pattern) {
    for (int rank = 0; rank < p->tp; rank++) {
        for (int64_t k = 0; k < K; k++) {
            for (int64_t row = 0; row < p->M; row++) {
                *matrix_at(&p->A[rank], row, k) = bf16(index_a(pattern, rank, row, k));
            }
            for (int64_t column = 0; column < N; column++) {
                *matrix_at(&p->B[rank], column, k) = bf16(index_b(pattern, column, k));
            }
        }
        upload(&p->A[rank]);
        upload(&p->B[rank]);
    }
    for (int64_t row = 0; row < p->M; row++) {
        for (int64_t column = 0; column < N; column++) {
            p->sum[row * N + column] = (int16_t)index_wanted(pattern, row % index_segment_rows(pattern), column);
        }
    }
}

static float from_bf16(uint16_t word) {
    uint32_t bits = (uint32_t)word << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Where what lies in a wrong place was made for: goes into err.text. */
static void say_where(const struct problem *p, uint16_t *const found[INDEX_DIGITS][GRS_MAX_TP]) {
    for (int rank = 0; rank < p->tp; rank++) {
        int64_t first, count;
        grs_rows(p->M, p->tp, rank, &first, &count);
        for (int64_t place = 0; place < count * N; place++) {
            const float digits[INDEX_DIGITS] = {from_bf16(found[0][rank][place]), from_bf16(found[1][rank][place])};
            int64_t from = index_found(digits);
            if (from != place) {
                snprintf(err.text, sizeof(err.text),
                         "rank %d: D[%ld, %ld] holds %g and %g: what was made for [%ld, %ld] (-1: for none)", rank,
                         (long)(place / N), (long)(place % N), (double)digits[0], (double)digits[1],
                         (long)(from < 0 ? -1 : from / N), (long)(from < 0 ? -1 : from % N));
                return;
            }
        }
    }
}

static void test_policy(grs_ctx *ctx, const struct policy *policy, int tp) {
    grs_comm *comms[GRS_MAX_TP];
    const grs_kernel *kernel = NULL;
    grs_comm_options options = GRS_INIT(grs_comm_options);
    uint16_t *found[INDEX_DIGITS][GRS_MAX_TP] = {{NULL}};
    int64_t M = rows_of(tp), first, count;
    options.sms = SMS;
    MUST(grs_ctx_get(ctx, M, N, K, tp, &kernel, &err));
    MUST(grs_comm_create_local(ctx, tp, placement(0), &options, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, tp, PADDING, 1);
    bool right = true;
    for (int digit = 0; digit < INDEX_DIGITS; digit++) {
        fill(p, &(struct index_pattern){M, N, tp, digit});
        problem_poison(p);
        must(run_local(comms, kernel, p), policy->name);
        right = problem_check(p) && right;
        for (int rank = 0; rank < tp; rank++) {
            grs_rows(M, tp, rank, &first, &count);
            found[digit][rank] = malloc((size_t)(count * N) * 2);
            must(found[digit][rank] != NULL, "memory");
            download(&p->D[rank]);
            for (int64_t row = 0; row < count; row++) {
                memcpy(found[digit][rank] + row * N, matrix_at(&p->D[rank], row, 0), (size_t)N * 2);
            }
        }
    }
    if (!right) {
        say_where(p, found);
    }
    ok(right, "%s, tp %d: every element is where it belongs", policy->name, tp);
    for (int digit = 0; digit < INDEX_DIGITS; digit++) {
        for (int rank = 0; rank < tp; rank++) {
            free(found[digit][rank]);
        }
    }
    problem_free(p);
    destroy(comms, tp);
}

int main(void) {
    grs_ctx *contexts_of[POLICIES];
    struct wanted list[POLICIES * RINGS];
    setenv("GRS_DEADLINE", "120", 0);
    open_gpus();
    for (int i = 0; i < POLICIES; i++) {
        contexts_of[i] = policy_open(&policies[i]);
        for (int r = 0; r < RINGS; r++) {
            list[i * RINGS + r] = (struct wanted){rows_of(rings[r]), N, K, rings[r], contexts_of[i]};
        }
    }
    compile_all(list, POLICIES * RINGS);
    for (int i = 0; i < POLICIES; i++) {
        for (int r = 0; r < RINGS; r++) {
            test_policy(contexts_of[i], &policies[i], rings[r]);
        }
        grs_ctx_close(contexts_of[i]);
    }
    close_gpus();
    return finish();
}
