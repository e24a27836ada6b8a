/* Launching: checks, three tensor maps a rank, one grid a GPU. Nothing here allocates, waits or talks to another host. */
#include <inttypes.h>
#include <string.h>

#include "common/error.h"
#include "runtime/launch.h"
#include "runtime/nvtx.h"
#include "runtime/operands.h"
#include "runtime/staged.h"

/* ---------------------------------------------------------------- operands -------------------------------------- */

/* Rows of D that the rank keeps: of one owner segment a rank. */
static int64_t kept_rows(const struct grs_comm *comm, int64_t M) {
    int64_t count;
    grs_rows(M, comm->group->tp, comm->rank, NULL, &count);
    return count;
}

static grs_status make_maps(struct grs_comm *comm, const struct plan *plan, const grs_operands *operands,
                            int64_t a_rows, int64_t kept, grs_rank_args *out, grs_error *err) {
    const struct driver *drv = comm->group->drv;
    struct plan_boxes boxes;
    plan_boxes(plan, &boxes);
    const struct tensormap_key a = {
        (uintptr_t)operands->A, a_rows, plan->shape.k, operands->lda, boxes.a[1], boxes.a[0], 0, 0};
    const struct tensormap_key b = {
        (uintptr_t)operands->B, plan->shape.n, plan->shape.k, operands->ldb, boxes.b[1], boxes.b[0], 0, 0};
    const struct tensormap_key d = {
        (uintptr_t)operands->D, kept, plan->shape.n, operands->ldd, boxes.d[1], boxes.d[0], 0, 0};
    grs_status status = tensormap_get(drv, &comm->maps, &a, &out->a, "A", comm->rank, err);
    if (status == GRS_OK) {
        status = tensormap_get(drv, &comm->maps, &b, &out->b, "B", comm->rank, err);
    }
    out->has_d = kept > 0;
    if (status == GRS_OK && kept > 0) {
        status = tensormap_get(drv, &comm->maps, &d, &out->d, "D", comm->rank, err);
    } else {
        memset(&out->d, 0, sizeof(out->d));
    }
    if (status == GRS_OK && kept > 0 && boxes.d_tiles) {
        struct tensormap_key tiles = d;
        tiles.columns = tiles.layer_stride = boxes.d_tiles;
        tiles.layers = plan->shape.n / boxes.d_tiles;
        status = tensormap_get(drv, &comm->maps, &tiles, &out->d_tiles, "D in tiles", comm->rank, err);
    } else {
        memset(&out->d_tiles, 0, sizeof(out->d_tiles));
    }
    return status;
}

/* ---------------------------------------------------------------- arguments ------------------------------------- */

static void *device_pointer(const struct grs_comm *comm, enum symm_purpose purpose) {
    return (void *)(uintptr_t)comm->symm.pointer[purpose]; // NOLINT(performance-no-int-to-ptr): a device address
}

/* One rank's view. Upstream is rank+1, downstream rank-1: partial sums travel downwards. */
static void fill_pointers(const struct grs_comm *comm, grs_rank_args *out) {
    const struct group *group = comm->group;
    const struct grs_comm *upstream = &group->ranks[(comm->rank + 1) % group->tp];
    const struct grs_comm *downstream = &group->ranks[(comm->rank + group->tp - 1) % group->tp];
    out->slots = device_pointer(comm, SYMM_SLOTS);
    out->mask = device_pointer(comm, SYMM_MASK);
    out->peer_slots = device_pointer(downstream, SYMM_SLOTS);
    out->peer_mask = device_pointer(downstream, SYMM_MASK);
    out->control = device_pointer(comm, SYMM_CONTROL);
    out->upstream = device_pointer(upstream, SYMM_CONTROL);
    out->outbox = device_pointer(comm, SYMM_OUTBOX);
    out->everyone = (grs_control *const *)((char *)device_pointer(comm, SYMM_CONTROL) + SYMM_EVERYONE_OFFSET);
    out->record = (grs_wait_record *)(uintptr_t)comm->record; // NOLINT(performance-no-int-to-ptr)
    out->groups = device_pointer(comm, SYMM_GROUPS);
    out->counters = device_pointer(comm, SYMM_WAITS);
    out->stamps = device_pointer(comm, SYMM_STAMPS);
    out->rank = comm->rank;
}

