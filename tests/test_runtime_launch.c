/* Launches on a driver that has no GPU: grids, arguments, tensor maps, refusals. */
#include "runtime/group.h"
#include "tests/runtime_fixture.h"

enum { TP = 4, ROWS = 1023, N = 4104, K = 2056 }; /* M = 1023: the last rank keeps one row less */

static grs_ctx *ctx;
static const grs_kernel *kernel, *single;
static grs_comm *comms[TP];
static grs_operands operands[TP];

/* Addresses that no test reads or writes: only the kernel would. */
static char *const arena = (char *)0x7f0000000000;

static int open_all(void **state) {
    if (fixture_open(state) != 0) {
        return -1;
    }
    fixture_reset(state);
    ctx = open_context();
    kernel = make_kernel(ctx, ROWS, N, K, TP);
    single = make_kernel(ctx, ROWS, N, K, 1);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    grs_ctx_close(ctx);
    return 0;
}

static int set_up(void **state) {
    fixture_reset(state);
    if (grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err) != GRS_OK ||
        grs_comm_prepare(comms[0], kernel, ROWS, &err) != GRS_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    for (int rank = 0; rank < TP; rank++) {
        char *base = arena + ((int64_t)rank << 32);
        operands[rank] = (grs_operands){
            .A = base, .lda = K + 8, .B = base + (1 << 28), .ldb = K, .D = base + (1 << 29), .ldd = N + 16, .M = ROWS};
    }
    shim->call_count = shim->map_count = shim->launch_count = 0;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    destroy_all(comms, TP);
    return 0;
}

static int tear_down_and_count(void **state) {
    tear_down(state);
    assert_nothing_alive();
    return 0;
}

/* ---------------------------------------------------------------- one rank ------------------------------------- */

