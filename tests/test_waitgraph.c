/* The wait-graph checker against an execution of the policies and against graphs built the slow way. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/waitgraph.h"
#include "generator/waitgraph_rules.h"
#include "tests/naive_waitgraph.h"
#include "tests/ring_simulator.h"

static int range(uint64_t *random, int low, int high) {
    return low + (int)(sim_random(random) % (uint32_t)(high - low + 1));
}

/* The default policies, as far as waits go: interleaved unless lag is 0. */
static struct plan make_plan(int tp, int64_t n, int64_t tile_m, int64_t tile_n, int lag) {
    struct plan plan = {.shape = {.m_min = 1, .m_max = INT32_MAX, .n = n, .k = 128, .tp = tp},
                        .segments = tp,
                        .raster = 8,
                        .group_tiles = 1,
                        .max_grid = 132};
    plan.value[FIELD_TILE_M] = tile_m;
    plan.value[FIELD_TILE_N] = tile_n;
    plan.value[FIELD_CLUSTER] = 1;
    plan.value[FIELD_TILE_K] = 64;
    plan.value[FIELD_STAGES_LOAD] = 3;
    plan.value[FIELD_RING_DEPTH] = 4;
    plan.value[FIELD_RING_PLACE] = PLACE_GLOBAL;
    plan.value[FIELD_DRAIN_POLICY] = DRAIN_RING;
    plan.value[FIELD_DRAIN_FLUSH] = FLUSH_OWNER_BOUNDARY;
    plan.value[FIELD_ORDER] = lag ? ORDER_INTERLEAVE : ORDER_SEGMENT;
    plan.value[FIELD_LAG] = lag;
    return plan;
}

/* `flush: never` with two buffers in shared memory: what deadlocks for some shapes. */
static struct plan make_never(int tp, int64_t n) {
    struct plan plan = make_plan(tp, n, 128, 128, 0);
    plan.value[FIELD_RING_DEPTH] = 2;
    plan.value[FIELD_RING_PLACE] = PLACE_SHARED;
    plan.value[FIELD_DRAIN_FLUSH] = FLUSH_NEVER;
    return plan;
}

static void set_granularity(struct plan *plan, enum granularity granularity, int group) {
    plan->value[FIELD_GRANULARITY] = granularity;
    plan->value[FIELD_GROUP] = group;
    plan->group_tiles = granularity == GRANULARITY_TILE ? 1 : granularity == GRANULARITY_GROUP ? group : 0;
}

static bool simulate(const struct plan *plan, int64_t M, const int *grid, const int *wave, uint64_t seed) {
    struct sim sim;
    sim_open(&sim, plan, M, grid, wave, seed);
    bool ended = sim_run(&sim);
    sim_close(&sim);
    return ended;
}

static bool simulate_grid(const struct plan *plan, int64_t M, int grid, uint64_t seed) {
    int grids[GRS_MAX_TP];
    for (int r = 0; r < plan->shape.tp; r++)
        grids[r] = grid;
    return simulate(plan, M, grids, grids, seed);
}

/* ---------------------------------------------------------------- what a result says is there */

static int naive_find(const struct plan *plan, int rank, int owner, int64_t tile) {
    struct tileorder order;
    tileorder_init(plan, 1, rank, 1, &order);
    for (int p = 0; p < naive.total; p++)
        if (tileorder_owner(&order, naive.turn[rank * naive.total + p]) == owner &&
            naive.tile[rank * naive.total + p] == tile)
            return p;
    fail_msg("no tile %d of owner %d on rank %d", (int)tile, owner, rank);
    return -1;
}

