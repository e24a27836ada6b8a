#include "tools/grsrun_team.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/group.h"
#include "templates/args.h"

/* Words on either side of a matrix: more than a tile is high or wide in memory. Not a multiple of 128 bytes, so that bases
 * are aligned to the 16 bytes that are asked for and to nothing more. */
#define GUARD_WORDS (256 * 1024 + 8)

grs_status team_deal(int tp, int visible, int asked, int *ranks_per_gpu, int *devices, grs_error *err) {
    *ranks_per_gpu = asked ? asked : (tp + visible - 1) / visible;
    *devices = (tp + *ranks_per_gpu - 1) / *ranks_per_gpu;
    if (*ranks_per_gpu > tp) {
        *ranks_per_gpu = tp;
    }
    if (*ranks_per_gpu > GRS_MAX_SHARED_RANKS) {
        return error_set(err, GRS_ERR_ARGUMENT, "tp %d on %d GPU%s makes %d ranks a GPU; at most %d can share one", tp,
                         visible, visible == 1 ? "" : "s", *ranks_per_gpu, GRS_MAX_SHARED_RANKS);
    }
    if (*devices > visible) {
        return error_set(err, GRS_ERR_ARGUMENT, "tp %d with --ranks-per-gpu %d needs %d GPUs; %d visible", tp, asked,
                         *devices, visible);
    }
    return GRS_OK;
}

grs_status team_open(grs_ctx *ctx, const struct grsrun_options *options, struct device *devices, int visible, int tp,
                     struct team *out, grs_error *err) {
    *out = (struct team){.options = options, .devices = devices, .tp = tp, .nodes = 1};
    grs_status status = team_deal(tp, visible, options->ranks_per_gpu, &out->ranks_per_gpu, &out->device_count, err);
    if (status) {
        return status;
    }
    int ordinals[GRS_MAX_TP];
    for (int rank = 0; rank < tp; rank++) {
        out->device[rank] = &devices[rank / out->ranks_per_gpu];
        out->streams[rank] = out->device[rank]->stream;
        ordinals[rank] = out->device[rank]->ordinal;
    }
    out->sms = options->sms ? options->sms : devices[0].sms / out->ranks_per_gpu;
    grs_comm_options comm_options = GRS_INIT(grs_comm_options);
    comm_options.sms = options->sms;
    status = grs_comm_create_local(ctx, tp, ordinals, &comm_options, out->comms, err);
    if (status) {
        return status;
    }
    struct group *group = out->comms[0]->group;
    if (options->pace_gbps > 0) { /* a link of a whole GPU, of which the rank has as much as of its SMs */
        double slowdown = (double)devices[0].sms / out->sms;
        group_set_pace(group, options->pace_gbps / slowdown, slowdown);
    }
    out->pace_gbps = group->pace_ps_per_kib ? 1024e3 / (double)group->pace_ps_per_kib : NAN;
    return GRS_OK;
}

void team_close(struct team *team) {
    for (int rank = 0; rank < team->tp; rank++) {
        grs_comm_destroy(team->comms[rank]);
    }
    *team = (struct team){0};
}

/* ---------------------------------------------------------------- operands -------------------------------------- */

static grs_status make_rank(struct operands *operands, int rank, grs_error *err) {
    const struct team *team = operands->team;
    const struct grsrun_options *options = team->options;
    const struct grsrun_shape *shape = &operands->shape;
    const struct device *device = team->device[rank];
    const int64_t guard = options->guard ? GUARD_WORDS : 0;
    grs_operands *launch = &operands->launch[rank];
    int64_t first, rows;
    grs_rows(shape->m, shape->tp, rank, &first, &rows);
    *launch = (grs_operands){.lda = grsrun_leading(&options->lda, shape->k),
                             .ldb = grsrun_leading(&options->ldb, shape->k),
                             .ldd = grsrun_leading(&options->ldd, shape->n),
                             .M = shape->m};
    struct matrix *a = &operands->a[rank], *b = &operands->b[rank], *d = &operands->d[rank];
    grs_status status = matrix_make(device, VALUES_A, shape->m, shape->k, launch->lda, guard, a, err);
    status = status ? status : matrix_make(device, VALUES_B, shape->n, shape->k, launch->ldb, guard, b, err);
    status = status ? status : matrix_make(device, VALUES_D, rows, shape->n, launch->ldd, guard, d, err);
    launch->A = matrix_data(a);
    launch->B = matrix_data(b);
    launch->D = matrix_data(d);
    return status;
}

grs_status operands_make(struct team *team, const struct grsrun_shape *shape, struct operands **out, grs_error *err) {
    *out = NULL;
    struct operands *operands = calloc(1, sizeof(*operands));
    if (!operands) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the operands' table");
    }
    operands->team = team;
    operands->shape = *shape;
    for (int rank = 0; rank < shape->tp; rank++) {
        grs_status status = team->comms[rank] ? make_rank(operands, rank, err) : GRS_OK;
        if (status) {
            operands_free(operands);
            return status;
        }
    }
    *out = operands;
    return GRS_OK;
}

void operands_free(struct operands *operands) {
    if (!operands) {
        return;
    }
    for (int i = 0; i < operands->team->device_count; i++) {
        const struct device *device = &operands->team->devices[i];
        if (operands->graphs[i] && !device_use(device, NULL)) {
            device->drv->cuGraphExecDestroy(operands->graphs[i]);
        }
    }
    for (int rank = 0; rank < operands->shape.tp; rank++) {
        matrix_free(&operands->a[rank]);
        matrix_free(&operands->b[rank]);
        matrix_free(&operands->d[rank]);
    }
    free(operands);
}

