#include "runtime/context.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/machine.h"
#include "runtime/driver.h"
#include "runtime/kernel.h"
#include "runtime/nvtx.h"
#include "runtime/options.h"

/* ---------------------------------------------------------------- forks ----------------------------------------- */

static atomic_int inside;            /* threads between context_enter and context_leave */
static atomic_bool forked_in_flight; /* this process is a child of a fork that came while there were some */

static void after_fork(void) {
    if (atomic_exchange(&inside, 0) != 0) {
        atomic_store(&forked_in_flight, true);
    }
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

grs_status context_enter(grs_error *err) {
    if (atomic_load_explicit(&forked_in_flight, memory_order_relaxed)) {
        return error_set(err, GRS_ERR_STATE,
                         "this process was forked while another thread was making a kernel: no new kernel can be made "
                         "here; fork before the first use of grs, or start the process anew (exec, spawn)");
    }
    atomic_fetch_add_explicit(&inside, 1, memory_order_acq_rel);
    return GRS_OK;
}

void context_leave(void) {
    atomic_fetch_sub_explicit(&inside, 1, memory_order_acq_rel);
}

/* ---------------------------------------------------------------- options --------------------------------------- */

static void init_log(struct log *log, const grs_ctx_options *options) {
    const char *text = getenv("GRS_LOG");
    *log = (struct log){.sink = options->log == NULL ? log_stderr : options->log,
                        .arg = options->log_arg,
                        .level = options->log_level == 0 ? GRS_LOG_WARN : options->log_level};
    if (options->log_level == 0 && text != NULL && text[0] != '\0' && !log_parse_level(text, &log->level)) {
        log_once(log, GRS_LOG_WARN, "GRS_LOG", "GRS_LOG=%s is ignored; allowed: error, warn, info or debug", text);
    }
}

static grs_status load_config(grs_ctx *ctx, const grs_ctx_options *options, grs_error *err) {
    const char *path = options->config_path == NULL ? getenv("GRS_CONFIG") : options->config_path;
    grs_status status;
    if (path == NULL || path[0] == '\0') {
        status = config_defaults(&ctx->config, err);
    } else {
        status = config_load(path, &ctx->config, err);
        if (status != GRS_OK && options->config_path == NULL) {
            error_prepend(err, "GRS_CONFIG");
        }
    }
    if (status != GRS_OK) {
        return status;
    }
    int set = 0;
    for (int f = 0; f < FIELD_COUNT; f++) {
        set += ctx->config->is_set[f];
    }
    if (path == NULL || path[0] == '\0') {
        log_write(&ctx->log, GRS_LOG_DEBUG,
                  "no config is named, by option or GRS_CONFIG: the planner chooses everything");
    } else {
        log_write(&ctx->log, GRS_LOG_DEBUG, "config %s, by %s: it sets %d value%s, the planner chooses the rest", path,
                  options->config_path == NULL ? "GRS_CONFIG" : "option", set, set == 1 ? "" : "s");
    }
    if (options->sms < 0 || options->sms > config_fields[FIELD_SMS].max) {
        return error_set(err, GRS_ERR_ARGUMENT, "sms is %d; allowed: 1 to %d, or 0 for what the config says",
                         options->sms, (int)config_fields[FIELD_SMS].max);
    }
    if (options->sms != 0) {
        ctx->config->value[FIELD_SMS] = options->sms;
        ctx->config->is_set[FIELD_SMS] = true;
        ctx->config->where[FIELD_SMS] = (struct position){0, 0};
    }
    ctx->sms = ctx->config->is_set[FIELD_SMS] ? (int)ctx->config->value[FIELD_SMS] : 0;
    return GRS_OK;
}

/* The arch of GPU 0, if there is one and it has a kernel: of those that the config lists, the first that runs there. */
static bool device_arch(const struct config *config, enum arch *out, char *name, size_t size) {
    int major = 0, minor = 0;
    CUdevice device;
    const struct driver *drv = driver_get(NULL);
    if (drv == NULL || drv->cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        drv->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        drv->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS) {
        snprintf(name, size, "none found");
        return false;
    }
    snprintf(name, size, "sm_%d%d", major, minor);
    for (int arch = 0; arch < ARCH_COUNT; arch++) {
        if (config->arch[arch] && machine_runs((enum arch)arch, major, minor)) {
            *out = (enum arch)arch;
            return true;
        }
    }
    return machine_arch_of(major, minor, out);
}

/* Option or environment, else that of GPU 0, else the first that the config lists, else sm_90a. */
static grs_status choose_arch(grs_ctx *ctx, const grs_ctx_options *options, grs_error *err) {
    const char *text = options->arch == NULL ? getenv("GRS_ARCH") : options->arch;
    const char *who = options->arch == NULL ? "GRS_ARCH" : "arch";
    const struct config *config = ctx->config;
    char device[32];
    bool listed = false;
    if (text != NULL && text[0] != '\0') {
        if (!config_arch_parse(text, &ctx->arch)) {
            struct buf allowed = {0};
            config_archs_text(ARCH_COUNT, &allowed);
            error_set(err, GRS_ERR_ARGUMENT, "%s: %s; allowed: %s", who, text, allowed.failed ? "" : allowed.data);
            buf_free(&allowed);
            return GRS_ERR_ARGUMENT;
        }
        log_write(&ctx->log, GRS_LOG_DEBUG, "arch %s, by %s", config_arch_name(ctx->arch),
                  options->arch == NULL ? "GRS_ARCH" : "option");
        return GRS_OK;
    }
    ctx->arch = ARCH_SM90A;
    for (int arch = ARCH_COUNT - 1; arch >= 0; arch--) {
        if (config->arch[arch]) {
            ctx->arch = (enum arch)arch;
            listed = true;
        }
    }
    enum arch found = ctx->arch;
    bool known = device_arch(config, &found, device, sizeof(device));
    if (known && listed && !config->arch[found]) {
        return error_set(err, GRS_ERR_CONFIG,
                         "%s: arch: GPU 0 is %s, which the config does not list; add it, or set GRS_ARCH", config->path,
                         config_arch_name(found));
    }
    ctx->arch = found;
    log_write(&ctx->log, GRS_LOG_DEBUG, "arch %s, %s (GPU 0: %s)", config_arch_name(ctx->arch),
              known    ? "that of GPU 0; every GPU of a communicator must run it"
              : listed ? "the first that the config lists"
                       : "the usual one, since nothing says which",
              device);
    return GRS_OK;
}

/* ---------------------------------------------------------------- life ------------------------------------------ */

static grs_status open_context(const grs_ctx_options *given, grs_ctx **out, grs_error *err) {
    grs_ctx_options options;
    grs_ctx *ctx = NULL;
    const char *stall = getenv("GRS_STALL");
    double pace = 0;
    grs_status status = options_copy(&options, sizeof(options), given, "grs_ctx_options", err);
    if (status != GRS_OK) {
        return status;
    }
    ctx = calloc(1, sizeof(*ctx));
    if (ctx == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of memory for a context");
    }
    pthread_mutex_init(&ctx->compiler_lock, NULL);
    init_log(&ctx->log, &options);
    nvtx_open(&ctx->log);
    ctx->memory_only = options.memory_only != 0;
    ctx->hooks.stall = stall != NULL && stall[0] != '\0';
    if ((status = options_number("GRS_PACE_GBPS", 0, 1e5, &pace, err)) != GRS_OK) {
        goto done;
    }
    ctx->hooks.pace_model = pace > 0;
    if (options.nvrtc_path != NULL && (ctx->nvrtc_path = strdup(options.nvrtc_path)) == NULL) {
        status = error_set(err, GRS_ERR_MEMORY, "out of memory for a context");
        goto done;
    }
    if ((status = load_config(ctx, &options, err)) != GRS_OK || (status = choose_arch(ctx, &options, err)) != GRS_OK) {
        goto done;
    }
    bool fixed = ctx->config->is_set[FIELD_M_MODE] && ctx->config->value[FIELD_M_MODE] == M_FIXED;
    if ((status = jit_init(&ctx->jit, fixed, err)) != GRS_OK) {
        goto done;
    }
    struct cache_options cache = {.dir = options.cache_dir,
                                  .ro_dirs = options.cache_ro_dirs,
                                  .max_bytes = options.cache_max_bytes,
                                  .memory_only = ctx->memory_only,
                                  .log = &ctx->log};
    status = cache_open(&cache, &ctx->cache, err);
done:
    if (status != GRS_OK) {
        grs_ctx_close(ctx);
        ctx = NULL;
    }
    *out = ctx;
    return status;
}

grs_status grs_ctx_open(const grs_ctx_options *options, grs_ctx **out, grs_error *err) {
    if (out == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_ctx_open: out is NULL");
    }
    *out = NULL;
    grs_status status = context_enter(err);
    if (status == GRS_OK) {
        status = open_context(options, out, err);
        context_leave();
    }
    return status;
}

void grs_ctx_close(grs_ctx *ctx) {
    if (ctx == NULL) {
        return;
    }
    while (ctx->kernels != NULL) {
        struct grs_kernel *next = ctx->kernels->next;
        kernel_free(ctx->kernels);
        ctx->kernels = next;
    }
    jit_free(&ctx->jit);
    cache_close(ctx->cache);
    config_free(ctx->config);
    free(ctx->nvrtc_path);
    pthread_mutex_destroy(&ctx->compiler_lock);
    free(ctx);
}

const struct nvrtc_location *context_compiler(grs_ctx *ctx) {
    pthread_mutex_lock(&ctx->compiler_lock);
    if (!ctx->compiler_sought) {
        ctx->compiler_sought = true;
        if (nvrtc_locate(ctx->nvrtc_path, &ctx->compiler, &ctx->compiler_error) != GRS_OK) {
            log_write(&ctx->log, GRS_LOG_DEBUG, "%s", ctx->compiler_error.text);
        } else {
            log_write(&ctx->log, GRS_LOG_DEBUG, "NVRTC: %s (%s), build id %s", ctx->compiler.path, ctx->compiler.origin,
                      ctx->compiler.build_id);
        }
    }
    const struct nvrtc_location *found = ctx->compiler.path[0] != '\0' ? &ctx->compiler : NULL;
    pthread_mutex_unlock(&ctx->compiler_lock);
    return found;
}

/* ---------------------------------------------------------------- the default context --------------------------- */

static _Atomic(grs_ctx *) default_context;
static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local grs_error last_error;

grs_error *context_last_error(void) {
    return &last_error;
}

const grs_error *grs_last_error(void) {
    return &last_error;
}

grs_ctx *context_default(void) {
    return atomic_load_explicit(&default_context, memory_order_acquire);
}

grs_ctx *grs_default_ctx(void) {
    grs_ctx *ctx = context_default();
    if (ctx != NULL || context_enter(&last_error) != GRS_OK) {
        return ctx;
    }
    pthread_mutex_lock(&default_lock);
    ctx = context_default();
    if (ctx == NULL && open_context(NULL, &ctx, &last_error) == GRS_OK) {
        atomic_store_explicit(&default_context, ctx, memory_order_release);
    }
    pthread_mutex_unlock(&default_lock);
    context_leave();
    return ctx;
}
