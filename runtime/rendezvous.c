#include "runtime/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/hash.h"
#include "runtime/rendezvous_join.h"
#include "runtime/told.h"

#define FRAME_MAGIC 0x66737267u /* "grsf" */
struct frame {
    uint32_t magic, bytes;
    int32_t status; /* not 0: the data is the text of an error */
};

/* ---------------------------------------------------------------- bytes ----------------------------------------- */

static enum rendezvous_progress transfer(int file, void *data, size_t bytes, short event,
                                         const struct deadline *deadline) {
    for (size_t done = 0; done < bytes;) {
        struct pollfd polled = {.fd = file, .events = event};
        int ready = poll(&polled, 1, deadline_left_ms(deadline));
        if (ready == 0) {
            return RENDEZVOUS_TIMEOUT;
        }
        ssize_t got = event == POLLIN ? recv(file, (char *)data + done, bytes - done, MSG_DONTWAIT)
                                      : send(file, (char *)data + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            return RENDEZVOUS_GONE;
        }
    }
    return RENDEZVOUS_DONE;
}

enum rendezvous_progress rendezvous_read(int file, void *data, size_t bytes, const struct deadline *deadline) {
    return transfer(file, data, bytes, POLLIN, deadline);
}

enum rendezvous_progress rendezvous_write(int file, const void *data, size_t bytes, const struct deadline *deadline) {
    return transfer(file, (void *)(uintptr_t)data, bytes, POLLOUT, deadline); /* is only read */
}

grs_status rendezvous_no_answer(const struct rendezvous *rendezvous, grs_error *err) {
    struct buf text = {0};
    buf_printf(&text, "rank %d: rank 0 did not answer at %s within ", rendezvous->rank, rendezvous->place);
    buf_fixed(&text, rendezvous->deadline.seconds, 1);
    buf_puts(&text, " s (is it running, and are MASTER_ADDR and the port the same there?)");
    grs_status status = error_set(err, GRS_ERR_TIMEOUT, "%s", text.data == NULL ? "out of memory" : text.data);
    buf_free(&text);
    return status;
}

/* ---------------------------------------------------------------- frames ---------------------------------------- */

static enum rendezvous_progress send_frame(int file, grs_status status, const void *data, size_t bytes,
                                           const struct deadline *deadline) {
    struct frame frame = {FRAME_MAGIC, (uint32_t)bytes, (int32_t)status};
    enum rendezvous_progress progress = rendezvous_write(file, &frame, sizeof(frame), deadline);
    return progress == RENDEZVOUS_DONE ? rendezvous_write(file, data, bytes, deadline) : progress;
}

/* A frame of `bytes` from a rank (or of an error). */
static grs_status read_frame(const struct rendezvous *rendezvous, int from, void *data, size_t bytes, grs_error *err) {
    const struct deadline *deadline = &rendezvous->deadline;
    int file = rendezvous->file[from];
    struct frame frame;
    char text[4096];
    enum rendezvous_progress progress = rendezvous_read(file, &frame, sizeof(frame), deadline);
    bool is_error = progress == RENDEZVOUS_DONE && frame.magic == FRAME_MAGIC && frame.status != GRS_OK;
    if (progress == RENDEZVOUS_DONE &&
        (frame.magic != FRAME_MAGIC || (is_error ? frame.bytes >= sizeof(text) : frame.bytes != bytes))) {
        return error_set(err, GRS_ERR_PEER, "what rank %d sent to rank %d at %s is not of this library's version", from,
                         rendezvous->rank, rendezvous->place);
    }
    if (progress == RENDEZVOUS_DONE) {
        progress = rendezvous_read(file, is_error ? text : data, frame.bytes, deadline);
    }
    if (progress != RENDEZVOUS_DONE) {
        return error_set(err, progress == RENDEZVOUS_TIMEOUT ? GRS_ERR_TIMEOUT : GRS_ERR_PEER,
                         progress == RENDEZVOUS_TIMEOUT ? "rank %d did not come to the meeting at %s in time"
                                                        : "rank %d ended during the meeting at %s",
                         from, rendezvous->place);
    }
    if (is_error) {
        return told_error(frame.status, text, frame.bytes, err);
    }
    return GRS_OK;
}

