/* The ranks of a group that live in this process, and what they share. grs_comm points into it. */
#ifndef GRS_RUNTIME_GROUP_H
#define GRS_RUNTIME_GROUP_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/context.h"
#include "runtime/driver.h"
#include "runtime/kernel.h"
#include "runtime/module.h"
#include "runtime/symm.h"
#include "runtime/tensormap.h"
#include "templates/args.h"

#define GROUP_DEFAULT_DEADLINE 30.0 /* seconds */

/* One GPU with ranks of the group. */
struct group_device {
    int ordinal;
    CUdevice device;
    bool retained; /* the primary context */
    CUcontext context;
    CUstream stream;   /* private, non-blocking: zeroing and aborts, never a kernel */
    int sm_count, sms; /* of the GPU; what one of its ranks may use */
    int major, minor;
    int rank_count;
    int ranks[GRS_MAX_SHARED_RANKS]; /* ascending */
    char name[96];
};

/* A kernel that was prepared: one module and grid a device. */
struct group_kernel {
    const grs_kernel *kernel;
    int64_t max_m;
    int wave;               /* smallest grid over the ranks */
    struct module *modules; /* by device */
    struct group_kernel *next;
};

/* Pinned host memory that all GPUs see; a line a record, so that polls do not disturb a neighbour's. */
struct group_record {
    _Alignas(128) grs_wait_record record;
};
struct group_host {
    _Alignas(128) uint32_t one; /* source of the copy that raises an abort word */
    struct group_record rank[];
};

struct grs_comm {
    struct group *group;
    int rank;
    struct group_device *device;
    bool open; /* not yet destroyed */
    struct symm symm;
    CUdeviceptr record; /* device's view of host->rank[rank] */
    struct tensormap_cache maps;
    /* Of the latest launch, to say more about a wait record. */
    const struct group_kernel *latest_kernel;
    int64_t latest_m;
};

struct group {
    grs_ctx *ctx;
    const struct driver *drv;
    unsigned fork_count;
    int tp, device_count, open_count;
    struct group_device *devices;
    struct grs_comm *ranks;
    struct group_host *host;
    double deadline_seconds; /* 0: none */
    uint64_t deadline_ns, stall;
    uint64_t pace_ps_per_kib; /* of the link model, where kernels have it compiled in; 0: no pace */
    int sms;                  /* asked for; 0: the share of the GPU */
    atomic_bool aborted;      /* by grs_comm_abort or after a failed launch */
    pthread_mutex_t lock;     /* of prepare and destroy */
    struct group_kernel *kernels;
};

/* The rate of the modelled link that each rank has to itself, GB/s; 0: none. For kernels with the model compiled in. */
void group_set_pace(struct group *group, double gbps);

/* Makes a device's context current, and the old one again. A failure is an error of the driver. */
grs_status group_enter(const struct group *group, const struct group_device *device, grs_error *err);
void group_leave(const struct group *group);

/* The prepared kernel; NULL: grs_comm_prepare was not called for it. */
const struct group_kernel *group_find_kernel(const struct group *group, const grs_kernel *kernel);

/* CTAs a rank that a launch with M rows runs, of the grid that was prepared: no more than tiles; with clusters, whole ones. */
int group_launch_grid(const struct plan *plan, int64_t M, int prepared);

/* Unloads the modules that are loaded. */
void group_free_kernel(struct group *group, struct group_kernel *kernel);

/* GRS_OK while launches are allowed. After a wait record or an abort: GRS_ERR_TIMEOUT or GRS_ERR_STATE with the story. */
grs_status group_check(const struct grs_comm *comm, grs_error *err);

/* Raises the abort word of every rank of this process and refuses later launches. Works beside spinning kernels: the copy
 * engine writes the word. */
grs_status group_abort(struct group *group, grs_error *err);

#endif