/* Every step is a wait of the graph, and the next step's tile comes at or before the one that the signal is held for. */
static void check_steps(const struct plan *plan, const struct waitgraph_result *result, bool cycle) {
    for (int i = 0; i < result->steps; i++) {
        const struct waitgraph_step *s = &result->step[i];
        int waiting = naive_find(plan, s->rank, s->owner, s->tile), up = (s->rank + 1) % naive.ranks;
        int signal = naive_find(plan, up, s->owner, s->signal),
            held = naive_find(plan, up, s->held_owner, s->held_tile);
        assert_int_equal(s->from_rank, up);
        assert_int_equal(s->cta, waiting % naive.grid[s->rank]);
        assert_int_equal(s->from_cta, signal % naive.grid[up]);
        assert_int_equal(held, naive_hold(plan, up, signal));
        assert_true(naive.wait[s->rank * naive.total + waiting][up * naive.total + held]);
        if (i + 1 == result->steps && (!cycle || result->waits > result->steps))
            break;
        const struct waitgraph_step *next = &result->step[(i + 1) % result->steps];
        int then = naive_find(plan, next->rank, next->owner, next->tile), grid = naive.grid[up];
        int cluster = (int)plan->value[FIELD_CLUSTER];
        assert_int_equal(next->rank, up);
        assert_int_equal(then % grid / cluster, held % grid / cluster);
        if (then % grid == held % grid)
            assert_true(then <= held);
        else
            assert_true(then / grid <= held / grid - naive_ahead(plan));
    }
}

/* One launch, checked three ways. Returns the verdict. */
static enum waitgraph_verdict check_launch(const struct plan *plan, int64_t M, const int *grid, const int *wave,
                                           uint64_t seed) {
    static struct waitgraph_result result;
    static grs_error err;
    grs_status status = waitgraph_check_ranks(plan, M, grid, wave, &result, &err);
    assert_int_equal(status, result.verdict == WAITGRAPH_ACYCLIC ? GRS_OK : GRS_ERR_PLAN);
    assert_true(result.verdict != WAITGRAPH_UNPROVEN);
    bool ends = simulate(plan, M, grid, wave, seed);
    for (int n = 1; n < 4; n++) /* every wait is for all of something, so that all schedules end alike */
        assert_int_equal(simulate(plan, M, grid, wave, seed * 4 + (uint64_t)n), ends);
    if (result.verdict == WAITGRAPH_ACYCLIC)
        assert_true(ends);
    if (result.verdict == WAITGRAPH_CYCLE)
        assert_false(ends);
    if (result.argument)
        assert_int_equal(result.verdict, WAITGRAPH_ACYCLIC); /* no theorem contradicts the graph */

    if (naive_build(plan, M, grid, wave)) {
        bool sorted = naive_sort();
        assert_int_equal(sorted, ends);
        assert_int_equal(sorted, result.verdict != WAITGRAPH_CYCLE);
        if (sorted) {
            int longest = 0;
            for (int x = 0; x < naive.nodes; x++)
                longest = naive_depth[x] > longest ? naive_depth[x] : longest;
            assert_int_equal(result.waits, longest);
        } else {
            assert_true(result.shortest);
            assert_int_equal(result.waits, naive_shortest());
        }
        assert_int_equal(result.steps, result.waits < WAITGRAPH_STEPS ? result.waits : WAITGRAPH_STEPS);
        check_steps(plan, &result, !sorted);
    }
    return result.verdict;
}

/* ---------------------------------------------------------------- tests */

static struct plan random_plan(uint64_t *random, bool never) {
    int tp = range(random, 1, 5);
    struct plan plan = make_plan(tp, 64 * range(random, 1, 4), 64, 64, range(random, 0, 3));
    if (range(random, 0, 5) == 0)
        plan.segments *= 2;
    plan.raster = range(random, 1, 3);
    plan.value[FIELD_CLUSTER] = range(random, 0, 2) == 0 ? 2 : 1;
    plan.shape.k = 64 * range(random, 1, 4);
    plan.value[FIELD_STAGES_LOAD] = range(random, 2, 5);
    plan.value[FIELD_RING_DEPTH] = range(random, 1, 4);
    plan.value[FIELD_RING_PLACE] = range(random, 0, 1) ? PLACE_SHARED : PLACE_GLOBAL;
    plan.value[FIELD_DRAIN_POLICY] = never ? DRAIN_RING : range(random, 0, 2);
    plan.value[FIELD_DRAIN_FLUSH] = never ? FLUSH_NEVER : range(random, 0, 2);
    int granularity = range(random, 0, 3);
    if (granularity == 2)
        set_granularity(&plan, GRANULARITY_GROUP, range(random, 1, 6));
    if (granularity == 3)
        set_granularity(&plan, GRANULARITY_SEGMENT, 1);
    return plan;
}

