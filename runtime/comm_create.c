/* Making and ending a group of ranks in one process. */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/group.h"

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

/* ---------------------------------------------------------------- peers ----------------------------------------- */

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
            if ((status = group_check_pair(group, from, to, err)) != GRS_OK ||
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
    return group_map_record(group, comm, err);
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

static grs_status open_group(struct group *group, const int *devices, const grs_comm_options *options, grs_error *err) {
    grs_status status = group_read_options(group, options, err);
    if (status == GRS_OK) {
        status = place_ranks(group, devices, err);
    }
    for (int i = 0; i < group->device_count && status == GRS_OK; i++) {
        group->devices[i].sharers = group->devices[i].rank_count;
        status = group_ask_device(group, &group->devices[i], err);
        if (status == GRS_OK) {
            status = group_share_device(group, &group->devices[i], err);
        }
    }
    for (int i = 0; i < group->device_count && status == GRS_OK; i++) {
        status = group_open_device(group, &group->devices[i], err);
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
        status = on_every_rank(group, group_write_everyone, err);
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
    struct group *group = NULL;
    grs_status status = group_make(ctx, drv, tp, &group, err);
    if (status == GRS_OK) {
        status = open_group(group, devices, options, err);
    }
    if (status != GRS_OK) {
        group_free(group);
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
