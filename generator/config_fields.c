/* The field table: every key of a config but version, arch and shapes, with its bounds, its name in the generated text
 * and its help. Parser, canonical text, JSON schema, reference and help are all made from it. */
#include <string.h>

#include "generator/config.h"

#define ONLY(arch) (1 + (arch))

static const char *const sms_choices[] = {"all", NULL};
static const char *const schedule_choices[] = {"cooperative", "pingpong", NULL};
static const char *const place_choices[] = {"global", "shared", NULL};
static const char *const granularity_choices[] = {"tile", "group", "segment", NULL};
static const char *const policy_choices[] = {"ring", "per_tile", "lane_per_stage", NULL};
static const char *const flush_choices[] = {"owner_boundary", "per_tile", "never", NULL};
static const char *const order_choices[] = {"segment", "interleave", NULL};
static const char *const m_choices[] = {"dynamic", "fixed", NULL};

static const int64_t tile_m_allowed[] = {64, 128, 256, 0};
static const int64_t tile_n_allowed[] = {64, 128, 168, 192, 256, 0};
static const int64_t tile_k_allowed[] = {32, 64, 128, 0};

const struct field_info config_fields[FIELD_COUNT] = {
    [FIELD_SMS] = {.key = "sms",
                   .choices = sms_choices,
                   .min = 1,
                   .max = 1024,
                   .multiple = 1,
                   .plan_time = true,
                   .help = "SMs that a rank may use: the grid of the persistent kernel"},
    [FIELD_LINK_GBPS] = {.key = "link_gbps",
                         .min = 1,
                         .max = 100000,
                         .multiple = 1,
                         .plan_time = true,
                         .help = "bandwidth of the link in GB/s a rank: for the planner, the tempo of sends and "
                                 "estimates; never read from the device"},
    [FIELD_TILE_M] = {.key = "tile.m",
                      .constant = "block_m",
                      .allowed = tile_m_allowed,
                      .min = 64,
                      .max = 256,
                      .multiple = 64,
                      .help =
                          "rows of D that one CTA finishes (under pingpong, one warpgroup); 256 needs cta_group: 2"},
    [FIELD_TILE_N] = {.key = "tile.n",
                      .constant = "block_n",
                      .allowed = tile_n_allowed,
                      .min = 64,
                      .max = 256,
                      .multiple = 64,
                      .help = "columns of D that one CTA finishes; 168: on sm_90a"},
    [FIELD_TILE_K] = {.key = "tile.k",
                      .constant = "block_k",
                      .allowed = tile_k_allowed,
                      .min = 32,
                      .max = 128,
                      .multiple = 32,
                      .help = "depth of one stage of the A/B pipeline"},
    [FIELD_SCHEDULE] = {.key = "tile.schedule",
                        .constant = "schedule",
                        .choices = schedule_choices,
                        .only_family = ONLY(ARCH_SM90A),
                        .help = "two warpgroups share a tile (cooperative) or take tiles in turn (pingpong)"},
    [FIELD_CLUSTER] = {.key = "tile.cluster",
                       .constant = "cluster",
                       .min = 1,
                       .max = 2,
                       .multiple = 1,
                       .help = "CTAs that share loads by multicast"},
    [FIELD_CTA_GROUP] = {.key = "tile.cta_group",
                         .constant = "cta_group",
                         .min = 1,
                         .max = 2,
                         .multiple = 1,
                         .only_family = ONLY(ARCH_SM100A),
                         .help = "CTAs that make one tile together"},
    [FIELD_STAGES_LOAD] = {.key = "stages.load",
                           .constant = "stages",
                           .min = 2,
                           .max = 12,
                           .multiple = 1,
                           .help = "stages of the A/B pipeline in shared memory"},
    [FIELD_STAGES_ACCUM] = {.key = "stages.accum",
                            .constant = "accum_stages",
                            .min = 1,
                            .max = 4,
                            .multiple = 1,
                            .only_family = ONLY(ARCH_SM100A),
                            .help = "accumulators in tensor memory"},
    [FIELD_RING_DEPTH] = {.key = "ring.depth",
                          .constant = "ring_depth",
                          .min = 1,
                          .max = 8,
                          .multiple = 1,
                          .help = "partial tiles of a CTA between made and sent"},
    [FIELD_RING_PLACE] = {.key = "ring.place",
                          .constant = "ring_place",
                          .choices = place_choices,
                          .help = "where partials wait to be sent: an outbox in global memory, or shared memory"},
    [FIELD_CHUNK_BYTES] = {.key = "ring.chunk.bytes",
                           .constant = "chunk_bytes",
                           .min = 1024,
                           .max = 65536,
                           .multiple = 1024,
                           .help = "bytes that the sender pushes at a time (place: global)"},
    [FIELD_CHUNK_COUNT] = {.key = "ring.chunk.count",
                           .constant = "chunk_count",
                           .min = 1,
                           .max = 16,
                           .multiple = 1,
                           .help = "chunks that are under way at the same time (place: global)"},
    [FIELD_GRANULARITY] = {.key = "signal.granularity",
                           .constant = "granularity",
                           .choices = granularity_choices,
                           .help = "what one bit of the mask covers"},
    [FIELD_GROUP] = {.key = "signal.granularity.group",
                     .constant = "group",
                     .min = 1,
                     .max = 64,
                     .multiple = 1,
                     .help = "consecutive tiles of one segment that share a bit, in raster order"},
    [FIELD_DRAIN_POLICY] = {.key = "drain.policy",
                            .constant = "drain_policy",
                            .choices = policy_choices,
                            .help = "who waits for a store to land before its bit is set, and when"},
    [FIELD_DRAIN_FLUSH] = {.key = "drain.flush",
                           .constant = "drain_flush",
                           .choices = flush_choices,
                           .help = "when everything in flight is drained"},
    [FIELD_ORDER] = {.key = "order",
                     .constant = "order",
                     .choices = order_choices,
                     .help = "order of tiles: segment after segment, or segments interleaved with a lag"},
    [FIELD_LAG] = {.key = "order.interleave",
                   .constant = "lag",
                   .min = 1,
                   .max = 64,
                   .multiple = 1,
                   .help = "waves by which each segment trails the one before"},
    [FIELD_M_MODE] = {.key = "m",
                      .choices = m_choices,
                      .plan_time = true,
                      .help = "kernels for size classes of M (dynamic), or for the listed Ms only (fixed)"},
};

