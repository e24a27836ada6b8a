/* The meeting over TCP, among processes: who comes, who does not, who should not; communicators made by it; and a short run of
 * the fuzz target, the same one every time. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>

#include "tests/processes_fixture.h"

#include "runtime/rendezvous.h"

#include "tests/fuzz_rendezvous.c"

#define TP 3

static int port; /* free when the test began */

static int free_port(void) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(where);
    int file = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(file, (struct sockaddr *)&where, sizeof(where)), 0);
    assert_int_equal(getsockname(file, (struct sockaddr *)&where, &length), 0);
    close(file);
    return ntohs(where.sin_port);
}

static int call_port(void) {
    struct sockaddr_in where = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    for (int tries = 0; tries < 500; tries++) {
        int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(file, (struct sockaddr *)&where, sizeof(where)) == 0) {
            return file;
        }
        close(file);
        usleep(10000);
    }
    return -1;
}

static void assert_outcome(int rank, grs_status status, const char *part) {
    if (stage->outcome[rank].status != status || strstr(stage->outcome[rank].text, part) == NULL) {
        fail_msg("rank %d: %s: '%s'; wanted %s with '%s'", rank, grs_status_name(stage->outcome[rank].status),
                 stage->outcome[rank].text, grs_status_name(status), part);
    }
}

static grs_status meet(struct rendezvous *meeting, int rank, int size, const char *token, double seconds) {
    return rendezvous_open(meeting, "127.0.0.1", port, token, rank, size, seconds, &err);
}

/* ---------------------------------------------------------------- what works ------------------------------------ */

static void work_meeting(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    char mine[1000], all[TP][1000];
    (void)ctx;
    usleep((useconds_t)(TP - rank) * 30000); /* rank 0 last: the others wait for it */
    require(meet(&meeting, rank, TP, "token", 20) == GRS_OK);
    for (int round = 0; round < 3; round++) {
        memset(mine, 'a' + rank + 5 * round, sizeof(mine));
        require(rendezvous_all_gather(&meeting, mine, sizeof(mine), all) == 0);
        for (int other = 0; other < TP; other++) {
            require(all[other][0] == 'a' + other + 5 * round && all[other][999] == all[other][0]);
        }
    }
    require(rendezvous_barrier(&meeting) == 0);
    rendezvous_close(&meeting);
}

static void test_meeting(void **state) {
    (void)state;
    port = free_port();
    run_ranks(TP, work_meeting);
    assert_ranks_ended_well();
    leave_stage();
}

