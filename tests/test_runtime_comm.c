/* Communicators on a driver that has no GPU: what is asked of it, what comes back, and what is given back. */
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/fault.h"
#include "runtime/group.h"
#include "tests/runtime_fixture.h"

#define TP 4

static grs_ctx *ctx;

static int open_all(void **state) {
    if (fixture_open(state) != 0) {
        return -1;
    }
    fixture_reset(state);
    ctx = open_context();
    return 0;
}

static int close_all(void **state) {
    (void)state;
    grs_ctx_close(ctx);
    return 0;
}

static void assert_text(const char *expected) {
    assert_string_equal(err.text, expected);
}

/* ---------------------------------------------------------------- making --------------------------------------- */

static void test_ranks_are_dealt_in_blocks(void **state) {
    grs_comm *comms[TP];
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err), GRS_OK);
    for (int rank = 0; rank < TP; rank++) {
        assert_int_equal(grs_comm_rank(comms[rank]), rank);
        assert_int_equal(grs_comm_size(comms[rank]), TP);
        assert_int_equal(grs_comm_device(comms[rank]), rank / 2);
        assert_int_equal(comms[rank]->device->sms, 66);
        assert_int_equal(grs_comm_check(comms[rank], &err), GRS_OK);
    }
    assert_int_equal(shim->device[0].retained, 1);
    assert_int_equal(shim->device[1].retained, 1);
    destroy_all(comms, TP);
    assert_nothing_alive();
}

static void test_uneven_ranks_and_own_devices(void **state) {
    grs_comm *comms[3];
    const int devices[3] = {1, 0, 1};
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, 3, devices, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_device(comms[0]), 1);
    assert_int_equal(grs_comm_device(comms[1]), 0);
    assert_int_equal(comms[0]->device->sms, 66);
    assert_int_equal(comms[1]->device->sms, 132);
    destroy_all(comms, 3);
    assert_nothing_alive();
}

static void test_control_words_start_at_zero(void **state) {
    grs_comm *comms[TP];
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err), GRS_OK);
    for (int rank = 0; rank < TP; rank++) {
        static const grs_control zero;
        const char *control = (const char *)(uintptr_t)comms[rank]->symm.pointer[SYMM_CONTROL];
        assert_memory_equal(control, &zero, sizeof(zero));
        const uint64_t *everyone = (const uint64_t *)(control + SYMM_EVERYONE_OFFSET);
        for (int other = 0; other < TP; other++) {
            assert_int_equal(everyone[other], comms[other]->symm.pointer[SYMM_CONTROL]);
        }
    }
    destroy_all(comms, TP);
}

/* Whichever driver call fails, the error names a call and nothing stays behind. */
static void test_every_failure_in_making(void **state) {
    grs_comm *comms[TP];
    int at = 1;
    (void)state;
    for (;; at++) {
        shim->fail_at = at;
        shim->fail_with = at % 2 ? CUDA_ERROR_UNKNOWN : CUDA_ERROR_OUT_OF_MEMORY;
        grs_status status = grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err);
        if (shim->fail_at > 0) { /* there were fewer calls */
            break;
        }
        if (status == GRS_OK) { /* leaving a context may fail without harm */
            assert_string_equal(shim->failed_name, "cuCtxPopCurrent");
            destroy_all(comms, TP);
            assert_nothing_alive();
            continue;
        }
        assert_int_equal(status, at % 2 ? GRS_ERR_DRIVER : GRS_ERR_MEMORY);
        assert_int_equal(err.status, status);
        assert_non_null(strstr(err.text, "cu"));
        assert_non_null(strstr(err.text, at % 2 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR_OUT_OF_MEMORY"));
        for (int rank = 0; rank < TP; rank++) {
            assert_null(comms[rank]);
        }
        assert_nothing_alive();
    }
    shim->fail_at = 0;
    assert_true(at > 40); /* two devices, four ranks: so many calls were tried */
    destroy_all(comms, TP);
    assert_nothing_alive();
}

static void test_peers_are_checked(void **state) {
    grs_comm *comms[2];
    (void)state;
    shim->can_access = 0;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_ERR_PEER);
    assert_text("GPU 0 (Shim) cannot reach the memory of GPU 1 (Shim): ranks need NVLink or PCIe peer access between "
                "their GPUs (nvidia-smi topo -p2p r)");
    shim->can_access = 1;
    shim->native_atomics = 0;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_ERR_PEER);
    assert_text(
        "GPU 0 (Shim) has no native atomics on the memory of GPU 1 (Shim), which signals need: the GPUs must be "
        "connected by NVLink (nvidia-smi topo -p2p a)");
    assert_nothing_alive();
    /* Ranks of one GPU need neither. */
    shim->device_count = 1;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_OK);
    destroy_all(comms, 2);
}

