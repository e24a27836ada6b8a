#include "runtime/jit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "runtime/context.h"
#include "runtime/kernel.h"

#define FIRST_TABLE 64 /* shapes before the first growth: twice that many slots */

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

/* ---------------------------------------------------------------- shapes ---------------------------------------- */

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
    const grs_kernel *kernel =
        i < shape->classes.count ? atomic_load_explicit(&shape->slot[i].kernel, memory_order_acquire) : NULL;
    return kernel != NULL && M <= kernel->plan.shape.m_max ? kernel : NULL; /* the last class ends before INT32_MAX */
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
    const struct plan_shape *class = &shape->classes.shape[index];
    log_write(&ctx->log, GRS_LOG_DEBUG,
              "N %" PRId64 ", K %" PRId64 ", tp %d: class %d of %d by M, %" PRId64 " to %" PRId64 "%s", class->n,
              class->k, class->tp, index + 1, shape->classes.count, class->m_min, class->m_max,
              ctx->jit.fixed ? ": a kernel for each M, as the config says (m: fixed)" : "");
    grs_status status = jit_build(ctx, ctx->config, ctx->arch, class, &kernel, err);
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
        if (status == GRS_OK && (status = plan_check_m(&(*out)->plan, M, err)) != GRS_OK) {
            *out = NULL;
        }
    }
    pthread_mutex_unlock(&ctx->jit.lock);
    context_leave();
    return status;
}

grs_status jit_get_hooked(grs_ctx *ctx, const struct config *config, enum arch arch, const struct plan_shape *shape,
                          const struct kernel_hooks *hooks, const grs_kernel **out, grs_error *err) {
    struct grs_kernel *kernel = NULL;
    *out = NULL;
    grs_status status = context_enter(err);
    if (status != GRS_OK) {
        return status;
    }
    status = jit_build_hooked(ctx, config, arch, shape, hooks, &kernel, err);
    if (status == GRS_OK) {
        pthread_mutex_lock(&ctx->jit.lock);
        kernel->next = ctx->kernels;
        ctx->kernels = kernel;
        pthread_mutex_unlock(&ctx->jit.lock);
        *out = kernel;
    }
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
    if (*out != NULL) {
        return GRS_OK;
    }
    err = err == NULL ? &own : err;
    grs_status status = get_slowly(ctx, M, N, K, tp, out, err);
    if (status != GRS_OK) {
        *context_last_error() = *err;
    }
    return status;
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
