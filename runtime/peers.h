/* The other processes of a group: what is known of them, and what is done together with them. */
#ifndef GRS_RUNTIME_PEERS_H
#define GRS_RUNTIME_PEERS_H

#include "runtime/group.h"
#include "runtime/hello.h"
#include "runtime/mesh.h"

struct peers {
    struct mesh mesh;
    double setup_seconds;
    size_t board_bytes; /* of group->host, which all processes map */
    bool registered;    /* with the driver, so that the GPU can write its record */
};

/* What each rank says of a step that all take together. */
struct verdict {
    int32_t status;
    char text[2048];
};
void verdict_set(struct verdict *out, grs_status status, const grs_error *err);

/* Everybody tells how the step went; every rank gets the same answer: GRS_OK, or the errors of those that failed. */
grs_status peers_agree(struct group *group, const char *what, grs_status mine, const grs_error *my_error,
                       struct mesh_files *files, const struct deadline *deadline, grs_error *err);

/* grs_comm_prepare among processes; `kernel` NULL: this rank has none, and grs_last_error says why. The group is locked. */
grs_status peers_prepare(struct grs_comm *comm, const grs_kernel *kernel, int64_t max_M, grs_error *err);

/* GRS_ERR_PEER when a process has ended that should be there; kernels in flight are aborted. Does not wait. */
grs_status peers_check(struct grs_comm *comm, grs_error *err);

void peers_leave(struct peers *peers);
void peers_free_board(struct group *group); /* the context is current */
void peers_free(struct peers *peers);       /* NULL is fine */

/* grs_comm_create for callers that have checked the arguments. `bootstrap_error` (may be NULL) is what the bootstrap itself
 * says of a call of it that failed. */
grs_status peers_create(grs_ctx *ctx, int rank, int size, int device, const grs_bootstrap *bootstrap,
                        const grs_error *bootstrap_error, const grs_comm_options *options, grs_comm **out,
                        grs_error *err);
/* How long others may take to come: of the options, else $GRS_SETUP_DEADLINE, else 120 s. */
grs_status peers_setup_seconds(const grs_comm_options *options, double *out, grs_error *err);

#endif
