#include "tools/grsrun_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/kernel.h"
#include "tools/grsrun_verify.h"

#define ROUNDS_BACK_TO_BACK 3  /* 6 samples */
#define ROUNDS_ISOLATED     10 /* 20 samples of one launch each */

int bench_sets(enum grsrun_l2 l2, int64_t set_bytes, int64_t l2_bytes) {
    if (l2 == L2_WARM) {
        return 1;
    }
    int64_t sets = 3 * l2_bytes / set_bytes + 2;
    return sets > BENCH_SETS_MAX ? BENCH_SETS_MAX : (int)sets;
}

double bench_link_gbps(const struct team *team, const struct plan *plan) {
    double link = team->device_count > 1 ? (double)plan->value[FIELD_LINK_GBPS] : 0;
    return isnan(team->pace_gbps) ? link : link > 0 ? fmin(link, team->pace_gbps) : team->pace_gbps;
}

double bench_limit_us(double gemm_us, int64_t bytes, double gbps) {
    if (isnan(gemm_us) || isnan(gbps)) {
        return NAN;
    }
    return gbps > 0 ? fmax(gemm_us, (double)bytes / gbps * 1e-3) : gemm_us;
}

grs_status bench_operands(struct team *team, const struct grsrun_shape *s, struct operands *sets[BENCH_SETS_MAX],
                          int *count, grs_error *err) {
    const struct grsrun_options *options = team->options;
    int64_t bytes = 2 * team->ranks_per_gpu *
                    (s->m * grsrun_leading(&options->lda, s->k) + s->n * grsrun_leading(&options->ldb, s->k) +
                     s->m / s->tp * grsrun_leading(&options->ldd, s->n));
    int wanted = bench_sets(options->l2, bytes, team->devices[0].l2_bytes);
    grs_status status = GRS_OK;
    for (*count = 0; *count < wanted && !status; ++*count) {
        uint64_t seed = values_mix(options->seed + (uint64_t)*count);
        struct operands **set = &sets[*count];
        status = operands_make(team, s, set, err);
        status = status ? status : operands_fill(*set, seed, VALUES_RANDOM, 0, err);
        status = status ? status : operands_poison(*set, err);
    }
    return status;
}

grs_status bench_judge(struct team *team, const grs_kernel *kernel, struct operands *operands,
                       struct values_verdict *verdict, bool *correct, struct buf *notes, grs_error *err) {
    struct reference reference = {0};
    uint64_t seed = values_mix(team->options->seed); /* of set 0 */
    grs_status status = reference_make(team, &operands->shape, &reference, err);
    status = status ? status : reference_compute(&reference, VALUES_RANDOM, &seed, err);
    status = status ? status : operands_poison(operands, err);
    status = status ? status : team_launch(team, kernel, operands, err);
    status = status ? status : team_wait(team, err);
    status = status ? status : verify_launch(&reference, operands, kernel, verdict, notes, err);
    reference_free(&reference);
    if (status) {
        return status;
    }
    *correct = verdict->mismatches == 0 && verify_statistics(team, &operands->shape, VALUES_RANDOM, verdict);
    if (!*correct) {
        buf_printf(notes, "mismatches: %" PRIu64 ", rel_err %.3g (at most %.3g), metric %.3g (below %.3g)\n",
                   verdict->mismatches, values_rel_err(verdict), values_rel_err_limit(operands->shape.tp, team->nodes),
                   values_metric(verdict), values_metric_limit(operands->shape.tp, team->nodes));
    }
    return GRS_OK;
}

/* Everything that one shape is timed with. */
struct bench {
    struct team *team;
    const grs_kernel *kernel;
    struct grsrun_shape shape;
    int sets;
    struct operands *operands[BENCH_SETS_MAX];
    struct timing timing;
    struct rivals rivals;
};

static void bench_free(struct bench *bench) {
    rivals_close(&bench->rivals);
    timing_close(&bench->timing);
    for (int set = 0; set < BENCH_SETS_MAX; set++) {
        operands_free(bench->operands[set]);
    }
    free(bench);
}

static grs_status enqueue_ours(void *self, int set, grs_error *err) {
    struct bench *bench = self;
    return team_launch(bench->team, bench->kernel, bench->operands[set], err);
}

