#include "tools/grsrun_ablate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/kernel.h"
#include "tools/grsrun_bench.h"
#include "tools/grsrun_context.h"
#include "tools/grsrun_verify.h"

#define ROUNDS 3 /* 6 samples */

struct ablate;
struct entrant { /* one variant in the race */
    struct ablate *ablate;
    const grs_kernel *kernel, *counting; /* NULL: refused */
};

struct ablate {
    grs_ctx *ctx;
    struct team *team;
    struct grsrun_shape shape;
    struct config configs[VARIANT_COUNT];
    struct wanted wanted[2 * VARIANT_COUNT]; /* the kernels, then the same with wait counters */
    struct entrant entrants[VARIANT_COUNT];
    int sets;
    struct operands *operands[BENCH_SETS_MAX];
    struct timing timing;
    struct rivals rivals;
};

static void ablate_free(struct ablate *ablate) {
    rivals_close(&ablate->rivals);
    timing_close(&ablate->timing);
    wanted_free(ablate->wanted, 2 * VARIANT_COUNT);
    for (int set = 0; set < BENCH_SETS_MAX; set++) {
        operands_free(ablate->operands[set]);
    }
    free(ablate);
}

static void describe_row(const struct ablate *ablate, struct ablate_row *row) {
    *row = (struct ablate_row){.shape = ablate->shape,
                               .ranks_per_gpu = ablate->team->ranks_per_gpu,
                               .sms = ablate->team->sms,
                               .iters = ablate->team->options->iters,
                               .pace_gbps = ablate->team->pace_gbps,
                               .us = NAN,
                               .spread = NAN,
                               .limit_us = NAN,
                               .older_us = NAN};
}

void ablate_want(const struct variants_base *base, const struct grsrun_shape *shape, struct config *configs,
                 struct wanted *wanted) {
    for (int i = 0; i < VARIANT_COUNT; i++) {
        variants_config(base, (enum variant)i, &configs[i]);
        wanted[i] = (struct wanted){.config = &configs[i], .shape = *shape};
        wanted[VARIANT_COUNT + i] = (struct wanted){.config = &configs[i], .shape = *shape, .count_waits = true};
    }
}

