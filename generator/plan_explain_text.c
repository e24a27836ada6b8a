/* plan_explain: the plan so that a person can follow it. ASCII drawings, no line that depends on locale or terminal. */
#include <inttypes.h>
#include <string.h>

#include "generator/machine.h"
#include "generator/plan_explain.h"
#include "generator/plan_time.h"
#include "generator/waitgraph.h"

#define MAP_WIDTH     70
#define MAP_LINE_STEP 16384 /* bytes that one line of the map stands for */

static void spaces(struct buf *out, int64_t count) {
    for (; count > 0; count--)
        buf_puts(out, " ");
}

/* A cell and the space up to the next column. */
static void cell(struct buf *out, const char *text, int width) {
    buf_puts(out, text);
    spaces(out, width - (int64_t)strlen(text));
}

static void head(const struct plan *plan, int64_t M, int grid, struct buf *out) {
    const struct plan_shape *s = &plan->shape;
    buf_printf(out, "%s\n", plan->name);
    buf_printf(out, "  A [M, %" PRId64 "] x B [%" PRId64 ", %" PRId64 "]^T in BF16 on %s, ", s->k, s->n, s->k,
               config_arch_name(plan->arch));
    if (s->tp == 1)
        buf_puts(out, "one rank\n");
    else
        buf_printf(out, "summed over %d ranks, each keeping M / %d rows\n", s->tp, plan->segments);
    if (s->m_min == s->m_max)
        buf_printf(out, "  made for M = %" PRId64, s->m_min);
    else
        buf_printf(out, "  serves M = %" PRId64 " to %" PRId64, s->m_min, s->m_max);
    buf_printf(out, " and at most %d CTA%s a rank; shown with M = %" PRId64 " on %d CTA%s\n", plan->max_grid,
               plan->max_grid == 1 ? "" : "s", M, grid, grid == 1 ? "" : "s");
}

static void values(const struct plan *plan, struct buf *out) {
    buf_puts(out, "\nValues\n  key                       value           from     because\n");
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!explain_matters(plan, (enum field)f))
            continue;
        bool chosen = plan->origin[f] == ORIGIN_PLANNER;
        struct buf text = {0};
        config_value_text((enum field)f, plan->value[f], &text);
        buf_puts(out, "  ");
        cell(out, config_fields[f].key, 26);
        cell(out, text.failed ? "" : text.data, 16);
        buf_puts(out, chosen ? "planner" : "config");
        if (chosen && plan->reason[f])
            buf_printf(out, "  %s", plan->reason[f]);
        buf_puts(out, "\n");
        buf_free(&text);
    }
}

/* ---------------------------------------------------------------- shared memory */

static void map_rule(struct buf *out, int64_t offset) {
    buf_printf(out, "  %9" PRId64 "  +", offset);
    for (int i = 0; i < MAP_WIDTH; i++)
        buf_puts(out, "-");
    buf_puts(out, "+\n");
}

static void map_line(struct buf *out, const char *text) {
    buf_puts(out, "             | ");
    cell(out, text, MAP_WIDTH - 2);
    buf_puts(out, " |\n");
}

/* A box whose height grows with its bytes. */
static void map_box(struct buf *out, int64_t offset, const char *name, int64_t bytes, int64_t count, const char *what) {
    int64_t height = bytes / MAP_LINE_STEP;
    struct buf line = {0};
    map_rule(out, offset);
    buf_printf(&line, "%s: %" PRId64 " bytes", name, bytes);
    map_line(out, line.failed ? "" : line.data);
    buf_clear(&line);
    if (count > 1)
        buf_printf(&line, "  %" PRId64 " of %" PRId64 " each: ", count, bytes / count);
    else
        buf_puts(&line, "  ");
    buf_puts(&line, what);
    map_line(out, line.failed ? "" : line.data);
    for (int64_t i = 2; i < height; i++)
        map_line(out, "");
    buf_free(&line);
}

