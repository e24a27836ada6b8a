/* What ranks of the same place in their nodes exchange. */
#include "common/error.h"
#include "runtime/staged.h"

static void *pointer_of(CUdeviceptr memory) {
    return (void *)(uintptr_t)memory; // NOLINT(performance-no-int-to-ptr): a device address
}

grs_status staged_exchange(struct staged *staged, CUdeviceptr to, size_t count, CUstream stream, grs_error *err) {
    const struct nccl_api *nccl = &staged->nccl;
    ncclComm_t across = nccl_door_enter(&staged->across);
    int code = NCCL_CLOSED;
    if (across != NULL) {
        code = nccl->reduce_scatter(pointer_of(staged->work), pointer_of(to), count, NCCL_BFLOAT16, NCCL_SUM, across,
                                    stream);
        code = nccl_settle(nccl, &staged->across, nccl_door_leave(&staged->across, code));
    }
    if (code == NCCL_CLOSED) {
        return error_set(err, GRS_ERR_STATE, "rank %d: the communicator was aborted", staged->handle.rank);
    }
    return nccl_check(nccl, code, "ncclReduceScatter", err);
}
