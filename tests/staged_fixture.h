/* Ranks over several nodes, in processes of their own, on stand-ins for NCCL and for a driver that computes on the host; and
 * launches whose results are known. GRS_NODE says which node a rank counts as. */
#ifndef GRS_TESTS_STAGED_FIXTURE_H
#define GRS_TESTS_STAGED_FIXTURE_H

#define FIXTURE_DRIVER "libhostgpu.so"
#include "runtime/staged.h"
#include "tests/processes_fixture.h"
#include "tests/shim_nccl.h"
#include "tools/grsrun_values.h"

enum { N = 24, K = 16, MOST = 64 };

static struct ncclComm nccl;
static const char *letters; /* a rank a letter: the node that it is on */
static void (*prepare_rank)(int rank);

static inline void use_shims(int rank) {
    char path[4096], node[2] = {letters[rank], '\0'};
    const char *build = getenv("BUILD");
    build = build == NULL ? "build" : build;
    snprintf(path, sizeof(path), "%s/tests/shim/libnccl.so", build);
    setenv("GRS_NCCL", path, 1);
    snprintf(path, sizeof(path), "%s/tests/shim/libnvrtc.so", build);
    setenv("GRS_NVRTC", path, 1);
    setenv("HOSTGPU_DEVICES", "8", 1);
    setenv("GRS_NODE", node, 1);
    setenv("GRS_LOG", "error", 1);
    nccl = (struct ncclComm){.rank = rank,
                             .size = stage->size,
                             .device = rank,
                             .shared = stage->gathered[0],
                             .room = sizeof(stage->gathered[0]),
                             .barrier = &stage->barrier};
    if (prepare_rank != NULL) {
        prepare_rank(rank);
    }
}

static inline const struct shim_nccl_counts *counts(void) {
    void *library = dlopen(getenv("GRS_NCCL"), RTLD_NOW | RTLD_LOCAL);
    return ((shim_nccl_get_function *)dlsym(library, "shim_nccl_get"))();
}

/* A context that compiles "kernels" by the stand-in for NVRTC; the test's own was made before the stand-ins were known. */
static inline grs_ctx *new_context(void) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    options.memory_only = 1;
    options.arch = "sm_90a";
    require(grs_ctx_open(&options, &ctx, &err) == GRS_OK);
    return ctx;
}

/* ---------------------------------------------------------------- numbers --------------------------------------- */

/* Pages that end where the matrix ends: what lies behind cannot be read. */
static inline uint16_t *at_the_edge(size_t words) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (words * 2 + page - 1) / page * page;
    char *memory = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED && mprotect(memory + bytes, page, PROT_NONE) == 0);
    return (uint16_t *)(void *)(memory + bytes - words * 2);
}

static inline uint16_t element(int operand, int rank, int64_t row, int64_t k, uint64_t seed) {
    return values_element(values_key(seed, (uint32_t)operand, rank), VALUES_EXACT, 1u << 31, (uint64_t)(row * K + k));
}

static inline float wanted(int64_t row, int64_t column, uint64_t seed) {
    float sum = 0;
    for (int rank = 0; rank < stage->size; rank++) {
        for (int64_t k = 0; k < K; k++) {
            sum += values_from_bf16(element(VALUES_A, rank, row, k, seed)) *
                   values_from_bf16(element(VALUES_B, rank, column, k, seed));
        }
    }
    return sum;
}

struct problem {
    grs_operands operands;
    uint16_t *d;
    int64_t first, kept, words;
};

static inline struct problem make_problem(int rank, int64_t M, int64_t pad, uint64_t seed) {
    struct problem p = {.operands = {.lda = K, .ldb = K, .ldd = N + pad, .M = M}};
    uint16_t *a = at_the_edge((size_t)(M * K)), *b = at_the_edge((size_t)(N * K));
    grs_rows(M, stage->size, rank, &p.first, &p.kept);
    p.words = (p.kept + 1) * (N + pad); /* a row more, which must stay as it is */
    p.d = at_the_edge((size_t)p.words);
    for (int64_t i = 0; i < M * K; i++) {
        a[i] = element(VALUES_A, rank, i / K, i % K, seed);
    }
    for (int64_t i = 0; i < N * K; i++) {
        b[i] = element(VALUES_B, rank, i / K, i % K, seed);
    }
    for (int64_t i = 0; i < p.words; i++) {
        p.d[i] = 0x7fc1;
    }
    p.operands.A = a;
    p.operands.B = b;
    p.operands.D = p.kept > 0 ? p.d : NULL;
    return p;
}

static inline void check_problem(const struct problem *p, uint64_t seed) {
    for (int64_t i = 0; i < p->words; i++) {
        int64_t row = i / p->operands.ldd, column = i % p->operands.ldd;
        bool inside = row < p->kept && column < N;
        uint16_t want = inside ? values_to_bf16(wanted(p->first + row, column, seed)) : 0x7fc1;
        if (p->d[i] != want && !(p->d[i] == 0x8000 && want == 0)) {
            fprintf(stderr, "%s, M %d, ldd %d: row %d column %d is %#x, not %#x\n", letters, (int)p->operands.M,
                    (int)p->operands.ldd, (int)(p->first + row), (int)column, p->d[i], want);
            _exit(1);
        }
    }
}

static inline void launch_and_check(grs_comm *comm, const grs_kernel *kernel, int64_t M, int64_t pad) {
    uint64_t seed = (uint64_t)(M * 1000 + pad);
    struct problem p = make_problem(grs_comm_rank(comm), M, pad, seed);
    require(grs_launch(comm, kernel, &p.operands, NULL, &err) == GRS_OK);
    check_problem(&p, seed);
}

static inline grs_comm *must_create(grs_ctx *ctx) {
    grs_comm *comm = NULL;
    require(grs_comm_create_nccl(ctx, &nccl, NULL, &comm, &err) == GRS_OK);
    return comm;
}

#endif
