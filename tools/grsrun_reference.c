#include "tools/grsrun_reference.h"

#include <inttypes.h>
#include <math.h>

#include "common/error.h"
#include "generator/tileorder.h"
#include "runtime/kernel.h"

#define SEEDS_TRIED 8 /* one fails with a chance below 10^-9 */

/* Over several nodes every rank is a process of its own, and computes all owners on its one GPU. */
static const struct device *device_of_nodes(const struct reference *reference) {
    return reference->team->device[reference->team->own_rank];
}

static grs_status make_nodes(struct reference *reference, grs_error *err) {
    const struct team *team = reference->team;
    int64_t rows;
    grs_rows(reference->shape.m, reference->shape.tp, 0, NULL, &rows); /* no owner has more */
    size_t bytes = (size_t)(team->nodes * rows * reference->shape.n) * sizeof(float);
    if (team->nodes == 1) {
        return GRS_OK;
    }
    grs_status status = device_alloc(device_of_nodes(reference), bytes, &reference->node_sums, err);
    status = status ? status : device_alloc(device_of_nodes(reference), bytes, &reference->node_bounds, err);
    if (status) {
        reference_free(reference);
    }
    return status;
}

grs_status reference_make(struct team *team, const struct grsrun_shape *shape, struct reference *out, grs_error *err) {
    *out = (struct reference){.team = team, .shape = *shape};
    for (int owner = 0; owner < shape->tp; owner++) {
        int64_t first, rows;
        grs_rows(shape->m, shape->tp, owner, &first, &rows);
        size_t bytes = (size_t)(rows * shape->n) * sizeof(float);
        grs_status status = rows ? device_alloc(team->device[owner], bytes, &out->sums[owner], err) : GRS_OK;
        status = status || !rows ? status : device_alloc(team->device[owner], bytes, &out->bounds[owner], err);
        if (status) {
            reference_free(out);
            return status;
        }
    }
    return make_nodes(out, err);
}

void reference_free(struct reference *reference) {
    for (int owner = 0; owner < reference->shape.tp; owner++) {
        device_free(reference->team->device[owner], reference->sums[owner]);
        device_free(reference->team->device[owner], reference->bounds[owner]);
    }
    if (reference->node_sums) {
        device_free(device_of_nodes(reference), reference->node_sums);
        device_free(device_of_nodes(reference), reference->node_bounds);
    }
    *reference = (struct reference){0};
}

double reference_element(const struct reference *reference, int64_t row, int64_t column) {
    const struct grsrun_shape *shape = &reference->shape;
    double sum = 0;
    for (int rank = 0; rank < shape->tp; rank++) {
        uint64_t a = values_key(reference->seed, VALUES_A, rank), b = values_key(reference->seed, VALUES_B, rank);
        for (int64_t k = 0; k < shape->k; k++) {
            uint16_t x = values_element(a, reference->mode, reference->threshold, (uint64_t)(row * shape->k + k));
            uint16_t y = values_element(b, reference->mode, reference->threshold, (uint64_t)(column * shape->k + k));
            sum += (double)values_from_bf16(x) * values_from_bf16(y);
        }
    }
    return sum;
}

static grs_status read_float(const struct device *device, CUdeviceptr array, int64_t index, float *out,
                             grs_error *err) {
    grs_status status = device_use(device, err);
    return status ? status
                  : device_check(device,
                                 device->drv->cuMemcpyDtoH(out, array + (size_t)index * sizeof(float), sizeof(float)),
                                 "cuMemcpyDtoH", err);
}

