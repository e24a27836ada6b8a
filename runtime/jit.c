#include "runtime/jit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/context.h"
#include "runtime/kernel.h"

#define FIRST_TABLE 64 /* shapes before the first growth: twice that many slots */

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char version_text[] = TEXT(GRS_VERSION_MAJOR) "." TEXT(GRS_VERSION_MINOR) "." TEXT(GRS_VERSION_PATCH);

/* ---------------------------------------------------------------- table ----------------------------------------- */

static size_t hash_of(int64_t m, int64_t n, int64_t k, int tp) {
    uint64_t h = (uint64_t)n * 0x9E3779B97F4A7C15u ^ (uint64_t)k * 0xC2B2AE3D27D4EB4Fu ^
                 ((uint64_t)tp << 32 ^ (uint64_t)m) * 0x165667B19E3779F9u;
    return (size_t)(h ^ h >> 29);
}

static struct jit_table *new_table(size_t slots, struct jit_table *older) {
    struct jit_table *table = calloc(1, sizeof(*table) + slots * sizeof(table->entry[0]));
    if (table != NULL) {
        table->mask = slots - 1;
        table->older = older;
    }
    return table;
}

static struct jit_shape *find_shape(const struct jit *jit, int64_t m, int64_t n, int64_t k, int tp) {
    struct jit_table *table = atomic_load_explicit(&jit->table, memory_order_acquire);
    for (size_t i = hash_of(m, n, k, tp);; i++) {
        struct jit_shape *shape = atomic_load_explicit(&table->entry[i & table->mask], memory_order_acquire);
        if (shape == NULL || (shape->n == n && shape->k == k && shape->tp == tp && shape->m == m)) {
            return shape;
        }
    }
}

static void insert(struct jit_table *table, struct jit_shape *shape) {
    size_t i = hash_of(shape->m, shape->n, shape->k, shape->tp);
    while (atomic_load_explicit(&table->entry[i & table->mask], memory_order_relaxed) != NULL) {
        i++;
    }
    atomic_store_explicit(&table->entry[i & table->mask], shape, memory_order_release);
}

/* With the lock held. */
static grs_status add_shape(struct jit *jit, struct jit_shape *shape, grs_error *err) {
    struct jit_table *table = atomic_load_explicit(&jit->table, memory_order_relaxed);
    if ((jit->count + 1) * 2 > table->mask + 1) {
        struct jit_table *larger = new_table((table->mask + 1) * 2, table);
        if (larger == NULL) {
            return error_set(err, GRS_ERR_MEMORY, "out of memory for %zu shapes", jit->count);
        }
        for (size_t i = 0; i <= table->mask; i++) {
            struct jit_shape *old = atomic_load_explicit(&table->entry[i], memory_order_relaxed);
            if (old != NULL) {
                insert(larger, old);
            }
        }
        atomic_store_explicit(&jit->table, larger, memory_order_release);
        table = larger;
    }
    insert(table, shape);
    jit->count++;
    return GRS_OK;
}

grs_status jit_init(struct jit *jit, bool fixed, grs_error *err) {
    struct jit_table *table = new_table(2 * FIRST_TABLE, NULL);
    memset(jit, 0, sizeof(*jit));
    if (table == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the table of kernels");
    }
    atomic_store(&jit->table, table);
    jit->fixed = fixed;
    pthread_mutex_init(&jit->lock, NULL);
    pthread_cond_init(&jit->done, NULL);
    return GRS_OK;
}

void jit_free(struct jit *jit) {
    struct jit_table *table = atomic_load(&jit->table);
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i <= table->mask; i++) {
        struct jit_shape *shape = atomic_load(&table->entry[i]);
        for (int c = 0; shape != NULL && c < CLASSES_MAX; c++) {
            free(shape->slot[c].failure);
        }
        free(shape);
    }
    while (table != NULL) {
        struct jit_table *older = table->older;
        free(table);
        table = older;
    }
    pthread_mutex_destroy(&jit->lock);
    pthread_cond_destroy(&jit->done);
}

/* ---------------------------------------------------------------- one kernel ------------------------------------ */

