/* A process a rank, as serving engines run them: a launcher starts the program once for each rank.
 *
 *   cc processes.c -o processes $(pkg-config --cflags --libs grs) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
 *   torchrun --no-python --nproc-per-node 2 ./processes
 *   mpirun -n 2 ./processes
 *   srun -n 2 ./processes
 *
 * Ranks are dealt over the GPUs that there are; two on one GPU take turns, which is right and slow. */
#include <cuda_runtime_api.h>
#include <grs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 1000, N = 512, K = 256 };

static grs_error err;
static void need(int good, const char *what, const char *why) {
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1); /* the other ranks notice that this one has gone */
}
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

int main(void) {
    grs_comm *comm;
    need(grs_default_ctx() != NULL, "grs_default_ctx", grs_last_error()->text);
    GRS(grs_comm_create_env(grs_default_ctx(), NULL, &comm, &err)); /* rank and size are the launcher's */
    int rank = grs_comm_rank(comm), ranks = grs_comm_size(comm), wrong = 0;
    /* A rank that has no kernel calls prepare too: with NULL, which tells the others why. */
    const grs_kernel *kernel = grs_jit_get(M, N, K, ranks);
    GRS(grs_comm_prepare(comm, kernel, M, &err));

    static uint16_t host[M * N];
    int64_t first, rows; /* of D, that this rank keeps */
    cudaStream_t stream;
    CUDA(cudaSetDevice(grs_comm_device(comm)));
    CUDA(cudaStreamCreate(&stream));
    grs_operands work = {.A = put(rank, M, a_at), .lda = K, .B = put(rank, N, b_at), .ldb = K, .ldd = N, .M = M};
    CUDA(cudaMalloc(&work.D, (size_t)M * N * 2));       /* more than its rows need */
    GRS(grs_launch(comm, kernel, &work, stream, &err)); /* asynchronous */
    CUDA(cudaDeviceSynchronize());
    GRS(grs_comm_check(comm, &err)); /* an expired wait, or a rank that has gone, would be told here */
    grs_rows(M, ranks, rank, &first, &rows);
    CUDA(cudaMemcpy(host, work.D, (size_t)rows * N * 2, cudaMemcpyDeviceToHost));
    for (int i = 0; i < rows * N; i++)
        wrong += host[i] != bf16((float)(ranks * (ranks + 1) / 2 * a_at(0, (int)first + i / N, i % N % K)));
    printf("rank %d of %d, GPU %d: %d rows from %d, %d elements are wrong\n", rank, ranks, grs_comm_device(comm),
           (int)rows, (int)first, wrong);
    grs_comm_destroy(comm);
    return wrong != 0;
}