static void tell_all(struct rendezvous *rendezvous, const grs_error *why) {
    struct deadline soon = deadline_in(1);
    rendezvous->told = rendezvous->rank == 0;
    for (int rank = 0; rank < rendezvous->size; rank++) {
        if (rendezvous->file[rank] >= 0) {
            send_frame(rendezvous->file[rank], why->status, why->text, strnlen(why->text, 4000), &soon);
        }
    }
}

static grs_status gather(struct rendezvous *rendezvous, const void *mine, size_t bytes, void *all, grs_error *err) {
    grs_status status = GRS_OK;
    if (bytes > RENDEZVOUS_MAX_BYTES) {
        return error_set(err, GRS_ERR_ARGUMENT, "%zu bytes of each rank; allowed: up to %d", bytes,
                         RENDEZVOUS_MAX_BYTES);
    }
    if (rendezvous->rank > 0) {
        return send_frame(rendezvous->file[0], GRS_OK, mine, bytes, &rendezvous->deadline) == RENDEZVOUS_TIMEOUT
                   ? rendezvous_no_answer(rendezvous, err)
                   : read_frame(rendezvous, 0, all, bytes * (size_t)rendezvous->size, err);
    }
    memcpy(all, mine, bytes);
    for (int rank = 1; rank < rendezvous->size && status == GRS_OK; rank++) {
        status = read_frame(rendezvous, rank, (char *)all + (size_t)rank * bytes, bytes, err);
    }
    if (status != GRS_OK) {
        tell_all(rendezvous, err);
        return status;
    }
    for (int rank = 1; rank < rendezvous->size; rank++) { /* who has gone is missed by what comes next */
        send_frame(rendezvous->file[rank], GRS_OK, all, bytes * (size_t)rendezvous->size, &rendezvous->deadline);
    }
    return GRS_OK;
}

int rendezvous_all_gather(void *arg, const void *mine, size_t bytes, void *all) {
    struct rendezvous *rendezvous = arg;
    return gather(rendezvous, mine, bytes, all, &rendezvous->error) == GRS_OK ? 0 : -1;
}

int rendezvous_barrier(void *arg) {
    char mine = 0, all[GRS_MAX_TP];
    return rendezvous_all_gather(arg, &mine, sizeof(mine), all);
}

void rendezvous_abort(void *arg, const char *why) {
    grs_error error;
    error_set(&error, GRS_ERR_PEER, "%s", why);
    tell_all(arg, &error);
}

/* ---------------------------------------------------------------- life ------------------------------------------ */

grs_status rendezvous_open(struct rendezvous *out, const char *address, int port, const char *token, int rank, int size,
                           double seconds, grs_error *err) {
    memset(out, 0, sizeof(*out));
    out->rank = rank;
    out->size = size;
    out->listener = -1;
    memset(out->file, -1, sizeof(out->file));
    out->deadline = deadline_in(seconds);
    snprintf(out->place, sizeof(out->place), "%s:%d", address, port);
    hash_sha256(token, strlen(token), out->key);
    if (size == 1) {
        return GRS_OK;
    }
    grs_status status = rendezvous_join(out, address, port, err);
    if (status != GRS_OK && rank == 0) {
        tell_all(out, err);
    }
    if (out->listener >= 0) {
        close(out->listener);
        out->listener = -1;
    }
    return status;
}

/* Data that nobody has read makes close() throw away what was sent before it: so it is read, for a moment. */
static void drain(int file, const struct deadline *deadline) {
    char unread[4096];
    shutdown(file, SHUT_WR);
    while (rendezvous_read(file, unread, 1, deadline) == RENDEZVOUS_DONE) {
        while (recv(file, unread, sizeof(unread), MSG_DONTWAIT) > 0) {}
    }
}

void rendezvous_close(struct rendezvous *rendezvous) {
    struct deadline soon = deadline_in(0.5);
    for (int rank = 0; rank < rendezvous->size && rendezvous->told; rank++) {
        if (rendezvous->file[rank] >= 0) {
            drain(rendezvous->file[rank], &soon);
        }
    }
    for (int rank = 0; rank < rendezvous->size; rank++) {
        if (rendezvous->file[rank] >= 0) {
            close(rendezvous->file[rank]);
        }
        rendezvous->file[rank] = -1;
    }
}