grs_status operands_fill(struct operands *operands, uint64_t seed, enum values_mode mode, uint32_t threshold,
                         grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < operands->shape.tp && !status; rank++) {
        status = matrix_fill(&operands->a[rank], seed, rank, mode, threshold, err);
        status = status ? status : matrix_fill(&operands->b[rank], seed, rank, mode, threshold, err);
        operands->d[rank].layout.mode = mode; /* the compare kernel judges by it */
    }
    return status;
}

grs_status operands_poison(struct operands *operands, grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < operands->shape.tp && !status; rank++) {
        struct matrix *d = &operands->d[rank];
        status = matrix_fill(d, 0, rank, d->layout.mode, 0, err);
    }
    return status;
}

static grs_status check_matrix(const struct matrix *matrix, int rank, grs_error *err) {
    struct values_damage damage;
    grs_status status = matrix_check(matrix, &damage, err);
    if (status || damage.words == 0) {
        return status;
    }
    const struct values_matrix *layout = &matrix->layout;
    int64_t offset = (int64_t)damage.first - layout->lead, row = offset / layout->ld;
    bool before = offset < 0, behind = offset >= layout->rows * layout->ld;
    struct buf where = {0};
    if (before || behind) {
        buf_printf(&where, "%" PRId64 " elements %s it", before ? -offset : offset - layout->rows * layout->ld + 1,
                   before ? "before" : "behind");
    } else {
        buf_printf(&where, "at row %" PRId64 ", column %" PRId64 " (rows have %" PRId64 " of %" PRId64 ")", row,
                   offset - row * layout->ld, layout->columns, layout->ld);
    }
    error_set(err, GRS_ERR_STATE, "%" PRIu64 " words in or around %c of rank %d were overwritten, the first %s",
              damage.words, "ABD"[layout->operand], rank, where.data ? where.data : "");
    buf_free(&where);
    return GRS_ERR_STATE;
}

grs_status operands_check(const struct operands *operands, bool inputs, grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < operands->shape.tp && !status; rank++) {
        status = check_matrix(&operands->d[rank], rank, err);
        if (inputs) {
            status = status ? status : check_matrix(&operands->a[rank], rank, err);
            status = status ? status : check_matrix(&operands->b[rank], rank, err);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- launches -------------------------------------- */

/* Of every rank that this process has. */
static grs_status launch(struct team *team, const grs_kernel *kernel, struct operands *operands, grs_error *err) {
    int rank = team->own_rank;
    return team->in_processes ? grs_launch(team->comms[rank], kernel, &operands->launch[rank], team->streams[rank], err)
                              : grs_launch_local(team->comms, kernel, operands->launch, team->streams, err);
}

/* Every GPU's part of the launch is captured on its own stream: nothing in it waits for another stream. All captures end before
 * the first graph is made executable, which no thread may do while it captures. */
static grs_status capture(struct team *team, const grs_kernel *kernel, struct operands *operands, grs_error *err) {
    grs_status status = GRS_OK;
    CUgraph graphs[GRS_MAX_TP] = {NULL};
    int begun = 0;
    for (; begun < team->device_count && !status; begun++) {
        const struct device *device = &team->devices[begun];
        status = device_use(device, err);
        status =
            status
                ? status
                : device_check(device,
                               device->drv->cuStreamBeginCapture(device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                               "cuStreamBeginCapture", err);
    }
    status = status ? status : launch(team, kernel, operands, err);
    for (int i = 0; i < begun; i++) {
        const struct device *device = &team->devices[i];
        grs_error later; /* only the first failure is reported */
        grs_error *slot = status ? &later : err;
        grs_status mine = device_use(device, slot);
        mine = mine ? mine
                    : device_check(device, device->drv->cuStreamEndCapture(device->stream, &graphs[i]),
                                   "cuStreamEndCapture", slot);
        status = status ? status : mine;
    }
    for (int i = 0; i < begun; i++) {
        const struct device *device = &team->devices[i];
        if (!status && !(status = device_use(device, err))) {
            status = device_check(device, device->drv->cuGraphInstantiateWithFlags(&operands->graphs[i], graphs[i], 0),
                                  "cuGraphInstantiateWithFlags", err);
        }
        if (graphs[i]) {
            device->drv->cuGraphDestroy(graphs[i]);
        }
    }
    return status;
}

grs_status team_launch(struct team *team, const grs_kernel *kernel, struct operands *operands, grs_error *err) {
    team->launches++;
    if (!team->options->graph) {
        return launch(team, kernel, operands, err);
    }
    grs_status status = operands->graphs[0] ? GRS_OK : capture(team, kernel, operands, err);
    for (int i = 0; i < team->device_count && !status; i++) {
        const struct device *device = &team->devices[i];
        status = device_use(device, err);
        status = status ? status
                        : device_check(device, device->drv->cuGraphLaunch(operands->graphs[i], device->stream),
                                       "cuGraphLaunch", err);
    }
    return status;
}

grs_status team_wait(struct team *team, grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < team->device_count; i++) {
        grs_error later;
        grs_status mine = device_wait(&team->devices[i], status ? &later : err);
        status = status ? status : mine;
    }
    for (int rank = 0; rank < team->tp && !status; rank++) {
        status = team->comms[rank] ? grs_comm_check(team->comms[rank], err) : GRS_OK;
    }
    return status;
}