struct build {
    grs_ctx *ctx;
    const struct plan *plan;
    const struct buf *entry_text;
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
    struct buf standalone = {0}, shape = {0}, config = {0}, meta_text = {0};
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
    status = nvrtc_compile(nvrtc, plan->arch, file, build->entry_text->data, emit_headers, plan->name, &result, err);
    if (status != GRS_OK) {
        return status;
    }
    status = emit_standalone(plan, &standalone, err);
    if (status != GRS_OK) {
        goto done;
    }
    fill_meta(plan, &result, &meta);
    kernel_meta_write(&meta, &meta_text);
    kernel_shape_text(plan, &shape);
    plan_canonical(plan, &config);
    entry->meta_size = meta_text.length;
    entry->source_size = standalone.length;
    entry->name = strdup(plan->name);
    entry->arch = strdup(config_arch_name(plan->arch));
    entry->compiler = format_text("NVRTC %d.%d", nvrtc_version(nvrtc) / 1000, nvrtc_version(nvrtc) % 1000 / 10);
    entry->shape = buf_take(&shape);
    entry->config = buf_take(&config);
    entry->meta = buf_take(&meta_text);
    entry->source = buf_take(&standalone);
    entry->cubin = result.cubin;
    entry->cubin_size = result.cubin_size;
    entry->ptx = result.ptx;
    entry->ptx_size = result.ptx_size;
    entry->log = result.log;
    entry->log_size = result.log_size;
    memset(&result, 0, sizeof(result));
    if (entry->name == NULL || entry->arch == NULL || entry->compiler == NULL || entry->shape == NULL ||
        entry->config == NULL || entry->meta == NULL || entry->source == NULL) {
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
                           struct key_parts *parts, grs_error *err) {
    grs_status status = plan_solve(config, arch, shape, &parts->plan, err);
    if (status != GRS_OK) {
        return status;
    }
    parts->plan.stall_hook = ctx->stall_hook;
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

grs_status jit_build(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                     struct grs_kernel **out, grs_error *err) {
    struct key_parts parts = {0};
    struct cache_entry *entry = NULL;
    grs_source source = GRS_FROM_MEMORY;
    grs_error own;
    grs_status status;
    *out = NULL;
    err = err == NULL ? &own : err; /* the maker copies into it */
    status = make_key(ctx, config, arch, shape, &parts, err);
    if (status == GRS_OK) {
        struct build build = {ctx, &parts.plan, &parts.entry_text, context_compiler(ctx)};
        status = cache_get(ctx->cache, &parts.key, compile, &build, &entry, &source, err);
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

grs_status jit_probe(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                     bool *cached, struct plan *plan, char key[65], grs_error *err) {
    struct key_parts parts = {0};
    grs_status status = make_key(ctx, config, arch, shape, &parts, err);
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

/* A new table entry for a shape that was checked. */
static struct jit_shape *new_shape(grs_ctx *ctx, int64_t M, int64_t n, int64_t k, int tp) {
    struct jit_shape *shape = calloc(1, sizeof(*shape));
    if (shape == NULL) {
        return NULL;
    }
    shape->n = n;
    shape->k = k;
    shape->tp = tp;
    if (ctx->jit.fixed) {
        shape->m = M;
        shape->classes.count = 1;
        shape->classes.shape[0] = (struct plan_shape){.m_min = M, .m_max = M, .n = n, .k = k, .tp = tp};
    } else {
        classes_make(ctx->config, ctx->arch, n, k, tp, &shape->classes);
    }
    return shape;
}

/* ---------------------------------------------------------------- look-up --------------------------------------- */

static int class_index(const struct jit_shape *shape, int64_t M) {
    int i = 0;
    while (i < shape->classes.count && M > shape->classes.shape[i].m_max) {
        i++;
    }
    return i;
}

/* No lock, no system call, no write to shared memory. */
static const grs_kernel *find(const grs_ctx *ctx, int64_t M, int64_t n, int64_t k, int tp) {
    const struct jit_shape *shape = find_shape(&ctx->jit, ctx->jit.fixed ? M : 0, n, k, tp);
    if (shape == NULL || M < 1) {
        return NULL;
    }
    int i = class_index(shape, M);
    return i < shape->classes.count ? atomic_load_explicit(&shape->slot[i].kernel, memory_order_acquire) : NULL;
}

/* What is remembered: failures that would come again. A lack of memory may pass. */
static void remember(struct jit_slot *slot, grs_status status, const grs_error *err) {
    if (status == GRS_ERR_MEMORY || status == GRS_ERR_CANCELLED) {
        return;
    }
    slot->failure = malloc(sizeof(*slot->failure));
    if (slot->failure != NULL) {
        *slot->failure = *err;
    }
}

/* With the lock held; it is released while the kernel is built. */
static grs_status build_slot(grs_ctx *ctx, struct jit_shape *shape, int index, const grs_kernel **out, grs_error *err) {
    struct jit_slot *slot = &shape->slot[index];
    struct grs_kernel *kernel = NULL;
    while (slot->building) {
        pthread_cond_wait(&ctx->jit.done, &ctx->jit.lock);
    }
    *out = atomic_load_explicit(&slot->kernel, memory_order_acquire);
    if (*out != NULL) {
        return GRS_OK;
    }
    if (slot->failure != NULL) {
        *err = *slot->failure;
        return err->status;
    }
    slot->building = true;
    pthread_mutex_unlock(&ctx->jit.lock);
    grs_status status = jit_build(ctx, ctx->config, ctx->arch, &shape->classes.shape[index], &kernel, err);
    pthread_mutex_lock(&ctx->jit.lock);
    slot->building = false;
    if (status == GRS_OK) {
        kernel->next = ctx->kernels;
        ctx->kernels = kernel;
        *out = kernel;
        atomic_store_explicit(&slot->kernel, *out, memory_order_release);
    } else {
        remember(slot, status, err);
    }
    pthread_cond_broadcast(&ctx->jit.done);
    return status;
}

static grs_status get_slowly(grs_ctx *ctx, int64_t M, int64_t n, int64_t k, int tp, const grs_kernel **out,
                             grs_error *err) {
    struct plan_shape class;
    grs_status status = jit_class(ctx->config, ctx->arch, M, n, k, tp, &class, err);
    if (status != GRS_OK || (status = context_enter(err)) != GRS_OK) {
        return status;
    }
    pthread_mutex_lock(&ctx->jit.lock);
    struct jit_shape *shape = find_shape(&ctx->jit, ctx->jit.fixed ? M : 0, n, k, tp);
    if (shape == NULL) {
        shape = new_shape(ctx, M, n, k, tp);
        status = shape == NULL ? error_set(err, GRS_ERR_MEMORY, "out of memory") : add_shape(&ctx->jit, shape, err);
        if (status != GRS_OK) {
            free(shape);
            shape = NULL;
        }
    }
    if (shape != NULL) {
        status = build_slot(ctx, shape, class_index(shape, M), out, err);
    }
    pthread_mutex_unlock(&ctx->jit.lock);
    context_leave();
    return status;
}

grs_status grs_ctx_get(grs_ctx *ctx, int64_t M, int64_t N, int64_t K, int tp, const grs_kernel **out, grs_error *err) {
    grs_error own;
    if (out == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_ctx_get: out is NULL");
    }
    *out = NULL;
    if (ctx == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_ctx_get: ctx is NULL");
    }
    *out = find(ctx, M, N, K, tp);
    return *out != NULL ? GRS_OK : get_slowly(ctx, M, N, K, tp, out, err == NULL ? &own : err);
}

const grs_kernel *grs_jit_get(int64_t M, int64_t N, int64_t K, int tp) {
    grs_ctx *ctx = context_default();
    const grs_kernel *kernel = NULL;
    if (ctx == NULL && (ctx = grs_default_ctx()) == NULL) {
        return NULL;
    }
    kernel = find(ctx, M, N, K, tp);
    if (kernel == NULL) {
        get_slowly(ctx, M, N, K, tp, &kernel, context_last_error());
    }
    return kernel;
}
