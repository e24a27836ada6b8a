/* A thousand communicators made, used and ended: no device memory, handle, file, thread or host memory is lost.
 *
 * GRS_TEST_CYCLES: another number of cycles. */
#include <malloc.h>

#include "tests/gpu/gpu.h"
#include "tests/gpu/handles.h"

enum { KINDS = 6 };
static const struct {
    int tp;
    int64_t m;
} kinds[KINDS] = {{2, 200}, {4, 225}, {2, 249}, {4, 250}, {3, 7}, {3, 1}};
static const int64_t N = 256, K = 128;

static int cycles(void) {
    const char *text = getenv("GRS_TEST_CYCLES");
    return text == NULL ? 1000 : atoi(text);
}

struct usage {
    size_t device_free, heap;
    int files, threads;
    struct handles handles;
};

static struct usage measure(void) {
    struct usage u = {
        .files = entries("/proc/self/fd"), .threads = entries("/proc/self/task"), .handles = handles_open};
    u.heap = mallinfo2().uordblks;
    for (int i = 0; i < gpu_count; i++) {
        size_t free_bytes = 0, total = 0;
        CU(cuCtxSetCurrent(contexts[i]));
        CU(cuMemGetInfo(&free_bytes, &total));
        u.device_free += free_bytes;
    }
    CU(cuCtxSetCurrent(contexts[0]));
    return u;
}

static void compare(const struct usage *before, const struct usage *after) {
    snprintf(err.text, sizeof(err.text), "free before %zu, after %zu", before->device_free, after->device_free);
    ok(after->device_free + ((size_t)4 << 20) >= before->device_free, "device memory: %ld KiB more in use",
       ((long)before->device_free - (long)after->device_free) / 1024);
#define HANDLE_CHECK(kind, open, parameters, arguments, close, type)                                                   \
    snprintf(err.text, sizeof(err.text), "open before %d, after %d", before->handles.kind, after->handles.kind);       \
    ok(after->handles.kind == before->handles.kind, "driver's " #kind ": as many as before");
    HANDLE_KINDS(HANDLE_CHECK)
    snprintf(err.text, sizeof(err.text), "before %d, after %d", before->files, after->files);
    ok(after->files == before->files, "open files: %d", after->files);
    snprintf(err.text, sizeof(err.text), "before %d, after %d", before->threads, after->threads);
    ok(after->threads == before->threads, "threads: %d", after->threads);
    snprintf(err.text, sizeof(err.text), "before %zu, after %zu", before->heap, after->heap);
    /* The driver's own, too: a KiB a cycle is none of ours (the sanitizers' runs of the unit tests find every byte). */
    ok(after->heap < before->heap + ((size_t)(1024 + cycles()) << 10), "host memory: %ld KiB more in use",
       ((long)after->heap - (long)before->heap) / 1024);
}

/* Operands that communicators of one kind and placement use one after another. */
static struct problem *operands_of(int kind, int where) {
    grs_comm *comms[GRS_MAX_TP];
    MUST(grs_comm_create_local(grs_default_ctx(), kinds[kind].tp, placement(where), NULL, comms, &err));
    struct problem *p = problem_make(comms, kinds[kind].m, N, K, kinds[kind].tp, 0, (uint64_t)kind + 1);
    destroy(comms, kinds[kind].tp);
    return p;
}

static bool one_cycle(grs_ctx *ctx, const grs_kernel *kernel, struct problem *p, int where) {
    grs_comm *comms[GRS_MAX_TP];
    problem_poison(p);
    if (grs_comm_create_local(ctx, p->tp, placement(where), NULL, comms, &err) != GRS_OK) {
        return false;
    }
    bool right = grs_comm_prepare(comms[0], kernel, p->M, &err) == GRS_OK && run_local(comms, kernel, p);
    destroy(comms, p->tp);
    return right && problem_check(p);
}

/* The same with a context of its own, opened and closed each time. */
static bool one_context(struct problem *p, int where) {
    grs_ctx *ctx = NULL;
    const grs_kernel *kernel = NULL;
    if (grs_ctx_open(NULL, &ctx, &err) != GRS_OK) {
        return false;
    }
    bool right = grs_ctx_get(ctx, p->M, N, K, p->tp, &kernel, &err) == GRS_OK && one_cycle(ctx, kernel, p, where);
    grs_ctx_close(ctx);
    return right;
}

int main(void) {
    struct problem *p[2][KINDS];
    struct wanted list[KINDS];
    const grs_kernel *kernels[KINDS];
    bool right = true;
    int done = 0, opened = 0;
    open_gpus();
    handles_count(drv);
    must(grs_default_ctx() != NULL, "a context");
    for (int i = 0; i < KINDS; i++) {
        list[i] = (struct wanted){kinds[i].m, N, K, kinds[i].tp, NULL};
    }
    compile_all(list, KINDS);
    for (int i = 0; i < KINDS * placements(); i++) {
        kernels[i % KINDS] = kernel_for(kinds[i % KINDS].m, N, K, kinds[i % KINDS].tp);
        p[i / KINDS][i % KINDS] = operands_of(i % KINDS, i / KINDS);
    }
    /* The first cycles load what stays loaded: the driver's pools, peer mappings. */
    for (int i = 0; i < 4 * KINDS && right; i++) {
        int kind = i % KINDS, where = i / KINDS % placements();
        right =
            one_cycle(grs_default_ctx(), kernels[kind], p[where][kind], where) && one_context(p[where][kind], where);
    }
    ok(right, "the first cycles are right");
    struct usage before = measure();
    for (; done < cycles() && right; done++) {
        int kind = done % KINDS, where = done / KINDS % placements();
        right = one_cycle(grs_default_ctx(), kernels[kind], p[where][kind], where);
    }
    for (; opened < cycles() / 10 && right; opened++) {
        right = one_context(p[0][opened % KINDS], 0);
    }
    ok(right, "%d of %d cycles of create, prepare, launch, destroy, and %d with a context, each result right", done,
       cycles(), opened);
    struct usage after = measure();
    compare(&before, &after);
    for (int i = 0; i < KINDS * placements(); i++) {
        problem_free(p[i / KINDS][i % KINDS]);
    }
    return finish();
}