static void shared_map(const struct plan *plan, struct buf *out) {
    buf_printf(out, "\nShared memory of a CTA: %" PRId64 " of %" PRId64 " bytes\n     offset\n", plan->shared_bytes,
               plan->shared_limit);
    for (int i = 0; i < plan->region_count; i++) {
        const struct plan_region *region = &plan->region[i];
        map_box(out, region->offset, region->name, region->bytes, region->count, region->what);
    }
    int64_t rest = plan->shared_limit - plan->shared_bytes;
    if (rest)
        map_box(out, plan->shared_bytes, "not used", rest, 1,
                rest < plan->stage_bytes ? "less than one more stage needs" : "room for more stages");
    map_rule(out, plan->shared_limit);
}

/* ---------------------------------------------------------------- roles */

static void roles(const struct plan *plan, struct buf *out) {
    struct explain_role role[EXPLAIN_MAX_ROLES];
    int count = explain_roles(plan, role);
    int math = 128 * plan->consumer_warpgroups, others = plan->threads - math;
    buf_printf(out, "\nRoles: %d threads, %d registers each", plan->threads, plan->registers_launch);
    if (plan->tensor_columns)
        buf_printf(out, "; %" PRId64 " accumulators of %" PRId64 " columns in %d of %d columns of tensor memory\n",
                   plan->value[FIELD_STAGES_ACCUM], plan->value[FIELD_TILE_N], plan->tensor_columns,
                   PLAN_TENSOR_COLUMNS);
    else
        buf_printf(out, " at the start; then %d x %d + %d x %d = %d of %d registers\n", others,
                   plan->registers_producer, math, plan->registers_consumer,
                   others * plan->registers_producer + math * plan->registers_consumer,
                   machine_of(plan->arch)->registers);
    buf_puts(out, "  warps   role        registers  waits for\n");
    for (int i = 0; i < count; i++) {
        struct buf warps = {0};
        buf_printf(&warps, role[i].warps > 1 ? "%d-%d" : "%d", role[i].warp, role[i].warp + role[i].warps - 1);
        buf_puts(out, "  ");
        cell(out, warps.failed ? "" : warps.data, 8);
        cell(out, role[i].name, 12);
        buf_printf(out, "%9d  ", role[i].registers);
        buf_free(&warps);
        if (!role[i].waits)
            buf_puts(out, "nothing: it has no part in this plan\n");
        for (int w = 0; role[i].waits && role[i].waits[w]; w++) {
            spaces(out, w ? 33 : 0);
            buf_printf(out, "%s\n", role[i].waits[w]);
        }
    }
}

/* ---------------------------------------------------------------- order */

static void range(struct buf *out, int64_t first, int64_t count, int width) {
    struct buf text = {0};
    if (count > 1)
        buf_printf(&text, "%" PRId64 "-%" PRId64, first, first + count - 1);
    else
        buf_printf(&text, "%" PRId64, first);
    cell(out, text.failed ? "" : text.data, width);
    buf_free(&text);
}

static void run_line(const struct plan *plan, const struct explain_run *run, struct buf *out) {
    int ranks = plan->shape.tp;
    buf_puts(out, "  ");
    range(out, run->position, run->count, 20);
    buf_printf(out, "%5d  ", run->owner);
    range(out, run->tile, run->count, 18);
    cell(out, explain_kind(plan, run->distance), 8);
    if (run->distance < ranks - 1)
        buf_puts(out, "add rank 1's partial, ");
    if (run->distance == 0)
        buf_puts(out, "write D\n");
    else
        buf_printf(out, "send to rank %d\n", ranks - 1);
}

