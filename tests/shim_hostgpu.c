/* A CUDA driver that does on the host, at once and in order, what grsrun asks of GPUs: memory is host memory, grsrun's
 * helper kernels and the ring are plain loops, and a captured graph is a list of launches. Ranks that have been launched wait for
 * the others of their group, and several groups may be at work at once. With it the whole of grsrun runs where there is no GPU;
 * what a GPU would make of the kernels' text it cannot say. Ranks of a ring may be in several processes: their kernels then meet in
 * the memory that the processes share, a partial a segment.
 *
 * Environment:
 *   HOSTGPU_DEVICES  GPUs that it shows (1)
 *   HOSTGPU_FAULT    what it does wrong in the ring: "flip" one bit of one element, leave one "unwritten", write "behind" or
 *                    "before" D, between its "rows", into "A"; "drift": another result from the second launch on; "order":
 *                    add from rank 0 up; "slots", "mask", "outbox", "control": write the last byte of rank 0's;
 *                    "behind mask", "before slots": write beside it; "epoch", "credit": count a launch that was not;
 *                    "timeout": report a wait whose deadline expired
 *                    "clock": do not answer grsrun_clock; "stamps": one launch in ten has none
 *   HOSTGPU_LOG      a file: one line for every kernel launch */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cuda_api.h"
#include "templates/args.h"
#include "tools/grsrun_values.h"

enum { MAX_DEVICES = 8, MAX_NODES = 16 };

static int context_of_device[MAX_DEVICES]; /* their addresses are the contexts */
static _Thread_local CUcontext stack[64];
static _Thread_local int depth = 1;
static int ring_launches;

static uint64_t host_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The clocks of two GPUs are an hour apart. */
static int current_device(void) {
    return (int)((int *)(void *)stack[depth - 1] - context_of_device);
}
static uint64_t clock_of(int device, uint64_t ns) {
    return ns + (uint64_t)device * 3600000000000u;
}

static const char *fault(void) {
    const char *text = getenv("HOSTGPU_FAULT");
    return text ? text : "";
}

static int device_count(void) {
    const char *text = getenv("HOSTGPU_DEVICES");
    return text ? atoi(text) : 1;
}

static void log_launch(const char *name) {
    const char *path = getenv("HOSTGPU_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", name);
        fclose(file);
    }
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FUNCTION(symbol, parameters)                                                                                   \
    CUresult symbol parameters;                                                                                        \
    CUresult symbol parameters

/* ---------------------------------------------------------------- device, contexts ------------------------------- */

