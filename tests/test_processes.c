/* Ranks in several processes, on a driver without a GPU: shared memory, agreement, and what happens when a rank differs,
 * fails, dies or does not come. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/processes_fixture.h"

#define TP 3

/* ---------------------------------------------------------------- helpers --------------------------------------- */

static int own_rank;

static grs_status create(grs_ctx *ctx, int rank, double seconds, grs_comm **comm) {
    grs_comm_options options = GRS_INIT(grs_comm_options);
    own_rank = rank;
    grs_bootstrap bootstrap = bootstrap_of(&own_rank);
    options.setup_seconds = seconds;
    return grs_comm_create(ctx, rank, stage->size, rank % 2, &bootstrap, &options, comm, &err);
}

static grs_comm *must_create(grs_ctx *ctx, int rank) {
    grs_comm *comm = NULL;
    require(create(ctx, rank, 20, &comm) == GRS_OK);
    return comm;
}

/* Every rank has the same error; process numbers differ from run to run and are cut out. */
static void assert_same_error(grs_status status, const char *part) {
    for (int rank = 0; rank < stage->size; rank++) {
        if (stage->outcome[rank].status != status || strstr(stage->outcome[rank].text, part) == NULL ||
            strcmp(stage->outcome[rank].text, stage->outcome[0].text) != 0) {
            fail_msg("rank %d: %s: '%s', wanted %s with '%s' on all ranks", rank,
                     grs_status_name(stage->outcome[rank].status), stage->outcome[rank].text, grs_status_name(status),
                     part);
        }
    }
}

static void *host_pointer(CUdeviceptr pointer) {
    return (void *)(uintptr_t)pointer;
}

static grs_control *control_of(const grs_comm *comm, int rank) {
    return host_pointer(comm->group->ranks[rank].symm.pointer[SYMM_CONTROL]);
}

static void require_nothing_alive(void) {
    require(shim->live_memory == 0 && shim->live_host == 0 && shim->live_streams == 0 && shim->live_modules == 0);
    require(shim->live_handles == 0 && shim->live_mappings == 0);
    require(shim->device[0].retained == 0 && shim->device[1].retained == 0);
}

static int open_files(void) {
    int count = 0;
    for (int file = 0; file < 256; file++) {
        count += fcntl(file, F_GETFD) >= 0;
    }
    return count;
}

/* ---------------------------------------------------------------- what works ------------------------------------ */