static void assert_map(const grs_tensor_map *map, const void *base, uint64_t columns, uint64_t rows, uint64_t stride,
                       const int box[2]) {
    struct shim_map made;
    memcpy(&made, map, sizeof(made));
    assert_int_equal(made.base, (uintptr_t)base);
    assert_int_equal(made.dims[0], columns);
    assert_int_equal(made.dims[1], rows);
    assert_int_equal(made.stride, stride * 2);
    assert_int_equal(made.box[0], box[0]);
    assert_int_equal(made.box[1], box[1]);
    assert_int_equal(made.type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
    assert_int_equal(made.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
    assert_int_equal(made.promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    assert_int_equal(made.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void assert_rank_args(const grs_rank_args *args, int rank) {
    const struct symm *own = &comms[rank]->symm, *up = &comms[(rank + 1) % TP]->symm,
                      *down = &comms[(rank + TP - 1) % TP]->symm;
    struct plan_boxes boxes;
    plan_boxes(&kernel->plan, &boxes);
    assert_int_equal((uintptr_t)args->slots, own->pointer[SYMM_SLOTS]);
    assert_int_equal((uintptr_t)args->mask, own->pointer[SYMM_MASK]);
    assert_int_equal((uintptr_t)args->peer_slots, down->pointer[SYMM_SLOTS]);
    assert_int_equal((uintptr_t)args->peer_mask, down->pointer[SYMM_MASK]);
    assert_int_equal((uintptr_t)args->control, own->pointer[SYMM_CONTROL]);
    assert_int_equal((uintptr_t)args->upstream, up->pointer[SYMM_CONTROL]);
    assert_int_equal((uintptr_t)args->outbox, own->pointer[SYMM_OUTBOX]);
    assert_int_equal((uintptr_t)args->everyone, own->pointer[SYMM_CONTROL] + sizeof(grs_control));
    assert_ptr_equal(args->record, &comms[0]->group->host->rank[rank].record);
    assert_null(args->groups);
    assert_null(args->counters);
    assert_null(args->stamps);
    assert_int_equal(args->rank, rank);
    assert_int_equal(args->has_d, 1);
    assert_map(&args->a, operands[rank].A, K, ROWS, K + 8, boxes.a);
    assert_map(&args->b, operands[rank].B, K, N, K, boxes.b);
    assert_map(&args->d, operands[rank].D, N, rank == TP - 1 ? 255 : 256, N + 16, boxes.d);
}

static void test_one_rank(void **state) {
    CUstream stream = (CUstream)(uintptr_t)0x1230;
    (void)state;
    assert_int_equal(grs_launch(comms[2], kernel, &operands[2], stream, &err), GRS_OK);
    assert_int_equal(shim->launch_count, 1);
    const struct shim_launch *launch = &shim->launches[0];
    struct plan_tiles tiles;
    plan_tiles_of(&kernel->plan, ROWS, &tiles);
    assert_int_equal(launch->config.gridDimX, tiles.total < 66 ? tiles.total : 66);
    assert_int_equal(launch->config.gridDimY * launch->config.gridDimZ, 1);
    assert_int_equal(launch->config.blockDimX, kernel->plan.threads);
    assert_int_equal(launch->config.sharedMemBytes, kernel->plan.shared_bytes);
    assert_ptr_equal(launch->config.hStream, stream);
    assert_int_equal(launch->config.numAttrs, 0);
    assert_ptr_equal(launch->context, comms[2]->device->context);
    assert_ptr_equal(launch->function, comms[0]->group->kernels->modules[1].function);
    assert_int_equal(launch->args.m, ROWS);
    assert_int_equal(launch->args.grid, launch->config.gridDimX);
    assert_int_equal(launch->args.wave, 66);
    assert_int_equal(launch->args.ranks, 1);
    assert_int_equal(launch->args.ring, TP);
    assert_int_equal(launch->args.deadline_ns, 30000000000);
    assert_int_equal(launch->args.pace_ps_per_kib, 0);
    assert_int_equal(launch->args.stall, 0);
    assert_int_equal(launch->args.send_ps_per_byte, plan_send_pace(&kernel->plan, ROWS, launch->args.grid));
    assert_rank_args(&launch->args.rank[0], 2);
}

/* What a launch may ask of the driver. */
static void test_no_allocation_and_no_waiting(void **state) {
    static const char *const allowed[] = {"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
                                          "cuTensorMapEncodeTiled", "cuLaunchKernelEx"};
    (void)state;
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_OK);
    assert_int_equal(grs_launch(comms[0], kernel, &operands[0], NULL, &err), GRS_OK);
    assert_true(shim->call_count > 0);
    for (int i = 0; i < shim->call_count; i++) {
        bool found = false;
        for (size_t j = 0; j < sizeof(allowed) / sizeof(allowed[0]); j++) {
            found = found || strcmp(shim->calls[i], allowed[j]) == 0;
        }
        if (!found) {
            fail_msg("a launch called %s", shim->calls[i]);
        }
    }
}

static void test_maps_are_remembered(void **state) {
    (void)state;
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_OK);
    assert_int_equal(shim->map_count, 3);
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_OK);
    assert_int_equal(shim->map_count, 3);
    assert_memory_equal(&shim->launches[0].args.rank[0], &shim->launches[1].args.rank[0], sizeof(grs_rank_args));
    operands[1].ldd += 8; /* another D */
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_OK);
    assert_int_equal(shim->map_count, 4);
    operands[1].M -= 1; /* another A; rank 1 keeps as many rows as before */
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_OK);
    assert_int_equal(shim->map_count, 5);
    /* What the driver refused is not remembered. */
    operands[1].A = (const char *)operands[1].A + 16;
    shim->fail_at = 1;
    shim->fail_name = "cuTensorMapEncodeTiled";
    shim->fail_with = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_ERR_DRIVER);
    assert_non_null(
        strstr(err.text, "cuTensorMapEncodeTiled(A of rank 1: base 0x7f0100000010, 1022 x 2056, stride 2064"));
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_OK);
    struct plan_boxes boxes;
    plan_boxes(&kernel->plan, &boxes);
    assert_map(&shim->launches[4].args.rank[0].a, operands[1].A, K, ROWS - 1, K + 8, boxes.a);
}

/* Launches from a thread that has another context current, or none. */
static void test_current_context_is_kept(void **state) {
    CUcontext now = NULL;
    (void)state;
    const struct driver *drv = driver_get(&err);
    assert_int_equal(grs_launch(comms[0], kernel, &operands[0], NULL, &err), GRS_OK);
    assert_int_equal(drv->cuCtxGetCurrent(&now), CUDA_SUCCESS);
    assert_null(now);
    assert_int_equal(drv->cuCtxPushCurrent(comms[3]->device->context), CUDA_SUCCESS);
    assert_int_equal(grs_launch(comms[0], kernel, &operands[0], NULL, &err), GRS_OK);
    assert_int_equal(grs_launch(comms[3], kernel, &operands[3], NULL, &err), GRS_OK);
    assert_int_equal(drv->cuCtxGetCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, comms[3]->device->context);
    drv->cuCtxPopCurrent(&now);
    assert_ptr_equal(shim->launches[1].context, comms[0]->device->context);
    assert_ptr_equal(shim->launches[2].context, comms[3]->device->context);
}

