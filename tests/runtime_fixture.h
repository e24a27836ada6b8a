/* A context on the stand-in for libcuda, and kernels that need no compiler. */
#ifndef GRS_TESTS_RUNTIME_FIXTURE_H
#define GRS_TESTS_RUNTIME_FIXTURE_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/context.h"
#include "runtime/kernel.h"
#include "tests/shim_cuda.h"

#ifndef FIXTURE_DRIVER
#define FIXTURE_DRIVER "libcuda.so"
#endif

static struct shim *shim; /* NULL: of another driver */
static grs_error err;
static const struct shim shim_defaults = {.device_count = 2, .version = 13000, .can_access = 1, .native_atomics = 1};

/* Before the driver is used for the first time. */
static int fixture_open(void **state) {
    (void)state;
    static char path[4096];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof(path), "%s/tests/shim/" FIXTURE_DRIVER, build == NULL ? "build" : build);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        print_error("%s\n", dlerror());
        return -1;
    }
    shim_get_function *get = (shim_get_function *)dlsym(library, "shim_get");
    shim = get == NULL ? NULL : get();
    setenv("GRS_LIBCUDA", path, 1);
    return 0;
}

/* Every test starts with two idle H200s and forgets what was recorded. */
static int fixture_reset(void **state) {
    (void)state;
    memset(&err, 0, sizeof(err));
    if (shim == NULL) {
        return 0;
    }
    shim->device_count = shim_defaults.device_count;
    shim->can_access = shim->native_atomics = 1;
    shim->no_sharing = 0;
    for (int i = 0; i < SHIM_MAX_DEVICES; i++) {
        shim->device[i].sm_count = 132;
        shim->device[i].major = 9;
        shim->device[i].minor = 0;
        shim->device[i].blocks_per_sm = 1;
    }
    shim->fail_at = 0;
    shim->fail_name = NULL;
    shim->call_count = shim->map_count = shim->launch_count = 0;
    return 0;
}

static inline void pin(grs_ctx *ctx, enum field field, int64_t value) {
    ctx->config->value[field] = value;
    ctx->config->is_set[field] = true;
}

/* What the planner would choose by its figures is pinned: the numbers that tests expect must not move with those. So there
 * is one class of M. */
static inline grs_ctx *open_context(void) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    options.memory_only = 1;
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    pin(ctx, FIELD_TILE_M, 128);
    pin(ctx, FIELD_TILE_N, 128);
    pin(ctx, FIELD_CLUSTER, 1);
    return ctx;
}

/* Makes the kernel serve these M's alone. */
static inline void set_class(const grs_kernel *kernel, int64_t m_min, int64_t m_max) {
    struct plan_shape *shape = &((struct grs_kernel *)kernel)->plan.shape; /* it came from calloc */
    shape->m_min = m_min;
    shape->m_max = m_max;
}

/* The kernel that the planner makes for a shape; its image is an empty ELF header. The context frees it. */
static inline const grs_kernel *make_kernel(grs_ctx *ctx, int64_t M, int64_t n, int64_t k, int tp) {
    struct plan_shape class;
    struct plan plan;
    struct grs_kernel *kernel = NULL;
    if (jit_class(ctx->config, ctx->arch, M, n, k, tp, &class, &err) != GRS_OK ||
        plan_solve(ctx->config, ctx->arch, &class, &plan, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    struct cache_entry *entry = calloc(1, sizeof(*entry));
    assert_non_null(entry);
    entry->name = strdup(plan.name);
    entry->cubin = strdup("\177ELF");
    entry->cubin_size = 4;
    assert_int_equal(kernel_create(ctx, &plan, entry, GRS_FROM_MEMORY, &kernel, &err), GRS_OK);
    kernel->next = ctx->kernels;
    ctx->kernels = kernel;
    return kernel;
}

static inline void assert_nothing_alive(void) {
    assert_int_equal(shim->live_memory, 0);
    assert_int_equal(shim->live_host, 0);
    assert_int_equal(shim->live_streams, 0);
    assert_int_equal(shim->live_modules, 0);
    assert_int_equal(shim->live_handles, 0);
    assert_int_equal(shim->live_mappings, 0);
    for (int i = 0; i < SHIM_MAX_DEVICES; i++) {
        assert_int_equal(shim->device[i].retained, 0);
    }
}

static inline void destroy_all(grs_comm **comms, int tp) {
    for (int rank = 0; rank < tp; rank++) {
        grs_comm_destroy(comms[rank]);
    }
}

#endif
