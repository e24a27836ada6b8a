#include "tools/grsrun_device.h"

#include <stdio.h>

#include "common/error.h"
#include "generator/config.h"
#include "generator/machine.h"

grs_status device_check(const struct device *device, CUresult result, const char *what, grs_error *err) {
    return result ? driver_error(device->drv, err, result, "%s on GPU %d", what, device->ordinal) : GRS_OK;
}

grs_status device_use(const struct device *device, grs_error *err) {
    return device_check(device, device->drv->cuCtxSetCurrent(device->context), "cuCtxSetCurrent", err);
}

grs_status device_arch(const struct driver *drv, int ordinal, enum arch *out, grs_error *err) {
    int major = 0, minor = 0;
    CUresult result = drv->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
    if (!result) {
        result = drv->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
    }
    if (result) {
        return driver_error(drv, err, result, "cuDeviceGetAttribute(compute capability) of GPU %d", ordinal);
    }
    if (!machine_arch_of(major, minor, out)) {
        return error_set(err, GRS_ERR_UNSUPPORTED,
                         "GPU %d has compute capability %d.%d; kernels exist for 9.0, 10.0 and 10.3", ordinal, major,
                         minor);
    }
    return GRS_OK;
}

static grs_status find_functions(struct device *device, grs_error *err) {
    const struct {
        const char *name;
        CUfunction *out;
    } wanted[] = {{"grsrun_fill", &device->fill},           {"grsrun_check", &device->check},
                  {"grsrun_spans", &device->spans},         {"grsrun_checksum", &device->checksum},
                  {"grsrun_reference", &device->reference}, {"grsrun_compare", &device->compare},
                  {"grsrun_spin", &device->spin},           {"grsrun_push", &device->push},
                  {"grsrun_clock", &device->clock},         {"grsrun_add_nodes", &device->add_nodes}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        grs_status status =
            device_check(device, device->drv->cuModuleGetFunction(wanted[i].out, device->module, wanted[i].name),
                         wanted[i].name, err);
        if (status) {
            return status;
        }
    }
    return GRS_OK;
}

