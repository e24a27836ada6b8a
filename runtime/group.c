#include "runtime/group.h"

#include <stdlib.h>

#include "common/error.h"
#include "runtime/fault.h"

/* A bit's way, half of there and back (docs/grsrun.md): between two H200 over NVLink, and within one. */
#define LINK_SIGNAL_NS  1370
#define LOCAL_SIGNAL_NS 745

void group_set_pace(struct group *group, double gbps, double slowdown) {
    const double slowest = 1e-3; /* GB/s: what is slower would only overflow */
    group->pace_ps_per_kib = gbps > 0 ? (uint64_t)(1024 * 1e3 / (gbps < slowest ? slowest : gbps)) : 0;
    group->pace_signal_ns = gbps > 0 ? (uint32_t)(slowdown * LINK_SIGNAL_NS) - LOCAL_SIGNAL_NS : 0;
}

grs_status group_enter(const struct group *group, const struct group_device *device, grs_error *err) {
    CUresult result = group->drv->cuCtxPushCurrent(device->context);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuCtxPushCurrent(%s)", device->name);
    }
    return GRS_OK;
}

void group_leave(const struct group *group) {
    CUcontext old;
    group->drv->cuCtxPopCurrent(&old);
}

const struct group_kernel *group_find_kernel(const struct group *group, const grs_kernel *kernel) {
    const struct group_kernel *found = group->kernels;
    while (found != NULL && found->kernel != kernel) {
        found = found->next;
    }
    return found;
}

void group_free_kernel(struct group *group, struct group_kernel *kernel) {
    for (int i = 0; kernel->modules != NULL && i < group->device_count; i++) {
        if (kernel->modules[i].module != NULL && group_enter(group, &group->devices[i], NULL) == GRS_OK) {
            module_unload(group->drv, &kernel->modules[i]);
            group_leave(group);
        }
    }
    free(kernel->modules);
    free(kernel);
}

/* ---------------------------------------------------------------- what went wrong ------------------------------- */

static void add_record(const struct grs_comm *comm, struct buf *text) {
    const grs_wait_record *record = &comm->group->host->rank[comm->rank].record;
    struct fault_launch launch = {0};
    if (comm->latest_kernel == NULL && comm->group->peers != NULL) { /* all ranks launch the same */
        comm = &comm->group->ranks[comm->group->devices[0].ranks[0]];
    }
    if (comm->latest_kernel != NULL) {
        launch = (struct fault_launch){&comm->latest_kernel->kernel->plan, comm->latest_m, comm->latest_kernel->wave};
    }
    if (text->length > 0) {
        buf_puts(text, "\n");
    }
    fault_text(record, comm->group->tp, &launch, text);
}

/* This rank's record first, then the others', a line each. */
static grs_status record_error(const struct grs_comm *comm, grs_error *err) {
    const struct group *group = comm->group;
    struct buf text = {0};
    if (fault_complete(&group->host->rank[comm->rank].record)) {
        add_record(comm, &text);
    }
    for (int rank = 0; rank < group->tp; rank++) {
        if (rank != comm->rank && fault_complete(&group->host->rank[rank].record)) {
            add_record(&group->ranks[rank], &text);
        }
    }
    grs_status status = error_set(err, GRS_ERR_TIMEOUT, "%s", text.data == NULL ? "out of memory" : text.data);
    buf_free(&text);
    return status;
}

grs_status group_check(const struct grs_comm *comm, grs_error *err) {
    const struct group *group = comm->group;
    for (int rank = 0; rank < group->tp; rank++) {
        if (fault_complete(&group->host->rank[rank].record)) {
            return record_error(comm, err);
        }
    }
    if (atomic_load_explicit(&group->aborted, memory_order_relaxed)) {
        return error_set(err, GRS_ERR_STATE, "rank %d: the communicator was aborted", comm->rank);
    }
    uint32_t by = group->peers == NULL ? 0 : atomic_load_explicit(&group->host->aborted_by, memory_order_relaxed);
    if (by != 0) {
        return error_set(err, GRS_ERR_STATE, "rank %d: the communicator was aborted by rank %u", comm->rank, by - 1);
    }
    return GRS_OK;
}

static grs_status raise_abort(struct group *group, struct grs_comm *comm, grs_error *err) {
    const struct group_device *device = group_device_of(group, comm);
    CUdeviceptr word = comm->symm.pointer[SYMM_CONTROL] + offsetof(grs_control, abort);
    grs_status status = group_enter(group, device, err);
    if (status != GRS_OK) {
        return status;
    }
    /* Pinned to device: the copy engine does it, while kernels hold every SM. */
    CUresult result = group->drv->cuMemcpyHtoDAsync(word, &group->host->one, sizeof(uint32_t), device->stream);
    if (result != CUDA_SUCCESS) {
        status = driver_error(group->drv, err, result, "cuMemcpyHtoDAsync(abort word of rank %d on %s)", comm->rank,
                              device->name);
    }
    group_leave(group);
    return status;
}

grs_status group_abort(struct group *group, grs_error *err) {
    grs_status status = GRS_OK;
    atomic_store_explicit(&group->aborted, true, memory_order_relaxed);
    if (group->peers != NULL) {
        uint32_t nobody = 0;
        atomic_compare_exchange_strong(&group->host->aborted_by, &nobody, (uint32_t)group->devices[0].ranks[0] + 1);
    }
    for (int rank = 0; rank < group->tp; rank++) {
        grs_status one = raise_abort(group, &group->ranks[rank], status == GRS_OK ? err : NULL);
        status = status == GRS_OK ? one : status;
    }
    return status;
}
