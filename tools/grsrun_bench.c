#include "tools/grsrun_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/kernel.h"
#include "tools/grsrun_time.h"
#include "tools/grsrun_verify.h"

#define SETS_MAX            32
#define ROUNDS_BACK_TO_BACK 3  /* 6 samples */
#define ROUNDS_ISOLATED     10 /* 20 samples of one launch each */

void baselines_open(struct baselines *out, struct buf *notes) {
    grs_error err;
    *out = (struct baselines){0};
    out->has_cublas = cublas_open(&out->cublas, &err) == GRS_OK;
    if (!out->has_cublas) {
        buf_printf(notes, "no cuBLAS: %s\n", err.text);
    }
    out->has_nccl = nccl_open(&out->nccl, &err) == GRS_OK;
    if (!out->has_nccl) {
        buf_printf(notes, "no NCCL: %s\n", err.text);
    }
}

void baselines_join(struct baselines *baselines, const struct team *team, struct buf *notes) {
    grs_error err;
    baselines_leave(baselines);
    if (!baselines->has_nccl || !baselines->has_cublas || team->ranks_per_gpu != 1 || team->tp == 1) {
        return;
    }
    if (scatter_make(&baselines->nccl, team, &baselines->scatter, &err)) {
        buf_printf(notes, "NCCL fails at tp %d: %s\n", team->tp, err.text);
        baselines_leave(baselines);
    }
}

void baselines_leave(struct baselines *baselines) {
    scatter_free(&baselines->scatter);
}

int bench_sets(enum grsrun_l2 l2, int64_t set_bytes, int64_t l2_bytes) {
    if (l2 == L2_WARM) {
        return 1;
    }
    int64_t sets = 3 * l2_bytes / set_bytes + 2;
    return sets > SETS_MAX ? SETS_MAX : (int)sets;
}

double bench_limit_us(double gemm_us, int64_t bytes, double gbps) {
    if (isnan(gemm_us) || isnan(gbps)) {
        return NAN;
    }
    return gbps > 0 ? fmax(gemm_us, (double)bytes / gbps * 1e-3) : gemm_us;
}

/* Everything that one shape is timed with. */
struct bench {
    struct team *team;
    const grs_kernel *kernel;
    struct grsrun_shape shape;
    int sets;
    struct operands *operands[SETS_MAX];
    struct gemm gemms[GRS_MAX_TP];                        /* by device                                    */
    CUdeviceptr products[GRS_MAX_TP], shares[GRS_MAX_TP]; /* by rank: [tp · c, N], what cuBLAS makes; [c, N] */
    const struct baselines *baselines;
    struct timing timing;
};

/* ---------------------------------------------------------------- contestants ---------------------------------- */

static grs_status enqueue_ours(void *self, int set, grs_error *err) {
    struct bench *bench = self;
    return team_launch(bench->team, bench->kernel, bench->operands[set], err);
}

static grs_status enqueue_rank_gemm(struct bench *bench, int rank, int set, grs_error *err) {
    const grs_operands *launch = &bench->operands[set]->launch[rank];
    return gemm_run(&bench->gemms[rank / bench->team->ranks_per_gpu], launch->A, launch->B,
                    (void *)(uintptr_t)bench->products[rank], err);
}

/* The ranks of a GPU one behind the other, as if one process after another had the GPU to itself. */
static grs_status enqueue_gemms(void *self, int set, grs_error *err) {
    struct bench *bench = self;
    grs_status status = GRS_OK;
    for (int rank = 0; rank < bench->shape.tp && !status; rank++) {
        status = enqueue_rank_gemm(bench, rank, set, err);
    }
    return status;
}

static grs_status enqueue_first_gemm(void *self, int set, grs_error *err) {
    return enqueue_rank_gemm(self, 0, set, err);
}

static grs_status enqueue_gemms_and_scatter(void *self, int set, grs_error *err) {
    struct bench *bench = self;
    int64_t first, rows;
    grs_rows(bench->shape.m, bench->shape.tp, 0, &first, &rows);
    grs_status status = enqueue_gemms(bench, set, err);
    return status ? status
                  : scatter_run(&bench->baselines->scatter, bench->products, bench->shares,
                                (size_t)(rows * bench->shape.n), err);
}

/* ---------------------------------------------------------------- preparation ---------------------------------- */

static grs_status make_operands(struct bench *bench, grs_error *err) {
    const struct grsrun_options *options = bench->team->options;
    const struct grsrun_shape *s = &bench->shape;
    int64_t bytes = 2 * bench->team->ranks_per_gpu *
                    (s->m * grsrun_leading(&options->lda, s->k) + s->n * grsrun_leading(&options->ldb, s->k) +
                     s->m / s->tp * grsrun_leading(&options->ldd, s->n));
    int wanted = bench_sets(options->l2, bytes, bench->team->devices[0].l2_bytes);
    grs_status status = GRS_OK;
    for (; bench->sets < wanted && !status; bench->sets++) {
        uint64_t seed = values_mix(options->seed + (uint64_t)bench->sets);
        struct operands **set = &bench->operands[bench->sets];
        status = operands_make(bench->team, s, set, err);
        status = status ? status : operands_fill(*set, seed, VALUES_RANDOM, 0, err);
        status = status ? status : operands_poison(*set, err);
    }
    return status;
}

