/* All ranks of a tensor-parallel group in one process: each multiplies its share, and keeps its rows of the sum.
 *
 *   cc one_process.c $(pkg-config --cflags --libs grs) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
 *   ./a.out [RANKS]
 *
 * Ranks are dealt over the GPUs that there are; where there is one, they share it. */
#include <cuda_runtime_api.h>
#include <grs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 1000, N = 512, K = 256, MOST = 8 };

static void need(int good, const char *what, const char *why) {
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}
static grs_error err;
#define GRS(call)  need((call) == GRS_OK, #call, err.text)
#define CUDA(call) need((call) == cudaSuccess, #call, "failed")

/* Small integers, exact in BF16. Row j of B picks column j % K of A: D[i][j] = (1 + … + ranks) * a_at(0, i, j % K). */
static int a_at(int rank, int row, int k) {
    return (rank + 1) * ((5 * row + 3 * k) % 7);
}
static int b_at(int rank, int row, int k) {
    return rank >= 0 && k == row % K;
}
static uint16_t bf16(float number) {
    uint32_t bits;
    memcpy(&bits, &number, 4);
    return (uint16_t)(bits >> 16);
}
static void *put(int rank, int rows, int (*at)(int rank, int row, int k)) { /* a matrix of K columns */
    static uint16_t host[M * K];
    void *device;
    for (int i = 0; i < rows * K; i++)
        host[i] = bf16((float)at(rank, i / K, i % K));
    CUDA(cudaMalloc(&device, (size_t)rows * K * 2));
    CUDA(cudaMemcpy(device, host, (size_t)rows * K * 2, cudaMemcpyHostToDevice));
    return device;
}

int main(int argc, char **argv) {
    int ranks = argc > 1 ? atoi(argv[1]) : 2, wrong = 0;
    const grs_kernel *kernel = grs_jit_get(M, N, K, ranks); /* from the cache, or compiled now */
    need(kernel != NULL && ranks <= MOST, "grs_jit_get", kernel ? "at most 8 ranks here" : grs_last_error()->text);
    grs_comm *comm[MOST];
    GRS(grs_comm_create_local(grs_default_ctx(), ranks, NULL, NULL, comm, &err));
    GRS(grs_comm_prepare(comm[0], kernel, M, &err)); /* on all ranks of the process: loads, reserves memory */

    grs_operands work[MOST];
    cudaStream_t stream[MOST];
    for (int r = 0; r < ranks; r++) {
        CUDA(cudaSetDevice(grs_comm_device(comm[r])));
        CUDA(cudaStreamCreate(&stream[r]));
        work[r] = (grs_operands){.A = put(r, M, a_at), .lda = K, .B = put(r, N, b_at), .ldb = K, .ldd = N, .M = M};
        CUDA(cudaMalloc(&work[r].D, (size_t)M * N * 2)); /* more than its rows need */
    }
    GRS(grs_launch_local(comm, kernel, work, (void *const *)stream, &err)); /* asynchronous */
    for (int r = 0; r < ranks; r++) {
        static uint16_t host[M * N];
        int64_t first, rows; /* of D, that rank r keeps */
        grs_rows(M, ranks, r, &first, &rows);
        CUDA(cudaSetDevice(grs_comm_device(comm[r])));
        CUDA(cudaDeviceSynchronize());
        GRS(grs_comm_check(comm[r], &err)); /* an expired wait would be told here */
        CUDA(cudaMemcpy(host, work[r].D, (size_t)rows * N * 2, cudaMemcpyDeviceToHost));
        for (int i = 0; i < rows * N; i++)
            wrong += host[i] != bf16((float)(ranks * (ranks + 1) / 2 * a_at(0, (int)first + i / N, i % N % K)));
        printf("rank %d, GPU %d: %d rows from %d\n", r, grs_comm_device(comm[r]), (int)rows, (int)first);
    }
    printf("%d of %d elements are wrong\n", wrong, M * N);
    for (int r = 0; r < ranks; r++)
        grs_comm_destroy(comm[r]);
    return wrong != 0;
}
