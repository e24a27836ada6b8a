#include "tests/shim_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct shim shim = {
    .device_count = 2,
    .version = 13000,
    .device = {{132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0},
               {132, 9, 0, 1, 0}},
    .can_access = 1,
    .native_atomics = 1,
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext stack[32];
static _Thread_local int depth;

struct shim *shim_get(void);
struct shim *shim_get(void) {
    return &shim;
}

/* Notes a call; true when this one is to fail. */
static bool fails(const char *name) {
    pthread_mutex_lock(&lock);
    if (shim.call_count < SHIM_MAX_CALLS) {
        shim.calls[shim.call_count] = name;
    }
    shim.call_count++;
    bool counted = shim.fail_at > 0 && (shim.fail_name == NULL || strcmp(shim.fail_name, name) == 0);
    bool failed = counted && --shim.fail_at == 0;
    if (failed) {
        shim.failed_name = name;
    }
    pthread_mutex_unlock(&lock);
    return failed;
}

#define CALL(name)                                                                                                     \
    do {                                                                                                               \
        if (fails(#name)) {                                                                                            \
            return shim.fail_with;                                                                                     \
        }                                                                                                              \
    } while (0)

static void count(int *what, int change) {
    __atomic_fetch_add(what, change, __ATOMIC_RELAXED);
}

static CUcontext context_of(int device) {
    return (CUcontext)(void *)&shim.device[device];
}

static struct shim_device *current(void) {
    return depth > 0 ? (struct shim_device *)(void *)stack[depth - 1] : NULL;
}

/* ---------------------------------------------------------------- device -------------------------------------- */

CUresult cuInit(unsigned int flags) {
    CALL(cuInit);
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version) {
    CALL(cuDriverGetVersion);
    *version = shim.version;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "unknown error";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CALL(cuDeviceGet);
    if (ordinal < 0 || ordinal >= shim.device_count) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count_out) {
    CALL(cuDeviceGetCount);
    *count_out = shim.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    CALL(cuDeviceGetName);
    (void)device;
    strncpy(name, "Shim", (size_t)length);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    CALL(cuDeviceGetUuid);
    memset(uuid, 0, sizeof(*uuid));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "shim-%d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CALL(cuDeviceGetAttribute);
    const struct shim_device *of = &shim.device[device];
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = of->sm_count; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = of->major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = of->minor; break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: *value = !shim.no_sharing; break;
    default: *value = 1; break;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CALL(cuDeviceCanAccessPeer);
    *can = device != peer && shim.can_access;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination) {
    CALL(cuDeviceGetP2PAttribute);
    (void)source;
    (void)destination;
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED ? shim.native_atomics : 1;
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- contexts ------------------------------------ */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CALL(cuDevicePrimaryCtxRetain);
    *context = context_of(device);
    count(&shim.device[device].retained, 1);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CALL(cuDevicePrimaryCtxRelease);
    count(&shim.device[device].retained, -1);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    CALL(cuCtxPushCurrent);
    if (context == NULL || depth == 32) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *context = stack[--depth];
    CALL(cuCtxPopCurrent); /* after the work, so that a failure on demand does not fill the stack */
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    CALL(cuCtxSetCurrent);
    depth = depth == 0 ? 1 : depth;
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    CALL(cuCtxGetCurrent);
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    CALL(cuCtxSynchronize);
    return current() != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
    CALL(cuCtxEnablePeerAccess);
    (void)peer;
    return flags == 0 && current() != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---------------------------------------------------------------- kernels ------------------------------------- */

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    CALL(cuModuleLoadData);
    if (current() == NULL || memcmp(image, "\177ELF", 4) != 0) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    *module = malloc(1);
    count(&shim.live_modules, 1);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    CALL(cuModuleUnload);
    free(module);
    count(&shim.live_modules, -1);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CALL(cuModuleGetFunction);
    if (strncmp(name, "grs_gemm_rs", 11) != 0) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *function = (CUfunction)(void *)module;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    CALL(cuFuncSetAttribute);
    (void)function;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        shim.shared_attribute = value;
    }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes) {
    CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    (void)function;
    (void)threads;
    *blocks = (size_t)shim.shared_attribute >= shared_bytes ? current()->blocks_per_sm : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
    CALL(cuOccupancyMaxActiveClusters);
    (void)function;
    if (config->numAttrs != 1 || config->attrs[0].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int size = (int)config->attrs[0].value.clusterDim.x; /* one processor group holds an odd number of SMs */
    *clusters = current()->sm_count / size * current()->blocks_per_sm - 1;
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank, void *base,
                                const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                const uint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    CALL(cuTensorMapEncodeTiled);
    struct shim_map made = {.base = (uint64_t)(uintptr_t)base,
                            .dims = {dims[0], dims[1]},
                            .stride = strides[0],
                            .box = {box[0], box[1]},
                            .type = (int)type,
                            .rank = (int)rank,
                            .swizzle = (int)swizzle,
                            .promotion = (int)promotion,
                            .fill = (int)fill};
    if (rank != 2 || element_strides[0] != 1 || element_strides[1] != 1 || (made.base & 15) != 0 ||
        (made.stride & 15) != 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || box[0] > 256 || box[1] > 256) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    _Static_assert(sizeof(made) <= sizeof(CUtensorMap), "the description fits into the opaque map");
    memset(map, 0, sizeof(*map));
    memcpy(map, &made, sizeof(made));
    pthread_mutex_lock(&lock);
    if (shim.map_count < SHIM_MAX_MAPS) {
        shim.maps[shim.map_count] = made;
    }
    shim.map_count++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
    CALL(cuLaunchKernelEx);
    if (extra != NULL || current() == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    if (shim.launch_count < 16) {
        struct shim_launch *launch = &shim.launches[shim.launch_count];
        launch->config = *config;
        launch->context = stack[depth - 1];
        launch->function = function;
        if (config->numAttrs > 0) {
            launch->attribute = config->attrs[0];
        }
        memcpy(&launch->args, parameters[0], sizeof(launch->args));
    }
    shim.launch_count++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- memory -------------------------------------- */

struct header { /* before every allocation */
    _Alignas(256) size_t bytes;
};

static void *allocate(size_t bytes, int garbage) {
    struct header *header = aligned_alloc(256, sizeof(*header) + (bytes + 255) / 256 * 256);
    if (header == NULL) {
        return NULL;
    }
    header->bytes = bytes;
    memset(header + 1, garbage, bytes < 65536 ? bytes : 65536); /* what must be zeroed is smaller */
    return header + 1;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    CALL(cuMemAlloc);
    void *memory = current() != NULL && bytes > 0 ? allocate(bytes, 0xA5) : NULL;
    if (memory == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    count(&shim.live_memory, 1);
    __atomic_fetch_add(&shim.live_bytes, bytes, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    CALL(cuMemFree);
    struct header *header = (struct header *)(uintptr_t)pointer - 1;
    count(&shim.live_memory, -1);
    __atomic_fetch_sub(&shim.live_bytes, header->bytes, __ATOMIC_RELAXED);
    free(header);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
    CALL(cuMemHostAlloc);
    if (flags != (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pointer = allocate(bytes, 0xA5);
    count(&shim.live_host, 1);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *pointer) {
    CALL(cuMemFreeHost);
    free((struct header *)pointer - 1);
    count(&shim.live_host, -1);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned int flags) {
    CALL(cuMemHostGetDevicePointer);
    *device = (CUdeviceptr)(uintptr_t)host;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    CALL(cuMemcpyHtoDAsync);
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_VALUE; /* the library may only use streams of its own */
    }
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    CALL(cuMemsetD8Async);
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset((void *)(uintptr_t)to, value, bytes);
    return CUDA_SUCCESS;
}

/* Registered memory is the caller's own: nothing to do but to count. */
CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags) {
    CALL(cuMemHostRegister);
    if (pointer == NULL || bytes == 0 || flags != (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    count(&shim.live_host, 1);
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *pointer) {
    count(&shim.live_host, -1);
    CALL(cuMemHostUnregister);
    return pointer == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    CALL(cuMemcpyHtoD);
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    CALL(cuMemcpyDtoH);
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- memory between processes --------------------- */

/* A handle is an anonymous file: what one process maps, another one sees. Sizes are checked as the driver checks them. */
#define GRANULARITY ((size_t)2 << 20)

static int file_of(CUmemGenericAllocationHandle handle) {
    return (int)handle - 1; /* so that no handle is 0 */
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags which) {
    CALL(cuMemGetAllocationGranularity);
    (void)which;
    *bytes = GRANULARITY;
    return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long flags) {
    CALL(cuMemCreate);
    if (shim.no_sharing || flags != 0 || bytes == 0 || bytes % GRANULARITY != 0 ||
        properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return shim.no_sharing ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    }
    int file = memfd_create("shim", MFD_CLOEXEC);
    char garbage[4096];
    memset(garbage, 0xA5, sizeof(garbage));
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0 || write(file, garbage, sizeof(garbage)) < 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (CUmemGenericAllocationHandle)file + 1;
    count(&shim.live_handles, 1);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    count(&shim.live_handles, -1);
    bool closed = close(file_of(handle)) == 0;
    CALL(cuMemRelease); /* what gives back does so even where it fails on demand */
    return closed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
    CALL(cuMemExportToShareableHandle);
    int file = dup(file_of(handle));
    *(int *)shareable = file;
    return file >= 0 && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS
                                                                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type) {
    CALL(cuMemImportFromShareableHandle);
    int file = dup((int)(intptr_t)shareable);
    if (file < 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = (CUmemGenericAllocationHandle)file + 1;
    count(&shim.live_handles, 1);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr address,
                             unsigned long long flags) {
    CALL(cuMemAddressReserve);
    if (bytes == 0 || bytes % GRANULARITY != 0 || alignment != 0 || address != 0 || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    void *reserved = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *pointer = (CUdeviceptr)(uintptr_t)reserved;
    count(&shim.live_memory, 1);
    return reserved == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    count(&shim.live_memory, -1);
    bool unmapped = munmap((void *)(uintptr_t)pointer, bytes) == 0;
    CALL(cuMemAddressFree);
    return unmapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    CALL(cuMemMap);
    struct stat about;
    if (offset != 0 || flags != 0 || fstat(file_of(handle), &about) != 0 || (size_t)about.st_size != bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    void *mapped = mmap((void *)(uintptr_t)pointer, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_of(handle), 0);
    count(&shim.live_mappings, mapped != MAP_FAILED);
    return mapped == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    void *mapped = mmap((void *)(uintptr_t)pointer, bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    count(&shim.live_mappings, -1);
    CALL(cuMemUnmap);
    return mapped == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t n) {
    CALL(cuMemSetAccess);
    if (n != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
        access->location.type != CU_MEM_LOCATION_TYPE_DEVICE || access->location.id >= shim.device_count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return mprotect((void *)(uintptr_t)pointer, bytes, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                    : CUDA_ERROR_INVALID_VALUE;
}

/* ---------------------------------------------------------------- streams ------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    CALL(cuStreamCreate);
    if (flags != CU_STREAM_NON_BLOCKING || current() == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *stream = malloc(1);
    count(&shim.live_streams, 1);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    CALL(cuStreamDestroy);
    free(stream);
    count(&shim.live_streams, -1);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
    CALL(cuStreamSynchronize);
    return stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamQuery(CUstream stream) {
    CALL(cuStreamQuery);
    return stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---------------------------------------------------------------- what the library does not use ---------------- */

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define UNSUPPORTED(symbol, parameters)                                                                                \
    CUresult symbol parameters;                                                                                        \
    CUresult symbol parameters {                                                                                       \
        CALL(symbol);                                                                                                  \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                               \
    }
UNSUPPORTED(cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))
UNSUPPORTED(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))
UNSUPPORTED(cuCtxGetDevice, (CUdevice * device))
UNSUPPORTED(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned int n, CUjit_option *o, void **v))
UNSUPPORTED(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))
UNSUPPORTED(cuLaunchKernel, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra))
UNSUPPORTED(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument))
UNSUPPORTED(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total_bytes))
UNSUPPORTED(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))
UNSUPPORTED(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))
UNSUPPORTED(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))
UNSUPPORTED(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))
UNSUPPORTED(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t bytes))
UNSUPPORTED(cuMemsetD32_v2, (CUdeviceptr to, unsigned int value, size_t words))
UNSUPPORTED(cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t words, CUstream stream))
UNSUPPORTED(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))
UNSUPPORTED(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status))
UNSUPPORTED(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))
UNSUPPORTED(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
UNSUPPORTED(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))
UNSUPPORTED(cuGraphLaunch, (CUgraphExec exec, CUstream stream))
UNSUPPORTED(cuGraphExecDestroy, (CUgraphExec exec))
UNSUPPORTED(cuGraphDestroy, (CUgraph graph))
UNSUPPORTED(cuEventCreate, (CUevent * event, unsigned int flags))
UNSUPPORTED(cuEventDestroy_v2, (CUevent event))
UNSUPPORTED(cuEventRecord, (CUevent event, CUstream stream))
UNSUPPORTED(cuEventQuery, (CUevent event))
UNSUPPORTED(cuEventSynchronize, (CUevent event))
UNSUPPORTED(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))

/* Every symbol that the library asks for exists here, with the signature that it expects. */
#define SAME_SIGNATURE(member, symbol, parameters)                                                                     \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) parameters), #symbol);
CUDA_API_FUNCTIONS(SAME_SIGNATURE)
