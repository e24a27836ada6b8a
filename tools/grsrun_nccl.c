#include "tools/grsrun_nccl.h"

#include "common/error.h"
#include "tools/grsrun_library.h"

grs_status nccl_open(struct nccl *out, grs_error *err) {
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
    const struct library_symbol symbols[] = {
#define NCCL_SYMBOL(member, symbol, parameters) {#symbol, &out->member},
        NCCL_API_FUNCTIONS(NCCL_SYMBOL)
#undef NCCL_SYMBOL
            {"ncclGetErrorString", &out->error_text},
    };
    return library_open("GRS_NCCL", names, "nccl", symbols, sizeof(symbols) / sizeof(symbols[0]), err);
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
