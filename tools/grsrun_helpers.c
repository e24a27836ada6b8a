#include "tools/grsrun_helpers.h"

#include <string.h>

#include "common/error.h"
#include "runtime/context.h"
#include "tools/grsrun_kernels.h"

#define NAME       "grsrun_helpers"
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
static const char version_text[] = TEXT(GRS_VERSION_MAJOR) "." TEXT(GRS_VERSION_MINOR) "." TEXT(GRS_VERSION_PATCH);

grs_status helpers_compile(const struct nvrtc *nvrtc, enum arch arch, struct nvrtc_result *out, grs_error *err) {
    return nvrtc_compile(nvrtc, arch, "grsrun_kernels.cu", kernels_source, kernels_headers, "grsrun_reference", out,
                         err);
}

struct request {
    grs_ctx *ctx;
    enum arch arch;
    const struct nvrtc_location *compiler; /* NULL: none */
};

/* cache_get's maker: what it puts into the entry belongs to the cache. */
static grs_status make(void *argument, struct cache_entry *entry, grs_error *err) {
    const struct request *request = argument;
    const struct nvrtc *nvrtc;
    struct nvrtc_result result = {0};
    struct buf compiler = {0};
    if (!request->compiler) {
        *err = request->ctx->compiler_error;
        return error_prepend(err, NAME " is not in the cache and cannot be compiled");
    }
    grs_status status = nvrtc_open(request->compiler, &nvrtc, err);
    status = status ? status : helpers_compile(nvrtc, request->arch, &result, err);
    if (status) {
        return status;
    }
    buf_printf(&compiler, "NVRTC %d.%d", nvrtc_version(nvrtc) / 1000, nvrtc_version(nvrtc) % 1000 / 10);
    entry->name = strdup(NAME);
    entry->arch = strdup(config_arch_name(request->arch));
    entry->compiler = buf_take(&compiler);
    entry->shape = strdup("any: makes operands and judges results");
    entry->cubin = result.cubin;
    entry->cubin_size = result.cubin_size;
    result.cubin = NULL;
    nvrtc_result_free(&result);
    return entry->name && entry->arch && entry->compiler && entry->shape
               ? GRS_OK
               : error_set(err, GRS_ERR_MEMORY, "out of memory for the entry of " NAME);
}

grs_status helpers_get(grs_ctx *ctx, enum arch arch, struct cache_entry **out, grs_error *err) {
    struct request request = {ctx, arch, context_compiler(ctx)};
    struct buf options = {0}, text = {0};
    char digest[HASH_HEX_LENGTH + 1];
    buf_puts(&text, kernels_source);
    for (const struct emit_header *header = kernels_headers; header->name; header++) {
        buf_puts(&text, header->text);
    }
    nvrtc_options(arch, &options);
    grs_status status = GRS_OK;
    if (text.failed || options.failed) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory for the text of " NAME);
    } else {
        hash_sha256_hex(text.data, text.length, digest);
        struct cache_key key = {.grs_version = version_text,
                                .text_digest = digest,
                                .compiler_id = request.compiler ? request.compiler->build_id : NULL,
                                .options = options.data,
                                .arch = config_arch_name(arch)};
        status = cache_get(ctx->cache, &key, make, &request, out, NULL, err);
    }
    buf_free(&text);
    buf_free(&options);
    return status;
}