static void work_shared_memory(grs_ctx *ctx, int rank) {
    int files = open_files();
    grs_comm *comm = must_create(ctx, rank);
    int up = (rank + 1) % TP, down = (rank + TP - 1) % TP;
    static const grs_control zero;
    require(grs_comm_rank(comm) == rank && grs_comm_size(comm) == TP && grs_comm_device(comm) == rank % 2);
    require(comm->device->sharers == (rank == 1 ? 1 : 2) && comm->device->sms == (rank == 1 ? 132 : 66));
    require(memcmp(control_of(comm, rank), &zero, sizeof(zero)) == 0);
    meet_all();
    control_of(comm, up)->credit = 100 + (uint64_t)rank; /* as a kernel would */
    meet_all();
    require(control_of(comm, rank)->credit == 100 + (uint64_t)down);

    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    require(grs_comm_prepare(comm, kernel, 1024, &err) == GRS_OK);
    require(grs_comm_prepare(comm, kernel, 4096, &err) == GRS_OK); /* grows */
    require(grs_comm_prepare(comm, kernel, 512, &err) == GRS_OK);  /* is there */
    require(group_find_kernel(comm->group, kernel)->wave == 66);
    grs_operands operands = {
        .A = (void *)4096, .lda = 2048, .B = (void *)8192, .ldb = 2048, .M = 4096, .D = (void *)65536, .ldd = 4096};
    require(grs_launch(comm, kernel, &operands, NULL, &err) == GRS_OK);
    require(shim->launch_count == 1);
    const grs_args *args = &shim->launches[0].args;
    require(args->wave == 66 && args->ranks == 1 && args->ring == TP && args->rank[0].rank == rank);
    require((int)shim->launches[0].config.gridDimX == comm->device->sms);
    /* What this rank writes downstream is what downstream reads; the mask starts at zero. */
    size_t last = comm->symm.sizes.bytes[SYMM_SLOTS] - 1, bits = comm->symm.sizes.bytes[SYMM_MASK] / 8;
    for (size_t i = 0; i < bits; i++) {
        require(args->rank[0].mask[i] == 0);
    }
    meet_all();
    args->rank[0].peer_slots[last] = (char)('a' + rank);
    args->rank[0].peer_mask[bits - 1] = 1000 + (uint64_t)rank;
    args->rank[0].upstream->epoch = 70 + (uint64_t)rank;
    meet_all();
    require(args->rank[0].slots[last] == (char)('a' + up) && args->rank[0].mask[bits - 1] == 1000 + (uint64_t)up);
    require(args->rank[0].control->epoch == 70 + (uint64_t)down);
    for (int other = 0; other < TP; other++) {
        ((grs_control *)args->rank[0].everyone[other])->spare = 1;
    }
    require(grs_comm_check(comm, &err) == GRS_OK);
    grs_operands all[TP] = {operands, operands, operands};
    require(grs_launch_local(&comm, kernel, all, NULL, &err) == GRS_ERR_ARGUMENT);
    require(strstr(err.text, "in several processes") != NULL);
    meet_all();
    grs_comm_destroy(comm);
    require_nothing_alive();
    require(open_files() == files);
}

static void test_shared_memory(void **state) {
    (void)state;
    run_ranks(TP, work_shared_memory);
    assert_ranks_ended_well();
    leave_stage();
}

static void work_alone(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, 1);
    require(grs_comm_prepare(comm, kernel, 4096, &err) == GRS_OK);
    require(grs_comm_check(comm, &err) == GRS_OK);
    grs_comm_destroy(comm);
    require_nothing_alive();
}

static void test_one_rank(void **state) {
    (void)state;
    run_ranks(1, work_alone);
    assert_ranks_ended_well();
    leave_stage();
}

/* One rank after the other leaves; those that stay are not alarmed, and their memory stays. */
static void work_leaving(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    for (int leaver = 0; leaver < TP; leaver++) {
        meet_all();
        if (leaver == rank) {
            grs_comm_destroy(comm);
        }
        meet_all();
        if (leaver < rank) {
            require(grs_comm_check(comm, &err) == GRS_OK);
            control_of(comm, leaver)->credit = 1;
        }
    }
    require_nothing_alive();
}

static void test_leaving(void **state) {
    (void)state;
    run_ranks(TP, work_leaving);
    assert_ranks_ended_well();
    leave_stage();
}

/* ---------------------------------------------------------------- agreement ------------------------------------- */

static void work_differing_m(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    note(rank, grs_comm_prepare(comm, kernel, rank == 1 ? 2048 : 4096, &err));
    require(shim->live_modules == 0); /* nothing was prepared */
    require(grs_comm_prepare(comm, kernel, 4096, &err) == GRS_OK);
    grs_comm_destroy(comm);
}

static void test_differing_m(void **state) {
    (void)state;
    run_ranks(TP, work_differing_m);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_PEER, "grs_comm_prepare: the ranks differ: max_M: 4096 on ranks 0 and 2; 2048 on rank 1");
    leave_stage();
}

static void work_differing_kernel(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    const grs_kernel *kernel = make_kernel(ctx, 4096, rank == 2 ? 8192 : 4096, 2048, TP);
    note(rank, grs_comm_prepare(comm, kernel, 4096, &err));
    grs_comm_destroy(comm);
}

static void test_differing_kernel(void **state) {
    (void)state;
    run_ranks(TP, work_differing_kernel);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_PEER, "the ranks differ: kernel: m 1..");
    assert_non_null(strstr(stage->outcome[0].text, "n 4096 k 2048 tp 3 on ranks 0 and 1; m 1.."));
    assert_non_null(strstr(stage->outcome[0].text, "n 8192 k 2048 tp 3 on rank 2"));
    leave_stage();
}