static void test_arguments_of_making(void **state) {
    grs_comm *comms[GRS_MAX_TP];
    const int absent[2] = {0, 2};
    const int crowd[9] = {0};
    grs_comm_options options = GRS_INIT(grs_comm_options);
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, 0, NULL, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("tp is 0; allowed: 1 to 64");
    assert_int_equal(grs_comm_create_local(ctx, 65, NULL, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("tp is 65; allowed: 1 to 64");
    assert_int_equal(grs_comm_create_local(NULL, 2, NULL, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("grs_comm_create_local: ctx is NULL");
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, NULL, &err), GRS_ERR_ARGUMENT);
    assert_text("grs_comm_create_local: comms is NULL");
    assert_int_equal(grs_comm_create_local(ctx, 2, absent, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("devices[1] is 2; allowed: 0 to 1");
    assert_int_equal(grs_comm_create_local(ctx, 9, crowd, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("GPU 0 would hold more than 8 ranks of 9; allowed: up to 8 a GPU");
    options.sms = 67;
    assert_int_equal(grs_comm_create_local(ctx, 4, NULL, &options, comms, &err), GRS_ERR_ARGUMENT);
    assert_text(
        "sms is 67, and GPU 0 (Shim) has 132 SMs for 2 ranks; allowed: up to 66 (the CTAs of all ranks must run at "
        "the same time)");
    options.sms = -1;
    assert_int_equal(grs_comm_create_local(ctx, 4, NULL, &options, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("sms is -1; allowed: at least 1, or 0 for the rank's share of the GPU");
    options.size = 3;
    assert_int_equal(grs_comm_create_local(ctx, 4, NULL, &options, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("grs_comm_options.size is 3; set it with GRS_INIT(grs_comm_options)");
    setenv("GRS_DEADLINE", "soon", 1);
    assert_int_equal(grs_comm_create_local(ctx, 4, NULL, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("GRS_DEADLINE=soon; allowed: a number from -1 to 1000000");
    unsetenv("GRS_DEADLINE");
    setenv("GRS_STALL", "1:2x", 1);
    assert_int_equal(grs_comm_create_local(ctx, 4, NULL, NULL, comms, &err), GRS_ERR_ARGUMENT);
    assert_text("GRS_STALL=1:2x; allowed: RANK:POSITION, two numbers");
    unsetenv("GRS_STALL");
    shim->device_count = 0;
    assert_int_equal(grs_comm_create_local(ctx, 1, NULL, NULL, comms, &err), GRS_ERR_DRIVER);
    assert_text("no GPU is visible (CUDA_VISIBLE_DEVICES?)");
    assert_nothing_alive();
}

static void test_newer_options(void **state) {
    struct {
        grs_comm_options known;
        int unknown;
    } options = {.known.size = sizeof(options)};
    grs_comm *comms[2];
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, &options.known, comms, &err), GRS_OK);
    destroy_all(comms, 2);
    options.unknown = 1;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, &options.known, comms, &err), GRS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "grs_comm_options sets a member at byte 32 that this version"));
}

static void test_deadlines(void **state) {
    grs_comm *comms[1];
    grs_comm_options options = GRS_INIT(grs_comm_options);
    static const struct {
        const char *variable;
        double option;
        uint64_t expected_ms;
    } rows[] = {{NULL, 0, 30000}, {"2.5", 0, 2500}, {"2.5", 0.25, 250}, {"-1", 0, 0}, {NULL, -1, 0}, {"", 7, 7000}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].variable != NULL) {
            setenv("GRS_DEADLINE", rows[i].variable, 1);
        } else {
            unsetenv("GRS_DEADLINE");
        }
        options.deadline_seconds = rows[i].option;
        assert_int_equal(grs_comm_create_local(ctx, 1, NULL, &options, comms, &err), GRS_OK);
        assert_int_equal(comms[0]->group->deadline_ns / 1000000, rows[i].expected_ms);
        grs_comm_destroy(comms[0]);
    }
    unsetenv("GRS_DEADLINE");
}

/* ---------------------------------------------------------------- preparing ------------------------------------ */

static void test_prepare_reserves_and_grows(void **state) {
    grs_comm *comms[TP];
    size_t wanted;
    (void)state;
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err), GRS_OK);
    size_t before = shim->live_bytes;
    assert_int_equal(grs_comm_prepare(comms[2], kernel, 2048, &err), GRS_OK);
    assert_int_equal(shim->live_modules, 2); /* a device */
    assert_int_equal(grs_kernel_memory(kernel, 2048, 66, &wanted, &err), GRS_OK);
    assert_int_equal(shim->live_bytes, TP * wanted);
    assert_true(shim->live_bytes > before);
    assert_int_equal(shim->shared_attribute, (int)kernel->plan.shared_bytes);
    const uint64_t *mask = (const uint64_t *)(uintptr_t)comms[0]->symm.pointer[SYMM_MASK];
    for (size_t i = 0; i < comms[0]->symm.sizes.bytes[SYMM_MASK] / 8; i++) {
        assert_int_equal(mask[i], 0);
    }

    /* Smaller or equal: nothing to do. */
    int calls = shim->call_count;
    assert_int_equal(grs_comm_prepare(comms[0], kernel, 2048, &err), GRS_OK);
    assert_int_equal(shim->call_count, calls);

    /* Larger: new blocks, the old ones stay for captured graphs. */
    CUdeviceptr old = comms[1]->symm.pointer[SYMM_SLOTS], control = comms[1]->symm.pointer[SYMM_CONTROL];
    assert_int_equal(grs_comm_prepare(comms[0], kernel, 8192, &err), GRS_OK);
    assert_int_not_equal(comms[1]->symm.pointer[SYMM_SLOTS], old);
    assert_int_equal(comms[1]->symm.pointer[SYMM_CONTROL], control);
    assert_non_null(comms[1]->symm.retired);
    assert_int_equal(shim->live_modules, 2);
    assert_true(grs_kernel_memory(kernel, 8192, 66, &wanted, &err) == GRS_OK);
    assert_int_equal(symm_total(&comms[1]->symm.sizes), wanted);
    destroy_all(comms, TP);
    assert_nothing_alive();
}

static void test_one_rank_needs_no_slots(void **state) {
    grs_comm *comms[1];
    (void)state;
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, 1);
    assert_int_equal(grs_comm_create_local(ctx, 1, NULL, NULL, comms, &err), GRS_OK);
    int alive = shim->live_memory;
    assert_int_equal(grs_comm_prepare(comms[0], kernel, 4096, &err), GRS_OK);
    assert_int_equal(shim->live_memory, alive);
    grs_comm_destroy(comms[0]);
    assert_nothing_alive();
}

static void test_every_failure_in_preparing(void **state) {
    grs_comm *comms[TP];
    int at = 1;
    (void)state;
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    for (;; at++) {
        assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err), GRS_OK);
        shim->fail_at = at;
        shim->fail_with = CUDA_ERROR_OUT_OF_MEMORY;
        grs_status status = grs_comm_prepare(comms[0], kernel, 4096, &err);
        if (shim->fail_at > 0) {
            break;
        }
        if (status == GRS_OK) {
            assert_string_equal(shim->failed_name, "cuCtxPopCurrent");
        } else {
            assert_int_equal(status, GRS_ERR_MEMORY);
            assert_non_null(strstr(err.text, "cu"));
            assert_int_equal(shim->live_modules, 0);
        }
        /* The same call works when memory is there again. */
        assert_int_equal(grs_comm_prepare(comms[0], kernel, 4096, &err), GRS_OK);
        destroy_all(comms, TP);
        assert_nothing_alive();
    }
    shim->fail_at = 0;
    assert_true(at > 20);
    destroy_all(comms, TP);
    assert_nothing_alive();
}