static grs_status fill_rank(struct grs_comm *comm, const struct group_kernel *prepared, const grs_operands *operands,
                            int64_t a_rows, grs_rank_args *out, grs_error *err) {
    fill_pointers(comm, out);
    comm->latest_kernel = prepared;
    comm->latest_m = operands->M;
    return make_maps(comm, &prepared->kernel->plan, operands, a_rows, kept_rows(comm, operands->M), out, err);
}

int group_launch_grid(const struct plan *plan, int64_t M, int prepared) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    int64_t cluster = plan->value[FIELD_CLUSTER], wanted = (tiles.total + cluster - 1) / cluster * cluster;
    return wanted < prepared ? (int)wanted : prepared;
}

/* The tempo of sends follows the link that there is: under the model, the modelled one. */
static uint32_t send_pace(const struct group *group, const struct plan *plan, int64_t M, int grid) {
    return plan->pace_model && group->pace_ps_per_kib > 0 ? plan_send_pace_at(plan, M, grid, group->pace_ps_per_kib)
                                                          : plan_send_pace(plan, M, grid);
}

static void fill_header(const struct group *group, const struct group_kernel *prepared, int64_t M, int grid, int ranks,
                        grs_args *out) {
    memset(out, 0, offsetof(grs_args, rank));
    out->m = (int32_t)M;
    out->grid = grid;
    out->wave = prepared->wave;
    out->ranks = ranks;
    out->ring = group->tp;
    out->send_ps_per_byte = send_pace(group, &prepared->kernel->plan, M, grid);
    out->deadline_ns = group->deadline_ns;
    out->pace_ps_per_kib = group->pace_ps_per_kib;
    out->pace_signal_ns = group->pace_signal_ns;
    out->stall = group->stall;
}

/* ---------------------------------------------------------------- the launch ------------------------------------ */

/* The CTAs of a launch may come as SMs fall free, set themselves up, and wait for the launch before (ptx.cuh,
 * wait_for_earlier_launches). Only where nothing that a launch waits for can need an SM meanwhile: all ranks of the GPU are in this
 * grid, and there is no kernel that they were told to leave SMs to. */
static bool may_start_early(const struct group_device *device, int ranks) {
    return device->sharers == ranks && device->sms * ranks == device->sm_count;
}

static grs_status submit(const struct group *group, const struct group_device *device,
                         const struct group_kernel *prepared, grs_args *args, void *stream, grs_error *err) {
    const struct driver *drv = group->drv;
    const struct plan *plan = &prepared->kernel->plan;
    unsigned cluster = (unsigned)plan->value[FIELD_CLUSTER];
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (cluster > 1) {
        attributes[count++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {cluster, 1, 1}};
    }
    if (may_start_early(device, args->ranks)) {
        attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                                  .value.programmaticStreamSerializationAllowed = 1};
    }
    CUlaunchConfig config = {.gridDimX = (unsigned)(args->grid * args->ranks),
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = (unsigned)plan->threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = (unsigned)plan->shared_bytes,
                             .hStream = stream,
                             .attrs = attributes,
                             .numAttrs = count};
    void *parameters[] = {args};
    CUcontext current = NULL;
    grs_status status = GRS_OK;
    bool entered = drv->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != device->context;
    if (entered && (status = group_enter(group, device, err)) != GRS_OK) {
        return status;
    }
    CUresult result =
        drv->cuLaunchKernelEx(&config, prepared->modules[device - group->devices].function, parameters, NULL);
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuLaunchKernelEx(%s, %u CTAs of %u threads on %s, stream %p)",
                              plan->name, config.gridDimX, config.blockDimX, device->name, stream);
    }
    if (entered) {
        group_leave(group);
    }
    return status;
}

