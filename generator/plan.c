#include "generator/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "generator/machine.h"
#include "generator/plan_defaults.h"
#include "generator/plan_warps.h"
#include "generator/waitgraph.h"

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t b) {
    return ceil_div(a, b) * b;
}

/* ---------------------------------------------------------------- refusals */

/* "file:line:col: key: …" where the value stands in a file, "key: …" (chosen by the planner) elsewhere. */
static grs_status refuse(const struct config *config, enum field field, grs_status status, grs_error *err,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
static grs_status refuse(const struct config *config, enum field field, grs_status status, grs_error *err,
                         const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *key = config_fields[field].key;
    if (config->is_set[field] && config->where[field].line)
        return error_at(err, status, config->path, config->where[field].line, config->where[field].column, "%s: %s",
                        key, text);
    return error_set(err, status, "%s: %s: %s", config->path, key, text);
}

struct not_built {
    enum arch family;
    enum field field;
    int64_t value; /* this value is legal in a config, but no template makes it yet */
    const char *instead;
    const char *why; /* where a number of the machine stands in the way; or NULL */
};

static const struct not_built not_built[] = {
    {ARCH_SM90A, FIELD_TILE_K, 32, "64", "rows of 64 bytes need another swizzle"},
    {ARCH_SM90A, FIELD_TILE_K, 128, "64", "a box in the 128-byte swizzle is 64 columns wide"},
    {ARCH_SM90A, FIELD_TILE_M, 256, "64 or 128", "four math warpgroups and the roles are 640 threads"},
    {ARCH_SM100A, FIELD_TILE_K, 32, "64", "rows of 64 bytes need another swizzle"},
    {ARCH_SM100A, FIELD_TILE_K, 128, "64", "a box in the 128-byte swizzle is 64 columns wide"},
    {ARCH_SM100A, FIELD_TILE_N, 168, "64, 128, 192 or 256", "tensor memory is read 32 columns at a time"},
    {ARCH_SM100A, FIELD_TILE_M, 64, "128", "64 rows leave half of the lanes of tensor memory unused"},
    {ARCH_SM100A, FIELD_TILE_M, 256, "128",
     "each CTA, of a pair too, finishes a row in each lane of its tensor memory"},
};

/* A key of another arch is passed over only where the config asks for that arch too; elsewhere it would be ignored. */
static grs_status check_arch(const struct config *config, const struct plan *plan, grs_error *err) {
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!config->is_set[f] || config_arch_knows(plan->arch, (enum field)f))
            continue;
        enum arch family = (enum arch)(config_fields[f].only_family - 1);
        if (config_lists_family(config, family))
            continue;
        struct buf names = {0};
        config_archs_text(family, &names);
        grs_status status = refuse(config, (enum field)f, GRS_ERR_CONFIG, err, "%s has no such key; allowed: with %s",
                                   config_arch_name(plan->arch), names.failed ? "?" : names.data);
        buf_free(&names);
        return status;
    }
    return GRS_OK;
}

/* Accumulators are FP32, 64 x tile.n of a warpgroup over its 128 threads. */
static grs_status check_registers(const struct config *config, const struct plan *plan, grs_error *err) {
    int accumulators = plan_accumulators(plan), columns = plan_most_columns(plan);
    if (plan->value[FIELD_TILE_N] <= columns)
        return GRS_OK;
    char beside[96] = "", allowed[160];
    int length = columns ? snprintf(allowed, sizeof allowed, "at most %d columns with tile.m %" PRId64, columns,
                                    plan->value[FIELD_TILE_M])
                         : snprintf(allowed, sizeof allowed, "a smaller tile.m");
    if (plan->beside_warps) {
        bool shared = plan->value[FIELD_RING_PLACE] == PLACE_SHARED;
        int lanes = plan_most_lanes(plan);
        snprintf(beside, sizeof beside, " (lane_per_stage has %d in warps beside the first four)", plan->beside_warps);
        if (lanes >= 2)
            snprintf(allowed + length, sizeof allowed - (size_t)length, ", or %s of at most %d",
                     config_fields[shared ? FIELD_RING_DEPTH : FIELD_CHUNK_COUNT].key, lanes);
        else
            snprintf(allowed + length, sizeof allowed - (size_t)length, ", or another drain.policy");
    }
    return refuse(config, FIELD_TILE_N, GRS_ERR_PLAN, err,
                  "%" PRId64
                  " columns need %d registers a thread (%d accumulators and %d more); %d threads%s share the "
                  "%d of an SM, %d each and %d for these; allowed: %s",
                  plan->value[FIELD_TILE_N], accumulators + plan_other_registers(plan), accumulators,
                  plan_other_registers(plan), plan->threads, beside, machine_of(plan->arch)->registers,
                  plan->registers_launch, plan->registers_consumer, allowed);
}

