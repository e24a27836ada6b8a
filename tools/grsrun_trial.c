#include "tools/grsrun_trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/classes.h"
#include "generator/emit.h"
#include "generator/tileorder.h"

#define GUARD_WORDS 64 /* on either side of a matrix */

/* ---------------------------------------------------------------- kernels */

grs_status trial_kernel_build(const struct plan *plan, const struct emu_header *changed, const char *directory,
                              struct trial_kernel *out, grs_error *err) {
    struct buf text = {0};
    *out = (struct trial_kernel){.plan = *plan};
    grs_status status = emit_entry(plan, &text, err);
    if (status == GRS_OK)
        status = emu_kernel_build(text.data, plan->name, changed, directory, &out->kernel, err);
    buf_free(&text);
    return status;
}

grs_status trial_kernel_make(const struct config *config, enum arch arch, int64_t m, int64_t n, int64_t k, int tp,
                             const struct emu_header *changed, const char *directory, struct trial_kernel *out,
                             grs_error *err) {
    struct plan plan;
    struct plan_shape shape = {.m_min = m, .m_max = m, .n = n, .k = k, .tp = tp};
    if (config->value[FIELD_M_MODE] != M_FIXED || !config->is_set[FIELD_M_MODE]) {
        struct classes classes;
        classes_make(config, arch, n, k, tp, &classes);
        shape = *classes_find(&classes, m);
    }
    *out = (struct trial_kernel){0};
    grs_status status = plan_solve(config, arch, &shape, &plan, err);
    return status == GRS_OK ? trial_kernel_build(&plan, changed, directory, out, err) : status;
}

void trial_kernel_free(struct trial_kernel *kernel) {
    emu_kernel_free(kernel->kernel);
    kernel->kernel = NULL;
}

/* ---------------------------------------------------------------- operands */

struct matrix {
    struct values_matrix layout;
    uint16_t *words;
};

struct launch_data { /* of one launch: matrices by rank */
    struct matrix *a, *b, *d;
    struct emu_operands *operands;
    uint64_t seed; /* as used: an exact seed whose sums leave the range is passed over */
    uint32_t threshold;
};

static grs_status make_matrix(struct emu_group *group, const struct launch_data *data, enum values_mode mode, int rank,
                              enum values_operand operand, int64_t rows, int64_t columns, int64_t ld,
                              struct matrix *out, grs_error *err) {
    out->layout = (struct values_matrix){.key = values_key(data->seed, operand, rank),
                                         .operand = operand,
                                         .mode = mode,
                                         .threshold = data->threshold,
                                         .rows = rows,
                                         .columns = columns,
                                         .ld = ld,
                                         .lead = GUARD_WORDS,
                                         .total = rows * ld + 2 * GUARD_WORDS};
    out->words = emu_group_memory(group, rank, (size_t)out->layout.total, operand == VALUES_D);
    if (!out->words)
        return error_set(err, GRS_ERR_MEMORY, "no memory for %" PRId64 " x %" PRId64 " elements", rows, columns);
    for (int64_t w = 0; w < out->layout.total; w++)
        out->words[w] = values_word(&out->layout, w);
    return GRS_OK;
}

static const uint16_t *first_word(const struct matrix *matrix) {
    return matrix->words + matrix->layout.lead;
}

static grs_status make_data(struct emu_group *group, const struct trial_launch *launch, struct launch_data *data,
                            grs_error *err) {
    const struct plan_shape *s = &launch->kernel->plan.shape;
    grs_status status = GRS_OK;
    for (int rank = 0; rank < s->tp && status == GRS_OK; rank++) {
        int64_t kept = plan_segment_rows_of(&launch->kernel->plan, launch->m, rank);
        status = make_matrix(group, data, launch->mode, rank, VALUES_A, launch->m, s->k, s->k + launch->pad_a,
                             &data->a[rank], err);
        if (status == GRS_OK)
            status = make_matrix(group, data, launch->mode, rank, VALUES_B, s->n, s->k, s->k + launch->pad_b,
                                 &data->b[rank], err);
        if (status == GRS_OK)
            status = make_matrix(group, data, launch->mode, rank, VALUES_D, kept, s->n, s->n + launch->pad_d,
                                 &data->d[rank], err);
        if (status != GRS_OK)
            break;
        data->operands[rank] = (struct emu_operands){.a = first_word(&data->a[rank]),
                                                     .b = first_word(&data->b[rank]),
                                                     .d = kept ? data->d[rank].words + data->d[rank].layout.lead : NULL,
                                                     .lda = s->k + launch->pad_a,
                                                     .ldb = s->k + launch->pad_b,
                                                     .ldd = s->n + launch->pad_d};
    }
    return status;
}

