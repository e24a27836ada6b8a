#include "tools/grsrun_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/hello.h"
#include "runtime/peers.h"
#include "runtime/rendezvous.h"
#include "runtime/told.h"
#include "tools/grsrun_nccl.h"

/* What every rank says before it calls NCCL. */
struct greeting {
    struct verdict verdict; /* how it has fared so far */
    ncclUniqueId id;        /* rank 0's */
    CUuuid gpu;
    int32_t may_share; /* its GPU, with ranks of which the same is true */
};
_Static_assert(sizeof(struct greeting) <= RENDEZVOUS_MAX_BYTES, "a greeting is too long for the rendezvous");

static bool is_set(const char *name) {
    const char *text = getenv(name);
    return text && *text;
}

static grs_status check(const struct world *world, int status, const char *what, grs_error *err) {
    return status ? error_set(err, GRS_ERR_PEER, "%s: %s", what, world->error_text(status)) : GRS_OK;
}

static grs_status open_library(struct world *out, grs_error *err) {
    const struct library_symbol symbols[] = {
#define NCCL_SYMBOL(member, symbol, parameters) {#symbol, &out->member, false},
        NCCL_API_PROCESSES(NCCL_SYMBOL)
#undef NCCL_SYMBOL
            {"ncclGetErrorString", &out->error_text, false},
    };
    return nccl_symbols(symbols, sizeof(symbols) / sizeof(symbols[0]), err);
}

/* What this rank can say of itself, or why it cannot go on. */
static grs_status prepare(const struct environment *environment, const struct device *device, struct world *out,
                          struct greeting *greeting, grs_error *err) {
    grs_status status = open_library(out, err);
    status =
        status ? status
               : device_check(device, device->drv->cuDeviceGetUuid(&greeting->gpu, device->id), "cuDeviceGetUuid", err);
    if (!status && environment->rank == 0) {
        status = device_use(device, err);
        status = status ? status : check(out, out->get_unique_id(&greeting->id), "ncclGetUniqueId", err);
    }
    return status;
}

/* ---------------------------------------------------------------- judging what came ----------------------------- */

static grs_status get_status(const void *arg, int rank, const char **text) {
    const struct verdict *verdict = &((const struct greeting *)arg)[rank].verdict;
    *text = verdict->text;
    return told_status(verdict->status);
}
static const char *get_name(const void *arg, int rank) {
    static _Thread_local char name[32];
    (void)arg;
    snprintf(name, sizeof(name), "rank %d", rank);
    return name;
}

/* The same on every rank. */
static grs_status judge(struct greeting *all, int size, grs_error *err) {
    for (int rank = 0; rank < size; rank++) {
        char *text = all[rank].verdict.text;
        told_text(text, strnlen(text, sizeof(all->verdict.text) - 1));
    }
    grs_status status = agree_errors(size, get_status, get_name, all, err);
    for (int rank = 0; rank < size && !status; rank++) {
        for (int before = 0; before < rank && !status; before++) {
            if (!memcmp(&all[before].gpu, &all[rank].gpu, sizeof(all->gpu)) &&
                (!all[before].may_share || !all[rank].may_share)) {
                status = error_set(err, GRS_ERR_ARGUMENT, "--nodes needs a GPU a rank: ranks %d and %d are on the same",
                                   before, rank);
            }
        }
    }
    return status;
}

/* ---------------------------------------------------------------- the meeting ----------------------------------- */

static grs_status exchange(const struct environment *environment, const struct greeting *mine, struct greeting *all,
                           grs_error *err) {
    struct rendezvous rendezvous;
    double seconds;
    grs_status status = peers_setup_seconds(NULL, &seconds, err);
    if (status) {
        return status;
    }
    status = rendezvous_open(&rendezvous, environment->address, environment->port, environment->token,
                             environment->rank, environment->size, seconds, err);
    if (!status && rendezvous_all_gather(&rendezvous, mine, sizeof(*mine), all)) {
        status = error_set(err, rendezvous.error.status, "%s", rendezvous.error.text);
    }
    rendezvous_close(&rendezvous);
    return status;
}

static void choose_node(const struct environment *environment, int nodes) {
    char name[32];
    if (!is_set("GRS_NODE")) {
        snprintf(name, sizeof(name), "node%d", environment->rank / (environment->size / nodes));
        setenv("GRS_NODE", name, 1);
    }
}

grs_status world_join(const struct environment *environment, int nodes, const struct device *device, grs_status mine,
                      const grs_error *my_error, struct world *out, grs_error *err) {
    struct greeting greeting = {.may_share = is_set("NCCL_HOSTID")};
    grs_error own;
    struct greeting *all = calloc((size_t)environment->size, sizeof(*all));
    if (!all) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the greetings of %d ranks", environment->size);
    }
    if (!mine) {
        my_error = &own;
        mine = prepare(environment, device, out, &greeting, &own);
    }
    verdict_set(&greeting.verdict, mine, my_error);
    grs_status status = exchange(environment, &greeting, all, err);
    status = status ? status : judge(all, environment->size, err);
    if (!status && !(status = device_use(device, err))) {
        choose_node(environment, nodes);
        status = check(out, out->init_rank(&out->comm, environment->size, all[0].id, environment->rank),
                       "ncclCommInitRank (NCCL_DEBUG=WARN says more)", err);
    }
    free(all);
    return status;
}

void world_leave(struct world *world, bool failed) {
    if (world->comm) {
        (failed ? world->abort : world->destroy)(world->comm);
    }
    *world = (struct world){0};
}

/* ---------------------------------------------------------------- what came of it ------------------------------- */

void world_path_text(const grs_path_info *info, int tp, struct buf *out) {
    switch (info->path) {
    case GRS_PATH_FUSED: buf_printf(out, "# fused: one kernel over all %d ranks", tp); break;
    case GRS_PATH_STAGED:
        buf_printf(out,
                   "# staged: a kernel over the %d ranks of each of %d nodes, then ncclReduceScatter between the nodes",
                   info->node_ranks, info->nodes);
        break;
    case GRS_PATH_UNFUSED:
        buf_printf(out, "# unfused: every rank's product, then ncclReduceScatter over all %d: ", tp);
        for (const char *at = info->why; *at; at++) { /* a line for each node that says something */
            buf_append(out, *at == '\n' ? "\n#   " : at, *at == '\n' ? 5 : 1);
        }
        break;
    }
    buf_puts(out, "\n");
}