const struct field_info config_shape_fields[SHAPE_FIELD_COUNT] = {
    [SHAPE_M] = {.key = "m", .min = 1, .max = INT32_MAX, .multiple = 1, .help = "rows of A, the same on all ranks"},
    [SHAPE_N] = {.key = "n", .min = 8, .max = INT32_MAX - 7, .multiple = 8, .help = "columns of D"},
    [SHAPE_K] = {.key = "k", .min = 8, .max = INT32_MAX - 7, .multiple = 8, .help = "columns of A and B on one rank"},
    [SHAPE_TP] = {.key = "tp", .min = 1, .max = GRS_MAX_TP, .multiple = 1, .help = "ranks of the group"},
};

bool config_shape_field_is_list(enum shape_field field) {
    return field == SHAPE_M || field == SHAPE_TP;
}

bool config_choice_field(enum field field, int64_t choice, enum field *number) {
    size_t length = strlen(config_fields[field].key);
    for (int f = 0; f < FIELD_COUNT; f++) {
        const char *key = config_fields[f].key;
        if (!strncmp(key, config_fields[field].key, length) && key[length] == '.' && config_fields[field].choices &&
            !strcmp(key + length + 1, config_fields[field].choices[choice])) {
            *number = (enum field)f;
            return true;
        }
    }
    return false;
}