/* ---------------------------------------------------------------- all ranks ------------------------------------ */

static void test_one_grid_a_gpu(void **state) {
    void *streams[TP] = {(void *)0x10, (void *)0x20, (void *)0x30, (void *)0x40};
    (void)state;
    assert_int_equal(grs_launch_local(comms, kernel, operands, streams, &err), GRS_OK);
    assert_int_equal(shim->launch_count, 2);
    for (int device = 0; device < 2; device++) {
        const struct shim_launch *launch = &shim->launches[device];
        assert_int_equal(launch->args.ranks, 2);
        assert_int_equal(launch->config.gridDimX, 2 * launch->args.grid);
        assert_ptr_equal(launch->config.hStream, streams[2 * device]);
        assert_ptr_equal(launch->context, comms[2 * device]->device->context);
        for (int i = 0; i < 2; i++) {
            assert_rank_args(&launch->args.rank[i], 2 * device + i);
        }
    }
}

static void test_few_tiles_few_ctas(void **state) {
    struct plan_tiles tiles;
    (void)state;
    for (int rank = 0; rank < TP; rank++) {
        operands[rank].M = 1; /* only rank 0 keeps a row */
        operands[rank].D = rank > 0 ? NULL : operands[rank].D;
    }
    plan_tiles_of(&kernel->plan, 1, &tiles);
    assert_true(tiles.total < 66);
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_OK);
    assert_int_equal(shim->launches[0].args.grid, tiles.total);
    assert_int_equal(shim->launches[0].config.gridDimX, 2 * tiles.total);
    assert_int_equal(shim->launches[0].args.wave, 66); /* agreed, whatever this launch uses */
    assert_int_equal(shim->launches[0].args.rank[0].has_d, 1);
    assert_int_equal(shim->launches[0].args.rank[1].has_d, 0);
    assert_int_equal(shim->launches[1].args.rank[0].has_d, 0);
}

static void test_failed_launch_frees_the_others(void **state) {
    (void)state;
    shim->fail_name = "cuLaunchKernelEx";
    shim->fail_at = 1;
    shim->fail_with = CUDA_ERROR_UNKNOWN;
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_ERR_DRIVER);
    assert_int_equal(grs_comm_check(comms[0], &err), GRS_OK); /* nothing was in flight */
    shim->fail_at = 2;
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_ERR_DRIVER);
    assert_non_null(strstr(err.text, "CTAs of 384 threads on GPU 1 (Shim), stream (nil)): unknown error"));
    for (int rank = 0; rank < TP; rank++) {
        assert_int_equal(((const grs_control *)(uintptr_t)comms[rank]->symm.pointer[SYMM_CONTROL])->abort, 1);
    }
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_ERR_STATE);
    assert_string_equal(err.text, "rank 0: the communicator was aborted");
}

static void test_tp_1(void **state) {
    grs_comm *alone[1];
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, 1, NULL, NULL, alone, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(alone[0], single, ROWS, &err), GRS_OK);
    assert_int_equal(grs_launch(alone[0], single, &operands[0], NULL, &err), GRS_OK);
    const grs_args *args = &shim->launches[0].args;
    assert_int_equal(args->ring, 1);
    assert_null(args->rank[0].slots);
    assert_null(args->rank[0].mask);
    assert_null(args->rank[0].outbox);
    assert_non_null(args->rank[0].control);
    grs_comm_destroy(alone[0]);
}

