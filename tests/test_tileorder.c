/* The tile order against its definition: every tile once, sorted as the header says, both directions of the numbering. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/tileorder.h"

/* A plan as far as the order of tiles needs one. lag 0: segment order. */
static struct plan make_plan(int ranks, int per_rank, int64_t n, int64_t tile_m, int64_t tile_n, int raster, int lag,
                             int cluster) {
    struct plan plan = {.shape = {.m_min = 1, .m_max = 1 << 20, .n = n, .k = 64, .tp = ranks},
                        .segments = ranks * per_rank,
                        .raster = raster,
                        .group_tiles = 1};
    plan.value[FIELD_TILE_M] = tile_m;
    plan.value[FIELD_TILE_N] = tile_n;
    plan.value[FIELD_ORDER] = lag ? ORDER_INTERLEAVE : ORDER_SEGMENT;
    plan.value[FIELD_LAG] = lag;
    plan.value[FIELD_CLUSTER] = cluster;
    return plan;
}

struct entry {
    int64_t key;
    int turn;
    int64_t tile;
};

static int compare(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    return a->tile < b->tile ? -1 : a->tile > b->tile;
}

/* The definition, word by word: all (t, j) sorted by (floor(j / W) + t * L, t, j), or by (t, j), both counted in places of a
 * cluster. */
static struct entry *sorted(const struct plan *plan, int64_t M, int rank, int64_t wave, int64_t *count) {
    int ranks = plan->shape.tp, q = plan->segments / ranks, cluster = (int)plan->value[FIELD_CLUSTER];
    int64_t rows = (M + plan->segments - 1) / plan->segments, n = 0;
    int64_t tiles_n = (plan->shape.n + plan->value[FIELD_TILE_N] - 1) / plan->value[FIELD_TILE_N];
    struct entry *entries =
        malloc(sizeof *entries * (size_t)((M / plan->value[FIELD_TILE_M] + 2 * plan->segments) * tiles_n));
    assert_non_null(entries);
    for (int t = 0; t < plan->segments; t++) {
        int owner_rank = (rank + 1 + t / q) % ranks, owner = owner_rank + t % q * ranks;
        int64_t kept = M - owner * rows;
        kept = kept < 0 ? 0 : kept > rows ? rows : kept;
        int64_t place_rows = plan->value[FIELD_TILE_M] * cluster;
        int64_t tiles = (kept + place_rows - 1) / place_rows * cluster * tiles_n;
        for (int64_t j = 0; j < tiles; j++)
            entries[n++] = (struct entry){plan->value[FIELD_ORDER] == ORDER_INTERLEAVE
                                              ? j / cluster / (wave / cluster) + t * plan->value[FIELD_LAG]
                                              : t,
                                          t, j};
    }
    qsort(entries, (size_t)n, sizeof *entries, compare);
    *count = n;
    return entries;
}

static void check_order(const struct plan *plan, int64_t M, int64_t wave) {
    for (int rank = 0; rank < plan->shape.tp; rank++) {
        int64_t count;
        struct entry *expected = sorted(plan, M, rank, wave, &count);
        struct tileorder order;
        struct tileorder_cursor cursor;
        tileorder_init(plan, M, rank, wave, &order);
        assert_int_equal(order.total, count);
        for (int64_t p = 0; p < count; p++) {
            int turn;
            int64_t tile;
            if (p == 0)
                tileorder_begin(&order, &cursor);
            else
                tileorder_next(&order, &cursor);
            tileorder_at(&order, p, &turn, &tile);
            assert_int_equal(turn, expected[p].turn);
            assert_int_equal(tile, expected[p].tile);
            assert_int_equal(cursor.turn, turn);
            assert_int_equal(cursor.tile, tile);
            assert_int_equal(tileorder_position(&order, turn, tile), p);
        }
        free(expected);
    }
}

