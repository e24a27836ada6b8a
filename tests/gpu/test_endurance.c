/* Ten thousand launches on one communicator, mixed at random: shapes, M's, kernels, kinds of operands; all ranks at once, or
 * rank by rank in any order with some of them late. D is poison before each launch, and after it a checksum of every element
 * is compared, on the GPU, with that of the D that the reference approved. The host waits only after every hundred launches,
 * and then looks through everything around and inside the communicator's memory.
 *
 * GRS_TEST_LAUNCHES: another number of launches. The parts are grsrun's; see docs/grsrun.md. */
#include "tests/gpu/tap.h"

#include "generator/config.h"
#include "tools/grsrun_helpers.h"
#include "tools/grsrun_inside.h"
#include "tools/grsrun_verify.h"
#include "tools/grsrun_zones.h"

enum { BATCH = 100, SHAPES = 12, MODES = 2, PROBLEMS = SHAPES * MODES };

static const struct {
    int64_t m, n, k;
} shapes[SHAPES] = {{1000, 256, 128}, {64, 256, 128}, {3, 256, 128},    {2000, 1032, 64},
                    {513, 1032, 64},  {255, 520, 72}, {1, 520, 72},     {1023, 136, 8},
                    {700, 2056, 264}, {5, 2056, 264}, {257, 4104, 512}, {31, 8, 2056}};

/* Every rank has a stream of its own, so also a `device` of its own. */
struct run {
    grs_ctx *ctx;
    int tp;
    struct grsrun_options options;
    struct device devices[GRS_MAX_TP];
    struct team team;
    CUevent forked[GRS_MAX_TP];     /* of each rank's stream */
    CUdeviceptr sums[GRS_MAX_TP];   /* BATCH of them: minus what is wanted, then 0 */
    CUdeviceptr damage[GRS_MAX_TP]; /* struct values_damage of what lies around D */
    uint64_t random;
};

struct problem {
    struct grsrun_shape shape;
    const grs_kernel *kernel;
    struct operands *operands;
    uint64_t sum[GRS_MAX_TP]; /* of the right D; 0 where there is none */
};

static uint32_t choose(struct run *run, uint32_t below) {
    run->random = values_mix(run->random + 0x9E3779B97F4A7C15u);
    return (uint32_t)(run->random >> 32) % below;
}

/* ---------------------------------------------------------------- making ---------------------------------------- */

static void run_open(struct run *run, int tp, bool spread) {
    struct cache_entry *helpers;
    enum arch arch;
    *run = (struct run){.ctx = grs_default_ctx(), .tp = tp, .random = (uint64_t)tp};
    must(run->ctx != NULL, "a context");
    run->options = (struct grsrun_options){.repeat = 1, .rounds = 1, .ranks_per_gpu = 1};
    run->options.ldd.value = 8;
    MUST(device_arch(drv, 0, &arch, &err));
    MUST(helpers_get(run->ctx, arch, &helpers, &err));
    for (int rank = 0; rank < tp; rank++) {
        struct device *device = &run->devices[rank];
        MUST(device_open(drv, spread ? rank * gpu_count / tp : 0, helpers->cubin, device, &err));
        MUST(device_alloc(device, BATCH * sizeof(uint64_t), &run->sums[rank], &err));
        MUST(device_alloc(device, sizeof(struct values_damage), &run->damage[rank], &err));
        MUST(device_use(device, &err));
        CU(cuEventCreate(&run->forked[rank], CU_EVENT_DISABLE_TIMING));
    }
    cache_entry_free(helpers);
    MUST(team_open(run->ctx, &run->options, run->devices, tp, tp, &run->team, &err));
}

static void run_close(struct run *run) {
    team_close(&run->team);
    for (int rank = 0; rank < run->tp; rank++) {
        struct device *device = &run->devices[rank];
        MUST(device_use(device, &err));
        CU(cuEventDestroy(run->forked[rank]));
        device_free(device, run->sums[rank]);
        device_free(device, run->damage[rank]);
        device_close(device);
    }
}

/* Poisons D and all that the communicator does not need to be anything. */
static void poison(struct run *run, struct problem *p) {
    MUST(operands_poison(p->operands, &err));
    MUST(inside_poison(&run->team, &err));
}

