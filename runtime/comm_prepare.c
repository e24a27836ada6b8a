/* What a communicator does between its making and its end, launches aside. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/machine.h"
#include "generator/waitgraph.h"
#include "runtime/group.h"
#include "runtime/nvtx.h"
#include "runtime/options.h"
#include "runtime/peers.h"
#include "runtime/staged.h"

static grs_status wrong_process(const struct group *group, grs_error *err) {
    if (group->fork_count != driver_fork_count()) {
        return error_set(err, GRS_ERR_STATE, "this communicator was made before a fork, in the parent process");
    }
    return GRS_OK;
}

/* ---------------------------------------------------------------- prepare --------------------------------------- */

grs_status group_check_request(const struct group *group, int ranks, const grs_kernel *kernel, int64_t max_M,
                               grs_error *err) {
    const struct plan_shape *shape = &kernel->plan.shape;
    if (shape->tp != ranks) {
        return error_set(err, GRS_ERR_ARGUMENT, "%s is for tp %d, the communicator has %d ranks", kernel->plan.name,
                         shape->tp, ranks);
    }
    if (max_M < shape->m_min) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "max_M is %" PRId64 ", and %s serves M from %" PRId64 " to %" PRId64
                         ": no launch could use it",
                         max_M, kernel->plan.name, shape->m_min, shape->m_max);
    }
    for (int i = 0; i < group->device_count; i++) {
        const struct group_device *device = &group->devices[i];
        if (!machine_runs(kernel->plan.arch, device->major, device->minor)) {
            return error_set(err, GRS_ERR_ARGUMENT,
                             "%s is compiled for %s, and %s is sm_%d%d (GRS_ARCH, or arch in the "
                             "context's options)",
                             kernel->plan.name, config_arch_name(kernel->plan.arch), device->name, device->major,
                             device->minor);
        }
    }
    return GRS_OK;
}

/* The kernel on every device of the group. */
grs_status group_load_kernel(struct group *group, const grs_kernel *kernel, struct group_kernel **out, grs_error *err) {
    grs_status status = GRS_OK;
    struct group_kernel *loaded = calloc(1, sizeof(*loaded));
    *out = NULL;
    if (loaded == NULL || (loaded->modules = calloc((size_t)group->device_count, sizeof(*loaded->modules))) == NULL) {
        free(loaded);
        return error_set(err, GRS_ERR_MEMORY, "out of memory preparing %s", kernel->plan.name);
    }
    loaded->kernel = kernel;
    for (int i = 0; i < group->device_count && status == GRS_OK; i++) {
        struct group_device *device = &group->devices[i];
        status = group_enter(group, device, err);
        if (status == GRS_OK) {
            status = module_load(group->drv, kernel, device->sm_count, device->rank_count, device->sms, device->name,
                                 &loaded->modules[i], err);
            group_leave(group);
        }
        if (status == GRS_OK && (loaded->wave == 0 || loaded->modules[i].grid < loaded->wave)) {
            loaded->wave = loaded->modules[i].grid;
        }
    }
    if (status != GRS_OK) {
        group_free_kernel(group, loaded);
        return status;
    }
    *out = loaded;
    return GRS_OK;
}

static grs_status reserve(struct group *group, const struct group_kernel *loaded, int64_t max_M, grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < group->tp && status == GRS_OK; rank++) {
        struct grs_comm *comm = &group->ranks[rank];
        struct symm_sizes sizes;
        symm_sizes_of(&loaded->kernel->plan, max_M, loaded->modules[comm->device - group->devices].grid, &sizes);
        status = group_enter(group, comm->device, err);
        if (status == GRS_OK) {
            status = symm_grow(group->drv, &comm->symm, &sizes, comm->device->stream, err);
            group_leave(group);
            if (status != GRS_OK) {
                error_prepend(err, "rank %d on %s, %s for M up to %" PRId64, rank, comm->device->name,
                              loaded->kernel->plan.name, max_M);
            }
        }
    }
    return status;
}

/* Only here the grids are known, and a plan may be proved free of circular waits for some of them only. */
static grs_status check_grids(const struct group *group, const struct group_kernel *loaded, grs_error *err) {
    int grid[GRS_MAX_TP];
    for (int rank = 0; rank < group->tp; rank++) {
        grid[rank] = loaded->modules[group->ranks[rank].device - group->devices].grid;
    }
    return waitgraph_check_grids(&loaded->kernel->plan, grid, err);
}