static bool allocate_data(int tp, struct launch_data *data) {
    data->a = calloc((size_t)tp, sizeof *data->a);
    data->b = calloc((size_t)tp, sizeof *data->b);
    data->d = calloc((size_t)tp, sizeof *data->d);
    data->operands = calloc((size_t)tp, sizeof *data->operands);
    return data->a && data->b && data->d && data->operands;
}

static void free_data(struct launch_data *data) {
    free(data->a);
    free(data->b);
    free(data->d);
    free(data->operands);
}

/* ---------------------------------------------------------------- the ring on the host */

/* Products of one row of A with every row of B, k in order, as the tensor cores are emulated. `b` is B in FP32,
 * transposed: [k][n]. */
static void multiply_row(const struct matrix *a, int64_t row, const float *b, int64_t n, int64_t k, float *out) {
    const uint16_t *words = first_word(a) + row * a->layout.ld;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < k; i++) {
        float x = values_from_bf16(words[i]);
        for (int64_t j = 0; x != 0 && j < n; j++)
            out[j] += x * b[i * n + j];
    }
}

static float *transposed(const struct matrix *b) {
    int64_t n = b->layout.rows, k = b->layout.columns;
    float *out = malloc((size_t)(n * k) * sizeof *out);
    for (int64_t j = 0; out && j < n; j++)
        for (int64_t i = 0; i < k; i++)
            out[i * n + j] = values_from_bf16(first_word(b)[j * b->layout.ld + i]);
    return out;
}

struct host_ring {
    const struct trial_launch *launch;
    const struct launch_data *data;
    float **b;     /* by rank */
    float *own;    /* products of one row */
    double *exact; /* the sum without rounding */
    uint16_t *sum; /* as it travels */
};

/* The row of D: rank owner-1 first, owner last, rounded to BF16 once a rank. */
static void reduce_row(struct host_ring *ring, int owner, int64_t row) {
    const struct plan_shape *s = &ring->launch->kernel->plan.shape;
    for (int hop = 0; hop < s->tp; hop++) {
        int rank = (owner + s->tp - 1 - hop) % s->tp;
        multiply_row(&ring->data->a[rank], row, ring->b[rank], s->n, s->k, ring->own);
        for (int64_t j = 0; j < s->n; j++) {
            float partial = hop ? values_from_bf16(ring->sum[j]) : 0.0f;
            ring->sum[j] = values_to_bf16(hop ? ring->own[j] + partial : ring->own[j]);
            ring->exact[j] = (hop ? ring->exact[j] : 0) + ring->own[j];
        }
    }
}

static bool ring_make(struct host_ring *ring) {
    const struct plan_shape *s = &ring->launch->kernel->plan.shape;
    ring->b = calloc((size_t)s->tp, sizeof *ring->b);
    ring->own = malloc((size_t)s->n * sizeof *ring->own);
    ring->exact = malloc((size_t)s->n * sizeof *ring->exact);
    ring->sum = malloc((size_t)s->n * sizeof *ring->sum);
    bool made = ring->b && ring->own && ring->exact && ring->sum;
    for (int rank = 0; made && rank < s->tp; rank++)
        made = (ring->b[rank] = transposed(&ring->data->b[rank])) != NULL;
    return made;
}

static void ring_free(struct host_ring *ring) {
    for (int rank = 0; ring->b && rank < ring->launch->kernel->plan.shape.tp; rank++)
        free(ring->b[rank]);
    free(ring->b);
    free(ring->own);
    free(ring->exact);
    free(ring->sum);
}

/* ---------------------------------------------------------------- comparison */

/* Which tile of the owner's segment holds this row (of D) and column. */
static int64_t tile_of(const struct plan *plan, int64_t m, int owner, int64_t row, int64_t column) {
    struct tileorder order;
    tileorder_init(plan, m, owner, 1, &order);
    int64_t tiles = plan_segment_tiles_of(plan, m, owner);
    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t tile_m, tile_n;
        tileorder_raster(&order, owner, tile, &tile_m, &tile_n);
        if (row / plan->value[FIELD_TILE_M] == tile_m && column / plan->value[FIELD_TILE_N] == tile_n)
            return tile;
    }
    return -1;
}

static void describe(const struct trial_launch *launch, int number, int owner, int64_t row, int64_t column,
                     uint16_t got, uint16_t want, bool unwritten, struct emu_report *report) {
    report->verdict = unwritten ? EMU_UNWRITTEN : EMU_WRONG_RESULT;
    report->rank = report->owner = owner;
    report->launch = number;
    report->tile = tile_of(&launch->kernel->plan, launch->m, owner, row, column);
    snprintf(report->text, sizeof report->text,
             "rank %d, launch %d, tile %" PRId64 " of owner %d: D[%" PRId64 ", %" PRId64
             "] is %s%g (%#06x), not %g (%#06x)\n",
             owner, number, report->tile, owner, row, column, unwritten ? "still poison, " : "",
             (double)values_from_bf16(got), got, (double)values_from_bf16(want), want);
}