/* The next launch may set itself up early where all ranks of the GPU are in this one, and all its SMs are theirs. */
static void test_early_start(void **state) {
    grs_comm *own[TP];
    grs_comm_options options = GRS_INIT(grs_comm_options);
    (void)state;
    for (int sms = 65; sms <= 66; sms++) { /* of 132 for two */
        options.sms = sms;
        assert_int_equal(grs_comm_create_local(ctx, TP, NULL, &options, own, &err), GRS_OK);
        assert_int_equal(grs_comm_prepare(own[0], kernel, ROWS, &err), GRS_OK);
        shim->launch_count = 0;
        assert_int_equal(grs_launch_local(own, kernel, operands, NULL, &err), GRS_OK);
        assert_int_equal(shim->launches[0].args.ranks, 2);
        assert_int_equal(shim->launches[0].config.numAttrs, sms == 66);
        if (sms == 66)
            assert_int_equal(shim->launches[0].attribute.id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        destroy_all(own, TP);
    }
}

/* Whole clusters: 132 SMs hold 65 clusters of two here, so each of two ranks gets 64 CTAs. */
static void test_clusters(void **state) {
    grs_comm *own[TP];
    (void)state;
    pin(ctx, FIELD_CLUSTER, 2);
    const grs_kernel *clustered = make_kernel(ctx, ROWS, N, K, TP);
    pin(ctx, FIELD_CLUSTER, 1);
    assert_int_equal(clustered->plan.value[FIELD_CLUSTER], 2);
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, own, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(own[0], clustered, ROWS, &err), GRS_OK);
    assert_int_equal(grs_launch_local(own, clustered, operands, NULL, &err), GRS_OK);
    const struct shim_launch *launch = &shim->launches[0];
    assert_int_equal(launch->args.grid, 64);
    assert_int_equal(launch->args.wave, 64);
    assert_int_equal(launch->config.gridDimX, 128);
    assert_int_equal(launch->config.numAttrs, 2); /* and an early start */
    assert_int_equal(launch->attribute.id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    assert_int_equal(launch->attribute.value.clusterDim.x, 2);
    assert_int_equal(launch->attribute.value.clusterDim.y * launch->attribute.value.clusterDim.z, 1);
    destroy_all(own, TP);
}

/* ---------------------------------------------------------------- hooks ---------------------------------------- */

static void test_hooks_and_deadline(void **state) {
    grs_comm *own[TP];
    grs_comm_options options = GRS_INIT(grs_comm_options);
    (void)state;
    options.deadline_seconds = 0.5;
    options.sms = 20;
    setenv("GRS_PACE_GBPS", "186", 1);
    setenv("GRS_STALL", "2:7", 1);
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, &options, own, &err), GRS_OK);
    unsetenv("GRS_PACE_GBPS");
    unsetenv("GRS_STALL");
    assert_int_equal(grs_comm_prepare(own[0], kernel, ROWS, &err), GRS_OK);
    assert_int_equal(grs_launch_local(own, kernel, operands, NULL, &err), GRS_OK);
    const grs_args *args = &shim->launches[0].args;
    assert_int_equal(args->deadline_ns, 500000000);
    assert_int_equal(args->pace_ps_per_kib, 5505); /* 1024 bytes at 186 GB/s: 5.505 ns */
    assert_int_equal(args->pace_signal_ns, 625);   /* 1370 over the link, 745 within the GPU */
    assert_int_equal(args->stall, (uint64_t)3 << 32 | 8);
    assert_int_equal(args->grid, 20);
    assert_int_equal(args->wave, 20);
    destroy_all(own, TP);
}

/* A copy of the kernel, under a plan with hooks; the context frees it. */
static const grs_kernel *hooked_kernel(bool count_waits, bool pace_model) {
    struct grs_kernel *hooked = (struct grs_kernel *)make_kernel(ctx, ROWS, N, K, TP);
    hooked->plan.count_waits = count_waits;
    hooked->plan.pace_model = pace_model;
    return hooked;
}

/* Kernels with the model send at the modelled link's tempo, whatever link_gbps says; others keep theirs. */
static void test_tempo_of_the_modelled_link(void **state) {
    grs_comm *own[TP];
    const grs_kernel *modelled = hooked_kernel(false, true);
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, own, &err), GRS_OK);
    group_set_pace(own[0]->group, 93, 2);
    assert_int_equal(grs_comm_prepare(own[0], kernel, ROWS, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(own[0], modelled, ROWS, &err), GRS_OK);
    assert_int_equal(grs_launch(own[0], modelled, &operands[0], NULL, &err), GRS_OK);
    assert_int_equal(grs_launch(own[0], kernel, &operands[0], NULL, &err), GRS_OK);
    group_set_pace(own[0]->group, 0, 2);
    assert_int_equal(grs_launch(own[0], modelled, &operands[0], NULL, &err), GRS_OK);
    const grs_args *paced = &shim->launches[0].args, *plain = &shim->launches[1].args, *off = &shim->launches[2].args;
    assert_int_equal(paced->pace_ps_per_kib, 11010); /* 1024 bytes at 93 GB/s */
    assert_int_equal(paced->pace_signal_ns, 1995);   /* twice 1370, less 745 */
    assert_int_equal(paced->send_ps_per_byte, plan_send_pace_at(&kernel->plan, ROWS, paced->grid, 11010));
    assert_int_equal(plain->send_ps_per_byte, plan_send_pace(&kernel->plan, ROWS, plain->grid));
    /* The link of the config is four times as fast, and ahead of the products, which the modelled one is not. */
    assert_in_range(paced->send_ps_per_byte * 11 / 10, 4 * plain->send_ps_per_byte - 6,
                    4 * plain->send_ps_per_byte + 6);
    assert_int_equal(off->pace_ps_per_kib, 0);
    assert_int_equal(off->pace_signal_ns, 0);
    assert_int_equal(off->send_ps_per_byte, plain->send_ps_per_byte);
    destroy_all(own, TP);
}

