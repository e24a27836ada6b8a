#include "runtime/nccl_door.h"

#include <time.h>

void nccl_door_init(struct nccl_door *door, ncclComm_t comm) {
    pthread_condattr_t attributes;
    *door = (struct nccl_door){.comm = comm};
    pthread_mutex_init(&door->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&door->left, &attributes);
    pthread_condattr_destroy(&attributes);
}

void nccl_door_end(struct nccl_door *door) {
    pthread_cond_destroy(&door->left);
    pthread_mutex_destroy(&door->lock);
}

ncclComm_t nccl_door_enter(struct nccl_door *door) {
    pthread_mutex_lock(&door->lock);
    ncclComm_t comm = door->comm;
    door->inside += comm != NULL;
    pthread_mutex_unlock(&door->lock);
    return comm;
}

int nccl_door_leave(struct nccl_door *door, int status) {
    pthread_mutex_lock(&door->lock);
    status = door->comm == NULL ? NCCL_CLOSED : status;
    if (--door->inside == 0) {
        pthread_cond_broadcast(&door->left);
    }
    pthread_mutex_unlock(&door->lock);
    return status;
}

int nccl_door_ask(struct nccl_door *door, const struct nccl_api *nccl) {
    int status = NCCL_CLOSED;
    pthread_mutex_lock(&door->lock);
    if (door->comm != NULL) {
        int asked = nccl->async_error(door->comm, &status);
        status = asked == NCCL_SUCCESS ? status : asked;
    }
    pthread_mutex_unlock(&door->lock);
    return status;
}

ncclComm_t nccl_door_close(struct nccl_door *door, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double end = (double)until.tv_nsec * 1e-9 + seconds;
    until.tv_sec += (time_t)end;
    until.tv_nsec = (long)((end - (double)(time_t)end) * 1e9);
    pthread_mutex_lock(&door->lock);
    ncclComm_t comm = door->comm;
    door->comm = NULL;
    while (comm != NULL && door->inside > 0 && pthread_cond_timedwait(&door->left, &door->lock, &until) == 0) {}
    pthread_mutex_unlock(&door->lock);
    return comm;
}
