/* Ranks and problems of the tests of the public interface: device memory, and operands whose product is exact.
 *
 * Exact operands: A and B hold -1, 0 and 1, so that every partial sum is an integer; as long as it stays within 256 (checked
 * by the reference), BF16 holds it without rounding and D must match bit for bit. */
#ifndef GRS_TESTS_GPU_H
#define GRS_TESTS_GPU_H

#include "tests/gpu/tap.h"

#define GUARD_ROWS 8      /* poisoned rows before and after every matrix */
#define POISON     0x7FC1 /* a NaN that no kernel writes */

/* ---------------------------------------------------------------- matrices ------------------------------------- */

struct matrix { /* BF16, row-major, between guard rows */
    int64_t rows, columns, stride;
    uint16_t *host;   /* as last uploaded or downloaded, guards included */
    CUdeviceptr base; /* of the first guard row */
    int device;
};

static inline size_t matrix_bytes(const struct matrix *m) {
    return (size_t)((m->rows + 2 * GUARD_ROWS) * m->stride) * 2;
}
static inline void *matrix_pointer(const struct matrix *m) {
    return (void *)(uintptr_t)(m->base + (size_t)(GUARD_ROWS * m->stride) * 2);
}
static inline uint16_t *matrix_at(const struct matrix *m, int64_t row, int64_t column) {
    return &m->host[(row + GUARD_ROWS) * m->stride + column];
}

static inline void poison(struct matrix *m) {
    for (size_t i = 0; i < matrix_bytes(m) / 2; i++) {
        m->host[i] = POISON;
    }
}
static inline void upload(const struct matrix *m) {
    CU(cuCtxSetCurrent(contexts[m->device]));
    CU(cuMemcpyHtoD(m->base, m->host, matrix_bytes(m)));
    CU(cuCtxSynchronize()); /* a copy from pageable memory returns before it has arrived, and other streams do not wait for it */
}
static inline void download(struct matrix *m) {
    CU(cuCtxSetCurrent(contexts[m->device]));
    CU(cuMemcpyDtoH(m->host, m->base, matrix_bytes(m)));
}

static inline struct matrix matrix_make(int device, int64_t rows, int64_t columns, int64_t padding) {
    struct matrix m = {.rows = rows, .columns = columns, .stride = columns + padding, .device = device};
    m.host = malloc(matrix_bytes(&m));
    must(m.host != NULL, "memory");
    poison(&m);
    CU(cuCtxSetCurrent(contexts[device]));
    CU(cuMemAlloc(&m.base, matrix_bytes(&m)));
    upload(&m);
    return m;
}
static inline void matrix_free(struct matrix *m) {
    if (m->base != 0) {
        CU(cuCtxSetCurrent(contexts[m->device]));
        CU(cuMemFree(m->base));
    }
    free(m->host);
    memset(m, 0, sizeof(*m));
}

/* ---------------------------------------------------------------- a problem ------------------------------------ */

struct problem {
    int64_t M, N, K;
    int tp;
    struct matrix A[GRS_MAX_TP], B[GRS_MAX_TP], D[GRS_MAX_TP];
    grs_operands operands[GRS_MAX_TP];
    int16_t *sum; /* [M, N], the reference */
};

