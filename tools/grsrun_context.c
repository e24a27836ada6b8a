#include "tools/grsrun_context.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/parallel.h"

grs_status grsrun_context_open(const struct grsrun_options *options, grs_ctx **out, grs_error *err) {
    grs_ctx_options ctx_options = GRS_INIT(grs_ctx_options);
    ctx_options.config_path = options->config_path;
    ctx_options.arch = options->has_arch ? config_arch_name(options->arch) : NULL;
    ctx_options.sms = options->sms;
    grs_status status = grs_ctx_open(&ctx_options, out, err);
    if (!status && options->pace_gbps > 0) {
        (*out)->hooks.pace_model = true;
    }
    return status;
}

struct crew {
    grs_ctx *ctx;
    struct wanted *list;
};

/* parallel_for's work: goes on after a failure, so that all of them are known. */
static bool get_one(void *argument, size_t index) {
    const struct crew *crew = argument;
    struct wanted *wanted = &crew->list[index];
    const struct grsrun_shape *s = &wanted->shape;
    struct kernel_hooks hooks = crew->ctx->hooks;
    struct plan_shape class;
    hooks.count_waits = wanted->count_waits;
    grs_status status = jit_class(wanted->config, crew->ctx->arch, s->m, s->n, s->k, s->tp, &class, wanted->error);
    if (!status) {
        jit_get_hooked(crew->ctx, wanted->config, crew->ctx->arch, &class, &hooks, &wanted->kernel, wanted->error);
    }
    return true;
}

grs_status wanted_get(grs_ctx *ctx, struct wanted *list, size_t count, grs_error *err) {
    struct crew crew = {ctx, list};
    for (size_t i = 0; i < count; i++) {
        list[i].kernel = NULL;
        list[i].error = calloc(1, sizeof(*list[i].error));
        if (!list[i].error) {
            return error_set(err, GRS_ERR_MEMORY, "no memory for %zu kernels", count);
        }
    }
    parallel_for(count, 0, get_one, &crew);
    return GRS_OK;
}

void wanted_free(struct wanted *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(list[i].error);
        list[i].error = NULL;
    }
}
