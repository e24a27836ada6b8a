/* The life of a communicator over several nodes, launches and their preparation aside. */
#include "runtime/staged.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/peers.h"

int staged_size(const struct staged *staged) {
    return staged->size;
}

int64_t staged_segment_rows(const struct staged *staged, int64_t M) {
    return (M + staged->size - 1) / staged->size;
}

int64_t staged_inner_rows(const struct staged *staged, int64_t M) {
    return nodes_rows(M, staged->size, staged->nodes.local);
}

void staged_path(const struct staged *staged, grs_path_info *out) {
    out->path = staged->nodes.local == 1 ? GRS_PATH_UNFUSED : GRS_PATH_STAGED;
    out->nodes = staged->nodes.count;
    out->node_ranks = staged->nodes.local;
    out->why = staged->nodes.why;
}

struct staged_kernel *staged_find_kernel(const struct staged *staged, const grs_kernel *kernel) {
    struct staged_kernel *found = staged->kernels;
    while (found != NULL && found->kernel != kernel) {
        found = found->next;
    }
    return found;
}

/* ---------------------------------------------------------------- life ------------------------------------------ */

grs_status staged_make(struct grs_comm *inner, const struct nodes *nodes, const struct nodes_hello *hello, int rank,
                       const struct nccl_api *nccl, ncclComm_t across, double setup_seconds, grs_comm **out,
                       grs_error *err) {
    /* Tensor maps inside want more than malloc's alignment. */
    struct staged *staged = aligned_alloc(_Alignof(struct staged), sizeof(*staged));
    struct staged_name *names = calloc((size_t)nodes->count, sizeof(*names));
    if (staged == NULL || names == NULL) {
        free(staged);
        free(names);
        if (across != NULL) {
            nccl->destroy(across);
        }
        grs_comm_destroy(inner);
        return error_set(err, GRS_ERR_MEMORY, "out of memory for a communicator of %d nodes", nodes->count);
    }
    memset(staged, 0, sizeof(*staged));
    staged->handle =
        (struct grs_comm){.group = inner->group, .rank = rank, .device = inner->device, .staged = staged, .open = true};
    staged->inner = inner;
    staged->nodes = *nodes;
    staged->names = names;
    for (int node = 0; node < nodes->count; node++) {
        memcpy(names[node].text, hello[node * nodes->local].name, sizeof(names[node].text));
    }
    staged->size = nodes->count * nodes->local;
    staged->nccl = *nccl;
    staged->setup_seconds = setup_seconds;
    nccl_door_init(&staged->across, across);
    pthread_mutex_init(&staged->lock, NULL);
    *out = &staged->handle;
    return GRS_OK;
}

/* Seconds for calls of other threads to leave NCCL before its communicator is ended. */
#define PATIENCE 1.0

/* After an abort NCCL's kernels may wait for ranks that never come: they are ended before anything is waited for. */
static void end_nccl(struct staged *staged) {
    grs_error err;
    bool well = staged_check(staged, &err) == GRS_OK;
    ncclComm_t across = nccl_door_close(&staged->across, PATIENCE);
    const struct group *group = staged->inner->group;
    if (across == NULL || group_enter(group, staged->inner->device, NULL) != GRS_OK) {
        return;
    }
    if (!well) {
        staged->nccl.abort(across);
    } else {
        group->drv->cuCtxSynchronize(); /* a failure was some kernel's, and freeing is still right */
        staged->nccl.destroy(across);
    }
    group_leave(group);
}

void staged_free(struct staged *staged) {
    struct grs_comm *inner = staged->inner;
    const struct group *group = inner->group;
    end_nccl(staged);
    if (group_enter(group, inner->device, NULL) == GRS_OK) {
        const CUdeviceptr pointers[] = {staged->work, staged->share};
        group->drv->cuCtxSynchronize();
        for (int i = 0; i < 2; i++) {
            if (pointers[i] != 0) {
                group->drv->cuMemFree(pointers[i]);
            }
        }
        for (struct staged_block *block = staged->retired, *next; block != NULL; block = next) {
            next = block->next;
            group->drv->cuMemFree(block->pointer);
            free(block);
        }
        group_leave(group);
    }
    while (staged->kernels != NULL) {
        struct staged_kernel *kernel = staged->kernels;
        staged->kernels = kernel->next;
        free(kernel);
    }
    pthread_mutex_destroy(&staged->lock);
    nccl_door_end(&staged->across);
    free(staged->names);
    free(staged);
    grs_comm_destroy(inner);
}

/* ---------------------------------------------------------------- what went wrong ------------------------------- */

/* Ranks are numbered within the node in what its group says. */
static grs_status of_node(const struct staged *staged, grs_status status, grs_error *err) {
    int local = staged->nodes.local, node = staged->handle.rank / local;
    if (status != GRS_OK && local == 1) {
        error_prepend(err, "rank %d, of which what follows speaks as rank 0", staged->handle.rank);
    } else if (status != GRS_OK) {
        error_prepend(err, "node %d, whose ranks %d to %d are 0 to %d in what follows", node, node * local,
                      node * local + local - 1, local - 1);
    }
    return status;
}

grs_status staged_check(struct staged *staged, grs_error *err) {
    grs_status status = grs_comm_check(staged->inner, err);
    bool is_vague =
        status == GRS_OK || status == GRS_ERR_STATE; /* an abort may be what came of the other node's failure */
    if (is_vague && staged_told(staged, status == GRS_OK, err) != GRS_OK) {
        return GRS_ERR_PEER;
    }
    if (status != GRS_OK) {
        return of_node(staged, status, err);
    }
    int error = nccl_door_ask(&staged->across, &staged->nccl);
    if (error != NCCL_SUCCESS && error != NCCL_IN_PROGRESS && error != NCCL_CLOSED) {
        return error_set(err, GRS_ERR_PEER, "rank %d: NCCL between the nodes: %s", staged->handle.rank,
                         staged->nccl.error_text(error));
    }
    return GRS_OK;
}

void staged_cut_off(struct staged *staged) {
    ncclComm_t across = nccl_door_close(&staged->across, PATIENCE);
    if (across != NULL) {
        staged->nccl.abort(across);
    }
}

grs_status staged_abort(struct staged *staged, grs_error *err) {
    grs_status status = group_abort(staged->inner->group, err);
    ncclComm_t across = nccl_door_close(&staged->across, PATIENCE);
    if (across != NULL) {
        int code = staged->nccl.abort(across);
        grs_status mine = nccl_check(&staged->nccl, code, "ncclCommAbort", status == GRS_OK ? err : NULL);
        status = status == GRS_OK ? mine : status;
    }
    return status;
}
