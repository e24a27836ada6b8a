#include "runtime/kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "generator/plan_explain.h"
#include "runtime/context.h"
#include "runtime/driver.h"
#include "runtime/options.h"
#include "runtime/symm.h"

/* ---------------------------------------------------------------- metadata -------------------------------------- */

static const struct {
    const char *key;
    size_t offset;
} meta_fields[] = {
    {"registers", offsetof(struct kernel_meta, registers)},
    {"spill_bytes", offsetof(struct kernel_meta, spill_bytes)},
    {"stack_bytes", offsetof(struct kernel_meta, stack_bytes)},
    {"static_shared_bytes", offsetof(struct kernel_meta, static_shared_bytes)},
    {"threads", offsetof(struct kernel_meta, threads)},
    {"shared_bytes", offsetof(struct kernel_meta, shared_bytes)},
    {"max_grid", offsetof(struct kernel_meta, max_grid)},
    {"compile_ms", offsetof(struct kernel_meta, compile_ms)},
};
#define META_FIELD_COUNT (sizeof(meta_fields) / sizeof(meta_fields[0]))

void kernel_meta_write(const struct kernel_meta *meta, struct buf *out) {
    for (size_t i = 0; i < META_FIELD_COUNT; i++) {
        buf_printf(out, "%s: %d\n", meta_fields[i].key, *(const int *)((const char *)meta + meta_fields[i].offset));
    }
}

bool kernel_meta_read(const void *data, size_t size, struct kernel_meta *out) {
    const char *line = data, *end = line + size;
    size_t seen = 0;
    memset(out, 0, sizeof(*out));
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        char text[128];
        if (stop == NULL || (size_t)(stop - line) >= sizeof(text)) {
            return false;
        }
        memcpy(text, line, (size_t)(stop - line));
        text[stop - line] = '\0';
        char *colon = strchr(text, ':');
        if (colon == NULL) {
            return false;
        }
        *colon = '\0';
        for (size_t i = 0; i < META_FIELD_COUNT; i++) {
            if (strcmp(text, meta_fields[i].key) == 0) {
                *(int *)((char *)out + meta_fields[i].offset) = atoi(colon + 1);
                seen++;
            }
        }
        line = stop + 1;
    }
    return seen >= META_FIELD_COUNT;
}

/* ---------------------------------------------------------------- life ------------------------------------------ */

void kernel_shape_text(const struct plan *plan, struct buf *out) {
    const struct plan_shape *shape = &plan->shape;
    buf_printf(out, "m %" PRId64 "..%" PRId64 " n %" PRId64 " k %" PRId64 " tp %d", shape->m_min, shape->m_max,
               shape->n, shape->k, shape->tp);
}

grs_status kernel_create(grs_ctx *ctx, const struct plan *plan, struct cache_entry *entry, grs_source source,
                         struct grs_kernel **out, grs_error *err) {
    struct grs_kernel *kernel = calloc(1, sizeof(*kernel));
    *out = NULL;
    if (kernel == NULL) {
        cache_entry_free(entry);
        return error_set(err, GRS_ERR_MEMORY, "out of memory for kernel %s", plan->name);
    }
    kernel->ctx = ctx;
    kernel->plan = *plan;
    kernel->entry = entry;
    kernel->source = source;
    memcpy(kernel->key, entry->key, sizeof(kernel->key));
    /* The metadata is a report: launches go by the plan, which made the text that the entry's key names. */
    if (!kernel_meta_read(entry->meta, entry->meta_size, &kernel->meta)) {
        memset(&kernel->meta, 0, sizeof(kernel->meta));
    }
    *out = kernel;
    return GRS_OK;
}

void kernel_free(struct grs_kernel *kernel) {
    if (kernel != NULL) {
        cache_entry_free(kernel->entry);
        free(kernel);
    }
}

/* ---------------------------------------------------------------- public calls ---------------------------------- */

/* M for which the information tells times: of an open class the largest M says nothing. */
#define USUAL_LARGEST_M 16384

static int64_t times_m(const struct plan *plan) {
    const struct plan_shape *shape = &plan->shape;
    if (shape->m_max < plan_max_m(plan)) {
        return shape->m_max;
    }
    return shape->m_min > USUAL_LARGEST_M ? shape->m_min : USUAL_LARGEST_M;
}

