/* Making and ending a group of ranks in one process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/group.h"
#include "runtime/options.h"

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

static grs_status read_options(struct group *group, const grs_comm_options *given, grs_error *err) {
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
    group_set_pace(group, pace);
    group->sms = options.sms != 0 ? options.sms : group->ctx->sms;
    return GRS_OK;
}

/* ---------------------------------------------------------------- devices --------------------------------------- */

static struct group_device *find_device(struct group *group, int ordinal) {
    for (int i = 0; i < group->device_count; i++) {
        if (group->devices[i].ordinal == ordinal) {
            return &group->devices[i];
        }
    }
    group->devices[group->device_count].ordinal = ordinal;
    return &group->devices[group->device_count++];
}

/* Gives every rank its device. With no list, ranks go out in blocks over the visible devices. */
static grs_status place_ranks(struct group *group, const int *devices, grs_error *err) {
    int visible = 0;
    CUresult result = group->drv->cuDeviceGetCount(&visible);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuDeviceGetCount");
    }
    if (visible == 0) {
        return error_set(err, GRS_ERR_DRIVER, "no GPU is visible (CUDA_VISIBLE_DEVICES?)");
    }
    int block = (group->tp + visible - 1) / visible;
    for (int rank = 0; rank < group->tp; rank++) {
        int ordinal = devices == NULL ? rank / block : devices[rank];
        if (ordinal < 0 || ordinal >= visible) {
            return error_set(err, GRS_ERR_ARGUMENT, "devices[%d] is %d; allowed: 0 to %d", rank, ordinal, visible - 1);
        }
        struct group_device *device = find_device(group, ordinal);
        if (device->rank_count == GRS_MAX_SHARED_RANKS) {
            return error_set(err, GRS_ERR_ARGUMENT,
                             "GPU %d would hold more than %d ranks of %d; allowed: up to %d a GPU", ordinal,
                             GRS_MAX_SHARED_RANKS, group->tp, GRS_MAX_SHARED_RANKS);
        }
        device->ranks[device->rank_count++] = rank;
        group->ranks[rank] = (struct grs_comm){.group = group, .rank = rank, .device = device};
    }
    return GRS_OK;
}

static grs_status ask_device(struct group *group, struct group_device *device, grs_error *err) {
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
    int share = device->sm_count / device->rank_count;
    if (group->sms > share) {
        return error_set(
            err, GRS_ERR_ARGUMENT,
            "sms is %d, and %s has %d SMs for %d rank%s; allowed: up to %d (the CTAs of all ranks must run at "
            "the same time)",
            group->sms, device->name, device->sm_count, device->rank_count, device->rank_count == 1 ? "" : "s", share);
    }
    device->sms = group->sms != 0 ? group->sms : share;
    return GRS_OK;
}