grs_status device_open(const struct driver *drv, int ordinal, const void *helpers, struct device *out, grs_error *err) {
    *out = (struct device){.drv = drv, .ordinal = ordinal};
    int l2_bytes = 0;
    grs_status status = device_check(out, drv->cuDeviceGet(&out->id, ordinal), "cuDeviceGet", err);
    if (status) {
        return status;
    }
    status = device_check(out, drv->cuDevicePrimaryCtxRetain(&out->context, out->id), "cuDevicePrimaryCtxRetain", err);
    if (status) {
        return status;
    }
    const struct {
        CUdevice_attribute attribute;
        int *out;
    } attributes[] = {{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->sms},
                      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes}};
    status = device_use(out, err);
    for (int i = 0; i < 2 && !status; i++) {
        status = device_check(out, drv->cuDeviceGetAttribute(attributes[i].out, attributes[i].attribute, out->id),
                              "cuDeviceGetAttribute", err);
    }
    out->l2_bytes = l2_bytes;
    status =
        status ? status
               : device_check(out, drv->cuDeviceGetName(out->name, sizeof(out->name), out->id), "cuDeviceGetName", err);
    status = status
                 ? status
                 : device_check(out, drv->cuModuleLoadData(&out->module, helpers), "loading the helper kernels", err);
    status = status ? status : find_functions(out, err);
    status = status
                 ? status
                 : device_check(out, drv->cuStreamCreate(&out->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate", err);
    status = status ? status : device_alloc(out, DEVICE_SCRATCH_BYTES, &out->scratch, err);
    status = status ? status : device_alloc(out, DEVICE_SPANS_MAX * sizeof(struct values_span), &out->span_list, err);
    if (status) {
        device_close(out);
    }
    return status;
}

void device_close(struct device *device) {
    if (!device->context || device_use(device, NULL)) {
        return;
    }
    device_free(device, device->scratch);
    device_free(device, device->span_list);
    if (device->stream) {
        device->drv->cuStreamDestroy(device->stream);
    }
    if (device->module) {
        device->drv->cuModuleUnload(device->module);
    }
    device->drv->cuDevicePrimaryCtxRelease(device->id);
    *device = (struct device){0};
}

grs_status device_wait(const struct device *device, grs_error *err) {
    grs_status status = device_use(device, err);
    return status
               ? status
               : device_check(device, device->drv->cuStreamSynchronize(device->stream), "waiting for the stream", err);
}

grs_status device_alloc(const struct device *device, size_t bytes, CUdeviceptr *out, grs_error *err) {
    *out = 0;
    grs_status status = device_use(device, err);
    if (status) {
        return status;
    }
    CUresult result = device->drv->cuMemAlloc(out, bytes);
    return result ? driver_error(device->drv, err, result, "cuMemAlloc(%zu bytes) on GPU %d", bytes, device->ordinal)
                  : GRS_OK;
}

void device_free(const struct device *device, CUdeviceptr pointer) {
    if (pointer && !device_use(device, NULL)) {
        device->drv->cuMemFree(pointer);
    }
}

grs_status device_run(const struct device *device, CUfunction function, int64_t items, void **arguments,
                      grs_error *err) {
    const int64_t most = (int64_t)device->sms * 16; /* the kernels stride over what is left */
    int64_t blocks = (items + 255) / 256;
    blocks = blocks < 1 ? 1 : blocks > most ? most : blocks;
    grs_status status = device_use(device, err);
    return status ? status
                  : device_check(device,
                                 device->drv->cuLaunchKernel(function, (unsigned)blocks, 1, 1, 256, 1, 1, 0,
                                                             device->stream, arguments, NULL),
                                 "cuLaunchKernel of a helper", err);
}

grs_status device_ask(const struct device *device, CUfunction function, int64_t items, void **arguments, void *result,
                      size_t bytes, grs_error *err) {
    const struct driver *drv = device->drv;
    grs_status status = device_use(device, err);
    /* Pageable memory: the call returns when `result` has been read, and later when it has been written. */
    status = status ? status
                    : device_check(device, drv->cuMemcpyHtoDAsync(device->scratch, result, bytes, device->stream),
                                   "cuMemcpyHtoDAsync", err);
    status = status ? status : device_run(device, function, items, arguments, err);
    status = status ? status
                    : device_check(device, drv->cuMemcpyDtoHAsync(result, device->scratch, bytes, device->stream),
                                   "cuMemcpyDtoHAsync", err);
    return status ? status : device_wait(device, err);
}

grs_status device_spin(const struct device *device, uint64_t nanoseconds, grs_error *err) {
    void *arguments[] = {&nanoseconds};
    grs_status status = device_use(device, err);
    return status ? status
                  : device_check(
                        device,
                        device->drv->cuLaunchKernel(device->spin, 1, 1, 1, 1, 1, 1, 0, device->stream, arguments, NULL),
                        "cuLaunchKernel(grsrun_spin)", err);
}

grs_status spans_check(const struct device *device, const struct values_span *spans, size_t count,
                       struct values_damage *out, grs_error *err) {
    *out = (struct values_damage){0, UINT64_MAX};
    if (count > DEVICE_SPANS_MAX) {
        return error_set(err, GRS_ERR_MEMORY, "%zu pieces of memory to check; at most %d", count, DEVICE_SPANS_MAX);
    }
    grs_status status = device_use(device, err);
    status = status ? status
                    : device_check(device,
                                   device->drv->cuMemcpyHtoDAsync(device->span_list, spans, count * sizeof(*spans),
                                                                  device->stream),
                                   "cuMemcpyHtoDAsync", err);
    int64_t words = 0;
    for (size_t i = 0; i < count; i++) {
        words += (int64_t)spans[i].words;
    }
    int32_t spans_given = (int32_t)count;
    CUdeviceptr list = device->span_list, scratch = device->scratch;
    void *arguments[] = {&list, &spans_given, &scratch};
    return status ? status : device_ask(device, device->spans, words, arguments, out, sizeof(*out), err);
}

/* ---------------------------------------------------------------- matrices -------------------------------------- */

grs_status matrix_make(const struct device *device, enum values_operand operand, int64_t rows, int64_t columns,
                       int64_t ld, int64_t guard, struct matrix *out, grs_error *err) {
    *out = (struct matrix){.device = device,
                           .layout = {.operand = operand,
                                      .rows = rows,
                                      .columns = columns,
                                      .ld = ld,
                                      .lead = guard,
                                      .total = rows * ld + 2 * guard}};
    return rows ? device_alloc(device, (size_t)out->layout.total * sizeof(uint16_t), &out->buffer, err) : GRS_OK;
}

void matrix_free(struct matrix *matrix) {
    if (matrix->buffer) {
        device_free(matrix->device, matrix->buffer);
    }
    *matrix = (struct matrix){0};
}

void *matrix_data(const struct matrix *matrix) {
    return matrix->buffer ? (void *)(uintptr_t)(matrix->buffer + (size_t)matrix->layout.lead * sizeof(uint16_t)) : NULL;
}

grs_status matrix_fill(struct matrix *matrix, uint64_t seed, int rank, enum values_mode mode, uint32_t threshold,
                       grs_error *err) {
    struct values_matrix *layout = &matrix->layout;
    layout->key = values_key(seed, layout->operand, rank);
    layout->mode = mode;
    layout->threshold = threshold;
    void *arguments[] = {layout, &matrix->buffer};
    return matrix->buffer ? device_run(matrix->device, matrix->device->fill, layout->total, arguments, err) : GRS_OK;
}

grs_status matrix_check(const struct matrix *matrix, struct values_damage *out, grs_error *err) {
    *out = (struct values_damage){0, UINT64_MAX};
    struct matrix copy = *matrix;
    CUdeviceptr scratch = matrix->buffer ? matrix->device->scratch : 0;
    void *arguments[] = {&copy.layout, &copy.buffer, &scratch};
    return matrix->buffer
               ? device_ask(matrix->device, matrix->device->check, copy.layout.total, arguments, out, sizeof(*out), err)
               : GRS_OK;
}

grs_status matrix_checksum(const struct matrix *matrix, uint64_t *out, grs_error *err) {
    *out = 0;
    struct matrix copy = *matrix;
    CUdeviceptr scratch = matrix->buffer ? matrix->device->scratch : 0;
    void *arguments[] = {&copy.layout, &copy.buffer, &scratch};
    return matrix->buffer ? device_ask(matrix->device, matrix->device->checksum, copy.layout.rows * copy.layout.columns,
                                       arguments, out, sizeof(*out), err)
                          : GRS_OK;
}

grs_status matrix_read(const struct matrix *matrix, int64_t row, int64_t column, uint16_t *out, grs_error *err) {
    const struct device *device = matrix->device;
    size_t word = (size_t)(matrix->layout.lead + row * matrix->layout.ld + column);
    grs_status status = device_wait(device, err);
    return status ? status
                  : device_check(device,
                                 device->drv->cuMemcpyDtoH(out, matrix->buffer + word * sizeof(*out), sizeof(*out)),
                                 "cuMemcpyDtoH", err);
}
