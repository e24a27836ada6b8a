/* grs_comm_prepare over several nodes: every step is taken by all ranks or by none. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "runtime/peers.h"
#include "runtime/staged.h"
#include "runtime/told.h"

static const char what[] = "grs_comm_prepare";

/* What a rank would prepare. Texts are NUL-terminated. */
struct proposal {
    struct verdict verdict;
    char shape[128];
    char keys[HASH_HEX_LENGTH + 1]; /* digest of the keys of all kernels that are needed */
    int64_t max_m;
};

/* ---------------------------------------------------------------- exchange among all ranks ---------------------- */

static struct nccl_end end_between_nodes(struct staged *staged) {
    return (struct nccl_end){.nccl = &staged->nccl,
                             .drv = staged->inner->group->drv,
                             .door = &staged->across,
                             .size = staged->nodes.count,
                             .device = staged->inner->device->device,
                             .seconds = staged->setup_seconds};
}

/* Within the node over the group's sockets, then between nodes over NCCL; nodes are in the order of ranks. */
static grs_status exchange(struct staged *staged, const void *mine, size_t bytes, void *all, grs_error *err) {
    const struct group *group = staged->inner->group;
    int local = staged->nodes.local;
    const struct nccl_end end = end_between_nodes(staged);
    if (nccl_door_ask(end.door, end.nccl) == NCCL_CLOSED) { /* the node's others need not wait for it */
        return error_set(err, GRS_ERR_STATE, "rank %d: the communicator was aborted", staged->handle.rank);
    }
    if (local == 1) {
        return nccl_gather(&end, what, mine, bytes, all, err);
    }
    struct deadline deadline = deadline_in(staged->setup_seconds);
    char *node = malloc(bytes * (size_t)local);
    if (node == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the answers of %d ranks", local);
    }
    grs_status status = mesh_exchange(&group->peers->mesh, what, mine, bytes, node, NULL, &deadline, err);
    status = status == GRS_OK ? nccl_gather(&end, what, node, bytes * (size_t)local, all, err) : status;
    free(node);
    return status;
}

/* ---------------------------------------------------------------- agreement ------------------------------------- */

static const struct proposal *proposal_of(const void *arg, int rank) {
    return &((const struct proposal *)arg)[rank];
}
static void get_shape(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%s", proposal_of(arg, rank)->shape);
}
static void get_keys(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%.12s", proposal_of(arg, rank)->keys);
}
static void get_max_m(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%" PRId64, proposal_of(arg, rank)->max_m);
}
static grs_status get_status(const void *arg, int rank, const char **text) {
    const struct verdict *verdict = &proposal_of(arg, rank)->verdict;
    *text = verdict->text;
    return told_status(verdict->status);
}
static const char *get_name(const void *arg, int rank) {
    static _Thread_local char name[32];
    (void)arg;
    snprintf(name, sizeof(name), "rank %d", rank);
    return name;
}

static grs_status judge(struct proposal *all, int size, grs_error *err) {
    struct buf text = {0};
    for (int rank = 0; rank < size; rank++) {
        struct proposal *of = &all[rank];
        told_text(of->verdict.text, strnlen(of->verdict.text, sizeof(of->verdict.text) - 1));
        told_text(of->shape, strnlen(of->shape, sizeof(of->shape) - 1));
        told_text(of->keys, strnlen(of->keys, sizeof(of->keys) - 1));
    }
    grs_status status = agree_errors(size, get_status, get_name, all, err);
    if (status != GRS_OK) {
        return status;
    }
    if (!agree_differ("kernel", size, get_shape, all, &text)) {
        agree_differ("kernel keys (config, templates or compiler are not the same)", size, get_keys, all, &text);
    }
    agree_differ("max_M", size, get_max_m, all, &text);
    if (text.length > 0) {
        status = error_set(err, GRS_ERR_PEER, "%s: the ranks differ: %s", what,
                           text.data == NULL ? "out of memory" : text.data);
    }
    buf_free(&text);
    return status;
}

/* Every rank tells what it proposes, and how it went so far; each gets the same answer. */
static grs_status agree(struct staged *staged, struct proposal *mine, grs_status status, const grs_error *my_error,
                        grs_error *err) {
    struct proposal *all = calloc((size_t)staged->size, sizeof(*all));
    if (all == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the answers of %d ranks", staged->size);
    }
    verdict_set(&mine->verdict, status, my_error);
    status = exchange(staged, mine, sizeof(*mine), all, err);
    if (status != GRS_OK) {
        staged_cut_off(staged);
    }
    status = status == GRS_OK ? judge(all, staged->size, err) : status;
    free(all);
    return status;
}