static void test_arguments_of_preparing(void **state) {
    grs_comm *comms[2];
    grs_comm_options options = GRS_INIT(grs_comm_options);
    (void)state;
    const grs_kernel *wide = make_kernel(ctx, 8192, 4096, 2048, 2), *other = make_kernel(ctx, 8192, 4096, 2048, 4);
    const grs_kernel *narrow = make_kernel(ctx, 1, 4096, 2048, 2);
    set_class(narrow, 1, 1024);
    set_class(wide, 1025, wide->plan.shape.m_max);
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, &options, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(NULL, wide, 4096, &err), GRS_ERR_ARGUMENT);
    assert_text("grs_comm_prepare: comm is NULL");
    assert_int_equal(grs_comm_prepare(comms[0], NULL, 4096, &err), GRS_ERR_ARGUMENT);
    assert_text("grs_comm_prepare: kernel is NULL");
    assert_int_equal(grs_comm_prepare(comms[0], other, 4096, &err), GRS_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "is for tp 4, the communicator has 2 ranks"));
    assert_int_equal(grs_comm_prepare(comms[0], wide, 1, &err), GRS_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "max_M is 1, and grs_gemm_rs_n4096_k2048_tp2"));
    assert_int_equal(grs_comm_prepare(comms[0], narrow, 1 << 20, &err), GRS_OK); /* cut at the class */
    size_t wanted;
    assert_int_equal(grs_kernel_memory(narrow, narrow->plan.shape.m_max, 132, &wanted, &err), GRS_OK);
    assert_int_equal(symm_total(&comms[0]->symm.sizes), wanted);
    shim->device[1].blocks_per_sm = 0;
    assert_int_equal(grs_comm_prepare(comms[0], wide, 4096, &err), GRS_ERR_PLAN);
    assert_non_null(strstr(err.text,
                           "cannot run on GPU 1 (Shim): 1 rank of at least 1 CTA must be resident together, the "
                           "GPU holds 0 (132 SMs, "));
    destroy_all(comms, 2);

    shim->device[1].blocks_per_sm = 1;
    shim->device[1].major = 10;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(comms[0], wide, 4096, &err), GRS_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "is compiled for sm_90a, and GPU 1 (Shim) is sm_100"));
    destroy_all(comms, 2);

    shim->device[1].major = 9;
    shim->device[0].sm_count = shim->device[1].sm_count = PLAN_MAX_GRID + 8;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(comms[0], wide, 4096, &err), GRS_ERR_PLAN);
    assert_non_null(
        strstr(err.text, "is planned for at most 256 CTAs a rank, and a rank on GPU 0 (Shim) may use 264 SMs"));
    destroy_all(comms, 2);
    assert_nothing_alive();
}

