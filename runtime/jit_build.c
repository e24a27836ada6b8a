/* One kernel: plan, text, key, and then the cache, which asks the compiler when it has nothing. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/plan_explain.h"
#include "runtime/context.h"
#include "runtime/jit.h"
#include "runtime/kernel.h"
#include "runtime/nvtx.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char version_text[] = TEXT(GRS_VERSION_MAJOR) "." TEXT(GRS_VERSION_MINOR) "." TEXT(GRS_VERSION_PATCH);

/* ---------------------------------------------------------------- one kernel ------------------------------------ */

struct build {
    grs_ctx *ctx;
    const struct plan *plan;
    const struct buf *entry_text;
    const char *key;                       /* of the entry, hexadecimal */
    const struct nvrtc_location *compiler; /* NULL: none installed */
};

static char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *format_text(const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0) {
        text = NULL;
    }
    va_end(list);
    return text;
}

static void fill_meta(const struct plan *plan, const struct nvrtc_result *result, struct kernel_meta *meta) {
    *meta = (struct kernel_meta){
        .registers = result->report.registers,
        .spill_bytes = result->report.spill_store_bytes + result->report.spill_load_bytes,
        .stack_bytes = result->report.stack_bytes,
        .static_shared_bytes = result->report.static_shared_bytes,
        .threads = plan->threads,
        .shared_bytes = (int)plan->shared_bytes,
        .max_grid = plan->max_grid,
        .compile_ms = (int)(result->seconds * 1e3),
    };
}

/* cache_get's maker: the compiler is opened here and nowhere else. What it puts into the entry belongs to the cache,
 * whatever is returned. */
static grs_status compile(void *arg, struct cache_entry *entry, grs_error *err) {
    const struct build *build = arg;
    const struct plan *plan = build->plan;
    const struct nvrtc *nvrtc = NULL;
    struct nvrtc_result result = {0};
    struct kernel_meta meta;
    struct buf standalone = {0}, ptx = {0}, shape = {0}, config = {0}, meta_text = {0};
    char file[160];
    grs_status status = GRS_OK;

    if (build->compiler == NULL) {
        *err = build->ctx->compiler_error;
        return error_prepend(err, "%s is not in the cache and cannot be compiled", plan->name);
    }
    status = nvrtc_open(build->compiler, &nvrtc, err);
    if (status != GRS_OK) {
        return status;
    }
    snprintf(file, sizeof(file), "%s.cu", plan->name);
    bool shown = nvtx_active();
    if (shown) {
        nvtx_push("compile %s for %s", plan->name, config_arch_name(plan->arch));
    }
    status = nvrtc_compile(nvrtc, plan->arch, file, build->entry_text->data, emit_headers, plan->name, &result, err);
    if (shown) {
        nvtx_pop();
    }
    if (status != GRS_OK) {
        return status;
    }
    status = emit_standalone(plan, build->key, &standalone, err);
    if (status != GRS_OK) {
        goto done;
    }
    entry->compiler = format_text("NVRTC %d.%d", nvrtc_version(nvrtc) / 1000, nvrtc_version(nvrtc) % 1000 / 10);
    emit_comment(plan, build->key, entry->compiler, &ptx);
    buf_append(&ptx, result.ptx, result.ptx_size);
    entry->ptx_size = ptx.length;
    fill_meta(plan, &result, &meta);
    kernel_meta_write(&meta, &meta_text);
    kernel_shape_text(plan, &shape);
    plan_canonical(plan, &config);
    entry->meta_size = meta_text.length;
    entry->source_size = standalone.length;
    entry->name = strdup(plan->name);
    entry->arch = strdup(config_arch_name(plan->arch));
    entry->shape = buf_take(&shape);
    entry->config = buf_take(&config);
    entry->meta = buf_take(&meta_text);
    entry->source = buf_take(&standalone);
    entry->cubin = result.cubin;
    entry->cubin_size = result.cubin_size;
    entry->ptx = buf_take(&ptx);
    entry->log = result.log;
    entry->log_size = result.log_size;
    result.cubin = NULL;
    result.log = NULL;
    if (entry->name == NULL || entry->arch == NULL || entry->compiler == NULL || entry->shape == NULL ||
        entry->config == NULL || entry->meta == NULL || entry->source == NULL || entry->ptx == NULL) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory for the entry of %s", plan->name);
        goto done;
    }
    log_write(&build->ctx->log, GRS_LOG_INFO, "%s: compiled by %s in %d ms: %d registers, %d bytes spilled", plan->name,
              entry->compiler, meta.compile_ms, meta.registers, meta.spill_bytes);
    if (meta.spill_bytes > 0) {
        log_write(&build->ctx->log, GRS_LOG_WARN, "%s spills %d bytes of registers and will be slow: smaller tile.n",
                  plan->name, meta.spill_bytes);
    }
done:
    nvrtc_result_free(&result);
    buf_free(&standalone);
    buf_free(&ptx);
    buf_free(&shape);
    buf_free(&config);
    buf_free(&meta_text);
    return status;
}

/* Everything that the key is made of; the buffers are the caller's to free, also on failure. */
struct key_parts {
    struct plan plan;
    struct buf entry_text, options;
    char digest[65];
    struct cache_key key;
};

