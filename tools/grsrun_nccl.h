/* The baseline for the exchange: ncclReduceScatter among the GPUs of this process, one rank a GPU. */
#ifndef GRS_TOOLS_GRSRUN_NCCL_H
#define GRS_TOOLS_GRSRUN_NCCL_H

#include "tools/grsrun_baseline_api.h"
#include "tools/grsrun_library.h"
#include "tools/grsrun_team.h"

struct nccl { /* the library's functions */
#define NCCL_MEMBER(member, symbol, parameters) int(*member) parameters;
    NCCL_API_FUNCTIONS(NCCL_MEMBER)
    NCCL_API_OPTIONAL(NCCL_MEMBER) /* NULL in an older library */
#undef NCCL_MEMBER
    const char *(*error_text)(int status);
};

/* Opens NCCL and looks up symbols of it. GRS_ERR_UNSUPPORTED: there is no NCCL. Turns NVLink multicast off for this process
 * (NCCL_NVLS_ENABLE=0): a program that uses it can put GPUs that others share out of service. */
grs_status nccl_symbols(const struct library_symbol *symbols, size_t count, grs_error *err);
/* Those of the baseline. */
grs_status nccl_open(struct nccl *out, grs_error *err);

/* Communicators on the GPUs of a team that has one rank on each. */
struct scatter {
    const struct nccl *nccl;
    const struct team *team;
    ncclComm_t comms[GRS_MAX_TP];
};

grs_status scatter_make(const struct nccl *nccl, const struct team *team, struct scatter *out, grs_error *err);
void scatter_free(struct scatter *scatter);
/* from[rank] holds tp · count BF16 elements, to[rank] receives count. Asynchronous, on the devices' streams. */
grs_status scatter_run(const struct scatter *scatter, const CUdeviceptr *from, const CUdeviceptr *to, size_t count,
                       grs_error *err);

/* Buffers of NCCL's own, registered as symmetric windows, so that it can use them in place. Free with
 * scatter_unregister, before the communicators go. */
struct scatter_buffers {
    const struct scatter *scatter;
    CUdeviceptr from[GRS_MAX_TP], to[GRS_MAX_TP]; /* by rank */
    ncclWindow_t windows[GRS_MAX_TP][2];
};

/* GRS_ERR_UNSUPPORTED: this NCCL, or this machine, has no such windows. */
grs_status scatter_register(const struct scatter *scatter, size_t from_bytes, size_t to_bytes,
                            struct scatter_buffers *out, grs_error *err);
void scatter_unregister(struct scatter_buffers *buffers);

#endif
