#include "tools/grsrun_nccl.h"

#include <stdlib.h>

#include "common/error.h"

grs_status nccl_symbols(const struct library_symbol *symbols, size_t count, grs_error *err) {
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    return library_open("GRS_NCCL", names, "nccl", symbols, count, err);
}

grs_status nccl_open(struct nccl *out, grs_error *err) {
    const struct library_symbol symbols[] = {
#define NCCL_SYMBOL(member, symbol, parameters) {#symbol, &out->member, false},
        NCCL_API_FUNCTIONS(NCCL_SYMBOL)
#undef NCCL_SYMBOL
#define NCCL_SYMBOL(member, symbol, parameters) {#symbol, &out->member, true},
            NCCL_API_OPTIONAL(NCCL_SYMBOL)
#undef NCCL_SYMBOL
                {"ncclGetErrorString", &out->error_text, false},
    };
    return nccl_symbols(symbols, sizeof(symbols) / sizeof(symbols[0]), err);
}

static grs_status check(const struct nccl *nccl, int status, const char *what, grs_error *err) {
    return status ? error_set(err, GRS_ERR_DRIVER, "%s: %s", what, nccl->error_text(status)) : GRS_OK;
}

grs_status scatter_make(const struct nccl *nccl, const struct team *team, struct scatter *out, grs_error *err) {
    *out = (struct scatter){.nccl = nccl, .team = team};
    int devices[GRS_MAX_TP];
    for (int rank = 0; rank < team->tp; rank++) {
        devices[rank] = team->device[rank]->ordinal;
    }
    return check(nccl, nccl->comm_init_all(out->comms, team->tp, devices), "ncclCommInitAll", err);
}

void scatter_free(struct scatter *scatter) {
    for (int rank = 0; scatter->team && rank < scatter->team->tp; rank++) {
        if (scatter->comms[rank]) {
            scatter->nccl->comm_destroy(scatter->comms[rank]);
        }
    }
    *scatter = (struct scatter){0};
}

grs_status scatter_run(const struct scatter *scatter, const CUdeviceptr *from, const CUdeviceptr *to, size_t count,
                       grs_error *err) {
    const struct nccl *nccl = scatter->nccl;
    grs_status status = check(nccl, nccl->group_start(), "ncclGroupStart", err);
    for (int rank = 0; rank < scatter->team->tp && !status; rank++) {
        status = device_use(scatter->team->device[rank], err);
        status = status ? status
                        : check(nccl,
                                nccl->reduce_scatter((const void *)(uintptr_t)from[rank], (void *)(uintptr_t)to[rank],
                                                     count, ncclBfloat16, ncclSum, scatter->comms[rank],
                                                     scatter->team->device[rank]->stream),
                                "ncclReduceScatter", err);
    }
    int ended = nccl->group_end(); /* also after a failure: the group must not stay open */
    return status ? status : check(nccl, ended, "ncclGroupEnd", err);
}

/* ---------------------------------------------------------------- registered buffers ---------------------------- */

#define WINDOW_UNIT 4096 /* windows begin and end at multiples of it */

static grs_status make_buffers(const struct scatter *scatter, const size_t bytes[2], struct scatter_buffers *out,
                               grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < scatter->team->tp && !status; rank++) {
        CUdeviceptr *const buffers[] = {&out->from[rank], &out->to[rank]};
        status = device_use(scatter->team->device[rank], err);
        for (int i = 0; i < 2 && !status; i++) {
            void *pointer = NULL;
            status = check(scatter->nccl, scatter->nccl->mem_alloc(&pointer, bytes[i]), "ncclMemAlloc", err);
            *buffers[i] = (CUdeviceptr)(uintptr_t)pointer;
        }
    }
    return status;
}

/* One window of every rank: registering is collective, so the ranks of a process do it as one group. */
static grs_status register_windows(const struct scatter *scatter, int which, size_t bytes, struct scatter_buffers *out,
                                   grs_error *err) {
    const struct nccl *nccl = scatter->nccl;
    grs_status status = check(nccl, nccl->group_start(), "ncclGroupStart", err);
    for (int rank = 0; rank < scatter->team->tp && !status; rank++) {
        CUdeviceptr buffer = which ? out->to[rank] : out->from[rank];
        status = device_use(scatter->team->device[rank], err);
        status = status ? status
                        : check(nccl,
                                nccl->window_register(scatter->comms[rank], (void *)(uintptr_t)buffer, bytes,
                                                      &out->windows[rank][which], NCCL_WIN_COLL_SYMMETRIC),
                                "ncclCommWindowRegister", err);
    }
    int ended = nccl->group_end();
    return status ? status : check(nccl, ended, "ncclGroupEnd", err);
}

grs_status scatter_register(const struct scatter *scatter, size_t from_bytes, size_t to_bytes,
                            struct scatter_buffers *out, grs_error *err) {
    const struct nccl *nccl = scatter->nccl;
    const size_t bytes[] = {(from_bytes + WINDOW_UNIT - 1) / WINDOW_UNIT * WINDOW_UNIT,
                            (to_bytes + WINDOW_UNIT - 1) / WINDOW_UNIT * WINDOW_UNIT};
    *out = (struct scatter_buffers){.scatter = scatter};
    if (!nccl->mem_alloc || !nccl->mem_free || !nccl->window_register || !nccl->window_deregister) {
        return error_set(err, GRS_ERR_UNSUPPORTED, "this NCCL has no symmetric windows; 2.27 and newer have");
    }
    grs_status status = make_buffers(scatter, bytes, out, err);
    for (int which = 0; which < 2 && !status; which++) {
        status = register_windows(scatter, which, bytes[which], out, err);
    }
    for (int rank = 0; rank < scatter->team->tp && !status; rank++) {
        if (!out->windows[rank][0] || !out->windows[rank][1]) {
            status = error_set(err, GRS_ERR_UNSUPPORTED, "NCCL makes no symmetric window on this machine");
        }
    }
    if (status) {
        scatter_unregister(out);
    }
    return status;
}

void scatter_unregister(struct scatter_buffers *buffers) {
    const struct scatter *scatter = buffers->scatter;
    for (int rank = 0; scatter && rank < scatter->team->tp; rank++) {
        const CUdeviceptr pointers[] = {buffers->from[rank], buffers->to[rank]};
        if (device_use(scatter->team->device[rank], NULL)) {
            continue;
        }
        for (int i = 0; i < 2; i++) {
            if (buffers->windows[rank][i]) {
                scatter->nccl->window_deregister(scatter->comms[rank], buffers->windows[rank][i]);
            }
        }
        for (int i = 0; i < 2; i++) {
            if (pointers[i]) {
                scatter->nccl->mem_free((void *)(uintptr_t)pointers[i]);
            }
        }
    }
    *buffers = (struct scatter_buffers){0};
}
