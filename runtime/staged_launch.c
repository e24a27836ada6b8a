/* A launch over several nodes: kernels within the node, then NCCL. Nothing here allocates or waits for a device. */
#include <inttypes.h>

#include "common/error.h"
#include "runtime/launch.h"
#include "runtime/nvtx.h"
#include "runtime/operands.h"
#include "runtime/staged.h"

static void *device_pointer(CUdeviceptr pointer) {
    return (void *)(uintptr_t)pointer; // NOLINT(performance-no-int-to-ptr): a device address
}

/* The kernel within the node for so many rows; prepare has made all that a launch can need. */
static const struct group_kernel *inner_of(const struct staged_kernel *prepared, int64_t rows) {
    int i = 0;
    while (i + 1 < prepared->count && rows > prepared->inner[i]->kernel->plan.shape.m_max) {
        i++;
    }
    return prepared->inner[i];
}

/* The node's sums of every block into `work`. Blocks that have no row of A are left out, by every rank alike: what `work` holds
 * there goes to ranks that keep none of it. */
static grs_status launch_blocks(struct staged *staged, const struct staged_kernel *prepared,
                                const grs_operands *operands, void *stream, grs_error *err) {
    const struct plan_shape *shape = &prepared->kernel->plan.shape;
    int64_t rows = staged_inner_rows(staged, operands->M);
    const struct group_kernel *inner = inner_of(prepared, rows);
    size_t block_bytes = (size_t)(staged_segment_rows(staged, operands->M) * shape->n) * 2;
    grs_status status = GRS_OK;
    for (int64_t first = 0, h = 0; first < operands->M && status == GRS_OK; first += rows, h++) {
        int64_t left = operands->M - first;
        const grs_operands block = {.A = (const char *)operands->A + (size_t)(first * operands->lda) * 2,
                                    .lda = operands->lda,
                                    .B = operands->B,
                                    .ldb = operands->ldb,
                                    .D = device_pointer(staged->work + (size_t)h * block_bytes),
                                    .ldd = shape->n,
                                    .M = rows};
        status = launch_rows(staged->inner, inner, &block, left < rows ? left : rows, stream, err);
    }
    return status;
}

static grs_status scatter(struct staged *staged, const struct plan_shape *shape, const grs_operands *operands,
                          void *stream, grs_error *err) {
    int64_t c = staged_segment_rows(staged, operands->M), kept;
    grs_rows(operands->M, staged->size, staged->handle.rank, NULL, &kept);
    bool straight = kept == c && operands->ldd == shape->n;
    CUdeviceptr to = straight ? (CUdeviceptr)(uintptr_t)operands->D : staged->share;
    grs_status status = staged_exchange(staged, false, to, (size_t)(c * shape->n), stream, err);
    if (status != GRS_OK || straight || kept == 0) {
        return status;
    }
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = staged->share,
                                .srcPitch = (size_t)shape->n * 2,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = (CUdeviceptr)(uintptr_t)operands->D,
                                .dstPitch = (size_t)operands->ldd * 2,
                                .WidthInBytes = (size_t)shape->n * 2,
                                .Height = (size_t)kept};
    const struct driver *drv = staged->inner->group->drv;
    CUresult result = drv->cuMemcpy2DAsync(&copy, stream);
    return result == CUDA_SUCCESS ? GRS_OK
                                  : driver_error(drv, err, result, "cuMemcpy2DAsync(%" PRId64 " rows of D)", kept);
}

static grs_status launch(struct staged *staged, const grs_kernel *kernel, const grs_operands *operands, void *stream,
                         grs_error *err) {
    struct group *group = staged->inner->group;
    const struct plan *plan = &kernel->plan;
    int rank = staged->handle.rank;
    if (group->fork_count != driver_fork_count()) {
        return error_set(err, GRS_ERR_STATE, "rank %d: this communicator was made before a fork, in the parent process",
                         rank);
    }
    const struct staged_kernel *prepared = staged_find_kernel(staged, kernel);
    if (prepared == NULL) {
        return error_set(err, GRS_ERR_STATE, "rank %d: grs_comm_prepare was not called for %s", rank, plan->name);
    }
    bool well = group_check(staged->inner, NULL) == GRS_OK && !staged_is_told(staged);
    grs_status status = well ? GRS_OK : staged_check(staged, err);
    if (status != GRS_OK || (status = operands_validate(rank, plan, prepared->max_m, operands, err)) != GRS_OK ||
        (status = group_enter(group, staged->inner->device, err)) != GRS_OK) {
        return status;
    }
    status = launch_blocks(staged, prepared, operands, stream, err);
    bool launched = status == GRS_OK;
    status = launched ? scatter(staged, &plan->shape, operands, stream, err) : status;
    if (status != GRS_OK) { /* the node's other ranks would wait in what this one has not launched */
        group_abort(group, NULL);
    }
    if (!launched) { /* and so would those of its place in other nodes, in what comes behind it: they are told instead */
        size_t count = (size_t)(staged_segment_rows(staged, operands->M) * plan->shape.n);
        staged_exchange(staged, true, staged->share, count, stream, NULL);
    }
    group_leave(group);
    return status;
}

grs_status staged_launch(grs_comm *comm, const grs_kernel *kernel, const grs_operands *operands, void *stream,
                         grs_error *err) {
    bool shown = nvtx_active();
    if (shown) {
        nvtx_push("launch %s, M %" PRId64 ", rank %d", kernel->plan.name, operands->M, comm->rank);
    }
    grs_status status = launch(comm->staged, kernel, operands, stream, err);
    if (shown) {
        nvtx_pop();
    }
    return status;
}
