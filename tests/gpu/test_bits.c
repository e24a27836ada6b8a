/* The same bits from every kernel: policies, orders, tile shapes, grids and repeats, on random operands, where any other order of
 * addition and any rounding more shows. The reference is our default's own D; that it is right is test_shapes.sh's to say. */
#include "tests/gpu/gpu.h"
#include "tests/gpu/policies.h"

enum { RINGS = 4, GRIDS = 3, REPEATS = 2 };
static const int rings[RINGS] = {2, 3, 4, 8}, grids[GRIDS] = {16, 2, 6};
static const int64_t N = 264, K = 520;

static const struct policy kernels[] = {
    {"our default", "", NULL},
    {"an outbox", "ring: {place: global}\n", NULL},
    {"segments in turn", "order: segment\n", NULL},
    {"a lag of one wave", "order: {interleave: 1}\n", NULL},
    {"a bit for three tiles", "signal: {granularity: {group: 3}}\n", NULL},
    {"a bit for a segment", "signal: {granularity: segment}\n", NULL},
    {"a wait after every tile", "drain: {policy: per_tile}\n", NULL},
    {"a warp a chunk", "drain: {policy: lane_per_stage}\n", NULL},
    {"one outbox tile, small chunks", "ring: {depth: 1, chunk: {bytes: 1024, count: 2}}\n", NULL},
    {"a ring of two in shared memory", "ring: {place: shared, depth: 2}\n", NULL},
    {"a ring of two in shared memory, a wait after every tile",
     "ring: {place: shared, depth: 2}\ndrain: {policy: per_tile}\n", NULL},
    {"a ring of two in shared memory, a warp a stage",
     "ring: {place: shared, depth: 2}\ndrain: {policy: lane_per_stage}\n", NULL},
    {"a ring of eight in shared memory, a warp a stage",
     "ring: {place: shared, depth: 8}\ndrain: {policy: lane_per_stage}\n", NULL},
    {"tiles of 64 x 64, or pairs of 256 x 64", "tile: {m: 64, n: 64}\n", "tile: {n: 64, cta_group: 2}\n"},
    {"tiles of 64 x 256, or pairs of 256 x 256", "tile: {m: 64, n: 256}\n", "tile: {n: 256, cta_group: 2}\n"},
    {"tiles of 128 x 64", "tile: {m: 128, n: 64}\n", NULL},
    {"tiles of 128 x 192", "tile: {m: 128, n: 192}\n", NULL},
    {"tiles of 128 x 256", "tile: {m: 128, n: 256}\n", NULL},
    {"clusters", "tile: {m: 128, n: 128, cluster: 2}\n", NULL},
    {"ping-pong, or one accumulator", "tile: {m: 128, n: 128, schedule: pingpong}\n",
     "tile: {n: 128}\nstages: {accum: 1}\n"},
    {"ping-pong in clusters, or pairs and a ring in shared memory",
     "tile: {m: 64, n: 64, schedule: pingpong, cluster: 2}\n",
     "tile: {n: 128, cta_group: 2}\nring: {place: shared, depth: 2}\n"},
};
enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]) };

static int64_t rows_of(int tp) { /* of A: clipped tiles, and a last owner with fewer rows */
    return tp * 150 - 7;
}

/* Uniform in [-1, 1), rounded towards zero to BF16. */
static void fill_random(struct matrix *m, uint64_t *state) {
    for (int64_t row = 0; row < m->rows; row++) {
        for (int64_t column = 0; column < m->columns; column++) {
            float value = (float)(int32_t)random_bits(state) / 2147483648.0f;
            uint32_t bits;
            memcpy(&bits, &value, 4);
            *matrix_at(m, row, column) = (uint16_t)(bits >> 16);
        }
    }
    upload(m);
}

/* Whether every D is the one that was kept, or keeps it. The first difference goes into err.text. */
static bool same(struct problem *p, uint16_t *kept[GRS_MAX_TP]) {
    for (int rank = 0; rank < p->tp; rank++) {
        int64_t first, count;
        grs_rows(p->M, p->tp, rank, &first, &count);
        download(&p->D[rank]);
        bool is_first = kept[rank] == NULL;
        if (is_first) {
            kept[rank] = malloc((size_t)(count * N) * 2);
            must(kept[rank] != NULL, "memory");
        }
        for (int64_t row = 0; row < count; row++) {
            for (int64_t column = 0; column < N; column++) {
                uint16_t found = *matrix_at(&p->D[rank], row, column), *wanted = &kept[rank][row * N + column];
                if (is_first) {
                    *wanted = found;
                } else if (found != *wanted) {
                    snprintf(err.text, sizeof(err.text), "rank %d, row %ld, column %ld: %#x, with our default %#x",
                             rank, (long)row, (long)column, found, *wanted);
                    return false;
                }
            }
        }
    }
    return true;
}

static void test_ring(grs_ctx *const *ctxs, int tp) {
    struct problem *p = NULL;
    uint16_t *kept[GRS_MAX_TP] = {NULL};
    int64_t M = rows_of(tp);
    for (int i = 0; i < KERNELS; i++) {
        grs_comm *comms[GRS_MAX_TP];
        const grs_kernel *kernel = NULL;
        grs_comm_options options = GRS_INIT(grs_comm_options);
        options.sms = grids[i % GRIDS];
        MUST(grs_ctx_get(ctxs[i], M, N, K, tp, &kernel, &err));
        MUST(grs_comm_create_local(ctxs[i], tp, placement(0), &options, comms, &err));
        MUST(grs_comm_prepare(comms[0], kernel, M, &err));
        if (p == NULL) {
            uint64_t state = (uint64_t)tp;
            p = problem_make(comms, M, N, K, tp, 8, 1);
            for (int rank = 0; rank < tp; rank++) {
                fill_random(&p->A[rank], &state);
                fill_random(&p->B[rank], &state);
            }
        }
        bool equal = true;
        for (int repeat = 0; repeat < REPEATS && equal; repeat++) {
            problem_poison(p);
            must(run_local(comms, kernel, p), kernels[i].name);
            equal = same(p, kept);
        }
        ok(equal, "tp %d, %s, %d CTAs a rank: the same bits", tp, kernels[i].name, (int)options.sms);
        destroy(comms, tp);
    }
    problem_free(p);
    for (int rank = 0; rank < tp; rank++) {
        free(kept[rank]);
    }
}

int main(void) {
    grs_ctx *ctxs[KERNELS];
    struct wanted list[KERNELS * RINGS];
    setenv("GRS_DEADLINE", "120", 0);
    open_gpus();
    for (int i = 0; i < KERNELS; i++) {
        ctxs[i] = policy_open(&kernels[i]);
        for (int r = 0; r < RINGS; r++) {
            list[i * RINGS + r] = (struct wanted){rows_of(rings[r]), N, K, rings[r], ctxs[i]};
        }
    }
    compile_all(list, KERNELS * RINGS);
    for (int r = 0; r < RINGS; r++) {
        test_ring(ctxs, rings[r]);
    }
    for (int i = 0; i < KERNELS; i++) {
        grs_ctx_close(ctxs[i]);
    }
    close_gpus();
    return finish();
}
