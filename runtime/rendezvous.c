#include "runtime/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/error.h"
#include "common/hash.h"
#include "runtime/told.h"

static const char magic[8] = {'g', 'r', 's', '-', 'm', 'e', 'e', 't'};

#define FRAME_MAGIC 0x66737267u /* "grsf" */
struct frame {
    uint32_t magic, bytes;
    int32_t status; /* not 0: the data is the text of an error */
};

/* ---------------------------------------------------------------- bytes ----------------------------------------- */

enum progress { DONE, TIMEOUT, GONE };

static enum progress transfer(int file, void *data, size_t bytes, short event, const struct deadline *deadline) {
    for (size_t done = 0; done < bytes;) {
        struct pollfd polled = {.fd = file, .events = event};
        int ready = poll(&polled, 1, deadline_left_ms(deadline));
        if (ready == 0) {
            return TIMEOUT;
        }
        ssize_t got = event == POLLIN ? recv(file, (char *)data + done, bytes - done, MSG_DONTWAIT)
                                      : send(file, (char *)data + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
            return GONE;
        }
    }
    return DONE;
}

static enum progress read_all(int file, void *data, size_t bytes, const struct deadline *deadline) {
    return transfer(file, data, bytes, POLLIN, deadline);
}

static enum progress write_all(int file, const void *data, size_t bytes, const struct deadline *deadline) {
    return transfer(file, (void *)(uintptr_t)data, bytes, POLLOUT, deadline); /* is only read */
}

/* ---------------------------------------------------------------- who calls ------------------------------------- */

void rendezvous_prove(const uint8_t key[32], const char *who, const uint8_t server_nonce[16],
                      const struct rendezvous_request *request, uint8_t out[32]) {
    struct {
        uint8_t key[32], server_nonce[16], nonce[16];
        char who[8];
        int32_t rank, size;
    } said = {.rank = request->rank, .size = request->size};
    memcpy(said.key, key, sizeof(said.key));
    memcpy(said.server_nonce, server_nonce, sizeof(said.server_nonce));
    memcpy(said.nonce, request->nonce, sizeof(said.nonce));
    memcpy(said.who, who, strnlen(who, sizeof(said.who)));
    hash_sha256(&said, sizeof(said), out);
}

static bool same(const uint8_t a[32], const uint8_t b[32]) { /* in a time that does not tell where they differ */
    unsigned differs = 0;
    for (int i = 0; i < 32; i++) {
        differs |= (unsigned)(a[i] ^ b[i]);
    }
    return differs == 0;
}

int rendezvous_judge(const struct rendezvous *rendezvous, const uint8_t nonce[16],
                     const struct rendezvous_request *request, struct rendezvous_reply *reply) {
    uint8_t wanted[32];
    memset(reply, 0, sizeof(*reply));
    reply->status = GRS_ERR_PEER;
    if (memcmp(request->magic, magic, sizeof(magic)) != 0) {
        snprintf(reply->text, sizeof(reply->text), "a caller that is no rank of this library");
        return -1;
    }
    rendezvous_prove(rendezvous->key, "caller", nonce, request, wanted);
    if (!same(wanted, request->proof)) {
        snprintf(reply->text, sizeof(reply->text), "rank %d has another token than rank 0 (GRS_TOKEN, or another job)",
                 request->rank);
        return -1;
    }
    if (request->size != rendezvous->size) {
        snprintf(reply->text, sizeof(reply->text), "rank %d says that there are %d ranks, rank 0 that there are %d",
                 request->rank, request->size, rendezvous->size);
        return -1;
    }
    if (request->rank < 1 || request->rank >= rendezvous->size) {
        snprintf(reply->text, sizeof(reply->text), "rank %d is none of 1 to %d", request->rank, rendezvous->size - 1);
        return -1;
    }
    if (rendezvous->file[request->rank] >= 0) {
        snprintf(reply->text, sizeof(reply->text), "rank %d is there already: two processes have its number",
                 request->rank);
        return -1;
    }
    reply->status = GRS_OK;
    rendezvous_prove(rendezvous->key, "master", nonce, request, reply->proof);
    return request->rank;
}

/* ---------------------------------------------------------------- rank 0 ---------------------------------------- */