static void test_room_for_counters_and_stamps(void **state) {
    grs_comm *own[TP];
    const grs_kernel *counting = hooked_kernel(true, false);
    (void)state;
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, own, &err), GRS_OK);
    assert_int_equal(grs_comm_prepare(own[0], kernel, ROWS, &err), GRS_OK);
    assert_int_equal(own[1]->symm.sizes.bytes[SYMM_WAITS], 0);
    assert_int_equal(own[1]->symm.sizes.bytes[SYMM_STAMPS], 0);
    assert_int_equal(grs_comm_prepare(own[0], counting, ROWS, &err), GRS_OK);
    int grid = own[0]->group->kernels->modules[0].grid; /* two ranks a GPU */
    assert_int_equal(own[1]->symm.sizes.bytes[SYMM_WAITS],
                     (size_t)grid * GRS_ROLE_COUNT * GRS_WAIT_COUNT * sizeof(uint64_t));
    assert_int_equal(own[1]->symm.sizes.bytes[SYMM_STAMPS], GRS_STAMPS * sizeof(grs_stamp));
    assert_int_equal(grs_launch(own[1], counting, &operands[1], NULL, &err), GRS_OK);
    assert_int_equal((uintptr_t)shim->launches[0].args.rank[0].counters, own[1]->symm.pointer[SYMM_WAITS]);
    assert_int_equal((uintptr_t)shim->launches[0].args.rank[0].stamps, own[1]->symm.pointer[SYMM_STAMPS]);
    destroy_all(own, TP);
}

static void test_slowest_pace_does_not_overflow(void **state) {
    struct group group = {0};
    (void)state;
    group_set_pace(&group, 1e-300, 1);
    assert_int_equal(group.pace_ps_per_kib, 1024000000);
    assert_int_equal(plan_send_pace_at(&kernel->plan, INT32_MAX, PLAN_MAX_GRID, UINT64_MAX), UINT32_MAX);
    group_set_pace(&group, -1, 1);
    assert_int_equal(group.pace_ps_per_kib, 0);
    assert_int_equal(group.pace_signal_ns, 0);
}

/* ---------------------------------------------------------------- refusals ------------------------------------- */

static void assert_refused(grs_status status, const char *text) {
    grs_status found = grs_launch(comms[1], kernel, &operands[1], NULL, &err);
    assert_string_equal(err.text, text);
    assert_int_equal(found, status);
    assert_int_equal(err.status, status);
    assert_int_equal(shim->launch_count, 0);
}

static void test_operands_are_checked(void **state) {
    grs_operands right = operands[1], *o = &operands[1];
    char text[512];
    (void)state;
    o->A = NULL;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: A is NULL");
    *o = right;
    o->B = NULL;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: B is NULL");
    *o = right;
    o->A = (const char *)right.A + 8;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: A is 0x7f0100000008; allowed: addresses that are multiples of 16");
    *o = right;
    o->D = (char *)right.D + 2;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: D is 0x7f0120000002; allowed: addresses that are multiples of 16");
    *o = right;
    o->lda = K - 8;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: lda is 2048; allowed: multiples of 8 from K = 2056 elements");
    *o = right;
    o->ldb = K + 4;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: ldb is 2060; allowed: multiples of 8 from K = 2056 elements");
    *o = right;
    o->ldd = 0;
    assert_refused(GRS_ERR_ARGUMENT, "rank 1: ldd is 0; allowed: multiples of 8 from N = 4104 elements");
    *o = right;
    o->D = NULL;
    assert_refused(GRS_ERR_ARGUMENT,
                   "rank 1: D is NULL; allowed only where no row is kept, and this rank keeps rows 256 to "
                   "511 of M 1023");
    *o = right;
    const struct plan_shape *shape = &kernel->plan.shape;
    const int64_t wrong[] = {0, -5, shape->m_max + 1};
    for (size_t i = 0; i < 3; i++) {
        o->M = wrong[i];
        snprintf(text, sizeof(text),
                 "rank 1: M is %lld; %s serves %lld to %lld (grs_jit_get with this M gives the kernel of its class)",
                 (long long)wrong[i], kernel->plan.name, (long long)shape->m_min, (long long)shape->m_max);
        assert_refused(GRS_ERR_ARGUMENT, text);
    }
}

