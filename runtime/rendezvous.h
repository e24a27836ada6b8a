/* A meeting of ranks over TCP, to make a communicator: rank 0 listens, the others call it, and it hands round what each
 * says. Both sides prove that they know the job's token without sending it; callers that do not, or are no rank of the
 * job, are turned away and not waited for. Nothing of what arrives is trusted for its size. */
#ifndef GRS_RUNTIME_RENDEZVOUS_H
#define GRS_RUNTIME_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grs.h"
#include "runtime/deadline.h"

#define RENDEZVOUS_MAX_BYTES 4096 /* of one rank's part of an all-gather */

struct rendezvous {
    int rank, size;
    int listener;
    int file[GRS_MAX_TP]; /* rank 0: of each rank; the others: [0]; -1: none */
    uint8_t key[32];      /* of the token */
    char place[320];      /* "127.0.0.1:29501" */
    char refused[320];    /* why the last caller was turned away; empty: nobody was */
    bool told;            /* the others have an error to read before this end closes */
    struct deadline deadline;
    grs_error error; /* what a call of the bootstrap said last */
};

/* Returns when every rank is there; given to rendezvous_close whatever came of it. GRS_ERR_TIMEOUT names the ranks that did
 * not come, on all that did; GRS_ERR_PEER: turned away, or what answers is no rank 0; GRS_ERR_IO: the port is taken. */
grs_status rendezvous_open(struct rendezvous *out, const char *address, int port, const char *token, int rank, int size,
                           double seconds, grs_error *err);
void rendezvous_close(struct rendezvous *rendezvous);

/* The calls of a bootstrap; `arg` is the rendezvous. 0, or -1 with `error` set. */
int rendezvous_all_gather(void *arg, const void *mine, size_t bytes, void *all);
int rendezvous_barrier(void *arg);
void rendezvous_abort(void *arg, const char *why);

/* The messages of the meeting; for tests too. Numbers in the host's order, since all ranks are on one host. */
struct rendezvous_greeting { /* rank 0 to a caller */
    char magic[8];
    uint8_t nonce[16];
};
struct rendezvous_request { /* the caller's answer */
    char magic[8];
    int32_t rank, size;
    uint8_t nonce[16];
    uint8_t proof[32];
};
struct rendezvous_reply {
    int32_t status;    /* 0: welcome */
    char text[252];    /* why not */
    uint8_t proof[32]; /* rank 0's, when welcome */
};

void rendezvous_prove(const uint8_t key[32], const char *who, const uint8_t server_nonce[16],
                      const struct rendezvous_request *request, uint8_t out[32]);
/* Who is calling: the rank, or -1 and the reason in `reply`. */
int rendezvous_judge(const struct rendezvous *rendezvous, const uint8_t nonce[16],
                     const struct rendezvous_request *request, struct rendezvous_reply *reply);

#endif
