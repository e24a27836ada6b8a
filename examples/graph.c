/* A CUDA graph of several layers, captured once and replayed with new activations: epochs and credits are kept by the
 * kernels, so a replay needs no host work but its launch.
 *
 *   cc graph.c $(pkg-config --cflags --libs grs) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
 *   ./a.out
 *
 * Two ranks, on two GPUs where there are two, else on one. */
#include <cuda_runtime_api.h>
#include <grs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 300, N = 512, K = 256, RANKS = 2, LAYERS = 3, STEPS = 4 };

static void need(int good, const char *what, const char *why) {
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}
static grs_error err;
#define GRS(call)  need((call) == GRS_OK, #call, err.text)
#define CUDA(call) need((call) == cudaSuccess, #call, "failed")

static grs_comm *comm[RANKS];
static cudaStream_t stream[RANKS];
static grs_operands work[LAYERS][RANKS];

static uint16_t bf16(int number) { /* exact up to 256 */
    float value = (float)number;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)(bits >> 16);
}

/* Rows of `columns` elements: `value` in every element, or only where the column is the row's number. */
static void put(const void *device, int rows, int columns, int value, int diagonal) {
    static uint16_t host[N * K + M * K];
    for (int i = 0; i < rows * columns; i++)
        host[i] = bf16(!diagonal || i % columns == i / columns % columns ? value : 0);
    CUDA(cudaMemcpy((void *)device, host, (size_t)rows * columns * 2, cudaMemcpyHostToDevice));
}

static void *room(int rows, int columns) {
    void *device;
    CUDA(cudaMalloc(&device, (size_t)rows * columns * 2));
    return device;
}

/* What the streams of all ranks do from here to `captured` becomes one graph: each other stream joins stream 0's capture
 * by an event, and hands back by another. A process with one rank needs no events. */
static cudaGraphExec_t capture(const grs_kernel *kernel) {
    cudaEvent_t begun, done;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaSetDevice(grs_comm_device(comm[0])));
    CUDA(cudaEventCreate(&begun));
    CUDA(cudaStreamBeginCapture(stream[0], cudaStreamCaptureModeGlobal));
    CUDA(cudaEventRecord(begun, stream[0]));
    for (int r = 1; r < RANKS; r++)
        CUDA(cudaStreamWaitEvent(stream[r], begun, 0));
    for (int layer = 0; layer < LAYERS; layer++)
        GRS(grs_launch_local(comm, kernel, work[layer], (void *const *)stream, &err));
    for (int r = 1; r < RANKS; r++) {
        CUDA(cudaSetDevice(grs_comm_device(comm[r])));
        CUDA(cudaEventCreate(&done));
        CUDA(cudaEventRecord(done, stream[r]));
        CUDA(cudaStreamWaitEvent(stream[0], done, 0));
    }
    CUDA(cudaStreamEndCapture(stream[0], &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    return exec;
}

int main(void) {
    const grs_kernel *kernel = grs_jit_get(M, N, K, RANKS);
    need(kernel != NULL, "grs_jit_get", grs_last_error()->text);
    GRS(grs_comm_create_local(grs_default_ctx(), RANKS, NULL, NULL, comm, &err));
    GRS(grs_comm_prepare(comm[0], kernel, M, &err)); /* the largest M first: memory that a graph uses stays */
    for (int r = 0; r < RANKS; r++) {
        CUDA(cudaSetDevice(grs_comm_device(comm[r])));
        CUDA(cudaStreamCreate(&stream[r]));
        void *A = room(M, K);
        for (int layer = 0; layer < LAYERS; layer++) {
            work[layer][r] =
                (grs_operands){.A = A, .lda = K, .B = room(N, K), .ldb = K, .D = room(M, N), .ldd = N, .M = M};
            put(work[layer][r].B, N, K, layer + 1, 1);
        }
    }
    cudaGraphExec_t exec = capture(kernel);
    int wrong = 0;
    for (int step = 1; step <= STEPS; step++) {
        for (int r = 0; r < RANKS; r++) { /* new activations, in the buffers that the graph reads */
            CUDA(cudaSetDevice(grs_comm_device(comm[r])));
            put(work[0][r].A, M, K, step * (r + 1), 0);
            CUDA(cudaDeviceSynchronize());
        }
        CUDA(cudaSetDevice(grs_comm_device(comm[0])));
        CUDA(cudaGraphLaunch(exec, stream[0]));
        CUDA(cudaStreamSynchronize(stream[0]));
        for (int r = 0; r < RANKS; r++) {
            GRS(grs_comm_check(comm[r], &err));
            int64_t first, rows;
            grs_rows(M, RANKS, r, &first, &rows);
            for (int layer = 0; layer < LAYERS; layer++) {
                static uint16_t host[M * N];
                CUDA(cudaMemcpy(host, work[layer][r].D, (size_t)rows * N * 2, cudaMemcpyDeviceToHost));
                for (int i = 0; i < rows * N; i++) /* the sum over ranks of step * (rank + 1), times layer + 1 */
                    wrong += host[i] != bf16(step * RANKS * (RANKS + 1) / 2 * (layer + 1));
            }
        }
    }
    printf("%d replays of a graph of %d layers: %d elements are wrong\n", STEPS, LAYERS, wrong);
    for (int r = 0; r < RANKS; r++)
        grs_comm_destroy(comm[r]);
    return wrong != 0;
}
