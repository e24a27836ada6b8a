#include "runtime/symm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

static const struct {
    const char *name;
    bool zeroed, shared;
} purposes[SYMM_PURPOSES] = {
    [SYMM_CONTROL] = {"control words", true, true},
    [SYMM_SLOTS] = {"receive slots", false, true},
    [SYMM_MASK] = {"mask", true, true},
    [SYMM_OUTBOX] = {"outbox", false, false},
    [SYMM_GROUPS] = {"group counters", true, false},
    [SYMM_WAITS] = {"wait counters", true, false},
    [SYMM_STAMPS] = {"stamps of launches", true, false},
};

bool symm_is_shared(enum symm_purpose purpose) {
    return purposes[purpose].shared;
}

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
    out->bytes[SYMM_STAMPS] = plan->count_waits ? GRS_STAMPS * sizeof(grs_stamp) : 0;
}

size_t symm_total(const struct symm_sizes *sizes) {
    size_t total = 0;
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        total += sizes->bytes[i];
    }
    return total;
}

/* ---------------------------------------------------------------- virtual memory -------------------------------- */

static void release(const struct driver *drv, struct symm_memory *memory) {
    if (memory->pointer != 0 && memory->mapped != 0) {
        drv->cuMemUnmap(memory->pointer, memory->mapped);
        drv->cuMemAddressFree(memory->pointer, memory->mapped);
    } else if (memory->pointer != 0) {
        drv->cuMemFree(memory->pointer);
    }
    *memory = (struct symm_memory){0};
}

static CUmemAllocationProp sharable_on(CUdevice device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static grs_status round_up(const struct driver *drv, CUdevice device, size_t bytes, size_t *out, grs_error *err) {
    CUmemAllocationProp properties = sharable_on(device);
    size_t unit = 0;
    CUresult result = drv->cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS || unit == 0) {
        return driver_error(drv, err, result, "cuMemGetAllocationGranularity");
    }
    *out = (bytes + unit - 1) / unit * unit;
    return GRS_OK;
}

/* Gives the memory behind a handle an address that `device` may use. */
static grs_status map(const struct driver *drv, CUmemGenericAllocationHandle handle, size_t bytes, CUdevice device,
                      const char *name, struct symm_memory *out, grs_error *err) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr pointer = 0;
    CUresult result = drv->cuMemAddressReserve(&pointer, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuMemAddressReserve(%zu bytes for the %s)", bytes, name);
    }
    result = drv->cuMemMap(pointer, bytes, 0, handle, 0);
    if (result != CUDA_SUCCESS) {
        drv->cuMemAddressFree(pointer, bytes);
        return driver_error(drv, err, result, "cuMemMap(%zu bytes for the %s)", bytes, name);
    }
    result = drv->cuMemSetAccess(pointer, bytes, &access, 1);
    *out = (struct symm_memory){pointer, bytes};
    if (result != CUDA_SUCCESS) {
        release(drv, out);
        return driver_error(drv, err, result,
                            "cuMemSetAccess(%zu bytes for the %s; do these GPUs have peer access: nvidia-smi topo "
                            "-p2p r)",
                            bytes, name);
    }
    return GRS_OK;
}

static grs_status create(const struct driver *drv, CUdevice device, size_t bytes, const char *name,
                         struct symm_memory *out, int *file, grs_error *err) {
    CUmemAllocationProp properties = sharable_on(device);
    CUmemGenericAllocationHandle handle;
    size_t rounded;
    grs_status status = round_up(drv, device, bytes, &rounded, err);
    if (status != GRS_OK) {
        return status;
    }
    CUresult result = drv->cuMemCreate(&handle, rounded, &properties, 0);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuMemCreate(%zu bytes for the %s)", rounded, name);
    }
    result = drv->cuMemExportToShareableHandle(file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS) {
        *file = -1;
        status = driver_error(drv, err, result, "cuMemExportToShareableHandle(%zu bytes for the %s)", rounded, name);
    } else {
        status = map(drv, handle, rounded, device, name, out, err);
    }
    drv->cuMemRelease(handle); /* the mapping keeps the memory */
    return status;
}

/* ---------------------------------------------------------------- fresh memory ---------------------------------- */

void symm_fresh_init(struct symm_fresh *fresh) {
    memset(fresh, 0, sizeof(*fresh));
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        fresh->file[i] = -1;
    }
}

static grs_status zero(const struct driver *drv, CUdeviceptr pointer, size_t bytes, CUstream stream, const char *name,
                       grs_error *err) {
    CUresult result = drv->cuMemsetD8Async(pointer, 0, bytes, stream);
    if (result == CUDA_SUCCESS) {
        result = drv->cuStreamSynchronize(stream);
    }
    return result == CUDA_SUCCESS ? GRS_OK
                                  : driver_error(drv, err, result, "cuMemsetD8Async(%zu bytes, the %s)", bytes, name);
}

