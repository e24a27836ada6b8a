/* What stands behind an ncclComm_t of the stand-in for NCCL: memory and a barrier that all ranks have. */
#ifndef GRS_TESTS_SHIM_NCCL_H
#define GRS_TESTS_SHIM_NCCL_H

#include <pthread.h>
#include <stddef.h>

struct ncclComm {
    int rank, size, device;
    char *shared; /* size times `room` bytes */
    size_t room;
    pthread_barrier_t *barrier;
    int fails; /* what ncclAllGather answers instead of working */
};

#endif