/* Operands, and the checksum of a D in which every element has been compared with the reference. */
static bool problem_make(struct run *run, int which, struct problem *p) {
    enum values_mode mode = which % MODES == 0 ? VALUES_EXACT : VALUES_RANDOM;
    struct reference reference = {0};
    struct values_verdict verdict;
    struct buf notes = {0};
    uint64_t seed = (uint64_t)which + 1;
    p->shape =
        (struct grsrun_shape){shapes[which / MODES].m, shapes[which / MODES].n, shapes[which / MODES].k, run->tp};
    p->kernel = kernel_for(p->shape.m, p->shape.n, p->shape.k, run->tp);
    MUST(grs_comm_prepare(run->team.comms[0], p->kernel, inside_max_m(&run->options, p->kernel, p->shape.m), &err));
    MUST(operands_make(&run->team, &p->shape, &p->operands, &err));
    MUST(reference_make(&run->team, &p->shape, &reference, &err));
    MUST(reference_compute(&reference, mode, &seed, &err));
    MUST(operands_fill(p->operands, seed, mode, reference.threshold, &err));
    poison(run, p);
    run->team.launches++;
    MUST(grs_launch_local(run->team.comms, p->kernel, p->operands->launch, run->team.streams, &err));
    MUST(team_wait(&run->team, &err));
    MUST(verify_launch(&reference, p->operands, p->kernel, &verdict, &notes, &err));
    for (int rank = 0; rank < run->tp; rank++) {
        MUST(matrix_checksum(&p->operands->d[rank], &p->sum[rank], &err));
    }
    bool right = verdict.mismatches == 0 && verify_statistics(&run->team, &p->shape, mode, &verdict);
    if (!right) {
        snprintf(err.text, sizeof(err.text), "%ld,%ld,%ld: %s", (long)p->shape.m, (long)p->shape.n, (long)p->shape.k,
                 notes.data == NULL ? "rel_err" : notes.data);
    }
    buf_free(&notes);
    reference_free(&reference);
    return right;
}

/* ---------------------------------------------------------------- launching ------------------------------------- */

/* Rank by rank, each on its stream: in any order, and one of them up to 50 us late. */
static void launch_by_rank(struct run *run, struct problem *p) {
    int first = (int)choose(run, (uint32_t)run->tp), late = (int)choose(run, (uint32_t)run->tp);
    for (int i = 0; i < run->tp; i++) {
        int rank = (first + i) % run->tp;
        if (rank == late) {
            MUST(device_spin(&run->devices[rank], choose(run, 50000), &err));
        }
        MUST(grs_launch(run->team.comms[rank], p->kernel, &p->operands->launch[rank], run->team.streams[rank], &err));
    }
}

static void wait_for(struct run *run, int waiter, int other) {
    MUST(device_use(&run->devices[other], &err));
    CU(cuEventRecord(run->forked[other], run->devices[other].stream));
    MUST(device_use(&run->devices[waiter], &err));
    CU(cuStreamWaitEvent(run->devices[waiter].stream, run->forked[other], 0));
}

/* All at once: a grid a GPU, on the stream of its lowest rank, which the others' streams meet before and after. */
static void launch_together(struct run *run, struct problem *p) {
    int lowest[GRS_MAX_TP];
    for (int rank = 0; rank < run->tp; rank++) {
        for (lowest[rank] = 0; run->devices[lowest[rank]].ordinal != run->devices[rank].ordinal; lowest[rank]++) {}
        if (lowest[rank] != rank) {
            wait_for(run, lowest[rank], rank);
        }
    }
    MUST(grs_launch_local(run->team.comms, p->kernel, p->operands->launch, run->team.streams, &err));
    for (int rank = 0; rank < run->tp; rank++) {
        if (lowest[rank] != rank) {
            wait_for(run, rank, lowest[rank]);
        }
    }
}

/* Adds D's checksum to sums[slot], and what changed around D to the damage. */
static void check_rank(struct run *run, struct problem *p, int rank, int slot) {
    struct matrix d = p->operands->d[rank];
    CUdeviceptr sum = run->sums[rank] + (size_t)slot * sizeof(uint64_t);
    void *sum_arguments[] = {&d.layout, &d.buffer, &sum}, *arguments[] = {&d.layout, &d.buffer, &run->damage[rank]};
    if (d.buffer != 0) {
        MUST(device_run(d.device, d.device->checksum, d.layout.rows * d.layout.columns, sum_arguments, &err));
        MUST(device_run(d.device, d.device->check, d.layout.total, arguments, &err));
    }
}

/* ---------------------------------------------------------------- a batch --------------------------------------- */

