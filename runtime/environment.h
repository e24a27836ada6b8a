/* Rank, size and meeting place, as launchers put them into the environment: torchrun (or by hand), Open MPI, MPICH's Hydra,
 * Slurm. */
#ifndef GRS_RUNTIME_ENVIRONMENT_H
#define GRS_RUNTIME_ENVIRONMENT_H

#include "grs.h"

struct environment {
    const char *launcher; /* "torchrun", for messages */
    int rank, size;
    int local_rank, local_size; /* on this host; where nobody says, all are on one */
    char address[256];          /* where rank 0 listens: name or number, and port */
    int port;
    char token[256]; /* that ranks of this job know; derived from what identifies it, unless $GRS_TOKEN is set */
};

/* GRS_ERR_ARGUMENT: no launcher is known by its variables, one of them is missing or not such a number; the text names it. */
grs_status environment_read(struct environment *out, grs_error *err);

/* The GPU of a rank: blocks of ranks over the `visible` ones, as grs_comm_create_local does it. */
int environment_device(const struct environment *environment, int visible);

#endif