static grs_status make_gemms(struct bench *bench, const struct cublas *cublas, grs_error *err) {
    const struct grsrun_shape *s = &bench->shape;
    const grs_operands *launch = &bench->operands[0]->launch[0];
    int64_t first, rows; /* of the first owner, who has the most */
    grs_rows(s->m, s->tp, 0, &first, &rows);
    grs_status status = GRS_OK;
    for (int rank = 0; rank < s->tp && !status; rank++) {
        size_t bytes = (size_t)(rows * s->tp * s->n) * 2;
        status = device_alloc(bench->team->device[rank], bytes, &bench->products[rank], err);
    }
    for (int i = 0; i < bench->team->device_count && !status; i++) {
        status = gemm_make(cublas, &bench->team->devices[i], s->m, s->n, s->k, launch->lda, launch->ldb, s->n,
                           &bench->gemms[i], err);
    }
    return status;
}

/* Where NCCL puts each rank's rows. */
static grs_status make_shares(struct bench *bench, grs_error *err) {
    const struct grsrun_shape *s = &bench->shape;
    int64_t first, rows;
    grs_rows(s->m, s->tp, 0, &first, &rows);
    grs_status status = GRS_OK;
    for (int rank = 0; rank < s->tp && !status; rank++) {
        status = device_alloc(bench->team->device[rank], (size_t)(rows * s->n) * 2, &bench->shares[rank], err);
    }
    return status;
}

static void bench_free(struct bench *bench) {
    timing_close(&bench->timing);
    for (int i = 0; i < bench->team->device_count; i++) {
        gemm_free(&bench->gemms[i]);
    }
    for (int rank = 0; rank < bench->shape.tp; rank++) {
        device_free(bench->team->device[rank], bench->products[rank]);
        device_free(bench->team->device[rank], bench->shares[rank]);
    }
    for (int set = 0; set < SETS_MAX; set++) {
        operands_free(bench->operands[set]);
    }
    free(bench);
}

/* Every algorithm once, briefly, on the first GPU; then the four fastest again, at length. An algorithm that fails is out
 * of the race. All GPUs take the winner: they are alike, and so is their list. */
static grs_status choose_algorithm(struct bench *bench, grs_error *err) {
    enum { FINALISTS = 4 };
    struct gemm *gemm = &bench->gemms[0];
    double us[GEMM_ALGORITHMS_MAX];
    int finalists[FINALISTS], finalist_count = 0;
    for (int i = 0; i < gemm->count; i++) {
        struct contestant brief = {.enqueue = enqueue_first_gemm, .self = bench};
        struct contestant *only = &brief;
        grs_error failed;
        gemm->best = i;
        us[i] = timing_alternate(&bench->timing, &only, 1, 5, 1, &failed) ? INFINITY : timing_median(&brief);
    }
    for (; finalist_count < FINALISTS && finalist_count < gemm->count; finalist_count++) {
        int fastest = 0;
        for (int i = 1; i < gemm->count; i++) {
            fastest = us[i] < us[fastest] ? i : fastest;
        }
        finalists[finalist_count] = fastest;
        if (isinf(us[fastest])) {
            break;
        }
        us[fastest] = INFINITY;
    }
    double best_us = INFINITY;
    int best = -1;
    for (int i = 0; i < finalist_count; i++) {
        struct contestant full = {.enqueue = enqueue_first_gemm, .self = bench};
        struct contestant *only = &full;
        gemm->best = finalists[i];
        grs_status status = timing_alternate(&bench->timing, &only, 1, 20, 2, err);
        if (status) {
            return status;
        }
        if (timing_median(&full) < best_us) {
            best_us = timing_median(&full);
            best = finalists[i];
        }
    }
    if (best < 0) {
        return error_set(err, GRS_ERR_DRIVER, "none of cuBLAS's %d algorithms runs", gemm->count);
    }
    for (int i = 0; i < bench->team->device_count; i++) {
        bench->gemms[i].best = best < bench->gemms[i].count ? best : 0;
    }
    return GRS_OK;
}

/* ---------------------------------------------------------------- measuring ------------------------------------ */

/* What does not depend on the mode of timing. */
static void describe_row(const struct bench *bench, struct bench_row *row) {
    *row = (struct bench_row){.shape = bench->shape,
                              .ranks_per_gpu = bench->team->ranks_per_gpu,
                              .sms = bench->team->sms,
                              .pace_gbps = NAN,
                              .ours_us = NAN,
                              .ours_spread = NAN,
                              .cublas_us = NAN,
                              .cublas_spread = NAN,
                              .cublas_nccl_us = NAN,
                              .async_tp_us = NAN,
                              .link_gbps = NAN,
                              .limit_us = NAN,
                              .metric = NAN,
                              .rel_err = NAN,
                              .l2 = bench->team->options->l2};
    snprintf(row->config, sizeof(row->config), "%s", bench->kernel->key);
}

