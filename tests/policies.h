/* Configs for every way in which tiles are made, kept, sent and signalled, with tiles as small as they go: a few rows and
 * columns of D are then many tiles, and every ring of buffers goes round. */
#ifndef GRS_TESTS_POLICIES_H
#define GRS_TESTS_POLICIES_H

#define SMALL "stages: {load: 2}\n"
static const struct policy {
    const char *name, *text;
} policies[] = {
    {"outbox", SMALL "tile: {m: 64, n: 64}\nring: {place: global, depth: 2, chunk: {bytes: 2048, count: 2}}\n"},
    {"ring in shared memory", SMALL "tile: {m: 64, n: 64}\nring: {place: shared, depth: 2}\n"},
    {"outbox, clusters",
     SMALL "tile: {m: 64, n: 64, cluster: 2}\nring: {place: global, depth: 2, chunk: {bytes: 2048, count: 2}}\n"},
    {"ring in shared memory, clusters", SMALL "tile: {m: 64, n: 64, cluster: 2}\nring: {place: shared, depth: 2}\n"},
    {"outbox, ping-pong", SMALL "tile: {m: 64, n: 64, schedule: pingpong}\nring: {place: global, depth: 2}\n"},
    {"ring in shared memory, ping-pong, clusters",
     SMALL "tile: {m: 64, n: 64, schedule: pingpong, cluster: 2}\nring: {place: shared, depth: 2}\n"},
    {"ring in shared memory, a warp a stage",
     SMALL "tile: {m: 64, n: 64}\nring: {place: shared, depth: 2}\ndrain: {policy: lane_per_stage}\n"},
    {"ring in shared memory, five stages with a warp each",
     SMALL "tile: {m: 64, n: 64}\nring: {place: shared, depth: 5}\ndrain: {policy: lane_per_stage}\n"},
    {"outbox, a warp a chunk",
     SMALL "tile: {m: 64, n: 64}\nring: {place: global, depth: 2, chunk: {bytes: 2048, count: "
           "3}}\ndrain: {policy: lane_per_stage}\n"},
    {"ring in shared memory, a wait a tile, a bit for two tiles", SMALL
     "tile: {m: 64, n: 64}\nring: {place: shared, depth: 2}\ndrain: {policy: per_tile}\nsignal: {granularity: {group: "
     "2}}\n"},
};
#undef SMALL
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

#endif