/* A column of tensor memory holds a column of an accumulator: 128 rows in FP32. */
static grs_status check_tensor_memory(const struct config *config, const struct plan *plan, grs_error *err) {
    const int64_t *v = plan->value;
    if (plan->tensor_columns <= PLAN_TENSOR_COLUMNS)
        return GRS_OK;
    return refuse(config, FIELD_STAGES_ACCUM, GRS_ERR_PLAN, err,
                  "%" PRId64 " accumulators of %" PRId64 " columns need %" PRId64
                  " columns of tensor memory; %s has %d; allowed: at most %" PRId64 " with tile.n %" PRId64,
                  v[FIELD_STAGES_ACCUM], v[FIELD_TILE_N], v[FIELD_STAGES_ACCUM] * v[FIELD_TILE_N],
                  config_arch_name(plan->arch), PLAN_TENSOR_COLUMNS, PLAN_TENSOR_COLUMNS / v[FIELD_TILE_N],
                  v[FIELD_TILE_N]);
}

static bool uses_chunks(const struct plan *plan) {
    return plan->shape.tp > 1 && plan->value[FIELD_RING_PLACE] == PLACE_GLOBAL;
}

/* Policies that exclude one another. The wait graph has the last word on those that do not. */
static grs_status check_policies(const struct config *config, const struct plan *plan, grs_error *err) {
    const int64_t *v = plan->value;
    bool global = v[FIELD_RING_PLACE] == PLACE_GLOBAL, lanes = v[FIELD_DRAIN_POLICY] == DRAIN_LANE_PER_STAGE;
    if (v[FIELD_DRAIN_POLICY] == DRAIN_PER_TILE && v[FIELD_DRAIN_FLUSH] == FLUSH_NEVER)
        return refuse(
            config, FIELD_DRAIN_FLUSH, GRS_ERR_PLAN, err,
            "never with drain.policy per_tile, which waits for every store; allowed: owner_boundary or per_tile");
    if (lanes && v[FIELD_DRAIN_FLUSH] == FLUSH_PER_TILE)
        return refuse(config, FIELD_DRAIN_FLUSH, GRS_ERR_PLAN, err,
                      "per_tile with drain.policy lane_per_stage, whose threads wait for their own stores alone; "
                      "allowed: owner_boundary, never, or drain.policy per_tile");
    if (global && !lanes && v[FIELD_DRAIN_FLUSH] == FLUSH_NEVER)
        return refuse(config, FIELD_DRAIN_FLUSH, GRS_ERR_PLAN, err,
                      "never asks for %" PRId64
                      " stores in flight, and the sender of ring.place global has one tile in "
                      "flight at a time; allowed: owner_boundary, per_tile, or ring.place shared",
                      v[FIELD_RING_DEPTH]);
    return GRS_OK;
}

/* Clusters are whole: the grid of a rank is a multiple of them. A CTA pair is one. Each CTA brings whole swizzle atoms of B. */
static grs_status check_grid(const struct config *config, const struct plan *plan, grs_error *err) {
    int64_t cluster = plan->value[FIELD_CLUSTER], sms = plan->value[FIELD_SMS];
    if (plan->value[FIELD_TILE_N] % (8 * cluster))
        return refuse(config, FIELD_TILE_N, GRS_ERR_PLAN, err,
                      "%" PRId64 " columns with tile.cluster %" PRId64
                      ", whose CTAs bring multiples of 8 each; allowed: 64, 128, 192 or 256",
                      plan->value[FIELD_TILE_N], cluster);
    if (plan->value[FIELD_CTA_GROUP] > cluster)
        return refuse(config, FIELD_CLUSTER, GRS_ERR_PLAN, err,
                      "%" PRId64 " with tile.cta_group %" PRId64
                      ": the CTAs of a group are a cluster; allowed: %" PRId64,
                      cluster, plan->value[FIELD_CTA_GROUP], plan->value[FIELD_CTA_GROUP]);
    if (sms % cluster == 0)
        return GRS_OK;
    return refuse(config, FIELD_SMS, GRS_ERR_PLAN, err,
                  "%" PRId64 " is no multiple of tile.cluster %" PRId64
                  "; allowed: all or a multiple, such as %" PRId64,
                  sms, cluster, round_up(sms, cluster));
}