/* ---------------------------------------------------------------- this rank alone ------------------------------- */

/* The kernels within the node for launches of `kernel` with up to max_m rows, ascending. */
struct inner {
    int count;
    const grs_kernel *kernel[CLASSES_MAX];
    int64_t last; /* rows of the largest launch within the node */
};

static grs_status find_inner(const struct staged *staged, const grs_kernel *kernel, int64_t max_m, struct inner *out,
                             grs_error *err) {
    const struct plan_shape *shape = &kernel->plan.shape;
    int local = staged->nodes.local;
    grs_ctx *ctx = staged->inner->group->ctx;
    out->count = 0;
    out->last = staged_inner_rows(staged, max_m);
    for (int64_t rows = staged_inner_rows(staged, shape->m_min); rows <= out->last;) {
        const grs_kernel *found;
        if (out->count == CLASSES_MAX) {
            return error_set(err, GRS_ERR_PLAN, "%s needs more than %d kernels of tp %d", kernel->plan.name,
                             CLASSES_MAX, local);
        }
        grs_status status = grs_ctx_get(ctx, rows, shape->n, shape->k, local, &found, err);
        if (status != GRS_OK) {
            error_prepend(err, "the kernel of tp %d that %s needs within a node", local, kernel->plan.name);
            return status;
        }
        out->kernel[out->count++] = found;
        rows = nodes_rows_beyond(found->plan.shape.m_max, local);
    }
    return GRS_OK;
}

static grs_status propose(struct staged *staged, const grs_kernel *kernel, int64_t max_M, struct inner *inner,
                          struct proposal *out, grs_error *err) {
    struct buf text = {0};
    grs_status status;
    if (kernel == NULL) {
        const grs_error *why = grs_last_error();
        return why->status != GRS_OK ? error_set(err, why->status, "%s", why->text)
                                     : error_set(err, GRS_ERR_ARGUMENT, "grs_comm_prepare: kernel is NULL");
    }
    out->max_m = max_M < kernel->plan.shape.m_max ? max_M : kernel->plan.shape.m_max;
    if ((status = group_check_request(staged->inner->group, staged->size, kernel, max_M, err)) != GRS_OK ||
        (status = staged_check(staged, err)) != GRS_OK ||
        (status = find_inner(staged, kernel, out->max_m, inner, err)) != GRS_OK) {
        return status;
    }
    kernel_shape_text(&kernel->plan, &text);
    snprintf(out->shape, sizeof(out->shape), "%s", text.data == NULL ? "" : text.data);
    buf_free(&text);
    buf_printf(&text, "%s", kernel->key);
    for (int i = 0; i < inner->count; i++) {
        buf_printf(&text, " %s", inner->kernel[i]->key);
    }
    status =
        text.failed ? error_set(err, GRS_ERR_MEMORY, "out of memory for the keys of %d kernels", inner->count) : GRS_OK;
    if (status == GRS_OK) {
        hash_sha256_hex(text.data, text.length, out->keys);
    }
    buf_free(&text);
    return status;
}

/* ---------------------------------------------------------------- memory ---------------------------------------- */

/* One buffer, zeros at first: what no launch has written may be summed, and must be numbers. With the context current. */
static grs_status grow(struct staged *staged, CUdeviceptr *pointer, size_t *have, size_t bytes, grs_error *err) {
    const struct driver *drv = staged->inner->group->drv;
    CUstream stream = staged->inner->device->stream;
    CUdeviceptr fresh = 0;
    if (bytes <= *have) {
        return GRS_OK;
    }
    struct staged_block *block = malloc(sizeof(*block));
    if (block == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory");
    }
    CUresult result = drv->cuMemAlloc(&fresh, bytes);
    if (result != CUDA_SUCCESS) {
        free(block);
        return driver_error(drv, err, result, "cuMemAlloc(%zu bytes for the sums of a node)", bytes);
    }
    result = drv->cuMemsetD8Async(fresh, 0, bytes, stream);
    result = result == CUDA_SUCCESS ? drv->cuStreamSynchronize(stream) : result;
    if (result != CUDA_SUCCESS) {
        free(block);
        drv->cuMemFree(fresh);
        return driver_error(drv, err, result, "cuMemsetD8Async(%zu bytes for the sums of a node)", bytes);
    }
    *block = (struct staged_block){*pointer, staged->retired};
    if (*pointer != 0) {
        staged->retired = block;
    } else {
        free(block);
    }
    *pointer = fresh;
    *have = bytes;
    return GRS_OK;
}

