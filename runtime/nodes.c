#include "runtime/nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/hello.h"
#include "runtime/told.h"

static const char magic[8] = {'g', 'r', 's', '-', 'n', 'o', 'd', 'e'};

#define NODE_NAME_MAX 64

void nodes_hello_init(struct nodes_hello *out, int rank) {
    const char *given = getenv("GRS_NODE");
    struct hello host;
    hello_init(&host, rank, 1);
    memset(out, 0, sizeof(*out));
    memcpy(out->magic, magic, sizeof(magic));
    out->bytes = sizeof(*out);
    out->rank = rank;
    memcpy(out->version, host.version, sizeof(out->version));
    if (given != NULL && given[0] != '\0') {
        out->too_long = strlen(given) > NODE_NAME_MAX ? (int32_t)strnlen(given, INT32_MAX) : 0;
        snprintf(out->node, sizeof(out->node), "name %.*s", NODE_NAME_MAX, given);
        snprintf(out->name, sizeof(out->name), "%.*s", NODE_NAME_MAX, given);
    } else { /* containers of one host have names of their own: its kernel says more */
        snprintf(out->node, sizeof(out->node), "%s %s", host.boot[0] == '\0' ? "host" : "boot",
                 host.boot[0] == '\0' ? host.host : host.boot);
        snprintf(out->name, sizeof(out->name), "%s", host.host);
    }
}

static void get_version(const void *arg, int rank, char *out, size_t size) {
    snprintf(out, size, "%s", ((const struct nodes_hello *)arg)[rank].version);
}

grs_status nodes_check(struct nodes_hello *all, int size, grs_error *err) {
    struct buf text = {0};
    grs_status status = GRS_OK;
    for (int rank = 0; rank < size; rank++) {
        struct nodes_hello *hello = &all[rank];
        if (memcmp(hello->magic, magic, sizeof(magic)) != 0 || hello->bytes != sizeof(*hello) || hello->rank != rank) {
            return error_set(err, GRS_ERR_PEER,
                             "what NCCL's all-gather gave for rank %d is not what that rank of this version of the "
                             "library (%s) sends: another version, or another call of NCCL was in flight",
                             rank, grs_version());
        }
        told_text(hello->version, strnlen(hello->version, sizeof(hello->version) - 1));
        told_text(hello->node, strnlen(hello->node, sizeof(hello->node) - 1));
        told_text(hello->name, strnlen(hello->name, sizeof(hello->name) - 1));
    }
    for (int rank = 0; rank < size; rank++) {
        if (all[rank].too_long != 0) {
            return error_set(err, GRS_ERR_ARGUMENT, "rank %d: GRS_NODE has %d bytes; allowed: up to %d", rank,
                             all[rank].too_long, NODE_NAME_MAX);
        }
    }
    if (agree_differ("library version", size, get_version, all, &text)) {
        status = error_set(err, GRS_ERR_PEER, "the ranks differ: %s", text.data == NULL ? "out of memory" : text.data);
    }
    buf_free(&text);
    return status;
}

void nodes_scatter(int size, const char *why, struct nodes *out) {
    *out = (struct nodes){.count = size, .local = 1};
    snprintf(out->why, sizeof(out->why), "%.*s", (int)sizeof(out->why) - 1, why);
}

static bool same_node(const struct nodes_hello *a, const struct nodes_hello *b) {
    return strcmp(a->node, b->node) == 0;
}

/* Ranks from `first` on that are on its node. */
static int run_of(const struct nodes_hello *all, int size, int first) {
    int end = first;
    while (end < size && same_node(&all[end], &all[first])) {
        end++;
    }
    return end - first;
}

/* Why the ranks of some node are not one behind the other; false: they are. */
static bool are_mixed(const struct nodes_hello *all, int size, char *why, size_t room) {
    for (int first = 0; first < size; first += run_of(all, size, first)) {
        for (int before = 0; before < first; before++) {
            if (same_node(&all[before], &all[first])) {
                snprintf(why, room,
                         "ranks %d and %d are both on %s, and rank %d between them is not: the ranks of a node must be "
                         "numbered one behind the other",
                         before, first, all[first].name, first - 1);
                return true;
            }
        }
    }
    return false;
}

static bool are_unequal(const struct nodes_hello *all, int size, char *why, size_t room) {
    int local = run_of(all, size, 0);
    for (int first = 0, run; first < size; first += run) {
        run = run_of(all, size, first);
        if (run != local) {
            snprintf(why, room, "nodes differ in size: %d rank%s on %s, %d on %s", local, local == 1 ? "" : "s",
                     all[0].name, run, all[first].name);
            return true;
        }
    }
    return false;
}

void nodes_decide(const struct nodes_hello *all, int size, struct nodes *out) {
    char why[sizeof(out->why)];
    int local = run_of(all, size, 0);
    if (are_mixed(all, size, why, sizeof(why)) || are_unequal(all, size, why, sizeof(why))) {
        nodes_scatter(size, why, out);
    } else if (local == 1 && size > 1) {
        nodes_scatter(size, "every rank is on a node of its own", out);
    } else {
        *out = (struct nodes){.count = size / local, .local = local};
    }
}
