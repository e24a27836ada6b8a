/* Any bytes from another process: the meeting over TCP, the sockets between ranks and the first exchange refuse them, or take
 * what is well-formed; nothing is read or written beyond its place. The first byte picks the reader. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/hello.h"
#include "runtime/mesh.h"
#include "runtime/rendezvous.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition) {
    if (!condition) {
        abort();
    }
}

/* A socket from which `data` and then the end can be read. */
static int socket_with(int type, const uint8_t *data, size_t size, int *other) {
    int pair[2];
    demand(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    if (size > 0 && send(pair[1], data, size, MSG_NOSIGNAL) < 0) {
        size = 0; /* larger than a socket holds */
    }
    shutdown(pair[1], SHUT_WR);
    *other = pair[1];
    return pair[0];
}

static void judge(const uint8_t *data, size_t size) {
    struct rendezvous meeting = {.size = 4, .listener = -1, .file = {-1, -1, 9, -1}, .key = {1, 2, 3}};
    struct rendezvous_request request;
    struct rendezvous_reply reply;
    const uint8_t nonce[16] = {4, 5, 6};
    memset(&request, 0, sizeof(request));
    memcpy(&request, data, size < sizeof(request) ? size : sizeof(request));
    demand(rendezvous_judge(&meeting, nonce, &request, &reply) == -1); /* nobody guesses a proof */
    demand(reply.status != GRS_OK && memchr(reply.text, '\0', sizeof(reply.text)) != NULL && reply.text[0] != '\0');
    rendezvous_prove(meeting.key, "caller", nonce, &request, request.proof);
    int rank = rendezvous_judge(&meeting, nonce, &request, &reply);
    demand(rank == -1 || rank == 1 || rank == 3); /* 0 is here, 2 has come, others are none */
    demand((rank == -1) == (reply.status != GRS_OK));
}

static void gather(const uint8_t *data, size_t size, int rank) {
    struct rendezvous meeting = {.rank = rank, .size = 2, .listener = -1, .file = {-1, -1}};
    char mine[100] = {0}, *all = malloc(2 * sizeof(mine));
    int other;
    meeting.deadline = deadline_in(5);
    meeting.file[rank == 0] = socket_with(SOCK_STREAM, data, size, &other);
    if (rendezvous_all_gather(&meeting, mine, sizeof(mine), all) != 0) {
        demand(meeting.error.status != GRS_OK && meeting.error.text[0] != '\0');
    }
    free(all);
    close(other);
    rendezvous_close(&meeting);
}

static void exchange(const uint8_t *data, size_t size) {
    struct mesh mesh = {.rank = 0, .size = 2, .listener = -1, .file = {-1, -1}};
    struct mesh_files files;
    struct deadline deadline = deadline_in(5);
    char mine[100] = {0}, *all = malloc(2 * sizeof(mine));
    grs_error err = {0};
    int other;
    mesh_files_init(&files);
    mesh.file[1] = socket_with(SOCK_SEQPACKET, data, size, &other);
    if (mesh_exchange(&mesh, "a test", mine, sizeof(mine), all, &files, &deadline, &err) != GRS_OK) {
        demand(err.status != GRS_OK && err.text[0] != '\0');
    }
    free(all);
    close(other);
    mesh_files_close(&files);
    mesh_close(&mesh);
}

static void hello(const uint8_t *data, size_t size) {
    struct hello *all = calloc(3, sizeof(*all));
    grs_error err = {0};
    for (int rank = 0; rank < 3; rank++) {
        hello_init(&all[rank], rank, 3);
    }
    memcpy((char *)&all[1] + 8, data, size < sizeof(*all) - 8 ? size : sizeof(*all) - 8); /* after the magic */
    all[1].bytes = sizeof(*all);
    all[1].rank = 1;
    grs_status status = hello_check(all, 3, &err);
    demand(status == GRS_OK || (err.status == status && err.text[0] != '\0'));
    demand(hello_sharers(all, 3, 0) >= 1);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 5) {
    case 0: judge(data + 1, size - 1); break;
    case 1: gather(data + 1, size - 1, 0); break;
    case 2: gather(data + 1, size - 1, 1); break;
    case 3: exchange(data + 1, size - 1); break;
    default: hello(data + 1, size - 1); break;
    }
    return 0;
}
