/* How the ranks of a mesh find one another: each listens, those above call those below, and strangers are turned away. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/error.h"
#include "runtime/mesh_message.h"

struct introduction { /* the data of MESH_HELLO */
    int32_t rank;
    uint8_t secret[16]; /* of the rank that listens */
};

/* ---------------------------------------------------------------- listening ------------------------------------- */

static socklen_t fill_address(const struct mesh_address *from, struct sockaddr_un *out) {
    size_t skip = from->in_directory ? 0 : 1; /* abstract names begin with a NUL and have no end but their length */
    _Static_assert(sizeof(from->path) < sizeof(out->sun_path), "a path and what marks it fit");
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    size_t length = strnlen(from->path, sizeof(from->path) - 1);
    memcpy(out->sun_path + skip, from->path, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
}

static grs_status check_directory(const char *directory, grs_error *err) {
    struct stat about;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return error_set(err, GRS_ERR_IO, "GRS_SOCKET_DIR=%s: %s", directory, strerror(errno));
    }
    if (stat(directory, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return error_set(err, GRS_ERR_IO, "GRS_SOCKET_DIR=%s: not a directory", directory);
    }
    if (about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
        return error_set(err, GRS_ERR_IO,
                         "GRS_SOCKET_DIR=%s: others may enter it (owner %u, mode %03o); allowed: a directory of this "
                         "user (%u) with mode 700",
                         directory, (unsigned)about.st_uid, (unsigned)about.st_mode & 0777, (unsigned)geteuid());
    }
    return GRS_OK;
}

static grs_status make_address(const char *directory, struct mesh_address *out, grs_error *err) {
    uint8_t random[sizeof(out->secret) + 8];
    memset(out, 0, sizeof(*out));
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return error_set(err, GRS_ERR_IO, "getrandom: %s", strerror(errno));
    }
    uint64_t name;
    memcpy(&name, random, sizeof(name));
    memcpy(out->secret, random + sizeof(name), sizeof(out->secret));
    out->in_directory = directory != NULL;
    int length = directory == NULL
                     ? snprintf(out->path, sizeof(out->path), "grs-%016llx", (unsigned long long)name)
                     : snprintf(out->path, sizeof(out->path), "%s/grs-%016llx", directory, (unsigned long long)name);
    return length < (int)sizeof(out->path)
               ? GRS_OK
               : error_set(err, GRS_ERR_IO, "GRS_SOCKET_DIR=%s: too long; allowed: up to %zu bytes", directory,
                           sizeof(out->path) - 22);
}

grs_status mesh_listen(struct mesh *mesh, int rank, int size, const char *directory, grs_error *err) {
    struct sockaddr_un address;
    mesh->rank = rank;
    mesh->size = size;
    mesh->listener = -1;
    for (int i = 0; i < GRS_MAX_TP; i++) {
        mesh->file[i] = -1;
    }
    grs_status status = directory == NULL ? GRS_OK : check_directory(directory, err);
    if (status != GRS_OK || (status = make_address(directory, &mesh->address, err)) != GRS_OK) {
        return status;
    }
    mesh->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (mesh->listener < 0) {
        return error_set(err, GRS_ERR_IO, "a Unix socket for the ranks of this host: %s", strerror(errno));
    }
    socklen_t length = fill_address(&mesh->address, &address);
    if (bind(mesh->listener, (struct sockaddr *)&address, length) != 0 || listen(mesh->listener, 2 * GRS_MAX_TP) != 0) {
        return error_set(err, GRS_ERR_IO, "the Unix socket %s: %s", mesh->address.path, strerror(errno));
    }
    return GRS_OK;
}

void mesh_stop_listening(struct mesh *mesh) {
    if (mesh->listener >= 0) {
        close(mesh->listener);
        if (mesh->address.in_directory) {
            unlink(mesh->address.path);
        }
    }
    mesh->listener = -1;
}

/* ---------------------------------------------------------------- connecting ------------------------------------ */

