/* grs_comm_prepare among processes: every step is taken by all ranks or by none. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/waitgraph.h"
#include "runtime/peers.h"
#include "runtime/told.h"

static const char what[] = "grs_comm_prepare";

/* What a rank would prepare. Texts are NUL-terminated. */
struct proposal {
    struct verdict verdict;
    char version[96];
    char key[HASH_HEX_LENGTH + 1];
    char shape[128];
    int64_t max_m;
    int32_t grid;
};

struct proposals {
    const struct mesh *mesh;
    struct proposal of[];
};

/* ---------------------------------------------------------------- agreement ------------------------------------- */

static const struct proposal *proposal_of(const void *arg, int rank) {
    return &((const struct proposals *)arg)->of[rank];
}
static void get_version(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%s", proposal_of(arg, rank)->version);
}
static void get_key(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%.12s", proposal_of(arg, rank)->key);
}
static void get_shape(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%s", proposal_of(arg, rank)->shape);
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
    return ((const struct proposals *)arg)->mesh->name[rank];
}

static grs_status judge(struct proposals *all, int size, grs_error *err) {
    struct buf text = {0};
    for (int rank = 0; rank < size; rank++) {
        struct proposal *of = &all->of[rank];
        of->verdict.text[sizeof(of->verdict.text) - 1] = of->version[sizeof(of->version) - 1] = '\0';
        of->key[sizeof(of->key) - 1] = of->shape[sizeof(of->shape) - 1] = '\0';
    }
    grs_status status = agree_errors(size, get_status, get_name, all, err);
    if (status != GRS_OK) {
        return status;
    }
    agree_differ("library version", size, get_version, all, &text);
    if (!agree_differ("kernel", size, get_shape, all, &text)) {
        agree_differ("kernel key (config, templates or compiler are not the same)", size, get_key, all, &text);
    }
    agree_differ("max_M", size, get_max_m, all, &text);
    for (int rank = 0; rank < size && text.length == 0; rank++) {
        if (all->of[rank].grid < 1) {
            buf_printf(&text, "grid: %d CTAs on rank %d", all->of[rank].grid, rank);
        }
    }
    if (text.length > 0) {
        status = error_set(err, GRS_ERR_PEER, "%s: the ranks differ: %s", what,
                           text.data == NULL ? "out of memory" : text.data);
    }
    buf_free(&text);
    return status;
}

/* What this rank can do, by itself: the kernel loaded (or known), and the proposal. */
static grs_status propose(struct grs_comm *comm, const grs_kernel *kernel, int64_t max_M, struct group_kernel **loaded,
                          struct proposal *out, grs_error *err) {
    struct group *group = comm->group;
    struct buf shape = {0};
    grs_status status;
    *loaded = NULL;
    if (kernel == NULL) {
        const grs_error *why = grs_last_error();
        return why->status != GRS_OK ? error_set(err, why->status, "%s", why->text)
                                     : error_set(err, GRS_ERR_ARGUMENT, "grs_comm_prepare: kernel is NULL");
    }
    if ((status = group_check_request(group, group->tp, kernel, max_M, err)) != GRS_OK ||
        (status = group_check(comm, err)) != GRS_OK) {
        return status;
    }
    kernel_shape_text(&kernel->plan, &shape);
    snprintf(out->shape, sizeof(out->shape), "%s", shape.data == NULL ? "" : shape.data);
    buf_free(&shape);
    memcpy(out->key, kernel->key, sizeof(out->key));
    out->max_m = max_M < kernel->plan.shape.m_max ? max_M : kernel->plan.shape.m_max;
    *loaded = (struct group_kernel *)group_find_kernel(group, kernel);
    if (*loaded == NULL && (status = group_load_kernel(group, kernel, loaded, err)) != GRS_OK) {
        return status;
    }
    out->grid = (*loaded)->modules[0].grid;
    return GRS_OK;
}

static grs_status agree(struct grs_comm *comm, const grs_kernel *kernel, grs_status mine, const grs_error *my_error,
                        struct proposal *proposal, int *wave, const struct deadline *deadline, grs_error *err) {
    struct group *group = comm->group;
    struct proposals *all = calloc(1, sizeof(*all) + (size_t)group->tp * sizeof(all->of[0]));
    if (all == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the answers of %d ranks", group->tp);
    }
    verdict_set(&proposal->verdict, mine, my_error);
    snprintf(proposal->version, sizeof(proposal->version), "%s", grs_version());
    all->mesh = &group->peers->mesh;
    grs_status status =
        mesh_exchange(&group->peers->mesh, what, proposal, sizeof(*proposal), all->of, NULL, deadline, err);
    if (status == GRS_OK) {
        status = judge(all, group->tp, err);
    }
    *wave = all->of[0].grid;
    for (int rank = 1; rank < group->tp; rank++) {
        *wave = all->of[rank].grid < *wave ? all->of[rank].grid : *wave;
    }
    if (status == GRS_OK) { /* a plan may be proved free of circular waits for some grids only */
        int grid[GRS_MAX_TP];
        for (int rank = 0; rank < group->tp; rank++) {
            grid[rank] = all->of[rank].grid;
        }
        status = waitgraph_check_grids(&kernel->plan, grid, err);
    }
    free(all);
    return status;
}