/* GPUs of two kinds in one process: a context is for one arch, that of GPU 0 unless it is told; each kind has a context and
 * communicators of its own, side by side. */
static void test_gpus_of_two_kinds(void **state) {
    static const char *const archs[2] = {NULL, "sm_100a"}; /* NULL: that of GPU 0 */
    static const enum arch wanted[2] = {ARCH_SM90A, ARCH_SM100A};
    grs_ctx *two[2];
    grs_comm *comms[2][1], *both[2];
    (void)state;
    shim->device[1].major = 10;
    for (int i = 0; i < 2; i++) {
        grs_ctx_options options = GRS_INIT(grs_ctx_options);
        options.memory_only = 1;
        options.arch = archs[i];
        assert_int_equal(grs_ctx_open(&options, &two[i], &err), GRS_OK);
        assert_int_equal(two[i]->arch, wanted[i]);
    }
    const grs_kernel *kernels[2] = {make_kernel(two[0], 4096, 512, 256, 1), make_kernel(two[1], 4096, 512, 256, 1)};
    for (int i = 0; i < 2; i++) {
        const int own = i, other = 1 - i;
        assert_int_equal(grs_comm_create_local(two[i], 1, &other, NULL, comms[i], &err), GRS_OK);
        assert_int_equal(grs_comm_prepare(comms[i][0], kernels[i], 4096, &err), GRS_ERR_ARGUMENT);
        assert_non_null(strstr(err.text, i == 0 ? "is compiled for sm_90a, and GPU 1 (Shim) is sm_100"
                                                : "is compiled for sm_100a, and GPU 0 (Shim) is sm_90"));
        grs_comm_destroy(comms[i][0]);
        assert_int_equal(grs_comm_create_local(two[i], 1, &own, NULL, comms[i], &err), GRS_OK);
        assert_int_equal(grs_comm_prepare(comms[i][0], kernels[i], 4096, &err), GRS_OK);
    }
    /* Ranks on both kinds: there is no kernel for them all. */
    const grs_kernel *pair = make_kernel(two[0], 4096, 512, 256, 2);
    assert_int_equal(grs_comm_create_local(two[0], 2, NULL, NULL, both, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(both[0], pair, 4096, &err), GRS_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, "GPU 1 (Shim) is sm_100"));
    destroy_all(both, 2);
    for (int i = 0; i < 2; i++) {
        grs_comm_destroy(comms[i][0]);
        grs_ctx_close(two[i]);
    }
    assert_nothing_alive();
}