/* What a launch needs of its communicator, whatever the operands. NULL: refused. */
static const struct group_kernel *check_launch(const struct grs_comm *comm, const grs_kernel *kernel, grs_error *err) {
    const struct group *group = comm->group;
    const struct group_kernel *prepared;
    if (group->fork_count != driver_fork_count()) {
        error_set(err, GRS_ERR_STATE, "rank %d: this communicator was made before a fork, in the parent process",
                  comm->rank);
        return NULL;
    }
    prepared = comm->latest_kernel;
    if (prepared == NULL || prepared->kernel != kernel) {
        prepared = group_find_kernel(group, kernel);
    }
    if (prepared == NULL) {
        error_set(err, GRS_ERR_STATE, "rank %d: grs_comm_prepare was not called for %s", comm->rank, kernel->plan.name);
        return NULL;
    }
    return group_check(comm, err) == GRS_OK ? prepared : NULL;
}

grs_status launch_rows(struct grs_comm *comm, const struct group_kernel *prepared, const grs_operands *operands,
                       int64_t a_rows, void *stream, grs_error *err) {
    grs_args args;
    const struct group *group = comm->group;
    const struct plan *plan = &prepared->kernel->plan;
    int grid = group_launch_grid(plan, operands->M, prepared->modules[comm->device - group->devices].grid);
    fill_header(group, prepared, operands->M, grid, 1, &args);
    grs_status status = fill_rank(comm, prepared, operands, a_rows, &args.rank[0], err);
    return status == GRS_OK ? submit(group, comm->device, prepared, &args, stream, err) : status;
}

static grs_status launch_one(grs_comm *comm, const grs_kernel *kernel, const grs_operands *operands, void *stream,
                             grs_error *err) {
    const struct group_kernel *prepared = check_launch(comm, kernel, err);
    if (prepared == NULL) {
        return err->status;
    }
    grs_status status = operands_validate(comm->rank, &kernel->plan, prepared->max_m, operands, err);
    return status == GRS_OK ? launch_rows(comm, prepared, operands, operands->M, stream, err) : status;
}

__attribute__((noinline)) static grs_status
launch_one_shown(grs_comm *comm, const grs_kernel *kernel, const grs_operands *operands, void *stream, grs_error *err) {
    nvtx_push("launch %s, M %" PRId64 ", rank %d", kernel->plan.name, operands->M, comm->rank);
    grs_status status = launch_one(comm, kernel, operands, stream, err);
    nvtx_pop();
    return status;
}

grs_status grs_launch(grs_comm *comm, const grs_kernel *kernel, const grs_operands *operands, void *stream,
                      grs_error *err) {
    grs_error own;
    err = err == NULL ? &own : err;
    if (comm == NULL || kernel == NULL || operands == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_launch: %s is NULL",
                         comm == NULL ? "comm" : (kernel == NULL ? "kernel" : "operands"));
    }
    if (comm->staged != NULL) {
        return staged_launch(comm, kernel, operands, stream, err);
    }
    return nvtx_active() ? launch_one_shown(comm, kernel, operands, stream, err)
                         : launch_one(comm, kernel, operands, stream, err);
}

