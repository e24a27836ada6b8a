/* Ranks in processes of their own that meet by an ncclComm_t, and launches whose results are known: as one node, whose ranks share a
 * kernel; as several, with NCCL between them; and each a node of its own. $GRS_NODE pretends the nodes. Several ranks on a GPU have an
 * NCCL_HOSTID each, which lets NCCL take them for ranks of different hosts. And a launch that one node leaves early, which the other
 * one hears of. */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grs.h"
#include "runtime/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TP = 8, N = 264, LARGEST_M = 257, LAUNCHES = 3, POISON = 0x7FC1 };
static const int64_t rows[] = {1, 5, 130, LARGEST_M};

struct unique_id {
    char bytes[128];
};
typedef int get_id_function(struct unique_id *id);
typedef int init_function(void **comm, int ranks, struct unique_id id, int rank);
typedef int destroy_function(void *comm);

static struct stage {
    volatile int has_id, arrived;
    struct unique_id id;
    char text[MOST_TP][sizeof(((grs_error *)0)->text)];
} * stage;
static grs_error err;

static const char *letters; /* a rank a letter: its node */
static enum {
    ALL_WELL,
    STANDS_STILL,
    REPLAYED
} fault;          /* the first rank of node a stands still, so that its node gives up */
static int tp, K; /* every sum is an integer of at most tp * K = 256, which BF16 holds */

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

/* ---------------------------------------------------------------- operands -------------------------------------- */

/* -1, 0 or 1: element i of A (which 0) or B (1) of a rank. */
static int element(int rank, int which, int64_t i) {
    uint64_t x = ((uint64_t)i << 8 | (uint64_t)(rank << 1 | which)) * 0x9E3779B97F4A7C15u;
    return (int)((x ^ x >> 29) * 0xBF58476D1CE4E5B9u >> 40) % 3 - 1;
}
static uint16_t bf16(int value) {
    float number = (float)value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return (uint16_t)(bits >> 16);
}
static int64_t sum_of(int64_t row, int64_t column) {
    int64_t sum = 0;
    for (int rank = 0; rank < tp; rank++) {
        for (int64_t k = 0; k < K; k++) {
            sum += element(rank, 0, row * K + k) * element(rank, 1, column * K + k);
        }
    }
    return sum;
}

static CUdeviceptr uploaded(const struct driver *drv, const uint16_t *words, size_t count) {
    CUdeviceptr memory = 0;
    bool well = drv->cuMemAlloc(&memory, count * 2) == CUDA_SUCCESS &&
                drv->cuMemcpyHtoD(memory, words, count * 2) == CUDA_SUCCESS && drv->cuCtxSynchronize() == CUDA_SUCCESS;
    return well ? memory : 0;
}

/* A or B, of which `lines` are there. */
static CUdeviceptr operand(const struct driver *drv, int rank, int which, int64_t lines) {
    static uint16_t words[N * 128]; /* K is 128 at most */
    for (int64_t i = 0; i < lines * K; i++) {
        words[i] = bf16(element(rank, which, i));
    }
    return uploaded(drv, words, (size_t)(lines * K));
}

/* ---------------------------------------------------------------- launches -------------------------------------- */

struct problem {
    const struct driver *drv;
    grs_comm *comm;
    const grs_kernel *kernel;
    CUdeviceptr a, b, d;
    CUstream stream;
    int rank;
    int64_t m, ldd, first, kept;
};

static grs_operands operands_of(const struct problem *p) {
    return (grs_operands){.A = (const void *)(uintptr_t)p->a,
                          .lda = K,
                          .B = (const void *)(uintptr_t)p->b,
                          .ldb = K,
                          .D = (void *)(uintptr_t)p->d,
                          .ldd = p->ldd,
                          .M = p->m};
}

static int check_d(const struct problem *p) {
    static uint16_t got[LARGEST_M * (N + 8)];
    NEED(p->rank, p->drv->cuMemcpyDtoH(got, p->d, (size_t)(p->kept * p->ldd) * 2) == CUDA_SUCCESS);
    for (int64_t i = 0; i < p->kept * p->ldd; i++) {
        int64_t row = p->first + i / p->ldd, column = i % p->ldd;
        uint16_t want = column < N ? bf16((int)sum_of(row, column)) : POISON;
        if (got[i] != want) {
            snprintf(stage->text[p->rank], sizeof(stage->text[0]), "M %d: D[%d, %d] is %#x, not %#x", (int)p->m,
                     (int)row, (int)column, got[i], want);
            return 1;
        }
    }
    return 0;
}