/* The wave is the smallest grid: the device with fewer SMs decides. */
static void test_wave_is_the_smallest_grid(void **state) {
    grs_comm *comms[3];
    const int devices[3] = {0, 0, 1};
    (void)state;
    shim->device[1].sm_count = 60;
    const grs_kernel *kernel = make_kernel(ctx, 8192, 4096, 2048, 3);
    assert_int_equal(grs_comm_create_local(ctx, 3, devices, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(comms[0], kernel, 4096, &err), GRS_OK);
    const struct group_kernel *prepared = group_find_kernel(comms[0]->group, kernel);
    assert_int_equal(prepared->modules[0].grid, 66);
    assert_int_equal(prepared->modules[1].grid, 60);
    assert_int_equal(prepared->wave, 60);
    destroy_all(comms, 3);
}

/* A kernel that is free of circular waits on 132 CTAs a rank and not on 128: 128 tiles a segment, signals held back. */
static void test_grids_are_those_of_the_proof(void **state) {
    grs_comm *comms[2];
    (void)state;
    const grs_kernel *kernel = make_kernel(ctx, 1024, 4096, 2048, 2);
    struct plan *plan = &((struct grs_kernel *)kernel)->plan;
    set_class(kernel, 1024, 1024);
    plan->value[FIELD_ORDER] = ORDER_SEGMENT;
    plan->value[FIELD_RING_DEPTH] = 2;
    plan->value[FIELD_RING_PLACE] = PLACE_SHARED;
    plan->value[FIELD_DRAIN_FLUSH] = FLUSH_NEVER;
    plan->value[FIELD_SMS] = plan->max_grid = 132;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(comms[0], kernel, 1024, &err), GRS_OK);
    destroy_all(comms, 2);
    shim->device[1].sm_count = 128;
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(comms[0], kernel, 1024, &err), GRS_ERR_PLAN);
    assert_non_null(strstr(
        err.text, "rank 1 has 128 CTAs; that ranks do not wait for one another in a circle is proved for 132 ("));
    assert_int_equal(shim->live_modules, 0);
    destroy_all(comms, 2);
    assert_nothing_alive();
}