static void random_plans(bool never, int count, uint64_t seed) {
    int seen[WAITGRAPH_UNPROVEN + 1] = {0};
    uint64_t random = seed;
    for (int n = 0; n < count; n++) {
        struct plan plan = random_plan(&random, never);
        int64_t M = range(&random, 1, 64 * plan.segments * range(&random, 1, 5));
        int grid[GRS_MAX_TP], wave[GRS_MAX_TP], low = INT_MAX;
        int kind = range(&random, 0, 3), largest = range(&random, 1, 12);
        for (int r = 0; r < plan.shape.tp; r++) {
            grid[r] = (kind == 0 ? range(&random, 1, largest) : largest) * (int)plan.value[FIELD_CLUSTER];
            low = grid[r] < low ? grid[r] : low;
        }
        for (int r = 0; r < plan.shape.tp; r++)
            wave[r] = kind == 1 ? range(&random, 2, largest + 1) : low;
        seen[check_launch(&plan, M, grid, wave, random)]++;
    }
    /* The mixture must reach every verdict, else the comparison says little. */
    assert_true(seen[WAITGRAPH_ACYCLIC] >= count / 10);
    assert_true(seen[WAITGRAPH_CYCLE] >= count / 20);
    assert_true(seen[WAITGRAPH_RULE] >= count / 50);
}

static void any_policy_agrees_with_execution(void **state) {
    (void)state;
    random_plans(false, 700, 11);
}

static void held_back_signals_agree_with_execution(void **state) {
    (void)state;
    random_plans(true, 700, 12);
}

/* The default policies have no cycle for any ring, M, lag and grids, and the chain is as long as the ring at least. */
static void defaults_never_wait_in_a_circle(void **state) {
    (void)state;
    static const int64_t Ms[] = {1, 7, 255, 256, 257, 1000, 1023, 1025, 4095};
    static const int grids[] = {1, 2, 3, 7, 16, 66, 131, 132};
    uint64_t random = 5;
    for (int tp = 1; tp <= 8; tp++)
        for (int lag = 0; lag <= 3; lag++)
            for (size_t m = 0; m < sizeof Ms / sizeof *Ms; m++)
                for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
                    struct plan plan = make_plan(tp, 1024, 128, 256, lag);
                    struct waitgraph_result result;
                    assert_int_equal(waitgraph_check(&plan, Ms[m], grids[g], &result, NULL), GRS_OK);
                    assert_non_null(result.argument);
                    assert_true(result.waits >= (Ms[m] > 256 ? tp - 1 : 0));
                    if (lag == 0)
                        assert_true(result.waits < tp); /* each wait is for an earlier segment */
                    int uneven[GRS_MAX_TP];
                    for (int r = 0; r < tp; r++)
                        uneven[r] = range(&random, 1, grids[g]);
                    assert_int_equal(waitgraph_check_ranks(&plan, Ms[m], uneven, NULL, &result, NULL), GRS_OK);
                    if (tp * lag * Ms[m] * grids[g] < 4000)
                        assert_true(simulate_grid(&plan, Ms[m], grids[g], random));
                }
}

/* Signals held back by `flush: never`: a deadlock where each CTA has but one or two tiles of a segment, none where there
 * are many. Positions between a tile and what it waits for: the tiles of a segment, against depth - 1 rounds of the grid. */