static void work_differing_key(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    memset(((struct grs_kernel *)kernel)->key, rank == 0 ? 'a' : 'b', HASH_HEX_LENGTH);
    note(rank, grs_comm_prepare(comm, kernel, 4096, &err));
    grs_comm_destroy(comm);
}

static void test_differing_key(void **state) {
    (void)state;
    run_ranks(TP, work_differing_key);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_PEER, "the ranks differ: kernel key (config, templates or compiler are not the same): "
                                    "aaaaaaaaaaaa on rank 0; bbbbbbbbbbbb on ranks 1 and 2");
    leave_stage();
}

/* Scenario: one rank cannot compile. Every rank learns who and why; nothing is loaded or launched. */
static void work_no_compiler(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    const grs_kernel *kernel = NULL;
    if (rank == 1) {
        setenv("GRS_NVRTC", "/nonexistent/libnvrtc.so", 1);
        grs_ctx_options options = GRS_INIT(grs_ctx_options);
        grs_ctx *broken;
        options.memory_only = 1;
        require(grs_ctx_open(&options, &broken, &err) == GRS_OK);
        require(grs_ctx_get(broken, 4096, 4096, 2048, TP, &kernel, &err) != GRS_OK && kernel == NULL);
        memset(&err, 0, sizeof(err));
    } else {
        kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    }
    note(rank, grs_comm_prepare(comm, kernel, 4096, &err));
    require(shim->live_modules == 0 && shim->launch_count == 0);
    if (kernel != NULL) {
        grs_operands operands = {.M = 1};
        require(grs_launch(comm, kernel, &operands, NULL, &err) == GRS_ERR_STATE);
    }
    grs_comm_destroy(comm);
}

static void test_one_cannot_compile(void **state) {
    (void)state;
    run_ranks(TP, work_no_compiler);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_COMPILER, "rank 1 (process ");
    assert_non_null(strstr(stage->outcome[0].text, "on GPU 1 (Shim)): "));
    assert_non_null(strstr(stage->outcome[0].text, "/nonexistent/libnvrtc.so"));
    leave_stage();
}

static void work_cannot_load(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    shim->fail_name = "cuModuleLoadData";
    shim->fail_at = rank == 2;
    shim->fail_with = CUDA_ERROR_NO_BINARY_FOR_GPU;
    note(rank, grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err));
    require(shim->live_modules == 0);
    grs_comm_destroy(comm);
}

static void test_one_cannot_load(void **state) {
    (void)state;
    run_ranks(TP, work_cannot_load);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_DRIVER, "on GPU 0 (Shim)): cuModuleLoadData(");
    assert_memory_equal(stage->outcome[0].text, "rank 2 (process ", 16);
    leave_stage();
}

/* Whichever driver call of one rank fails, in the making or in preparing: all ranks have its error, nothing stays behind, and
 * the same call works afterwards. */
static void work_every_failure(grs_ctx *ctx, int rank) {
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, 2);
    int tried = 0;
    for (int preparing = 0; preparing < 2; preparing++) {
        for (int at = 1;; at++, tried++) {
            grs_comm *comm = preparing ? must_create(ctx, rank) : NULL;
            shim->fail_name = NULL;
            shim->fail_with = CUDA_ERROR_OUT_OF_MEMORY;
            meet_all();
            shim->fail_at = rank == 1 ? at : 0;
            grs_status status = preparing ? grs_comm_prepare(comm, kernel, 4096, &err) : create(ctx, rank, 20, &comm);
            if (rank == 1) {
                stage->flag = shim->fail_at == 0;
                shim->fail_at = 0;
            }
            note(rank, status);
            meet_all();
            require(stage->outcome[0].status == stage->outcome[1].status);
            require(strcmp(stage->outcome[0].text, stage->outcome[1].text) == 0);
            require(status == GRS_OK || strstr(err.text, "rank 1 (process ") == err.text);
            if (status != GRS_OK && preparing) {
                require(shim->live_modules == 0);
                require(grs_comm_prepare(comm, kernel, 4096, &err) == GRS_OK);
            }
            bool failed = stage->flag;
            meet_all();
            grs_comm_destroy(comm);
            require_nothing_alive();
            if (!failed) {
                break;
            }
        }
    }
    require(tried > 40);
}