static grs_status open_device(struct group *group, struct group_device *device, grs_error *err) {
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

/* ---------------------------------------------------------------- peers ----------------------------------------- */

static grs_status check_pair(struct group *group, struct group_device *from, struct group_device *to, grs_error *err) {
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

/* Every rank may raise every other's abort word, so all pairs must reach each other. */
static grs_status connect_peers(struct group *group, grs_error *err) {
    const struct driver *drv = group->drv;
    grs_status status = GRS_OK;
    for (int i = 0; i < group->device_count; i++) {
        for (int j = 0; j < group->device_count; j++) {
            struct group_device *from = &group->devices[i], *to = &group->devices[j];
            if (i == j) {
                continue;
            }
            if ((status = check_pair(group, from, to, err)) != GRS_OK ||
                (status = group_enter(group, from, err)) != GRS_OK) {
                return status;
            }
            CUresult result = drv->cuCtxEnablePeerAccess(to->context, 0);
            group_leave(group);
            if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
                return driver_error(drv, err, result, "cuCtxEnablePeerAccess(%s to %s)", from->name, to->name);
            }
        }
    }
    return GRS_OK;
}

/* ---------------------------------------------------------------- memory ---------------------------------------- */

static grs_status make_host_memory(struct group *group, grs_error *err) {
    size_t bytes = sizeof(struct group_host) + (size_t)group->tp * sizeof(struct group_record);
    void *host = NULL;
    grs_status status = group_enter(group, &group->devices[0], err);
    if (status != GRS_OK) {
        return status;
    }
    CUresult result = group->drv->cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (result != CUDA_SUCCESS) {
        status = driver_error(group->drv, err, result, "cuMemHostAlloc(%zu bytes for wait records)", bytes);
    } else {
        memset(host, 0, bytes);
        group->host = host;
        group->host->one = 1;
    }
    group_leave(group);
    return status;
}

/* Control words of one rank, and the GPU's view of its record. The context is current. */
static grs_status make_control(struct group *group, struct grs_comm *comm, grs_error *err) {
    struct symm_sizes sizes = {.bytes[SYMM_CONTROL] = SYMM_EVERYONE_OFFSET + (size_t)group->tp * sizeof(CUdeviceptr)};
    grs_status status = symm_grow(group->drv, &comm->symm, &sizes, comm->device->stream, err);
    if (status != GRS_OK) {
        return status;
    }
    CUresult result = group->drv->cuMemHostGetDevicePointer(&comm->record, &group->host->rank[comm->rank].record, 0);
    if (result != CUDA_SUCCESS) {
        return driver_error(group->drv, err, result, "cuMemHostGetDevicePointer(wait record)");
    }
    return GRS_OK;
}

/* Where every rank's control words are, for raising aborts. */
static grs_status write_everyone(struct group *group, struct grs_comm *comm, grs_error *err) {
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

static grs_status on_every_rank(struct group *group, grs_status (*work)(struct group *, struct grs_comm *, grs_error *),
                                grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < group->tp && status == GRS_OK; rank++) {
        struct grs_comm *comm = &group->ranks[rank];
        status = group_enter(group, comm->device, err);
        if (status == GRS_OK) {
            status = work(group, comm, err);
            group_leave(group);
            if (status != GRS_OK) {
                error_prepend(err, "rank %d on %s", rank, comm->device->name);
            }
        }
    }
    return status;
}

/* ---------------------------------------------------------------- life ------------------------------------------ */

static void free_group(struct group *group) {
    const struct driver *drv = group->drv;
    while (group->kernels != NULL) {
        struct group_kernel *kernel = group->kernels;
        group->kernels = kernel->next;
        group_free_kernel(group, kernel);
    }
    for (int rank = 0; group->ranks != NULL && rank < group->tp; rank++) {
        struct grs_comm *comm = &group->ranks[rank];
        if (comm->device != NULL && comm->device->retained && group_enter(group, comm->device, NULL) == GRS_OK) {
            symm_free(drv, &comm->symm);
            group_leave(group);
        }
    }
    if (group->host != NULL && group_enter(group, &group->devices[0], NULL) == GRS_OK) {
        drv->cuMemFreeHost(group->host);
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
    pthread_mutex_destroy(&group->lock);
    free(group->devices);
    free(group->ranks);
    free(group);
}

static grs_status open_group(struct group *group, const int *devices, const grs_comm_options *options, grs_error *err) {
    grs_status status = read_options(group, options, err);
    if (status == GRS_OK) {
        status = place_ranks(group, devices, err);
    }
    for (int i = 0; i < group->device_count && status == GRS_OK; i++) {
        status = ask_device(group, &group->devices[i], err);
    }
    for (int i = 0; i < group->device_count && status == GRS_OK; i++) {
        status = open_device(group, &group->devices[i], err);
    }
    if (status == GRS_OK) {
        status = connect_peers(group, err);
    }
    if (status == GRS_OK) {
        status = make_host_memory(group, err);
    }
    if (status == GRS_OK) {
        status = on_every_rank(group, make_control, err);
    }
    if (status == GRS_OK) {
        status = on_every_rank(group, write_everyone, err);
    }
    return status;
}

grs_status grs_comm_create_local(grs_ctx *ctx, int tp, const int *devices, const grs_comm_options *options,
                                 grs_comm **comms, grs_error *err) {
    if (ctx == NULL || comms == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_create_local: %s is NULL", ctx == NULL ? "ctx" : "comms");
    }
    if (tp < 1 || tp > GRS_MAX_TP) {
        return error_set(err, GRS_ERR_ARGUMENT, "tp is %d; allowed: 1 to %d", tp, GRS_MAX_TP);
    }
    memset(comms, 0, (size_t)tp * sizeof(grs_comm *));
    grs_error own;
    err = err == NULL ? &own : err;
    const struct driver *drv = driver_get(err);
    if (drv == NULL) {
        return err->status;
    }
    struct group *group = calloc(1, sizeof(*group));
    if (group == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for %d ranks", tp);
    }
    *group = (struct group){.ctx = ctx, .drv = drv, .fork_count = driver_fork_count(), .tp = tp};
    pthread_mutex_init(&group->lock, NULL);
    group->ranks = calloc((size_t)tp, sizeof(*group->ranks));
    group->devices = calloc((size_t)tp, sizeof(*group->devices));
    grs_status status = group->ranks == NULL || group->devices == NULL
                            ? error_set(err, GRS_ERR_MEMORY, "out of memory for %d ranks", tp)
                            : open_group(group, devices, options, err);
    if (status != GRS_OK) {
        free_group(group);
        return status;
    }
    group->open_count = tp;
    for (int rank = 0; rank < tp; rank++) {
        group->ranks[rank].open = true;
        comms[rank] = &group->ranks[rank];
    }
    for (int i = 0; i < group->device_count; i++) {
        log_write(&ctx->log, GRS_LOG_DEBUG, "%s: %d rank%s of %d, %d of %d SMs each", group->devices[i].name,
                  group->devices[i].rank_count, group->devices[i].rank_count == 1 ? "" : "s", tp, group->devices[i].sms,
                  group->devices[i].sm_count);
    }
    return GRS_OK;
}

void grs_comm_destroy(grs_comm *comm) {
    if (comm == NULL) {
        return;
    }
    struct group *group = comm->group;
    if (group->fork_count != driver_fork_count()) {
        return; /* a child's copy of its parent's: nothing of it can be freed here */
    }
    if (group_enter(group, comm->device, NULL) == GRS_OK) {
        group->drv->cuCtxSynchronize(); /* a failure was some kernel's, and freeing is still right */
        group_leave(group);
    }
    pthread_mutex_lock(&group->lock);
    bool last = comm->open && --group->open_count == 0;
    comm->open = false;
    pthread_mutex_unlock(&group->lock);
    if (last) {
        free_group(group);
    }
}
