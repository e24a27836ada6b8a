/* A GPU as grsrun uses it: its primary context, one stream, the helper kernels, and matrices in its memory. */
#ifndef GRS_TOOLS_GRSRUN_DEVICE_H
#define GRS_TOOLS_GRSRUN_DEVICE_H

#include "generator/config.h"
#include "runtime/driver.h"
#include "tools/grsrun_values.h"

struct device {
    const struct driver *drv;
    int ordinal;
    CUdevice id;
    CUcontext context;
    CUmodule module;
    CUfunction fill, check, spans, checksum, reference, add_nodes, compare, spin, push, clock;
    CUstream stream;       /* everything on this device is ordered by it */
    CUdeviceptr scratch;   /* DEVICE_SCRATCH_BYTES for a helper kernel's result */
    CUdeviceptr span_list; /* DEVICE_SPANS_MAX spans, for spans_check */
    int sms;
    int64_t l2_bytes;
    char name[128];
};
#define DEVICE_SCRATCH_BYTES 256
#define DEVICE_SPANS_MAX     8192

/* The arch that kernels for this device are made for; GRS_ERR_UNSUPPORTED: there is none. */
grs_status device_arch(const struct driver *drv, int ordinal, enum arch *out, grs_error *err);

grs_status device_open(const struct driver *drv, int ordinal, const void *helpers, struct device *out, grs_error *err);
void device_close(struct device *device);

/* Makes the device's context current; every call below does so by itself. */
grs_status device_use(const struct device *device, grs_error *err);
/* GRS_OK, or an error that names `what` and the GPU. */
grs_status device_check(const struct device *device, CUresult result, const char *what, grs_error *err);
/* Waits for the device's stream. */
grs_status device_wait(const struct device *device, grs_error *err);
grs_status device_alloc(const struct device *device, size_t bytes, CUdeviceptr *out, grs_error *err);
void device_free(const struct device *device, CUdeviceptr pointer);

/* A helper kernel over `items` items, 256 threads a block and as many blocks as are useful; `arguments` as for
 * cuLaunchKernel. */
grs_status device_run(const struct device *device, CUfunction function, int64_t items, void **arguments,
                      grs_error *err);
/* The same, followed by a copy of the first `bytes` of scratch to the host; waits. Scratch starts as `result` is. */
grs_status device_ask(const struct device *device, CUfunction function, int64_t items, void **arguments, void *result,
                      size_t bytes, grs_error *err);
/* A kernel that does nothing for so long. */
grs_status device_spin(const struct device *device, uint64_t nanoseconds, grs_error *err);

/* Looks through spans of this device's memory, at most DEVICE_SPANS_MAX; `first` of the damage as in values.h. Waits. */
grs_status spans_check(const struct device *device, const struct values_span *spans, size_t count,
                       struct values_damage *out, grs_error *err);

/* A matrix in device memory, surrounded by guard words. Zero-initialise; free with matrix_free. */
struct matrix {
    const struct device *device;
    struct values_matrix layout;
    CUdeviceptr buffer; /* layout.total words; 0: the matrix has no row */
};

/* Reserves memory for rows × columns with leading dimension `ld` and `guard` words on either side. Nothing is written. */
grs_status matrix_make(const struct device *device, enum values_operand operand, int64_t rows, int64_t columns,
                       int64_t ld, int64_t guard, struct matrix *out, grs_error *err);
void matrix_free(struct matrix *matrix);
/* The first element; NULL for a matrix without rows. */
void *matrix_data(const struct matrix *matrix);
/* Writes the whole buffer: elements (an operand's; a D gets poison) and what surrounds them. */
grs_status matrix_fill(struct matrix *matrix, uint64_t seed, int rank, enum values_mode mode, uint32_t threshold,
                       grs_error *err);
/* Words that are no longer what matrix_fill wrote, a D's elements excepted. Waits. */
grs_status matrix_check(const struct matrix *matrix, struct values_damage *out, grs_error *err);
/* A number that depends on every bit of the elements. Waits. */
grs_status matrix_checksum(const struct matrix *matrix, uint64_t *out, grs_error *err);
/* One element's word. Waits. */
grs_status matrix_read(const struct matrix *matrix, int64_t row, int64_t column, uint16_t *out, grs_error *err);

#endif