static void test_every_failure(void **state) {
    (void)state;
    run_ranks(2, work_every_failure);
    assert_ranks_ended_well();
    leave_stage();
}

/* ---------------------------------------------------------------- who does not come ----------------------------- */

static void work_missing(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    comm->group->peers->setup_seconds = 1;
    meet_all();
    if (rank != 2) {
        note(rank, grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err));
        require(grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err) == GRS_ERR_STATE);
    }
    meet_all();
    if (rank == 2) { /* too late, and told so */
        note(rank, grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err));
    }
    grs_comm_destroy(comm);
    require_nothing_alive();
}

static void test_missing_in_prepare(void **state) {
    (void)state;
    run_ranks(TP, work_missing);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_TIMEOUT, "rank 2 (process ");
    assert_non_null(strstr(stage->outcome[0].text, " did not come to grs_comm_prepare within 1.0 s"));
    leave_stage();
}

static void work_dying(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    meet_all();
    if (rank == 1) {
        kill(getpid(), SIGKILL);
    }
    note(rank, grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err));
    for (int again = 0; again < 2; again++) {
        require(grs_comm_check(comm, &err) == GRS_ERR_PEER);
        require(strstr(err.text, "rank 1 (process ") == err.text);
        require(strstr(err.text, "ended without destroying its communicator") != NULL);
    }
    require(control_of(comm, rank)->abort == 1); /* kernels in flight leave */
    grs_comm_destroy(comm);
}

static void test_dying_rank(void **state) {
    (void)state;
    run_ranks(TP, work_dying);
    assert_int_equal(stage->ended[0], 0);
    assert_int_equal(stage->ended[2], 0);
    assert_int_equal(stage->outcome[0].status, GRS_ERR_PEER);
    assert_non_null(strstr(stage->outcome[0].text, "ended before grs_comm_prepare was done"));
    assert_string_equal(stage->outcome[0].text, stage->outcome[2].text);
    leave_stage();
}

/* ---------------------------------------------------------------- faults ---------------------------------------- */

static void work_abort(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    const grs_kernel *kernel = make_kernel(ctx, 4096, 4096, 2048, TP);
    require(grs_comm_prepare(comm, kernel, 4096, &err) == GRS_OK);
    require(control_of(comm, rank)->abort == 0);
    meet_all();
    if (rank == 2) {
        require(grs_comm_abort(comm, &err) == GRS_OK);
    }
    meet_all();
    require(control_of(comm, rank)->abort == 1);
    note(rank, grs_comm_check(comm, &err));
    grs_operands operands = {.M = 4096};
    require(grs_launch(comm, kernel, &operands, NULL, &err) == GRS_ERR_STATE);
    meet_all();
    grs_comm_destroy(comm);
}

static void test_abort_reaches_all(void **state) {
    (void)state;
    run_ranks(TP, work_abort);
    assert_ranks_ended_well();
    assert_int_equal(stage->outcome[0].status, GRS_ERR_STATE);
    assert_string_equal(stage->outcome[0].text, "rank 0: the communicator was aborted by rank 2");
    assert_string_equal(stage->outcome[2].text, "rank 2: the communicator was aborted");
    leave_stage();
}

static void work_record(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    if (rank == 1) { /* as its kernel would */
        *(grs_wait_record *)host_pointer(comm->record) = (grs_wait_record){
            .complete = 1, .role = GRS_ROLE_SENDER, .wait = GRS_WAIT_CREDIT, .rank = 1, .waited_ns = 30000000000};
    }
    meet_all();
    note(rank, grs_comm_check(comm, &err));
    meet_all();
    grs_comm_destroy(comm);
}