static void never_is_refused_where_it_deadlocks(void **state) {
    (void)state;
    static const struct {
        int tp;
        int64_t n, M;
        bool ends;
    } cases[] = {
        {4, 4096, 1024, false}, {2, 4096, 8192, true}, /* 64 and 1024 tiles a segment, on 132 CTAs */
        {2, 4224, 1024, false},                        /* 132: one round exactly                   */
        {2, 4096, 1024, true},  {4, 4096, 8192, true},  {8, 4096, 1024, false}, {8, 4096, 8192, true},
        {8, 4096, 4096, false}, {8, 4096, 65536, true}, {4, 4096, 1000, false}, /* owners with 250 rows */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan = make_never(cases[i].tp, cases[i].n);
        struct waitgraph_result result;
        grs_error err;
        grs_status status = waitgraph_check(&plan, cases[i].M, 132, &result, &err);
        assert_int_equal(status, cases[i].ends ? GRS_OK : GRS_ERR_PLAN);
        assert_int_equal(result.verdict, cases[i].ends ? WAITGRAPH_ACYCLIC : WAITGRAPH_CYCLE);
        if (cases[i].M <= 8192)
            assert_int_equal(simulate_grid(&plan, cases[i].M, 132, i), cases[i].ends);
        if (!cases[i].ends) {
            assert_int_equal(result.waits % cases[i].tp, 0); /* a cycle goes round the ring */
            assert_non_null(strstr(err.text, "drain.flush: never with ring.depth 2, ring.place shared"));
            assert_non_null(strstr(err.text, "a shortest cycle of "));
            assert_non_null(strstr(err.text, "storer: the signal of tile "));
        }
        /* Every other drain is fine with the same shape. */
        plan.value[FIELD_DRAIN_FLUSH] = FLUSH_OWNER_BOUNDARY;
        assert_int_equal(waitgraph_check(&plan, cases[i].M, 132, &result, &err), GRS_OK);
        plan.value[FIELD_DRAIN_FLUSH] = FLUSH_NEVER;
        plan.value[FIELD_DRAIN_POLICY] = DRAIN_LANE_PER_STAGE;
        assert_int_equal(waitgraph_check(&plan, cases[i].M, 132, &result, &err), GRS_OK);
    }
}

