#include "runtime/mesh_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x6d737267u /* "grsm" */

union control {
    char bytes[CMSG_SPACE(MESH_MAX_FILES * sizeof(int))];
    struct cmsghdr align;
};

bool mesh_send(int file, enum mesh_kind kind, uint32_t sequence, const void *data, size_t bytes, const int *files) {
    struct mesh_header header = {MAGIC, kind, sequence, (uint32_t)bytes};
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

void mesh_close_files(int *files) {
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

bool mesh_is_passing(int error) {
    return error == EINTR || error == ECONNRESET;
}

enum mesh_arrival mesh_receive(int file, struct mesh_message *out) {
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
    } while (got < 0 && mesh_is_passing(errno));
    if (got < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? MESH_NOTHING_YET : MESH_ENDED;
    }
    take_files(&message, out->files);
    if (got == 0) {
        mesh_close_files(out->files);
        return MESH_ENDED;
    }
    if ((size_t)got < sizeof(out->header) || out->header.magic != MAGIC || out->header.bytes > MESH_MAX_BYTES ||
        (size_t)got != sizeof(out->header) + out->header.bytes || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        mesh_close_files(out->files);
        return MESH_GARBAGE;
    }
    out->data[out->header.bytes] = '\0';
    return MESH_ARRIVED;
}