struct caller {
    int file;
    uint8_t nonce[16];
    struct rendezvous_request request;
    size_t got; /* bytes of it */
};
#define MAX_CALLERS 128

static void greet(struct rendezvous *rendezvous, struct caller *callers, int *count) {
    struct rendezvous_greeting greeting;
    int file = accept4(rendezvous->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (file < 0) {
        return;
    }
    if (*count == MAX_CALLERS) { /* the oldest has said nothing for longest */
        close(callers[0].file);
        memmove(callers, callers + 1, (size_t)-- * count * sizeof(*callers));
    }
    struct caller *caller = &callers[*count];
    memset(caller, 0, sizeof(*caller));
    memcpy(greeting.magic, magic, sizeof(magic));
    if (getrandom(greeting.nonce, sizeof(greeting.nonce), 0) != (ssize_t)sizeof(greeting.nonce) ||
        send(file, &greeting, sizeof(greeting), MSG_NOSIGNAL) != (ssize_t)sizeof(greeting)) {
        close(file);
        return;
    }
    memcpy(caller->nonce, greeting.nonce, sizeof(caller->nonce));
    caller->file = file;
    ++*count;
}

/* Reads on. True: the caller is done with, as a rank or not. */
static bool listen_to(struct rendezvous *rendezvous, struct caller *caller) {
    struct rendezvous_reply reply;
    ssize_t got =
        recv(caller->file, (char *)&caller->request + caller->got, sizeof(caller->request) - caller->got, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return false;
    }
    caller->got += got > 0 ? (size_t)got : 0;
    if (got > 0 && caller->got < sizeof(caller->request)) {
        return false;
    }
    if (got > 0) {
        int rank = rendezvous_judge(rendezvous, caller->nonce, &caller->request, &reply);
        bool sent = send(caller->file, &reply, sizeof(reply), MSG_NOSIGNAL) == (ssize_t)sizeof(reply);
        if (rank >= 0 && sent) {
            rendezvous->file[rank] = caller->file;
            return true;
        }
        if (rank < 0) {
            snprintf(rendezvous->refused, sizeof(rendezvous->refused), "%s", reply.text);
        }
    }
    close(caller->file);
    return true;
}

static void list_missing(const struct rendezvous *rendezvous, struct buf *out) {
    int count = 0, done = 0;
    for (int rank = 1; rank < rendezvous->size; rank++) {
        count += rendezvous->file[rank] < 0;
    }
    buf_puts(out, count == 1 ? "rank " : "ranks ");
    for (int rank = 1; rank < rendezvous->size; rank++) {
        if (rendezvous->file[rank] < 0) {
            buf_printf(out, "%s%d", done == 0 ? "" : (done == count - 1 ? " and " : ", "), rank);
            done++;
        }
    }
}

static grs_status missing_error(const struct rendezvous *rendezvous, grs_error *err) {
    struct buf text = {0};
    list_missing(rendezvous, &text);
    buf_printf(&text, " of %d did not come to rank 0 at %s within ", rendezvous->size, rendezvous->place);
    buf_fixed(&text, rendezvous->deadline.seconds, 1);
    buf_puts(&text, " s");
    if (rendezvous->refused[0] != '\0') {
        buf_printf(&text, "; turned away: %s", rendezvous->refused);
    }
    grs_status status = error_set(err, GRS_ERR_TIMEOUT, "%s", text.data == NULL ? "out of memory" : text.data);
    buf_free(&text);
    return status;
}

static int missing_count(const struct rendezvous *rendezvous) {
    int missing = 0;
    for (int rank = 1; rank < rendezvous->size; rank++) {
        missing += rendezvous->file[rank] < 0;
    }
    return missing;
}

static grs_status wait_for_ranks(struct rendezvous *rendezvous, grs_error *err) {
    struct caller *callers = calloc(MAX_CALLERS, sizeof(*callers));
    struct pollfd polled[MAX_CALLERS + 1];
    int count = 0;
    grs_status status = callers == NULL ? error_set(err, GRS_ERR_MEMORY, "out of memory for callers") : GRS_OK;
    while (status == GRS_OK && missing_count(rendezvous) > 0) {
        polled[0] = (struct pollfd){.fd = rendezvous->listener, .events = POLLIN};
        for (int i = 0; i < count; i++) {
            polled[i + 1] = (struct pollfd){.fd = callers[i].file, .events = POLLIN};
        }
        int ready = poll(polled, (nfds_t)count + 1, deadline_left_ms(&rendezvous->deadline));
        if (ready == 0) {
            status = missing_error(rendezvous, err);
        }
        for (int i = count - 1; ready > 0 && i >= 0; i--) {
            if (polled[i + 1].revents != 0 && listen_to(rendezvous, &callers[i])) {
                memmove(callers + i, callers + i + 1, (size_t)(--count - i) * sizeof(*callers));
            }
        }
        if (ready > 0 && polled[0].revents != 0) {
            greet(rendezvous, callers, &count);
        }
    }
    for (int i = 0; i < count; i++) {
        close(callers[i].file);
    }
    free(callers);
    return status;
}

/* ---------------------------------------------------------------- addresses ------------------------------------- */

static grs_status resolve(const struct rendezvous *rendezvous, const char *address, int port, struct addrinfo **out,
                          grs_error *err) {
    char service[16];
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    snprintf(service, sizeof(service), "%d", port);
    int code = getaddrinfo(address, service, &hints, out);
    return code == 0 ? GRS_OK
                     : error_set(err, GRS_ERR_IO, "the address of rank 0, %s: %s (MASTER_ADDR, GRS_MASTER_ADDR)",
                                 rendezvous->place, gai_strerror(code));
}

static grs_status start_listening(struct rendezvous *rendezvous, const struct addrinfo *where, grs_error *err) {
    int one = 1, error = 0;
    for (; where != NULL && rendezvous->listener < 0; where = where->ai_next) {
        int file = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (file >= 0) {
            setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        }
        if (file >= 0 && bind(file, where->ai_addr, where->ai_addrlen) == 0 && listen(file, MAX_CALLERS) == 0) {
            rendezvous->listener = file;
        } else {
            error = errno;
            if (file >= 0) {
                close(file);
            }
        }
    }
    return rendezvous->listener >= 0
               ? GRS_OK
               : error_set(err, GRS_ERR_IO,
                           "rank 0 cannot listen at %s: %s (GRS_MASTER_PORT takes another port, the same on all ranks)",
                           rendezvous->place, strerror(error));
}

/* ---------------------------------------------------------------- the others ------------------------------------ */

static grs_status no_answer(const struct rendezvous *rendezvous, grs_error *err) {
    struct buf text = {0};
    buf_printf(&text, "rank %d: rank 0 did not answer at %s within ", rendezvous->rank, rendezvous->place);
    buf_fixed(&text, rendezvous->deadline.seconds, 1);
    buf_puts(&text, " s (is it running, and are MASTER_ADDR and the port the same there?)");
    grs_status status = error_set(err, GRS_ERR_TIMEOUT, "%s", text.data == NULL ? "out of memory" : text.data);
    buf_free(&text);
    return status;
}

static grs_status not_rank_0(const struct rendezvous *rendezvous, grs_error *err) {
    return error_set(err, GRS_ERR_PEER,
                     "rank %d: what answers at %s is not rank 0 of this job (GRS_MASTER_PORT takes another port)",
                     rendezvous->rank, rendezvous->place);
}

/* Until rank 0 listens. */
static int dial(const struct rendezvous *rendezvous, const struct addrinfo *addresses) {
    struct timespec pause = {0, 10000000};
    while (deadline_left_ms(&rendezvous->deadline) > 0) {
        for (const struct addrinfo *where = addresses; where != NULL; where = where->ai_next) {
            int file = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (file >= 0 && connect(file, where->ai_addr, where->ai_addrlen) == 0) {
                return file;
            }
            if (file >= 0) {
                close(file);
            }
        }
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec < 160000000 ? pause.tv_nsec * 2 : pause.tv_nsec;
    }
    return -1;
}

static grs_status introduce(struct rendezvous *rendezvous, grs_error *err) {
    struct rendezvous_greeting greeting;
    struct rendezvous_request request = {.rank = rendezvous->rank, .size = rendezvous->size};
    struct rendezvous_reply reply;
    uint8_t wanted[32];
    int file = rendezvous->file[0];
    enum progress progress = read_all(file, &greeting, sizeof(greeting), &rendezvous->deadline);
    if (progress != DONE || memcmp(greeting.magic, magic, sizeof(magic)) != 0) {
        return progress == TIMEOUT ? no_answer(rendezvous, err) : not_rank_0(rendezvous, err);
    }
    memcpy(request.magic, magic, sizeof(magic));
    if (getrandom(request.nonce, sizeof(request.nonce), 0) != (ssize_t)sizeof(request.nonce)) {
        return error_set(err, GRS_ERR_IO, "getrandom: %s", strerror(errno));
    }
    rendezvous_prove(rendezvous->key, "caller", greeting.nonce, &request, request.proof);
    progress = write_all(file, &request, sizeof(request), &rendezvous->deadline);
    if (progress == DONE) {
        progress = read_all(file, &reply, sizeof(reply), &rendezvous->deadline);
    }
    if (progress != DONE) {
        return progress == TIMEOUT ? no_answer(rendezvous, err) : not_rank_0(rendezvous, err);
    }
    if (reply.status != GRS_OK) {
        reply.text[sizeof(reply.text) - 1] = '\0';
        return error_set(err, GRS_ERR_PEER, "rank 0 at %s turned rank %d away: %s", rendezvous->place, rendezvous->rank,
                         reply.text);
    }
    rendezvous_prove(rendezvous->key, "master", greeting.nonce, &request, wanted);
    return same(wanted, reply.proof) ? GRS_OK : not_rank_0(rendezvous, err);
}

/* ---------------------------------------------------------------- frames ---------------------------------------- */

static enum progress send_frame(int file, grs_status status, const void *data, size_t bytes,
                                const struct deadline *deadline) {
    struct frame frame = {FRAME_MAGIC, (uint32_t)bytes, (int32_t)status};
    enum progress progress = write_all(file, &frame, sizeof(frame), deadline);
    return progress == DONE ? write_all(file, data, bytes, deadline) : progress;
}

/* A frame of `bytes` from a rank (or of an error). */
static grs_status read_frame(const struct rendezvous *rendezvous, int from, void *data, size_t bytes, grs_error *err) {
    const struct deadline *deadline = &rendezvous->deadline;
    int file = rendezvous->file[from];
    struct frame frame;
    char text[4096];
    enum progress progress = read_all(file, &frame, sizeof(frame), deadline);
    bool is_error = progress == DONE && frame.magic == FRAME_MAGIC && frame.status != GRS_OK;
    if (progress == DONE &&
        (frame.magic != FRAME_MAGIC || (is_error ? frame.bytes >= sizeof(text) : frame.bytes != bytes))) {
        return error_set(err, GRS_ERR_PEER, "what rank %d sent to rank %d at %s is not of this library's version", from,
                         rendezvous->rank, rendezvous->place);
    }
    if (progress == DONE) {
        progress = read_all(file, is_error ? text : data, frame.bytes, deadline);
    }
    if (progress != DONE) {
        return error_set(err, progress == TIMEOUT ? GRS_ERR_TIMEOUT : GRS_ERR_PEER,
                         progress == TIMEOUT ? "rank %d did not come to the meeting at %s in time"
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
        return send_frame(rendezvous->file[0], GRS_OK, mine, bytes, &rendezvous->deadline) == TIMEOUT
                   ? no_answer(rendezvous, err)
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
    struct addrinfo *addresses = NULL;
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
    grs_status status = resolve(out, address, port, &addresses, err);
    if (status == GRS_OK && rank == 0) {
        status = start_listening(out, addresses, err);
        if (status == GRS_OK && (status = wait_for_ranks(out, err)) != GRS_OK) {
            tell_all(out, err);
        }
    } else if (status == GRS_OK) {
        out->file[0] = dial(out, addresses);
        status = out->file[0] < 0 ? no_answer(out, err) : introduce(out, err);
    }
    if (addresses != NULL) {
        freeaddrinfo(addresses);
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
    while (read_all(file, unread, 1, deadline) == DONE) {
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