/* Words around and between the rows of a matrix, and for A and B the elements too, are what they were. */
static void check_surroundings(const struct matrix *matrix, const char *name, int rank, int number,
                               struct emu_report *report) {
    for (int64_t w = 0; w < matrix->layout.total && report->verdict == EMU_PASSED; w++) {
        if (matrix->layout.operand == VALUES_D && values_place(&matrix->layout, w) >= 0)
            continue;
        if (matrix->words[w] == values_word(&matrix->layout, w))
            continue;
        report->verdict = EMU_STRAY_WRITE;
        report->rank = rank;
        report->launch = number;
        snprintf(report->text, sizeof report->text, "rank %d, launch %d: word %" PRId64 " of %s's memory changed\n",
                 rank, number, w, name);
    }
}

static void compare_owner(struct host_ring *ring, int number, int owner, struct trial_result *out) {
    struct values_verdict *verdict = &out->verdict[number];
    struct emu_report *report = &out->report;
    const struct plan *plan = &ring->launch->kernel->plan;
    const struct matrix *d = &ring->data->d[owner];
    int64_t n = plan->shape.n, kept = plan_segment_rows_of(plan, ring->launch->m, owner);
    int64_t first = owner * plan_segment_rows_of(plan, ring->launch->m, 0);
    for (int64_t row = 0; row < kept; row++) {
        reduce_row(ring, owner, first + row);
        for (int64_t j = 0; j < n; j++) {
            uint16_t got = first_word(d)[row * d->layout.ld + j], want = ring->sum[j];
            double error = (double)values_from_bf16(got) - ring->exact[j];
            out->digest = values_mix(out->digest + got + 1);
            verdict->error2 += error * error;
            verdict->got2 += (double)values_from_bf16(got) * (double)values_from_bf16(got);
            verdict->want2 += ring->exact[j] * ring->exact[j];
            if (got == want)
                continue;
            bool unwritten = got == values_poison((uint64_t)(d->layout.lead + row * d->layout.ld + j));
            verdict->unwritten += unwritten;
            if (verdict->mismatches++ == 0 && report->verdict == EMU_PASSED)
                describe(ring->launch, number, owner, row, j, got, want, unwritten, report);
        }
    }
}

static grs_status compare(const struct trial_launch *launch, const struct launch_data *data, int number,
                          struct trial_result *out, grs_error *err) {
    struct host_ring ring = {.launch = launch, .data = data};
    int tp = launch->kernel->plan.shape.tp;
    grs_status status = GRS_OK;
    if (!ring_make(&ring))
        status = error_set(err, GRS_ERR_MEMORY, "no memory for the reference");
    for (int owner = 0; owner < tp && status == GRS_OK; owner++)
        compare_owner(&ring, number, owner, out);
    for (int rank = 0; rank < tp && status == GRS_OK; rank++) {
        check_surroundings(&data->a[rank], "A", rank, number, &out->report);
        check_surroundings(&data->b[rank], "B", rank, number, &out->report);
        check_surroundings(&data->d[rank], "D", rank, number, &out->report);
    }
    ring_free(&ring);
    return status;
}

/* ---------------------------------------------------------------- the run */

grs_status trial_run(const struct emu_group_options *options, const struct trial_launch *launches, int count,
                     struct trial_result *out, grs_error *err) {
    struct emu_group *group = NULL;
    struct launch_data *data = calloc((size_t)count, sizeof *data);
    *out = (struct trial_result){.verdict = calloc((size_t)count, sizeof *out->verdict)};
    grs_status status = emu_group_open(options, &group, err);
    for (int i = 0; i < count && status == GRS_OK; i++) {
        const struct plan_shape *s = &launches[i].kernel->plan.shape;
        if (!data || !out->verdict || !allocate_data(s->tp, &data[i])) {
            status = error_set(err, GRS_ERR_MEMORY, "no memory for the operands of %d launches", count);
            break;
        }
        data[i].seed = launches[i].seed;
        data[i].threshold = values_threshold(launches[i].m, s->n, s->k, s->tp);
        status = make_data(group, &launches[i], &data[i], err);
        if (status == GRS_OK)
            status = emu_group_launch(group, launches[i].kernel->kernel, &launches[i].kernel->plan, launches[i].m,
                                      data[i].operands, err);
    }
    if (status == GRS_OK)
        emu_group_run(group, &out->report);
    for (int i = 0; i < count && status == GRS_OK && out->report.verdict == EMU_PASSED; i++)
        status = compare(&launches[i], &data[i], i, out, err);
    emu_group_close(group);
    for (int i = 0; data && i < count; i++)
        free_data(&data[i]);
    free(data);
    if (status != GRS_OK) {
        free(out->verdict);
        out->verdict = NULL;
    }
    return status;
}