/* The launches of tests/model/test_ring.sh that spin explores for hangs: the checker says the same of them. */
static void agrees_with_the_models(void **state) {
    (void)state;
    static const struct {
        int tp, ctas, tiles, group, lag;
        enum ring_place place;
        enum drain_flush flush;
        bool ends;
    } cases[] = {
        {2, 1, 1, 1, 0, PLACE_SHARED, FLUSH_NEVER, false},          {2, 1, 2, 1, 0, PLACE_SHARED, FLUSH_NEVER, true},
        {2, 1, 1, 1, 0, PLACE_GLOBAL, FLUSH_NEVER, true},           {2, 2, 2, 1, 0, PLACE_SHARED, FLUSH_NEVER, false},
        {2, 2, 3, 1, 0, PLACE_SHARED, FLUSH_NEVER, true},           {3, 1, 1, 1, 0, PLACE_GLOBAL, FLUSH_NEVER, false},
        {3, 1, 2, 1, 0, PLACE_GLOBAL, FLUSH_NEVER, true},           {4, 1, 1, 1, 0, PLACE_SHARED, FLUSH_NEVER, false},
        {4, 1, 2, 1, 0, PLACE_SHARED, FLUSH_NEVER, true},           {2, 2, 3, 3, 0, PLACE_SHARED, FLUSH_NEVER, false},
        {3, 1, 3, 3, 1, PLACE_GLOBAL, FLUSH_OWNER_BOUNDARY, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan plan = make_plan(cases[i].tp, 64, 64, 64, cases[i].lag);
        struct waitgraph_result result;
        plan.value[FIELD_RING_DEPTH] = 2;
        plan.value[FIELD_RING_PLACE] = cases[i].place;
        plan.value[FIELD_DRAIN_FLUSH] = cases[i].flush;
        set_granularity(&plan, GRANULARITY_GROUP, cases[i].group);
        int64_t M = 64 * cases[i].tiles * cases[i].tp;
        assert_int_equal(waitgraph_check(&plan, M, cases[i].ctas, &result, NULL),
                         cases[i].ends ? GRS_OK : GRS_ERR_PLAN);
        assert_int_equal(result.verdict, cases[i].ends ? WAITGRAPH_ACYCLIC : WAITGRAPH_CYCLE);
    }
}

/* Ranks that interleave with different waves may each wait for what the other does later. */
static void waves_must_be_alike(void **state) {
    (void)state;
    int hung = 0;
    for (int tp = 2; tp <= 4; tp++)
        for (int other = 1; other <= 9; other++) {
            struct plan plan = make_plan(tp, 192, 64, 64, 1);
            int grid[4] = {2, 1, 3, 3}, wave[4] = {1, 1, 9, 1};
            wave[tp - 1] = other;
            bool alike = other == 1 && tp < 4;
            struct waitgraph_result result;
            grs_error err;
            grs_status status = waitgraph_check_ranks(&plan, 730 * tp, grid, wave, &result, &err);
            assert_int_equal(status, alike ? GRS_OK : GRS_ERR_PLAN);
            bool ends = simulate(&plan, 730 * tp, grid, wave, (uint64_t)other);
            assert_int_equal(result.verdict, alike ? WAITGRAPH_ACYCLIC : ends ? WAITGRAPH_RULE : WAITGRAPH_CYCLE);
            hung += !ends;
            if (!alike)
                assert_non_null(strstr(err.text, "order.interleave: waves of 1 tiles on rank 0 and "));
        }
    assert_true(hung > 0); /* the rule is there for a reason */
}

static void wide_signals_need_a_long_lag(void **state) {
    (void)state;
    struct waitgraph_result result;
    grs_error err;
    struct plan plan = make_plan(4, 4096, 128, 128, 2);
    /* 64 consecutive tiles on 132 CTAs reach into the next wave at most; on 16 CTAs four waves further. */
    set_granularity(&plan, GRANULARITY_GROUP, 64);
    assert_int_equal(waitgraph_check(&plan, 8192, 132, &result, &err), GRS_OK);
    assert_int_equal(waitgraph_check(&plan, 8192, 16, &result, &err), GRS_ERR_PLAN);
    assert_int_equal(result.verdict, WAITGRAPH_CYCLE);
    assert_non_null(strstr(err.text,
                           "signal.granularity: {group: 64} with order.interleave 2: the last tile of a group "
                           "comes 3 waves of 16 after its first, allowed: at most 2 waves"));
    /* A segment of 512 tiles: in four waves of 128 with lag 3, not with lag 2. */
    set_granularity(&plan, GRANULARITY_SEGMENT, 1);
    assert_int_equal(waitgraph_check(&plan, 8192, 128, &result, &err), GRS_ERR_PLAN);
    assert_non_null(strstr(err.text, "a segment of 512 tiles reaches over 4 waves of 128, allowed: at most 3 waves"));
    plan.value[FIELD_LAG] = 3;
    assert_int_equal(waitgraph_check(&plan, 8192, 128, &result, &err), GRS_OK);
    /* In segment order any granularity will do. */
    plan.value[FIELD_ORDER] = ORDER_SEGMENT;
    assert_int_equal(waitgraph_check(&plan, 8192, 16, &result, &err), GRS_OK);
}

/* ---------------------------------------------------------------- classes */

/* Every launch of a small class: accepted classes have no cycle in any, refused ones name a launch that hangs. */
static void classes_cover_every_launch(void **state) {
    (void)state;
    uint64_t random = 77;
    int accepted = 0, refused = 0;
    for (int n = 0; n < 250; n++) {
        struct plan plan = random_plan(&random, n % 2);
        plan.segments = plan.shape.tp;
        plan.max_grid = range(&random, 1, 6) * (int)plan.value[FIELD_CLUSTER];
        if (n % 3 == 0)
            plan.value[FIELD_SMS] = plan.max_grid;
        plan.shape.m_min = range(&random, 1, 64 * plan.shape.tp * 6);
        plan.shape.m_max = plan.shape.m_min + range(&random, 0, 200);
        struct waitgraph_result class, launch;
        grs_error err;
        grs_status status = waitgraph_check_class(&plan, &class, &err);
        if (status != GRS_OK) {
            assert_int_equal(status, GRS_ERR_PLAN);
            assert_true(class.verdict == WAITGRAPH_CYCLE || class.verdict == WAITGRAPH_RULE);
            assert_int_equal(class.m_min, class.m_max);
            assert_true(class.m_min >= plan.shape.m_min && class.m_max <= plan.shape.m_max);
            assert_true(class.grid_max <= plan.max_grid);
            assert_int_equal(waitgraph_check(&plan, class.m_min, class.grid_min, &launch, NULL), GRS_ERR_PLAN);
            assert_int_equal(launch.verdict, class.verdict);
            if (class.verdict == WAITGRAPH_CYCLE)
                assert_false(simulate_grid(&plan, class.m_min, class.grid_min, random));
            refused++;
            continue;
        }
        accepted++;
        assert_int_equal(class.m_min, plan.shape.m_min);
        assert_int_equal(class.m_max, plan.shape.m_max);
        assert_non_null(class.argument);
        for (int64_t M = plan.shape.m_min; M <= plan.shape.m_max; M += 1 + 7 * (M % 64 > 1 && M % 64 < 60))
            for (int grid = class.grid_min; grid <= class.grid_max;
                 grid++) /* 1 with sms, where an argument covers it */
                if (grid % plan.value[FIELD_CLUSTER] == 0)
                    assert_int_equal(waitgraph_check(&plan, M, grid, &launch, NULL), GRS_OK);
    }
    assert_true(accepted >= 60 && refused >= 60);
}

/* Unbounded classes rest on a bound from which on the argument holds: the Ms right above their beginning have no cycle. */
static void classes_without_end(void **state) {
    (void)state;
    uint64_t random = 99;
    int accepted = 0;
    for (int n = 0; n < 400; n++) {
        struct plan plan = random_plan(&random, true);
        plan.segments = plan.shape.tp;
        plan.value[FIELD_ORDER] = ORDER_SEGMENT;
        plan.value[FIELD_CLUSTER] = 1;
        plan.max_grid = range(&random, 2, 6);
        /* Around the M from which each segment has more tiles than signals are held back over. */
        int64_t tiles = (plan.value[FIELD_RING_DEPTH] - 1) * plan.max_grid;
        plan.shape.m_min =
            plan.segments * (64 * (tiles / (plan.shape.n / 64)) + range(&random, -2, plan.segments + 66));
        if (plan.shape.m_min < 1)
            plan.shape.m_min = 1;
        struct waitgraph_result class, launch;
        if (waitgraph_check_class(&plan, &class, NULL) != GRS_OK)
            continue;
        accepted++;
        for (int64_t M = plan.shape.m_min; M < plan.shape.m_min + 2 * plan.segments + 2; M++) {
            if (!class.same_grid) /* accepted by argument alone: then it must reach each of them */
                assert_non_null(waitgraph_argument(&plan, M, plan.max_grid, 1));
            for (int grid = 1; grid <= plan.max_grid; grid++)
                assert_int_equal(waitgraph_check(&plan, M, grid, &launch, NULL), GRS_OK);
        }
    }
    assert_true(accepted >= 40);
}

static void unbounded_classes(void **state) {
    (void)state;
    struct waitgraph_result result;
    grs_error err;
    for (int tp = 1; tp <= 64; tp *= 2)
        for (int lag = 0; lag <= 64; lag += 16) { /* the default policies: no M and no grid can hurt */
            struct plan plan = make_plan(tp, 8192, 128, 256, lag);
            assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_OK);
            assert_int_equal(result.m_max, INT32_MAX);
            assert_int_equal(result.grid_max, 132);
        }

    /* `flush: never`: from some M on there is a proof for all grids; a class that begins below has a deadlock. */
    for (int tp = 2; tp <= 8; tp *= 2) {
        struct plan plan = make_never(tp, 4096);
        assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_ERR_PLAN);
        assert_int_equal(result.verdict, WAITGRAPH_CYCLE);
        plan.shape.m_min = 1024 * tp;
        assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_OK);
        assert_int_equal(result.m_max, INT32_MAX);
        plan.value[FIELD_RING_DEPTH] = 8; /* holds back over seven rounds */
        assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_ERR_PLAN);
    }
    /* The grid matters: 8192 rows on two ranks make 1024 tiles a segment, which 132 CTAs cannot make in one round. */
    struct plan plan = make_never(2, 4096);
    plan.shape.m_min = plan.shape.m_max = 8192;
    assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_OK);
    plan.max_grid = 1024;
    assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_ERR_PLAN);
    assert_int_equal(result.grid_min, 1024);
    plan.value[FIELD_SMS] = 132;
    assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_OK);
    assert_int_equal(result.grid_max, 132);

    /* Held back and interleaved, for every M: no argument, and too much to enumerate. */
    plan = make_never(2, 4096);
    plan.value[FIELD_ORDER] = ORDER_INTERLEAVE;
    plan.value[FIELD_LAG] = 4;
    plan.value[FIELD_SMS] = 132;
    plan.shape.m_min = 100000;
    assert_int_equal(waitgraph_check_class(&plan, &result, &err), GRS_ERR_PLAN);
    assert_int_equal(result.verdict, WAITGRAPH_UNPROVEN);
    assert_non_null(strstr(err.text, "could not be proved"));
}

