#include "tools/grsrun_skew.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/group.h"
#include "tools/grsrun_report.h"
#include "tools/grsrun_time.h"

/* ---------------------------------------------------------------- arithmetic ------------------------------------ */

/* A time of a rank, in ns of the host's clock after `origin`. */
static double host_ns(const struct skew_rank *rank, uint64_t origin, uint64_t stamp) {
    return (double)(int64_t)(rank->before.host - origin) + clock_host_ns(&rank->before, &rank->after, stamp);
}

static bool same_clock(const struct skew_rank *a, const struct skew_rank *b) {
    return a->before.gpu == b->before.gpu && a->before.host == b->before.host;
}

/* Two clocks are each within half a ping of the host's. */
static void add_clocks(const struct skew_rank *ranks, int tp, struct skew *skew) {
    for (int i = 0; i < tp; i++) {
        double own = fmax((double)ranks[i].before.half, (double)ranks[i].after.half);
        skew->step = fmax(skew->step, fmax((double)ranks[i].before.step, (double)ranks[i].after.step) * 1e-3);
        for (int j = 0; j < i; j++) {
            double other = fmax((double)ranks[j].before.half, (double)ranks[j].after.half);
            skew->clocks = same_clock(&ranks[i], &ranks[j]) ? skew->clocks : fmax(skew->clocks, (own + other) * 1e-3);
        }
    }
}

grs_status skew_add(const struct skew_rank *ranks, int tp, uint64_t first, int launches, struct skew_samples *samples,
                    struct skew *skew, grs_error *err) {
    uint64_t origin = ranks[0].before.host;
    add_clocks(ranks, tp, skew);
    for (uint64_t epoch = first; epoch < first + (uint64_t)launches; epoch++) {
        double first_begin = INFINITY, last_begin = -INFINITY, first_end = INFINITY, last_end = -INFINITY;
        for (int rank = 0; rank < tp; rank++) {
            const grs_stamp *stamp = &ranks[rank].stamps[epoch % GRS_STAMPS];
            if (stamp->begin == 0 || stamp->end < stamp->begin) {
                return error_set(err, GRS_ERR_STATE,
                                 "rank %d has no stamps of launch %" PRIu64 ": begin %" PRIu64 ", end %" PRIu64, rank,
                                 epoch, stamp->begin, stamp->end);
            }
            double begin = host_ns(&ranks[rank], origin, stamp->begin), end = host_ns(&ranks[rank], origin, stamp->end);
            first_begin = fmin(first_begin, begin), last_begin = fmax(last_begin, begin);
            first_end = fmin(first_end, end), last_end = fmax(last_end, end);
            if (epoch > first) {
                const grs_stamp *before = &ranks[rank].stamps[(epoch - 1) % GRS_STAMPS];
                samples->gap[samples->gaps++] = (double)(int64_t)(stamp->begin - before->end) * 1e-3;
            }
        }
        if (epoch > first) {
            samples->begin[samples->launches] = (last_begin - first_begin) * 1e-3;
            samples->end[samples->launches++] = (last_end - first_end) * 1e-3;
        }
    }
    return GRS_OK;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least value that `part` of all are not above. */
static double rank_of(const double *sorted, int count, double part) {
    int place = (int)ceil(part * count);
    return sorted[place > 1 ? place - 1 : 0];
}

static struct skew_figures figures_of(double *values, int count) {
    if (count == 0) {
        return (struct skew_figures){NAN, NAN, NAN};
    }
    qsort(values, (size_t)count, sizeof(double), ascending);
    return (struct skew_figures){rank_of(values, count, 0.5), rank_of(values, count, 0.99), values[count - 1]};
}

void skew_summarise(struct skew_samples *samples, struct skew *skew) {
    skew->launches = samples->launches;
    skew->begin = figures_of(samples->begin, samples->launches);
    skew->end = figures_of(samples->end, samples->launches);
    skew->gap = figures_of(samples->gap, samples->gaps);
}

/* ---------------------------------------------------------------- measuring ------------------------------------- */

struct session {
    struct team *team;
    const grs_kernel *stamping;
    struct operands *operands;
    struct skew_samples samples;
    struct clock_sight before[GRS_MAX_TP], after[GRS_MAX_TP]; /* by device */
    grs_stamp stamps[GRS_MAX_TP][GRS_STAMPS];
};

static grs_status enqueue(void *self, int set, grs_error *err) {
    struct session *session = self;
    (void)set;
    return team_launch(session->team, session->stamping, session->operands, err);
}

static grs_status look_at_all(const struct team *team, struct clock_sight *sights, grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < team->device_count && !status; i++) {
        status = clock_look(&team->devices[i], &sights[i], err);
    }
    return status;
}

