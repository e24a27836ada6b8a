#include "tools/grsrun_verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/error.h"
#include "runtime/kernel.h"
#include "tools/grsrun_inside.h"

#define DATA_SETS 2

grs_status verify_launch(const struct reference *reference, const struct operands *operands, const grs_kernel *kernel,
                         struct values_verdict *out, struct buf *notes, grs_error *err) {
    *out = (struct values_verdict){.first = UINT64_MAX};
    for (int owner = 0; owner < reference->shape.tp; owner++) {
        struct values_verdict mine;
        grs_status status = reference_compare(reference, operands, owner, &mine, err);
        if (!status && mine.mismatches) {
            status = reference_describe(reference, operands, kernel, owner, &mine, notes, err);
            buf_puts(notes, "\n");
        }
        if (status) {
            return status;
        }
        out->mismatches += mine.mismatches;
        out->unwritten += mine.unwritten;
        out->error2 += mine.error2;
        out->got2 += mine.got2;
        out->want2 += mine.want2;
        out->worst = fmaxf(out->worst, mine.worst);
    }
    return GRS_OK;
}

bool verify_statistics(const struct team *team, const struct grsrun_shape *shape, enum values_mode mode,
                       const struct values_verdict *verdict) {
    int64_t rows = shape->m;
    if (mode == VALUES_EXACT) {
        return verdict->error2 == 0;
    }
    if (team->in_processes) {
        grs_rows(shape->m, shape->tp, team->own_rank, NULL, &rows);
    }
    return rows * shape->n < VALUES_STATISTIC_MIN ||
           (values_rel_err(verdict) <= values_rel_err_limit(shape->tp, team->nodes) &&
            values_metric(verdict) < values_metric_limit(shape->tp, team->nodes));
}

/* Where the notes are about: "1023,136,72 tp 8 exact, operands 1, launch 2: ". */
static void note_place(const struct verify_row *row, int launch, struct buf *notes) {
    buf_printf(notes, "%" PRId64 ",%" PRId64 ",%" PRId64 " tp %d %s, operands %d, launch %d: ", row->shape.m,
               row->shape.n, row->shape.k, row->shape.tp, row->mode, row->data_sets + 1, launch + 1);
}

grs_status verify_checksum(const struct operands *operands, uint64_t *out, grs_error *err) {
    *out = 0;
    for (int rank = 0; rank < operands->shape.tp; rank++) {
        uint64_t mine;
        grs_status status = matrix_checksum(&operands->d[rank], &mine, err);
        if (status) {
            return status;
        }
        *out = values_mix(*out + mine);
    }
    return GRS_OK;
}

/* One launch on operands that are in place, and everything that can be said about it. */
static grs_status one_launch(const struct reference *reference, const grs_kernel *kernel, struct operands *operands,
                             int launch, uint64_t *first_sum, struct verify_row *row, struct buf *notes,
                             grs_error *err) {
    struct team *team = reference->team;
    grs_status status = operands_poison(operands, err);
    status = status ? status : inside_poison(team, err);
    status = status ? status : team_launch(team, kernel, operands, err);
    status = status ? status : team_wait(team, err);
    if (status) {
        return status;
    }
    row->launches++;
    grs_error damage;
    bool last = launch + 1 == team->options->repeat;
    status = operands_check(operands, last, &damage);
    status = status ? status : inside_check(team, kernel, row->shape.m, &damage);
    if (status == GRS_ERR_STATE) {
        row->surroundings_intact = false;
        note_place(row, launch, notes);
        buf_printf(notes, "%s\n", damage.text);
    } else if (status) {
        return error_set(err, status, "%s", damage.text);
    }

    uint64_t sum;
    status = verify_checksum(operands, &sum, err);
    if (status || (launch && sum == *first_sum)) {
        return status;
    }
    if (launch) {
        row->repeats_equal = false;
        note_place(row, launch, notes);
        buf_puts(notes, "D is not bitwise that of launch 1\n");
    }
    *first_sum = launch ? *first_sum : sum;
    struct values_verdict verdict;
    struct buf places = {0};
    status = verify_launch(reference, operands, kernel, &verdict, &places, err);
    if (!status) {
        row->elements += (uint64_t)(row->shape.m * row->shape.n);
        row->mismatches += verdict.mismatches;
        row->rel_err = fmax(row->rel_err, values_rel_err(&verdict));
        row->metric = fmax(row->metric, values_metric(&verdict));
        row->worst = reference->mode == VALUES_RANDOM ? fmax(row->worst, verdict.worst) : NAN;
        if (verdict.mismatches) {
            note_place(row, launch, notes);
            buf_printf(notes, "mismatches: %" PRIu64 "\n%s", verdict.mismatches, places.data ? places.data : "");
        } else if (!verify_statistics(team, &row->shape, reference->mode, &verdict)) {
            row->passed = false;
            note_place(row, launch, notes);
            buf_printf(notes, "rel_err %.3g (at most %.3g), metric %.3g (below %.3g)\n", values_rel_err(&verdict),
                       values_rel_err_limit(row->shape.tp, team->nodes), values_metric(&verdict),
                       values_metric_limit(row->shape.tp, team->nodes));
        }
    }
    buf_free(&places);
    return status;
}

void verify_begin(const struct team *team, const grs_kernel *kernel, const struct grsrun_shape *shape,
                  enum values_mode mode, struct verify_row *out) {
    *out = (struct verify_row){.shape = *shape,
                               .ranks_per_gpu = team->ranks_per_gpu,
                               .sms = team->sms,
                               .mode = mode == VALUES_EXACT ? "exact" : "random",
                               .worst = mode == VALUES_EXACT ? NAN : 0,
                               .pace_gbps = team->pace_gbps,
                               .repeats_equal = true,
                               .surroundings_intact = true,
                               .passed = true};
    snprintf(out->config, sizeof(out->config), "%s", kernel->key);
}

grs_status verify_round(struct team *team, const grs_kernel *kernel, enum values_mode mode, struct verify_row *row,
                        struct buf *notes, grs_error *err) {
    struct reference reference = {0};
    struct operands *operands = NULL;
    grs_status status = reference_make(team, &row->shape, &reference, err);
    status = status ? status : operands_make(team, &row->shape, &operands, err);
    for (int i = 0; i < DATA_SETS && !status; i++, row->data_sets++) {
        uint64_t seed = values_mix(team->options->seed + (uint64_t)row->data_sets), first_sum = 0;
        status = reference_compute(&reference, mode, &seed, err);
        status = status ? status : operands_fill(operands, seed, mode, reference.threshold, err);
        for (int launch = 0; launch < team->options->repeat && !status; launch++) {
            status = one_launch(&reference, kernel, operands, launch, &first_sum, row, notes, err);
        }
    }
    row->passed &= row->mismatches == 0 && row->repeats_equal && row->surroundings_intact && !status;
    operands_free(operands);
    reference_free(&reference);
    return status;
}