static grs_status measure(struct bench *bench, bool isolated, struct bench_row *row, double *host_us, grs_error *err) {
    struct contestant ours = {.enqueue = enqueue_ours, .self = bench};
    struct contestant gemms = {.enqueue = enqueue_gemms, .self = bench};
    struct contestant both = {.enqueue = enqueue_gemms_and_scatter, .self = bench};
    struct contestant *all[3] = {&ours};
    int count = 1;
    if (bench->baselines->has_cublas) {
        all[count++] = &gemms;
    }
    if (bench->baselines->scatter.team) {
        all[count++] = &both;
    }
    int runs = isolated ? 1 : bench->team->options->iters;
    grs_status status =
        timing_alternate(&bench->timing, all, count, runs, isolated ? ROUNDS_ISOLATED : ROUNDS_BACK_TO_BACK, err);
    if (status) {
        return status;
    }
    const struct plan *plan = &bench->kernel->plan;
    int64_t bytes = plan_link_bytes(plan, bench->shape.m);
    bool crosses = bench->team->device_count > 1;
    row->isolated = isolated;
    row->iters = runs;
    row->ours_us = timing_median(&ours);
    row->ours_spread = timing_spread(&ours);
    row->cublas_us = timing_median(&gemms);
    row->cublas_spread = timing_spread(&gemms);
    row->cublas_nccl_us = timing_median(&both);
    row->link_gbps = bench->shape.tp > 1 ? (double)bytes / row->ours_us * 1e-3 : NAN;
    row->limit_us = bench_limit_us(row->cublas_us, bytes, crosses ? (double)plan->value[FIELD_LINK_GBPS] : 0);
    *host_us = ours.host_us;
    return GRS_OK;
}

/* One more launch of the timed kernel, with poison in D, against the reference. */
static grs_status judge(struct bench *bench, struct bench_row rows[BENCH_ROWS], bool *correct, struct buf *notes,
                        grs_error *err) {
    struct reference reference = {0};
    struct values_verdict verdict;
    uint64_t seed = values_mix(bench->team->options->seed); /* of set 0 */
    grs_status status = reference_make(bench->team, &bench->shape, &reference, err);
    status = status ? status : reference_compute(&reference, VALUES_RANDOM, &seed, err);
    status = status ? status : operands_poison(bench->operands[0], err);
    status = status ? status : enqueue_ours(bench, 0, err);
    status = status ? status : team_wait(bench->team, err);
    status = status ? status : verify_launch(&reference, bench->operands[0], bench->kernel, &verdict, notes, err);
    reference_free(&reference);
    if (status) {
        return status;
    }
    for (int i = 0; i < BENCH_ROWS; i++) {
        rows[i].rel_err = values_rel_err(&verdict);
        rows[i].metric = values_metric(&verdict);
    }
    *correct = verdict.mismatches == 0 && verify_statistics(&bench->shape, VALUES_RANDOM, &verdict);
    if (!*correct) {
        buf_printf(notes, "mismatches: %" PRIu64 ", rel_err %.3g (at most %.3g), metric %.3g (below %.3g)\n",
                   verdict.mismatches, rows[0].rel_err, values_rel_err_limit(bench->shape.tp), rows[0].metric,
                   VALUES_METRIC_LIMIT);
    }
    return GRS_OK;
}

grs_status bench_shape(struct team *team, const grs_kernel *kernel, const struct grsrun_shape *shape,
                       const struct baselines *baselines, struct bench_row rows[BENCH_ROWS], bool *correct,
                       struct buf *notes, grs_error *err) {
    *correct = false;
    struct bench *bench = calloc(1, sizeof(*bench));
    if (!bench) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the benchmark's table");
    }
    bench->team = team;
    bench->kernel = kernel;
    bench->shape = *shape;
    bench->baselines = baselines;
    double host_us = 0;
    grs_status status = make_operands(bench, err);
    status = status ? status : timing_open(team, bench->sets, &bench->timing, err);
    if (baselines->has_cublas) {
        status = status ? status : make_gemms(bench, &baselines->cublas, err);
        status = status ? status : choose_algorithm(bench, err);
    }
    if (baselines->scatter.team) {
        status = status ? status : make_shares(bench, err);
    }
    for (int i = 0; i < BENCH_ROWS && !status; i++) {
        describe_row(bench, &rows[i]);
        status = measure(bench, i == 1, &rows[i], &host_us, err);
    }
    status = status ? status : judge(bench, rows, correct, notes, err);
    if (!status && baselines->has_cublas) {
        buf_puts(notes, "cuBLAS: ");
        gemm_describe(&bench->gemms[0], notes);
        buf_puts(notes, "\n");
    }
    if (!status) {
        buf_printf(notes, "host time of a launch of %s: %.1f us\n", shape->tp > 1 ? "all ranks" : "one rank", host_us);
    }
    bench_free(bench);
    return status;
}
