/* Executes one launch of a plan's policies step by step, in a random order: what the wait-graph checker is tested against.
 * It knows queues, buffers, stores in flight and bits, and nothing of graphs. Prefetcher, math, storer and sender of every
 * CTA are state machines; a store lands at a random moment. The launch hangs when no machine can move and nothing is in
 * flight. */
#ifndef GRS_TESTS_RING_SIMULATOR_H
#define GRS_TESTS_RING_SIMULATOR_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/tileorder.h"

#define SIM_DEPTH 8

struct sim_store { /* issued, its signal not yet set */
    int index;     /* in the queue of its CTA                                */
    int landed, lane;
};

struct sim_cta {
    int rank, index, count;      /* CTA of its rank, tiles of its queue */
    int *turn, *tile;            /* [count]            */
    int loaded, read;            /* blocks of A and B */
    int prefetched, multiplied;  /* tiles done by these roles */
    int stored;                  /* global: tiles that have left the tile buffer; shared: tiles issued */
    int boxed[SIM_DEPTH], boxes; /* global: outbox tiles not yet issued, oldest first                  */
    int held;                    /* global: outbox slots in use */
    struct sim_store flight[SIM_DEPTH];
    int flying;                          /* oldest first */
    int lane_busy[SIM_DEPTH], next_lane; /* lane_per_stage */
    int buffer_busy[SIM_DEPTH];          /* shared: buffer of tile i is i mod depth */
    int sends_left;                      /* stores that the signalling thread has yet to issue */
};

struct sim {
    const struct plan *plan;
    int64_t M;
    int ranks, per_rank, sending, depth, cluster;
    int blocks, stages;  /* of A and B: a tile, and in shared memory */
    int freed_on_read;   /* else a buffer is free once its store was drained */
    int *grid, ctas;     /* [ranks], sum */
    struct sim_cta *cta; /* rank after rank */
    int **landed;        /* [rank][signal]: tiles that count for it */
    uint64_t random;
};

static uint32_t sim_random(uint64_t *state) { /* xorshift64* */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(0x2545F4914F6CDD1D)) >> 33);
}

static int sim_group(const struct sim *s, int64_t tiles) {
    return s->plan->group_tiles ? s->plan->group_tiles : (int)(tiles ? tiles : 1);
}

/* The counter of a signal by the receiver's turn; `tiles` of that segment. */
static int *sim_signal(struct sim *s, int receiver, int turn, int tile) {
    struct tileorder order;
    tileorder_init(s->plan, s->M, receiver, 1, &order);
    return &s->landed[receiver][tileorder_slot(&order, turn, tile / sim_group(s, tileorder_tiles(&order, turn)))];
}

static int sim_is_set(struct sim *s, int receiver, int turn, int tile) {
    struct tileorder order;
    tileorder_init(s->plan, s->M, receiver, 1, &order);
    int64_t tiles = tileorder_tiles(&order, turn), group = sim_group(s, tiles), first = tile / group * group;
    int64_t wanted = first + group < tiles ? group : tiles - first;
    return *sim_signal(s, receiver, turn, tile) == wanted;
}

static int sim_sends(const struct sim *s, int turn) {
    return turn < s->sending;
}

static void sim_open(struct sim *s, const struct plan *plan, int64_t M, const int *grid, const int *wave,
                     uint64_t seed) {
    *s = (struct sim){.plan = plan,
                      .M = M,
                      .ranks = plan->shape.tp,
                      .per_rank = plan->segments / plan->shape.tp,
                      .sending = plan->segments - plan->segments / plan->shape.tp,
                      .depth = (int)plan->value[FIELD_RING_DEPTH],
                      .cluster = (int)plan->value[FIELD_CLUSTER],
                      .blocks = (int)((plan->shape.k + plan->value[FIELD_TILE_K] - 1) / plan->value[FIELD_TILE_K]),
                      .stages = (int)plan->value[FIELD_STAGES_LOAD],
                      .random = seed * 2654435761u + 88172645463325252u};
    s->freed_on_read = (int)(sim_random(&s->random) % 2);
    s->grid = malloc(sizeof *s->grid * (size_t)s->ranks);
    s->landed = malloc(sizeof *s->landed * (size_t)s->ranks);
    assert_true(s->grid && s->landed);
    for (int r = 0; r < s->ranks; r++)
        s->ctas += s->grid[r] = grid[r];
    s->cta = calloc((size_t)s->ctas, sizeof *s->cta);
    assert_non_null(s->cta);
    struct sim_cta *cta = s->cta;
    for (int r = 0; r < s->ranks; r++) {
        struct tileorder order;
        tileorder_init(plan, M, r, wave[r], &order);
        s->landed[r] = calloc((size_t)(plan->segments * order.stride), sizeof(int));
        assert_non_null(s->landed[r]);
        for (int c = 0; c < grid[r]; c++, cta++) {
            cta->rank = r;
            cta->index = c;
            cta->turn = malloc(sizeof(int) * 2 * (size_t)(order.total / grid[r] + 1));
            assert_non_null(cta->turn);
            cta->tile = cta->turn + order.total / grid[r] + 1;
            for (int64_t p = c; p < order.total; p += grid[r], cta->count++) {
                int64_t tile;
                tileorder_at(&order, p, &cta->turn[cta->count], &tile);
                cta->tile[cta->count] = (int)tile;
                cta->sends_left += plan->value[FIELD_RING_PLACE] == PLACE_SHARED || sim_sends(s, cta->turn[cta->count]);
            }
        }
    }
}