/* What a class was proved for is what its launches are held to. */
static void launches_are_held_to_the_proof(void **state) {
    (void)state;
    grs_error err;
    struct plan plan = make_plan(2, 4096, 128, 128, 2);
    strcpy(plan.name, "kernel");
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){132, 7}, &err), GRS_OK);
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){133, 132}, &err), GRS_ERR_PLAN);
    assert_string_equal(err.text,
                        "kernel: rank 0 has 133 CTAs; that ranks do not wait for one another in a circle is proved "
                        "for 1 to 132 (sms sets the number)");
    /* Groups of 4 span a wave of 132 once, a wave of 1 three times. */
    set_granularity(&plan, GRANULARITY_GROUP, 4);
    plan.value[FIELD_SMS] = 132;
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){132, 132}, &err), GRS_OK);
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){132, 1}, &err), GRS_ERR_PLAN);

    /* 128 tiles a segment: fine on 132 CTAs, a deadlock on 128. */
    plan = make_never(2, 4096);
    plan.shape.m_min = plan.shape.m_max = 1024;
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){132, 132}, &err), GRS_ERR_PLAN);
    plan.value[FIELD_SMS] = 132;
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){132, 132}, &err), GRS_OK);
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){128, 128}, &err), GRS_ERR_PLAN);
    /* Where an argument carries the proof, ranks may differ; where graphs were sorted, they may not. */
    plan.shape.m_min = plan.shape.m_max = 8192;
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){132, 20}, &err), GRS_OK);
    plan.value[FIELD_SMS] = 0;
    plan.max_grid = 2;
    plan.shape.m_min = plan.shape.m_max = 1; /* owner 1 has no rows, so no distance */
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){2, 2}, &err), GRS_OK);
    assert_int_equal(waitgraph_check_grids(&plan, (const int[]){2, 1}, &err), GRS_ERR_PLAN);
    assert_non_null(strstr(err.text, "rank 0 has 2 CTAs and rank 1 has 1"));
}