bool config_choice_owner(enum field number, enum field *owner) {
    const char *key = config_fields[number].key;
    for (int f = 0; f < FIELD_COUNT; f++) {
        size_t length = strlen(config_fields[f].key);
        if (!strncmp(key, config_fields[f].key, length) && key[length] == '.') {
            *owner = (enum field)f;
            return true;
        }
    }
    return false;
}

/* Choices come first: `all` of sms is 0, which no number allowed there can be. */
void config_value_text(enum field field, int64_t value, struct buf *out) {
    const struct field_info *info = &config_fields[field];
    for (int64_t i = 0; info->choices && info->choices[i]; i++)
        if (i == value) {
            buf_puts(out, info->choices[i]);
            return;
        }
    buf_printf(out, "%lld", (long long)value);
}

static void range_text(const struct field_info *info, struct buf *out) {
    if (info->allowed) {
        for (int i = 0; info->allowed[i]; i++)
            buf_printf(out, "%s%lld", i == 0 ? "" : info->allowed[i + 1] ? ", " : " or ", (long long)info->allowed[i]);
    } else if (info->max - info->min == info->multiple) {
        buf_printf(out, "%lld or %lld", (long long)info->min, (long long)info->max);
    } else if (info->max == info->min) {
        buf_printf(out, "%lld", (long long)info->min);
    } else {
        buf_printf(out, "%lld to %lld", (long long)info->min, (long long)info->max);
        if (info->multiple > 1)
            buf_printf(out, " in steps of %lld", (long long)info->multiple);
    }
}

void config_allowed_text(const struct field_info *info, struct buf *out) {
    if (!info->choices) {
        range_text(info, out);
        return;
    }
    bool table = info >= config_fields && info < config_fields + FIELD_COUNT;
    for (int i = 0; info->choices[i]; i++) {
        enum field number;
        bool last = !info->choices[i + 1] && !info->max;
        buf_puts(out, i == 0 ? "" : last ? " or " : ", ");
        if (table && config_choice_field((enum field)(info - config_fields), i, &number)) {
            buf_printf(out, "{%s: ", info->choices[i]);
            range_text(&config_fields[number], out);
            buf_puts(out, "}");
        } else {
            buf_puts(out, info->choices[i]);
        }
    }
    if (info->max) {
        buf_puts(out, " or ");
        range_text(info, out);
    }
}

static const struct {
    const char *name;
    enum arch family;
} archs[ARCH_COUNT] = {
    [ARCH_SM90A] = {"sm_90a", ARCH_SM90A},
    [ARCH_SM100A] = {"sm_100a", ARCH_SM100A},
    [ARCH_SM100F] = {"sm_100f", ARCH_SM100A},
    [ARCH_SM103A] = {"sm_103a", ARCH_SM100A},
};

const char *config_arch_name(enum arch arch) {
    return archs[arch].name;
}

bool config_arch_parse(const char *text, enum arch *out) {
    for (int a = 0; a < ARCH_COUNT; a++)
        if (!strcmp(text, archs[a].name)) {
            *out = (enum arch)a;
            return true;
        }
    return false;
}

enum arch config_arch_family(enum arch arch) {
    return archs[arch].family;
}

bool config_arch_knows(enum arch arch, enum field field) {
    int only = config_fields[field].only_family;
    return !only || only == 1 + (int)archs[arch].family;
}

void config_archs_text(enum arch family, struct buf *out) {
    const char *comma = "";
    for (int a = 0; a < ARCH_COUNT; a++)
        if (family == ARCH_COUNT || archs[a].family == family) {
            buf_printf(out, "%s%s", comma, archs[a].name);
            comma = ", ";
        }
}

bool config_lists_family(const struct config *config, enum arch family) {
    for (int a = 0; a < ARCH_COUNT; a++)
        if (config->arch[a] && archs[a].family == family)
            return true;
    return false;
}
