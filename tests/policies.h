/* Configs for every way in which tiles are made, kept, sent and signalled, with tiles as small as they go: a few rows and
 * columns of D are then many tiles, and every ring of buffers goes round. */
#ifndef GRS_TESTS_POLICIES_H
#define GRS_TESTS_POLICIES_H

#include <stdbool.h>
#include <stddef.h>

struct policy {
    const char *name, *text;
    const char *blackwell; /* instead of `text`, on that family; NULL: the same */
};

static inline const char *policy_text(const struct policy *policy, bool blackwell) {
    return blackwell && policy->blackwell != NULL ? policy->blackwell : policy->text;
}

/* What only Hopper has, warpgroups that take turns, has CTA pairs for a counterpart. */
#define HOPPER           "stages: {load: 2}\ntile: {m: 64, n: 64"
#define BLACKWELL        "stages: {load: 2, accum: 2}\ntile: {n: 64"
#define BOTH(tile, ring) HOPPER tile "}\n" ring, BLACKWELL tile "}\n" ring
static const struct policy policies[] = {
    {"outbox", BOTH("", "ring: {place: global, depth: 2, chunk: {bytes: 2048, count: 2}}\n")},
    {"ring in shared memory", BOTH("", "ring: {place: shared, depth: 2}\n")},
    {"outbox, clusters", BOTH(", cluster: 2", "ring: {place: global, depth: 2, chunk: {bytes: 2048, count: 2}}\n")},
    {"ring in shared memory, clusters", BOTH(", cluster: 2", "ring: {place: shared, depth: 2}\n")},
    {"outbox, ping-pong or pairs", HOPPER ", schedule: pingpong}\nring: {place: global, depth: 2}\n",
     BLACKWELL ", cta_group: 2}\nring: {place: global, depth: 2}\n"},
    {"ring in shared memory, ping-pong or pairs, clusters",
     HOPPER ", schedule: pingpong, cluster: 2}\nring: {place: shared, depth: 2}\n",
     BLACKWELL ", cta_group: 2}\nring: {place: shared, depth: 2}\n"},
    {"ring in shared memory, a warp a stage",
     BOTH("", "ring: {place: shared, depth: 2}\ndrain: {policy: lane_per_stage}\n")},
    {"ring in shared memory, five stages with a warp each",
     BOTH("", "ring: {place: shared, depth: 5}\ndrain: {policy: lane_per_stage}\n")},
    {"outbox, a warp a chunk", BOTH("", "ring: {place: global, depth: 2, chunk: {bytes: 2048, count: 3}}\n"
                                        "drain: {policy: lane_per_stage}\n")},
    {"ring in shared memory, a wait a tile, a bit for two tiles",
     BOTH("", "ring: {place: shared, depth: 2}\ndrain: {policy: per_tile}\nsignal: {granularity: {group: 2}}\n")},
    /* The one with large tiles, since only those of 256 columns come in halves. */
    {"outbox, the first tile in halves",
     "stages: {load: 2}\ntile: {m: 128, n: 256}\nring: {place: global, depth: 2, chunk: {bytes: 4096, count: 2}}\n",
     "stages: {load: 2, accum: 1}\ntile: {n: 256}\nring: {place: global, depth: 2, chunk: {bytes: 4096, count: 2}}\n"},
};
#undef HOPPER
#undef BLACKWELL
#undef BOTH
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

#endif
