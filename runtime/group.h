/* The ranks of a group and what they share. grs_comm points into it. Either all ranks live in this process, or one does and
 * the others are known by what `peers` knows of them and by their memory. */
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
    int sharers;                     /* ranks on this GPU, in whichever process */
    int rank_count;                  /* of them in this one */
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

/* Pinned host memory that all GPUs see, and all processes with ranks of the group; a line a record, so that polls do not
 * disturb a neighbour's. */
struct group_record {
    _Alignas(128) grs_wait_record record;
    _Alignas(128) uint32_t told[GRS_MAX_TP]; /* over several nodes, by node: see staged_exchange */
};
struct group_host {
    _Alignas(128) uint32_t one;  /* source of the copy that raises an abort word */
    _Atomic uint32_t aborted_by; /* by whom launches were ended, of several processes: rank + 1; 0: nobody */
    struct group_record rank[];
};

struct staged;

struct grs_comm {
    struct group *group;
    int rank;
    struct staged
        *staged; /* one rank of several nodes, and `group` the one of its node: staged.h; NULL: the group is all */
    struct group_device *device; /* NULL: a rank of another process */
    bool open;                   /* not yet destroyed */
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
    struct peers *peers; /* the other processes; NULL: there are none */
    struct group_host *host;
    double deadline_seconds; /* 0: none */
    uint64_t deadline_ns, stall;
    uint64_t pace_ps_per_kib; /* of the link model, where kernels have it compiled in; 0: no pace */
    uint32_t pace_signal_ns;  /* what a bit takes longer under it                     */
    int sms;                  /* asked for; 0: the share of the GPU */
    atomic_bool aborted;      /* by grs_comm_abort or after a failed launch */
    atomic_bool lost;         /* another process has ended, and kernels were aborted for it */
    pthread_mutex_t lock;     /* of prepare and destroy */
    struct group_kernel *kernels;
};

/* The rate of the modelled link that each rank has to itself, GB/s; 0: none. For kernels with the model compiled in. `slowdown`, from 1
 * on: the SMs of the GPU that is modelled over those of a rank, whose products take so many times as long; a bit's way then does, too. */
void group_set_pace(struct group *group, double gbps, double slowdown);

/* Steps of making a group, whether in one process or in several. A group whose making failed is given to group_free. */
grs_status group_make(grs_ctx *ctx, const struct driver *drv, int tp, struct group **out, grs_error *err);
grs_status group_read_options(struct group *group, const grs_comm_options *given, grs_error *err);
grs_status group_ask_device(struct group *group, struct group_device *device, grs_error *err);
/* What one of the `sharers` may use of it. */
grs_status group_share_device(const struct group *group, struct group_device *device, grs_error *err);
grs_status group_open_device(struct group *group, struct group_device *device, grs_error *err);
grs_status group_check_pair(const struct group *group, const struct group_device *from, const struct group_device *to,
                            grs_error *err);
/* The GPU's view of a rank's record, and where every rank's control words are. The context is current. */
grs_status group_map_record(const struct group *group, struct grs_comm *comm, grs_error *err);
grs_status group_write_everyone(struct group *group, struct grs_comm *comm, grs_error *err);
/* Gives everything back. NULL is fine. */
void group_free(struct group *group);

/* The steps of grs_comm_prepare that touch no memory. `ranks` of the communicator, which may span more groups than this. */
grs_status group_check_request(const struct group *group, int ranks, const grs_kernel *kernel, int64_t max_M,
                               grs_error *err);
grs_status group_load_kernel(struct group *group, const grs_kernel *kernel, struct group_kernel **out, grs_error *err);

/* The device through which this process reaches a rank's memory. */
static inline struct group_device *group_device_of(const struct group *group, const struct grs_comm *comm) {
    return comm->device != NULL ? comm->device : group->devices;
}

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

/* Raises the abort word of every rank and refuses later launches, in every process. Works beside spinning kernels: the copy
 * engine writes the word. */
grs_status group_abort(struct group *group, grs_error *err);

#endif