FUNCTION(cuInit, (unsigned int flags)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuDriverGetVersion, (int *version)) {
    *version = 13000;
    return CUDA_SUCCESS;
}
FUNCTION(cuGetErrorName, (CUresult error, const char **text)) {
    *text = "CUDA_ERROR";
    return CUDA_SUCCESS;
}
FUNCTION(cuGetErrorString, (CUresult error, const char **text)) {
    *text = "not done by the stand-in";
    return CUDA_SUCCESS;
}
FUNCTION(cuDeviceGet, (CUdevice * device, int ordinal)) {
    *device = ordinal;
    return ordinal < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
FUNCTION(cuDeviceGetCount, (int *count)) {
    *count = device_count();
    return CUDA_SUCCESS;
}
FUNCTION(cuDeviceGetName, (char *name, int length, CUdevice device)) {
    snprintf(name, (size_t)length, "Host");
    return CUDA_SUCCESS;
}
FUNCTION(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device)) {
    memset(uuid, 0, sizeof(*uuid));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "host-%d", device);
    return CUDA_SUCCESS;
}
FUNCTION(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device)) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? 132
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
             : attribute == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE            ? 1 << 16
                                                                         : 1;
    return CUDA_SUCCESS;
}
/* HOSTGPU_NO_PEERS: GPUs that do not reach each other. */
FUNCTION(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer)) {
    *can = device != peer && !getenv("HOSTGPU_NO_PEERS");
    return CUDA_SUCCESS;
}
FUNCTION(cuDeviceGetP2PAttribute,
         (int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)) {
    *value = 1;
    return CUDA_SUCCESS;
}
FUNCTION(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device)) {
    *context = (CUcontext)(void *)&context_of_device[device];
    return CUDA_SUCCESS;
}
FUNCTION(cuDevicePrimaryCtxRelease_v2, (CUdevice device)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuCtxPushCurrent_v2, (CUcontext context)) {
    stack[depth++] = context;
    return CUDA_SUCCESS;
}
FUNCTION(cuCtxPopCurrent_v2, (CUcontext * context)) {
    *context = stack[--depth];
    return depth ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
FUNCTION(cuCtxSetCurrent, (CUcontext context)) {
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}
FUNCTION(cuCtxGetCurrent, (CUcontext * context)) {
    *context = stack[depth - 1];
    return CUDA_SUCCESS;
}
FUNCTION(cuCtxGetDevice, (CUdevice * device)) {
    *device = current_device();
    return stack[depth - 1] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
FUNCTION(cuCtxSynchronize, (void)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags)) {
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- memory, streams, events ------------------------ */

enum { KEPT = 512 };
struct allocation {
    char *memory;
    size_t bytes;
};
static struct allocation latest[KEPT]; /* also ones that are free again */
static int allocations;

/* Of a block that may lie between zones of grsrun. */
static void write_last_byte(void *memory) {
    for (int i = allocations - 1; i >= 0 && i >= allocations - KEPT; i--) {
        struct allocation *a = &latest[i % KEPT];
        if ((char *)memory >= a->memory && (char *)memory < a->memory + a->bytes) {
            size_t zone = (size_t)((char *)memory - a->memory);
            a->memory[a->bytes - zone - 1] = 7;
            return;
        }
    }
}

static void write_behind(void *memory) {
    for (int i = allocations - 1; i >= 0 && i >= allocations - KEPT; i--) {
        struct allocation *a = &latest[i % KEPT];
        if ((char *)memory > a->memory && (char *)memory < a->memory + a->bytes) { /* in front of it lies a zone */
            a->memory[a->bytes - (size_t)((char *)memory - a->memory) + 2] = 7;
            return;
        }
    }
}

FUNCTION(cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes)) {
    void *memory = bytes && stack[depth - 1] ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (!memory) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(memory, 0xa5, bytes);
    latest[allocations++ % KEPT] = (struct allocation){memory, bytes};
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}
FUNCTION(cuMemFree_v2, (CUdeviceptr pointer)) {
    free((void *)(uintptr_t)pointer);
    return CUDA_SUCCESS;
}
FUNCTION(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total_bytes)) {
    *free_bytes = *total_bytes = (size_t)1 << 36;
    return CUDA_SUCCESS;
}
FUNCTION(cuMemHostAlloc, (void **pointer, size_t bytes, unsigned int flags)) {
    *pointer = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FUNCTION(cuMemFreeHost, (void *pointer)) {
    free(pointer);
    return CUDA_SUCCESS;
}
FUNCTION(cuMemHostGetDevicePointer_v2, (CUdeviceptr * device, void *host, unsigned int flags)) {
    *device = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}
static CUresult copy(void *to, const void *from, size_t bytes) {
    if (bytes == sizeof(uint32_t) &&
        (uintptr_t)to % sizeof(uint32_t) == 0) { /* a word that kernels look at meanwhile */
        uint32_t word;
        memcpy(&word, from, sizeof(word));
        __atomic_store_n((uint32_t *)to, word, __ATOMIC_RELAXED);
    } else {
        memmove(to, from, bytes);
    }
    return CUDA_SUCCESS;
}
FUNCTION(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes)) {
    return copy((void *)(uintptr_t)to, from, bytes);
}
FUNCTION(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes)) {
    return copy(to, (void *)(uintptr_t)from, bytes);
}
FUNCTION(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) {
    return copy((void *)(uintptr_t)to, from, bytes);
}
FUNCTION(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) {
    return copy(to, (void *)(uintptr_t)from, bytes);
}
FUNCTION(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)) {
    memset((void *)(uintptr_t)to, value, bytes);
    return CUDA_SUCCESS;
}
FUNCTION(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t bytes)) {
    memset((void *)(uintptr_t)to, value, bytes);
    return CUDA_SUCCESS;
}

