/* The part of the CUDA driver API that this project uses, in declarations of its own: no CUDA header at build time and no
 * CUDA library at link time. Names and values are those of NVIDIA's interface, so that the driver's manual applies.
 *
 * Everything that could be mistyped stands in a list: constants, layouts and function signatures. tests/test_cuda_api.c
 * includes a real <cuda.h> first, where there is one (CUDA_VERSION is defined then, and no type is declared here), and
 * compares the lists with it. */
#ifndef GRS_RUNTIME_CUDA_API_H
#define GRS_RUNTIME_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* X(name, value) */
#define CUDA_API_RESULTS(X)                                                                                            \
    X(CUDA_SUCCESS, 0)                                                                                                 \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                                     \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                                     \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                                                   \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                                     \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                                       \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                                                  \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                                                 \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                                               \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217)                                                                         \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                                                  \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                                       \
    X(CUDA_ERROR_NOT_READY, 600)                                                                                       \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                                                 \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                                                                         \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                                                  \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                                                                     \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                                                   \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                                                                                   \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                                                   \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                                      \
    X(CUDA_ERROR_UNKNOWN, 999)

#define CUDA_API_DEVICE_ATTRIBUTES(X)                                                                                  \
    X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                                                              \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                                                            \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                                                       \
    X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                                                                           \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                                                                      \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                                \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                                \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                                                       \
    X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)                                                    \
    X(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)                                            \
    X(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 120)                                                                         \
    X(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 127)                                                            \
    X(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 132)

#define CUDA_API_P2P_ATTRIBUTES(X)                                                                                     \
    X(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 1)                                                                     \
    X(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 2)                                                                     \
    X(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 3)

#define CUDA_API_FUNCTION_ATTRIBUTES(X)                                                                                \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                                      \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                                          \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                                                           \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                                                   \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                                              \
    X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 14)

#define CUDA_API_LAUNCH_ATTRIBUTES(X)                                                                                  \
    X(CU_LAUNCH_ATTRIBUTE_IGNORE, 0)                                                                                   \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                                                                              \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                                                                        \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)                                                        \
    X(CU_LAUNCH_ATTRIBUTE_PRIORITY, 8)

#define CUDA_API_JIT_OPTIONS(X)                                                                                        \
    X(CU_JIT_INFO_LOG_BUFFER, 3)                                                                                       \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                                                                            \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                                      \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)

#define CUDA_API_TENSOR_DATA_TYPES(X)                                                                                  \
    X(CU_TENSOR_MAP_DATA_TYPE_UINT8, 0)                                                                                \
    X(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 9)
#define CUDA_API_TENSOR_INTERLEAVES(X) X(CU_TENSOR_MAP_INTERLEAVE_NONE, 0)
#define CUDA_API_TENSOR_SWIZZLES(X)                                                                                    \
    X(CU_TENSOR_MAP_SWIZZLE_NONE, 0)                                                                                   \
    X(CU_TENSOR_MAP_SWIZZLE_32B, 1)                                                                                    \
    X(CU_TENSOR_MAP_SWIZZLE_64B, 2)                                                                                    \
    X(CU_TENSOR_MAP_SWIZZLE_128B, 3)
#define CUDA_API_TENSOR_PROMOTIONS(X)                                                                                  \
    X(CU_TENSOR_MAP_L2_PROMOTION_NONE, 0)                                                                              \
    X(CU_TENSOR_MAP_L2_PROMOTION_L2_128B, 2)                                                                           \
    X(CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 3)
#define CUDA_API_TENSOR_FILLS(X) X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, 0)

#define CUDA_API_CAPTURE_MODES(X)                                                                                      \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                                                \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                                          \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)
#define CUDA_API_CAPTURE_STATUSES(X)                                                                                   \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                                                \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                                              \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define CUDA_API_COPY_TYPES(X) X(CU_MEMORYTYPE_DEVICE, 2)
#define CUDA_API_MEMORY_HANDLE_TYPES(X)                                                                                \
    X(CU_MEM_HANDLE_TYPE_NONE, 0)                                                                                      \
    X(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)
#define CUDA_API_MEMORY_TYPES(X)     X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)
#define CUDA_API_MEMORY_LOCATIONS(X) X(CU_MEM_LOCATION_TYPE_DEVICE, 1)
#define CUDA_API_MEMORY_ACCESSES(X)                                                                                    \
    X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0)                                                                                \
    X(CU_MEM_ACCESS_FLAGS_PROT_READ, 1)                                                                                \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)
