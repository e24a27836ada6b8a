#include "runtime/mesh.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buf.h"
#include "runtime/told.h"

#define MAGIC 0x6d737267u /* "grsm" */

enum kind { KIND_HELLO = 1, KIND_DATA, KIND_FAILED, KIND_LEAVE };

struct header {
    uint32_t magic, kind, sequence, bytes;
};

struct introduction { /* the data of KIND_HELLO */
    int32_t rank;
    uint8_t secret[16]; /* of the rank that listens */
};

static grs_status system_error(grs_error *err, grs_status status, const char *what) {
    return error_set(err, status, "%s: %s", what, strerror(errno));
}

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
        return system_error(err, GRS_ERR_IO, "getrandom");
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
        return system_error(err, GRS_ERR_IO, "a Unix socket for the ranks of this host");
    }
    socklen_t length = fill_address(&mesh->address, &address);
    if (bind(mesh->listener, (struct sockaddr *)&address, length) != 0 || listen(mesh->listener, 2 * GRS_MAX_TP) != 0) {
        return error_set(err, GRS_ERR_IO, "the Unix socket %s: %s", mesh->address.path, strerror(errno));
    }
    return GRS_OK;
}

static void stop_listening(struct mesh *mesh) {
    if (mesh->listener >= 0) {
        close(mesh->listener);
        if (mesh->address.in_directory) {
            unlink(mesh->address.path);
        }
    }
    mesh->listener = -1;
}

/* ---------------------------------------------------------------- messages -------------------------------------- */

union control {
    char bytes[CMSG_SPACE(MESH_MAX_FILES * sizeof(int))];
    struct cmsghdr align;
};

/* Never waits: a socket holds more than ranks send before they read. False: errno says why. */
static bool send_message(int file, enum kind kind, uint32_t sequence, const void *data, size_t bytes,
                         const int *files) {
    struct header header = {MAGIC, kind, sequence, (uint32_t)bytes};
    struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)data, bytes}};
    union control control = {{0}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes > 0 ? 2 : 1};
    int count = 0, list[MESH_MAX_FILES];
    for (int i = 0; files != NULL && i < MESH_MAX_FILES; i++) {
        if (files[i] >= 0) {
            list[count++] = files[i];
        }
    }
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(head), list, (size_t)count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(file, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)(sizeof(header) + bytes);
}

struct message {
    struct header header;
    char data[MESH_MAX_BYTES + 1]; /* a byte more than is allowed, so that too much is seen; NUL-terminated */
    int files[MESH_MAX_FILES];     /* -1: none */
};

static void close_files(int *files) {
    for (int i = 0; i < MESH_MAX_FILES; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
        files[i] = -1;
    }
}

/* All that came along, so that nothing stays open that was not asked for. */
static void take_files(struct msghdr *message, int *out) {
    int count = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t i = 0; i < (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int file;
            memcpy(&file, CMSG_DATA(head) + i * sizeof(int), sizeof(file));
            if (count < MESH_MAX_FILES) {
                out[count++] = file;
            } else {
                close(file);
            }
        }
    }
}

/* A reset is told once, before what was sent earlier can be read: the other end closed without reading all. */
static bool is_passing(int error) {
    return error == EINTR || error == ECONNRESET;
}

enum arrival { ARRIVED, NOTHING_YET, ENDED, GARBAGE };