static grs_status prepare(struct group *group, const grs_kernel *kernel, int64_t max_M, grs_error *err) {
    struct group_kernel *known = (struct group_kernel *)group_find_kernel(group, kernel), *loaded = known;
    grs_status status = GRS_OK;
    if (known != NULL && max_M <= known->max_m) {
        return GRS_OK;
    }
    if (known == NULL && (status = group_load_kernel(group, kernel, &loaded, err)) != GRS_OK) {
        return status;
    }
    if (known == NULL) {
        status = check_grids(group, loaded, err);
    }
    if (status == GRS_OK) {
        status = reserve(group, loaded, max_M, err);
    }
    if (status != GRS_OK) {
        if (known == NULL) {
            group_free_kernel(group, loaded);
        }
        return status;
    }
    loaded->max_m = max_M;
    if (known == NULL) {
        loaded->next = group->kernels;
        group->kernels = loaded;
    }
    log_write(&group->ctx->log, GRS_LOG_DEBUG, "%s prepared for M up to %" PRId64 ": %d CTAs a rank, %zu bytes a rank",
              kernel->plan.name, max_M, loaded->wave, symm_total(&group->ranks[0].symm.sizes));
    return GRS_OK;
}

/* `kernel` may be NULL where the ranks are in several processes. */
static grs_status prepare_checked(grs_comm *comm, const grs_kernel *kernel, int64_t max_M, grs_error *err) {
    struct group *group = comm->group;
    grs_status status = wrong_process(group, err);
    if (status == GRS_OK && comm->staged != NULL) {
        return staged_prepare(comm->staged, kernel, max_M, err);
    }
    if (status == GRS_OK && group->peers != NULL) {
        pthread_mutex_lock(&group->lock);
        status = peers_prepare(comm, kernel, max_M, err);
        pthread_mutex_unlock(&group->lock);
        return status;
    }
    if (status != GRS_OK || (status = group_check_request(group, group->tp, kernel, max_M, err)) != GRS_OK ||
        (status = group_check(comm, err)) != GRS_OK) {
        return status;
    }
    if (max_M > kernel->plan.shape.m_max) { /* no launch of this kernel can have more rows */
        max_M = kernel->plan.shape.m_max;
    }
    pthread_mutex_lock(&group->lock);
    status = prepare(group, kernel, max_M, err);
    pthread_mutex_unlock(&group->lock);
    return status;
}

grs_status grs_comm_prepare(grs_comm *comm, const grs_kernel *kernel, int64_t max_M, grs_error *err) {
    if (comm == NULL || (kernel == NULL && comm->group->peers == NULL && comm->staged == NULL)) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_prepare: %s is NULL", comm == NULL ? "comm" : "kernel");
    }
    bool shown = nvtx_active();
    if (shown) {
        nvtx_push("prepare %s, M up to %" PRId64 ", rank %d", kernel == NULL ? "(no kernel)" : kernel->plan.name, max_M,
                  comm->rank);
    }
    grs_status status = prepare_checked(comm, kernel, max_M, err);
    if (shown) {
        nvtx_pop();
    }
    return status;
}

/* ---------------------------------------------------------------- the rest -------------------------------------- */

int grs_comm_rank(const grs_comm *comm) {
    return comm->rank;
}

int grs_comm_size(const grs_comm *comm) {
    return comm->staged == NULL ? comm->group->tp : staged_size(comm->staged);
}

int grs_comm_device(const grs_comm *comm) {
    return comm->device->ordinal;
}

grs_status grs_comm_check(grs_comm *comm, grs_error *err) {
    if (comm == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_check: comm is NULL");
    }
    if (comm->staged != NULL) {
        return staged_check(comm->staged, err);
    }
    grs_status status = group_check(comm, err);
    if (comm->group->peers == NULL || status == GRS_ERR_TIMEOUT) {
        return status;
    }
    grs_error lost; /* says more than that there was an abort */
    if (peers_check(comm, &lost) == GRS_OK) {
        return status;
    }
    return error_set(err, lost.status, "%s", lost.text);
}

grs_status grs_comm_abort(grs_comm *comm, grs_error *err) {
    if (comm == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_abort: comm is NULL");
    }
    grs_status status = wrong_process(comm->group, err);
    if (status == GRS_OK) {
        status = comm->staged == NULL ? group_abort(comm->group, err) : staged_abort(comm->staged, err);
    }
    return status;
}

grs_status grs_comm_get_path(const grs_comm *comm, grs_path_info *info, grs_error *err) {
    if (comm == NULL || info == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_get_path: %s is NULL", comm == NULL ? "comm" : "info");
    }
    grs_path_info found = {.path = GRS_PATH_FUSED, .nodes = 1, .node_ranks = comm->group->tp, .why = ""};
    if (comm->staged != NULL) {
        staged_path(comm->staged, &found);
    }
    return options_return(info, &found, sizeof(found), "grs_path_info", err);
}

void grs_rows(int64_t M, int tp, int rank, int64_t *first, int64_t *count) {
    int64_t c = tp < 1 ? M : (M + tp - 1) / tp;
    int64_t begin = (int64_t)rank * c, left = M - begin;
    if (first != NULL) {
        *first = begin;
    }
    if (count != NULL) {
        *count = left < 0 ? 0 : (left < c ? left : c);
    }
}