/* ---------------------------------------------------------------- size, words, wrong arguments */

static void large_graphs(void **state) {
    (void)state;
    struct waitgraph_result result;
    grs_error err;
    struct plan plan = make_plan(8, 8192, 128, 128, 2);
    assert_int_equal(waitgraph_check(&plan, 32768, 132, &result, &err), GRS_OK);
    assert_int_equal(result.tiles, 16384);
    assert_int_equal(result.signals, 16384 / 8 * 7);
    assert_true(result.waits >= 7);
    /* Beyond what is built as a graph the argument alone decides. */
    assert_int_equal(waitgraph_check(&plan, 1 << 30, 132, &result, &err), GRS_OK);
    assert_int_equal(result.waits, -1);
    assert_int_equal(result.tiles, 0);
    plan.value[FIELD_DRAIN_FLUSH] = FLUSH_NEVER;
    assert_int_equal(waitgraph_check(&plan, 1 << 30, 132, &result, &err), GRS_ERR_PLAN);
    assert_int_equal(result.verdict, WAITGRAPH_UNPROVEN);

    /* Too many to search for the shortest cycle: one is found all the same. */
    plan = make_never(2, 8192);
    set_granularity(&plan, GRANULARITY_SEGMENT, 1);
    assert_int_equal(waitgraph_check(&plan, 1 << 20, 132, &result, &err), GRS_ERR_PLAN);
    assert_int_equal(result.verdict, WAITGRAPH_CYCLE);
    assert_false(result.shortest);
    assert_int_equal(result.waits % 2, 0);
    assert_true(result.steps > 0 && result.waits >= result.steps);
    for (int i = 0; i < result.steps; i++)
        assert_int_equal(result.step[i].rank, (result.step[0].rank + i) % 2);
    assert_non_null(strstr(err.text, "; a cycle of "));
}