/* ---------------------------------------------------------------- memory ---------------------------------------- */

static const enum symm_purpose sent[MESH_MAX_FILES] = {SYMM_SLOTS, SYMM_MASK};

/* Maps downstream's new slots and mask. Every rank needs the same sizes of both, so what is new here is new there. */
static grs_status take_downstream(struct grs_comm *comm, const struct symm_fresh *own, const struct mesh_files *files,
                                  struct symm_fresh *theirs, grs_error *err) {
    struct group *group = comm->group;
    int rank = (comm->rank + group->tp - 1) % group->tp;
    grs_status status = GRS_OK;
    for (int i = 0, next = 0; i < MESH_MAX_FILES && rank != comm->rank && status == GRS_OK; i++) {
        if (own->file[sent[i]] < 0) {
            continue;
        }
        int file = files->received[rank][next++];
        if (file < 0) {
            return error_set(err, GRS_ERR_PEER, "%s sent no file descriptor of its %s", group->peers->mesh.name[rank],
                             symm_purpose_name(sent[i]));
        }
        status = symm_import(group->drv, &group->ranks[rank].symm, sent[i], own->bytes[sent[i]], file,
                             comm->device->device, theirs, err);
        if (status != GRS_OK) {
            error_prepend(err, "the memory of %s", group->peers->mesh.name[rank]);
        }
    }
    return status;
}

static grs_status reserve(struct grs_comm *comm, const struct group_kernel *loaded, int64_t max_m,
                          const struct deadline *deadline, grs_error *err) {
    struct group *group = comm->group;
    struct symm_fresh fresh, theirs;
    struct symm_sizes sizes;
    grs_error own_error;
    int upstream = (comm->rank + 1) % group->tp, downstream = (comm->rank + group->tp - 1) % group->tp;
    struct mesh_files *files = malloc(sizeof(*files));
    if (files == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the files of %d ranks", group->tp);
    }
    mesh_files_init(files);
    symm_fresh_init(&theirs);
    symm_sizes_of(&loaded->kernel->plan, max_m, loaded->modules[0].grid, &sizes);
    grs_status mine =
        symm_stage(group->drv, &comm->symm, &sizes, &comm->device->device, comm->device->stream, &fresh, &own_error);
    if (mine != GRS_OK) {
        error_prepend(&own_error, "%s for M up to %" PRId64, loaded->kernel->plan.name, max_m);
    }
    for (int i = 0; i < MESH_MAX_FILES && mine == GRS_OK && upstream != comm->rank; i++) {
        files->send[upstream][i] = fresh.file[sent[i]];
    }
    grs_status status = peers_agree(group, what, mine, &own_error, files, deadline, err);
    if (status == GRS_OK) {
        mine = take_downstream(comm, &fresh, files, &theirs, &own_error);
        status = peers_agree(group, what, mine, &own_error, NULL, deadline, err);
    }
    if (status == GRS_OK) {
        symm_commit(&comm->symm, &fresh);
        symm_commit(&group->ranks[downstream].symm, &theirs);
    }
    symm_discard(group->drv, &fresh);
    symm_discard(group->drv, &theirs);
    mesh_files_close(files);
    free(files);
    return status;
}

/* ---------------------------------------------------------------- prepare --------------------------------------- */

grs_status peers_prepare(struct grs_comm *comm, const grs_kernel *kernel, int64_t max_M, grs_error *err) {
    struct group *group = comm->group;
    struct group_kernel *loaded;
    struct proposal proposal = {0};
    grs_error own_error;
    int wave = 0;
    struct deadline deadline = deadline_in(group->peers->setup_seconds);
    err = err == NULL ? &own_error : err;
    grs_error my_error;
    grs_status mine = propose(comm, kernel, max_M, &loaded, &proposal, &my_error);
    bool known = loaded != NULL && group_find_kernel(group, kernel) == loaded;
    bool entered = mine == GRS_OK && (mine = group_enter(group, comm->device, &my_error)) == GRS_OK;
    grs_status status = agree(comm, kernel, mine, &my_error, &proposal, &wave, &deadline, err);
    if (status == GRS_OK && (!known || proposal.max_m > loaded->max_m)) {
        loaded->wave = wave;
        status = reserve(comm, loaded, proposal.max_m, &deadline, err);
        loaded->max_m = status == GRS_OK ? proposal.max_m : loaded->max_m;
    }
    if (entered) {
        group_leave(group);
    }
    if (status != GRS_OK && !known && loaded != NULL) {
        group_free_kernel(group, loaded);
    }
    if (status == GRS_OK && !known) {
        loaded->next = group->kernels;
        group->kernels = loaded;
    }
    if (status == GRS_OK) {
        log_write(&group->ctx->log, GRS_LOG_DEBUG,
                  "rank %d: %s prepared for M up to %" PRId64 ": %d CTAs here, a wave of %d, %zu bytes", comm->rank,
                  loaded->kernel->plan.name, loaded->max_m, loaded->modules[0].grid, loaded->wave,
                  symm_total(&comm->symm.sizes));
    }
    return status;
}