/* Stamps of all ranks; `epoch`: launches that rank 0 has finished, as all have. */
static grs_status read_stamps(struct session *session, uint64_t *epoch, grs_error *err) {
    const struct team *team = session->team;
    grs_status status = GRS_OK;
    for (int rank = 0; rank < team->tp && !status; rank++) {
        const struct device *device = team->device[rank];
        const struct symm *symm = &team->comms[rank]->symm;
        status = device_use(device, err);
        status = status ? status
                        : device_check(device,
                                       device->drv->cuMemcpyDtoH(session->stamps[rank], symm->pointer[SYMM_STAMPS],
                                                                 sizeof(session->stamps[rank])),
                                       "cuMemcpyDtoH", err);
        if (rank == 0 && !status) {
            status =
                device_check(device,
                             device->drv->cuMemcpyDtoH(
                                 epoch, symm->pointer[SYMM_CONTROL] + offsetof(grs_control, epoch), sizeof(*epoch)),
                             "cuMemcpyDtoH", err);
        }
    }
    return status;
}

/* The clocks have been looked at before. */
static grs_status run_batch(struct session *session, struct timing *timing, struct skew *out, grs_error *err) {
    const struct team *team = session->team;
    struct contestant contestant = {.enqueue = enqueue, .self = session};
    struct skew_rank ranks[GRS_MAX_TP];
    uint64_t epoch = 0;
    grs_status status = timing_sample(timing, &contestant, SKEW_LAUNCHES, err);
    status = status ? status : look_at_all(team, session->after, err);
    status = status ? status : read_stamps(session, &epoch, err);
    if (status) {
        return status;
    }
    for (int rank = 0; rank < team->tp; rank++) {
        ptrdiff_t device = team->device[rank] - team->devices;
        ranks[rank] = (struct skew_rank){session->before[device], session->after[device], session->stamps[rank]};
    }
    status = skew_add(ranks, team->tp, epoch - SKEW_LAUNCHES, SKEW_LAUNCHES, &session->samples, out, err);
    for (int i = 0; i < team->device_count; i++) {
        session->before[i] = session->after[i];
    }
    return status;
}

grs_status skew_measure(struct team *team, const grs_kernel *stamping, struct operands *operands, struct skew *out,
                        grs_error *err) {
    struct session *session = calloc(1, sizeof(*session));
    struct timing timing = {0};
    *out = (struct skew){0};
    if (!session) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the stamps of %d ranks", team->tp);
    }
    session->team = team;
    session->stamping = stamping;
    session->operands = operands;
    grs_status status = grs_comm_prepare(team->comms[0], stamping, operands->shape.m, err);
    status = status ? status : timing_open(team, 1, &timing, err);
    status = status ? status : look_at_all(team, session->before, err);
    for (int batch = 0; batch < SKEW_BATCHES && !status; batch++) {
        status = run_batch(session, &timing, out, err);
    }
    if (!status) {
        skew_summarise(&session->samples, out);
    }
    timing_close(&timing);
    free(session);
    return status;
}

/* ---------------------------------------------------------------- report ---------------------------------------- */

static void line(struct buf *out, const char *what, const struct skew_figures *figures) {
    buf_printf(out, "#     %-39s", what);
    const double values[] = {figures->median, figures->p99, figures->max};
    for (int i = 0; i < 3; i++) {
        report_cell(out, 9, 2, values[i]);
    }
    buf_puts(out, "\n");
}

void skew_text(const struct skew *skew, struct buf *out) {
    buf_printf(out, "#   skew: of %d launches back to back the median, 99 of 100, the largest, us\n", skew->launches);
    line(out, "between the first and last rank's begin", &skew->begin);
    line(out, "between the first and last rank's end", &skew->end);
    line(out, "a rank between one end and next begin", &skew->gap);
    buf_puts(out, "#     clocks: known to ");
    buf_fixed(out, skew->clocks, 2);
    buf_puts(out, " us between GPUs, in steps of ");
    buf_fixed(out, skew->step, 3);
    buf_puts(out, "\n");
}

static json_t *figures_json(const struct skew_figures *figures) {
    return json_pack("{s:f, s:f, s:f}", "median", figures->median, "p99", figures->p99, "max", figures->max);
}

json_t *skew_json(const struct skew *skew) {
    if (skew->launches == 0) {
        return json_null();
    }
    return json_pack("{s:i, s:o, s:o, s:o, s:f, s:f}", "launches", skew->launches, "begin_us",
                     figures_json(&skew->begin), "end_us", figures_json(&skew->end), "gap_us", figures_json(&skew->gap),
                     "clocks_us", skew->clocks, "step_us", skew->step);
}