static void sim_close(struct sim *s) {
    for (int c = 0; c < s->ctas; c++)
        free(s->cta[c].turn);
    for (int r = 0; r < s->ranks; r++)
        free(s->landed[r]);
    free(s->landed);
    free(s->cta);
    free(s->grid);
}

static int sim_prefetch(struct sim *s, struct sim_cta *c) {
    int i = c->prefetched;
    if (i == c->count || (c->turn[i] >= s->per_rank && !sim_is_set(s, c->rank, c->turn[i], c->tile[i])))
        return 0;
    if (s->plan->value[FIELD_RING_PLACE] == PLACE_SHARED) {
        if (c->buffer_busy[i % s->depth])
            return 0;
        c->buffer_busy[i % s->depth] = 1;
    } else if (c->stored < i) {
        return 0; /* the one tile buffer still holds the tile before */
    }
    c->prefetched++;
    return 1;
}

/* Loads and products, block by block: a stage is filled when every CTA of the cluster has read what was in it before. */
static int sim_load(struct sim *s, struct sim_cta *c) {
    struct sim_cta *first = c - c->index % s->cluster;
    if (c->loaded == c->count * s->blocks)
        return 0;
    for (int mate = 0; mate < s->cluster; mate++)
        if (c->loaded >= first[mate].read + s->stages)
            return 0;
    c->loaded++;
    return 1;
}

static int sim_multiply(struct sim *s, struct sim_cta *c) {
    struct sim_cta *first = c - c->index % s->cluster;
    if (c->read < (c->multiplied + 1) * s->blocks && c->multiplied < c->count) {
        for (int mate = 0; mate < s->cluster; mate++) /* each CTA brings a part of B */
            if (first[mate].loaded <= c->read)
                return 0;
        c->read++;
        return 1;
    }
    if (c->multiplied == c->prefetched) /* the partial, or a free buffer, is not there */
        return 0;
    c->multiplied++;
    return 1;
}

/* global: out of the tile buffer, to D or into the outbox. */
static int sim_store(struct sim *s, struct sim_cta *c) {
    int i = c->stored;
    if (s->plan->value[FIELD_RING_PLACE] == PLACE_SHARED || i == c->multiplied)
        return 0;
    if (sim_sends(s, c->turn[i])) {
        if (c->held == s->depth)
            return 0;
        c->held++;
        c->boxed[c->boxes++] = i;
    }
    c->stored++;
    return 1;
}

/* The tile that the thread that sends would issue now; -1: none is ready. */
static int sim_ready(const struct sim *s, const struct sim_cta *c) {
    if (s->plan->value[FIELD_RING_PLACE] == PLACE_SHARED)
        return c->stored < c->multiplied ? c->stored : -1;
    return c->boxes ? c->boxed[0] : -1;
}

static int sim_may_issue(const struct sim *s, const struct sim_cta *c) {
    int i = sim_ready(s, c);
    if (i < 0 || c->flying == s->depth)
        return 0;
    switch ((enum drain_policy)s->plan->value[FIELD_DRAIN_POLICY]) {
    case DRAIN_PER_TILE: return c->flying == 0;
    case DRAIN_LANE_PER_STAGE: return !c->lane_busy[c->next_lane];
    case DRAIN_RING: break;
    }
    switch ((enum drain_flush)s->plan->value[FIELD_DRAIN_FLUSH]) {
    case FLUSH_PER_TILE: return c->flying == 0;
    case FLUSH_OWNER_BOUNDARY: return c->flying == 0 || c->turn[c->flight[0].index] == c->turn[i];
    case FLUSH_NEVER: break;
    }
    return 1;
}