static int launch_and_check(const struct problem *p, CUgraphExec graph) {
    static uint16_t poison[LARGEST_M * (N + 8)];
    const grs_operands operands = operands_of(p);
    for (int64_t i = 0; i < p->kept * p->ldd; i++) {
        poison[i] = POISON;
    }
    if (p->kept > 0) {
        NEED(p->rank, p->drv->cuMemcpyHtoD(p->d, poison, (size_t)(p->kept * p->ldd) * 2) == CUDA_SUCCESS);
        NEED(p->rank, p->drv->cuCtxSynchronize() == CUDA_SUCCESS);
    }
    if (graph != NULL) {
        NEED(p->rank, p->drv->cuGraphLaunch(graph, p->stream) == CUDA_SUCCESS);
    } else {
        NEED(p->rank, grs_launch(p->comm, p->kernel, &operands, p->stream, &err) == GRS_OK);
    }
    NEED(p->rank, p->drv->cuStreamSynchronize(p->stream) == CUDA_SUCCESS);
    NEED(p->rank, grs_comm_check(p->comm, &err) == GRS_OK);
    return p->kept > 0 ? check_d(p) : 0;
}

static int replay(const struct problem *p) {
    CUgraph graph = NULL;
    CUgraphExec ready = NULL;
    const grs_operands operands = operands_of(p);
    NEED(p->rank, p->drv->cuStreamBeginCapture(p->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    NEED(p->rank, grs_launch(p->comm, p->kernel, &operands, p->stream, &err) == GRS_OK);
    NEED(p->rank, p->drv->cuStreamEndCapture(p->stream, &graph) == CUDA_SUCCESS);
    NEED(p->rank, p->drv->cuGraphInstantiateWithFlags(&ready, graph, 0) == CUDA_SUCCESS);
    for (int launch = 0; launch < LAUNCHES; launch++) {
        if (launch_and_check(p, ready) != 0) {
            return 1;
        }
    }
    NEED(p->rank, p->drv->cuGraphExecDestroy(ready) == CUDA_SUCCESS);
    NEED(p->rank, p->drv->cuGraphDestroy(graph) == CUDA_SUCCESS);
    return 0;
}

static int launch_all(struct problem *p) {
    static uint16_t poison[LARGEST_M * (N + 8)];
    p->d = uploaded(p->drv, poison, sizeof(poison) / 2);
    NEED(p->rank, p->d != 0 && p->drv->cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED(p->rank, grs_default_ctx() != NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        p->m = rows[i];
        p->kernel = grs_jit_get(p->m, N, K, tp); /* NULL: prepare says why, on all ranks */
        NEED(p->rank, grs_comm_prepare(p->comm, p->kernel, p->m, &err) == GRS_OK);
        grs_rows(p->m, tp, p->rank, &p->first, &p->kept);
        p->a = operand(p->drv, p->rank, 0, p->m); /* no row more than there are */
        NEED(p->rank, p->a != 0);
        for (int launch = 0; launch < LAUNCHES; launch++) {
            p->ldd = N + 8 * (launch % 2);
            if (launch_and_check(p, NULL) != 0) {
                return 1;
            }
        }
        if (replay(p) != 0) {
            return 1;
        }
        NEED(p->rank, p->drv->cuMemFree(p->a) == CUDA_SUCCESS);
    }
    return 0;
}

/* ---------------------------------------------------------------- a launch that is left early -------------------- */

/* Puts the launch on the stream, by way of a graph or not. */
static int start(const struct problem *p, CUgraph *graph, CUgraphExec *ready) {
    const grs_operands operands = operands_of(p);
    if (fault == REPLAYED) {
        NEED(p->rank, p->drv->cuStreamBeginCapture(p->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    }
    NEED(p->rank, grs_launch(p->comm, p->kernel, &operands, p->stream, &err) == GRS_OK);
    if (fault == REPLAYED) {
        NEED(p->rank, p->drv->cuStreamEndCapture(p->stream, graph) == CUDA_SUCCESS);
        NEED(p->rank, p->drv->cuGraphInstantiateWithFlags(ready, *graph, 0) == CUDA_SUCCESS);
        NEED(p->rank, grs_comm_check(p->comm, &err) == GRS_OK);
        NEED(p->rank, p->drv->cuGraphLaunch(*ready, p->stream) == CUDA_SUCCESS);
    }
    return 0;
}

static int leave_early(struct problem *p) {
    static uint16_t poison[LARGEST_M * (N + 8)];
    bool fails = letters[p->rank] == 'a';
    const char *begin = fails ? "node 0, whose ranks 0 to 1 are 0 to 1 in what follows: rank " : "rank ";
    const char *part = fails ? " s for " : ": node 0 (a, ranks 0 to 1) left a launch early: ";
    grs_status wanted = fails ? GRS_ERR_TIMEOUT : GRS_ERR_PEER;
    CUgraph graph = NULL;
    CUgraphExec ready = NULL;
    p->m = 130;
    p->ldd = N;
    p->d = uploaded(p->drv, poison, sizeof(poison) / 2);
    p->a = operand(p->drv, p->rank, 0, p->m);
    NEED(p->rank, p->d != 0 && p->a != 0);
    NEED(p->rank, p->drv->cuStreamCreate(&p->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    p->kernel = grs_jit_get(p->m, N, K, tp);
    NEED(p->rank, grs_comm_prepare(p->comm, p->kernel, p->m, &err) == GRS_OK);
    if (start(p, &graph, &ready) != 0) {
        return 1;
    }
    NEED(p->rank, p->drv->cuStreamSynchronize(p->stream) == CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        NEED(p->rank, grs_comm_check(p->comm, &err) == wanted);
        NEED(p->rank, strncmp(err.text, begin, strlen(begin)) == 0 && strstr(err.text, part) != NULL);
    }
    const grs_operands operands = operands_of(p);
    NEED(p->rank, grs_launch(p->comm, p->kernel, &operands, p->stream, &err) == wanted);
    if (ready != NULL) {
        NEED(p->rank, p->drv->cuGraphExecDestroy(ready) == CUDA_SUCCESS);
        NEED(p->rank, p->drv->cuGraphDestroy(graph) == CUDA_SUCCESS);
    }
    __atomic_fetch_add(&stage->arrived, 1, __ATOMIC_ACQ_REL); /* everybody has looked before anybody aborts */
    while (__atomic_load_n(&stage->arrived, __ATOMIC_ACQUIRE) < tp) {
        usleep(1000);
    }
    NEED(p->rank, grs_comm_abort(p->comm, &err) == GRS_OK);
    NEED(p->rank, grs_comm_check(p->comm, &err) == wanted);
    return 0;
}

/* ---------------------------------------------------------------- ranks ----------------------------------------- */

static void set_names(int rank, int gpus) {
    char name[32] = {letters[rank], '\0'};
    setenv("GRS_NODE", name, 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    if (tp > gpus) {
        snprintf(name, sizeof(name), "grs-test-%d", rank);
        setenv("NCCL_HOSTID", name, 1);
    }
    if (fault != ALL_WELL) { /* rank 63 of a node is nobody; GPUs that are shared take their time */
        setenv("GRS_STALL", letters[rank] == 'a' ? "0:0" : "63:0", 1);
        setenv("GRS_DEADLINE", letters[rank] == 'a' ? "2" : "60", 1);
    }
}

static grs_path_info path_wanted(void) {
    int run = 1;
    while (run < tp && letters[run] == letters[0]) {
        run++;
    }
    bool regular = tp % run == 0;
    for (int rank = 0; rank < tp; rank++) { /* nodes a, b, … of `run` ranks each */
        regular &= letters[rank] == 'a' + rank / run;
    }
    grs_path_info wanted = {.path = GRS_PATH_UNFUSED, .nodes = tp, .node_ranks = 1};
    if (regular && run > 1) {
        wanted =
            (grs_path_info){.path = run == tp ? GRS_PATH_FUSED : GRS_PATH_STAGED, .nodes = tp / run, .node_ranks = run};
    }
    return wanted;
}

static int run_rank(int rank) {
    int gpus = 0;
    void *nccl = NULL;
    CUdevice device;
    CUcontext context;
    grs_path_info path = GRS_INIT(grs_path_info), wanted = path_wanted();
    struct problem p = {.rank = rank};
    p.drv = driver_get(&err);
    NEED(rank, p.drv != NULL && p.drv->cuDeviceGetCount(&gpus) == CUDA_SUCCESS && gpus > 0);
    set_names(rank, gpus);
    NEED(rank, p.drv->cuDeviceGet(&device, rank % gpus) == CUDA_SUCCESS);
    NEED(rank, p.drv->cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    NEED(rank, p.drv->cuCtxSetCurrent(context) == CUDA_SUCCESS); /* NCCL takes the current GPU */
    void *library = open_nccl();
    NEED(rank, library != NULL);
    if (rank == 0) {
        NEED(rank, ((get_id_function *)dlsym(library, "ncclGetUniqueId"))(&stage->id) == 0);
        __atomic_store_n(&stage->has_id, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&stage->has_id, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    NEED(rank, ((init_function *)dlsym(library, "ncclCommInitRank"))(&nccl, tp, stage->id, rank) == 0);
    NEED(rank, grs_default_ctx() != NULL);
    NEED(rank, grs_comm_create_nccl(grs_default_ctx(), nccl, NULL, &p.comm, &err) == GRS_OK);
    NEED(rank, grs_comm_rank(p.comm) == rank && grs_comm_size(p.comm) == tp && grs_comm_device(p.comm) == rank % gpus);
    NEED(rank, grs_comm_get_path(p.comm, &path, &err) == GRS_OK);
    NEED(rank, path.path == wanted.path && path.nodes == wanted.nodes && path.node_ranks == wanted.node_ranks);
    p.b = operand(p.drv, rank, 1, N);
    NEED(rank, p.b != 0);
    if ((fault == ALL_WELL ? launch_all(&p) : leave_early(&p)) != 0) {
        return 1;
    }
    grs_comm_destroy(p.comm);
    NEED(rank, ((destroy_function *)dlsym(library, "ncclCommDestroy"))(nccl) == 0);
    return 0;
}

/* ---------------------------------------------------------------- cases ----------------------------------------- */

static int number, failed;

static void run_case(const char *nodes, const char *title) {
    pid_t pid[MOST_TP];
    letters = nodes;
    tp = (int)strlen(nodes);
    K = 256 / tp / 8 * 8;
    memset(stage, 0, sizeof(*stage));
    fflush(stdout);
    for (int rank = 0; rank < tp; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(100);
            _exit(run_rank(rank));
        }
    }
    bool well = true;
    for (int left = tp; left > 0; left--) {
        int ended = 0, rank = 0;
        pid_t one = wait(&ended);
        while (rank < tp - 1 && pid[rank] != one) {
            rank++;
        }
        pid[rank] = 0;
        if (ended != 0 && well) { /* the others would wait for it */
            printf("# rank %d ended with %#x: %s\n", rank, (unsigned)ended, stage->text[rank]);
            well = false;
            for (int other = 0; other < tp; other++) {
                if (pid[other] != 0) {
                    kill(pid[other], SIGKILL);
                }
            }
        }
    }
    printf("%s %d - %s\n", well ? "ok" : "not ok", ++number, title);
    failed |= !well;
}

/* Ranks that a node of half of the GPUs would have; 0: that is the case of two GPUs. Asked in a process of its own, since a
 * driver does not outlive a fork. */
static int half_of_gpus(void) {
    int ended = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int gpus = 0;
        const struct driver *drv = driver_get(NULL);
        _exit(drv != NULL && drv->cuDeviceGetCount(&gpus) == CUDA_SUCCESS && gpus <= MOST_TP ? gpus / 2 : 0);
    }
    waitpid(pid, &ended, 0);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 0;
}

int main(void) {
    void *library = open_nccl(); /* starts nothing: that is left to the ranks */
    if (library == NULL) {
        printf("ok 1 - ranks of an ncclComm_t # SKIP NCCL was not found ($GRS_NCCL)\n1..1\n");
        return 0;
    }
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_case("aa", "two ranks on a node: fused");
    run_case("ab", "two nodes of one rank: unfused");
    run_case("aba", "a node whose ranks are not neighbours: unfused");
    run_case("aabb", "two nodes of two ranks: staged");
    fault = STANDS_STILL;
    run_case("aabb", "a node that leaves a launch early: the other one is told");
    fault = REPLAYED;
    run_case("aabb", "the same in a graph");
    fault = ALL_WELL;
    int half = half_of_gpus();
    if (half > 2) {
        static char nodes[MOST_TP + 1];
        memset(nodes, 'a', (size_t)half);
        memset(nodes + half, 'b', (size_t)half);
        run_case(nodes, "two nodes of half of the GPUs each: staged");
    }
    printf("1..%d\n", number);
    return failed;
}