/* ---------------------------------------------------------------- faults --------------------------------------- */

static void test_wait_record_becomes_text(void **state) {
    grs_comm *comms[TP];
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err), GRS_OK);
    grs_wait_record *record = &comms[2]->group->host->rank[2].record;
    *record = (grs_wait_record){.role = GRS_ROLE_SENDER,
                                .wait = GRS_WAIT_CREDIT,
                                .rank = 2,
                                .cta = 17,
                                .owner = 1,
                                .tile = 5,
                                .position = 83,
                                .epoch = 12,
                                .word = 11,
                                .expected = 12,
                                .waited_ns = 30012345678};
    assert_int_equal(grs_comm_check(comms[2], &err), GRS_OK); /* not yet complete */
    record->complete = 1;
    assert_int_equal(grs_comm_check(comms[2], &err), GRS_ERR_TIMEOUT);
    assert_text(
        "rank 2: sender waited 30.0 s for a credit from rank 1 (downstream): CTA 17, owner 1, tile 5, epoch 12, word "
        "seen 11, wanted 12 (deadline: GRS_DEADLINE, default 30 s)");
    /* Another rank's check tells it as well, after its own. */
    comms[0]->group->host->rank[0].record = (grs_wait_record){.complete = 1,
                                                              .role = GRS_ROLE_PREFETCHER,
                                                              .wait = GRS_WAIT_UPSTREAM,
                                                              .rank = 0,
                                                              .cta = 3,
                                                              .owner = 3,
                                                              .tile = 64,
                                                              .epoch = 12,
                                                              .word = 0x5,
                                                              .expected = 0x8,
                                                              .waited_ns = 1500000000};
    assert_int_equal(grs_comm_check(comms[0], &err), GRS_ERR_TIMEOUT);
    assert_text(
        "rank 0: prefetcher waited 1.5 s for a partial from rank 1 (upstream): CTA 3, owner 3, tile 64, epoch 12, "
        "word seen 0x5, wanted 0x8 (deadline: GRS_DEADLINE, default 30 s)\n"
        "rank 2: sender waited 30.0 s for a credit from rank 1 (downstream): CTA 17, owner 1, tile 5, epoch 12, word "
        "seen 11, wanted 12 (deadline: GRS_DEADLINE, default 30 s)");
    destroy_all(comms, TP);
}

/* Every role and every wait has words of its own. */
static void test_every_wait_has_a_text(void **state) {
    const struct fault_launch unknown = {0};
    char texts[GRS_WAIT_COUNT][512] = {{0}};
    (void)state;
    for (unsigned role = 0; role < GRS_ROLE_COUNT; role++) {
        for (unsigned wait = 0; wait < GRS_WAIT_COUNT; wait++) {
            const grs_wait_record record = {
                .role = role, .wait = wait, .rank = 3, .owner = -1, .tile = -1, .position = -1};
            struct buf text = {0};
            fault_text(&record, TP, &unknown, &text);
            assert_null(strstr(text.data, "(null)"));
            assert_non_null(strstr(text.data, ": CTA 0, no tile in hand, epoch 0"));
            snprintf(texts[wait], sizeof(texts[0]), "%s", text.data);
            buf_free(&text);
            for (unsigned other = 0; other < wait; other++) {
                assert_string_not_equal(texts[other], texts[wait]);
            }
        }
    }
}

