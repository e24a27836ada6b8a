/* Communicators made, used and ended again and again: no device memory, no file and no host memory is lost. */
#include <malloc.h>

#include "tests/gpu/gpu.h"

static int cycles(void) {
    const char *text = getenv("GRS_TEST_CYCLES");
    return text == NULL ? 200 : atoi(text);
}

static size_t free_memory(void) {
    size_t free_bytes = 0, total = 0;
    CU(cuCtxSetCurrent(contexts[0]));
    CU(cuMemGetInfo(&free_bytes, &total));
    return free_bytes;
}

static bool one_cycle(const grs_kernel *kernel, int64_t M, int tp, uint64_t seed, bool check) {
    grs_comm *comms[GRS_MAX_TP];
    bool right;
    if (grs_comm_create_local(grs_default_ctx(), tp, placement((int)(seed % (uint64_t)placements())), NULL, comms,
                              &err) != GRS_OK ||
        grs_comm_prepare(comms[0], kernel, M, &err) != GRS_OK) {
        return false;
    }
    struct problem *p = problem_make(comms, M, 256, 128, tp, 0, seed);
    right = run_local(comms, kernel, p) && (!check || problem_check(p));
    problem_free(p);
    destroy(comms, tp);
    return right;
}

int main(void) {
    open_gpus();
    must(grs_default_ctx() != NULL, "a context");
    const grs_kernel *two = kernel_for(256, 256, 128, 2), *four = kernel_for(256, 256, 128, 4);
    bool right = true;
    /* The first cycles load what stays loaded: the driver's pools, peer mappings. */
    for (uint64_t i = 0; i < 4 && right; i++) {
        right = one_cycle(two, 256, 2, i, true) && one_cycle(four, 250, 4, i, true);
    }
    ok(right, "the first cycles are right");
    size_t before = free_memory();
    int files = open_files();
    size_t heap = mallinfo2().uordblks;
    int done = 0;
    for (; done < cycles() && right; done++) {
        right = one_cycle(done % 2 ? two : four, 200 + done % 50, done % 2 ? 2 : 4, (uint64_t)done, done % 10 == 0);
    }
    ok(right, "%d of %d cycles of create, prepare, launch, destroy", done, cycles());
    size_t after = free_memory();
    snprintf(err.text, sizeof(err.text), "free before %zu, after %zu", before, after);
    ok(after + ((size_t)4 << 20) >= before, "device memory: %ld KiB more in use", ((long)before - (long)after) / 1024);
    snprintf(err.text, sizeof(err.text), "before %d, after %d", files, open_files());
    ok(open_files() == files, "open files: %d", open_files());
    size_t heap_after = mallinfo2().uordblks;
    snprintf(err.text, sizeof(err.text), "before %zu, after %zu", heap, heap_after);
    ok(heap_after < heap + ((size_t)1 << 20), "host memory: %ld KiB more in use",
       ((long)heap_after - (long)heap) / 1024);
    return finish();
}