static grs_status check_built(const struct config *config, const struct plan *plan, grs_error *err) {
    grs_status status =
        plan->tensor_columns ? check_tensor_memory(config, plan, err) : check_registers(config, plan, err);
    for (size_t i = 0; status == GRS_OK && i < sizeof not_built / sizeof *not_built; i++) {
        const struct not_built *row = &not_built[i];
        if (row->family != config_arch_family(plan->arch) || plan->value[row->field] != row->value)
            continue;
        struct buf text = {0};
        config_value_text(row->field, row->value, &text);
        status = refuse(config, row->field, GRS_ERR_UNSUPPORTED, err, "%s is not built yet for %s%s%s; allowed: %s",
                        text.failed ? "?" : text.data, config_arch_name(plan->arch), row->why ? ": " : "",
                        row->why ? row->why : "", row->instead);
        buf_free(&text);
    }
    if (status == GRS_OK)
        status = check_policies(config, plan, err);
    if (status == GRS_OK)
        status = check_grid(config, plan, err);
    if (status == GRS_OK && uses_chunks(plan) && plan->value[FIELD_CHUNK_COUNT] < 2)
        status = refuse(config, FIELD_CHUNK_COUNT, GRS_ERR_PLAN, err,
                        "1 leaves no chunk to load while one is sent; allowed: 2 to %" PRId64,
                        config_fields[FIELD_CHUNK_COUNT].max);
    return status;
}

/* ---------------------------------------------------------------- shared memory, names */

static void add_region(struct plan *plan, const char *name, int64_t count, int64_t each, int64_t align,
                       const char *what) {
    struct plan_region *region = &plan->region[plan->region_count++];
    *region = (struct plan_region){name, round_up(plan->shared_bytes, align), count * each, count, what};
    plan->shared_bytes = region->offset + region->bytes;
}

/* The same map as struct Shared of templates/pipeline.cuh, which asserts that both agree. */
static void map_shared(struct plan *plan, int64_t stages) {
    const int64_t *v = plan->value;
    int64_t accumulators = plan->tensor_columns ? v[FIELD_STAGES_ACCUM] : 0;
    int64_t turns = config_arch_family(plan->arch) == ARCH_SM90A && v[FIELD_SCHEDULE] == SCHEDULE_PINGPONG ? 4 : 0;
    int64_t barriers =
        2 * accumulators + turns + 2 * stages + 3 * plan->tile_buffers + 2 * plan->outbox_depth + v[FIELD_CHUNK_COUNT];
    plan->region_count = 0;
    plan->shared_bytes = 0;
    add_region(plan, "A/B stages", stages, plan->stage_bytes, 1024, "A and B of one k-block");
    add_region(plan, "tile buffer", plan->tile_buffers, plan->tile_bytes, 1024,
               "upstream's partial, then the sum in its place");
    add_region(plan, "chunks", v[FIELD_CHUNK_COUNT], v[FIELD_CHUNK_BYTES], 1024,
               uses_chunks(plan) ? "outbox to peer" : "not used");
    add_region(plan, "barriers", barriers, 8, 8, "mbarrier");
    add_region(plan, "control", 1, 4 + 4 * plan->tile_buffers + 4, 8, "leave, actions, accumulators");
    plan->shared_bytes = round_up(plan->shared_bytes, 1024);
}

static int64_t most_stages(const struct plan *plan) {
    struct plan smaller = *plan;
    int64_t stages = plan->value[FIELD_STAGES_LOAD];
    for (; stages > 0 && smaller.shared_bytes > plan->shared_limit; map_shared(&smaller, stages))
        stages--;
    return stages;
}

