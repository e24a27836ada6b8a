/* A CUDA runtime as far as examples/ use one: each call is the driver's, from the library that the process under test uses
 * itself ($GRS_LIBCUDA, else libcuda.so.1). With tests/shim_hostgpu.c the examples run where there is no GPU, with a real
 * driver they run on GPUs where no CUDA runtime is installed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime/cuda_api.h"
#include "tests/standin/cuda_runtime_api.h"

enum { MAX_DEVICES = 64 };
static CUcontext contexts[MAX_DEVICES];

/* An address in the driver; a test cannot go on without it. */
static void *driver(const char *name) {
    static void *library;
    const char *path = getenv("GRS_LIBCUDA");
    if (!library)
        library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    void *address = library ? dlsym(library, name) : NULL;
    if (!address)
        abort();
    return address;
}

/* The driver's result, as the runtime's: their numbers agree as far as it matters here. */
#define CALL(name, types, ...) ((cudaError_t)((CUresult(*) types)driver(#name))(__VA_ARGS__))

cudaError_t cudaSetDevice(int device) {
    CUdevice handle;
    if (device < 0 || device >= MAX_DEVICES)
        return cudaErrorUnknown;
    if (!contexts[device] &&
        (CALL(cuInit, (unsigned int), 0) || CALL(cuDeviceGet, (CUdevice *, int), &handle, device) ||
         CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &contexts[device], handle)))
        return cudaErrorUnknown;
    return CALL(cuCtxSetCurrent, (CUcontext), contexts[device]);
}

cudaError_t cudaDeviceSynchronize(void) {
    return CALL(cuCtxSynchronize, (void));
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    CUdeviceptr made = 0;
    cudaError_t error = CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &made, bytes);
    *pointer = (void *)(uintptr_t)made;
    return error;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    if (kind == cudaMemcpyHostToDevice)
        return CALL(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), (CUdeviceptr)(uintptr_t)to, from, bytes);
    if (kind == cudaMemcpyDeviceToHost)
        return CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), to, (CUdeviceptr)(uintptr_t)from, bytes);
    return cudaErrorUnknown;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return CALL(cuStreamCreate, (CUstream *, unsigned int), stream, 0);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return CALL(cuStreamSynchronize, (CUstream), stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    return CALL(cuStreamWaitEvent, (CUstream, CUevent, unsigned int), stream, event, flags);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return CALL(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode), stream, (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    return CALL(cuStreamEndCapture, (CUstream, CUgraph *), stream, graph);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return CALL(cuEventCreate, (CUevent *, unsigned int), event, 0);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return CALL(cuEventRecord, (CUevent, CUstream), event, stream);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long), exec, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    return CALL(cuGraphLaunch, (CUgraphExec, CUstream), exec, stream);
}