static void matches_its_definition(void **state) {
    (void)state;
    static const int64_t Ms[] = {1, 7, 9, 64, 65, 300, 1023, 1024, 1500};
    static const int64_t waves[] = {1, 2, 5, 12, 1000};
    for (int ranks = 1; ranks <= 5; ranks++)
        for (int per_rank = 1; per_rank <= 2; per_rank++)
            for (int lag = 0; lag <= 4; lag++)
                for (size_t m = 0; m < sizeof Ms / sizeof *Ms; m++)
                    for (size_t w = 0; w < (lag ? sizeof waves / sizeof *waves : 1); w++) {
                        struct plan plan = make_plan(ranks, per_rank, 264, 64, 128, 3, lag, 1);
                        check_order(&plan, Ms[m], waves[w]);
                        plan.value[FIELD_CLUSTER] = 2;
                        check_order(&plan, Ms[m], waves[w] + 1);
                    }
}

/* Neighbours across the ring speak of the same tile: turn t of a rank and turn t+q of its downstream have one owner. */
static void owners_meet(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 6; ranks++)
        for (int q = 1; q <= 3; q++) {
            struct plan plan = make_plan(ranks, q, 256, 64, 128, 2, 0, 1);
            for (int rank = 0; rank < ranks; rank++) {
                struct tileorder here, down;
                tileorder_init(&plan, 4000, rank, 1, &here);
                tileorder_init(&plan, 4000, (rank + ranks - 1) % ranks, 1, &down);
                for (int t = 0; t + q < plan.segments; t++)
                    assert_int_equal(tileorder_owner(&here, t), tileorder_owner(&down, t + q));
                for (int t = plan.segments - q; t < plan.segments; t++)
                    assert_int_equal(tileorder_owner(&here, t) % ranks, rank); /* the last turns are its own */
            }
        }
}

/* The raster visits every tile of the segment once: places of a cluster, M fastest inside panels, the last panel lower. */
static void raster_covers_a_segment(void **state) {
    (void)state;
    static const int rasters[] = {1, 2, 3, 8};
    for (size_t r = 0; r < sizeof rasters / sizeof *rasters; r++)
        for (int64_t M = 1; M < 1500; M += 97)
            for (int cluster = 1; cluster <= 2; cluster++) {
                struct plan plan = make_plan(3, 1, 648, 64, 128, rasters[r], 0, cluster);
                struct tileorder order;
                tileorder_init(&plan, M, 0, cluster, &order);
                for (int owner = 0; owner < 3; owner++) {
                    int64_t places = (plan_segment_rows_of(&plan, M, owner) + 64 * cluster - 1) / (64 * cluster), j = 0;
                    for (int64_t panel = 0; panel < places; panel += rasters[r])
                        for (int64_t n = 0; n < 6; n++)
                            for (int64_t m = panel; m < places && m < panel + rasters[r]; m++)
                                for (int part = 0; part < cluster; part++, j++) {
                                    int64_t tile_m, tile_n;
                                    tileorder_raster(&order, owner, j, &tile_m, &tile_n);
                                    assert_int_equal(tile_m, m * cluster + part);
                                    assert_int_equal(tile_n, n);
                                }
                    assert_int_equal(j, plan_segment_tiles_of(&plan, M, owner));
                }
            }
}

/* Slots of a receiver: dense from 0, none shared, as many as the memory that is reserved for them. */
static void slots_are_distinct(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        for (int q = 1; q <= 2; q++) {
            struct plan plan = make_plan(ranks, q, 264, 64, 128, 3, 0, 1 + q % 2);
            struct tileorder order;
            struct plan_memory memory;
            plan.tile_bytes = 1;
            tileorder_init(&plan, 1000, 1, 2, &order);
            plan_memory_of(&plan, 1000, 1, &memory);
            int64_t slots = (plan.segments - q) * order.stride;
            char *used = calloc(1, (size_t)slots);
            assert_non_null(used);
            assert_int_equal(memory.slots, slots);
            for (int t = q; t < plan.segments; t++)
                for (int64_t j = 0; j < tileorder_tiles(&order, t); j++) {
                    int64_t slot = tileorder_slot(&order, t, j);
                    assert_true(slot >= 0 && slot < slots);
                    assert_false(used[slot]);
                    used[slot] = 1;
                }
            free(used);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_its_definition),
        cmocka_unit_test(owners_meet),
        cmocka_unit_test(raster_covers_a_segment),
        cmocka_unit_test(slots_are_distinct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