/* The other end must be a process of the same user. */
static bool is_own_user(int file) {
    struct ucred who;
    socklen_t length = sizeof(who);
    return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

static grs_status call(struct mesh *mesh, int to, const struct mesh_address *address, grs_error *err) {
    struct sockaddr_un where;
    struct introduction mine = {.rank = mesh->rank};
    int result;
    mesh->file[to] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (mesh->file[to] < 0) {
        return error_set(err, GRS_ERR_IO, "a Unix socket for the ranks of this host: %s", strerror(errno));
    }
    socklen_t length = fill_address(address, &where);
    do {
        result = connect(mesh->file[to], (struct sockaddr *)&where, length);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return error_set(err, GRS_ERR_PEER,
                         "rank %d cannot connect to the Unix socket %s of %s: %s (containers need a common network "
                         "namespace, or GRS_SOCKET_DIR in a common directory)",
                         mesh->rank, address->path, mesh->name[to], strerror(errno));
    }
    if (!is_own_user(mesh->file[to])) {
        return error_set(err, GRS_ERR_PEER, "the Unix socket %s of %s belongs to another user", address->path,
                         mesh->name[to]);
    }
    memcpy(mine.secret, address->secret, sizeof(mine.secret));
    if (!mesh_send(mesh->file[to], MESH_HELLO, 0, &mine, sizeof(mine), NULL)) {
        return error_set(err, GRS_ERR_PEER, "rank %d cannot send to %s: %s", mesh->rank, mesh->name[to],
                         strerror(errno));
    }
    return GRS_OK;
}

/* Reads the introduction of a caller. True: the caller is done with, for better (it is a rank now) or worse (closed). */
static bool admit(struct mesh *mesh, int file) {
    struct mesh_message message;
    struct introduction who;
    enum mesh_arrival arrival = mesh_receive(file, &message);
    if (arrival == MESH_NOTHING_YET) {
        return false;
    }
    if (arrival == MESH_ARRIVED) {
        mesh_close_files(message.files);
    }
    if (arrival == MESH_ARRIVED && message.header.kind == MESH_HELLO && message.header.bytes == sizeof(who)) {
        memcpy(&who, message.data, sizeof(who));
        unsigned differs = 0;
        for (size_t i = 0; i < sizeof(who.secret); i++) {
            differs |= (unsigned)(who.secret[i] ^ mesh->address.secret[i]);
        }
        if (differs == 0 && who.rank > mesh->rank && who.rank < mesh->size && mesh->file[who.rank] < 0) {
            mesh->file[who.rank] = file;
            return true;
        }
    }
    close(file);
    return true;
}

static int missing_count(const struct mesh *mesh) {
    int missing = 0;
    for (int rank = mesh->rank + 1; rank < mesh->size; rank++) {
        missing += mesh->file[rank] < 0;
    }
    return missing;
}

#define MAX_CALLERS (2 * GRS_MAX_TP)

/* Waits for the ranks above this one. Callers that say nothing are kept aside until they do. */
static grs_status answer(struct mesh *mesh, const struct deadline *deadline, grs_error *err) {
    struct pollfd callers[MAX_CALLERS + 1];
    nfds_t count = 1;
    grs_status status = GRS_OK;
    while (missing_count(mesh) > 0 && status == GRS_OK) {
        callers[0] = (struct pollfd){.fd = count <= MAX_CALLERS ? mesh->listener : -1, .events = POLLIN};
        int ready = poll(callers, count, deadline_left_ms(deadline));
        if (ready == 0) {
            bool here[GRS_MAX_TP];
            for (int rank = 0; rank < mesh->size; rank++) {
                here[rank] = rank == mesh->rank || mesh->file[rank] >= 0;
            }
            status = mesh_missing_error(mesh, here, "the connecting of ranks", deadline, err);
        } else if (ready < 0 && errno != EINTR) {
            status = error_set(err, GRS_ERR_IO, "poll: %s", strerror(errno));
        }
        for (nfds_t i = count - 1; ready > 0 && i >= 1; i--) {
            if (callers[i].revents != 0 && admit(mesh, callers[i].fd)) {
                callers[i] = callers[--count];
            }
        }
        if (ready > 0 && callers[0].revents != 0) {
            int file = accept4(mesh->listener, NULL, NULL, SOCK_CLOEXEC);
            if (file >= 0 && !is_own_user(file)) {
                close(file);
            } else if (file >= 0) {
                callers[count++] = (struct pollfd){.fd = file, .events = POLLIN};
            }
        }
    }
    for (nfds_t i = 1; i < count; i++) {
        close(callers[i].fd);
    }
    return status;
}

grs_status mesh_connect(struct mesh *mesh, const struct mesh_address *addresses, const struct deadline *deadline,
                        grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < mesh->rank && status == GRS_OK; rank++) {
        status = call(mesh, rank, &addresses[rank], err);
    }
    status = status == GRS_OK ? answer(mesh, deadline, err) : status;
    mesh_stop_listening(mesh);
    return status;
}
