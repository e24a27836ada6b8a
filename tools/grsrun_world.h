/* grsrun --procs --nodes: a communicator of NCCL among the processes, and nodes that the ranks count as. */
#ifndef GRS_TOOLS_GRSRUN_WORLD_H
#define GRS_TOOLS_GRSRUN_WORLD_H

#include "common/buf.h"
#include "runtime/environment.h"
#include "tools/grsrun_baseline_api.h"
#include "tools/grsrun_device.h"

struct world { /* zero-initialise; free with world_leave */
    ncclComm_t comm;
#define NCCL_MEMBER(member, symbol, parameters) int(*member) parameters;
    NCCL_API_PROCESSES(NCCL_MEMBER)
#undef NCCL_MEMBER
    const char *(*error_text)(int status);
};

/* Collective among the processes that a launcher started. `mine` is how this rank has fared so far, with `my_error`: when one
 * has failed, every rank returns the errors of all. `device`: this rank's GPU, where `mine` is GRS_OK; two ranks on one are
 * GRS_ERR_ARGUMENT unless both have an $NCCL_HOSTID, as NCCL refuses them. Sets $GRS_NODE to one of `nodes` equal nodes unless it
 * is set. */
grs_status world_join(const struct environment *environment, int nodes, const struct device *device, grs_status mine,
                      const grs_error *my_error, struct world *out, grs_error *err);
/* `failed`: others may not come. With the context current. */
void world_leave(struct world *world, bool failed);

/* How the ranks' products are summed, as a line for people. */
void world_path_text(const grs_path_info *info, int tp, struct buf *out);

#endif