static void work_env(grs_ctx *ctx, int rank) {
    char text[16];
    grs_comm *comm;
    snprintf(text, sizeof(text), "%d", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    setenv("WORLD_SIZE", "3", 1);
    snprintf(text, sizeof(text), "%d", port);
    setenv("GRS_MASTER_PORT", text, 1);
    note(rank, grs_comm_create_env(ctx, NULL, &comm, &err));
    require(stage->outcome[rank].status == GRS_OK);
    require(grs_comm_rank(comm) == rank && grs_comm_device(comm) == rank / 2);
    require(grs_comm_prepare(comm, make_kernel(ctx, 4096, 4096, 2048, TP), 4096, &err) == GRS_OK);
    grs_comm_destroy(comm);
}

static void test_from_the_environment(void **state) {
    (void)state;
    port = free_port();
    run_ranks(TP, work_env);
    assert_ranks_ended_well();
    leave_stage();
}

/* One rank has no driver: all are told, instead of waiting for it. */
static void work_no_driver(grs_ctx *ctx, int rank) {
    grs_comm *comm;
    (void)ctx;
    char text[16];
    snprintf(text, sizeof(text), "%d", rank);
    setenv("RANK", text, 1);
    setenv("WORLD_SIZE", "3", 1);
    snprintf(text, sizeof(text), "%d", port);
    setenv("GRS_MASTER_PORT", text, 1);
    if (rank == 1) {
        shim->fail_name = "cuDeviceGetCount";
        shim->fail_with = CUDA_ERROR_UNKNOWN;
        shim->fail_at = 2; /* the first is for the choice of a GPU */
    }
    note(rank, grs_comm_create_env(ctx, NULL, &comm, &err));
}

static void test_one_rank_fails(void **state) {
    (void)state;
    port = free_port();
    run_ranks(TP, work_no_driver);
    assert_ranks_ended_well();
    for (int rank = 0; rank < TP; rank++) {
        assert_outcome(rank, GRS_ERR_DRIVER, "on no GPU): cuDeviceGetCount: unknown error");
        assert_string_equal(stage->outcome[rank].text, stage->outcome[0].text);
    }
    leave_stage();
}

/* ---------------------------------------------------------------- who is missing -------------------------------- */

static void work_missing(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    char mine = 0, all[5];
    (void)ctx;
    if (rank == 1) { /* and there are no ranks 3 and 4 at all */
        return;
    }
    grs_status status = meet(&meeting, rank, 5, "token", 1.5);
    if (status == GRS_OK && rendezvous_all_gather(&meeting, &mine, 1, all) != 0) {
        err = meeting.error;
        status = err.status;
    }
    note(rank, status);
    rendezvous_close(&meeting);
}

static void test_missing_ranks_are_named(void **state) {
    char text[128];
    (void)state;
    port = free_port();
    run_ranks(TP, work_missing);
    assert_ranks_ended_well();
    snprintf(text, sizeof(text), "ranks 1, 3 and 4 of 5 did not come to rank 0 at 127.0.0.1:%d within 1.5 s", port);
    assert_outcome(0, GRS_ERR_TIMEOUT, text);
    assert_string_equal(stage->outcome[0].text, text);
    assert_int_equal(stage->outcome[2].status, GRS_ERR_TIMEOUT);
    if (strcmp(stage->outcome[2].text, text) != 0) { /* not told: its own deadline came first */
        assert_outcome(2, GRS_ERR_TIMEOUT, "rank 0 did not come to the meeting at 127.0.0.1:");
    }
    leave_stage();
}

static void work_no_rank_0(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    (void)ctx;
    note(rank, meet(&meeting, 1, 2, "token", 0.2));
    rendezvous_close(&meeting);
}

static void test_no_rank_0(void **state) {
    (void)state;
    port = free_port();
    run_ranks(1, work_no_rank_0);
    assert_outcome(0, GRS_ERR_TIMEOUT, "rank 1: rank 0 did not answer at 127.0.0.1:");
    assert_outcome(0, GRS_ERR_TIMEOUT, " within 0.2 s (is it running, ");
    leave_stage();
}

static void work_dying(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    char mine = 0, all[TP];
    (void)ctx;
    require(meet(&meeting, rank, TP, "token", 20) == GRS_OK);
    if (rank == 1) {
        kill(getpid(), SIGKILL);
    }
    require(rendezvous_all_gather(&meeting, &mine, 1, all) != 0);
    err = meeting.error;
    note(rank, err.status);
    rendezvous_close(&meeting);
}

static void test_dying_rank(void **state) {
    (void)state;
    port = free_port();
    run_ranks(TP, work_dying);
    for (int rank = 0; rank < TP; rank += 2) {
        assert_int_equal(stage->ended[rank], 0);
        assert_outcome(rank, GRS_ERR_PEER, "rank 1 ended during the meeting at 127.0.0.1:");
    }
    leave_stage();
}

/* ---------------------------------------------------------------- who should not come --------------------------- */

static void work_wrong_token(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    (void)ctx;
    note(rank, meet(&meeting, rank, 2, rank == 0 ? "token" : "other", 2));
    rendezvous_close(&meeting);
}

static void test_wrong_token(void **state) {
    (void)state;
    port = free_port();
    run_ranks(2, work_wrong_token);
    assert_outcome(0, GRS_ERR_TIMEOUT, "rank 1 of 2 did not come to rank 0 at 127.0.0.1:");
    assert_outcome(0, GRS_ERR_TIMEOUT,
                   "; turned away: rank 1 has another token than rank 0 (GRS_TOKEN, or another job)");
    assert_outcome(1, GRS_ERR_PEER, " turned rank 1 away: rank 1 has another token than rank 0");
    leave_stage();
}

/* In this order: rank 0, rank 1, three that are none of the job's, rank 2. */
static void work_wrong_numbers(grs_ctx *ctx, int which) {
    static const int ranks[] = {0, 1, 1, 7, 1, 2}, sizes[] = {3, 3, 2, 3, 3, 3};
    struct rendezvous meeting;
    (void)ctx;
    while (which > 1 && stage->flag != which - 1) {
        usleep(1000);
    }
    note(which, meet(&meeting, ranks[which], sizes[which], "token", 30));
    if (which > 0) {
        stage->flag = which;
    }
    if (which == 1) { /* stays until all have come */
        while (stage->flag != 5) {
            usleep(1000);
        }
    }
    rendezvous_close(&meeting);
}

static void test_wrong_numbers(void **state) {
    (void)state;
    port = free_port();
    run_ranks(6, work_wrong_numbers);
    assert_ranks_ended_well();
    assert_outcome(0, GRS_OK, "");
    assert_outcome(1, GRS_OK, "");
    assert_outcome(2, GRS_ERR_PEER, "rank 1 says that there are 2 ranks, rank 0 that there are 3");
    assert_outcome(3, GRS_ERR_PEER, "rank 7 is none of 1 to 2");
    assert_outcome(4, GRS_ERR_PEER, "rank 1 is there already: two processes have its number");
    assert_outcome(5, GRS_OK, "");
    leave_stage();
}

/* Silent, curious and noisy strangers, more of them than there is room for, before the ranks come. */
static void work_strangers(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    char mine = (char)('x' + rank), all[2], noise[5000];
    (void)ctx;
    if (rank == 1) {
        memset(noise, 'n', sizeof(noise));
        for (int i = 0; i < 40; i++) {
            require(call_port() >= 0); /* stays open */
            int noisy = call_port();
            require(send(noisy, noise, sizeof(noise), MSG_NOSIGNAL) > 0);
            close(call_port());
        }
        for (int i = 0; i < 100; i++) {
            require(call_port() >= 0);
        }
    }
    require(meet(&meeting, rank, 2, "token", 20) == GRS_OK);
    require(rendezvous_all_gather(&meeting, &mine, 1, all) == 0 && all[0] == 'x' && all[1] == 'y');
    rendezvous_close(&meeting);
}

static void test_strangers(void **state) {
    (void)state;
    port = free_port();
    run_ranks(2, work_strangers);
    assert_ranks_ended_well();
    leave_stage();
}

static void work_port_taken(grs_ctx *ctx, int rank) {
    struct rendezvous meeting;
    (void)ctx;
    note(rank, meet(&meeting, rank, 2, "token", 0.5));
    rendezvous_close(&meeting);
}

/* Something else has the port: rank 0 says so, the others that what answers is not rank 0. */
static void test_port_taken(void **state) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)state;
    port = free_port();
    where.sin_port = htons((uint16_t)port);
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(file, (struct sockaddr *)&where, sizeof(where)), 0);
    assert_int_equal(listen(file, 5), 0);
    run_ranks(2, work_port_taken);
    close(file);
    assert_outcome(0, GRS_ERR_IO, "rank 0 cannot listen at 127.0.0.1:");
    assert_outcome(0, GRS_ERR_IO, "Address already in use (GRS_MASTER_PORT takes another port, ");
    assert_int_not_equal(stage->outcome[1].status, GRS_OK); /* silence: nobody answers */
    leave_stage();
    struct rendezvous meeting;
    assert_int_equal(rendezvous_open(&meeting, "no.such.host.invalid", 1, "token", 0, 2, 1, &err), GRS_ERR_IO);
    assert_non_null(strstr(err.text, "the address of rank 0, no.such.host.invalid:1: "));
    rendezvous_close(&meeting);
}