grs_status grs_kernel_get_info(const grs_kernel *kernel, grs_kernel_info *info, grs_error *err) {
    if (kernel == NULL || info == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_kernel_get_info: %s is NULL", kernel == NULL ? "kernel" : "info");
    }
    const struct plan *plan = &kernel->plan;
    struct plan_estimate estimate;
    struct symm_sizes sizes;
    plan_estimate(plan, times_m(plan), &estimate);
    symm_sizes_of(plan, times_m(plan), explain_grid(plan), &sizes);
    grs_kernel_info full = {
        .size = sizeof(full),
        .name = kernel->plan.name,
        .arch = config_arch_name(plan->arch),
        .key = kernel->key,
        .source = kernel->source,
        .m_min = plan->shape.m_min,
        .m_max = plan->shape.m_max,
        .n = plan->shape.n,
        .k = plan->shape.k,
        .tp = plan->shape.tp,
        .tile_m = (int)plan->value[FIELD_TILE_M],
        .tile_n = (int)plan->value[FIELD_TILE_N],
        .tile_k = (int)plan->value[FIELD_TILE_K],
        .stages = (int)plan->value[FIELD_STAGES_LOAD],
        .ring_depth = (int)plan->value[FIELD_RING_DEPTH],
        .threads = plan->threads,
        .registers = kernel->meta.registers,
        .spill_bytes = kernel->meta.spill_bytes,
        .shared_bytes = (int)plan->shared_bytes,
        .max_sms = plan->max_grid,
        .expected_us = estimate.expected_us,
        .limit_us = estimate.limit_us,
        .times_m = times_m(plan),
        .memory_bytes = symm_total(&sizes),
    };
    return options_return(info, &full, sizeof(full), "grs_kernel_info", err);
}

grs_status grs_kernel_times(const grs_kernel *kernel, int64_t M, double *expected_us, double *limit_us,
                            grs_error *err) {
    if (kernel == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_kernel_times: kernel is NULL");
    }
    const struct plan *plan = &kernel->plan;
    struct plan_estimate estimate;
    if (M < plan->shape.m_min || M > plan->shape.m_max) {
        return error_set(err, GRS_ERR_ARGUMENT, "M is %" PRId64 "; %s serves %" PRId64 " to %" PRId64, M, plan->name,
                         plan->shape.m_min, plan->shape.m_max);
    }
    plan_estimate(plan, M, &estimate);
    if (expected_us != NULL) {
        *expected_us = estimate.expected_us;
    }
    if (limit_us != NULL) {
        *limit_us = estimate.limit_us;
    }
    return GRS_OK;
}

/* SMs of device 0, for estimates where nobody says how many. */
static grs_status device_sms(int *sms, grs_error *err) {
    grs_status status = GRS_OK;
    CUdevice device;
    CUresult result = CUDA_SUCCESS;
    const struct driver *drv = driver_get(err);
    if (drv == NULL) {
        return error_prepend(err, "sms is 0 (all of the GPU's), and no GPU can be asked");
    }
    result = drv->cuDeviceGet(&device, 0);
    if (result == CUDA_SUCCESS) {
        result = drv->cuDeviceGetAttribute(sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    }
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuDeviceGetAttribute(number of SMs of GPU 0)");
    }
    return status;
}

grs_status grs_kernel_memory(const grs_kernel *kernel, int64_t max_M, int sms, size_t *bytes, grs_error *err) {
    if (kernel == NULL || bytes == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_kernel_memory: %s is NULL", kernel == NULL ? "kernel" : "bytes");
    }
    const struct plan *plan = &kernel->plan;
    if (max_M < 1) {
        return error_set(err, GRS_ERR_ARGUMENT, "max_M is %" PRId64 "; allowed: at least 1", max_M);
    }
    if (max_M > plan->shape.m_max) { /* no launch of this kernel can have more rows */
        max_M = plan->shape.m_max;
    }
    if (sms < 0 || sms > plan->max_grid) {
        return error_set(err, GRS_ERR_ARGUMENT, "sms is %d; allowed for %s: 1 to %d, or 0 for all", sms, plan->name,
                         plan->max_grid);
    }
    if (sms == 0) {
        sms = (int)plan->value[FIELD_SMS];
    }
    if (sms == 0) {
        grs_status status = device_sms(&sms, err);
        if (status != GRS_OK) {
            return status;
        }
    }
    struct symm_sizes sizes;
    symm_sizes_of(plan, max_M, sms, &sizes);
    *bytes = symm_total(&sizes);
    return GRS_OK;
}

grs_status grs_kernel_image(const grs_kernel *kernel, grs_image what, const void **data, size_t *length,
                            grs_error *err) {
    if (kernel == NULL || data == NULL || length == NULL) {
        return error_set(err, GRS_ERR_ARGUMENT, "grs_kernel_image: %s is NULL",
                         kernel == NULL ? "kernel" : (data == NULL ? "data" : "length"));
    }
    const struct cache_entry *entry = kernel->entry;
    const struct {
        const void *data;
        size_t size;
    } images[] = {
        [GRS_IMAGE_SOURCE] = {entry->source, entry->source_size},
        [GRS_IMAGE_PTX] = {entry->ptx, entry->ptx_size},
        [GRS_IMAGE_CUBIN] = {entry->cubin, entry->cubin_size},
        [GRS_IMAGE_LOG] = {entry->log, entry->log_size},
    };
    *data = NULL;
    *length = 0;
    if ((int)what < GRS_IMAGE_SOURCE || (int)what > GRS_IMAGE_LOG) {
        return error_set(err, GRS_ERR_ARGUMENT, "image is %d; allowed: GRS_IMAGE_SOURCE, _PTX, _CUBIN or _LOG",
                         (int)what);
    }
    *data = images[what].data;
    *length = images[what].size;
    return GRS_OK;
}
