/* plan_explain_json: the same as plan_explain, as data. */
#include "generator/machine.h"
#include "generator/plan_explain.h"
#include "generator/waitgraph.h"

#define INT(x) ((json_int_t)(x))

/* Every constructor of jansson takes NULL for a value that could not be made and then fails itself, so that one look at
 * the end is enough. */
static bool put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static json_t *tiles_json(const struct plan *plan, int64_t M, int grid) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, M, &tiles);
    int64_t waves = (tiles.total + grid - 1) / grid;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "total", INT(tiles.total), "segment_rows",
                     INT(tiles.segment_rows), "in_segment", INT(tiles.max_tiles), "across", INT(tiles.tiles_n), "waves",
                     INT(waves), "places_used", (double)tiles.total / (double)(waves * grid));
}

static json_t *roles_json(const struct plan *plan) {
    struct explain_role role[EXPLAIN_MAX_ROLES];
    json_t *roles = json_array();
    int count = explain_roles(plan, role);
    for (int i = 0; i < count; i++) {
        json_t *waits = json_array();
        for (int w = 0; role[i].waits && role[i].waits[w]; w++)
            json_array_append_new(waits, json_string(role[i].waits[w]));
        if (json_array_append_new(roles, json_pack("{s:s, s:i, s:i, s:i, s:o}", "name", role[i].name, "first_warp",
                                                   role[i].warp, "warps", role[i].warps, "registers", role[i].registers,
                                                   "waits_for", waits))) {
            json_decref(roles);
            return NULL;
        }
    }
    return roles;
}

static json_t *order_json(const struct plan *plan, int64_t M, int grid) {
    struct tileorder order;
    struct explain_run run;
    json_t *runs = json_array(), *first = json_array();
    int64_t position = 0;
    tileorder_init(plan, M, 0, grid, &order);
    for (int i = 0; i < EXPLAIN_RUNS && position < order.total; i++, position += run.count) {
        explain_run_at(&order, position, &run);
        json_array_append_new(runs, json_pack("{s:I, s:I, s:i, s:i, s:I, s:s}", "position", INT(run.position), "count",
                                              INT(run.count), "turn", run.turn, "owner", run.owner, "first_tile",
                                              INT(run.tile), "kind", explain_kind(plan, run.distance)));
    }
    bool all = position == order.total;
    for (position = 0; position < EXPLAIN_TILES && position < order.total; position++) {
        struct explain_tile tile;
        int turn;
        int64_t index;
        tileorder_at(&order, position, &turn, &index);
        int owner = tileorder_owner(&order, turn);
        explain_tile_of(&order, owner, index, &tile);
        json_array_append_new(
            first, json_pack("{s:I, s:I, s:i, s:I, s:s, s:I, s:I, s:I, s:I}", "position", INT(position), "cta",
                             INT(position % grid), "owner", owner, "tile", INT(index), "kind",
                             explain_kind(plan, plan->shape.tp - 1 - turn / order.per_rank), "row", INT(tile.row),
                             "rows", INT(tile.rows), "column", INT(tile.column), "columns", INT(tile.columns)));
    }
    return json_pack("{s:i, s:i, s:I, s:b, s:o, s:o}", "rank", 0, "wave", grid, "lag", INT(order.lag), "complete", all,
                     "runs", runs, "first", first);
}

static json_t *memory_json(const struct plan *plan, int64_t M, int grid) {
    struct plan_memory memory;
    plan_memory_of(plan, M, grid, &memory);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "slots", INT(memory.slots), "mask", INT(memory.mask), "outbox",
                     INT(memory.outbox), "groups", INT(memory.groups), "control", INT(memory.control), "total",
                     INT(memory.total));
}

static json_t *limit_json(const struct plan *plan, int64_t M) {
    const struct machine *machine = machine_of(plan->arch);
    struct plan_estimate estimate;
    plan_estimate(plan, M, &estimate);
    json_t *expected = estimate.expected_us > 0 ? json_real(estimate.expected_us) : json_null();
    return json_pack("{s:o, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:s}", "expected_us", expected, "limit_us",
                     estimate.limit_us, "gemm_us", estimate.gemm_us, "link_us", estimate.link_us, "flops",
                     estimate.flops, "link_bytes", INT(plan_link_bytes(plan, M)), "link_gbps",
                     INT(plan->value[FIELD_LINK_GBPS]), "tflops", machine_tflops(machine, explain_grid(plan)), "rates",
                     machine->measured);
}

static json_t *wait_graph_json(const struct plan *plan, int64_t M, int grid) {
    static const char *const verdicts[] = {
        [WAITGRAPH_ACYCLIC] = "acyclic",
        [WAITGRAPH_CYCLE] = "cycle",
        [WAITGRAPH_RULE] = "rule broken",
        [WAITGRAPH_UNPROVEN] = "unproven",
    };
    struct waitgraph_result result;
    grs_error err = {0};
    struct buf text = {0};
    grs_status status = waitgraph_check(plan, M, grid, &result, &err);
    if (status != GRS_OK && status != GRS_ERR_PLAN)
        return json_pack("{s:s, s:s}", "verdict", "not checked", "text", err.text);
    waitgraph_explain(&result, &text);
    json_t *object = json_pack("{s:s, s:I, s:s}", "verdict", verdicts[result.verdict], "waits", INT(result.waits),
                               "text", text.failed ? "" : text.data);
    buf_free(&text);
    return object;
}

bool plan_explain_json(const struct plan *plan, int64_t M, int grid, json_t *object) {
    if (grid <= 0)
        grid = explain_grid(plan);
    return put(object, "shown", json_pack("{s:I, s:i}", "m", INT(M), "grid", grid)) &&
           put(object, "tiles", tiles_json(plan, M, grid)) && put(object, "roles", roles_json(plan)) &&
           put(object, "order", order_json(plan, M, grid)) && put(object, "memory", memory_json(plan, M, grid)) &&
           put(object, "limit", limit_json(plan, M)) && put(object, "wait_graph", wait_graph_json(plan, M, grid));
}