/* ---------------------------------------------------------------- fuzzing --------------------------------------- */

#define CORPUS "tests/corpus/fuzz_rendezvous"
#define ROUNDS 400

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void test_corpus_and_changes(void **state) {
    DIR *corpus = opendir(CORPUS);
    int files = 0;
    (void)state;
    assert_non_null(corpus); /* the tests run from the root of the repository */
    for (struct dirent *at; (at = readdir(corpus)) != NULL;) {
        char path[512];
        uint8_t seed[4096];
        snprintf(path, sizeof(path), CORPUS "/%s", at->d_name);
        FILE *file = at->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (file == NULL) {
            continue;
        }
        size_t size = fread(seed, 1, sizeof(seed), file);
        fclose(file);
        files++;
        for (int round = 0; round < ROUNDS; round++) {
            size_t length = round > 0 && round % 4 == 0 ? 1 + next_random() % size : size;
            uint8_t *changed = malloc(length); /* exactly, so that a sanitizer sees a read beyond it */
            memcpy(changed, seed, length);
            for (int i = round == 0 ? 0 : 3; i > 0; i--) {
                changed[next_random() % length] ^= (uint8_t)(1 << next_random() % 8);
            }
            LLVMFuzzerTestOneInput(changed, length);
            free(changed);
        }
    }
    closedir(corpus);
    assert_true(files >= 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meeting),
        cmocka_unit_test(test_from_the_environment),
        cmocka_unit_test(test_one_rank_fails),
        cmocka_unit_test(test_missing_ranks_are_named),
        cmocka_unit_test(test_no_rank_0),
        cmocka_unit_test(test_dying_rank),
        cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_wrong_numbers),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_port_taken),
        cmocka_unit_test(test_corpus_and_changes),
    };
    return cmocka_run_group_tests(tests, fixture_open, NULL);
}
