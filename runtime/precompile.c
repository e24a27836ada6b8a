/* grs_precompile: every kernel that the shapes of a config need, several at a time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"
#include "common/parallel.h"
#include "runtime/context.h"
#include "runtime/kernel.h"

struct item {
    enum arch arch;
    struct plan_shape shape;
};

struct work {
    grs_ctx *ctx;
    struct config *config;
    struct item *items;
    size_t count;
    int (*progress)(void *arg, const grs_progress *);
    void *arg;
    struct timespec start;

    pthread_mutex_t lock; /* of all below */
    bool cancelled;
    struct grs_progress state;
    grs_status status; /* of the first failure in the order of the config */
    size_t failed_index;
    grs_error error;
};

/* ---------------------------------------------------------------- what there is to do ---------------------------- */

static bool same_shape(const struct plan_shape *a, const struct plan_shape *b) {
    return a->m_min == b->m_min && a->m_max == b->m_max && a->n == b->n && a->k == b->k && a->tp == b->tp;
}

static bool is_listed(const struct work *work, enum arch arch, const struct plan_shape *shape) {
    for (size_t i = 0; i < work->count; i++) {
        if (work->items[i].arch == arch && same_shape(&work->items[i].shape, shape)) {
            return true;
        }
    }
    return false;
}

/* Classes of all shapes for one arch, each once. */
static grs_status list_arch(struct work *work, enum arch arch, grs_error *err) {
    const struct config *config = work->config;
    for (size_t i = 0; i < config->shape_count; i++) {
        const struct config_shape *shape = &config->shapes[i];
        struct plan_shape class;
        grs_status status = jit_class(config, arch, shape->m, shape->n, shape->k, shape->tp, &class, err);
        if (status != GRS_OK) {
            return status;
        }
        if (!is_listed(work, arch, &class)) {
            work->items[work->count++] = (struct item){arch, class};
        }
    }
    return GRS_OK;
}

static grs_status list_items(struct work *work, grs_error *err) {
    grs_status status = GRS_OK;
    bool any = false;
    work->items = calloc(work->config->shape_count * ARCH_COUNT + 1, sizeof(*work->items));
    if (work->items == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for %zu shapes", work->config->shape_count);
    }
    for (int arch = 0; arch < ARCH_COUNT && status == GRS_OK; arch++) {
        if (work->config->arch[arch]) {
            any = true;
            status = list_arch(work, (enum arch)arch, err);
        }
    }
    return status != GRS_OK || any ? status : list_arch(work, work->ctx->arch, err);
}

/* ---------------------------------------------------------------- the work -------------------------------------- */

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

/* With the lock held, so that callbacks come one at a time. */
static void finish(struct work *work, size_t index, grs_status status, const struct grs_kernel *kernel,
                   const grs_error *err) {
    struct plan plan;
    work->state.done++;
    if (status != GRS_OK) {
        work->state.failed++;
        if (work->status == GRS_OK || index < work->failed_index) {
            work->status = status;
            work->failed_index = index;
            work->error = *err;
        }
    } else if (kernel->source != GRS_FROM_COMPILER) {
        work->state.hits++;
    }
    if (work->progress == NULL) {
        return;
    }
    if (kernel == NULL &&
        plan_solve(work->config, work->items[index].arch, &work->items[index].shape, &plan, NULL) != GRS_OK) {
        plan.name[0] = '\0';
    }
    work->state.name = kernel == NULL ? plan.name : kernel->plan.name;
    work->state.seconds = seconds_since(&work->start);
    if (work->progress(work->arg, &work->state) != 0) {
        work->cancelled = true;
    }
}

static bool one_item(void *arg, size_t index) {
    struct work *work = arg;
    struct grs_kernel *kernel = NULL;
    grs_error err = {0};
    grs_status status =
        jit_build(work->ctx, work->config, work->items[index].arch, &work->items[index].shape, &kernel, &err);
    pthread_mutex_lock(&work->lock);
    finish(work, index, status, kernel, &err);
    bool go_on = !work->cancelled;
    pthread_mutex_unlock(&work->lock);
    kernel_free(kernel);
    return go_on;
}

static grs_status precompile(struct work *work, const char *config_path, int jobs, grs_error *err) {
    const char *trouble, *why = NULL;
    grs_status status = config_load(config_path, &work->config, err);
    if (status != GRS_OK || (status = list_items(work, err)) != GRS_OK) {
        return status;
    }
    if (!work->ctx->memory_only && cache_dir(work->ctx->cache, &why) == NULL) { /* filling it is the whole point */
        return error_set(err, GRS_ERR_IO, "there is no cache to fill: %s", why);
    }
    work->state.total = (int)work->count;
    parallel_for(work->count, jobs, one_item, work);
    if (work->status != GRS_OK) {
        if (err != NULL) {
            *err = work->error;
        }
        return work->status;
    }
    if (work->cancelled) {
        return error_set(err, GRS_ERR_CANCELLED, "cancelled after %d of %d kernels; what is done stays in the cache",
                         work->state.done, work->state.total);
    }
    trouble = work->ctx->memory_only ? NULL : cache_trouble(work->ctx->cache);
    return trouble == NULL ? GRS_OK : error_set(err, GRS_ERR_IO, "%s", trouble);
}

grs_status grs_precompile(grs_ctx *ctx, const char *config_path, int jobs,
                          int (*progress)(void *arg, const grs_progress *), void *arg, grs_error *err) {
    if (ctx == NULL || config_path == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_precompile: %s is NULL", ctx == NULL ? "ctx" : "config_path");
    }
    if (jobs < 0) {
        return error_set(err, GRS_ERR_ARGUMENT, "jobs is %d; allowed: at least 1, or 0 for the number of cores", jobs);
    }
    struct work *work = calloc(1, sizeof(*work));
    grs_status status = work == NULL ? error_set(err, GRS_ERR_MEMORY, "out of memory") : context_enter(err);
    if (status != GRS_OK) {
        free(work);
        return status;
    }
    work->ctx = ctx;
    work->progress = progress;
    work->arg = arg;
    pthread_mutex_init(&work->lock, NULL);
    clock_gettime(CLOCK_MONOTONIC, &work->start);
    status = precompile(work, config_path, jobs, err);
    context_leave();
    pthread_mutex_destroy(&work->lock);
    config_free(work->config);
    free(work->items);
    free(work);
    return status;
}