/* What does not depend on the mode of timing; nothing is measured yet. */
static void describe_row(const struct bench *bench, struct bench_row *row) {
    *row = (struct bench_row){.shape = bench->shape,
                              .ranks_per_gpu = bench->team->ranks_per_gpu,
                              .sms = bench->team->sms,
                              .pace_gbps = bench->team->pace_gbps,
                              .ours_us = NAN,
                              .ours_spread = NAN,
                              .cublas_us = NAN,
                              .cublas_spread = NAN,
                              .cublas_default_us = NAN,
                              .cublas_nccl_us = NAN,
                              .registered_us = NAN,
                              .async_tp_us = NAN,
                              .link_gbps = NAN,
                              .link_peak_gbps = bench->rivals.baselines->link_gbps,
                              .limit_us = NAN,
                              .metric = NAN,
                              .rel_err = NAN,
                              .l2 = bench->team->options->l2};
    snprintf(row->config, sizeof(row->config), "%s", bench->kernel->key);
}

static grs_status measure(struct bench *bench, bool isolated, struct bench_row *row, double *host_us, grs_error *err) {
    struct contestant ours = {.enqueue = enqueue_ours, .self = bench}, rivals[RIVAL_COUNT] = {{0}};
    struct contestant *all[1 + RIVAL_COUNT] = {&ours};
    int count = 1, runs = isolated ? 1 : bench->team->options->iters;
    for (int i = 0; i < RIVAL_COUNT; i++) {
        if (bench->rivals.has[i]) {
            rivals[i] = rivals_contestant(&bench->rivals, (enum rival)i);
            all[count++] = &rivals[i];
        }
    }
    grs_status status =
        timing_alternate(&bench->timing, all, count, runs, isolated ? ROUNDS_ISOLATED : ROUNDS_BACK_TO_BACK, err);
    if (status) {
        return status;
    }
    const struct plan *plan = &bench->kernel->plan;
    int64_t bytes = plan_link_bytes(plan, bench->shape.m);
    row->isolated = isolated;
    row->iters = runs;
    row->ours_us = timing_median(&ours);
    row->ours_spread = timing_spread(&ours);
    row->cublas_us = timing_median(&rivals[RIVAL_GEMM]);
    row->cublas_spread = timing_spread(&rivals[RIVAL_GEMM]);
    row->cublas_default_us = bench->rivals.has[RIVAL_DEFAULT]   ? timing_median(&rivals[RIVAL_DEFAULT])
                             : bench->rivals.gemms[0].best == 0 ? row->cublas_us
                                                                : NAN;
    row->cublas_nccl_us = timing_median(&rivals[RIVAL_SCATTER]);
    row->registered_us = timing_median(&rivals[RIVAL_REGISTERED]);
    row->link_gbps = bench->shape.tp > 1 ? (double)bytes / row->ours_us * 1e-3 : NAN;
    row->limit_us = bench_limit_us(row->cublas_us, bytes, bench_link_gbps(bench->team, plan));
    *host_us = ours.host_us;
    return GRS_OK;
}

static grs_status judge(struct bench *bench, struct bench_row rows[BENCH_ROWS], bool *correct, struct buf *notes,
                        grs_error *err) {
    struct values_verdict verdict;
    grs_status status = bench_judge(bench->team, bench->kernel, bench->operands[0], &verdict, correct, notes, err);
    for (int i = 0; i < BENCH_ROWS && !status; i++) {
        rows[i].rel_err = values_rel_err(&verdict);
        rows[i].metric = values_metric(&verdict);
    }
    return status;
}

grs_status bench_shape(struct team *team, const grs_kernel *kernel, const grs_kernel *counting,
                       const struct grsrun_shape *shape, const struct baselines *baselines,
                       struct bench_row rows[BENCH_ROWS], bool *correct, struct buf *notes, grs_error *err) {
    *correct = false;
    struct bench *bench = calloc(1, sizeof(*bench));
    if (!bench) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the benchmark's table");
    }
    bench->team = team;
    bench->kernel = kernel;
    bench->shape = *shape;
    double host_us = 0;
    grs_status status = bench_operands(team, shape, bench->operands, &bench->sets, err);
    status = status ? status : timing_open(team, bench->sets, &bench->timing, err);
    status = status ? status
                    : rivals_open(team, shape, baselines, bench->operands, &bench->timing, &bench->rivals, notes, err);
    for (int i = 0; i < BENCH_ROWS && !status; i++) {
        describe_row(bench, &rows[i]);
        status = measure(bench, i == 1, &rows[i], &host_us, err);
    }
    if (!status && team->options->waits) {
        status = waits_count(team, counting, bench->operands[0], &rows[0].waits, err);
    }
    if (!status && team->options->skew) {
        status = skew_measure(team, counting, bench->operands[0], &rows[0].skew, err);
    }
    status = status ? status : judge(bench, rows, correct, notes, err);
    if (!status) {
        buf_printf(notes, "host time of a launch of %s: %.1f us\n", shape->tp > 1 ? "all ranks" : "one rank", host_us);
    }
    bench_free(bench);
    return status;
}