static grs_status make_key(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                           const struct kernel_hooks *hooks, struct key_parts *parts, grs_error *err) {
    grs_status status = plan_solve(config, arch, shape, &parts->plan, err);
    if (status != GRS_OK) {
        return status;
    }
    plan_add_hooks(&parts->plan, hooks->count_waits, hooks->pace_model, hooks->stall);
    status = emit_entry(&parts->plan, &parts->entry_text, err);
    if (status != GRS_OK) {
        return status;
    }
    emit_digest(&parts->plan, &parts->entry_text, parts->digest);
    nvrtc_options(arch, &parts->options);
    if (parts->options.failed) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the key of %s", parts->plan.name);
    }
    const struct nvrtc_location *compiler = context_compiler(ctx);
    parts->key = (struct cache_key){
        .grs_version = version_text,
        .text_digest = parts->digest,
        .compiler_id = compiler == NULL ? NULL : compiler->build_id,
        .options = parts->options.data,
        .arch = config_arch_name(arch),
    };
    return GRS_OK;
}

static void free_key(struct key_parts *parts) {
    buf_free(&parts->entry_text);
    buf_free(&parts->options);
}

static const char *source_text(grs_source source) {
    return source == GRS_FROM_DISK ? "from the cache on disk"
                                   : (source == GRS_FROM_COMPILER ? "compiled" : "from memory");
}

/* What was chosen, and why: a line a value. */
static void log_plan(const struct log *log, const struct plan *plan) {
    if (log->level < GRS_LOG_DEBUG) {
        return;
    }
    for (int f = 0; f < FIELD_COUNT; f++) {
        struct buf value = {0};
        if (explain_matters(plan, (enum field)f)) {
            config_value_text((enum field)f, plan->value[f], &value);
            log_write(log, GRS_LOG_DEBUG, "%s: %s %s: %s", plan->name, config_fields[f].key,
                      value.failed ? "" : value.data, plan->reason[f] == NULL ? "the config says so" : plan->reason[f]);
        }
        buf_free(&value);
    }
}

grs_status jit_build_hooked(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                            const struct kernel_hooks *hooks, struct grs_kernel **out, grs_error *err) {
    struct key_parts parts = {0};
    struct cache_entry *entry = NULL;
    grs_source source = GRS_FROM_MEMORY;
    grs_error own;
    grs_status status;
    *out = NULL;
    err = err == NULL ? &own : err; /* the maker copies into it */
    status = make_key(ctx, config, arch, shape, hooks, &parts, err);
    if (status == GRS_OK) {
        char key[HASH_HEX_LENGTH + 1];
        log_plan(&ctx->log, &parts.plan);
        cache_key_digest(&parts.key, key);
        struct build build = {ctx, &parts.plan, &parts.entry_text, key, context_compiler(ctx)};
        bool shown = nvtx_active();
        if (shown) {
            nvtx_push("get %s", parts.plan.name);
        }
        status = cache_get(ctx->cache, &parts.key, compile, &build, &entry, &source, err);
        if (shown) {
            nvtx_pop();
        }
    }
    if (status == GRS_OK) {
        status = kernel_create(ctx, &parts.plan, entry, source, out, err);
    }
    if (status == GRS_OK) {
        log_write(&ctx->log, GRS_LOG_DEBUG, "%s for M %" PRId64 " to %" PRId64 ": %s, key %s", parts.plan.name,
                  parts.plan.shape.m_min, parts.plan.shape.m_max, source_text(source), (*out)->key);
    }
    free_key(&parts);
    return status;
}

grs_status jit_build(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                     struct grs_kernel **out, grs_error *err) {
    return jit_build_hooked(ctx, config, arch, shape, &ctx->hooks, out, err);
}

grs_status jit_probe(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                     bool *cached, struct plan *plan, char key[65], grs_error *err) {
    struct key_parts parts = {0};
    grs_status status = make_key(ctx, config, arch, shape, &ctx->hooks, &parts, err);
    *cached = false;
    if (status == GRS_OK) {
        *cached = cache_probe(ctx->cache, &parts.key);
        if (plan != NULL) {
            *plan = parts.plan;
        }
        if (key != NULL) {
            cache_key_digest(&parts.key, key);
        }
    }
    free_key(&parts);
    return status;
}

/* ---------------------------------------------------------------- classes --------------------------------------- */

grs_status jit_class(const struct config *config, enum arch arch, int64_t M, int64_t n, int64_t k, int tp,
                     struct plan_shape *out, grs_error *err) {
    struct plan_shape exact = {.m_min = M, .m_max = M, .n = n, .k = k, .tp = tp};
    struct plan plan;
    struct classes classes;
    grs_status status = plan_solve(config, arch, &exact, &plan, err); /* refuses every shape out of range */
    if (status != GRS_OK) {
        return status;
    }
    if (config->value[FIELD_M_MODE] == M_FIXED && config->is_set[FIELD_M_MODE]) {
        for (size_t i = 0; i < config->shape_count; i++) {
            const struct config_shape *shape = &config->shapes[i];
            if (shape->m == M && shape->n == n && shape->k == k && shape->tp == tp) {
                *out = exact;
                return GRS_OK;
            }
        }
        return error_set(err, GRS_ERR_CONFIG,
                         "%s: m: fixed, and its shapes do not list M %" PRId64 ", N %" PRId64 ", K %" PRId64
                         ", tp %d; add the shape or say m: dynamic",
                         config->path, M, n, k, tp);
    }
    classes_make(config, arch, n, k, tp, &classes);
    const struct plan_shape *found = classes_find(&classes, M);
    if (found == NULL) {
        return error_set(err, GRS_ERR_PLAN, "no class of kernels serves M %" PRId64, M);
    }
    *out = *found;
    return GRS_OK;
}
