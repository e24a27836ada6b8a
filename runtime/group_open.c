/* What groups of one process and groups of several have in common: options, devices, control words, the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/group.h"
#include "runtime/options.h"
#include "runtime/peers.h"
#include "runtime/staged.h"

grs_status group_make(grs_ctx *ctx, const struct driver *drv, int tp, struct group **out, grs_error *err) {
    struct group *group = calloc(1, sizeof(*group));
    *out = group;
    if (group == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for %d ranks", tp);
    }
    *group = (struct group){.ctx = ctx, .drv = drv, .fork_count = driver_fork_count(), .tp = tp};
    pthread_mutex_init(&group->lock, NULL);
    /* Tensor maps inside want more than malloc's alignment. */
    group->ranks = aligned_alloc(_Alignof(struct grs_comm), (size_t)tp * sizeof(*group->ranks));
    if (group->ranks != NULL) {
        memset(group->ranks, 0, (size_t)tp * sizeof(*group->ranks));
    }
    group->devices = calloc((size_t)tp, sizeof(*group->devices));
    return group->ranks == NULL || group->devices == NULL
               ? error_set(err, GRS_ERR_MEMORY, "out of memory for %d ranks", tp)
               : GRS_OK;
}

/* ---------------------------------------------------------------- options --------------------------------------- */

/* GRS_STALL=rank:position, a test hook: the sender of that rank stands still before that position of its tile order. */
static grs_status read_stall(struct group *group, grs_error *err) {
    const char *text = getenv("GRS_STALL");
    unsigned rank, position;
    char rest;
    if (text == NULL || text[0] == '\0') {
        return GRS_OK;
    }
    if (sscanf(text, "%u:%u%c", &rank, &position, &rest) != 2 || rank >= GRS_MAX_TP || position >= 1u << 30) {
        return error_set(err, GRS_ERR_ARGUMENT, "GRS_STALL=%s; allowed: RANK:POSITION, two numbers", text);
    }
    group->stall = (uint64_t)(rank + 1) << 32 | (position + 1);
    return GRS_OK;
}

grs_status group_read_options(struct group *group, const grs_comm_options *given, grs_error *err) {
    grs_comm_options options;
    double deadline = GROUP_DEFAULT_DEADLINE, pace = 0;
    grs_status status = options_copy(&options, sizeof(options), given, "grs_comm_options", err);
    if (status != GRS_OK || (status = options_number("GRS_DEADLINE", -1, 1e6, &deadline, err)) != GRS_OK ||
        (status = options_number("GRS_PACE_GBPS", 0, 1e5, &pace, err)) != GRS_OK ||
        (status = read_stall(group, err)) != GRS_OK) {
        return status;
    }
    if (options.deadline_seconds != 0) {
        deadline = options.deadline_seconds;
    }
    if (!(deadline <= 1e6)) { /* also refuses what is no number */
        return error_set(err, GRS_ERR_ARGUMENT, "deadline_seconds: allowed: up to 1000000, or negative for none");
    }
    if (options.sms < 0) {
        return error_set(err, GRS_ERR_ARGUMENT, "sms is %d; allowed: at least 1, or 0 for the rank's share of the GPU",
                         options.sms);
    }
    group->deadline_seconds = deadline > 0 ? deadline : 0;
    group->deadline_ns = (uint64_t)(group->deadline_seconds * 1e9);
    group_set_pace(group, pace, 1);
    group->sms = options.sms != 0 ? options.sms : group->ctx->sms;
    return GRS_OK;
}

/* ---------------------------------------------------------------- devices --------------------------------------- */

grs_status group_ask_device(struct group *group, struct group_device *device, grs_error *err) {
    const struct driver *drv = group->drv;
    char model[64] = "";
    CUresult result = drv->cuDeviceGet(&device->device, device->ordinal);
    if (result == CUDA_SUCCESS) {
        result = drv->cuDeviceGetName(model, sizeof(model), device->device);
    }
    if (result == CUDA_SUCCESS) {
        result = drv->cuDeviceGetAttribute(&device->sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device->device);
    }
    if (result == CUDA_SUCCESS) {
        result =
            drv->cuDeviceGetAttribute(&device->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->device);
    }
    if (result == CUDA_SUCCESS) {
        result =
            drv->cuDeviceGetAttribute(&device->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device->device);
    }
    snprintf(device->name, sizeof(device->name), "GPU %d (%s)", device->ordinal, model);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuDeviceGetAttribute(GPU %d)", device->ordinal);
    }
    return GRS_OK;
}

grs_status group_share_device(const struct group *group, struct group_device *device, grs_error *err) {
    int share = device->sm_count / device->sharers;
    if (group->sms > share) {
        return error_set(
            err, GRS_ERR_ARGUMENT,
            "sms is %d, and %s has %d SMs for %d rank%s; allowed: up to %d (the CTAs of all ranks must run at "
            "the same time)",
            group->sms, device->name, device->sm_count, device->sharers, device->sharers == 1 ? "" : "s", share);
    }
    device->sms = group->sms != 0 ? group->sms : share;
    return GRS_OK;
}

