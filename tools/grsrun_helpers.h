/* The helper kernels as a device image: from the kernel cache, else compiled. */
#ifndef GRS_TOOLS_GRSRUN_HELPERS_H
#define GRS_TOOLS_GRSRUN_HELPERS_H

#include "cache/cache.h"
#include "runtime/nvrtc.h"

/* Through the context's cache, where they lie beside the kernels that they judge: with a warm cache no compiler is needed.
 * The caller frees with cache_entry_free. */
grs_status helpers_get(grs_ctx *ctx, enum arch arch, struct cache_entry **out, grs_error *err);

/* Compiled by this NVRTC, past the cache; the caller frees with nvrtc_result_free. */
grs_status helpers_compile(const struct nvrtc *nvrtc, enum arch arch, struct nvrtc_result *out, grs_error *err);

#endif
