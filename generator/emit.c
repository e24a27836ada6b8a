#include "generator/emit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"

static const char *const entry_header[ARCH_COUNT] = {
    [ARCH_SM90A] = "grs/gemm_rs_sm90.cuh",
    [ARCH_SM100A] = "grs/gemm_rs_sm100.cuh",
};

static void constant(struct buf *out, const char *name, int64_t value, const char *note) {
    buf_printf(out, "    static constexpr int %s = %" PRId64 ";", name, value);
    if (note)
        buf_printf(out, " // %s", note);
    buf_puts(out, "\n");
}

static void flag(struct buf *out, const char *name, bool value, const char *note) {
    buf_printf(out, "    static constexpr bool %s = %s; // %s\n", name, value ? "true" : "false", note);
}

/* Numbers of the config that the template reads, by the field table. Choices are emitted as what follows from them. */
static void emit_fields(const struct plan *plan, struct buf *out) {
    for (int f = 0; f < FIELD_COUNT; f++) {
        const struct field_info *info = &config_fields[f];
        if (!info->constant || info->choices || !config_arch_knows(plan->arch, (enum field)f))
            continue;
        constant(out, info->constant, plan->value[f], info->key);
    }
}

/* enum Drain of templates/ring.cuh. */
static const char *drain_name(const struct plan *plan) {
    int64_t policy = plan->value[FIELD_DRAIN_POLICY], flush = plan->value[FIELD_DRAIN_FLUSH];
    if (policy == DRAIN_PER_TILE || flush == FLUSH_PER_TILE)
        return "DRAIN_PER_TILE";
    return policy == DRAIN_RING && flush == FLUSH_NEVER ? "DRAIN_FULL" : "DRAIN_IDLE";
}

/* Measured on H200 (bench/NOTES.md): with 128 x 256 tiles and 16 k-blocks a tile, pauses of 300 ns after 8 KiB let the loads
 * of A and B through and still finish a tile's load and store within the next tile's products; fewer blocks leave
 * less time. */
#define PIECE_BYTES   8192
#define PAUSE_A_BLOCK 20
#define LONGEST_PAUSE 300

static int64_t piece_pause(const struct plan *plan) {
    int64_t blocks = (plan->shape.k + plan->value[FIELD_TILE_K] - 1) / plan->value[FIELD_TILE_K];
    int64_t pause = blocks * PAUSE_A_BLOCK;
    return pause > LONGEST_PAUSE ? LONGEST_PAUSE : pause;
}

static void emit_derived(const struct plan *plan, struct buf *out) {
    const int64_t *v = plan->value;
    bool pingpong = v[FIELD_SCHEDULE] == SCHEDULE_PINGPONG;
    constant(out, "group_tiles", plan->group_tiles, "signal.granularity: tiles a bit, 0 for a whole segment");
    flag(out, "interleave", v[FIELD_ORDER] == ORDER_INTERLEAVE, "order");
    buf_printf(out, "    static constexpr grs::Drain drain = grs::%s; // drain\n", drain_name(plan));
    flag(out, "place_shared", v[FIELD_RING_PLACE] == PLACE_SHARED, "ring.place");
    constant(out, "tile_buffers", plan->tile_buffers, NULL);
    constant(out, "outbox_depth", plan->outbox_depth, NULL);
    constant(out, "piece_bytes", PIECE_BYTES, "of a tile that the copy engine moves at a time");
    constant(out, "piece_pause", piece_pause(plan), "nanoseconds after each piece");
    constant(out, "ship_lanes", plan->ship_lanes, "threads that send");
    constant(out, "raster", plan->raster, "tiles of M in one raster panel");
    constant(out, "k_blocks", (plan->shape.k + v[FIELD_TILE_K] - 1) / v[FIELD_TILE_K], NULL);
    constant(out, "threads", plan->threads, NULL);
    constant(out, "math_warps", plan->consumer_warpgroups * 4, NULL);
    constant(out, "tile_writers", plan->consumer_warpgroups * 4 / (pingpong ? 2 : 1), "warps that finish one tile");
    if (plan->tensor_columns) {
        constant(out, "stage_readers", v[FIELD_CLUSTER] / v[FIELD_CTA_GROUP],
                 "arrivals that free a stage: the issuers'");
        constant(out, "tensor_columns", plan->tensor_columns, "that hold the accumulators: a power of two");
    } else {
        constant(out, "stage_readers", plan->consumer_warpgroups * 4 / (pingpong ? 2 : 1) * v[FIELD_CLUSTER],
                 "arrivals that free a stage");
        flag(out, "pingpong", pingpong, "tile.schedule");
        constant(out, "accum_stages", 0, "accumulators lie in registers");
        constant(out, "cta_group", 1, NULL);
        constant(out, "registers_producer", plan->registers_producer, NULL);
        constant(out, "registers_consumer", plan->registers_consumer, NULL);
    }
    flag(out, "halve_first", plan_halves_first(plan), "the first tile of a CTA in two halves");
    constant(out, "shared_bytes", plan->shared_bytes, "the planner's map; the template asserts that it agrees");
    flag(out, "count_waits", plan->count_waits, "cycles that each role waits, into args.counters");
    flag(out, "pace_model", plan->pace_model, "a model of the link between ranks that share a GPU");
    flag(out, "stall_hook", plan->stall_hook, "test hook: args.stall makes a sender stand still");
}