static int sim_issue(struct sim *s, struct sim_cta *c) {
    int i = sim_ready(s, c);
    if (!sim_may_issue(s, c))
        return 0;
    if (s->plan->value[FIELD_RING_PLACE] == PLACE_SHARED) {
        c->stored++;
        if (s->freed_on_read)
            c->buffer_busy[i % s->depth] = 0;
    } else {
        memmove(c->boxed, c->boxed + 1, sizeof(int) * (size_t)--c->boxes);
        if (s->freed_on_read)
            c->held--;
    }
    c->flight[c->flying++] = (struct sim_store){.index = i, .lane = c->next_lane};
    c->lane_busy[c->next_lane] = 1;
    c->next_lane = (c->next_lane + 1) % s->depth;
    c->sends_left--;
    return 1;
}

/* Which store the policy lets be drained now; -1: none. */
static int sim_drainable(const struct sim *s, const struct sim_cta *c, uint32_t random) {
    if (c->flying == 0)
        return -1;
    if (s->plan->value[FIELD_DRAIN_POLICY] == DRAIN_LANE_PER_STAGE) { /* any lane whose own store has landed */
        for (int n = 0; n < c->flying; n++) {
            int which = (int)((random + (uint32_t)n) % (uint32_t)c->flying);
            if (c->flight[which].landed)
                return which;
        }
        return -1;
    }
    if (s->plan->value[FIELD_DRAIN_POLICY] == DRAIN_RING) {
        if (s->plan->value[FIELD_DRAIN_FLUSH] == FLUSH_NEVER && c->flying < s->depth && c->sends_left > 0)
            return -1; /* the simple loop */
        if (sim_may_issue(s, c))
            return -1; /* the loop that never sleeps issues first */
    }
    return c->flight[0].landed ? 0 : -1;
}

static int sim_drain(struct sim *s, struct sim_cta *c) {
    int which = sim_drainable(s, c, sim_random(&s->random));
    if (which < 0)
        return 0;
    int i = c->flight[which].index;
    c->lane_busy[c->flight[which].lane] = 0;
    memmove(&c->flight[which], &c->flight[which + 1], sizeof *c->flight * (size_t)(--c->flying - which));
    if (!s->freed_on_read) {
        if (s->plan->value[FIELD_RING_PLACE] == PLACE_SHARED)
            c->buffer_busy[i % s->depth] = 0;
        else
            c->held--;
    }
    if (sim_sends(s, c->turn[i]))
        ++*sim_signal(s, (c->rank + s->ranks - 1) % s->ranks, c->turn[i] + s->per_rank, c->tile[i]);
    return 1;
}

static int sim_land(struct sim *s, struct sim_cta *c) {
    for (int n = 0, start = (int)(sim_random(&s->random) % SIM_DEPTH); n < c->flying; n++) {
        struct sim_store *store = &c->flight[(start + n) % c->flying];
        if (!store->landed)
            return store->landed = 1;
    }
    return 0;
}

/* True: every tile was finished and every signal set. False: it hangs. */
static int sim_run(struct sim *s) {
    static int (*const moves[])(struct sim *, struct sim_cta *) = {sim_load,  sim_prefetch, sim_multiply, sim_store,
                                                                   sim_issue, sim_drain,    sim_land};
    uint32_t kinds = sizeof moves / sizeof *moves, count = (uint32_t)s->ctas * kinds;
    for (uint32_t idle = 0, at = 0; idle < count; at++, idle++) {
        if (idle == 0)
            at = sim_random(&s->random) % count;
        at %= count;
        struct sim_cta *cta = &s->cta[at / kinds];
        for (uint32_t again = sim_random(&s->random) % 3 + 1; again > 0 && moves[at % kinds](s, cta); again--)
            idle = UINT32_MAX; /* 0 after the loop's increment */
    }
    for (int c = 0; c < s->ctas; c++)
        if (s->cta[c].sends_left || s->cta[c].flying || s->cta[c].stored < s->cta[c].count)
            return 0;
    return 1;
}

#endif