static enum arrival receive_message(int file, struct message *out) {
    union control control;
    struct iovec parts[] = {{&out->header, sizeof(out->header)}, {out->data, sizeof(out->data)}};
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got;
    for (int i = 0; i < MESH_MAX_FILES; i++) {
        out->files[i] = -1;
    }
    do {
        got = recvmsg(file, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && is_passing(errno));
    if (got < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? NOTHING_YET : ENDED;
    }
    take_files(&message, out->files);
    if (got == 0) {
        return ENDED;
    }
    if ((size_t)got < sizeof(out->header) || out->header.magic != MAGIC || out->header.bytes > MESH_MAX_BYTES ||
        (size_t)got != sizeof(out->header) + out->header.bytes || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        close_files(out->files);
        return GARBAGE;
    }
    out->data[out->header.bytes] = '\0';
    return ARRIVED;
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
        return system_error(err, GRS_ERR_IO, "a Unix socket for the ranks of this host");
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
    if (!send_message(mesh->file[to], KIND_HELLO, 0, &mine, sizeof(mine), NULL)) {
        return error_set(err, GRS_ERR_PEER, "rank %d cannot send to %s: %s", mesh->rank, mesh->name[to],
                         strerror(errno));
    }
    return GRS_OK;
}

/* Reads the introduction of a caller. True: the caller is done with, for better (it is a rank now) or worse (closed). */
static bool admit(struct mesh *mesh, int file) {
    struct message message;
    struct introduction who;
    enum arrival arrival = receive_message(file, &message);
    if (arrival == NOTHING_YET) {
        return false;
    }
    if (arrival == ARRIVED) {
        close_files(message.files);
    }
    if (arrival == ARRIVED && message.header.kind == KIND_HELLO && message.header.bytes == sizeof(who)) {
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

static grs_status missing_error(const struct mesh *mesh, const bool *here, const char *what,
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
            status = missing_error(mesh, here, "the connecting of ranks", deadline, err);
        } else if (ready < 0 && errno != EINTR) {
            status = system_error(err, GRS_ERR_IO, "poll");
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
    stop_listening(mesh);
    return status;
}

/* ---------------------------------------------------------------- exchanges ------------------------------------- */

void mesh_files_init(struct mesh_files *files) {
    memset(files, -1, sizeof(*files)); /* every int is -1 */
}

void mesh_files_close(struct mesh_files *files) {
    for (int rank = 0; rank < GRS_MAX_TP; rank++) {
        close_files(files->received[rank]);
    }
}

struct failure { /* the data of KIND_FAILED, as far as the text goes */
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
            send_message(mesh->file[rank], KIND_FAILED, mesh->sequence, &failure,
                         offsetof(struct failure, text) + length, NULL);
        }
    }
}

static grs_status told_failure(struct message *message, grs_error *err) {
    const size_t skip = offsetof(struct failure, text);
    int32_t status;
    memcpy(&status, message->data, sizeof(status));
    return told_error(status, message->data + skip, message->header.bytes - skip, err);
}

/* A message of `rank` during an exchange of `bytes`. */
static grs_status take(struct mesh *mesh, int rank, const char *what, enum arrival arrival, struct message *message,
                       size_t bytes, void *all, struct mesh_files *files, grs_error *err) {
    if (arrival == ENDED) {
        return error_set(err, GRS_ERR_PEER, "%s ended before %s was done", mesh->name[rank], what);
    }
    if (arrival == GARBAGE) {
        return error_set(err, GRS_ERR_PEER, "what %s sent in %s is not a message of this library", mesh->name[rank],
                         what);
    }
    if (message->header.kind == KIND_LEAVE) {
        mesh->left[rank] = true;
        return error_set(err, GRS_ERR_PEER, "%s has destroyed its communicator, and others are in %s", mesh->name[rank],
                         what);
    }
    if (message->header.kind == KIND_FAILED && message->header.bytes > offsetof(struct failure, text)) {
        return told_failure(message, err);
    }
    if (message->header.kind != KIND_DATA || message->header.sequence != mesh->sequence ||
        message->header.bytes != bytes) {
        return error_set(err, GRS_ERR_PEER, "%s is in another call than rank %d, which is in %s", mesh->name[rank],
                         mesh->rank, what);
    }
    memcpy((char *)all + (size_t)rank * bytes, message->data, bytes);
    if (files != NULL) {
        memcpy(files->received[rank], message->files, sizeof(message->files));
    } else {
        close_files(message->files);
    }
    return GRS_OK;
}

static grs_status collect(struct mesh *mesh, const char *what, size_t bytes, void *all, struct mesh_files *files,
                          bool *here, const struct deadline *deadline, grs_error *err) {
    struct message message;
    struct pollfd polled[GRS_MAX_TP];
    for (int missing = mesh->size - 1; missing > 0;) {
        for (int rank = 0; rank < mesh->size; rank++) {
            polled[rank] = (struct pollfd){.fd = here[rank] ? -1 : mesh->file[rank], .events = POLLIN};
        }
        int ready = poll(polled, (nfds_t)mesh->size, deadline_left_ms(deadline));
        if (ready == 0) {
            return missing_error(mesh, here, what, deadline, err);
        }
        if (ready < 0 && errno != EINTR) {
            return system_error(err, GRS_ERR_IO, "poll");
        }
        for (int rank = 0; ready > 0 && rank < mesh->size; rank++) {
            enum arrival arrival =
                polled[rank].revents == 0 ? NOTHING_YET : receive_message(mesh->file[rank], &message);
            if (arrival == NOTHING_YET) {
                continue;
            }
            grs_status status = take(mesh, rank, what, arrival, &message, bytes, all, files, err);
            if (status != GRS_OK) {
                if (arrival == ARRIVED) {
                    close_files(message.files);
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
            send_message(mesh->file[rank], KIND_DATA, mesh->sequence, mine, bytes,
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
    struct header header;
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] < 0 || mesh->left[rank]) {
            continue;
        }
        ssize_t got;
        do {
            got = recv(mesh->file[rank], &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
        } while (got < 0 && is_passing(errno));
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
            return rank;
        }
    }
    return -1;
}

void mesh_leave(struct mesh *mesh) {
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] >= 0) {
            send_message(mesh->file[rank], KIND_LEAVE, mesh->sequence, NULL, 0, NULL);
        }
    }
}

void mesh_close(struct mesh *mesh) {
    stop_listening(mesh);
    for (int rank = 0; rank < mesh->size; rank++) {
        if (mesh->file[rank] >= 0) {
            close(mesh->file[rank]);
        }
        mesh->file[rank] = -1;
    }
}
