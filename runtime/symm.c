#include "runtime/symm.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

static const struct {
    const char *name;
    bool zeroed;
} purposes[SYMM_PURPOSES] = {
    [SYMM_CONTROL] = {"control words", true},
    [SYMM_SLOTS] = {"receive slots", false},
    [SYMM_MASK] = {"mask", true},
    [SYMM_OUTBOX] = {"outbox", false},
    [SYMM_GROUPS] = {"group counters", true},
    [SYMM_WAITS] = {"wait counters", true},
};

const char *symm_purpose_name(enum symm_purpose purpose) {
    return purposes[purpose].name;
}

void symm_sizes_of(const struct plan *plan, int64_t max_M, int grid, struct symm_sizes *out) {
    struct plan_memory memory;
    plan_memory_of(plan, max_M, grid, &memory);
    memset(out, 0, sizeof(*out));
    out->bytes[SYMM_CONTROL] = SYMM_EVERYONE_OFFSET + (size_t)plan->shape.tp * sizeof(CUdeviceptr);
    out->bytes[SYMM_SLOTS] = (size_t)memory.slots;
    out->bytes[SYMM_MASK] = (size_t)memory.mask;
    out->bytes[SYMM_OUTBOX] = (size_t)memory.outbox;
    out->bytes[SYMM_GROUPS] = (size_t)memory.groups;
    out->bytes[SYMM_WAITS] = plan->count_waits ? (size_t)grid * SYMM_WAITS_A_CTA * sizeof(uint64_t) : 0;
}

size_t symm_total(const struct symm_sizes *sizes) {
    size_t total = 0;
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        total += sizes->bytes[i];
    }
    return total;
}

static grs_status grow_one(const struct driver *drv, struct symm *symm, enum symm_purpose purpose, size_t bytes,
                           CUstream stream, grs_error *err) {
    grs_status status = GRS_OK;
    CUdeviceptr fresh = 0;
    struct symm_block *retired = NULL;
    CUresult result;
    if (bytes <= symm->sizes.bytes[purpose]) {
        return GRS_OK;
    }
    if (symm->pointer[purpose] != 0 && (retired = malloc(sizeof(*retired))) == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of host memory growing the %s", purposes[purpose].name);
    }
    result = drv->cuMemAlloc(&fresh, bytes);
    if (result != CUDA_SUCCESS) {
        status = driver_error(drv, err, result, "cuMemAlloc(%zu bytes for the %s)", bytes, purposes[purpose].name);
        goto done;
    }
    if (purposes[purpose].zeroed) {
        result = drv->cuMemsetD8Async(fresh, 0, bytes, stream);
        if (result == CUDA_SUCCESS) {
            result = drv->cuStreamSynchronize(stream);
        }
        if (result != CUDA_SUCCESS) {
            status =
                driver_error(drv, err, result, "cuMemsetD8Async(%zu bytes, the %s)", bytes, purposes[purpose].name);
            goto done;
        }
    }
    if (retired != NULL) {
        retired->pointer = symm->pointer[purpose];
        retired->next = symm->retired;
        symm->retired = retired;
        retired = NULL;
    }
    symm->pointer[purpose] = fresh;
    symm->sizes.bytes[purpose] = bytes;
    fresh = 0;
done:
    if (fresh != 0) {
        drv->cuMemFree(fresh);
    }
    free(retired);
    return status;
}

grs_status symm_grow(const struct driver *drv, struct symm *symm, const struct symm_sizes *wanted, CUstream stream,
                     grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < SYMM_PURPOSES && status == GRS_OK; i++) {
        status = grow_one(drv, symm, (enum symm_purpose)i, wanted->bytes[i], stream, err);
    }
    return status;
}

void symm_free(const struct driver *drv, struct symm *symm) {
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        if (symm->pointer[i] != 0) {
            drv->cuMemFree(symm->pointer[i]);
        }
    }
    while (symm->retired != NULL) {
        struct symm_block *next = symm->retired->next;
        drv->cuMemFree(symm->retired->pointer);
        free(symm->retired);
        symm->retired = next;
    }
    memset(symm, 0, sizeof(*symm));
}