static void test_record_is_seen_by_all(void **state) {
    (void)state;
    run_ranks(TP, work_record);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_TIMEOUT, "rank 1: sender waited 30.0 s for a credit from rank 0 (downstream)");
    leave_stage();
}

/* ---------------------------------------------------------------- the making ------------------------------------ */

static void work_no_such_device(grs_ctx *ctx, int rank) {
    grs_bootstrap bootstrap = bootstrap_of(&rank);
    grs_comm *comm = (grs_comm *)ctx;
    note(rank, grs_comm_create(ctx, rank, TP, rank == 1 ? 7 : 0, &bootstrap, NULL, &comm, &err));
    require(comm == NULL);
    require_nothing_alive();
}

static void test_no_such_device(void **state) {
    (void)state;
    run_ranks(TP, work_no_such_device);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_ARGUMENT, "on no GPU): device is 7; this process sees 2 GPUs (CUDA_VISIBLE_DEVICES)");
    leave_stage();
}

static void work_no_sharing(grs_ctx *ctx, int rank) {
    grs_comm *comm;
    shim->no_sharing = rank == 0;
    note(rank, create(ctx, rank, 20, &comm));
    require_nothing_alive();
}

static void test_platform_refuses(void **state) {
    (void)state;
    run_ranks(TP, work_no_sharing);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_PEER, "GPU 0 (Shim) cannot share memory with other processes: the driver offers no file "
                                    "descriptors for it here");
    leave_stage();
}

static void work_no_peers(grs_ctx *ctx, int rank) {
    grs_comm *comm;
    shim->native_atomics = rank != 1;
    note(rank, create(ctx, rank, 20, &comm));
    require_nothing_alive();
}

static void test_no_atomics(void **state) {
    (void)state;
    run_ranks(TP, work_no_peers);
    assert_ranks_ended_well();
    assert_same_error(GRS_ERR_PEER, "GPU 1 (Shim) has no native atomics on the memory of the GPU of rank 2");
    leave_stage();
}

static struct hello *hello_of(int rank) {
    return (struct hello *)(void *)stage->gathered[rank];
}

/* Rank 1 says something else than the truth in the first exchange. */
static void (*lie)(struct hello *hello);

static int lying_gather(void *arg, const void *mine, size_t bytes, void *all) {
    struct hello changed;
    memcpy(&changed, mine, sizeof(changed));
    if (*(int *)arg == 1) {
        lie(&changed);
    }
    return gather_by_memory(arg, &changed, bytes, all);
}

static void work_lying(grs_ctx *ctx, int rank) {
    grs_bootstrap bootstrap = bootstrap_of(&rank);
    grs_comm *comm;
    bootstrap.all_gather = lying_gather;
    note(rank, grs_comm_create(ctx, rank, TP, 0, &bootstrap, NULL, &comm, &err));
    require(comm == NULL);
    require_nothing_alive();
}

static void other_version(struct hello *hello) {
    snprintf(hello->version, sizeof(hello->version), "0.0.9");
}
static void other_boot(struct hello *hello) {
    snprintf(hello->boot, sizeof(hello->boot), "another");
    snprintf(hello->host, sizeof(hello->host), "elsewhere");
}
static void other_user(struct hello *hello) {
    hello->user++;
}
static void other_network(struct hello *hello) {
    hello->network[1]++;
}
static void other_size(struct hello *hello) {
    hello->size++;
}
static void other_layout(struct hello *hello) {
    hello->bytes--;
}
static void other_rank(struct hello *hello) {
    hello->rank = 2;
}
static void unending_text(struct hello *hello) {
    hello->status = 77;
    memset(hello->text, '\001', sizeof(hello->text));
    memset(hello->device, 'x', sizeof(hello->device));
}

