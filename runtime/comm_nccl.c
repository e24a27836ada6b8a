/* A communicator among the ranks of an ncclComm_t: fused where one kernel can span them, else in stages. */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/nccl_door.h"
#include "runtime/peers.h"
#include "runtime/staged.h"
#include "runtime/told.h"

static const char what[] = "grs_comm_create_nccl";

struct making {
    grs_ctx *ctx;
    const grs_comm_options *options;
    struct nccl_api nccl;
    struct nccl_end world; /* the caller's communicator */
    struct nccl_door door; /* to it: nobody closes it here */
    int rank, ordinal;
    struct nodes nodes;
    struct nodes_hello hello[GRS_MAX_TP];
    struct verdict verdict[GRS_MAX_TP]; /* of the latest step */
    grs_error bootstrap_error;
    bool
        is_cut_off; /* an exchange among all ranks failed here: the others may stand in it, and NCCL's kernel with them */
};

/* What was made and will not be used. Its end would wait for the device, and so for a kernel of NCCL's that may never end: then it is
 * left behind. */
static void drop(const struct making *making, grs_comm *comm) {
    if (!making->is_cut_off) {
        grs_comm_destroy(comm);
    }
}

/* ---------------------------------------------------------------- agreement ------------------------------------- */

/* The verdict on a node: of its ranks, an error other than GRS_ERR_PEER before one, since ranks that another one left alone
 * may know less. NULL: all went well. */
static const struct verdict *verdict_of_node(const struct making *making, int node) {
    const struct verdict *worst = NULL;
    for (int i = 0; i < making->nodes.local; i++) {
        const struct verdict *verdict = &making->verdict[node * making->nodes.local + i];
        bool is_worse = verdict->status != GRS_OK && (worst == NULL || worst->status == GRS_ERR_PEER);
        worst = is_worse ? verdict : worst;
    }
    return worst;
}

/* Everybody tells how the step went, and gets the same answer. */
static grs_status agree(struct making *making, grs_status mine, const grs_error *my_error, grs_error *err) {
    struct verdict verdict;
    struct buf text = {0};
    grs_status all = GRS_OK;
    verdict_set(&verdict, mine, my_error);
    grs_status status = nccl_gather(&making->world, what, &verdict, sizeof(verdict), making->verdict, err);
    making->is_cut_off |= status != GRS_OK;
    if (status == GRS_ERR_PEER) { /* of this rank's, and no verdict that all of them have */
        status = err->status = GRS_ERR_DRIVER;
    }
    for (int rank = 0; rank < making->world.size && status == GRS_OK; rank++) {
        struct verdict *of = &making->verdict[rank];
        of->status = (int32_t)told_status(of->status);
        told_text(of->text, strnlen(of->text, sizeof(of->text) - 1));
    }
    for (int node = 0; node < making->nodes.count && status == GRS_OK; node++) {
        const struct verdict *of = verdict_of_node(making, node);
        if (of == NULL) {
            continue;
        }
        all = all == GRS_OK || all == GRS_ERR_PEER ? (grs_status)of->status : all;
        buf_puts(&text, text.length > 0 ? "\n" : "");
        if (making->nodes.count > 1) {
            buf_printf(&text, "node %d (%s): ", node, making->hello[node * making->nodes.local].name);
        }
        buf_puts(&text, of->text);
    }
    if (status == GRS_OK && all != GRS_OK) {
        status = error_set(err, all, "%s", text.data == NULL ? "out of memory" : text.data);
    }
    buf_free(&text);
    return status;
}

/* ---------------------------------------------------------------- the parts ------------------------------------- */

static int gather_by_nccl(void *arg, const void *mine, size_t bytes, void *all) {
    struct nccl_end *end = ((void **)arg)[0];
    struct making *making = ((void **)arg)[1];
    return (int)nccl_gather(end, what, mine, bytes, all, &making->bootstrap_error);
}

/* The fused group of this rank's node. */
static grs_status make_group(struct making *making, grs_comm **out, grs_error *err) {
    int local = making->nodes.local;
    struct nccl_end node = making->world;
    struct nccl_door door;
    ncclComm_t own = NULL;
    void *arg[] = {&node, making};
    if (making->nodes.count > 1) {
        grs_status status = nccl_split(&making->world, making->rank / local, making->rank % local, &own, err);
        if (status != GRS_OK) {
            return err->status = status == GRS_ERR_PEER ? GRS_ERR_DRIVER : status;
        }
        nccl_door_init(&door, own);
        node.door = &door;
        node.size = local;
    }
    const grs_bootstrap bootstrap = {.size = sizeof(bootstrap), .arg = arg, .all_gather = gather_by_nccl};
    grs_status status = peers_create(making->ctx, making->rank % local, local, making->ordinal, &bootstrap,
                                     &making->bootstrap_error, making->options, out, err);
    if (own != NULL) {
        nccl_door_end(&door);
    }
    if (own != NULL && status != GRS_ERR_TIMEOUT) { /* which leaves a call pending */
        making->nccl.destroy(own);
    }
    return status;
}

/* This rank's own group, where kernels cannot span ranks. */
static grs_status make_alone(struct making *making, grs_comm **out, grs_error *err) {
    grs_error own_error;
    grs_status mine = grs_comm_create_local(making->ctx, 1, &making->ordinal, making->options, out, &own_error);
    return agree(making, mine, &own_error, err);
}

