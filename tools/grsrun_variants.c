#include "tools/grsrun_variants.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/error.h"
#include "generator/classes.h"

#define OLDER_DEPTH 2 /* tiles in shared memory, between load and send */

const struct variant_info variants_info[VARIANT_COUNT] = {
    [VARIANT_OLDER] = {"older", "older: segment flags, two tiles in shared memory, drained per tile"},
    [VARIANT_FLAGS] = {"flags", "older, with a flag a tile"},
    [VARIANT_RING] = {"ring", "older, with the ring in global memory"},
    [VARIANT_DRAIN] = {"drain", "older, with the drain that never sleeps on a store"},
    [VARIANT_LANES] = {"lanes", "older, with a sending warp a stage"},
    [VARIANT_ALL] = {"all", "all three: flag a tile, ring in global memory, that drain"},
    [VARIANT_LESS_FLAGS] = {"less_flags", "all three, less the flag a tile"},
    [VARIANT_LESS_RING] = {"less_ring", "all three, less the ring in global memory"},
    [VARIANT_LESS_DRAIN] = {"less_drain", "all three, less that drain"},
    [VARIANT_ALL_LANES] = {"all_lanes", "all three, with a sending warp a chunk"},
    [VARIANT_ORDER] = {"order", "all three, and segments interleaved"},
    [VARIANT_DEFAULT] = {"default", "our default, on its own tile"},
};

/* What a variant has of the older kernel. What is not older comes from the config, or else from the planner. */
static const struct recipe {
    bool older_flags, older_ring, segment_order;
    enum { DRAIN_OURS, DRAIN_OLDER, DRAIN_LANES } drain;
} recipes[VARIANT_COUNT] = {
    [VARIANT_OLDER] = {true, true, true, DRAIN_OLDER},        [VARIANT_FLAGS] = {false, true, true, DRAIN_OLDER},
    [VARIANT_RING] = {true, false, true, DRAIN_OLDER},        [VARIANT_DRAIN] = {true, true, true, DRAIN_OURS},
    [VARIANT_LANES] = {true, true, true, DRAIN_LANES},        [VARIANT_ALL] = {false, false, true, DRAIN_OURS},
    [VARIANT_LESS_FLAGS] = {true, false, true, DRAIN_OURS},   [VARIANT_LESS_RING] = {false, true, true, DRAIN_OURS},
    [VARIANT_LESS_DRAIN] = {false, false, true, DRAIN_OLDER}, [VARIANT_ALL_LANES] = {false, false, true, DRAIN_LANES},
};

static void set(struct config *config, enum field field, int64_t value) {
    config->value[field] = value;
    config->is_set[field] = true;
    config->where[field] = (struct position){0, 0};
}

void variants_config(const struct variants_base *base, enum variant variant, struct config *out) {
    const struct recipe *recipe = &recipes[variant];
    *out = *base->config;
    if (variant == VARIANT_DEFAULT) {
        return;
    }
    set(out, FIELD_TILE_N, base->tile_n);
    set(out, FIELD_STAGES_LOAD, base->stages);
    if (recipe->older_flags) {
        set(out, FIELD_GRANULARITY, GRANULARITY_SEGMENT);
    }
    if (recipe->older_ring) {
        set(out, FIELD_RING_PLACE, PLACE_SHARED);
        set(out, FIELD_RING_DEPTH, OLDER_DEPTH);
        out->is_set[FIELD_CHUNK_BYTES] = out->is_set[FIELD_CHUNK_COUNT] = false; /* there are none */
    }
    if (recipe->drain != DRAIN_OURS) {
        set(out, FIELD_DRAIN_POLICY, recipe->drain == DRAIN_OLDER ? DRAIN_PER_TILE : DRAIN_LANE_PER_STAGE);
        out->is_set[FIELD_DRAIN_FLUSH] = false; /* belongs to the drain that it replaces */
    }
    if (recipe->segment_order) {
        set(out, FIELD_ORDER, ORDER_SEGMENT);
    }
}

/* The plan of a variant when the planner chooses the stages. */
static grs_status try_tile(const struct config *config, enum arch arch, const struct grsrun_shape *shape,
                           enum variant variant, int64_t tile_n, struct plan *plan, grs_error *err) {
    struct variants_base base = {.config = config, .tile_n = tile_n};
    struct plan_shape any = {.m_min = 1, .m_max = INT32_MAX, .n = shape->n, .k = shape->k, .tp = shape->tp};
    struct config made;
    variants_config(&base, variant, &made);
    made.is_set[FIELD_STAGES_LOAD] = config->is_set[FIELD_STAGES_LOAD];
    made.value[FIELD_STAGES_LOAD] = config->value[FIELD_STAGES_LOAD];
    return plan_solve(&made, arch, &any, plan, err);
}

grs_status variants_base(const struct config *config, enum arch arch, const struct grsrun_shape *shape,
                         struct variants_base *out, grs_error *err) {
    const struct field_info *width = &config_fields[FIELD_TILE_N];
    bool fixed = config->is_set[FIELD_TILE_N];
    int64_t widest = fixed ? config->value[FIELD_TILE_N] : width->max, least = fixed ? widest : width->min;
    struct plan older, ours;
    *out = (struct variants_base){.config = config};
    grs_error why;
    for (int64_t tile_n = widest; tile_n >= least; tile_n -= width->multiple) {
        grs_status status = try_tile(config, arch, shape, VARIANT_OLDER, tile_n, &older, &why);
        status = status ? status : try_tile(config, arch, shape, VARIANT_ALL, tile_n, &ours, &why);
        if (status) {
            continue;
        }
        int64_t theirs = older.value[FIELD_STAGES_LOAD], stages = ours.value[FIELD_STAGES_LOAD];
        out->tile_n = tile_n;
        out->stages = theirs < stages ? theirs : stages;
        if (theirs >= stages) {
            break;
        }
    }
    return out->tile_n
               ? GRS_OK
               : error_set(err, GRS_ERR_PLAN, "no tile holds the older kernel's ring in shared memory: %s", why.text);
}

void variants_describe(const struct plan *plan, struct variants_policies *out) {
    const int64_t *v = plan->value;
    static const char *const drains[] = {
        [DRAIN_RING] = "ring", [DRAIN_PER_TILE] = "per_tile", [DRAIN_LANE_PER_STAGE] = "lane_per_stage"};
    snprintf(out->tile, sizeof(out->tile), "%" PRId64 "x%" PRId64 "x%" PRId64, v[FIELD_TILE_M], v[FIELD_TILE_N],
             v[FIELD_TILE_K]);
    out->stages = (int)v[FIELD_STAGES_LOAD];
    if (v[FIELD_GRANULARITY] == GRANULARITY_GROUP) {
        snprintf(out->granularity, sizeof(out->granularity), "group %" PRId64, v[FIELD_GROUP]);
    } else {
        snprintf(out->granularity, sizeof(out->granularity), "%s",
                 v[FIELD_GRANULARITY] == GRANULARITY_TILE ? "tile" : "segment");
    }
    snprintf(out->ring, sizeof(out->ring), "%s %" PRId64, v[FIELD_RING_PLACE] == PLACE_SHARED ? "shared" : "global",
             v[FIELD_RING_DEPTH]);
    snprintf(out->drain, sizeof(out->drain), "%s", drains[v[FIELD_DRAIN_POLICY]]);
    if (v[FIELD_ORDER] == ORDER_INTERLEAVE) {
        snprintf(out->order, sizeof(out->order), "interleave %" PRId64, v[FIELD_LAG]);
    } else {
        snprintf(out->order, sizeof(out->order), "segment");
    }
}