static grs_status check_local(grs_comm *const *comms, const grs_kernel *kernel, const grs_operands *operands,
                              const struct group_kernel **prepared, grs_error *err) {
    const struct group *group;
    grs_status status = GRS_OK;
    if (comms == NULL || comms[0] == NULL || kernel == NULL || operands == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_launch_local: %s is NULL",
                         comms == NULL ? "comms"
                                       : (comms[0] == NULL ? "comms[0]" : (kernel == NULL ? "kernel" : "operands")));
    }
    group = comms[0]->group;
    if (comms[0]->staged != NULL) {
        return error_set(
            err, GRS_ERR_ARGUMENT,
            "grs_launch_local: this communicator is one rank of an ncclComm_t; each rank calls grs_launch");
    }
    if (group->peers != NULL) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "grs_launch_local: the ranks of this group are in several processes; each calls grs_launch");
    }
    for (int rank = 0; rank < group->tp; rank++) {
        if (comms[rank] != &group->ranks[rank]) {
            return error_set(
                err, GRS_ERR_ARGUMENT,
                "comms[%d] is not rank %d of the group of comms[0]; allowed: the handles in the order in which "
                "grs_comm_create_local gave them",
                rank, rank);
        }
    }
    *prepared = check_launch(comms[0], kernel, err);
    if (*prepared == NULL) {
        return err->status;
    }
    for (int rank = 0; rank < group->tp && status == GRS_OK; rank++) {
        if (operands[rank].M != operands[0].M) {
            return error_set(err, GRS_ERR_ARGUMENT,
                             "operands[%d].M is %" PRId64 " and operands[0].M is %" PRId64
                             "; allowed: the same M on all ranks",
                             rank, operands[rank].M, operands[0].M);
        }
        status = operands_validate(rank, &kernel->plan, (*prepared)->max_m, &operands[rank], err);
    }
    return status;
}

static grs_status launch_device(struct group *group, struct group_device *device, const struct group_kernel *prepared,
                                const grs_operands *operands, void *const *streams, grs_error *err) {
    grs_args args;
    grs_status status = GRS_OK;
    int64_t M = operands[0].M;
    int grid = group_launch_grid(&prepared->kernel->plan, M, prepared->modules[device - group->devices].grid);
    fill_header(group, prepared, M, grid, device->rank_count, &args);
    for (int i = 0; i < device->rank_count && status == GRS_OK; i++) {
        int rank = device->ranks[i];
        status = fill_rank(&group->ranks[rank], prepared, &operands[rank], M, &args.rank[i], err);
    }
    if (status == GRS_OK) {
        status = submit(group, device, prepared, &args, streams == NULL ? NULL : streams[device->ranks[0]], err);
    }
    return status;
}

static grs_status launch_all(grs_comm *const *comms, const grs_kernel *kernel, const grs_operands *operands,
                             void *const *streams, grs_error *err) {
    const struct group_kernel *prepared = NULL;
    grs_status status = check_local(comms, kernel, operands, &prepared, err);
    if (status != GRS_OK) {
        return status;
    }
    struct group *group = comms[0]->group;
    for (int i = 0; i < group->device_count; i++) {
        status = launch_device(group, &group->devices[i], prepared, operands, streams, err);
        if (status != GRS_OK && i > 0) { /* those that run already would wait for this one */
            group_abort(group, NULL);
        }
        if (status != GRS_OK) {
            return status;
        }
    }
    return GRS_OK;
}

__attribute__((noinline)) static grs_status launch_all_shown(grs_comm *const *comms, const grs_kernel *kernel,
                                                             const grs_operands *operands, void *const *streams,
                                                             grs_error *err) {
    if (kernel == NULL || operands == NULL) {
        return launch_all(comms, kernel, operands, streams, err);
    }
    nvtx_push("launch %s, M %" PRId64, kernel->plan.name, operands[0].M);
    grs_status status = launch_all(comms, kernel, operands, streams, err);
    nvtx_pop();
    return status;
}

grs_status grs_launch_local(grs_comm *const *comms, const grs_kernel *kernel, const grs_operands *operands,
                            void *const *streams, grs_error *err) {
    grs_error own;
    err = err == NULL ? &own : err;
    return nvtx_active() ? launch_all_shown(comms, kernel, operands, streams, err)
                         : launch_all(comms, kernel, operands, streams, err);
}
