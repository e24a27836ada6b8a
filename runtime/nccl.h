/* NCCL, opened at run time: what ranks meet by, and what sums between nodes. */
#ifndef GRS_RUNTIME_NCCL_H
#define GRS_RUNTIME_NCCL_H

#include "runtime/driver.h"

typedef struct ncclComm *ncclComm_t;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UINT8 = 1, NCCL_BFLOAT16 = 9, NCCL_SUM = 0 };
#define NCCL_CLOSED (-1) /* none of NCCL's: the communicator was ended meanwhile (nccl_door.h) */

/* X(member, symbol, parameters): enumerations of NCCL are passed and returned as int. `config` of a split is NULL here: the
 * new communicator has its parent's. */
#define NCCL_FUNCTIONS(X)                                                                                              \
    X(count, ncclCommCount, (ncclComm_t comm, int *count))                                                             \
    X(rank, ncclCommUserRank, (ncclComm_t comm, int *rank))                                                            \
    X(device, ncclCommCuDevice, (ncclComm_t comm, int *device))                                                        \
    X(async_error, ncclCommGetAsyncError, (ncclComm_t comm, int *error))                                               \
    X(split, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *out, void *config))                      \
    X(destroy, ncclCommDestroy, (ncclComm_t comm))                                                                     \
    X(abort, ncclCommAbort, (ncclComm_t comm))                                                                         \
    X(group_start, ncclGroupStart, (void))                                                                             \
    X(group_end, ncclGroupEnd, (void))                                                                                 \
    X(all_gather, ncclAllGather,                                                                                       \
      (const void *from, void *to, size_t count, int type, ncclComm_t comm, CUstream stream))                          \
    X(reduce_scatter, ncclReduceScatter,                                                                               \
      (const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, CUstream stream))

struct nccl_api {
#define NCCL_MEMBER(member, symbol, parameters) int(*member) parameters;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    const char *(*error_text)(int status);
};

/* The library that made the communicator must be the one that is used: what $GRS_NCCL names, else what the process has loaded
 * (or contains), else what the loader finds. GRS_ERR_UNSUPPORTED: there is none, or it is too old. */
grs_status nccl_load(struct nccl_api *out, grs_error *err);

/* GRS_OK or GRS_ERR_PEER, with the name of the call and what NCCL says; GRS_ERR_STATE for NCCL_CLOSED. */
grs_status nccl_check(const struct nccl_api *nccl, int status, const char *what, grs_error *err);

struct nccl_door;

/* One rank's end of a communicator, and what its calls need beside it. */
struct nccl_end {
    const struct nccl_api *nccl;
    const struct driver *drv;
    struct nccl_door *door; /* to the communicator */
    int size;
    CUdevice device; /* its GPU */
    double seconds;  /* for the others to come */
};

/* `bytes` of host memory from every rank into `all`, in the order of ranks. `what` names the call that all ranks should come
 * to. GRS_ERR_TIMEOUT: a rank did not; the all-gather is still pending then, and the communicator of no more use. */
grs_status nccl_gather(const struct nccl_end *end, const char *what, const void *mine, size_t bytes, void *all,
                       grs_error *err);

/* Collective: communicators of the ranks of one color, in the order of keys. NULL after an error. */
grs_status nccl_split(const struct nccl_end *end, int color, int key, ncclComm_t *out, grs_error *err);

/* A call on a communicator that does not block may answer "in progress": waits until it is in the stream. `status` is what
 * the call returned. */
int nccl_settle(const struct nccl_api *nccl, struct nccl_door *door, int status);

/* Waits for the stream without blocking in it: a rank that never comes must not hang the others. */
grs_status nccl_wait(const struct nccl_end *end, const char *what, CUstream stream, grs_error *err);

#endif
