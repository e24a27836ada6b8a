/* --emit: the CUDA text from the emitter; PTX, cubin and log from the kernel's entry (cache or compiler); SASS from a
 * disassembler that is found on the machine. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generator/emit.h"
#include "runtime/context.h"
#include "runtime/jit.h"
#include "runtime/kernel.h"
#include "tools/grsgen.h"
#include "tools/grsgen_sass.h"

static const char *const endings[] = {
    [EMIT_CUDA] = "cu", [EMIT_PTX] = "ptx", [EMIT_CUBIN] = "cubin", [EMIT_SASS] = "sass", [EMIT_LOG] = "log"};

/* `kernel` may be NULL for CUDA text. */
static int make_text(const struct grs_kernel *kernel, const struct work_item *item, const char *key,
                     enum grsgen_emit what, struct buf *out) {
    grs_error err = {0};
    static const grs_image images[] = {
        [EMIT_PTX] = GRS_IMAGE_PTX, [EMIT_CUBIN] = GRS_IMAGE_CUBIN, [EMIT_LOG] = GRS_IMAGE_LOG};
    const void *data = NULL;
    size_t length = 0;
    if (what == EMIT_CUDA) {
        if (emit_standalone(&item->plan, key, out, &err) != GRS_OK)
            return fail_with(GRSGEN_FAILED, &err);
    } else if (what == EMIT_SASS) {
        if (sass_disassemble(kernel->entry->cubin, kernel->entry->cubin_size, out, &err) != GRS_OK)
            return fail_with(GRSGEN_FAILED, &err);
    } else {
        if (grs_kernel_image(kernel, images[what], &data, &length, &err) != GRS_OK)
            return fail_with(GRSGEN_FAILED, &err);
        buf_append(out, data, length);
    }
    return out->failed ? fail(GRSGEN_FAILED, "out of memory") : GRSGEN_OK;
}

static int write_file(const char *dir, const struct plan *plan, const char *ending, const struct buf *text) {
    struct buf path = {0};
    int code = GRSGEN_OK;
    buf_printf(&path, "%s/%s.%s.%s", dir, plan->name, config_arch_name(plan->arch), ending);
    if (path.failed)
        return fail(GRSGEN_FAILED, "out of memory");
    FILE *file = fopen(path.data, "wb");
    bool written = file && fwrite(text->length ? text->data : "", 1, text->length, file) == text->length;
    if (file && fclose(file) != 0)
        written = false;
    if (!written)
        code = fail(GRSGEN_FAILED, "%s: cannot be written: %s", path.data, strerror(errno));
    else
        printf("%s\n", path.data);
    buf_free(&path);
    return code;
}

/* A text that cannot be made (SASS without a disassembler) does not keep the others back; `written` becomes false when one
 * could not be written, which the next would not be either. */
static int emit_item(grs_ctx *ctx, const struct work *work, const struct work_item *item,
                     const struct grsgen_options *options, bool *written) {
    enum grsgen_emit first = options->emit == EMIT_ALL ? EMIT_CUDA : options->emit;
    enum grsgen_emit last = options->emit == EMIT_ALL ? EMIT_LOG : options->emit;
    struct grs_kernel *kernel = NULL;
    grs_error err = {0};
    int code = GRSGEN_OK;
    char key[HASH_HEX_LENGTH + 1];
    bool cached;
    if (last == EMIT_CUDA) { /* needs no compiler, but for its name in the key */
        if (jit_probe(ctx, work->config, item->plan.arch, &item->shape, &cached, NULL, key, &err) != GRS_OK)
            return fail_with(GRSGEN_FAILED, &err);
    } else if (jit_build(ctx, work->config, item->plan.arch, &item->shape, &kernel, &err) != GRS_OK) {
        return fail_with(GRSGEN_FAILED, &err);
    } else {
        memcpy(key, kernel->key, sizeof key);
    }
    for (int what = first; what <= (int)last && *written; what++) {
        struct buf text = {0};
        int one = make_text(kernel, item, key, (enum grsgen_emit)what, &text);
        if (!one) {
            one = options->out_dir ? write_file(options->out_dir, &item->plan, endings[what], &text) : print_buf(&text);
            *written = !one;
        }
        buf_free(&text);
        code = one ? one : code;
    }
    kernel_free(kernel);
    return code;
}

int grsgen_emit(const struct grsgen_options *options) {
    struct work work;
    grs_ctx *ctx = NULL;
    grs_error err = {0};
    int code = work_load(options, options->config_path, &work);
    if (code)
        return code;
    if (!work.count) {
        code = fail(GRSGEN_USAGE, "--emit: %s has no shapes, allowed: a config with shapes, or --shape M,N,K,tp",
                    work.config->path);
    } else if (!options->out_dir && (work.count > 1 || options->emit == EMIT_ALL)) {
        code = fail(GRSGEN_USAGE,
                    "--emit: %zu kernel%s and %s, allowed: -o DIR, or one text of one kernel (--shape, --only)",
                    work.count, work.count == 1 ? "" : "s", options->emit == EMIT_ALL ? "all texts" : "one text each");
    } else if (!options->out_dir && options->emit == EMIT_CUBIN && isatty(STDOUT_FILENO)) {
        code = fail(GRSGEN_USAGE, "--emit cubin: standard output is a terminal, allowed: -o DIR, or a pipe or file");
    } else if (options->out_dir && mkdir(options->out_dir, 0777) != 0 && errno != EEXIST) {
        code = fail(GRSGEN_FAILED, "%s: cannot be made: %s", options->out_dir, strerror(errno));
    } else if (grs_ctx_open(&GRS_INIT(grs_ctx_options), &ctx, &err) != GRS_OK) {
        code = fail_with(GRSGEN_FAILED, &err);
    }
    bool written = !code;
    for (size_t i = 0; i < work.count && written; i++) {
        int one = emit_item(ctx, &work, &work.items[i], options, &written);
        code = one ? one : code;
    }
    grs_ctx_close(ctx);
    work_free(&work);
    return code;
}