#define CUDA_API_MEMORY_GRANULARITIES(X)                                                                               \
    X(CU_MEM_ALLOC_GRANULARITY_MINIMUM, 0)                                                                             \
    X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1)

/* Bits, passed as unsigned int. */
#define CUDA_API_FLAGS(X)                                                                                              \
    X(CU_STREAM_DEFAULT, 0)                                                                                            \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                                       \
    X(CU_EVENT_DEFAULT, 0)                                                                                             \
    X(CU_EVENT_BLOCKING_SYNC, 1)                                                                                       \
    X(CU_EVENT_DISABLE_TIMING, 2)

#ifndef CUDA_VERSION

#define CU_MEMHOSTALLOC_PORTABLE     1
#define CU_MEMHOSTALLOC_DEVICEMAP    2
#define CU_MEMHOSTREGISTER_PORTABLE  1
#define CU_MEMHOSTREGISTER_DEVICEMAP 2

#define CUDA_API_ENUM(name, value) name = value,
typedef enum CUresult { CUDA_API_RESULTS(CUDA_API_ENUM) } CUresult;
typedef enum CUdevice_attribute { CUDA_API_DEVICE_ATTRIBUTES(CUDA_API_ENUM) } CUdevice_attribute;
typedef enum CUdevice_P2PAttribute { CUDA_API_P2P_ATTRIBUTES(CUDA_API_ENUM) } CUdevice_P2PAttribute;
typedef enum CUfunction_attribute { CUDA_API_FUNCTION_ATTRIBUTES(CUDA_API_ENUM) } CUfunction_attribute;
typedef enum CUlaunchAttributeID { CUDA_API_LAUNCH_ATTRIBUTES(CUDA_API_ENUM) } CUlaunchAttributeID;
typedef enum CUjit_option { CUDA_API_JIT_OPTIONS(CUDA_API_ENUM) } CUjit_option;
typedef enum CUtensorMapDataType { CUDA_API_TENSOR_DATA_TYPES(CUDA_API_ENUM) } CUtensorMapDataType;
typedef enum CUtensorMapInterleave { CUDA_API_TENSOR_INTERLEAVES(CUDA_API_ENUM) } CUtensorMapInterleave;
typedef enum CUtensorMapSwizzle { CUDA_API_TENSOR_SWIZZLES(CUDA_API_ENUM) } CUtensorMapSwizzle;
typedef enum CUtensorMapL2promotion { CUDA_API_TENSOR_PROMOTIONS(CUDA_API_ENUM) } CUtensorMapL2promotion;
typedef enum CUtensorMapFloatOOBfill { CUDA_API_TENSOR_FILLS(CUDA_API_ENUM) } CUtensorMapFloatOOBfill;
typedef enum CUstreamCaptureMode { CUDA_API_CAPTURE_MODES(CUDA_API_ENUM) } CUstreamCaptureMode;
typedef enum CUstreamCaptureStatus { CUDA_API_CAPTURE_STATUSES(CUDA_API_ENUM) } CUstreamCaptureStatus;
typedef enum CUmemorytype { CUDA_API_COPY_TYPES(CUDA_API_ENUM) } CUmemorytype;
typedef enum CUmemAllocationHandleType { CUDA_API_MEMORY_HANDLE_TYPES(CUDA_API_ENUM) } CUmemAllocationHandleType;
typedef enum CUmemAllocationType { CUDA_API_MEMORY_TYPES(CUDA_API_ENUM) } CUmemAllocationType;
typedef enum CUmemLocationType { CUDA_API_MEMORY_LOCATIONS(CUDA_API_ENUM) } CUmemLocationType;
typedef enum CUmemAccess_flags { CUDA_API_MEMORY_ACCESSES(CUDA_API_ENUM) } CUmemAccess_flags;
typedef enum CUmemAllocationGranularity_flags {
    CUDA_API_MEMORY_GRANULARITIES(CUDA_API_ENUM)
} CUmemAllocationGranularity_flags;
enum cuda_api_flags { CUDA_API_FLAGS(CUDA_API_ENUM) };
#undef CUDA_API_ENUM

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef void (*CUhostFn)(void *userData);

typedef struct CUuuid {
    char bytes[16];
} CUuuid;

typedef struct CUtensorMap {
    _Alignas(64) uint64_t opaque[16];
} CUtensorMap;