grs_status group_open_device(struct group *group, struct group_device *device, grs_error *err) {
    const struct driver *drv = group->drv;
    CUresult result = drv->cuDevicePrimaryCtxRetain(&device->context, device->device);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuDevicePrimaryCtxRetain(%s)", device->name);
    }
    device->retained = true;
    grs_status status = group_enter(group, device, err);
    if (status != GRS_OK) {
        return status;
    }
    result = drv->cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        device->stream = NULL;
        status = driver_error(drv, err, result, "cuStreamCreate(%s)", device->name);
    }
    group_leave(group);
    return status;
}

grs_status group_check_pair(const struct group *group, const struct group_device *from, const struct group_device *to,
                            grs_error *err) {
    const struct driver *drv = group->drv;
    int reachable = 0, atomics = 0;
    CUresult result = drv->cuDeviceCanAccessPeer(&reachable, from->device, to->device);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuDeviceCanAccessPeer(%s, %s)", from->name, to->name);
    }
    if (!reachable) {
        return error_set(err, GRS_ERR_PEER,
                         "%s cannot reach the memory of %s: ranks need NVLink or PCIe peer access between their GPUs "
                         "(nvidia-smi topo -p2p r)",
                         from->name, to->name);
    }
    result = drv->cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from->device,
                                          to->device);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuDeviceGetP2PAttribute(%s, %s)", from->name, to->name);
    }
    if (!atomics) {
        return error_set(err, GRS_ERR_PEER,
                         "%s has no native atomics on the memory of %s, which signals need: the GPUs must be connected "
                         "by NVLink (nvidia-smi topo -p2p a)",
                         from->name, to->name);
    }
    return GRS_OK;
}

/* ---------------------------------------------------------------- memory ---------------------------------------- */

grs_status group_map_record(const struct group *group, struct grs_comm *comm, grs_error *err) {
    CUresult result = group->drv->cuMemHostGetDevicePointer(&comm->record, &group->host->rank[comm->rank].record, 0);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuMemHostGetDevicePointer(wait record)");
    }
    return GRS_OK;
}

/* Where every rank's control words are, for raising aborts. */
grs_status group_write_everyone(struct group *group, struct grs_comm *comm, grs_error *err) {
    CUdeviceptr everyone[GRS_MAX_RING];
    for (int rank = 0; rank < group->tp; rank++) {
        everyone[rank] = group->ranks[rank].symm.pointer[SYMM_CONTROL];
    }
    size_t bytes = (size_t)group->tp * sizeof(CUdeviceptr);
    CUstream stream = comm->device->stream;
    CUresult result =
        group->drv->cuMemcpyHtoDAsync(comm->symm.pointer[SYMM_CONTROL] + SYMM_EVERYONE_OFFSET, everyone, bytes, stream);
    if (result == CUDA_SUCCESS) {
        result = group->drv->cuStreamSynchronize(stream);
    }
    return result == CUDA_SUCCESS ? GRS_OK
                                  : driver_error(group->drv, err, result, "cuMemcpyHtoDAsync(addresses of all ranks)");
}

/* ---------------------------------------------------------------- the end --------------------------------------- */

void group_free(struct group *group) {
    if (group == NULL) {
        return;
    }
    const struct driver *drv = group->drv;
    while (group->kernels != NULL) {
        struct group_kernel *kernel = group->kernels;
        group->kernels = kernel->next;
        group_free_kernel(group, kernel);
    }
    for (int rank = 0; group->ranks != NULL && group->devices != NULL && rank < group->tp; rank++) {
        struct grs_comm *comm = &group->ranks[rank];
        const struct group_device *device = group_device_of(group, comm);
        if (device->retained && group_enter(group, device, NULL) == GRS_OK) {
            symm_free(drv, &comm->symm);
            group_leave(group);
        }
    }
    if (group->host != NULL && group_enter(group, &group->devices[0], NULL) == GRS_OK) {
        if (group->peers != NULL) {
            peers_free_board(group);
        } else {
            drv->cuMemFreeHost(group->host);
        }
        group_leave(group);
    }
    for (int i = 0; i < group->device_count; i++) {
        struct group_device *device = &group->devices[i];
        if (device->stream != NULL && group_enter(group, device, NULL) == GRS_OK) {
            drv->cuStreamDestroy(device->stream);
            group_leave(group);
        }
        if (device->retained) {
            drv->cuDevicePrimaryCtxRelease(device->device);
        }
    }
    peers_free(group->peers);
    pthread_mutex_destroy(&group->lock);
    free(group->devices);
    free(group->ranks);
    free(group);
}

void grs_comm_destroy(grs_comm *comm) {
    if (comm == NULL) {
        return;
    }
    struct group *group = comm->group;
    if (group->fork_count != driver_fork_count()) {
        return; /* a child's copy of its parent's: nothing of it can be freed here */
    }
    if (comm->staged != NULL) {
        staged_free(comm->staged);
        return;
    }
    if (group_enter(group, comm->device, NULL) == GRS_OK) {
        group->drv->cuCtxSynchronize(); /* a failure was some kernel's, and freeing is still right */
        group_leave(group);
    }
    if (group->peers != NULL) {
        peers_leave(group->peers);
    }
    pthread_mutex_lock(&group->lock);
    bool last = comm->open && --group->open_count == 0;
    comm->open = false;
    pthread_mutex_unlock(&group->lock);
    if (last) {
        group_free(group);
    }
}
