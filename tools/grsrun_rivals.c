#include "tools/grsrun_rivals.h"

#include <inttypes.h>
#include <math.h>

#include "common/error.h"
#include "tools/grsrun_link.h"

/* ---------------------------------------------------------------- libraries ------------------------------------ */

void baselines_open(struct baselines *out, struct buf *notes) {
    grs_error err;
    *out = (struct baselines){.link_gbps = NAN};
    out->has_cublas = cublas_open(&out->cublas, &err) == GRS_OK;
    if (!out->has_cublas) {
        buf_printf(notes, "no cuBLAS: %s\n", err.text);
    }
    out->has_nccl = nccl_open(&out->nccl, &err) == GRS_OK;
    if (!out->has_nccl) {
        buf_printf(notes, "no NCCL: %s\n", err.text);
    }
}

void baselines_join(struct baselines *baselines, struct team *team, struct buf *notes) {
    grs_error err;
    baselines_leave(baselines);
    if (team->ranks_per_gpu != 1 || team->tp == 1) {
        return;
    }
    if (link_measure(team, &baselines->link_gbps, &err)) {
        buf_printf(notes, "the link cannot be measured: %s\n", err.text);
    } else {
        buf_puts(notes, "link: plain stores reach ");
        buf_fixed(notes, baselines->link_gbps, 1);
        buf_puts(notes, " GB/s, all ranks at once\n");
    }
    if (!baselines->has_nccl || !baselines->has_cublas) {
        return;
    }
    if (scatter_make(&baselines->nccl, team, &baselines->scatter, &err)) {
        buf_printf(notes, "NCCL fails at tp %d: %s\n", team->tp, err.text);
        scatter_free(&baselines->scatter);
    }
}

void baselines_leave(struct baselines *baselines) {
    scatter_free(&baselines->scatter);
    baselines->link_gbps = NAN;
}

/* ---------------------------------------------------------------- contestants ---------------------------------- */

/* Of cuBLAS's algorithms. */
enum choice { CHOICE_FASTEST, CHOICE_DEFAULT };

static grs_status enqueue_rank_gemm(struct rivals *rivals, int rank, enum choice choice, int set, CUdeviceptr product,
                                    grs_error *err) {
    const grs_operands *launch = &rivals->operands[set]->launch[rank];
    const struct gemm *gemm = &rivals->gemms[rank / rivals->team->ranks_per_gpu];
    return gemm_run(gemm, choice == CHOICE_FASTEST ? gemm->best : 0, launch->A, launch->B, (void *)(uintptr_t)product,
                    err);
}

/* The ranks of a GPU one behind the other, as if one process after another had the GPU to itself. */
static grs_status enqueue_all_gemms(struct rivals *rivals, enum choice choice, int set, const CUdeviceptr *products,
                                    grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < rivals->shape.tp && !status; rank++) {
        status = enqueue_rank_gemm(rivals, rank, choice, set, products[rank], err);
    }
    return status;
}

static grs_status enqueue_gemms(void *self, int set, grs_error *err) {
    struct rivals *rivals = self;
    return enqueue_all_gemms(rivals, CHOICE_FASTEST, set, rivals->products, err);
}

static grs_status enqueue_default_gemms(void *self, int set, grs_error *err) {
    struct rivals *rivals = self;
    return enqueue_all_gemms(rivals, CHOICE_DEFAULT, set, rivals->products, err);
}

static grs_status enqueue_first_gemm(void *self, int set, grs_error *err) {
    struct rivals *rivals = self;
    return enqueue_rank_gemm(rivals, 0, CHOICE_FASTEST, set, rivals->products[0], err);
}

static grs_status enqueue_exchange(struct rivals *rivals, int set, const CUdeviceptr *products,
                                   const CUdeviceptr *shares, grs_error *err) {
    int64_t first, rows;
    grs_rows(rivals->shape.m, rivals->shape.tp, 0, &first, &rows);
    grs_status status = enqueue_all_gemms(rivals, CHOICE_FASTEST, set, products, err);
    return status ? status
                  : scatter_run(&rivals->baselines->scatter, products, shares, (size_t)(rows * rivals->shape.n), err);
}

static grs_status enqueue_scatter(void *self, int set, grs_error *err) {
    struct rivals *rivals = self;
    return enqueue_exchange(rivals, set, rivals->products, rivals->shares, err);
}

static grs_status enqueue_registered(void *self, int set, grs_error *err) {
    struct rivals *rivals = self;
    return enqueue_exchange(rivals, set, rivals->registered.from, rivals->registered.to, err);
}

struct contestant rivals_contestant(struct rivals *rivals, enum rival which) {
    static grs_status (*const enqueue[RIVAL_COUNT])(void *, int,
                                                    grs_error *) = {[RIVAL_GEMM] = enqueue_gemms,
                                                                    [RIVAL_DEFAULT] = enqueue_default_gemms,
                                                                    [RIVAL_SCATTER] = enqueue_scatter,
                                                                    [RIVAL_REGISTERED] = enqueue_registered};
    return (struct contestant){.enqueue = enqueue[which], .self = rivals};
}

