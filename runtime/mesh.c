#include "runtime/mesh.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/mesh_message.h"
#include "runtime/told.h"

grs_status mesh_missing_error(const struct mesh *mesh, const bool *here, const char *what,
                              const struct deadline *deadline, grs_error *err) {
    struct buf text = {0};
    for (int rank = 0; rank < mesh->size; rank++) {
        if (!here[rank]) {
            buf_printf(&text, "%s%s", text.length > 0 ? ", " : "", mesh->name[rank]);
        }
    }
    buf_printf(&text, " did not come to %s within ", what);
    buf_fixed(&text, deadline->seconds, 1);
    buf_puts(&text, " s");
    grs_status status = error_set(err, GRS_ERR_TIMEOUT, "%s", text.data == NULL ? "out of memory" : text.data);
    buf_free(&text);
    return status;
}

/* ---------------------------------------------------------------- exchanges ------------------------------------- */

void mesh_files_init(struct mesh_files *files) {
    memset(files, -1, sizeof(*files)); /* every int is -1 */
}

void mesh_files_close(struct mesh_files *files) {
    for (int rank = 0; rank < GRS_MAX_TP; rank++) {
        mesh_close_files(files->received[rank]);
    }
}

struct failure { /* the data of MESH_FAILED, as far as the text goes */
    int32_t status;
    char text[MESH_MAX_BYTES - sizeof(int32_t)];
};

/* The others wait for this rank's next message: they get the reason why there will be none. */
static void tell_failure(struct mesh *mesh, const grs_error *why) {
    struct failure failure = {.status = (int32_t)why->status};
    size_t length = strnlen(why->text, sizeof(failure.text));
    memcpy(failure.text, why->text, length);
    mesh->failed = true;
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] >= 0) {
            mesh_send(mesh->file[rank], MESH_FAILED, mesh->sequence, &failure, offsetof(struct failure, text) + length,
                      NULL);
        }
    }
}

static grs_status told_failure(struct mesh_message *message, grs_error *err) {
    const size_t skip = offsetof(struct failure, text);
    int32_t status;
    memcpy(&status, message->data, sizeof(status));
    return told_error(status, message->data + skip, message->header.bytes - skip, err);
}

/* A message of `rank` during an exchange of `bytes`. */
static grs_status take(struct mesh *mesh, int rank, const char *what, enum mesh_arrival arrival,
                       struct mesh_message *message, size_t bytes, void *all, struct mesh_files *files,
                       grs_error *err) {
    if (arrival == MESH_ENDED) {
        return error_set(err, GRS_ERR_PEER, "%s ended before %s was done", mesh->name[rank], what);
    }
    if (arrival == MESH_GARBAGE) {
        return error_set(err, GRS_ERR_PEER, "what %s sent in %s is not a message of this library", mesh->name[rank],
                         what);
    }
    if (message->header.kind == MESH_LEAVE) {
        mesh->left[rank] = true;
        return error_set(err, GRS_ERR_PEER, "%s has destroyed its communicator, and others are in %s", mesh->name[rank],
                         what);
    }
    if (message->header.kind == MESH_FAILED && message->header.bytes > offsetof(struct failure, text)) {
        return told_failure(message, err);
    }
    if (message->header.kind != MESH_DATA || message->header.sequence != mesh->sequence ||
        message->header.bytes != bytes) {
        return error_set(err, GRS_ERR_PEER, "%s is in another call than rank %d, which is in %s", mesh->name[rank],
                         mesh->rank, what);
    }
    memcpy((char *)all + (size_t)rank * bytes, message->data, bytes);
    if (files != NULL) {
        memcpy(files->received[rank], message->files, sizeof(message->files));
    } else {
        mesh_close_files(message->files);
    }
    return GRS_OK;
}

static grs_status collect(struct mesh *mesh, const char *what, size_t bytes, void *all, struct mesh_files *files,
                          bool *here, const struct deadline *deadline, grs_error *err) {
    struct mesh_message message;
    struct pollfd polled[GRS_MAX_TP];
    for (int missing = mesh->size - 1; missing > 0;) {
        for (int rank = 0; rank < mesh->size; rank++) {
            polled[rank] = (struct pollfd){.fd = here[rank] ? -1 : mesh->file[rank], .events = POLLIN};
        }
        int ready = poll(polled, (nfds_t)mesh->size, deadline_left_ms(deadline));
        if (ready == 0) {
            return mesh_missing_error(mesh, here, what, deadline, err);
        }
        if (ready < 0 && errno != EINTR) {
            return error_set(err, GRS_ERR_IO, "poll: %s", strerror(errno));
        }
        for (int rank = 0; ready > 0 && rank < mesh->size; rank++) {
            enum mesh_arrival arrival =
                polled[rank].revents == 0 ? MESH_NOTHING_YET : mesh_receive(mesh->file[rank], &message);
            if (arrival == MESH_NOTHING_YET) {
                continue;
            }
            grs_status status = take(mesh, rank, what, arrival, &message, bytes, all, files, err);
            if (status != GRS_OK) {
                if (arrival == MESH_ARRIVED) {
                    mesh_close_files(message.files);
                }
                return status;
            }
            here[rank] = true;
            missing--;
        }
    }
    return GRS_OK;
}

grs_status mesh_exchange(struct mesh *mesh, const char *what, const void *mine, size_t bytes, void *all,
                         struct mesh_files *files, const struct deadline *deadline, grs_error *err) {
    grs_error own;
    bool here[GRS_MAX_TP] = {false};
    err = err == NULL ? &own : err;
    if (mesh->failed) {
        return error_set(err, GRS_ERR_STATE,
                         "an exchange between the ranks has failed before: make the communicator anew on every rank");
    }
    memcpy((char *)all + (size_t)mesh->rank * bytes, mine, bytes);
    here[mesh->rank] = true;
    /* A failure to send is told by what is, or is not, received. */
    for (int rank = 0; rank < mesh->size; rank++) {
        if (rank != mesh->rank) {
            mesh_send(mesh->file[rank], MESH_DATA, mesh->sequence, mine, bytes,
                      files == NULL ? NULL : files->send[rank]);
        }
    }
    grs_status status = collect(mesh, what, bytes, all, files, here, deadline, err);
    if (status != GRS_OK) {
        tell_failure(mesh, err);
    }
    mesh->sequence++;
    return status;
}

/* ---------------------------------------------------------------- the end --------------------------------------- */

int mesh_find_lost(const struct mesh *mesh) {
    struct mesh_header header;
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] < 0 || mesh->left[rank]) {
            continue;
        }
        ssize_t got;
        do {
            got = recv(mesh->file[rank], &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
        } while (got < 0 && mesh_is_passing(errno));
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
            return rank;
        }
    }
    return -1;
}

void mesh_leave(struct mesh *mesh) {
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] >= 0) {
            mesh_send(mesh->file[rank], MESH_LEAVE, mesh->sequence, NULL, 0, NULL);
        }
    }
}

void mesh_close(struct mesh *mesh) {
    mesh_stop_listening(mesh);
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] >= 0) {
            close(mesh->file[rank]);
        }
        mesh->file[rank] = -1;
    }
}