static void order_of_tiles(const struct plan *plan, int64_t M, int grid, struct buf *out) {
    struct tileorder order;
    struct plan_tiles tiles;
    struct explain_run run;
    tileorder_init(plan, M, 0, grid, &order);
    plan_tiles_of(plan, M, &tiles);
    int64_t waves = (tiles.total + grid - 1) / grid;
    buf_printf(out, "\nTiles of a rank: %" PRId64 " in %" PRId64 " wave%s of %d CTAs, ", tiles.total, waves,
               waves == 1 ? "" : "s", grid);
    buf_fixed(out, 100.0 * (double)tiles.total / (double)(waves * grid), 1);
    buf_printf(out,
               " %% of their places used\n  %d segment%s of up to %" PRId64 " rows, %" PRId64 " tiles (%" PRId64
               " down, %" PRId64 " across, M fastest in panels of %d); ",
               plan->segments, plan->segments == 1 ? "" : "s", tiles.segment_rows, tiles.max_tiles,
               tiles.max_tiles / tiles.tiles_n, tiles.tiles_n, plan->raster);
    if (order.lag && tiles.max_tiles > order.lag * order.wave)
        buf_printf(out, "each starts %" PRId64 " wave%s after the one before\n", order.lag, order.lag == 1 ? "" : "s");
    else if (order.lag && plan->segments > 1)
        buf_printf(out, "one after the other: at this M none has more than the %" PRId64 " wave%s of the lag\n",
                   order.lag, order.lag == 1 ? "" : "s");
    else
        buf_puts(out, "one after the other\n");
    if (plan_halves_first(plan))
        buf_puts(out, "  a CTA whose first tile is START makes and sends it in two halves of its columns\n");

    buf_puts(out, "\nOrder of rank 0\n  positions           owner  tiles             kind    what\n");
    int64_t position = 0;
    for (int i = 0; i < EXPLAIN_RUNS && position < order.total; i++, position += run.count) {
        explain_run_at(&order, position, &run);
        run_line(plan, &run, out);
    }
    if (position < order.total) {
        int turn;
        int64_t last;
        tileorder_at(&order, order.total - 1, &turn, &last);
        int64_t first = order.lag ? last / order.wave * order.wave : 0;
        int64_t begin = order.total - 1 - (last - first);
        if (begin > position)
            buf_puts(out, "  ...\n");
        explain_run_at(&order, begin > position ? begin : position, &run);
        run_line(plan, &run, out);
    }

    buf_puts(out, "\nThe first tiles of it\n  position  CTA  owner  tile  rows of A       columns         kind\n");
    for (position = 0; position < EXPLAIN_TILES && position < order.total; position++) {
        struct explain_tile tile;
        int turn;
        int64_t index;
        tileorder_at(&order, position, &turn, &index);
        int owner = tileorder_owner(&order, turn);
        explain_tile_of(&order, owner, index, &tile);
        buf_printf(out, "  %8" PRId64 " %4" PRId64 " %6d %5" PRId64 "  ", position, position % grid, owner, index);
        range(out, tile.row, tile.rows, 16);
        range(out, tile.column, tile.columns, 16);
        buf_printf(out, "%s\n", explain_kind(plan, plan->shape.tp - 1 - turn / order.per_rank));
    }
}

/* ---------------------------------------------------------------- memory, link, times */

