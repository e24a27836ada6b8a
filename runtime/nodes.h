/* Which ranks share a node, and what follows from it for the way that sums travel. */
#ifndef GRS_RUNTIME_NODES_H
#define GRS_RUNTIME_NODES_H

#include <stdbool.h>
#include <stdint.h>

#include "grs.h"

/* What every rank tells the others first, over NCCL. */
struct nodes_hello {
    char magic[8];
    uint32_t bytes; /* of this struct: another layout is another version */
    int32_t rank;
    char version[96];
    char node
        [128]; /* what makes ranks one node: $GRS_NODE, else the boot id of the host's kernel, else the host's name */
    char name[80];    /* for people: $GRS_NODE, else the host's name */
    int32_t too_long; /* bytes of a $GRS_NODE that is refused; 0: it is not */
};

void nodes_hello_init(struct nodes_hello *out, int rank);

/* Judges what came; texts are cut where they lack an end. The same on every rank: GRS_ERR_PEER for what is no hello of this
 * version, or for ranks of several versions; GRS_ERR_ARGUMENT: a $GRS_NODE is longer than 64 bytes. */
grs_status nodes_check(struct nodes_hello *all, int size, grs_error *err);

/* `count` nodes of `local` ranks each: rank = node * local + index. */
struct nodes {
    int count, local;
    char why
        [512]; /* nodes as they are cannot be used, so that every rank counts as one (local 1): why; empty: they can */
};

/* Nodes must be of one size, and their ranks one behind the other; else every rank is a node of its own. */
void nodes_decide(const struct nodes_hello *all, int size, struct nodes *out);

/* Rows that a launch within a node of `local` ranks is made for, of a launch of `size` ranks with M. */
static inline int64_t nodes_rows(int64_t M, int size, int local) {
    return local == 1 ? M : local * ((M + size - 1) / size);
}

/* The fewest rows of such a launch, a multiple of `local`, for which a kernel of at most m_max rows is too small. */
static inline int64_t nodes_rows_beyond(int64_t m_max, int local) {
    return (m_max / local + 1) * local;
}

/* Every rank a node of its own, for this reason. */
void nodes_scatter(int size, const char *why, struct nodes *out);

#endif
