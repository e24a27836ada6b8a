/* The baseline for the exchange: ncclReduceScatter among the GPUs of this process, one rank a GPU. */
#ifndef GRS_TOOLS_GRSRUN_NCCL_H
#define GRS_TOOLS_GRSRUN_NCCL_H

#include "tools/grsrun_baseline_api.h"
#include "tools/grsrun_team.h"

struct nccl { /* the library's functions */
#define NCCL_MEMBER(member, symbol, parameters) int(*member) parameters;
    NCCL_API_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    const char *(*error_text)(int status);
};

/* GRS_ERR_UNSUPPORTED: there is no NCCL. */
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

#endif
