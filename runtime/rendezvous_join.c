/* How ranks come to a meeting: rank 0 listens and judges callers, the others dial and introduce themselves. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
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
#include "runtime/rendezvous_join.h"

static const char magic[8] = {'g', 'r', 's', '-', 'm', 'e', 'e', 't'};

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
    enum rendezvous_progress progress = rendezvous_read(file, &greeting, sizeof(greeting), &rendezvous->deadline);
    if (progress != RENDEZVOUS_DONE || memcmp(greeting.magic, magic, sizeof(magic)) != 0) {
        return progress == RENDEZVOUS_TIMEOUT ? rendezvous_no_answer(rendezvous, err) : not_rank_0(rendezvous, err);
    }
    memcpy(request.magic, magic, sizeof(magic));
    if (getrandom(request.nonce, sizeof(request.nonce), 0) != (ssize_t)sizeof(request.nonce)) {
        return error_set(err, GRS_ERR_IO, "getrandom: %s", strerror(errno));
    }
    rendezvous_prove(rendezvous->key, "caller", greeting.nonce, &request, request.proof);
    progress = rendezvous_write(file, &request, sizeof(request), &rendezvous->deadline);
    if (progress == RENDEZVOUS_DONE) {
        progress = rendezvous_read(file, &reply, sizeof(reply), &rendezvous->deadline);
    }
    if (progress != RENDEZVOUS_DONE) {
        return progress == RENDEZVOUS_TIMEOUT ? rendezvous_no_answer(rendezvous, err) : not_rank_0(rendezvous, err);
    }
    if (reply.status != GRS_OK) {
        reply.text[sizeof(reply.text) - 1] = '\0';
        return error_set(err, GRS_ERR_PEER, "rank 0 at %s turned rank %d away: %s", rendezvous->place, rendezvous->rank,
                         reply.text);
    }
    rendezvous_prove(rendezvous->key, "master", greeting.nonce, &request, wanted);
    return same(wanted, reply.proof) ? GRS_OK : not_rank_0(rendezvous, err);
}

/* ---------------------------------------------------------------- all of it ------------------------------------- */

grs_status rendezvous_join(struct rendezvous *rendezvous, const char *address, int port, grs_error *err) {
    struct addrinfo *addresses = NULL;
    grs_status status = resolve(rendezvous, address, port, &addresses, err);
    if (status != GRS_OK) {
        return status;
    }
    if (rendezvous->rank == 0) {
        status = start_listening(rendezvous, addresses, err);
        status = status == GRS_OK ? wait_for_ranks(rendezvous, err) : status;
    } else {
        rendezvous->file[0] = dial(rendezvous, addresses);
        status = rendezvous->file[0] < 0 ? rendezvous_no_answer(rendezvous, err) : introduce(rendezvous, err);
    }
    freeaddrinfo(addresses);
    return status;
}
