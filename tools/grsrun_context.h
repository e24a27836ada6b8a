/* The context that a command of grsrun works in, and the kernels that it wants. */
#ifndef GRS_TOOLS_GRSRUN_CONTEXT_H
#define GRS_TOOLS_GRSRUN_CONTEXT_H

#include "runtime/context.h"
#include "tools/grsrun.h"

/* By the options' config, arch and SMs; with the link model compiled into every kernel where --pace asks for it. */
grs_status grsrun_context_open(const struct grsrun_options *options, grs_ctx **out, grs_error *err);

/* A kernel of a shape. `kernel` or `error` is set by wanted_get. */
struct wanted {
    const struct config *config; /* borrowed */
    struct grsrun_shape shape;
    bool count_waits;
    const grs_kernel *kernel; /* the context's; NULL: see `error` */
    grs_error *error;         /* why there is none; free with wanted_free */
};

/* From cache or compiler, several at a time. Failures are left in the items; an error means that there was no memory. */
grs_status wanted_get(grs_ctx *ctx, struct wanted *list, size_t count, grs_error *err);
void wanted_free(struct wanted *list, size_t count);

#endif
