/* The plan as text and as JSON: golden texts (tests/golden/explain), and what both say against the functions that know.
 * GRS_UPDATE_GOLDEN=1 build/tests/test_plan_explain writes the golden texts anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/plan_explain.h"
#include "generator/waitgraph.h"
#include "tests/emit_cases.h"
#include "tests/golden.h"

#define GOLDEN "tests/golden/explain"

/* Cases of emit_cases.h, each with an M and a grid (0: the planner's) to show. Those that leave nothing to the planner. */
static const struct shown {
    const char *name;
    int64_t M;
    int grid;
} shown[] = {
    {"wide", 8192, 0},
    {"halves", 300, 100}, /* of whose CTAs the last 36 begin with END tiles */
    {"one_rank", 300, 0},
    {"odd_shape_fixed_m", 1023, 16},
    {"groups_drained_per_tile", 129, 7},
    {"cluster", 4096, 64},
    {"shared_ring_lanes", 2048, 0},
    {"outbox_lanes", 4096, 0},
    {"blackwell", 4096, 0},
};
#define SHOWN ((int)(sizeof shown / sizeof *shown))

static const struct emit_case *case_called(const char *name) {
    for (int i = 0; i < EMIT_CASES; i++)
        if (!strcmp(emit_cases[i].name, name))
            return &emit_cases[i];
    fail_msg("no case %s", name);
    return NULL;
}

static void texts_are_golden(void **state) {
    (void)state;
    int different = 0;
    for (int i = 0; i < SHOWN; i++) {
        struct plan plan = emit_case_plan(case_called(shown[i].name));
        struct buf got = {0};
        char path[256];
        plan_explain(&plan, shown[i].M, shown[i].grid, &got);
        assert_false(got.failed);
        snprintf(path, sizeof path, GOLDEN "/%s.txt", shown[i].name);
        different += !golden_matches(path, &got);
        for (size_t b = 0; b < got.length; b++) /* readable on any terminal */
            assert_true(got.data[b] == '\n' || (got.data[b] >= ' ' && got.data[b] <= '~'));
        assert_null(strstr(got.data, " \n"));
        buf_free(&got);
    }
    assert_int_equal(different, 0);
}

/* ---------------------------------------------------------------- JSON */

static int64_t number(json_t *object, const char *section, const char *key) {
    json_t *value = json_object_get(json_object_get(object, section), key);
    if (!json_is_integer(value))
        fail_msg("%s.%s is no integer", section, key);
    return json_integer_value(value);
}

static void check_json(const struct plan *plan, int64_t M, int grid) {
    json_t *object = json_object(), *item;
    size_t i;
    assert_true(plan_explain_json(plan, M, grid, object));
    grid = grid ? grid : explain_grid(plan);
    assert_int_equal(number(object, "shown", "m"), M);
    assert_int_equal(number(object, "shown", "grid"), grid);

    struct plan_tiles tiles;
    struct plan_memory memory;
    plan_tiles_of(plan, M, &tiles);
    plan_memory_of(plan, M, grid, &memory);
    assert_int_equal(number(object, "tiles", "total"), tiles.total);
    assert_int_equal(number(object, "tiles", "waves"), (tiles.total + grid - 1) / grid);
    assert_int_equal(number(object, "memory", "total"), memory.total);
    assert_int_equal(number(object, "memory", "slots") + number(object, "memory", "mask") +
                         number(object, "memory", "outbox") + number(object, "memory", "groups") +
                         number(object, "memory", "control"),
                     memory.total);
    assert_int_equal(number(object, "limit", "link_bytes"), plan_link_bytes(plan, M));

    /* Every warp has one role. */
    int warps = 0;
    json_array_foreach(json_object_get(object, "roles"), i, item) {
        assert_int_equal(json_integer_value(json_object_get(item, "first_warp")), warps);
        warps += (int)json_integer_value(json_object_get(item, "warps"));
    }
    assert_int_equal(warps * 32, plan->threads);

    /* Runs follow one another, and the tiles shown are those of the order. */
    struct tileorder order;
    int64_t position = 0;
    tileorder_init(plan, M, 0, grid, &order);
    json_t *runs = json_object_get(json_object_get(object, "order"), "runs");
    json_array_foreach(runs, i, item) {
        int64_t count = json_integer_value(json_object_get(item, "count"));
        int turn, first_turn = (int)json_integer_value(json_object_get(item, "turn"));
        int64_t tile, first_tile = json_integer_value(json_object_get(item, "first_tile"));
        assert_int_equal(json_integer_value(json_object_get(item, "position")), position);
        for (int64_t p = 0; p < count; p++, position++) {
            tileorder_at(&order, position, &turn, &tile);
            assert_int_equal(turn, first_turn);
            assert_int_equal(tile, first_tile + p);
        }
    }
    if (json_is_true(json_object_get(json_object_get(object, "order"), "complete")))
        assert_int_equal(position, order.total);
    else
        assert_int_equal(json_array_size(runs), EXPLAIN_RUNS);
    json_array_foreach(json_object_get(json_object_get(object, "order"), "first"), i, item) {
        int turn;
        int64_t tile;
        tileorder_at(&order, (int64_t)i, &turn, &tile);
        assert_int_equal(json_integer_value(json_object_get(item, "tile")), tile);
        assert_int_equal(json_integer_value(json_object_get(item, "owner")), tileorder_owner(&order, turn));
        assert_int_equal(json_integer_value(json_object_get(item, "cta")), (int64_t)i % grid);
        assert_true(json_integer_value(json_object_get(item, "columns")) >= 1);
    }
    struct waitgraph_result result;
    json_t *graph = json_object_get(object, "wait_graph");
    assert_int_equal(waitgraph_check(plan, M, grid, &result, NULL), GRS_OK);
    assert_string_equal(json_string_value(json_object_get(graph, "verdict")), "acyclic");
    assert_int_equal(json_integer_value(json_object_get(graph, "waits")), result.waits);
    json_decref(object);
}