static void test_abort_reaches_every_rank(void **state) {
    grs_comm *comms[TP];
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err), GRS_OK);
    assert_int_equal(grs_comm_abort(comms[1], &err), GRS_OK);
    for (int rank = 0; rank < TP; rank++) {
        const grs_control *control = (const grs_control *)(uintptr_t)comms[rank]->symm.pointer[SYMM_CONTROL];
        assert_int_equal(control->abort, 1);
        assert_int_equal(control->credit, 0);
    }
    assert_int_equal(grs_comm_check(comms[3], &err), GRS_ERR_STATE);
    assert_text("rank 3: the communicator was aborted");
    destroy_all(comms, TP);
    assert_nothing_alive();
}

/* ---------------------------------------------------------------- processes ------------------------------------ */

static void test_child_of_a_fork(void **state) {
    grs_comm *comms[2];
    int code = -1;
    (void)state;
    const grs_kernel *kernel = make_kernel(ctx, 8192, 4096, 2048, 2);
    assert_int_equal(grs_comm_create_local(ctx, 2, NULL, NULL, comms, &err), GRS_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        grs_comm *more[2];
        bool right = grs_comm_prepare(comms[0], kernel, 4096, &err) == GRS_ERR_STATE &&
                     strstr(err.text, "before a fork") != NULL &&
                     grs_comm_create_local(ctx, 2, NULL, NULL, more, &err) == GRS_ERR_STATE &&
                     strstr(err.text, "CUDA does not work in such a child") != NULL && more[0] == NULL;
        grs_comm_destroy(comms[0]);
        grs_comm_destroy(comms[1]);
        _exit(right && shim->device[0].retained == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    destroy_all(comms, 2);
    assert_nothing_alive();
}

static void test_rows(void **state) {
    static const struct {
        int64_t M;
        int tp, rank;
        int64_t first, count;
    } rows[] = {{1024, 4, 0, 0, 256}, {1023, 8, 7, 896, 127}, {5, 8, 4, 4, 1},  {5, 8, 5, 5, 0},
                {5, 8, 7, 7, 0},      {9, 8, 4, 8, 1},        {9, 8, 5, 10, 0}, {7, 1, 0, 0, 7}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t first, count;
        grs_rows(rows[i].M, rows[i].tp, rows[i].rank, &first, &count);
        assert_int_equal(first, rows[i].first);
        assert_int_equal(count, rows[i].count);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_ranks_are_dealt_in_blocks, fixture_reset),
        cmocka_unit_test_setup(test_uneven_ranks_and_own_devices, fixture_reset),
        cmocka_unit_test_setup(test_control_words_start_at_zero, fixture_reset),
        cmocka_unit_test_setup(test_every_failure_in_making, fixture_reset),
        cmocka_unit_test_setup(test_peers_are_checked, fixture_reset),
        cmocka_unit_test_setup(test_arguments_of_making, fixture_reset),
        cmocka_unit_test_setup(test_newer_options, fixture_reset),
        cmocka_unit_test_setup(test_deadlines, fixture_reset),
        cmocka_unit_test_setup(test_prepare_reserves_and_grows, fixture_reset),
        cmocka_unit_test_setup(test_one_rank_needs_no_slots, fixture_reset),
        cmocka_unit_test_setup(test_every_failure_in_preparing, fixture_reset),
        cmocka_unit_test_setup(test_arguments_of_preparing, fixture_reset),
        cmocka_unit_test_setup(test_gpus_of_two_kinds, fixture_reset),
        cmocka_unit_test_setup(test_wave_is_the_smallest_grid, fixture_reset),
        cmocka_unit_test_setup(test_grids_are_those_of_the_proof, fixture_reset),
        cmocka_unit_test_setup(test_wait_record_becomes_text, fixture_reset),
        cmocka_unit_test_setup(test_every_wait_has_a_text, fixture_reset),
        cmocka_unit_test_setup(test_abort_reaches_every_rank, fixture_reset),
        cmocka_unit_test_setup(test_child_of_a_fork, fixture_reset),
        cmocka_unit_test_setup(test_rows, fixture_reset),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