struct node { /* one launch that was captured, or what stands in for one */
    grs_args args;
    CUhostFn call; /* not NULL: this instead */
    void *argument;
    CUDA_MEMCPY2D copy; /* of rows, where Height is not 0 */
};
struct CUgraph_st {
    int count;
    struct node nodes[MAX_NODES];
};
struct CUstream_st {
    struct CUgraph_st *capturing;
    int waiting; /* ranks launched on it whose group is not complete */
};
/* Arguments inside want more than malloc's alignment. */
static struct CUgraph_st *new_graph(void) {
    struct CUgraph_st *graph = aligned_alloc(_Alignof(struct CUgraph_st), sizeof(*graph));
    if (graph) {
        graph->count = 0;
    }
    return graph;
}
static struct CUgraph_st *captured_by(CUstream stream) { /* NULL: the default stream, which captures nothing */
    return stream ? stream->capturing : NULL;
}
FUNCTION(cuStreamCreate, (CUstream * stream, unsigned int flags)) {
    *stream = calloc(1, sizeof(**stream));
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FUNCTION(cuStreamDestroy_v2, (CUstream stream)) {
    free(stream);
    return CUDA_SUCCESS;
}
static pthread_t answering; /* grsrun_clock's kernel: the one that runs beside the host */
static bool is_answering;
static bool is_waiting(CUstream stream);
FUNCTION(cuStreamQuery, (CUstream stream)) {
    return captured_by(stream) ? CUDA_ERROR_NOT_PERMITTED : is_waiting(stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
FUNCTION(cuStreamSynchronize, (CUstream stream)) {
    while (is_waiting(stream)) {
        usleep(100);
    }
    if (is_answering) {
        pthread_join(answering, NULL);
        is_answering = false;
    }
    return captured_by(stream) ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}
FUNCTION(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status)) {
    *status = captured_by(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
FUNCTION(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode)) {
    stream->capturing = new_graph();
    return stream->capturing ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FUNCTION(cuStreamEndCapture, (CUstream stream, CUgraph *graph)) {
    *graph = stream->capturing;
    stream->capturing = NULL;
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FUNCTION(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags)) {
    struct CUgraph_st *made = new_graph();
    *made = *graph;
    *exec = (CUgraphExec)(void *)made;
    return CUDA_SUCCESS;
}
FUNCTION(cuGraphExecDestroy, (CUgraphExec exec)) {
    free(exec);
    return CUDA_SUCCESS;
}
FUNCTION(cuGraphDestroy, (CUgraph graph)) {
    free(graph);
    return CUDA_SUCCESS;
}

/* The next node of the graph that the stream is captured into; NULL: none is. */
static struct node *captured_node(CUstream stream) {
    struct CUgraph_st *graph = captured_by(stream);
    if (graph && graph->count == MAX_NODES) {
        abort();
    }
    return graph ? &graph->nodes[graph->count++] : NULL;
}
FUNCTION(cuLaunchHostFunc, (CUstream stream, CUhostFn call, void *argument)) {
    struct node *node = captured_node(stream);
    if (node) {
        *node = (struct node){.call = call, .argument = argument};
    } else {
        call(argument);
    }
    return CUDA_SUCCESS;
}
static void copy_rows(const CUDA_MEMCPY2D *copy) {
    for (size_t row = 0; row < copy->Height; row++) {
        memcpy((void *)(uintptr_t)(copy->dstDevice + row * copy->dstPitch),
               (void *)(uintptr_t)(copy->srcDevice + row * copy->srcPitch), copy->WidthInBytes);
    }
}
FUNCTION(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream)) {
    struct node *node = captured_node(stream);
    if (copy->srcMemoryType != CU_MEMORYTYPE_DEVICE || copy->dstMemoryType != CU_MEMORYTYPE_DEVICE || !copy->Height ||
        copy->WidthInBytes > copy->srcPitch || copy->WidthInBytes > copy->dstPitch) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (node) {
        *node = (struct node){.copy = *copy};
    } else {
        copy_rows(copy);
    }
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- memory between processes ----------------------- */

/* A handle is an anonymous file: what one process maps, another one sees. */
static int mappings; /* not 0: ranks are in several processes */

static int file_of(CUmemGenericAllocationHandle handle) {
    return (int)handle - 1; /* so that no handle is 0 */
}
FUNCTION(cuMemGetAllocationGranularity,
         (size_t * bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags which)) {
    *bytes = (size_t)2 << 20;
    return CUDA_SUCCESS;
}
FUNCTION(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *properties,
                       unsigned long long flags)) {
    int file = memfd_create("hostgpu", MFD_CLOEXEC);
    *handle = (CUmemGenericAllocationHandle)file + 1;
    return file >= 0 && ftruncate(file, (off_t)bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FUNCTION(cuMemRelease, (CUmemGenericAllocationHandle handle)) {
    return close(file_of(handle)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FUNCTION(cuMemExportToShareableHandle, (void *shareable, CUmemGenericAllocationHandle handle,
                                        CUmemAllocationHandleType type, unsigned long long flags)) {
    *(int *)shareable = dup(file_of(handle));
    return *(int *)shareable >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FUNCTION(cuMemImportFromShareableHandle,
         (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type)) {
    int file = dup((int)(intptr_t)shareable);
    *handle = (CUmemGenericAllocationHandle)file + 1;
    return file >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FUNCTION(cuMemAddressReserve,
         (CUdeviceptr * pointer, size_t bytes, size_t alignment, CUdeviceptr address, unsigned long long flags)) {
    void *reserved = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *pointer = (CUdeviceptr)(uintptr_t)reserved;
    return reserved == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
FUNCTION(cuMemAddressFree, (CUdeviceptr pointer, size_t bytes)) {
    return munmap((void *)(uintptr_t)pointer, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FUNCTION(cuMemMap, (CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)) {
    mappings++;
    return mmap((void *)(uintptr_t)pointer, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_of(handle),
                0) == MAP_FAILED
               ? CUDA_ERROR_OUT_OF_MEMORY
               : CUDA_SUCCESS;
}
FUNCTION(cuMemUnmap, (CUdeviceptr pointer, size_t bytes)) {
    mappings--;
    return mmap((void *)(uintptr_t)pointer, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                   MAP_FAILED
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}
FUNCTION(cuMemSetAccess, (CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuMemHostRegister_v2, (void *pointer, size_t bytes, unsigned int flags)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuMemHostUnregister, (void *pointer)) {
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- events ----------------------------------------- */

struct CUevent_st {
    double ms; /* of the host's clock, when it was recorded */
};
FUNCTION(cuEventCreate, (CUevent * event, unsigned int flags)) {
    *event = calloc(1, sizeof(**event));
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FUNCTION(cuEventDestroy_v2, (CUevent event)) {
    free(event);
    return CUDA_SUCCESS;
}
FUNCTION(cuEventRecord, (CUevent event, CUstream stream)) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    return CUDA_SUCCESS;
}
FUNCTION(cuEventQuery, (CUevent event)) {
    return CUDA_ERROR_NOT_READY;
} /* as on a GPU that is still held back */
FUNCTION(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end)) {
    *milliseconds = (float)(end->ms - start->ms);
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- grsrun's helpers ------------------------------- */

static void *pointer_at(void *parameter) {
    return (void *)(uintptr_t) * (CUdeviceptr *)parameter;
}

static void run_fill(void **p) {
    const struct values_matrix *matrix = p[0];
    uint16_t *buffer = pointer_at(p[1]);
    for (int64_t w = 0; w < matrix->total; w++) {
        buffer[w] = values_word(matrix, w);
    }
}

static void run_check(void **p) {
    const struct values_matrix *matrix = p[0];
    const uint16_t *buffer = pointer_at(p[1]);
    struct values_damage *damage = pointer_at(p[2]);
    for (int64_t w = 0; w < matrix->total; w++) {
        if ((matrix->operand != VALUES_D || values_place(matrix, w) < 0) && buffer[w] != values_word(matrix, w)) {
            damage->words++;
            damage->first = (uint64_t)w < damage->first ? (uint64_t)w : damage->first;
        }
    }
}

static void run_spans(void **p) {
    const struct values_span *spans = pointer_at(p[0]);
    struct values_damage *damage = pointer_at(p[2]);
    for (int32_t s = 0; s < *(int32_t *)p[1]; s++) {
        const uint32_t *words = (const void *)(uintptr_t)spans[s].address;
        for (uint64_t w = 0; w < spans[s].words; w++) {
            uint64_t place = (uint64_t)s << VALUES_SPAN_SHIFT | w;
            if (words[w] != spans[s].value) {
                damage->words++;
                damage->first = place < damage->first ? place : damage->first;
            }
        }
    }
}

static void run_checksum(void **p) {
    const struct values_matrix *matrix = p[0];
    const uint16_t *buffer = pointer_at(p[1]);
    uint64_t *sum = pointer_at(p[2]);
    for (int64_t w = 0; w < matrix->total; w++) {
        int64_t place = values_place(matrix, w);
        *sum += place < 0 ? 0 : values_mix((uint64_t)place << 16 ^ buffer[w]);
    }
}

static float magnitude(double x) {
    return (float)(x < 0 ? -x : x);
}

static void run_reference(void **p) {
    const struct values_reference *task = p[0];
    float *sums = pointer_at(p[1]), *bounds = pointer_at(p[2]), *largest = pointer_at(p[3]);
    for (int64_t i = 0; i < task->rows * task->n; i++) {
        int64_t row = task->first_row + i / task->n, column = i % task->n;
        double total = 0;
        float bound = 0;
        for (int hop = 0; hop < task->ring; hop++) {
            int rank = task->first_rank + (task->owner - 1 - hop + 2 * task->ring) % task->ring;
            uint64_t a = values_key(task->seed, VALUES_A, rank), b = values_key(task->seed, VALUES_B, rank);
            double own = 0;
            float peak = 0;
            for (int64_t k = 0; k < task->k; k++) {
                own +=
                    (double)values_from_bf16(
                        values_element(a, task->mode, task->threshold, (uint64_t)(row * task->k + k))) *
                    values_from_bf16(values_element(b, task->mode, task->threshold, (uint64_t)(column * task->k + k)));
                peak = magnitude(own) > peak ? magnitude(own) : peak;
            }
            total += own;
            peak = magnitude(total) > peak ? magnitude(total) : peak;
            bound = values_bound(bound, (float)total, peak, task->k);
            *largest = magnitude(total) > *largest ? magnitude(total) : *largest;
        }
        sums[i] = (float)total;
        bounds[i] = bound;
    }
}

static void run_add_nodes(void **p) {
    const struct values_nodes *task = p[0];
    float *largest = pointer_at(p[5]);
    for (int64_t i = 0; i < task->count; i++) {
        float reach = values_add_nodes(task, i, pointer_at(p[1]), pointer_at(p[2]), pointer_at(p[3]), pointer_at(p[4]));
        *largest = reach > *largest ? reach : *largest;
    }
}

static void run_compare(void **p) {
    const struct values_matrix *matrix = p[0];
    const uint16_t *buffer = pointer_at(p[1]);
    const float *sums = pointer_at(p[2]), *bounds = pointer_at(p[3]);
    struct values_verdict *verdict = pointer_at(p[4]);
    for (int64_t w = 0; w < matrix->total; w++) {
        int64_t i = values_place(matrix, w);
        if (i < 0) {
            continue;
        }
        float got = values_from_bf16(buffer[w]), want = sums[i];
        double error = magnitude((double)got - want);
        bool wrong = matrix->mode == VALUES_EXACT ? buffer[w] != values_to_bf16(want) : !(error <= bounds[i]);
        if (wrong) {
            verdict->mismatches++;
            verdict->unwritten += buffer[w] == values_poison((uint64_t)w);
            verdict->first = (uint64_t)i < verdict->first ? (uint64_t)i : verdict->first;
            verdict->last = (uint64_t)i > verdict->last ? (uint64_t)i : verdict->last;
        } else if (matrix->mode == VALUES_RANDOM && (float)error / bounds[i] > verdict->worst) {
            verdict->worst = (float)error / bounds[i];
        }
        if (error == error) {
            verdict->error2 += error * error;
            verdict->got2 += (double)got * got;
            verdict->want2 += (double)want * want;
        }
    }
}

static void run_spin(void **p) {
    (void)p;
}

struct questions {
    const uint64_t *asked;
    uint64_t *answer, patience;
    int32_t pings;
    int device;
};

static void *answer(void *argument) {
    struct questions *q = argument;
    for (int32_t i = 0; i < q->pings; i++) {
        uint64_t since = host_ns();
        while (__atomic_load_n(q->asked, __ATOMIC_ACQUIRE) <= (uint64_t)i) {
            if (host_ns() - since > q->patience) {
                free(q);
                return NULL;
            }
        }
        __atomic_store_n(&q->answer[i], clock_of(q->device, host_ns()), __ATOMIC_RELEASE);
    }
    free(q);
    return NULL;
}

static void run_clock(void **p) {
    struct questions *q = malloc(sizeof(*q));
    *q = (struct questions){pointer_at(p[0]), pointer_at(p[1]), *(uint64_t *)p[3], *(int32_t *)p[2], current_device()};
    is_answering = strcmp(fault(), "clock") && pthread_create(&answering, NULL, answer, q) == 0;
    if (!is_answering) {
        free(q);
    }
}

/* ---------------------------------------------------------------- the ring --------------------------------------- */

struct map { /* what a tensor map says here */
    uint16_t *base;
    uint64_t columns, rows, stride; /* stride in bytes */
};
_Static_assert(sizeof(struct map) <= sizeof(CUtensorMap), "a map fits into the opaque one");

FUNCTION(cuTensorMapEncodeTiled,
         (CUtensorMap * map, CUtensorMapDataType type, uint32_t rank, void *base, const uint64_t *dims,
          const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
          CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
          CUtensorMapFloatOOBfill fill)) {
    struct map made = {base, dims[0], dims[1], strides[0]};
    memset(map, 0, sizeof(*map));
    memcpy(map, &made, sizeof(made));
    return CUDA_SUCCESS;
}

static struct map map_of(const grs_tensor_map *opaque) {
    struct map map;
    memcpy(&map, opaque, sizeof(map));
    return map;
}

/* Zero beyond the edge, as the copy engine has it. */
static float read_map(const struct map *map, int64_t row, int64_t column) {
    if (row >= (int64_t)map->rows) {
        return 0;
    }
    return values_from_bf16(*(uint16_t *)((char *)map->base + (uint64_t)row * map->stride + (uint64_t)column * 2));
}

static void do_wrong(const struct map *d, const struct map *a, int64_t rows) {
    uint16_t *last = (uint16_t *)((char *)d->base + (uint64_t)(rows - 1) * d->stride) + d->columns - 1;
    if (!strcmp(fault(), "flip") || (!strcmp(fault(), "drift") && ring_launches % 2 == 0)) {
        *last ^= 0x40;
    } else if (!strcmp(fault(), "behind")) {
        last[1] = 0x3f80;
    } else if (!strcmp(fault(), "before")) {
        d->base[-3] = 0x3f80;
    } else if (!strcmp(fault(), "rows")) {
        d->base[d->columns + 1] = 0x3f80;
    } else if (!strcmp(fault(), "A")) {
        a->base[5] = 0;
    }
}

static void run_owner(const grs_rank_args *const *rank, int ring, int64_t m, int owner) {
    int64_t c = (m + ring - 1) / ring, first = owner * c, rows = m - first < c ? m - first : c;
    if (rows <= 0) {
        return;
    }
    struct map d = map_of(&rank[owner]->d), a0 = map_of(&rank[0]->a);
    bool upwards = !strcmp(fault(), "order"), skip = !strcmp(fault(), "unwritten") && owner == ring - 1;
    for (int64_t i = 0; i < rows * (int64_t)d.columns; i++) {
        int64_t row = i / (int64_t)d.columns, column = i % (int64_t)d.columns;
        float partial = 0;
        for (int hop = 0; hop < ring; hop++) {
            const grs_rank_args *from = rank[upwards ? hop : (owner - 1 - hop + 2 * ring) % ring];
            struct map a = map_of(&from->a), b = map_of(&from->b);
            float own = 0;
            for (uint64_t k = 0; k < a.columns; k++) {
                own += read_map(&a, first + row, (int64_t)k) * read_map(&b, column, (int64_t)k);
            }
            partial = values_from_bf16(values_to_bf16(partial + own));
        }
        if (!skip || i != 3) {
            *(uint16_t *)((char *)d.base + (uint64_t)row * d.stride + (uint64_t)column * 2) = values_to_bf16(partial);
        }
    }
    if (owner == 0) {
        do_wrong(&d, &a0, rows);
    }
}

/* What a kernel with wait counters adds up; without them nobody looks. */
static void count_waits(const grs_rank_args *rank, int ctas) {
    static const struct {
        enum grs_role role;
        enum grs_wait wait;
        uint64_t cycles;
    } waits[] = {{GRS_ROLE_MATH, GRS_WAIT_NONE, 1000},
                 {GRS_ROLE_MATH, GRS_WAIT_STAGE_FULL, 250},
                 {GRS_ROLE_PREFETCHER, GRS_WAIT_NONE, 900},
                 {GRS_ROLE_PREFETCHER, GRS_WAIT_UPSTREAM, 125}};
    for (int cta = 0; rank->counters && cta < ctas; cta++) {
        for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
            rank->counters[(cta * GRS_ROLE_COUNT + (int)waits[i].role) * GRS_WAIT_COUNT + (int)waits[i].wait] +=
                waits[i].cycles;
        }
    }
}

/* What a kernel with stamps says: each rank begins 20 us after the one below it and takes 30 us; the next launch comes 100 us
 * after this one, or later. */
static void stamp(const grs_rank_args *const *rank, const int *device, int ring) {
    static uint64_t next;
    uint64_t now = host_ns(), start = now < next ? next : now;
    for (int i = 0; i < ring && rank[i]->stamps; i++) {
        uint64_t begin = clock_of(device[i], start + (uint64_t)i * 20000), epoch = rank[i]->control->epoch;
        bool missing = !strcmp(fault(), "stamps") && epoch % 10 == 9;
        rank[i]->stamps[epoch % GRS_STAMPS] = (grs_stamp){begin, missing ? 0 : begin + 30000};
        next = start + 100000;
    }
    while (host_ns() < next) {}
}

static void leave(const grs_rank_args *const *rank, int ring) {
    for (int i = 0; i < ring; i++) {
        rank[i]->control->epoch++;
        rank[i]->control->credit += ring > 1;
    }
}

/* What upstream has sent to this rank, over all launches; behind the last control word. */
static uint64_t *delivered(grs_control *control) {
    return (uint64_t *)(void *)((char *)control + offsetof(grs_control, spare) + 64);
}

static void pause_briefly(void) {
    const struct timespec pause = {0, 20000};
    nanosleep(&pause, NULL);
}

static bool is_aborted(const grs_rank_args *me) {
    return __atomic_load_n(&me->control->abort, __ATOMIC_RELAXED) != 0;
}

/* The first waiter of a rank writes its record, and raises the abort word of every rank. */
static void give_up(const grs_args *args, const grs_rank_args *me, enum grs_wait wait, uint64_t seen, uint64_t wanted,
                    uint64_t waited_ns) {
    if (__atomic_exchange_n(&me->control->abort, 1, __ATOMIC_ACQ_REL) != 0) {
        return;
    }
    grs_wait_record record = {.role = wait == GRS_WAIT_CREDIT ? GRS_ROLE_SENDER : GRS_ROLE_PREFETCHER,
                              .wait = wait,
                              .rank = me->rank,
                              .epoch = me->control->epoch,
                              .word = seen,
                              .expected = wanted,
                              .waited_ns = waited_ns};
    *me->record = record;
    __atomic_store_n(&me->record->complete, 1, __ATOMIC_RELEASE);
    for (int rank = 0; rank < args->ring; rank++) {
        __atomic_store_n(&me->everyone[rank]->abort, 1, __ATOMIC_RELAXED);
    }
}

/* False: the rank is to leave. */
static bool wait_until(const uint64_t *word, uint64_t least, const grs_args *args, enum grs_wait wait) {
    const grs_rank_args *me = &args->rank[0];
    uint64_t seen, since = host_ns();
    while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) < least) {
        uint64_t waited = host_ns() - since;
        if (is_aborted(me)) {
            return false;
        }
        if (args->deadline_ns && waited > args->deadline_ns) {
            give_up(args, me, wait, seen, least, waited);
            return false;
        }
        pause_briefly();
    }
    return true;
}

/* The test hook: the sender of that rank stands still until the launch is left. */
static bool stands_still(const grs_args *args) {
    const grs_rank_args *me = &args->rank[0];
    bool still = args->stall >> 32 == (uint64_t)me->rank + 1;
    while (still && !is_aborted(me)) {
        pause_briefly();
    }
    return still;
}

/* One rank of a ring whose others are in other processes. Downstream's slots take its partials, a place a segment, once it has
 * left the launch before. */
static void run_shared(const grs_args *args) {
    const grs_rank_args *me = &args->rank[0];
    int ring = args->ring;
    struct map a = map_of(&me->a), b = map_of(&me->b), d = map_of(&me->d);
    int64_t c = (args->m + ring - 1) / ring, n = (int64_t)b.rows;
    grs_control *down = me->everyone[(me->rank + ring - 1) % ring];
    uint64_t epoch = me->control->epoch, sent = 0, got = 0;
    uint64_t *taken = delivered(me->control) + 1; /* of what was delivered */
    if (is_aborted(me) || stands_still(args)) {
        return;
    }
    for (int t = 0; t < ring; t++) {
        int owner = (me->rank + 1 + t) % ring;
        int64_t first = owner * c, rows = args->m - first < c ? args->m - first : c;
        if (rows <= 0) {
            continue;
        }
        const uint16_t *in = (const uint16_t *)(void *)me->slots + (size_t)got * (size_t)(c * n);
        uint16_t *out = (uint16_t *)(void *)me->peer_slots + (size_t)sent * (size_t)(c * n);
        if ((t > 0 && !wait_until(delivered(me->control), *taken + 1, args, GRS_WAIT_UPSTREAM)) ||
            (t + 1 < ring && !wait_until(&down->epoch, epoch, args, GRS_WAIT_CREDIT))) {
            return;
        }
        for (int64_t i = 0; i < rows * n; i++) {
            int64_t row = i / n, column = i % n;
            float own = 0;
            for (uint64_t k = 0; k < a.columns; k++) {
                own += read_map(&a, first + row, (int64_t)k) * read_map(&b, column, (int64_t)k);
            }
            uint16_t sum = values_to_bf16((t > 0 ? values_from_bf16(in[i]) : 0) + own);
            if (t + 1 < ring) {
                out[i] = sum;
            } else {
                *(uint16_t *)((char *)d.base + (uint64_t)row * d.stride + (uint64_t)column * 2) = sum;
            }
        }
        *taken += t > 0;
        got += t > 0;
        if (t + 1 < ring) {
            sent++;
            __atomic_fetch_add(delivered(down), 1, __ATOMIC_RELEASE);
        }
    }
    if (me->rank == 0) {
        do_wrong(&d, &a, 1);
    }
    __atomic_store_n(&me->control->epoch, epoch + 1, __ATOMIC_RELEASE);
}

/* A group of which some ranks have been launched: they wait for the others. */
struct waiting {
    const void *group; /* rank 0's control words; NULL: free */
    int count;
    grs_rank_args rank[GRS_MAX_RING];
    int device[GRS_MAX_RING];
    CUstream stream[GRS_MAX_RING];
    bool launched[GRS_MAX_RING];
};
static struct waiting waiting[8];
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;

static struct waiting *waiting_of(const void *group) {
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
            if (waiting[i].group == (pass == 0 ? group : NULL)) {
                waiting[i].group = group;
                return &waiting[i];
            }
        }
    }
    abort(); /* more groups than a test has */
}

static void leave_all(struct waiting *w) {
    for (int rank = 0; rank < GRS_MAX_RING; rank++) {
        if (w->launched[rank] && w->stream[rank]) {
            w->stream[rank]->waiting--;
        }
    }
    memset(w, 0, sizeof(*w));
}

/* Ranks whose group was aborted wait no longer. */
static bool is_waiting(CUstream stream) {
    pthread_mutex_lock(&ring_lock);
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
        for (int rank = 0; waiting[i].group && rank < GRS_MAX_RING; rank++) {
            if (waiting[i].launched[rank] && waiting[i].rank[rank].control->abort) {
                leave_all(&waiting[i]);
            }
        }
    }
    bool waits = stream && stream->waiting > 0;
    pthread_mutex_unlock(&ring_lock);
    return waits;
}

static void run_group(const grs_args *args, struct waiting *w);

/* Ranks come one grid a GPU; the last one starts the work of all. */
static void run_ring(const grs_args *args, CUstream stream) {
    if (mappings > 0 && args->ring > 1) {
        ring_launches++;
        run_shared(args);
        return;
    }
    pthread_mutex_lock(&ring_lock);
    struct waiting *w = waiting_of(args->rank[0].everyone[0]);
    for (int i = 0; i < args->ranks; i++) {
        int rank = args->rank[i].rank;
        w->rank[rank] = args->rank[i];
        w->device[rank] = current_device();
        w->stream[rank] = stream;
        w->launched[rank] = true;
        w->count++;
        if (stream) {
            stream->waiting++;
        }
    }
    if (w->count == args->ring) {
        if (!is_aborted(&args->rank[0])) { /* a launch after an abort does nothing */
            run_group(args, w);
        }
        leave_all(w);
    }
    pthread_mutex_unlock(&ring_lock);
}

static void run_group(const grs_args *args, struct waiting *w) {
    const grs_rank_args *rank[GRS_MAX_RING];
    ring_launches++;
    for (int i = 0; i < args->ring; i++) {
        rank[i] = &w->rank[i];
    }
    for (int owner = 0; owner < args->ring; owner++) {
        run_owner(rank, args->ring, args->m, owner);
    }
    stamp(rank, w->device, args->ring);
    leave(rank, args->ring);
    for (int i = 0; i < args->ring; i++) {
        count_waits(rank[i], args->grid);
    }
    if (!strcmp(fault(), "slots")) {
        write_last_byte(rank[0]->slots);
    } else if (!strcmp(fault(), "mask")) {
        write_last_byte(rank[0]->mask);
    } else if (!strcmp(fault(), "outbox")) {
        write_last_byte(rank[0]->outbox);
    } else if (!strcmp(fault(), "control")) {
        write_last_byte(rank[0]->control);
    } else if (!strcmp(fault(), "behind mask")) {
        write_behind(rank[0]->mask);
    } else if (!strcmp(fault(), "before slots")) {
        rank[0]->slots[-5] = 7;
    } else if (!strcmp(fault(), "epoch")) {
        rank[0]->control->epoch++;
    } else if (!strcmp(fault(), "credit")) {
        rank[0]->control->credit++;
    } else if (!strcmp(fault(), "timeout")) {
        *rank[0]->record = (grs_wait_record){.complete = 1,
                                             .role = GRS_ROLE_PREFETCHER,
                                             .wait = GRS_WAIT_UPSTREAM,
                                             .owner = 0,
                                             .tile = 0,
                                             .waited_ns = 30000000000};
        for (int i = 0; i < args->ring; i++) {
            rank[i]->control->abort = 1;
        }
    }
}

/* ---------------------------------------------------------------- modules and launches --------------------------- */

struct CUfunc_st {
    const char *name;
    void (*run)(void **parameters); /* NULL: the ring */
};
static struct CUfunc_st functions[] = {{"grsrun_fill", run_fill},
                                       {"grsrun_check", run_check},
                                       {"grsrun_spans", run_spans},
                                       {"grsrun_checksum", run_checksum},
                                       {"grsrun_reference", run_reference},
                                       {"grsrun_compare", run_compare},
                                       {"grsrun_spin", run_spin},
                                       {"grsrun_push", run_spin},
                                       {"grsrun_clock", run_clock},
                                       {"grsrun_add_nodes", run_add_nodes},
                                       {"grs_gemm_rs", NULL}};

FUNCTION(cuModuleLoadData, (CUmodule * module, const void *image)) {
    *module = malloc(1);
    return memcmp(image, "\177ELF", 4) ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
}
FUNCTION(cuModuleUnload, (CUmodule module)) {
    free(module);
    return CUDA_SUCCESS;
}
FUNCTION(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name)) {
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (!strncmp(name, functions[i].name, strlen(functions[i].name))) {
            *function = &functions[i];
            if (functions[i].run == NULL || !strcmp(name, functions[i].name)) {
                return CUDA_SUCCESS;
            }
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}
FUNCTION(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value)) {
    return CUDA_SUCCESS;
}
FUNCTION(cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function)) {
    *value = 0;
    return CUDA_SUCCESS;
}
FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor,
         (int *blocks, CUfunction function, int threads, size_t shared_bytes)) {
    *blocks = 1;
    return CUDA_SUCCESS;
}
FUNCTION(cuOccupancyMaxActiveClusters, (int *clusters, CUfunction function, const CUlaunchConfig *config)) {
    *clusters = 64;
    return CUDA_SUCCESS;
}
FUNCTION(cuLaunchKernel, (CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra)) {
    log_launch(function->name);
    if (!stack[depth - 1] || captured_by(stream)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->run(parameters);
    return CUDA_SUCCESS;
}
FUNCTION(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)) {
    struct node *node = captured_node(config->hStream);
    if (node) {
        *node = (struct node){0};
        memcpy(&node->args, parameters[0], sizeof(grs_args));
        return CUDA_SUCCESS;
    }
    log_launch(function->name);
    run_ring(parameters[0], config->hStream);
    return CUDA_SUCCESS;
}
FUNCTION(cuGraphLaunch, (CUgraphExec exec, CUstream stream)) {
    struct CUgraph_st *graph = (struct CUgraph_st *)(void *)exec;
    for (int i = 0; i < graph->count; i++) {
        const struct node *node = &graph->nodes[i];
        log_launch("graph");
        if (node->call) {
            node->call(node->argument);
        } else if (node->copy.Height) {
            copy_rows(&node->copy);
        } else {
            run_ring(&node->args, stream);
        }
    }
    return CUDA_SUCCESS;
}

/* ---------------------------------------------------------------- what grsrun does not use ----------------------- */

CUresult hostgpu_unsupported(void);
CUresult hostgpu_unsupported(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
#define UNSUPPORTED(symbol) __asm__(".globl " #symbol "\n.set " #symbol ", hostgpu_unsupported")
UNSUPPORTED(cuDeviceGetPCIBusId);
UNSUPPORTED(cuDeviceTotalMem_v2);
UNSUPPORTED(cuModuleLoadDataEx);
UNSUPPORTED(cuMemcpyDtoD_v2);
UNSUPPORTED(cuMemcpyDtoDAsync_v2);
UNSUPPORTED(cuMemsetD32_v2);
UNSUPPORTED(cuMemsetD32Async);
UNSUPPORTED(cuEventSynchronize);
