/* What every rank tells the others first, through the bootstrap, and how it is judged. */
#ifndef GRS_RUNTIME_HELLO_H
#define GRS_RUNTIME_HELLO_H

#include <stdbool.h>

#include "common/buf.h"
#include "runtime/mesh.h"

struct hello {
    char magic[8];
    uint32_t bytes; /* of this struct: another layout is another version */
    int32_t rank, size;
    int32_t status; /* grs_status of what this rank did so far */
    int32_t process;
    uint32_t user;
    uint64_t network[2]; /* namespace: device and inode of /proc/self/ns/net; 0: unknown */
    uint8_t gpu[16];     /* UUID */
    char version[96];
    char host[64];
    char boot[40];   /* id of this boot of the host's kernel; empty: unknown */
    char device[96]; /* "GPU 1 (NVIDIA H200)" */
    char text[1024]; /* of the error */
    struct mesh_address address;
};

/* Everything but status, text, gpu, device and address. */
void hello_init(struct hello *out, int rank, int size);

/* Judges what came from all ranks; texts are cut where they lack an end. The verdict is the same on every rank: GRS_ERR_PEER
 * for ranks that differ, or the error of the ranks that failed. */
grs_status hello_check(struct hello *all, int size, grs_error *err);

/* "rank 2 (process 4711 on GPU 1 (NVIDIA H200))" */
void hello_name(const struct hello *hello, char *out, size_t size);

/* Ranks that share this rank's GPU, itself included. */
int hello_sharers(const struct hello *all, int size, int rank);

/* The errors of several ranks as one text, the same on each: the status of the first. `get` gives a rank's status and text,
 * `name` its name. GRS_OK when no rank failed. */
grs_status agree_errors(int size, grs_status (*get)(const void *arg, int rank, const char **text),
                        const char *(*name)(const void *arg, int rank), const void *arg, grs_error *err);

/* "max_M: 4096 on ranks 0, 1 and 3; 2048 on rank 2" when the texts differ. False: all are the same. */
bool agree_differ(const char *what, int size, void (*get)(const void *arg, int rank, char *out, size_t size),
                  const void *arg, struct buf *out);

#endif
