#include "runtime/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/options.h"
#include "runtime/told.h"

#define DEFAULT_SETUP_SECONDS 120.0

grs_status peers_setup_seconds(const grs_comm_options *options, double *out, grs_error *err) {
    grs_comm_options known;
    *out = DEFAULT_SETUP_SECONDS;
    grs_status status = options_copy(&known, sizeof(known), options, "grs_comm_options", err);
    if (status != GRS_OK || (status = options_number("GRS_SETUP_DEADLINE", 0.01, 1e6, out, err)) != GRS_OK) {
        return status;
    }
    if (known.setup_seconds != 0) {
        *out = known.setup_seconds;
    }
    return *out > 0 && *out <= 1e6
               ? GRS_OK
               : error_set(err, GRS_ERR_ARGUMENT, "setup_seconds: allowed: more than 0 and up to 1000000");
}

/* ---------------------------------------------------------------- verdicts -------------------------------------- */

void verdict_set(struct verdict *out, grs_status status, const grs_error *err) {
    memset(out, 0, sizeof(*out));
    out->status = (int32_t)status;
    if (status != GRS_OK) {
        snprintf(out->text, sizeof(out->text), "%.*s", (int)sizeof(out->text) - 1, err->text);
    }
}

struct verdicts {
    const struct mesh *mesh;
    struct verdict of[];
};

static grs_status get_verdict(const void *arg, int rank, const char **text) {
    const struct verdict *verdict = &((const struct verdicts *)arg)->of[rank];
    *text = verdict->text;
    return told_status(verdict->status);
}

static const char *get_name(const void *arg, int rank) {
    return ((const struct verdicts *)arg)->mesh->name[rank];
}

grs_status peers_agree(struct group *group, const char *what, grs_status mine, const grs_error *my_error,
                       struct mesh_files *files, const struct deadline *deadline, grs_error *err) {
    struct mesh *mesh = &group->peers->mesh;
    struct verdict verdict;
    verdict_set(&verdict, mine, my_error);
    struct verdicts *all = calloc(1, sizeof(*all) + (size_t)group->tp * sizeof(all->of[0]));
    if (all == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the answers of %d ranks", group->tp);
    }
    all->mesh = mesh;
    grs_status status = mesh_exchange(mesh, what, &verdict, sizeof(verdict), all->of, files, deadline, err);
    if (status == GRS_OK) {
        for (int rank = 0; rank < group->tp; rank++) {
            all->of[rank].text[sizeof(all->of[rank].text) - 1] = '\0';
        }
        status = agree_errors(group->tp, get_verdict, get_name, all, err);
    }
    free(all);
    return status;
}

/* ---------------------------------------------------------------- who is there ---------------------------------- */

grs_status peers_check(struct grs_comm *comm, grs_error *err) {
    struct group *group = comm->group;
    int lost = mesh_find_lost(&group->peers->mesh);
    if (lost < 0) {
        return GRS_OK;
    }
    if (!atomic_exchange_explicit(&group->lost, true, memory_order_relaxed)) {
        group_abort(group, NULL); /* what waits for that rank would wait until its deadline */
    }
    return error_set(err, GRS_ERR_PEER, "%s ended without destroying its communicator", group->peers->mesh.name[lost]);
}

/* ---------------------------------------------------------------- the end --------------------------------------- */

void peers_leave(struct peers *peers) {
    mesh_leave(&peers->mesh);
}

void peers_free_board(struct group *group) {
    if (group->peers->registered) {
        group->drv->cuMemHostUnregister(group->host);
    }
    munmap(group->host, group->peers->board_bytes);
    group->host = NULL;
}

void peers_free(struct peers *peers) {
    if (peers != NULL) {
        mesh_close(&peers->mesh);
        free(peers);
    }
}
