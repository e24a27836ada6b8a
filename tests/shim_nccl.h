/* What stands behind an ncclComm_t of the stand-in for NCCL: memory and a barrier that all its ranks have, in whichever process. */
#ifndef GRS_TESTS_SHIM_NCCL_H
#define GRS_TESTS_SHIM_NCCL_H

#include <pthread.h>
#include <stddef.h>

struct ncclComm {
    int rank, size, device;
    char *shared; /* size times `room` bytes */
    size_t room;
    pthread_barrier_t *barrier;
    int fails; /* what every call that exchanges something answers instead of working */

    int split_fails;   /* what ncclCommSplit answers, after all ranks have come to it */
    int scatter_fails; /* of the communicators split from this one: what ncclReduceScatter answers */
    int async_fails;   /* the same: what ncclCommGetAsyncError tells, from now on */
    struct ncclComm *parent;
    int gathers, gather_fails_at; /* all-gathers of it and its children; the one that answers an error after its work */
    int in_progress; /* calls that ncclCommGetAsyncError answers with "in progress" before (a communicator that does not block) */
    size_t mapped; /* bytes at `barrier`, of a communicator that the stand-in made; 0: the test's own */
    int captured;  /* calls that a graph has taken */
    int stands;    /* calls of its children are not let go before one of them is aborted */
    int standing;  /* one is inside */
};

/* In the library: communicators that it made and that were neither destroyed nor aborted; how many were aborted. */
struct shim_nccl_counts {
    int alive, aborted, scatters, groups;
};
typedef const struct shim_nccl_counts *shim_nccl_get_function(void);

#endif
