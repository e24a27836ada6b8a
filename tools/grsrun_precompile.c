/* grsrun --precompile: what the command would launch, compiled into the cache, so that a machine with GPUs waits for no
 * compiler. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/classes.h"
#include "runtime/jit.h"
#include "runtime/kernel.h"
#include "runtime/nodes.h"
#include "tools/grsrun_ablate.h"
#include "tools/grsrun_context.h"
#include "tools/grsrun_helpers.h"

/* Kernels of one shape at most: a variant without and with counters each. Over nodes: one, and those of a node. */
#define KERNELS (2 * VARIANT_COUNT)
_Static_assert(KERNELS >= 1 + CLASSES_MAX, "too little room for the kernels of a node");

struct job {
    const struct grsrun_options *options;
    grs_ctx *ctx;
    struct config *configs; /* VARIANT_COUNT a shape, with --ablate */
    struct wanted *list;
    size_t count;
};

/* The kernels that a node needs for launches with up to shape->m rows of the shape's class, as grs_comm_prepare takes them. */
static grs_status want_inner(struct job *job, const struct grsrun_shape *shape, grs_error *err) {
    int local = shape->tp / job->options->nodes;
    struct plan_shape class;
    grs_status status =
        jit_class(job->ctx->config, job->ctx->arch, shape->m, shape->n, shape->k, shape->tp, &class, err);
    int64_t rows = status ? 0 : nodes_rows(class.m_min, shape->tp, local);
    int64_t last = nodes_rows(shape->m, shape->tp, local);
    for (int i = 0; i < CLASSES_MAX && !status && rows <= last; i++) {
        struct grsrun_shape inner = {rows, shape->n, shape->k, local};
        job->list[job->count++] = (struct wanted){.config = job->ctx->config, .shape = inner};
        status = jit_class(job->ctx->config, job->ctx->arch, rows, inner.n, inner.k, local, &class, err);
        if (status) {
            error_prepend(err, "the kernel of tp %d that tp %d needs within a node", local, shape->tp);
        }
        rows = nodes_rows_beyond(class.m_max, local);
    }
    return status;
}

static grs_status want_shape(struct job *job, size_t index, grs_error *err) {
    const struct grsrun_shape *shape = &job->options->shapes[index];
    if (job->options->ablate) {
        struct variants_base base;
        grs_status status = variants_base(job->ctx->config, job->ctx->arch, shape, &base, err);
        if (!status) {
            ablate_want(&base, shape, &job->configs[index * VARIANT_COUNT], &job->list[job->count]);
            job->count += KERNELS;
        }
        return status;
    }
    job->list[job->count++] = (struct wanted){.config = job->ctx->config, .shape = *shape};
    if (job->options->waits || job->options->skew) {
        job->list[job->count++] = (struct wanted){.config = job->ctx->config, .shape = *shape, .count_waits = true};
    }
    return job->options->nodes > 1 ? want_inner(job, shape, err) : GRS_OK;
}

static grs_status want_all(struct job *job, grs_error *err) {
    size_t shapes = job->options->shape_count;
    job->configs = calloc(shapes * VARIANT_COUNT, sizeof(*job->configs));
    job->list = calloc(shapes * KERNELS, sizeof(*job->list));
    grs_status status = job->configs && job->list
                            ? GRS_OK
                            : error_set(err, GRS_ERR_MEMORY, "no memory for the kernels of %zu shapes", shapes);
    for (size_t i = 0; i < shapes && !status; i++) {
        status = want_shape(job, i, err);
    }
    return status;
}

/* A variant that cannot be is a row that says so, and no failure. */
static bool is_refusal(const struct job *job, const struct wanted *wanted) {
    return job->options->ablate &&
           (wanted->error->status == GRS_ERR_PLAN || wanted->error->status == GRS_ERR_UNSUPPORTED);
}

/* Several items often want the same kernel, and any of them may have been the one that compiled it. */
static bool is_told(const struct job *job, size_t index, bool *compiled) {
    *compiled = false;
    for (size_t i = 0; i < job->count; i++) {
        const grs_kernel *kernel = job->list[i].kernel;
        if (kernel && !strcmp(kernel->key, job->list[index].kernel->key)) {
            if (i < index) {
                return true;
            }
            *compiled |= kernel->source == GRS_FROM_COMPILER;
        }
    }
    return false;
}

static grs_status report(const struct job *job, grs_error *err) {
    grs_status status = GRS_OK;
    for (size_t i = 0; i < job->count; i++) {
        const struct wanted *wanted = &job->list[i];
        bool compiled;
        if (wanted->kernel && is_told(job, i, &compiled)) {
            continue;
        }
        if (wanted->kernel) {
            printf("%s %s%s %s\n", wanted->kernel->key, wanted->kernel->plan.name,
                   wanted->count_waits ? " with wait counters" : "", compiled ? "compiled" : "was there");
        } else {
            fprintf(stderr, "# %s\n", wanted->error->text);
            if (!is_refusal(job, wanted) && !status) {
                *err = *wanted->error;
                status = err->status;
            }
        }
    }
    return status;
}

static grs_status precompile(struct job *job, grs_error *err) {
    const char *why = NULL;
    struct cache_entry *helpers = NULL;
    grs_status status = grsrun_context_open(job->options, &job->ctx, err);
    if (status) {
        return status;
    }
    if (!cache_dir(job->ctx->cache, &why)) {
        return error_set(err, GRS_ERR_IO, "there is no cache to fill: %s", why);
    }
    status = helpers_get(job->ctx, job->ctx->arch, &helpers, err);
    cache_entry_free(helpers);
    status = status ? status : want_all(job, err);
    status = status ? status : wanted_get(job->ctx, job->list, job->count, err);
    status = status ? status : report(job, err);
    const char *trouble = cache_trouble(job->ctx->cache);
    return status || !trouble ? status : error_set(err, GRS_ERR_IO, "%s", trouble);
}

int grsrun_precompile_main(const struct grsrun_options *options) {
    struct job job = {.options = options};
    grs_error err;
    grs_status status = precompile(&job, &err);
    if (status) {
        fprintf(stderr, "grsrun: %s\n", err.text);
    }
    wanted_free(job.list, job.count);
    grs_ctx_close(job.ctx);
    free(job.list);
    free(job.configs);
    return grsrun_exit_code(status);
}