/* Every variant's kernels, from cache or compiler. A refused one is a row that says why; anything else is an error. */
static grs_status get_kernels(struct ablate *ablate, struct ablate_row *rows, grs_error *err) {
    struct variants_base base;
    grs_status status = variants_base(ablate->ctx->config, ablate->ctx->arch, &ablate->shape, &base, err);
    if (status) {
        return status;
    }
    ablate_want(&base, &ablate->shape, ablate->configs, ablate->wanted);
    status = wanted_get(ablate->ctx, ablate->wanted, 2 * VARIANT_COUNT, err);
    for (int i = 0; i < VARIANT_COUNT && !status; i++) {
        const struct wanted *plain = &ablate->wanted[i], *counting = &ablate->wanted[VARIANT_COUNT + i];
        const grs_error *why = plain->kernel ? counting->error : plain->error;
        struct ablate_row *row = &rows[i];
        describe_row(ablate, row);
        row->name = variants_info[i].name;
        row->title = variants_info[i].title;
        ablate->entrants[i] = (struct entrant){ablate, plain->kernel, counting->kernel};
        if (plain->kernel && counting->kernel) {
            snprintf(row->config, sizeof(row->config), "%s", plain->kernel->key);
            variants_describe(&plain->kernel->plan, &row->policies);
            status = grs_comm_prepare(ablate->team->comms[0], plain->kernel, ablate->shape.m, err);
        } else if (i == VARIANT_DEFAULT || (why->status != GRS_ERR_PLAN && why->status != GRS_ERR_UNSUPPORTED)) {
            *err = *why;
            status = error_prepend(err, "%s", row->name);
        } else {
            ablate->entrants[i].kernel = NULL;
            snprintf(row->refused, sizeof(row->refused), "%.500s", why->text);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- what D must be -------------------------------- */

/* One launch of every variant on the same operands: our default's D against the reference, the others' against it. */
static grs_status compare(struct ablate *ablate, struct ablate_row *rows, bool *correct, struct buf *notes,
                          grs_error *err) {
    struct values_verdict verdict;
    struct operands *operands = ablate->operands[0];
    uint64_t wanted = 0, sum = 0;
    grs_status status =
        bench_judge(ablate->team, ablate->entrants[VARIANT_DEFAULT].kernel, operands, &verdict, correct, notes, err);
    status = status ? status : verify_checksum(operands, &wanted, err);
    for (int i = 0; i < VARIANT_COUNT && !status; i++) {
        if (!ablate->entrants[i].kernel) {
            continue;
        }
        status = operands_poison(operands, err);
        status = status ? status : team_launch(ablate->team, ablate->entrants[i].kernel, operands, err);
        status = status ? status : team_wait(ablate->team, err);
        status = status ? status : verify_checksum(operands, &sum, err);
        rows[i].equal = !status && sum == wanted;
        if (!status && sum != wanted) {
            buf_printf(notes, "%s: D is not bitwise that of our default\n", rows[i].name);
            *correct = false;
        }
    }
    return status;
}

/* ---------------------------------------------------------------- the race -------------------------------------- */

static grs_status enqueue(void *self, int set, grs_error *err) {
    const struct entrant *entrant = self;
    return team_launch(entrant->ablate->team, entrant->kernel, entrant->ablate->operands[set], err);
}

/* Policies are compared here: of cuBLAS the fastest is enough. */
static bool takes_part(const struct ablate *ablate, int rival) {
    return ablate->rivals.has[rival] && rival != RIVAL_DEFAULT;
}

/* Rows of the baselines that ran, behind those of the variants. */
static size_t add_rivals(const struct ablate *ablate, const struct contestant *rivals, struct ablate_row *rows) {
    static const struct variant_info infos[RIVAL_COUNT] = {
        [RIVAL_GEMM] = {"cublas", "cuBLAS alone, nothing exchanged"},
        [RIVAL_SCATTER] = {"cublas_nccl", "cuBLAS, then ncclReduceScatter"},
        [RIVAL_REGISTERED] = {"cublas_nccl_registered", "the same between registered buffers"}};
    size_t count = 0, best = 0;
    for (int i = 0; i < RIVAL_COUNT; i++) {
        if (!takes_part(ablate, i)) {
            continue;
        }
        struct ablate_row *row = &rows[count++];
        describe_row(ablate, row);
        row->name = infos[i].name;
        row->title = infos[i].title;
        row->is_baseline = true;
        row->us = timing_median(&rivals[i]);
        row->spread = timing_spread(&rivals[i]);
        /* The first is the products alone: any that does the whole work goes before it. */
        best = best == 0 || row->us < rows[best].us ? count - 1 : best;
    }
    if (count) {
        rows[best].is_best_baseline = true;
    }
    return count;
}

static grs_status race(struct ablate *ablate, struct ablate_row *rows, size_t *count, grs_error *err) {
    struct contestant entrants[VARIANT_COUNT] = {{0}}, rivals[RIVAL_COUNT] = {{0}};
    struct contestant *all[ABLATE_ROWS];
    int running = 0;
    for (int i = 0; i < VARIANT_COUNT; i++) {
        if (ablate->entrants[i].kernel) {
            entrants[i] = (struct contestant){.enqueue = enqueue, .self = &ablate->entrants[i]};
            all[running++] = &entrants[i];
        }
    }
    for (int i = 0; i < RIVAL_COUNT; i++) {
        if (takes_part(ablate, i)) {
            rivals[i] = rivals_contestant(&ablate->rivals, (enum rival)i);
            all[running++] = &rivals[i];
        }
    }
    grs_status status = timing_alternate(&ablate->timing, all, running, ablate->team->options->iters, ROUNDS, err);
    if (status) {
        return status;
    }
    for (int i = 0; i < VARIANT_COUNT; i++) {
        rows[i].us = timing_median(&entrants[i]);
        rows[i].spread = timing_spread(&entrants[i]);
    }
    *count = VARIANT_COUNT + add_rivals(ablate, rivals, &rows[VARIANT_COUNT]);
    const struct plan *plan = &ablate->entrants[VARIANT_DEFAULT].kernel->plan;
    double limit = bench_limit_us(timing_median(&rivals[RIVAL_GEMM]), plan_link_bytes(plan, ablate->shape.m),
                                  bench_link_gbps(ablate->team, plan));
    for (size_t i = 0; i < *count; i++) {
        rows[i].limit_us = limit;
        rows[i].older_us = rows[VARIANT_OLDER].us;
    }
    return GRS_OK;
}

static grs_status count_waits(struct ablate *ablate, struct ablate_row *rows, grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < VARIANT_COUNT && !status; i++) {
        if (ablate->entrants[i].kernel) {
            status = waits_count(ablate->team, ablate->entrants[i].counting, ablate->operands[0], &rows[i].waits, err);
        }
    }
    return status;
}

grs_status ablate_shape(grs_ctx *ctx, struct team *team, const struct grsrun_shape *shape,
                        const struct baselines *baselines, struct ablate_row rows[ABLATE_ROWS], size_t *count,
                        bool *correct, struct buf *notes, grs_error *err) {
    *count = 0;
    *correct = false;
    struct ablate *ablate = calloc(1, sizeof(*ablate));
    if (!ablate) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the table of variants");
    }
    ablate->ctx = ctx;
    ablate->team = team;
    ablate->shape = *shape;
    grs_status status = get_kernels(ablate, rows, err);
    status = status ? status : bench_operands(team, shape, ablate->operands, &ablate->sets, err);
    status = status ? status : timing_open(team, ablate->sets, &ablate->timing, err);
    status = status
                 ? status
                 : rivals_open(team, shape, baselines, ablate->operands, &ablate->timing, &ablate->rivals, notes, err);
    status = status ? status : compare(ablate, rows, correct, notes, err);
    status = status ? status : race(ablate, rows, count, err);
    status = status ? status : count_waits(ablate, rows, err);
    ablate_free(ablate);
    return status;
}