/* The members that are used; `pad` keeps the size. */
typedef union CUlaunchAttributeValue {
    char pad[64];
    int cooperative;
    struct {
        unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
    int priority;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUDA_MEMCPY2D {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

typedef struct CUmemLocation {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef struct CUmemAllocationProp {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

#endif /* CUDA_VERSION */

/* X(type, bytes) and Y(type, member, offset) */
#define CUDA_API_SIZES(X)                                                                                              \
    X(CUuuid, 16)                                                                                                      \
    X(CUtensorMap, 128)                                                                                                \
    X(CUlaunchAttribute, 72)                                                                                           \
    X(CUlaunchConfig, 56)                                                                                              \
    X(CUDA_MEMCPY2D, 128)                                                                                              \
    X(CUmemLocation, 8)                                                                                                \
    X(CUmemAllocationProp, 32)                                                                                         \
    X(CUmemAccessDesc, 12)                                                                                             \
    X(CUresult, 4)                                                                                                     \
    X(CUdeviceptr, 8)

#define CUDA_API_OFFSETS(Y)                                                                                            \
    Y(CUlaunchAttribute, id, 0)                                                                                        \
    Y(CUlaunchAttribute, value, 8)                                                                                     \
    Y(CUlaunchAttribute, value.clusterDim.x, 8)                                                                        \
    Y(CUlaunchAttribute, value.clusterDim.z, 16)                                                                       \
    Y(CUlaunchAttribute, value.cooperative, 8)                                                                         \
    Y(CUlaunchAttribute, value.programmaticStreamSerializationAllowed, 8)                                              \
    Y(CUlaunchConfig, gridDimX, 0)                                                                                     \
    Y(CUlaunchConfig, blockDimX, 12)                                                                                   \
    Y(CUlaunchConfig, sharedMemBytes, 24)                                                                              \
    Y(CUlaunchConfig, hStream, 32)                                                                                     \
    Y(CUlaunchConfig, attrs, 40)                                                                                       \
    Y(CUlaunchConfig, numAttrs, 48)                                                                                    \
    Y(CUDA_MEMCPY2D, srcDevice, 32)                                                                                    \
    Y(CUDA_MEMCPY2D, srcPitch, 48)                                                                                     \
    Y(CUDA_MEMCPY2D, dstMemoryType, 72)                                                                                \
    Y(CUDA_MEMCPY2D, dstDevice, 88)                                                                                    \
    Y(CUDA_MEMCPY2D, dstPitch, 104)                                                                                    \
    Y(CUDA_MEMCPY2D, Height, 120)                                                                                      \
    Y(CUmemAllocationProp, requestedHandleTypes, 4)                                                                    \
    Y(CUmemAllocationProp, location, 8)                                                                                \
    Y(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable, 25)                                                        \
    Y(CUmemAllocationProp, allocFlags.usage, 26)                                                                       \
    Y(CUmemAccessDesc, flags, 8)

#define CUDA_API_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type ": wrong size");
#define CUDA_API_ASSERT_OFFSET(type, member, offset)                                                                   \
    _Static_assert(offsetof(type, member) == (offset), #type "." #member ": wrong offset");
CUDA_API_SIZES(CUDA_API_ASSERT_SIZE)
CUDA_API_OFFSETS(CUDA_API_ASSERT_OFFSET)
#undef CUDA_API_ASSERT_SIZE
#undef CUDA_API_ASSERT_OFFSET

/* X(member of struct driver, symbol in the library, parameters): every one returns CUresult. */
#define CUDA_API_FUNCTIONS(X)                                                                                          \
    X(cuInit, cuInit, (unsigned int flags))                                                                            \
    X(cuDriverGetVersion, cuDriverGetVersion, (int *version))                                                          \
    X(cuGetErrorName, cuGetErrorName, (CUresult error, const char **text))                                             \
    X(cuGetErrorString, cuGetErrorString, (CUresult error, const char **text))                                         \
    X(cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                                                      \
    X(cuDeviceGetCount, cuDeviceGetCount, (int *count))                                                                \
    X(cuDeviceGetName, cuDeviceGetName, (char *name, int length, CUdevice device))                                     \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))         \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                           \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *id, int length, CUdevice device))                               \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                        \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))                        \
    X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute,                                                                \
      (int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination))                            \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                      \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                      \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))                                                      \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context))                                                      \
    X(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext context))                                                           \
    X(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext * context))                                                         \
    X(cuCtxGetDevice, cuCtxGetDevice, (CUdevice * device))                                                             \
    X(cuCtxSynchronize, cuCtxSynchronize, (void))                                                                      \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))                              \
    X(cuModuleLoadData, cuModuleLoadData, (CUmodule * module, const void *image))                                      \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx,                                                                          \
      (CUmodule * module, const void *image, unsigned int count, CUjit_option *options, void **values))                \
    X(cuModuleUnload, cuModuleUnload, (CUmodule module))                                                               \
    X(cuModuleGetFunction, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))            \
    X(cuFuncGetAttribute, cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))       \
    X(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))        \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,                        \
      (int *blocks, CUfunction function, int threads, size_t shared_bytes))                                            \
    X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters,                                                      \
      (int *clusters, CUfunction function, const CUlaunchConfig *config))                                              \
    X(cuLaunchKernel, cuLaunchKernel,                                                                                  \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,       \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters,      \
       void **extra))                                                                                                  \
    X(cuLaunchKernelEx, cuLaunchKernelEx,                                                                              \
      (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))                            \
    X(cuLaunchHostFunc, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument))                        \
    X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled,                                                                  \
      (CUtensorMap * map, CUtensorMapDataType type, uint32_t rank, void *base, const uint64_t *dims,                   \
       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,                                  \
       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,                 \
       CUtensorMapFloatOOBfill fill))                                                                                  \
    X(cuMemGetInfo, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                      \
    X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))                                                \
    X(cuMemFree, cuMemFree_v2, (CUdeviceptr pointer))                                                                  \
    X(cuMemHostAlloc, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned int flags))                              \
    X(cuMemFreeHost, cuMemFreeHost, (void *pointer))                                                                   \
    X(cuMemHostRegister, cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned int flags))                      \
    X(cuMemHostUnregister, cuMemHostUnregister, (void *pointer))                                                       \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr * device, void *host, unsigned int flags)) \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                                 \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                       \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                 \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))      \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))            \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))      \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))                               \
    X(cuMemsetD8, cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count))                                  \
    X(cuMemsetD32, cuMemsetD32_v2, (CUdeviceptr to, unsigned int value, size_t count))                                 \
    X(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))          \
    X(cuMemsetD32Async, cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream))         \
    X(cuMemCreate, cuMemCreate,                                                                                        \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,                     \
       unsigned long long flags))                                                                                      \
    X(cuMemRelease, cuMemRelease, (CUmemGenericAllocationHandle handle))                                               \
    X(cuMemAddressReserve, cuMemAddressReserve,                                                                        \
      (CUdeviceptr * pointer, size_t bytes, size_t alignment, CUdeviceptr address, unsigned long long flags))          \
    X(cuMemAddressFree, cuMemAddressFree, (CUdeviceptr pointer, size_t bytes))                                         \
    X(cuMemMap, cuMemMap,                                                                                              \
      (CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,                          \
       unsigned long long flags))                                                                                      \
    X(cuMemUnmap, cuMemUnmap, (CUdeviceptr pointer, size_t bytes))                                                     \
    X(cuMemSetAccess, cuMemSetAccess,                                                                                  \
      (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count))                                \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                                                    \
      (size_t * bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags which))                 \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                                                      \
      (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,                           \
       unsigned long long flags))                                                                                      \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,                                                  \
      (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type))                        \
    X(cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned int flags))                                         \
    X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))                                                          \
    X(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))                                                     \
    X(cuStreamQuery, cuStreamQuery, (CUstream stream))                                                                 \
    X(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))                      \
    X(cuStreamIsCapturing, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                     \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                      \
    X(cuStreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                      \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,                                                        \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                                   \
    X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                               \
    X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec exec))                                                      \
    X(cuGraphDestroy, cuGraphDestroy, (CUgraph graph))                                                                 \
    X(cuEventCreate, cuEventCreate, (CUevent * event, unsigned int flags))                                             \
    X(cuEventDestroy, cuEventDestroy_v2, (CUevent event))                                                              \
    X(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))                                                  \
    X(cuEventQuery, cuEventQuery, (CUevent event))                                                                     \
    X(cuEventSynchronize, cuEventSynchronize, (CUevent event))                                                         \
    X(cuEventElapsedTime, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))

#endif