static void test_order_of_calls_is_checked(void **state) {
    grs_comm *own[TP];
    char text[512];
    (void)state;
    assert_int_equal(grs_launch(NULL, kernel, operands, NULL, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "grs_launch: comm is NULL");
    assert_int_equal(grs_launch(comms[0], NULL, operands, NULL, NULL), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_launch(comms[0], kernel, NULL, NULL, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "grs_launch: operands is NULL");
    assert_int_equal(grs_comm_create_local(ctx, TP, NULL, NULL, own, &err), GRS_OK);
    assert_int_equal(grs_launch(own[0], kernel, &operands[0], NULL, &err), GRS_ERR_STATE);
    snprintf(text, sizeof(text), "rank 0: grs_comm_prepare was not called for %s", kernel->plan.name);
    assert_string_equal(err.text, text);
    assert_int_equal(grs_comm_prepare(own[0], kernel, 512, &err), GRS_OK);
    assert_int_equal(grs_launch(own[0], kernel, &operands[0], NULL, &err), GRS_ERR_STATE);
    snprintf(text, sizeof(text), "rank 0: M is 1023, and grs_comm_prepare was called for %s with M up to 512",
             kernel->plan.name);
    assert_string_equal(err.text, text);

    grs_comm *mixed[TP] = {comms[0], comms[1], own[2], comms[3]};
    assert_int_equal(grs_launch_local(mixed, kernel, operands, NULL, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text,
                        "comms[2] is not rank 2 of the group of comms[0]; allowed: the handles in the order in which "
                        "grs_comm_create_local gave them");
    operands[3].M = 1000;
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "operands[3].M is 1000 and operands[0].M is 1023; allowed: the same M on all ranks");
    operands[3].M = ROWS;
    operands[3].lda = 1;
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(shim->launch_count, 0); /* no rank goes when one cannot */
    destroy_all(own, TP);
}

/* After a wait record no launch goes out; the record of a math warp, which does not know its tile, gets it from the
 * latest launch. */
static void test_refused_after_a_record(void **state) {
    (void)state;
    assert_int_equal(grs_launch_local(comms, kernel, operands, NULL, &err), GRS_OK);
    comms[0]->group->host->rank[3].record = (grs_wait_record){.complete = 1,
                                                              .role = GRS_ROLE_MATH,
                                                              .wait = GRS_WAIT_TILE_READY,
                                                              .rank = 3,
                                                              .cta = 1,
                                                              .owner = -1,
                                                              .tile = -1,
                                                              .position = 1,
                                                              .epoch = 2,
                                                              .word = 1,
                                                              .expected = 0,
                                                              .waited_ns = 2000000000};
    assert_int_equal(grs_launch(comms[1], kernel, &operands[1], NULL, &err), GRS_ERR_TIMEOUT);
    assert_string_equal(err.text,
                        "rank 3: math warp waited 2.0 s for the tile buffer with upstream's partial: CTA 1, owner 0, "
                        "tile 1, position 1, epoch 2, phase seen 1, wanted 0 (deadline: GRS_DEADLINE, default 30 "
                        "s)");
    assert_int_equal(grs_comm_prepare(comms[0], kernel, ROWS, &err), GRS_ERR_TIMEOUT);
    assert_int_equal(shim->launch_count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_rank, set_up, tear_down_and_count),
        cmocka_unit_test_setup_teardown(test_no_allocation_and_no_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_maps_are_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_current_context_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_grid_a_gpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_tiles_few_ctas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_launch_frees_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tp_1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_early_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clusters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hooks_and_deadline, set_up, tear_down_and_count),
        cmocka_unit_test_setup_teardown(test_tempo_of_the_modelled_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_room_for_counters_and_stamps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slowest_pace_does_not_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_operands_are_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_calls_is_checked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_after_a_record, set_up, tear_down_and_count),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