static inline uint32_t random_bits(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

static inline uint16_t bf16(int value) { /* exact for |value| <= 256 */
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

/* -1, 0 or 1; `one_in` of the elements are not 0. */
static inline int ternary(uint64_t *state, uint32_t one_in) {
    uint32_t bits = random_bits(state);
    return (bits >> 1) % one_in != 0 ? 0 : ((bits & 1) != 0 ? 1 : -1);
}

static inline void fill_matrix(struct matrix *m, int8_t *values, uint64_t *state, uint32_t one_in) {
    for (int64_t row = 0; row < m->rows; row++) {
        for (int64_t column = 0; column < m->columns; column++) {
            int value = ternary(state, one_in);
            values[row * m->columns + column] = (int8_t)value;
            *matrix_at(m, row, column) = bf16(value);
        }
    }
    upload(m);
}

/* New operands and their reference. */
static inline void problem_fill(struct problem *p, uint64_t seed) {
    int8_t *a = malloc((size_t)(p->M * p->K)), *b = malloc((size_t)(p->N * p->K));
    must(a != NULL && b != NULL, "memory");
    memset(p->sum, 0, (size_t)(p->M * p->N) * sizeof(*p->sum));
    uint32_t one_in = p->K * p->tp > 2048 ? 4 : 2;
    for (int rank = 0; rank < p->tp; rank++) {
        uint64_t state = seed * 1000 + (uint64_t)rank;
        fill_matrix(&p->A[rank], a, &state, one_in);
        fill_matrix(&p->B[rank], b, &state, one_in);
        for (int64_t i = 0; i < p->M; i++) {
            for (int64_t j = 0; j < p->N; j++) {
                int16_t sum = 0;
                for (int64_t k = 0; k < p->K; k++) {
                    sum = (int16_t)(sum + a[i * p->K + k] * b[j * p->K + k]);
                }
                p->sum[i * p->N + j] = (int16_t)(p->sum[i * p->N + j] + sum);
            }
        }
    }
    free(a);
    free(b);
}

static inline void problem_poison(struct problem *p) {
    for (int rank = 0; rank < p->tp; rank++) {
        if (p->D[rank].base != 0) {
            poison(&p->D[rank]);
            upload(&p->D[rank]);
        }
    }
}

/* `padding` (a multiple of 8): elements between rows. */
static inline struct problem *problem_make(grs_comm *const *comms, int64_t M, int64_t N, int64_t K, int tp,
                                           int64_t padding, uint64_t seed) {
    struct problem *p = calloc(1, sizeof(*p));
    must(p != NULL && (p->sum = malloc((size_t)(M * N) * sizeof(*p->sum))) != NULL, "memory");
    p->M = M, p->N = N, p->K = K, p->tp = tp;
    for (int rank = 0; rank < tp; rank++) {
        int device = grs_comm_device(comms[rank]);
        int64_t first, count;
        grs_rows(M, tp, rank, &first, &count);
        p->A[rank] = matrix_make(device, M, K, padding);
        p->B[rank] = matrix_make(device, N, K, padding);
        if (count > 0) {
            p->D[rank] = matrix_make(device, count, N, padding);
        }
        p->operands[rank] = (grs_operands){
            matrix_pointer(&p->A[rank]), p->A[rank].stride, matrix_pointer(&p->B[rank]), p->B[rank].stride, NULL, 0, M};
        if (count > 0) {
            p->operands[rank].D = matrix_pointer(&p->D[rank]);
            p->operands[rank].ldd = p->D[rank].stride;
        }
    }
    problem_fill(p, seed);
    return p;
}

static inline void problem_free(struct problem *p) {
    for (int rank = 0; rank < p->tp; rank++) {
        matrix_free(&p->A[rank]);
        matrix_free(&p->B[rank]);
        matrix_free(&p->D[rank]);
    }
    free(p->sum);
    free(p);
}

/* Every element of D on every rank, and that nothing around D was written. The first mismatch goes into err.text. */
static inline bool problem_check(struct problem *p) {
    for (int rank = 0; rank < p->tp; rank++) {
        struct matrix *D = &p->D[rank];
        int64_t first, count;
        grs_rows(p->M, p->tp, rank, &first, &count);
        if (D->base == 0) {
            continue;
        }
        download(D);
        for (int64_t row = -GUARD_ROWS; row < count + GUARD_ROWS; row++) {
            for (int64_t column = 0; column < D->stride; column++) {
                bool inside = row >= 0 && row < count && column < p->N;
                int sum = inside ? p->sum[(first + row) * p->N + column] : 0;
                uint16_t wanted = inside ? bf16(sum) : POISON, found = *matrix_at(D, row, column);
                if (sum > 256 || sum < -256) {
                    snprintf(err.text, sizeof(err.text), "the test's operands are not sparse enough: a sum of %d", sum);
                    return false;
                }
                if (found != wanted && !(wanted == 0 && found == 0x8000)) {
                    snprintf(err.text, sizeof(err.text),
                             "rank %d, row %ld (of A: %ld), column %ld: found %#x, wanted %#x%s", rank, (long)row,
                             (long)(first + row), (long)column, found, wanted, inside ? "" : " (outside of D)");
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---------------------------------------------------------------- ranks ---------------------------------------- */

/* Where the ranks go: all on GPU 0, or (where there are several) dealt over all GPUs. */
static inline int placements(void) {
    return gpu_count > 1 ? 2 : 1;
}
static inline const int *placement(int which) {
    static const int first[GRS_MAX_TP];
    return which == 0 ? first : NULL;
}
static inline const char *placement_name(int which) {
    return which == 0 ? "on one GPU" : "over all GPUs";
}

static inline void destroy(grs_comm **comms, int tp) {
    for (int rank = 0; rank < tp; rank++) {
        grs_comm_destroy(comms[rank]);
    }
}

/* Launches all ranks and waits. False: err says why. */
static inline bool run_local(grs_comm *const *comms, const grs_kernel *kernel, const struct problem *p) {
    if (grs_launch_local(comms, kernel, p->operands, NULL, &err) != GRS_OK) {
        return false;
    }
    synchronize();
    return grs_comm_check(comms[0], &err) == GRS_OK;
}

#endif
