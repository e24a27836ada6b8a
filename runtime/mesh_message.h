/* Messages of a mesh, as they go through one socket; for mesh.c and mesh_join.c. */
#ifndef GRS_RUNTIME_MESH_MESSAGE_H
#define GRS_RUNTIME_MESH_MESSAGE_H

#include "runtime/mesh.h"

enum mesh_kind { MESH_HELLO = 1, MESH_DATA, MESH_FAILED, MESH_LEAVE };

struct mesh_header {
    uint32_t magic, kind, sequence, bytes;
};

struct mesh_message {
    struct mesh_header header;
    char data[MESH_MAX_BYTES + 1]; /* a byte more than is allowed, so that too much is seen; NUL-terminated */
    int files[MESH_MAX_FILES];     /* -1: none */
};

/* Never waits: a socket holds more than ranks send before they read. False: errno says why. `files` (borrowed) may be NULL. */
bool mesh_send(int file, enum mesh_kind kind, uint32_t sequence, const void *data, size_t bytes, const int *files);

enum mesh_arrival { MESH_ARRIVED, MESH_NOTHING_YET, MESH_ENDED, MESH_GARBAGE };

/* Never waits either. The files of a message that arrived are the caller's to close. */
enum mesh_arrival mesh_receive(int file, struct mesh_message *out);
void mesh_close_files(int *files); /* MESH_MAX_FILES of them */

/* An errno after which a read is tried again. A reset is told once, before what was sent earlier can be read: the other end closed
 * without reading all. */
bool mesh_is_passing(int error);

/* GRS_ERR_TIMEOUT that names the ranks that are not `here`. */
grs_status mesh_missing_error(const struct mesh *mesh, const bool *here, const char *what,
                              const struct deadline *deadline, grs_error *err);

/* mesh_join.c: closes the listener, and removes its name from the directory. */
void mesh_stop_listening(struct mesh *mesh);

#endif
