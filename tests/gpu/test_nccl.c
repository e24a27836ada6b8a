/* Two ranks in processes of their own that meet by an ncclComm_t, and one launch whose result is known. On one GPU each process
 * has its own NCCL_HOSTID, which lets NCCL take both for ranks of different hosts. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grs.h"
#include "runtime/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TP = 2, M = 256, N = 256, K = 64 };

struct unique_id {
    char bytes[128];
};
typedef int get_id_function(struct unique_id *id);
typedef int init_function(void **comm, int ranks, struct unique_id id, int rank);
typedef int destroy_function(void *comm);

static struct stage {
    volatile int has_id;
    struct unique_id id;
    char text[TP][sizeof(((grs_error *)0)->text)];
} * stage;
static grs_error err;

#define NEED(rank, condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            snprintf(stage->text[rank], sizeof(stage->text[0]), "not so: %s; %.7000s", #condition, err.text);          \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static void *open_nccl(void) {
    const char *path = getenv("GRS_NCCL");
    return dlopen(path != NULL && path[0] != '\0' ? path : "libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
}

static CUdeviceptr filled(const struct driver *drv, size_t words, uint16_t value) {
    CUdeviceptr memory = 0;
    uint16_t *host = malloc(words * 2);
    for (size_t i = 0; host != NULL && i < words; i++) {
        host[i] = value;
    }
    if (host == NULL || drv->cuMemAlloc(&memory, words * 2) != CUDA_SUCCESS ||
        drv->cuMemcpyHtoD(memory, host, words * 2) != CUDA_SUCCESS || drv->cuCtxSynchronize() != CUDA_SUCCESS) {
        memory = 0;
    }
    free(host);
    return memory;
}

static int run_rank(int rank) {
    char host_id[32];
    int gpus = 0;
    void *nccl = NULL;
    CUdevice device;
    CUcontext context;
    grs_comm *comm;
    snprintf(host_id, sizeof(host_id), "grs-test-%d", rank);
    setenv("NCCL_HOSTID", host_id, 1);
    const struct driver *drv = driver_get(&err);
    NEED(rank, drv != NULL && drv->cuDeviceGetCount(&gpus) == CUDA_SUCCESS && gpus > 0);
    NEED(rank, drv->cuDeviceGet(&device, rank % gpus) == CUDA_SUCCESS);
    NEED(rank, drv->cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    NEED(rank, drv->cuCtxSetCurrent(context) == CUDA_SUCCESS); /* NCCL takes the current GPU */
    void *library = open_nccl();
    NEED(rank, library != NULL);
    if (rank == 0) {
        NEED(rank, ((get_id_function *)dlsym(library, "ncclGetUniqueId"))(&stage->id) == 0);
        __atomic_store_n(&stage->has_id, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&stage->has_id, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    NEED(rank, ((init_function *)dlsym(library, "ncclCommInitRank"))(&nccl, TP, stage->id, rank) == 0);

    const grs_kernel *kernel = grs_jit_get(M, N, K, TP);
    NEED(rank, grs_default_ctx() != NULL);
    NEED(rank, grs_comm_create_nccl(grs_default_ctx(), nccl, NULL, &comm, &err) == GRS_OK);
    NEED(rank, grs_comm_rank(comm) == rank && grs_comm_size(comm) == TP && grs_comm_device(comm) == rank % gpus);
    NEED(rank, grs_comm_prepare(comm, kernel, M, &err) == GRS_OK);
    CUdeviceptr a = filled(drv, M * K, 0x3F80), b = filled(drv, N * K, 0x3F80), d = filled(drv, M * N / TP, 0x7FC1);
    NEED(rank, a != 0 && b != 0 && d != 0);
    const grs_operands operands = {.A = (const void *)(uintptr_t)a,
                                   .lda = K,
                                   .B = (const void *)(uintptr_t)b,
                                   .ldb = K,
                                   .D = (void *)(uintptr_t)d,
                                   .ldd = N,
                                   .M = M};
    static uint16_t got[M * N / TP];
    for (int launch = 0; launch < 3; launch++) {
        NEED(rank, grs_launch(comm, kernel, &operands, NULL, &err) == GRS_OK);
        NEED(rank, drv->cuCtxSynchronize() == CUDA_SUCCESS);
        NEED(rank, grs_comm_check(comm, &err) == GRS_OK);
        NEED(rank, drv->cuMemcpyDtoH(got, d, sizeof(got)) == CUDA_SUCCESS);
        for (int i = 0; i < M * N / TP; i++) {
            NEED(rank, got[i] == 0x4300); /* 128: K ones on each of two ranks */
        }
    }
    grs_comm_destroy(comm);
    NEED(rank, ((destroy_function *)dlsym(library, "ncclCommDestroy"))(nccl) == 0);
    return 0;
}

int main(void) {
    int failed = 0;
    pid_t pid[TP];
    void *library = open_nccl(); /* starts nothing: that is left to the ranks */
    if (library == NULL) {
        printf("ok 1 - ranks of an ncclComm_t # SKIP NCCL was not found ($GRS_NCCL)\n1..1\n");
        return 0;
    }
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int rank = 0; rank < TP; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(240);
            _exit(run_rank(rank));
        }
    }
    for (int rank = 0; rank < TP; rank++) {
        int ended = 0;
        waitpid(pid[rank], &ended, 0);
        printf("%s %d - rank %d of an ncclComm_t\n", ended == 0 ? "ok" : "not ok", rank + 1, rank);
        if (ended != 0) {
            printf("# ended with %#x: %s\n", (unsigned)ended, stage->text[rank]);
            failed = 1;
        }
    }
    printf("1..%d\n", TP);
    return failed;
}
