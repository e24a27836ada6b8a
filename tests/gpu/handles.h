/* Counts what is open in the CUDA driver, by wrapping those of its functions that make and end things. */
#ifndef GRS_TESTS_GPU_HANDLES_H
#define GRS_TESTS_GPU_HANDLES_H

#include "runtime/driver.h"

#define HANDLE_KINDS(X)                                                                                                \
    X(memory, cuMemAlloc, (CUdeviceptr * pointer, size_t bytes), (pointer, bytes), cuMemFree, CUdeviceptr)             \
    X(pinned, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned int flags), (pointer, bytes, flags),             \
      cuMemFreeHost, void *)                                                                                           \
    X(streams, cuStreamCreate, (CUstream * stream, unsigned int flags), (stream, flags), cuStreamDestroy, CUstream)    \
    X(events, cuEventCreate, (CUevent * event, unsigned int flags), (event, flags), cuEventDestroy, CUevent)           \
    X(modules, cuModuleLoadData, (CUmodule * module, const void *image), (module, image), cuModuleUnload, CUmodule)    \
    X(contexts, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device),                   \
      cuDevicePrimaryCtxRelease, CUdevice)

struct handles {
#define HANDLE_MEMBER(kind, open, parameters, arguments, close, type) int kind;
    HANDLE_KINDS(HANDLE_MEMBER)
#undef HANDLE_MEMBER
};

static struct handles handles_open;
static struct driver handles_real;

#define HANDLE_WRAPPERS(kind, open, parameters, arguments, close, type)                                                \
    static CUresult counted_##open parameters {                                                                        \
        CUresult result = handles_real.open arguments;                                                                 \
        handles_open.kind += result == CUDA_SUCCESS;                                                                   \
        return result;                                                                                                 \
    }                                                                                                                  \
    static CUresult counted_##close(type handle) {                                                                     \
        CUresult result = handles_real.close(handle);                                                                  \
        handles_open.kind -= result == CUDA_SUCCESS;                                                                   \
        return result;                                                                                                 \
    }
HANDLE_KINDS(HANDLE_WRAPPERS)
#undef HANDLE_WRAPPERS

/* From here on; calls come from one thread. */
static inline void handles_count(const struct driver *drv) {
    struct driver *table = (struct driver *)drv; /* const for users of the library, and its one table */
    handles_real = *drv;
#define HANDLE_REPLACE(kind, open, parameters, arguments, close, type)                                                 \
    table->open = counted_##open;                                                                                      \
    table->close = counted_##close;
    HANDLE_KINDS(HANDLE_REPLACE)
#undef HANDLE_REPLACE
}

#endif
