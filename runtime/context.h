/* A context: config, cache, compiler and the kernels made so far. */
#ifndef GRS_RUNTIME_CONTEXT_H
#define GRS_RUNTIME_CONTEXT_H

#include <pthread.h>

#include "cache/cache.h"
#include "common/log.h"
#include "generator/config.h"
#include "grs.h"
#include "runtime/jit.h"
#include "runtime/nvrtc.h"

struct grs_ctx {
    struct log log;
    struct config *config;
    enum arch arch;
    int sms; /* a rank may use; 0: all */
    struct cache *cache;
    bool memory_only;
    struct kernel_hooks hooks; /* of the kernels made here: $GRS_STALL, $GRS_PACE_GBPS */

    struct jit jit;
    struct grs_kernel *kernels; /* newest first; guarded by jit.lock */

    /* The compiler, looked for when the first key is needed. */
    pthread_mutex_t compiler_lock;
    bool compiler_sought;
    char *nvrtc_path; /* option; NULL: $GRS_NVRTC or the search */
    struct nvrtc_location compiler;
    grs_error compiler_error; /* why there is none */
};

/* Where NVRTC is; NULL: nowhere, and ctx->compiler_error says why. Opens nothing. */
const struct nvrtc_location *context_compiler(grs_ctx *ctx);

/* A fork while another thread is inside the library leaves locks taken in the child for ever. What may wait for a lock
 * runs between these two; in such a child context_enter fails with GRS_ERR_STATE instead of hanging. */
grs_status context_enter(grs_error *err);
void context_leave(void);

/* The slot of grs_last_error of the calling thread. */
grs_error *context_last_error(void);

/* The default context if it has been made, else NULL. One load. */
grs_ctx *context_default(void);

#endif
