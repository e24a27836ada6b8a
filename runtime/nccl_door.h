/* A communicator of NCCL that one thread may end while another one uses it. Calls go in by the door and leave by it; whoever
 * ends the communicator closes the door first, so that nobody comes in, and waits a while for those inside. A call that stays is
 * one that NCCL does not let go, which ncclCommAbort is for: it is then ended under it, and touches the communicator no more. */
#ifndef GRS_RUNTIME_NCCL_DOOR_H
#define GRS_RUNTIME_NCCL_DOOR_H

#include <pthread.h>

#include "runtime/nccl.h"

struct nccl_door {
    pthread_mutex_t lock; /* held for moments, never during a call that can wait */
    pthread_cond_t left;
    ncclComm_t comm; /* NULL: closed */
    int inside;
};

/* `comm` may be NULL: closed from the start. Ending a door ends no communicator. */
void nccl_door_init(struct nccl_door *door, ncclComm_t comm);
void nccl_door_end(struct nccl_door *door);

/* NULL: it is closed. Else nccl_door_leave follows, which gives `status`, or NCCL_CLOSED when the door was closed meanwhile: then
 * the communicator may be gone. */
ncclComm_t nccl_door_enter(struct nccl_door *door);
int nccl_door_leave(struct nccl_door *door, int status);

/* What ncclCommGetAsyncError tells, or answers; NCCL_CLOSED. Waits for nothing. */
int nccl_door_ask(struct nccl_door *door, const struct nccl_api *nccl);

/* What the caller is to end; NULL: it was closed before. Waits up to `seconds` for the calls inside. */
ncclComm_t nccl_door_close(struct nccl_door *door, double seconds);

#endif