static void test_what_ranks_say_is_compared(void **state) {
    static const struct {
        void (*lie)(struct hello *);
        const char *text;
    } cases[] = {
        {other_version, " on ranks 0 and 2; 0.0.9 on rank 1"},
        {other_boot, "elsewhere (boot id another) on rank 1"},
        {other_user, "the ranks differ: user: "},
        {other_network, " on rank 1 (containers need a common one, or GRS_SOCKET_DIR in a common directory)"},
        {other_size, "number of ranks: 3 on ranks 0 and 2; 4 on rank 1"},
        {other_layout, "all-gather gave for rank 1 is not what that rank"},
        {other_rank, "all-gather gave for rank 1 is not what that rank"},
        {unending_text, "xxxx): ????"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lie = cases[i].lie;
        run_ranks(TP, work_lying);
        assert_ranks_ended_well();
        assert_same_error(GRS_ERR_PEER, cases[i].text);
        leave_stage();
    }
}

static int failing_gather(void *arg, const void *mine, size_t bytes, void *all) {
    (void)arg, (void)mine, (void)bytes, (void)all;
    return 13;
}
static void note_abort(void *arg, const char *why) {
    snprintf(stage->outcome[1].text, sizeof(stage->outcome[1].text), "%d %s", *(int *)arg, why);
}

static void work_bad_bootstrap(grs_ctx *ctx, int rank) {
    grs_bootstrap bootstrap = bootstrap_of(&rank);
    grs_comm *comm;
    bootstrap.all_gather = failing_gather;
    bootstrap.abort = note_abort;
    require(grs_comm_create(ctx, 0, 2, 0, &bootstrap, NULL, &comm, &err) == GRS_ERR_PEER);
    require(strcmp(err.text, "the bootstrap's all-gather failed (it returned 13)") == 0);
    bootstrap.all_gather = NULL;
    require(grs_comm_create(ctx, 0, 2, 0, &bootstrap, NULL, &comm, &err) == GRS_ERR_ARGUMENT);
    require(grs_comm_create(ctx, 2, 2, 0, &bootstrap, NULL, &comm, &err) == GRS_ERR_ARGUMENT);
    require(strcmp(err.text, "rank is 2; allowed: 0 to 1") == 0);
    require(grs_comm_create(ctx, 0, 65, 0, &bootstrap, NULL, &comm, &err) == GRS_ERR_ARGUMENT);
    require(grs_comm_create(ctx, 0, 2, 0, NULL, NULL, &comm, &err) == GRS_ERR_ARGUMENT);
    require_nothing_alive();
}

static void test_bad_bootstrap(void **state) {
    (void)state;
    run_ranks(1, work_bad_bootstrap);
    assert_ranks_ended_well();
    assert_string_equal(stage->outcome[1].text, "0 the bootstrap's all-gather failed (it returned 13)");
    leave_stage();
}

/* ---------------------------------------------------------------- strangers ------------------------------------- */

static int call_rank_0(void) {
    const struct mesh_address *address = &hello_of(0)->address;
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    int file = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    bool abstract = !address->in_directory;
    snprintf(where.sun_path + abstract, sizeof(where.sun_path) - abstract, "%s", address->path);
    require(connect(file, (struct sockaddr *)&where,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address->path) + 1)) == 0);
    return file;
}

/* Before it calls rank 0 itself, rank 1 plays strangers: a silent one, one that hangs up, garbage, a wrong secret, a rank that
 * is none. */
