/* NCCL without GPUs: an all-gather among processes that share memory. "Device" memory is the host's. */
#include "tests/shim_nccl.h"

#include <string.h>

#define FUNCTION(type, name, parameters)                                                                               \
    type name parameters;                                                                                              \
    type name parameters

FUNCTION(int, ncclCommCount, (const struct ncclComm *comm, int *count)) {
    *count = comm->size;
    return 0;
}
FUNCTION(int, ncclCommUserRank, (const struct ncclComm *comm, int *rank)) {
    *rank = comm->rank;
    return 0;
}
FUNCTION(int, ncclCommCuDevice, (const struct ncclComm *comm, int *device)) {
    *device = comm->device;
    return 0;
}
FUNCTION(int, ncclCommGetAsyncError, (struct ncclComm * comm, int *error)) {
    *error = comm->fails;
    return 0;
}
FUNCTION(const char *, ncclGetErrorString, (int status)) {
    return status == 0 ? "no error" : "unhandled shim error";
}
FUNCTION(int, ncclAllGather,
         (const void *from, void *to, size_t count, int type, struct ncclComm *comm, void *stream)) {
    if (comm->fails != 0 || type != 1 || stream == NULL || count > comm->room) {
        return comm->fails != 0 ? comm->fails : 4;
    }
    memcpy(comm->shared + (size_t)comm->rank * comm->room, from, count);
    pthread_barrier_wait(comm->barrier);
    for (int rank = 0; rank < comm->size; rank++) {
        memcpy((char *)to + (size_t)rank * count, comm->shared + (size_t)rank * comm->room, count);
    }
    pthread_barrier_wait(comm->barrier);
    return 0;
}
