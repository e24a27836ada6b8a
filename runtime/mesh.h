/* Unix sockets between the ranks of one host, each with each: messages of one size from every rank to every rank, with file
 * descriptors. Listeners have random names (or lie in a directory of mode 0700), both ends check the other's user, and who
 * connects must know a secret that only the ranks were told. What arrives is checked for kind, order and size. */
#ifndef GRS_RUNTIME_MESH_H
#define GRS_RUNTIME_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grs.h"
#include "runtime/deadline.h"

#define MESH_MAX_BYTES 8192 /* of a message's data */
#define MESH_MAX_FILES 2    /* file descriptors of a message */

/* Where a rank listens; sent to the others as it is. */
struct mesh_address {
    uint8_t in_directory; /* 0: an abstract name, of this network namespace */
    char path[103];       /* NUL-terminated */
    uint8_t secret[16];
};

struct mesh {
    int rank, size;
    int listener;          /* -1: closed */
    int file[GRS_MAX_TP];  /* by rank; -1: none */
    bool left[GRS_MAX_TP]; /* said good-bye */
    uint32_t sequence;     /* of the next exchange */
    bool failed;           /* an exchange went wrong: ranks no longer agree on what comes next */
    struct mesh_address address;
    char name[GRS_MAX_TP][160]; /* "rank 2 (process 4711 on GPU 1 (NVIDIA H200))", set by the owner */
};

/* Every call may be given to mesh_close, whatever failed. Listens under `directory`, or under an abstract name for NULL. The
 * directory is made if it is missing; one that others may enter is refused. */
grs_status mesh_listen(struct mesh *mesh, int rank, int size, const char *directory, grs_error *err);

/* Connects to every rank; `addresses` by rank. Everybody listens already. Strangers are turned away and not waited for. */
grs_status mesh_connect(struct mesh *mesh, const struct mesh_address *addresses, const struct deadline *deadline,
                        grs_error *err);

/* File descriptors that go with an exchange: entries of -1 are none. Arrays by rank. */
struct mesh_files {
    int send[GRS_MAX_TP][MESH_MAX_FILES];     /* borrowed */
    int received[GRS_MAX_TP][MESH_MAX_FILES]; /* the caller closes: mesh_files_close */
};
void mesh_files_init(struct mesh_files *files);
void mesh_files_close(struct mesh_files *files);

/* `bytes` (up to MESH_MAX_BYTES) from every rank into `all`, in the order of ranks. `what` names the call in errors, the same
 * on all ranks. `files` may be NULL. GRS_ERR_TIMEOUT names who did not come, GRS_ERR_PEER who has gone or does another
 * call; the others are told, and the mesh is of no more use. */
grs_status mesh_exchange(struct mesh *mesh, const char *what, const void *mine, size_t bytes, void *all,
                         struct mesh_files *files, const struct deadline *deadline, grs_error *err);

/* A rank whose process ended without a good-bye; -1: none. Does not wait. */
int mesh_find_lost(const struct mesh *mesh);

/* Says good-bye. What arrives later is no longer read. */
void mesh_leave(struct mesh *mesh);
void mesh_close(struct mesh *mesh);

#endif