static grs_status check_shared(const struct config *config, const struct plan *plan, grs_error *err) {
    if (plan->shared_bytes <= plan->shared_limit)
        return GRS_OK;
    const int64_t *v = plan->value, least_stages = config_fields[FIELD_STAGES_LOAD].min, fits = most_stages(plan);
    struct plan least = *plan;
    if (fits < least_stages)
        map_shared(&least, least_stages);
    char need[320], allowed[64];
    snprintf(need, sizeof need,
             "%" PRId64 " stages of %" PRId64 " bytes, %d tile buffer%s of %" PRId64 " and %" PRId64
             " chunk%s of %" PRId64 " need %" PRId64 " bytes of shared memory, %s has %" PRId64,
             fits < least_stages ? least_stages : v[FIELD_STAGES_LOAD], plan->stage_bytes, plan->tile_buffers,
             plan->tile_buffers == 1 ? "" : "s", plan->tile_bytes, v[FIELD_CHUNK_COUNT],
             v[FIELD_CHUNK_COUNT] == 1 ? "" : "s", v[FIELD_CHUNK_BYTES], least.shared_bytes,
             config_arch_name(plan->arch), plan->shared_limit);
    if (fits >= least_stages)
        return refuse(config, FIELD_STAGES_LOAD, GRS_ERR_PLAN, err, "%s; allowed: at most %" PRId64 " stages", need,
                      fits);
    enum field field = config->is_set[FIELD_CHUNK_BYTES] ? FIELD_CHUNK_BYTES : FIELD_CHUNK_COUNT;
    snprintf(allowed, sizeof allowed, "fewer or smaller chunks, or a smaller tile");
    if (v[FIELD_RING_PLACE] == PLACE_SHARED) {
        int64_t over = least.shared_bytes - plan->shared_limit;
        int64_t depth = plan->tile_buffers - ceil_div(over, plan->tile_bytes);
        field = FIELD_RING_DEPTH;
        snprintf(allowed, sizeof allowed, depth > 0 ? "at most %" PRId64 ", or a smaller tile" : "a smaller tile",
                 depth);
    }
    return refuse(config, field, GRS_ERR_PLAN, err, "%s; allowed: %s", need, allowed);
}

/* Rows of A and B begin at multiples of 16 bytes, and coordinates stay 32-bit with a tile to spare. */
static grs_status check_columns(const char *name, int64_t value, grs_error *err) {
    const int64_t unit = 16 / 2, most = (INT32_MAX - 512) / unit * unit;
    if (value >= unit && value <= most && value % unit == 0)
        return GRS_OK;
    int64_t nearest = value < unit ? unit : value > most ? most : (value + unit / 2) / unit * unit;
    return error_set(err, GRS_ERR_ARGUMENT,
                     "%s: %" PRId64 "; allowed: multiples of %" PRId64 " from %" PRId64 " to %" PRId64
                     " (rows are aligned to 16 bytes); nearest: %" PRId64,
                     name, value, unit, unit, most, nearest);
}

static grs_status check_shape(const struct plan_shape *s, grs_error *err) {
    grs_status status;
    if (s->m_min < 1)
        return error_set(err, GRS_ERR_ARGUMENT, "M: %" PRId64 "; allowed: at least 1", s->m_min);
    if (s->m_max < s->m_min)
        return error_set(err, GRS_ERR_ARGUMENT, "M: %" PRId64 " to %" PRId64 "; allowed: ascending", s->m_min,
                         s->m_max);
    if ((status = check_columns("N", s->n, err)) != GRS_OK || (status = check_columns("K", s->k, err)) != GRS_OK)
        return status;
    if (s->tp < 1 || s->tp > GRS_MAX_TP)
        return error_set(err, GRS_ERR_ARGUMENT, "tp: %d; allowed: 1 to %d", s->tp, GRS_MAX_TP);
    return GRS_OK;
}

grs_status plan_check_m(const struct plan *plan, int64_t M, grs_error *err) {
    int64_t most = plan_max_m(plan);
    if (M > most)
        return error_set(err, GRS_ERR_PLAN,
                         "M: %" PRId64 " rows with N = %" PRId64
                         " are more than positions and coordinates can number; allowed: up to %" PRId64,
                         M, plan->shape.n, most);
    return GRS_OK;
}