/* `count` launches without a wait: all of them rank by rank, or each of all ranks together. */
static void batch_start(struct run *run, struct problem *problems, int *chosen, int count, bool by_rank) {
    const struct values_damage none = {0, UINT64_MAX};
    for (int i = 0; i < count; i++) {
        chosen[i] = (int)choose(run, PROBLEMS);
    }
    for (int rank = 0; rank < run->tp; rank++) {
        uint64_t wanted[BATCH] = {0};
        for (int i = 0; i < count; i++) {
            wanted[i] = 0 - problems[chosen[i]].sum[rank];
        }
        MUST(device_use(&run->devices[rank], &err));
        CU(cuMemcpyHtoD(run->sums[rank], wanted, sizeof(wanted)));
        CU(cuMemcpyHtoD(run->damage[rank], &none, sizeof(none)));
        CU(cuCtxSynchronize()); /* the ranks' streams do not wait for copies */
    }
    poison(run, &problems[chosen[0]]);
    for (int i = 0; i < count; i++) {
        struct problem *p = &problems[chosen[i]];
        MUST(operands_poison(p->operands, &err));
        run->team.launches++;
        if (by_rank) {
            launch_by_rank(run, p);
        } else {
            launch_together(run, p);
        }
        for (int rank = 0; rank < run->tp; rank++) {
            check_rank(run, p, rank, i);
        }
    }
}

static bool batch_end(struct run *run, const struct problem *problems, const int *chosen) {
    if (team_wait(&run->team, &err) != GRS_OK) {
        return false;
    }
    for (int rank = 0; rank < run->tp; rank++) {
        struct values_span span = {run->sums[rank], 2 * BATCH, 0, 0};
        struct values_damage wrong, around;
        MUST(spans_check(&run->devices[rank], &span, 1, &wrong, &err));
        MUST(device_use(&run->devices[rank], &err));
        CU(cuMemcpyDtoH(&around, run->damage[rank], sizeof(around)));
        if (wrong.words > 0) {
            int slot = (int)(wrong.first / 2);
            const struct problem *p = &problems[chosen[slot]];
            snprintf(err.text, sizeof(err.text),
                     "launch %d of the batch, %ld,%ld,%ld: D of rank %d is not the right one", slot, (long)p->shape.m,
                     (long)p->shape.n, (long)p->shape.k, rank);
            return false;
        }
        if (around.words > 0) {
            snprintf(err.text, sizeof(err.text), "%lu words around D of rank %d were overwritten",
                     (unsigned long)around.words, rank);
            return false;
        }
    }
    return inside_check(&run->team, NULL, 0, &err) == GRS_OK;
}

static int launches_wanted(int usual) {
    const char *text = getenv("GRS_TEST_LAUNCHES");
    return text == NULL ? usual : atoi(text);
}

static void test_endurance(int tp, int usual, bool spread) {
    static struct run run;
    struct problem problems[PROBLEMS] = {0};
    int chosen[BATCH], done = 0, wanted = launches_wanted(usual);
    bool right = true;
    run_open(&run, tp, spread);
    for (int i = 0; i < PROBLEMS && right; i++) {
        right = problem_make(&run, i, &problems[i]);
    }
    right = ok(right, "tp %d: the first launches of %d problems are right, element by element", tp, PROBLEMS) && right;
    for (int batch = 0; right && done < wanted; batch++) {
        int count = wanted - done < BATCH ? wanted - done : BATCH;
        batch_start(&run, problems, chosen, count, batch % 2 == 1);
        right = batch_end(&run, problems, chosen);
        done += right ? count : 0;
    }
    ok(right, "tp %d %s: %d of %d mixed launches on one communicator, each checked on the GPU", tp,
       spread ? "over all GPUs" : "on one GPU", done, wanted);
    for (int i = 0; i < PROBLEMS && right; i++) {
        right = operands_check(problems[i].operands, true, &err) == GRS_OK;
    }
    ok(right, "A and B are as they were");
    for (int i = 0; i < PROBLEMS; i++) {
        operands_free(problems[i].operands);
    }
    run_close(&run);
}

int main(void) {
    static const struct { int tp, launches; } runs[] = {{4, 10000}, {3, 2000}, {8, 2000}};
    enum { RUNS = sizeof(runs) / sizeof(runs[0]) };
    struct wanted list[RUNS * SHAPES];
    /* A hardware queue a stream: ranks that wait for one another must not stand in line. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("GRS_DEADLINE", "20", 0);
    open_gpus();
    zones_install();
    for (int i = 0; i < RUNS * SHAPES; i++) {
        list[i] = (struct wanted){shapes[i % SHAPES].m, shapes[i % SHAPES].n, shapes[i % SHAPES].k, runs[i / SHAPES].tp,
                                  NULL};
    }
    compile_all(list, RUNS * SHAPES);
    for (int i = 0; i < RUNS; i++) {
        test_endurance(runs[i].tp, runs[i].launches, false);
        if (gpu_count > 1) {
            test_endurance(runs[i].tp, runs[i].launches, true);
        }
    }
    return finish();
}