static grs_status reserve(struct staged *staged, const struct plan_shape *shape, int64_t max_m, grs_error *err) {
    const struct group *group = staged->inner->group;
    size_t bytes = (size_t)(staged_segment_rows(staged, max_m) * shape->n) * 2;
    grs_status status = group_enter(group, staged->inner->device, err);
    if (status == GRS_OK) {
        status = grow(staged, &staged->work, &staged->work_bytes, bytes * (size_t)staged->nodes.count, err);
        status = status == GRS_OK ? grow(staged, &staged->share, &staged->share_bytes, bytes, err) : status;
        group_leave(group);
    }
    return status;
}

/* NCCL connects its ranks at the first call: not in the first launch, which may be under capture. */
static grs_status warm_up(struct staged *staged, const struct plan_shape *shape, int64_t max_m, grs_error *err) {
    const struct group *group = staged->inner->group;
    const struct nccl_end end = end_between_nodes(staged);
    CUstream stream = NULL; /* of its own: aborts must not stand behind it */
    grs_status status = group_enter(group, staged->inner->device, err);
    if (status != GRS_OK) {
        return status;
    }
    CUresult result = group->drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) {
        status = driver_error(group->drv, err, result, "cuStreamCreate(for NCCL)");
    } else {
        status = staged_exchange(staged, false, staged->share, (size_t)(staged_segment_rows(staged, max_m) * shape->n),
                                 stream, err);
        status = status == GRS_OK ? nccl_wait(&end, what, stream, err) : status;
        if (status == GRS_OK || group->drv->cuStreamQuery(stream) == CUDA_SUCCESS) {
            group->drv->cuStreamDestroy(stream);
        }
    }
    group_leave(group);
    return status;
}

/* ---------------------------------------------------------------- prepare --------------------------------------- */

/* The largest class first, so that little memory is replaced. */
static grs_status prepare_inner(struct staged *staged, const struct inner *inner, struct staged_kernel *out,
                                grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = inner->count - 1; i >= 0 && status == GRS_OK; i--) {
        int64_t most = inner->kernel[i]->plan.shape.m_max;
        status = grs_comm_prepare(staged->inner, inner->kernel[i], inner->last < most ? inner->last : most, err);
        out->inner[i] = group_find_kernel(staged->inner->group, inner->kernel[i]);
    }
    out->count = inner->count;
    return status;
}

static grs_status prepare(struct staged *staged, const grs_kernel *kernel, int64_t max_M, grs_error *err) {
    struct proposal proposal = {0};
    struct inner inner = {0};
    grs_error my_error;
    grs_status mine = propose(staged, kernel, max_M, &inner, &proposal, &my_error);
    struct staged_kernel *known = staged_find_kernel(staged, kernel), *made = NULL;
    if (mine == GRS_OK && (made = calloc(1, sizeof(*made))) == NULL) {
        mine = error_set(&my_error, GRS_ERR_MEMORY, "out of memory preparing %s", kernel->plan.name);
    }
    grs_status status = agree(staged, &proposal, mine, &my_error, err);
    if (status != GRS_OK || (known != NULL && proposal.max_m <= known->max_m)) {
        free(made);
        return status;
    }
    made->kernel = kernel;
    made->max_m = proposal.max_m;
    mine = prepare_inner(staged, &inner, made, &my_error);
    mine = mine == GRS_OK ? reserve(staged, &kernel->plan.shape, proposal.max_m, &my_error) : mine;
    status = agree(staged, &proposal, mine, &my_error, err);
    if (status == GRS_OK) {
        mine = warm_up(staged, &kernel->plan.shape, proposal.max_m, &my_error);
        status = agree(staged, &proposal, mine, &my_error, err);
    }
    if (status != GRS_OK) {
        free(made);
        return status;
    }
    if (known != NULL) {
        made->next = known->next;
        *known = *made;
        free(made);
    } else {
        made->next = staged->kernels;
        staged->kernels = made;
    }
    log_write(&staged->inner->group->ctx->log, GRS_LOG_DEBUG,
              "rank %d: %s prepared for M up to %" PRId64 ": %d kernel%s of tp %d, %zu bytes for NCCL",
              staged->handle.rank, kernel->plan.name, proposal.max_m, inner.count, inner.count == 1 ? "" : "s",
              staged->nodes.local, staged->work_bytes + staged->share_bytes);
    return GRS_OK;
}

grs_status staged_prepare(struct staged *staged, const grs_kernel *kernel, int64_t max_M, grs_error *err) {
    grs_error own;
    pthread_mutex_lock(&staged->lock);
    grs_status status = prepare(staged, kernel, max_M, err == NULL ? &own : err);
    pthread_mutex_unlock(&staged->lock);
    return status;
}