static grs_status make_staged(struct making *making, grs_comm *inner, grs_comm **out, grs_error *err) {
    ncclComm_t across = NULL;
    grs_comm *made = NULL;
    grs_error own_error;
    int local = making->nodes.local;
    grs_status mine = nccl_split(&making->world, making->rank % local, making->rank / local, &across, &own_error);
    if (mine == GRS_OK) {
        mine = staged_make(inner, &making->nodes, making->hello, making->rank, &making->nccl, across,
                           making->world.seconds, &made, &own_error);
    } else {
        drop(making, inner);
    }
    grs_status status = agree(making, mine, &own_error, err);
    if (status != GRS_OK) {
        drop(making, made);
        return status;
    }
    *out = made;
    return GRS_OK;
}

/* ---------------------------------------------------------------- the whole ------------------------------------- */

static void tell(const struct making *making) {
    const struct log *log = &making->ctx->log;
    if (making->nodes.local > 1) {
        log_write(log, GRS_LOG_INFO, "rank %d of %d: %d nodes of %d ranks: a kernel within each, NCCL between them",
                  making->rank, making->world.size, making->nodes.count, making->nodes.local);
    } else {
        log_write(log, GRS_LOG_WARN,
                  "rank %d of %d: unfused, every rank's product and then ncclReduceScatter, with nothing hidden: %s",
                  making->rank, making->world.size, making->nodes.why);
    }
}

static grs_status make(struct making *making, grs_comm **out, grs_error *err) {
    struct nodes_hello mine;
    grs_comm *inner = NULL;
    grs_error own_error;
    nodes_hello_init(&mine, making->rank);
    grs_status status = nccl_gather(&making->world, what, &mine, sizeof(mine), making->hello, err);
    if (status != GRS_OK || (status = nodes_check(making->hello, making->world.size, err)) != GRS_OK) {
        return status;
    }
    nodes_decide(making->hello, making->world.size, &making->nodes);
    bool has_group = making->nodes.local > 1 || making->nodes.count == 1;
    if (has_group) {
        status = make_group(making, &inner, &own_error);
        if (status != GRS_OK && making->bootstrap_error.status == GRS_ERR_TIMEOUT) { /* an all-gather is pending */
            return error_set(err, status, "%s", own_error.text);
        }
        status = agree(making, status, &own_error, err);
        if (status != GRS_OK) {
            drop(making, inner);
            inner = NULL;
        }
        if (status == GRS_ERR_PEER && making->world.size > 1) { /* no fused group on some node: none anywhere */
            nodes_scatter(making->world.size, err->text, &making->nodes);
            error_clear(err);
        } else if (status != GRS_OK) {
            return status;
        }
    }
    if (inner == NULL && (status = make_alone(making, &inner, err)) != GRS_OK) {
        drop(making, inner);
        return status;
    }
    if (making->nodes.count == 1) {
        *out = inner;
        return GRS_OK;
    }
    status = make_staged(making, inner, out, err);
    if (status == GRS_OK) {
        tell(making);
    }
    return status;
}

grs_status grs_comm_create_nccl(grs_ctx *ctx, void *nccl_comm, const grs_comm_options *options, grs_comm **out,
                                grs_error *err) {
    grs_error own;
    err = err == NULL ? &own : err;
    if (ctx == NULL || nccl_comm == NULL || out == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_comm_create_nccl: %s is NULL",
                         ctx == NULL ? "ctx" : (nccl_comm == NULL ? "nccl_comm" : "out"));
    }
    *out = NULL;
    error_clear(err);
    struct making *making = calloc(1, sizeof(*making));
    if (making == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for %d ranks", GRS_MAX_TP);
    }
    making->ctx = ctx;
    making->options = options;
    struct nccl_api *nccl = &making->nccl;
    struct nccl_end *world = &making->world;
    nccl_door_init(&making->door, nccl_comm);
    *world = (struct nccl_end){.nccl = nccl, .drv = driver_get(err), .door = &making->door};
    grs_status status = world->drv == NULL ? err->status : peers_setup_seconds(options, &world->seconds, err);
    if (status == GRS_OK && (status = nccl_load(nccl, err)) == GRS_OK &&
        (status = nccl_check(nccl, nccl->count(nccl_comm, &world->size), "ncclCommCount", err)) == GRS_OK &&
        (status = nccl_check(nccl, nccl->rank(nccl_comm, &making->rank), "ncclCommUserRank", err)) == GRS_OK) {
        status = nccl_check(nccl, nccl->device(nccl_comm, &making->ordinal), "ncclCommCuDevice", err);
    }
    if (status == GRS_OK && (world->size < 1 || world->size > GRS_MAX_TP)) {
        status =
            error_set(err, GRS_ERR_ARGUMENT, "the ncclComm_t has %d ranks; allowed: 1 to %d (split it: ncclCommSplit)",
                      world->size, GRS_MAX_TP);
    }
    if (status == GRS_OK) {
        CUresult result = world->drv->cuDeviceGet(&world->device, making->ordinal);
        status = result == CUDA_SUCCESS ? make(making, out, err)
                                        : driver_error(world->drv, err, result,
                                                       "cuDeviceGet(%d, the GPU of the ncclComm_t)", making->ordinal);
    }
    nccl_door_end(&making->door);
    free(making);
    return status;
}