static void link_and_memory(const struct plan *plan, int64_t M, int grid, struct buf *out) {
    struct plan_memory memory;
    plan_memory_of(plan, M, grid, &memory);
    if (plan->shape.tp == 1) {
        buf_puts(out, "\nLink: nothing is sent\n");
    } else {
        int64_t kept = 0;
        for (int owner = 0; owner < plan->segments; owner += plan->shape.tp)
            kept += plan_segment_tiles_of(plan, M, owner);
        struct plan_tiles tiles;
        plan_tiles_of(plan, M, &tiles);
        buf_printf(out, "\nLink: rank 0 sends %" PRId64 " bytes to rank %d, as %" PRId64 " tiles of up to %" PRId64,
                   plan_link_bytes(plan, M), plan->shape.tp - 1, tiles.total - kept, plan->tile_bytes);
        if (plan->value[FIELD_RING_PLACE] == PLACE_GLOBAL)
            buf_printf(out, " in chunks of %" PRId64, plan->value[FIELD_CHUNK_BYTES]);
        buf_puts(out, "\n");
        if (plan_send_pace(plan, M, grid))
            buf_printf(out,
                       "  a CTA sends no faster than a byte in %" PRIu32
                       " ps: the share of link_gbps of those that send at the same time\n",
                       plan_send_pace(plan, M, grid));
    }
    buf_printf(out, "\nMemory that a rank reserves for M up to %" PRId64 " on %d CTAs: %" PRId64 " bytes\n", M, grid,
               memory.total);
    const struct {
        const char *name;
        int64_t bytes;
        const char *what;
    } part[] = {
        {"receive slots", memory.slots, "partials that upstream writes, a slot a tile"},
        {"mask", memory.mask, "a bit for what upstream has landed"},
        {"outbox", memory.outbox, "ring.depth tiles a CTA that wait to be sent"},
        {"group counters", memory.groups, "tiles landed of each signal group"},
        {"control words", memory.control, "epoch, credit, abort"},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (!part[i].bytes)
            continue;
        buf_puts(out, "  ");
        cell(out, part[i].name, 16);
        buf_printf(out, "%12" PRId64 "  %s\n", part[i].bytes, part[i].what);
    }
}

static void times(const struct plan *plan, int64_t M, struct buf *out) {
    const struct machine *machine = machine_of(plan->arch);
    struct plan_estimate estimate;
    plan_estimate(plan, M, &estimate);
    buf_puts(out, "\nExpected: ");
    if (estimate.expected_us > 0) {
        buf_fixed(out, estimate.expected_us, 1);
        buf_puts(out, " us, ");
        buf_fixed(out, estimate.expected_us / estimate.limit_us, 2);
        buf_puts(out, " times the limit: tiles played through with what was measured of an H200 (docs/times.md)\n");
    } else {
        buf_printf(out, "unknown: %s\n", plan_time_unknown(plan) ? plan_time_unknown(plan) : "out of memory");
    }
    buf_puts(out, "Limit: ");
    buf_fixed(out, estimate.limit_us, 1);
    buf_printf(out, " us, set by the %s\n  GEMM ", estimate.gemm_us >= estimate.link_us ? "GEMM" : "link");
    buf_fixed(out, estimate.gemm_us, 1);
    buf_puts(out, " us: ");
    buf_fixed(out, estimate.flops / 1e9, 1);
    buf_puts(out, " GFLOP at ");
    buf_fixed(out, machine_tflops(machine, explain_grid(plan)), 0);
    buf_printf(out, " TFLOP/s on %d SMs\n  link ", explain_grid(plan));
    buf_fixed(out, estimate.link_us, 1);
    buf_printf(out, " us at %" PRId64 " GB/s\n  rates: %s\n", plan->value[FIELD_LINK_GBPS], machine->measured);
}

static void wait_graph(const struct plan *plan, int64_t M, int grid, struct buf *out) {
    struct waitgraph_result result;
    grs_error err = {0};
    buf_puts(out, "\n");
    grs_status status = waitgraph_check(plan, M, grid, &result, &err);
    if (status == GRS_OK || status == GRS_ERR_PLAN)
        waitgraph_explain(&result, out);
    else
        buf_printf(out, "wait graph: not checked: %s\n", err.text);
}

void plan_explain(const struct plan *plan, int64_t M, int grid, struct buf *out) {
    if (grid <= 0)
        grid = explain_grid(plan);
    head(plan, M, grid, out);
    values(plan, out);
    shared_map(plan, out);
    roles(plan, out);
    order_of_tiles(plan, M, grid, out);
    wait_graph(plan, M, grid, out);
    link_and_memory(plan, M, grid, out);
    times(plan, M, out);
}