static void explains_in_words(void **state) {
    (void)state;
    struct waitgraph_result result;
    struct buf text = {0};
    struct plan plan = make_plan(3, 256, 128, 256, 0);
    assert_int_equal(waitgraph_check(&plan, 384, 2, &result, NULL), GRS_OK);
    waitgraph_explain(&result, &text);
    assert_string_equal(text.data,
                        "wait graph: no cycle with M 384 on 2 CTAs a rank: a tile waits for an earlier segment "
                        "of upstream, whatever the grids\n"
                        "  3 tiles and 2 signals a rank; longest chain: 2 waits across ranks\n"
                        "  rank 0, CTA 0, prefetcher: tile 0 of owner 0 waits for rank 1, CTA 1, sender: tile 0 "
                        "of owner 0\n"
                        "  rank 1, CTA 1, prefetcher: tile 0 of owner 0 waits for rank 2, CTA 0, sender: tile 0 "
                        "of owner 0\n");
    buf_clear(&text);
    plan.shape.m_max = 4096;
    assert_int_equal(waitgraph_check_class(&plan, &result, NULL), GRS_OK);
    waitgraph_explain(&result, &text);
    assert_string_equal(text.data, "wait graph: no cycle with M 1 to 4096 on 1 to 132 CTAs a rank: a tile waits for an "
                                   "earlier segment of upstream, whatever the grids\n");
    buf_clear(&text);

    /* Two ranks, one tile a segment, one CTA: the START tile's signal waits for the END tile. */
    plan = make_never(2, 128);
    grs_error err;
    assert_int_equal(waitgraph_check(&plan, 256, 1, &result, &err), GRS_ERR_PLAN);
    waitgraph_explain(&result, &text);
    const char *expected = "drain.flush: never with ring.depth 2, ring.place shared and order: segment holds back "
                           "signals that ranks wait for "
                           "in a circle, with M 256 on 1 CTA a rank, allowed: owner_boundary, per_tile, or ring.depth "
                           "1; a shortest cycle of "
                           "2 waits across ranks:\n"
                           "  rank 0, CTA 0, prefetcher: tile 0 of owner 0 waits for rank 1, CTA 0, storer: the signal "
                           "of tile 0 is held back "
                           "until tile 0 of owner 1 is sent\n"
                           "  rank 1, CTA 0, prefetcher: tile 0 of owner 1 waits for rank 0, CTA 0, storer: the signal "
                           "of tile 0 is held back "
                           "until tile 0 of owner 0 is sent";
    assert_string_equal(err.text, expected);
    assert_memory_equal(text.data, "wait graph: refused: ", 21);
    assert_memory_equal(text.data + 21, expected, strlen(expected));
    buf_free(&text);
}

static void arguments_are_checked(void **state) {
    (void)state;
    struct waitgraph_result result;
    grs_error err;
    struct plan plan = make_plan(2, 256, 128, 256, 0);
    int grid[2] = {4, 0}, wave[2] = {4, 4};
    assert_int_equal(waitgraph_check(&plan, 0, 4, &result, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(waitgraph_check_ranks(&plan, 64, grid, wave, &result, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text,
                        "wait graph: rank 1 has 0 CTAs and waves of 4 tiles, allowed: multiples of tile.cluster 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_policy_agrees_with_execution),
        cmocka_unit_test(held_back_signals_agree_with_execution),
        cmocka_unit_test(defaults_never_wait_in_a_circle),
        cmocka_unit_test(never_is_refused_where_it_deadlocks),
        cmocka_unit_test(agrees_with_the_models),
        cmocka_unit_test(waves_must_be_alike),
        cmocka_unit_test(wide_signals_need_a_long_lag),
        cmocka_unit_test(classes_cover_every_launch),
        cmocka_unit_test(classes_without_end),
        cmocka_unit_test(unbounded_classes),
        cmocka_unit_test(launches_are_held_to_the_proof),
        cmocka_unit_test(large_graphs),
        cmocka_unit_test(explains_in_words),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