/* The node that will keep what is replaced, so that a commit needs no memory. */
static grs_status make_room(const struct symm *symm, enum symm_purpose purpose, struct symm_fresh *out,
                            grs_error *err) {
    if (symm->pointer[purpose] != 0 && (out->retired[purpose] = malloc(sizeof(struct symm_block))) == NULL) {
        return error_set(err, GRS_ERR_MEMORY, "out of host memory growing the %s", purposes[purpose].name);
    }
    return GRS_OK;
}

static grs_status stage_one(const struct driver *drv, const struct symm *symm, enum symm_purpose purpose, size_t bytes,
                            const CUdevice *sharing, CUstream stream, struct symm_fresh *out, grs_error *err) {
    const char *name = purposes[purpose].name;
    struct symm_memory *memory = &out->memory[purpose];
    if (bytes <= symm->sizes.bytes[purpose]) {
        return GRS_OK;
    }
    grs_status status = make_room(symm, purpose, out, err);
    if (status != GRS_OK) {
        return status;
    }
    out->bytes[purpose] = bytes;
    if (sharing != NULL && purposes[purpose].shared) {
        status = create(drv, *sharing, bytes, name, memory, &out->file[purpose], err);
    } else {
        CUresult result = drv->cuMemAlloc(&memory->pointer, bytes);
        if (result != CUDA_SUCCESS) {
            memory->pointer = 0;
            status = driver_error(drv, err, result, "cuMemAlloc(%zu bytes for the %s)", bytes, name);
        }
    }
    return status == GRS_OK && purposes[purpose].zeroed ? zero(drv, memory->pointer, bytes, stream, name, err) : status;
}

grs_status symm_stage(const struct driver *drv, const struct symm *symm, const struct symm_sizes *wanted,
                      const CUdevice *sharing, CUstream stream, struct symm_fresh *out, grs_error *err) {
    grs_status status = GRS_OK;
    symm_fresh_init(out);
    for (int i = 0; i < SYMM_PURPOSES && status == GRS_OK; i++) {
        status = stage_one(drv, symm, (enum symm_purpose)i, wanted->bytes[i], sharing, stream, out, err);
    }
    if (status != GRS_OK) {
        symm_discard(drv, out);
    }
    return status;
}

grs_status symm_import(const struct driver *drv, const struct symm *symm, enum symm_purpose purpose, size_t bytes,
                       int file, CUdevice device, struct symm_fresh *out, grs_error *err) {
    const char *name = purposes[purpose].name;
    CUmemGenericAllocationHandle handle;
    size_t rounded;
    grs_status status = make_room(symm, purpose, out, err);
    if (status != GRS_OK || (status = round_up(drv, device, bytes, &rounded, err)) != GRS_OK) {
        return status;
    }
    /* The driver takes the number in place of a pointer. */
    CUresult result = drv->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); // NOLINT
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result, "cuMemImportFromShareableHandle(%zu bytes, the %s)", rounded, name);
    }
    out->bytes[purpose] = bytes;
    status = map(drv, handle, rounded, device, name, &out->memory[purpose], err);
    drv->cuMemRelease(handle);
    return status;
}

void symm_commit(struct symm *symm, struct symm_fresh *fresh) {
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        if (fresh->file[i] >= 0) {
            close(fresh->file[i]);
        }
        if (fresh->memory[i].pointer == 0) {
            free(fresh->retired[i]);
            continue;
        }
        if (fresh->retired[i] != NULL) {
            *fresh->retired[i] = (struct symm_block){{symm->pointer[i], symm->mapped[i]}, symm->retired};
            symm->retired = fresh->retired[i];
        }
        symm->pointer[i] = fresh->memory[i].pointer;
        symm->mapped[i] = fresh->memory[i].mapped;
        symm->sizes.bytes[i] = fresh->bytes[i];
    }
    symm_fresh_init(fresh);
}

void symm_discard(const struct driver *drv, struct symm_fresh *fresh) {
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        release(drv, &fresh->memory[i]);
        free(fresh->retired[i]);
        if (fresh->file[i] >= 0) {
            close(fresh->file[i]);
        }
    }
    symm_fresh_init(fresh);
}

/* ---------------------------------------------------------------- in use ---------------------------------------- */

grs_status symm_grow(const struct driver *drv, struct symm *symm, const struct symm_sizes *wanted, CUstream stream,
                     grs_error *err) {
    struct symm_fresh fresh;
    grs_status status = symm_stage(drv, symm, wanted, NULL, stream, &fresh, err);
    if (status == GRS_OK) {
        symm_commit(symm, &fresh);
    }
    return status;
}

void symm_free(const struct driver *drv, struct symm *symm) {
    for (int i = 0; i < SYMM_PURPOSES; i++) {
        release(drv, &(struct symm_memory){symm->pointer[i], symm->mapped[i]});
    }
    while (symm->retired != NULL) {
        struct symm_block *next = symm->retired->next;
        release(drv, &symm->retired->memory);
        free(symm->retired);
        symm->retired = next;
    }
    memset(symm, 0, sizeof(*symm));
}