static int gather_and_disturb(void *arg, const void *mine, size_t bytes, void *all) {
    int rank = *(int *)arg;
    gather_by_memory(arg, mine, bytes, all);
    if (rank == 1) {
        struct {
            uint32_t magic, kind, sequence, bytes;
            int32_t rank;
            uint8_t secret[16];
        } greeting = {0x6d737267, 1, 0, 20, 1, {0}};
        call_rank_0(); /* stays open, silent */
        close(call_rank_0());
        char garbage[20000];
        memset(garbage, 'g', sizeof(garbage));
        require(send(call_rank_0(), garbage, sizeof(garbage), 0) > 0);
        require(send(call_rank_0(), garbage, 3, 0) == 3);
        require(send(call_rank_0(), &greeting, sizeof(greeting), 0) > 0); /* not the secret */
        memcpy(greeting.secret, hello_of(0)->address.secret, sizeof(greeting.secret));
        greeting.rank = 77;
        require(send(call_rank_0(), &greeting, sizeof(greeting), 0) > 0);
        greeting.rank = 1;
        greeting.bytes = 1u << 30;
        require(send(call_rank_0(), &greeting, sizeof(greeting), 0) > 0);
    }
    return 0;
}

static void work_strangers(grs_ctx *ctx, int rank) {
    grs_bootstrap bootstrap = bootstrap_of(&rank);
    grs_comm *comm;
    bootstrap.all_gather = gather_and_disturb;
    require(grs_comm_create(ctx, rank, TP, 0, &bootstrap, NULL, &comm, &err) == GRS_OK);
    require(grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err) == GRS_OK);
    meet_all();
    grs_comm_destroy(comm);
}

static void test_strangers_are_turned_away(void **state) {
    (void)state;
    run_ranks(TP, work_strangers);
    assert_ranks_ended_well();
    leave_stage();
}

/* A rank that turns to sending garbage. */
static void work_garbage(grs_ctx *ctx, int rank) {
    grs_comm *comm = must_create(ctx, rank);
    if (rank == 1) {
        for (int other = 0; other < TP; other += 2) {
            require(send(comm->group->peers->mesh.file[other], "rubbish", 7, 0) == 7);
        }
    } else {
        note(rank, grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err));
    }
    meet_all();
    grs_comm_destroy(comm);
}

static void test_garbage_from_a_rank(void **state) {
    (void)state;
    run_ranks(TP, work_garbage);
    assert_ranks_ended_well();
    assert_int_equal(stage->outcome[0].status, GRS_ERR_PEER);
    assert_non_null(strstr(stage->outcome[0].text, "sent in grs_comm_prepare is not a message of this library"));
    leave_stage();
}

/* Sockets in a directory instead of abstract names. */
static void test_directory(void **state) {
    char base[] = "/tmp/grs-test-XXXXXX", path[64];
    struct stat about;
    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/sockets", base);
    setenv("GRS_SOCKET_DIR", path, 1);
    run_ranks(TP, work_strangers);
    assert_ranks_ended_well();
    leave_stage();
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_int_equal(about.st_nlink, 2);
    assert_int_equal(rmdir(path), 0); /* empty: every socket was taken away */

    assert_int_equal(mkdir(path, 0755), 0);
    run_ranks(TP, work_no_sharing);
    assert_same_error(GRS_ERR_IO, "others may enter it (owner ");
    leave_stage();
    rmdir(path);
    rmdir(base);
    unsetenv("GRS_SOCKET_DIR");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_differing_m),
        cmocka_unit_test(test_differing_kernel),
        cmocka_unit_test(test_differing_key),
        cmocka_unit_test(test_one_cannot_compile),
        cmocka_unit_test(test_one_cannot_load),
        cmocka_unit_test(test_every_failure),
        cmocka_unit_test(test_missing_in_prepare),
        cmocka_unit_test(test_dying_rank),
        cmocka_unit_test(test_abort_reaches_all),
        cmocka_unit_test(test_record_is_seen_by_all),
        cmocka_unit_test(test_no_such_device),
        cmocka_unit_test(test_platform_refuses),
        cmocka_unit_test(test_no_atomics),
        cmocka_unit_test(test_what_ranks_say_is_compared),
        cmocka_unit_test(test_bad_bootstrap),
        cmocka_unit_test(test_strangers_are_turned_away),
        cmocka_unit_test(test_garbage_from_a_rank),
        cmocka_unit_test(test_directory),
    };
    return cmocka_run_group_tests(tests, fixture_open, NULL);
}