/* The reference kernel against the host: the corners of an owner's rows and one element that the seed picks. */
static grs_status spot_check(const struct reference *reference, int owner, int64_t first, int64_t rows,
                             grs_error *err) {
    const int64_t n = reference->shape.n, last = rows * n - 1;
    const int64_t places[] = {0, last, (int64_t)(values_mix(reference->seed + (uint64_t)owner) % (uint64_t)(rows * n))};
    for (int i = 0; i < 3; i++) {
        int64_t row = places[i] / n, column = places[i] % n;
        float got;
        grs_status status = read_float(reference->team->device[owner], reference->sums[owner], places[i], &got, err);
        if (status) {
            return status;
        }
        /* FP32 over chunks of 32 products of at most 1 each, and the result as FP32. */
        double want = reference_element(reference, first + row, column),
               terms = (double)reference->shape.k * reference->shape.tp;
        double slack = reference->mode == VALUES_EXACT ? 0 : terms * 32 * ldexp(1, -24) + fabs(want) * ldexp(1, -24);
        if (!(fabs(got - want) <= slack)) {
            return error_set(err, GRS_ERR_STATE,
                             "the reference kernel is wrong: owner %d, row %" PRId64 ", column %" PRId64
                             ": %.9g, on the host %.9g",
                             owner, row, column, got, want);
        }
    }
    return GRS_OK;
}

/* One owner's rows over one ring of ranks; `peak` grows to the largest partial sum. */
static grs_status compute_ring(const struct device *device, const struct values_reference *task, CUdeviceptr sums,
                               CUdeviceptr bounds, float *peak, grs_error *err) {
    struct values_reference own = *task;
    CUdeviceptr scratch = device->scratch;
    void *arguments[] = {&own, &sums, &bounds, &scratch};
    int64_t tiles = (task->rows + 63) / 64 * ((task->n + 63) / 64);
    float mine = 0;
    grs_status status = device_ask(device, device->reference, tiles * 256, arguments, &mine, sizeof(mine), err);
    *peak = mine > *peak ? mine : *peak;
    return status;
}

/* The same over the ring of each node, then over the nodes in any order. */
static grs_status compute_nodes(const struct reference *reference, int owner, struct values_reference *task,
                                float *peak, grs_error *err) {
    const struct device *device = device_of_nodes(reference);
    int nodes = reference->team->nodes;
    struct values_nodes all = {.count = task->rows * task->n, .nodes = nodes};
    CUdeviceptr scratch = device->scratch, sums = reference->sums[owner], bounds = reference->bounds[owner];
    CUdeviceptr node_sums = reference->node_sums, node_bounds = reference->node_bounds;
    void *arguments[] = {&all, &node_sums, &node_bounds, &sums, &bounds, &scratch};
    grs_status status = GRS_OK;
    float mine = 0;
    task->ring = reference->shape.tp / nodes;
    task->owner = owner % task->ring;
    for (int node = 0; node < nodes && !status; node++) {
        size_t first = (size_t)(node * all.count) * sizeof(float);
        task->first_rank = node * task->ring;
        status = compute_ring(device, task, node_sums + first, node_bounds + first, peak, err);
    }
    status = status ? status : device_ask(device, device->add_nodes, all.count, arguments, &mine, sizeof(mine), err);
    *peak = mine > *peak ? mine : *peak;
    return status;
}

/* All owners for the current seed; `peak` becomes the largest partial sum. */
static grs_status compute(struct reference *reference, float *peak, grs_error *err) {
    const struct grsrun_shape *shape = &reference->shape;
    *peak = 0;
    for (int owner = 0; owner < shape->tp; owner++) {
        struct values_reference task = {.seed = reference->seed,
                                        .mode = reference->mode,
                                        .threshold = reference->threshold,
                                        .ring = shape->tp,
                                        .owner = owner,
                                        .n = shape->n,
                                        .k = shape->k};
        grs_rows(shape->m, shape->tp, owner, &task.first_row, &task.rows);
        grs_status status = GRS_OK;
        if (task.rows) {
            status = reference->team->nodes > 1
                         ? compute_nodes(reference, owner, &task, peak, err)
                         : compute_ring(reference->team->device[owner], &task, reference->sums[owner],
                                        reference->bounds[owner], peak, err);
            status = status ? status : spot_check(reference, owner, task.first_row, task.rows, err);
        }
        if (status) {
            return status;
        }
    }
    return GRS_OK;
}