static grs_status check_count(struct plan *plan, grs_error *err) {
    int64_t most = plan_max_m(plan);
    if (most == 0)
        return error_set(err, GRS_ERR_PLAN,
                         "N: %" PRId64
                         " columns over %d segments make more than the %d tiles that positions can number",
                         plan->shape.n, plan->segments, PLAN_MAX_TILES);
    if (plan->shape.m_max > most)
        plan->shape.m_max = most;
    return plan_check_m(plan, plan->shape.m_min, err);
}

/* No rank and no CTA may wait in a circle, for any M of the class on any grid. The refusal begins with the key at fault. */
static grs_status check_waits(const struct config *config, const struct plan *plan, grs_error *err) {
    struct waitgraph_result result;
    grs_status status = waitgraph_check_class(plan, &result, err);
    if (status != GRS_ERR_PLAN || !err)
        return status;
    for (int f = 0; f < FIELD_COUNT; f++) {
        size_t length = strlen(config_fields[f].key);
        if (strncmp(result.why, config_fields[f].key, length) || result.why[length] != ':' || !config->where[f].line)
            continue;
        error_prepend(err, "%s:%d:%d", config->path, config->where[f].line, config->where[f].column);
        err->line = config->where[f].line;
        err->column = config->where[f].column;
        return status;
    }
    error_prepend(err, "%s", config->path);
    return status;
}

static void name_kernel(struct plan *plan) {
    const int64_t *v = plan->value;
    int length = snprintf(plan->name, sizeof plan->name,
                          "grs_gemm_rs_n%" PRId64 "_k%" PRId64 "_tp%d_%" PRId64 "x%" PRId64 "x%" PRId64 "_s%" PRId64,
                          plan->shape.n, plan->shape.k, plan->shape.tp, v[FIELD_TILE_M], v[FIELD_TILE_N],
                          v[FIELD_TILE_K], v[FIELD_STAGES_LOAD]);
    if (plan->shape.m_min == plan->shape.m_max)
        snprintf(plan->name + length, sizeof plan->name - (size_t)length, "_m%" PRId64, plan->shape.m_min);
}

grs_status plan_solve(const struct config *config, enum arch arch, const struct plan_shape *shape, struct plan *out,
                      grs_error *err) {
    struct plan plan = {.arch = arch, .shape = *shape, .segments = shape->tp};
    grs_status status;
    if ((status = check_shape(shape, err)) != GRS_OK || (status = check_arch(config, &plan, err)) != GRS_OK)
        return status;
    plan.shared_limit = machine_of(arch)->shared_limit;
    plan_defaults(config, &plan);

    const int64_t *v = plan.value;
    plan_assign_warps(&plan);
    plan.tile_bytes = v[FIELD_TILE_M] * round_up(v[FIELD_TILE_N], PLAN_PANEL_COLUMNS) * 2;
    plan.stage_bytes = (v[FIELD_TILE_M] + v[FIELD_TILE_N] / v[FIELD_CTA_GROUP]) * v[FIELD_TILE_K] * 2;
    plan.group_tiles = v[FIELD_GRANULARITY] == GRANULARITY_TILE    ? 1
                       : v[FIELD_GRANULARITY] == GRANULARITY_GROUP ? (int)v[FIELD_GROUP]
                                                                   : 0;
    plan.raster = 8;
    plan.max_grid = v[FIELD_SMS] ? (int)v[FIELD_SMS] : PLAN_MAX_GRID;
    map_shared(&plan, v[FIELD_STAGES_LOAD]);
    if ((status = check_built(config, &plan, err)) != GRS_OK || (status = check_shared(config, &plan, err)) != GRS_OK ||
        (status = check_count(&plan, err)) != GRS_OK || (status = check_waits(config, &plan, err)) != GRS_OK)
        return status;
    name_kernel(&plan);
    *out = plan;
    return GRS_OK;
}

void plan_add_hooks(struct plan *plan, bool count_waits, bool pace_model, bool stall_hook) {
    plan->count_waits = count_waits;
    plan->pace_model = pace_model;
    plan->stall_hook = stall_hook;
    plan_share_registers(plan);
}

void plan_canonical(const struct plan *plan, struct buf *out) {
    for (int f = 0; f < FIELD_COUNT; f++) {
        buf_printf(out, "%s: ", config_fields[f].key);
        config_value_text((enum field)f, plan->value[f], out);
        buf_puts(out, "\n");
    }
}
