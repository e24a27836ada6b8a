/* One rank of a communicator that fused kernels alone do not span: a kernel within each node, then NCCL between nodes.
 *
 * tp = nodes * local ranks, rank = node * local + index. With segments of c = ceil(M / tp) rows, node block h holds the rows
 * [h * local * c, (h + 1) * local * c) of A. One fused launch within the node for each block gives local rank l the rows of
 * segment h * local + l, summed over the node; they lie in `work` as [nodes][c][N]. One ncclReduceScatter among the ranks of
 * the same index then gives each its segment. With local = 1 the blocks are one launch of a kernel for one rank. */
#ifndef GRS_RUNTIME_STAGED_H
#define GRS_RUNTIME_STAGED_H

#include <pthread.h>

#include "generator/classes.h"
#include "runtime/group.h"
#include "runtime/nccl_door.h"
#include "runtime/nodes.h"

/* A kernel of the caller's that was prepared, and the kernels within the node that serve it. */
struct staged_kernel {
    const grs_kernel *kernel;
    int64_t max_m;
    int count;
    const struct group_kernel *inner[CLASSES_MAX]; /* by class, ascending; of the node's group */
    struct staged_kernel *next;
};

/* Memory that was replaced by larger: captured graphs may point to it. */
struct staged_block {
    CUdeviceptr pointer;
    struct staged_block *next;
};

/* What people call a node. */
struct staged_name {
    char text[sizeof(((struct nodes_hello *)0)->name)];
};

struct staged {
    struct grs_comm handle; /* what the caller has: its group is the node's, its rank counts all nodes */
    struct grs_comm *inner; /* this rank in its node's group */
    struct nodes nodes;
    struct staged_name *names; /* by node */
    int size;
    struct nccl_api nccl;
    struct nccl_door across; /* to the communicator of the ranks of this index, by node; closed: aborted */
    double setup_seconds;
    pthread_mutex_t lock; /* of prepare */
    struct staged_kernel *kernels;
    CUdeviceptr work, share; /* [nodes][c][N], and [c][N] where D cannot take the sums as they come; BF16 */
    size_t work_bytes, share_bytes;
    struct staged_block *retired;
};

/* Takes over `inner` and `across`, also when it fails. `hello` of all ranks. */
grs_status staged_make(struct grs_comm *inner, const struct nodes *nodes, const struct nodes_hello *hello, int rank,
                       const struct nccl_api *nccl, ncclComm_t across, double setup_seconds, grs_comm **out,
                       grs_error *err);
void staged_free(struct staged *staged);

/* The calls of grs.h on such a communicator; arguments are not NULL but for the kernel of prepare. */
grs_status staged_prepare(struct staged *staged, const grs_kernel *kernel, int64_t max_M, grs_error *err);
grs_status staged_launch(grs_comm *comm, const grs_kernel *kernel, const grs_operands *operands, void *stream,
                         grs_error *err);
grs_status staged_check(struct staged *staged, grs_error *err);
grs_status staged_abort(struct staged *staged, grs_error *err);
/* After an exchange that failed: ends what NCCL has pending, so that nothing later waits for it. Of no more use then. */
void staged_cut_off(struct staged *staged);
int staged_size(const struct staged *staged);
void staged_path(const struct staged *staged, grs_path_info *out);

/* Puts on the stream, with the context current: the sums of all nodes for this rank, `count` BF16 of `work` from each, into `to`;
 * and whether a launch was left early, of each of the ranks that they come from. That is the rank's abort word, which is raised
 * before a CTA of it leaves, and read after its kernels; or `failed`: this launch could not be made. The words of all go to where
 * every process of this rank's node sees them. GRS_ERR_STATE: aborted. */
grs_status staged_exchange(struct staged *staged, bool failed, CUdeviceptr to, size_t count, CUstream stream,
                           grs_error *err);
/* Did a rank of this node hear of a node that left a launch early, also of its own? */
bool staged_is_told(const struct staged *staged);
/* GRS_ERR_PEER, naming those nodes; GRS_OK, and `err` as it is: there are none. `own`: also of its own, whose records say more when
 * they are there. */
grs_status staged_told(const struct staged *staged, bool own, grs_error *err);

/* The kernel that was prepared; NULL: it was not. */
struct staged_kernel *staged_find_kernel(const struct staged *staged, const grs_kernel *kernel);

/* Rows that a launch within the node is made for, of a launch with M. */
int64_t staged_inner_rows(const struct staged *staged, int64_t M);
int64_t staged_segment_rows(const struct staged *staged, int64_t M);

#endif