static void json_agrees_with_the_plan(void **state) {
    (void)state;
    for (int i = 0; i < EMIT_CASES; i++) {
        struct plan plan = emit_case_plan(&emit_cases[i]);
        int cluster = (int)plan.value[FIELD_CLUSTER];
        int64_t M = plan.shape.m_max < 3000 ? plan.shape.m_max : plan.shape.m_min > 3000 ? plan.shape.m_min : 3000;
        check_json(&plan, M, 0);
        check_json(&plan, plan.shape.m_min, plan.max_grid);
        check_json(&plan, plan.shape.m_min, 4 * cluster);
    }
}

/* ---------------------------------------------------------------- parts */

static void kinds_go_from_start_to_end(void **state) {
    (void)state;
    struct plan plan = {.shape = {.tp = 4}};
    assert_string_equal(explain_kind(&plan, 3), "START");
    assert_string_equal(explain_kind(&plan, 2), "MIDDLE");
    assert_string_equal(explain_kind(&plan, 1), "MIDDLE");
    assert_string_equal(explain_kind(&plan, 0), "END");
    plan.shape.tp = 2;
    assert_string_equal(explain_kind(&plan, 1), "START");
    assert_string_equal(explain_kind(&plan, 0), "END");
    plan.shape.tp = 1;
    assert_string_equal(explain_kind(&plan, 0), "ALONE");
}

/* The rectangles of a segment's tiles cover its rows and N once. */
static void tiles_cover_their_segment(void **state) {
    (void)state;
    for (int i = 0; i < EMIT_CASES; i++) {
        struct plan plan = emit_case_plan(&emit_cases[i]);
        struct tileorder order;
        tileorder_init(&plan, 1023, 0, 1, &order);
        for (int owner = 0; owner < plan.segments; owner++) {
            int64_t area = 0, rows = plan_segment_rows_of(&plan, 1023, owner);
            for (int64_t j = 0; j < plan_segment_tiles_of(&plan, 1023, owner); j++) {
                struct explain_tile tile;
                explain_tile_of(&order, owner, j, &tile);
                area += (tile.rows > 0 ? tile.rows : 0) * tile.columns; /* a cluster's last tile may have none */
            }
            assert_int_equal(area, rows * plan.shape.n);
        }
    }
}

static void only_values_with_an_effect_are_shown(void **state) {
    (void)state;
    struct plan wide = emit_case_plan(case_called("wide")),
                groups = emit_case_plan(case_called("groups_drained_per_tile")),
                shared = emit_case_plan(case_called("shared_ring_lanes")),
                blackwell = emit_case_plan(case_called("blackwell"));
    assert_true(explain_matters(&wide, FIELD_LAG) && !explain_matters(&wide, FIELD_GROUP));
    assert_true(explain_matters(&groups, FIELD_GROUP) && !explain_matters(&groups, FIELD_LAG));
    assert_true(explain_matters(&wide, FIELD_CHUNK_COUNT) && !explain_matters(&shared, FIELD_CHUNK_COUNT));
    assert_true(explain_matters(&wide, FIELD_SCHEDULE) && !explain_matters(&blackwell, FIELD_SCHEDULE));
    assert_true(!explain_matters(&wide, FIELD_STAGES_ACCUM) && explain_matters(&blackwell, FIELD_STAGES_ACCUM));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_golden),
        cmocka_unit_test(json_agrees_with_the_plan),
        cmocka_unit_test(kinds_go_from_start_to_end),
        cmocka_unit_test(tiles_cover_their_segment),
        cmocka_unit_test(only_values_with_an_effect_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