grs_status emit_entry(const struct plan *plan, struct buf *out, grs_error *err) {
    buf_printf(out, "#include \"%s\"\n\nstruct Config {\n", entry_header[config_arch_family(plan->arch)]);
    constant(out, "n", plan->shape.n, "columns of D");
    constant(out, "k", plan->shape.k, "columns of A and B on one rank");
    constant(out, "ring", plan->shape.tp, "ranks");
    constant(out, "segments", plan->segments, "owner segments of the rows of A");
    emit_fields(plan, out);
    emit_derived(plan, out);
    buf_puts(out, "};\n\nGRS_KERNEL(Config::threads) ");
    if (plan->value[FIELD_CLUSTER] > 1)
        buf_puts(out, "GRS_CLUSTER(Config::cluster) ");
    buf_printf(out, "%s(GRS_PARAMETER grs_args args) {\n    grs::gemm_rs<Config>(args);\n}\n", plan->name);
    return out->failed ? error_set(err, GRS_ERR_MEMORY, "emit: out of memory") : GRS_OK;
}

/* ---------------------------------------------------------------- one file */

#define MAX_HEADERS 64

struct inliner {
    struct buf *out;
    bool seen[MAX_HEADERS]; /* by index into emit_headers */
};

static const char *include_name(const char *line, const char *end, size_t *length) {
    static const char lead[] = "#include \"grs/";
    if ((size_t)(end - line) < sizeof lead || memcmp(line, lead, sizeof lead - 1))
        return NULL;
    const char *name = line + strlen("#include \""), *quote = memchr(name, '"', (size_t)(end - name));
    if (!quote)
        return NULL;
    *length = (size_t)(quote - name);
    return name;
}

static void inline_text(struct inliner *in, const char *text, size_t length);

/* False: no such template. */
static bool inline_header(struct inliner *in, const char *name, size_t length) {
    for (int i = 0; i < MAX_HEADERS && emit_headers[i].name; i++) {
        if (strlen(emit_headers[i].name) != length || memcmp(emit_headers[i].name, name, length))
            continue;
        if (!in->seen[i]) {
            in->seen[i] = true;
            buf_printf(in->out, "// ---- %s\n", emit_headers[i].name);
            inline_text(in, emit_headers[i].text, strlen(emit_headers[i].text));
        }
        return true;
    }
    return false;
}

static void inline_text(struct inliner *in, const char *text, size_t length) {
    for (const char *line = text, *stop = text + length, *end; line < stop; line = end) {
        end = memchr(line, '\n', (size_t)(stop - line));
        end = end ? end + 1 : stop;
        size_t name_length;
        const char *name = include_name(line, end, &name_length);
        if (name && inline_header(in, name, name_length))
            continue;
        if ((size_t)(end - line) < 12 || memcmp(line, "#pragma once", 12))
            buf_append(in->out, line, (size_t)(end - line));
    }
}