grs_status reference_compute(struct reference *reference, enum values_mode mode, uint64_t *seed, grs_error *err) {
    const struct grsrun_shape *shape = &reference->shape;
    reference->mode = mode;
    reference->threshold = mode == VALUES_EXACT ? values_threshold(shape->m, shape->n, shape->k, shape->tp) : 0;
    float peak = 0;
    for (int i = 0; i < SEEDS_TRIED; i++) {
        reference->seed = *seed;
        grs_status status = compute(reference, &peak, err);
        if (status || mode == VALUES_RANDOM || peak <= VALUES_EXACT_MAX) {
            return status;
        }
        *seed = values_mix(*seed + 1);
    }
    return error_set(err, GRS_ERR_STATE,
                     "%d seeds in a row give partial sums beyond %d (the last: %.0f): the operands are not as sparse "
                     "as they should be",
                     SEEDS_TRIED, VALUES_EXACT_MAX, peak);
}

grs_status reference_compare(const struct reference *reference, const struct operands *operands, int owner,
                             struct values_verdict *out, grs_error *err) {
    *out = (struct values_verdict){.first = UINT64_MAX};
    struct matrix d = operands->d[owner];
    CUdeviceptr sums = reference->sums[owner], bounds = reference->bounds[owner];
    if (!d.buffer) {
        return GRS_OK;
    }
    CUdeviceptr scratch = d.device->scratch;
    d.layout.mode = reference->mode;
    void *arguments[] = {&d.layout, &d.buffer, &sums, &bounds, &scratch};
    return device_ask(d.device, d.device->compare, d.layout.rows * d.layout.columns, arguments, out, sizeof(*out), err);
}

/* The number that the element's tile has in the wait records and in `grsgen --explain`: its place along the raster. */
static int64_t tile_number(const struct plan *plan, int64_t m, int owner, int64_t tile_m, int64_t tile_n) {
    struct tileorder order;
    tileorder_init(plan, m, owner, 1, &order);
    int64_t count = plan_segment_tiles_of(plan, m, owner);
    for (int64_t tile = 0; tile < count; tile++) {
        int64_t at_m, at_n;
        tileorder_raster(&order, owner, tile, &at_m, &at_n);
        if (at_m == tile_m && at_n == tile_n) {
            return tile;
        }
    }
    return -1;
}

grs_status reference_describe(const struct reference *reference, const struct operands *operands,
                              const grs_kernel *kernel, int owner, const struct values_verdict *verdict,
                              struct buf *out, grs_error *err) {
    const struct plan *plan = &kernel->plan;
    const int64_t n = reference->shape.n, m = reference->shape.m;
    const int64_t row = (int64_t)verdict->first / n, column = (int64_t)verdict->first % n;
    const int64_t tile_m = row / plan->value[FIELD_TILE_M], tile_n = column / plan->value[FIELD_TILE_N];
    const struct device *device = reference->team->device[owner];
    int64_t first, rows;
    grs_rows(m, reference->shape.tp, owner, &first, &rows);
    uint16_t word;
    float want, bound;
    grs_status status = matrix_read(&operands->d[owner], row, column, &word, err);
    status = status ? status : read_float(device, reference->sums[owner], (int64_t)verdict->first, &want, err);
    status = status ? status : read_float(device, reference->bounds[owner], (int64_t)verdict->first, &bound, err);
    if (status) {
        return status;
    }
    buf_printf(out,
               "rank %d: %" PRIu64 " of %" PRId64 " elements are wrong, %" PRIu64
               " of them never written; the first at row "
               "%" PRId64 " (row %" PRId64 " of A), column %" PRId64 ", owner %d",
               owner, verdict->mismatches, rows * n, verdict->unwritten, row, first + row, column, owner);
    if (reference->team->nodes == 1) { /* else the kernels are others, of each node */
        buf_printf(out, ", tile %" PRId64 " (%" PRId64 " down, %" PRId64 " across)",
                   tile_number(plan, m, owner, tile_m, tile_n), tile_m, tile_n);
    }
    buf_puts(out, ": got ");
    float got = values_from_bf16(word);
    if (isnan(got)) {
        buf_printf(out, "NaN (0x%04x), wanted %.9g", word, want);
    } else {
        buf_printf(out, "%.9g (0x%04x), wanted %.9g", got, word, want);
    }
    if (reference->mode == VALUES_RANDOM) {
        buf_printf(out, " within %.3g", bound);
    }
    buf_printf(out, "; the last at row %" PRId64 ", column %" PRId64, (int64_t)verdict->last / n,
               (int64_t)verdict->last % n);
    return GRS_OK;
}