/* ---------------------------------------------------------------- preparation ---------------------------------- */

/* Bytes of what a rank makes, and of its share of the sum: of the first owner, who has the most rows. */
static void sizes_of(const struct grsrun_shape *s, size_t *product, size_t *share) {
    int64_t first, rows;
    grs_rows(s->m, s->tp, 0, &first, &rows);
    *share = (size_t)(rows * s->n) * 2;
    *product = *share * (size_t)s->tp;
}

static grs_status make_buffers(struct rivals *rivals, grs_error *err) {
    size_t product, share;
    sizes_of(&rivals->shape, &product, &share);
    grs_status status = GRS_OK;
    for (int rank = 0; rank < rivals->shape.tp && !status; rank++) {
        const struct device *device = rivals->team->device[rank];
        status = device_alloc(device, product, &rivals->products[rank], err);
        if (!status && rivals->has[RIVAL_SCATTER]) {
            status = device_alloc(device, share, &rivals->shares[rank], err);
        }
    }
    return status;
}

static grs_status make_gemms(struct rivals *rivals, grs_error *err) {
    const struct grsrun_shape *s = &rivals->shape;
    const grs_operands *launch = &rivals->operands[0]->launch[0];
    grs_status status = GRS_OK;
    for (int i = 0; i < rivals->team->device_count && !status; i++) {
        status = gemm_make(&rivals->baselines->cublas, &rivals->team->devices[i], s->m, s->n, s->k, launch->lda,
                           launch->ldb, s->n, &rivals->gemms[i], err);
    }
    return status;
}

/* Every algorithm once, briefly, on the first GPU; then the four fastest again, at length. An algorithm that fails is out
 * of the race. All GPUs take the winner: they are alike, and so is their list. */
static grs_status choose_algorithm(struct rivals *rivals, struct timing *timing, grs_error *err) {
    enum { FINALISTS = 4 };
    struct gemm *gemm = &rivals->gemms[0];
    double us[GEMM_ALGORITHMS_MAX];
    int finalists[FINALISTS], finalist_count = 0;
    for (int i = 0; i < gemm->count; i++) {
        struct contestant brief = {.enqueue = enqueue_first_gemm, .self = rivals};
        struct contestant *only = &brief;
        grs_error failed;
        gemm->best = i;
        us[i] = timing_alternate(timing, &only, 1, 5, 1, &failed) ? INFINITY : timing_median(&brief);
        rivals->has[RIVAL_DEFAULT] |= i == 0 && isfinite(us[i]);
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
        struct contestant full = {.enqueue = enqueue_first_gemm, .self = rivals};
        struct contestant *only = &full;
        gemm->best = finalists[i];
        grs_status status = timing_alternate(timing, &only, 1, 20, 2, err);
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
    for (int i = 0; i < rivals->team->device_count; i++) {
        rivals->gemms[i].best = best < rivals->gemms[i].count ? best : 0;
    }
    return GRS_OK;
}

grs_status rivals_open(struct team *team, const struct grsrun_shape *shape, const struct baselines *baselines,
                       struct operands *const *operands, struct timing *timing, struct rivals *out, struct buf *notes,
                       grs_error *err) {
    *out = (struct rivals){.team = team, .shape = *shape, .baselines = baselines, .operands = operands};
    out->has[RIVAL_GEMM] = baselines->has_cublas;
    out->has[RIVAL_SCATTER] = baselines->scatter.team != NULL;
    if (!baselines->has_cublas) {
        return GRS_OK;
    }
    grs_status status = make_buffers(out, err);
    status = status ? status : make_gemms(out, err);
    status = status ? status : choose_algorithm(out, timing, err);
    if (status) {
        return status;
    }
    out->has[RIVAL_DEFAULT] = out->has[RIVAL_DEFAULT] && out->gemms[0].best != 0;
    buf_puts(notes, "cuBLAS: ");
    gemm_describe(&out->gemms[0], notes);
    buf_puts(notes, "\n");
    if (out->has[RIVAL_SCATTER]) {
        grs_error why;
        size_t product, share;
        sizes_of(shape, &product, &share);
        out->has[RIVAL_REGISTERED] =
            scatter_register(&baselines->scatter, product, share, &out->registered, &why) == GRS_OK;
        if (!out->has[RIVAL_REGISTERED]) {
            buf_printf(notes, "no registered buffers: %s\n", why.text);
        }
    }
    return GRS_OK;
}

void rivals_close(struct rivals *rivals) {
    if (!rivals->team) {
        return;
    }
    scatter_unregister(&rivals->registered);
    for (int i = 0; i < rivals->team->device_count; i++) {
        gemm_free(&rivals->gemms[i]);
    }
    for (int rank = 0; rank < rivals->shape.tp; rank++) {
        device_free(rivals->team->device[rank], rivals->products[rank]);
        device_free(rivals->team->device[rank], rivals->shares[rank]);
    }
    *rivals = (struct rivals){0};
}