/* Says nothing that is not in the entry's text too: plans that differ only in what they were made for share a kernel. */
void emit_comment(const struct plan *plan, const char *key, const char *compiler, struct buf *out) {
    const struct plan_shape *s = &plan->shape;
    buf_printf(out, "// %s for %s, made by grs %d.%d.%d\n", plan->name, config_arch_name(plan->arch), GRS_VERSION_MAJOR,
               GRS_VERSION_MINOR, GRS_VERSION_PATCH);
    if (compiler)
        buf_printf(out, "// compiled by %s\n", compiler);
    if (key)
        buf_printf(out, "// key %s\n", key);
    buf_printf(out,
               "// A [M, %" PRId64 "] x B [%" PRId64 ", %" PRId64
               "]^T in BF16, reduce-scattered over %d ranks; launch argument: grs_args\n"
               "//\n// config\n",
               s->k, s->n, s->k, s->tp);
    for (int f = 0; f < FIELD_COUNT; f++) {
        const struct field_info *info = &config_fields[f];
        if (info->plan_time || !config_arch_knows(plan->arch, (enum field)f))
            continue;
        buf_printf(out, "//   %s: ", info->key);
        config_value_text((enum field)f, plan->value[f], out);
        buf_puts(out, "\n");
    }
    buf_printf(out, "// plan\n//   %d threads a CTA, %d of them math; %d registers each at the launch", plan->threads,
               128 * plan->consumer_warpgroups, plan->registers_launch);
    if (plan->registers_producer != plan->registers_consumer)
        buf_printf(out, ", then %d for the roles and %d for math", plan->registers_producer, plan->registers_consumer);
    if (plan->tensor_columns)
        buf_printf(out, "; %d columns of tensor memory", plan->tensor_columns);
    buf_printf(out, "\n//   %" PRId64 " bytes of dynamic shared memory a CTA:\n", plan->shared_bytes);
    for (int i = 0; i < plan->region_count; i++)
        buf_printf(out, "//     %6" PRId64 " + %6" PRId64 "  %s\n", plan->region[i].offset, plan->region[i].bytes,
                   plan->region[i].name);
    buf_puts(out, "\n");
}

grs_status emit_standalone(const struct plan *plan, const char *key, struct buf *out, grs_error *err) {
    struct buf entry = {0};
    grs_status status = emit_entry(plan, &entry, err);
    if (status == GRS_OK) {
        struct inliner in = {.out = out};
        const char *arch = config_arch_name(plan->arch) + strlen("sm_");
        emit_comment(plan, key, NULL, out);
        buf_printf(out, "// compile: nvcc -std=c++17 -gencode arch=compute_%s,code=sm_%s -cubin\n\n", arch, arch);
        inline_text(&in, entry.data, entry.length);
        if (out->failed)
            status = error_set(err, GRS_ERR_MEMORY, "emit: out of memory");
    }
    buf_free(&entry);
    return status;
}

/* A chain of fixed-length digests: needs no memory, so it cannot fail, and no text can pass for the end of another. */
static void chain(uint8_t digest[32], const void *data, size_t length) {
    uint8_t both[64];
    memcpy(both, digest, 32);
    hash_sha256(data, length, both + 32);
    hash_sha256(both, sizeof both, digest);
}

void emit_digest(const struct plan *plan, const struct buf *entry, char hex[65]) {
    uint8_t digest[32] = {0};
    chain(digest, entry->data, entry->length);
    for (int i = 0; emit_headers[i].name; i++) {
        chain(digest, emit_headers[i].name, strlen(emit_headers[i].name));
        chain(digest, emit_headers[i].text, strlen(emit_headers[i].text));
    }
    hash_sha256_hex(digest, sizeof digest, hex);
    (void)plan;
}
