/* A rank that stands still ends in a wait record within the deadline, every CTA leaves, and a new communicator works. */
#include <regex.h>
#include <unistd.h>

#include "tests/gpu/gpu.h"
#include "tests/gpu/policies.h"

enum { TP = 3 };
static const struct policy planned = {"as the planner chooses", "sms: all\n", NULL};
static const int64_t M = 600, N = 512, K = 256;

/* Opens communicators whose rank `rank` stands still before its tile of this position. */
static void stalled(grs_ctx *ctx, const grs_kernel *kernel, int rank, int position, double deadline, grs_comm **comms) {
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.deadline_seconds = deadline;
    make_stalling(ctx, TP, rank, position, &options, comms);
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
}

/* One line of the text: who waited for what, and what must hold whatever it was. */
static bool line_is_complete(const char *line, int tp, long epoch) {
    enum { RANK = 1, ROLE, CTA, OWNER, TILE, EPOCH = TILE + 2, KIND, SEEN, WANTED, GROUPS };
    static const char pattern[] = "^rank ([0-9]+): (loader|prefetcher|storer|sender|math warp|issuer) waited "
                                  "[0-9]+\\.[0-9] s for [^:]*: CTA ([0-9]+), owner ([0-9]+), tile ([0-9]+)"
                                  "(, position [0-9]+)?, epoch ([0-9]+), (word|phase) seen ([0-9a-fx]+), wanted "
                                  "([0-9a-fx]+) \\(deadline: GRS_DEADLINE, default 30 s\\)$";
    regex_t compiled;
    regmatch_t at[GROUPS];
    must(regcomp(&compiled, pattern, REG_EXTENDED) == 0, "the pattern");
    bool matches = regexec(&compiled, line, GROUPS, at, 0) == 0;
    regfree(&compiled);
    if (!matches) {
        return false;
    }
#define NUMBER(group) strtol(line + at[group].rm_so, NULL, 0)
#define WORD(group)   strtoull(line + at[group].rm_so, NULL, 0) /* a mask may have its highest bit set */
    long rank = NUMBER(RANK);
    unsigned long long seen = WORD(SEEN), wanted = WORD(WANTED);
    bool bits = strstr(line, " for a partial from ") != NULL;
    char peer[64];
    snprintf(peer, sizeof(peer), " from rank %ld (upstream): ", (rank + 1) % tp);
    return rank < tp && NUMBER(OWNER) < tp && NUMBER(CTA) < 1024 && NUMBER(EPOCH) == epoch &&
           (bits ? strstr(line, peer) != NULL && wanted != 0 && (seen & wanted) == 0 : seen != wanted);
#undef NUMBER
#undef WORD
}

/* A line a rank at most, at least one, all of them complete. */
static bool record_is_complete(const char *text, int tp, long epoch) {
    char copy[sizeof(err.text)], *rest = NULL;
    int lines = 0;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest), lines++) {
        if (!line_is_complete(line, tp, epoch)) {
            return false;
        }
    }
    return lines >= 1 && lines <= tp;
}

static void works_again(grs_ctx *ctx, const grs_kernel *kernel) {
    grs_comm *comms[TP];
    MUST(grs_comm_create_local(ctx, TP, placement(0), NULL, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 5);
    ok(run_local(comms, kernel, p) && problem_check(p), "a new communicator works");
    problem_free(p);
    destroy(comms, TP);
}

static void test_deadline(grs_ctx *ctx, const grs_kernel *kernel, const char *name, int rank, int position,
                          double deadline) {
    grs_comm *comms[TP];
    grs_error other;
    stalled(ctx, kernel, rank, position, deadline, comms);
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 5);
    double start = seconds();
    MUST(grs_launch_local(comms, kernel, p->operands, NULL, &err));
    synchronize(); /* every CTA leaves, the context stays usable */
    double took = seconds() - start;
    grs_status status = grs_comm_check(comms[0], &err);
    ok(status == GRS_ERR_TIMEOUT && record_is_complete(err.text, TP, 0), "%s, rank %d stands still: %.*s", name, rank,
       (int)strcspn(err.text, "\n"), err.text);
    snprintf(other.text, sizeof(other.text), "it took %.3f s", took);
    err = status == GRS_ERR_TIMEOUT ? other : err;
    ok(took > 0.9 * deadline && took < deadline + 2, "the kernels left %.2f s after the launch, deadline %.2f s", took,
       deadline);
    ok(grs_launch_local(comms, kernel, p->operands, NULL, &err) == GRS_ERR_TIMEOUT, "later launches are refused");
    problem_free(p);
    destroy(comms, TP);
    works_again(ctx, kernel);
}

/* A record that can be told beforehand: of two ranks one sends the first tile of the third launch and not the second, and every
 * CTA has one tile; so CTA 3 of the other rank waits for it from the start, three roles of it in their ways. The two launches
 * before have one tile a segment, so that the position is one that is kept. */
static void test_words(int rank) {
    enum { RANKS = 2, SMALL = 128, LARGE = 512, COLUMNS = 128, DEPTH = 2048 };
    static const struct policy policy = {"a tile a CTA",
                                         "tile: {m: 128, n: 128}\nring: {place: global}\norder: segment\n", NULL};
    grs_comm *comms[RANKS];
    const grs_kernel *kernel;
    grs_comm_options options = GRS_INIT(grs_comm_options);
    grs_ctx *ctx = policy_open_stalling(&policy);
    int waiter = 1 - rank;
    char who[64], where[64];
    options.deadline_seconds = 0.3;
    MUST(grs_ctx_get(ctx, LARGE, COLUMNS, DEPTH, RANKS, &kernel, &err));
    make_stalling(ctx, RANKS, rank, 1, &options, comms);
    MUST(grs_comm_prepare(comms[0], kernel, LARGE, &err));
    struct problem *small = problem_make(comms, SMALL, COLUMNS, DEPTH, RANKS, 0, 1),
                   *large = problem_make(comms, LARGE, COLUMNS, DEPTH, RANKS, 0, 2);
    for (int launch = 0; launch < 2; launch++) {
        problem_poison(small);
        ok(run_local(comms, kernel, small) && problem_check(small), "launch %d has no tile to stand still before",
           launch);
    }
    MUST(grs_launch_local(comms, kernel, large->operands, NULL, &err));
    synchronize();
    grs_status status = grs_comm_check(comms[waiter], &err);
    snprintf(who, sizeof(who), "rank %d: ", waiter);
    snprintf(where, sizeof(where), ": CTA 3, owner %d, tile 1, ", waiter);
    bool by_prefetcher = strstr(err.text, "prefetcher") != NULL;
    ok(status == GRS_ERR_TIMEOUT && record_is_complete(err.text, RANKS, 2) &&
           strncmp(err.text, who, strlen(who)) == 0 && strstr(err.text, where) != NULL &&
           (!by_prefetcher || strstr(err.text, ", word seen 0x1, wanted 0x2 ") != NULL),
       "rank %d does not send the second tile of the third launch: %s", rank, err.text);
    problem_free(small);
    problem_free(large);
    destroy(comms, RANKS);
    grs_ctx_close(ctx);
}

/* Without a deadline, grs_comm_abort ends kernels that hold every SM. */
static void test_abort(grs_ctx *ctx, const grs_kernel *kernel) {
    grs_comm *comms[TP];
    stalled(ctx, kernel, 1, 0, -1, comms);
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 5);
    CUstream stream;
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *streams[TP] = {stream, stream, stream};
    MUST(grs_launch_local(comms, kernel, p->operands, streams, &err));
    usleep(300000);
    ok(drv->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "without a deadline the kernels wait");
    ok(grs_comm_check(comms[1], &err) == GRS_OK, "and nothing is recorded");
    ok(grs_comm_abort(comms[2], &err) == GRS_OK, "abort beside spinning kernels");
    double start = seconds();
    while (drv->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY && seconds() - start < 10) {
        usleep(1000);
    }
    bool left = drv->cuStreamQuery(stream) == CUDA_SUCCESS;
    must(left, "the kernels leave after an abort");
    ok(left, "the kernels left after %.3f s", seconds() - start);
    ok(grs_comm_check(comms[0], &err) == GRS_ERR_STATE, "the communicator says so: %s", err.text);
    ok(grs_launch_local(comms, kernel, p->operands, NULL, &err) == GRS_ERR_STATE, "later launches are refused");
    CU(cuStreamDestroy(stream));
    problem_free(p);
    destroy(comms, TP);
    works_again(ctx, kernel);
}

/* The device holds every CTA twice as long as one rank is late: lateness below the deadline is no fault. */
static void test_late_rank(grs_ctx *ctx, const grs_kernel *kernel) {
    grs_comm *comms[TP];
    CUstream streams[TP];
    grs_comm_options options = GRS_INIT(grs_comm_options);
    options.deadline_seconds = 10;
    MUST(grs_comm_create_local(ctx, TP, placement(0), &options, comms, &err));
    MUST(grs_comm_prepare(comms[0], kernel, M, &err));
    struct problem *p = problem_make(comms, M, N, K, TP, 0, 6);
    bool right = true;
    for (int rank = 0; rank < TP; rank++) {
        CU(cuStreamCreate(&streams[rank], CU_STREAM_NON_BLOCKING));
    }
    for (int rank = 0; rank < TP; rank++) {
        right = right && grs_launch(comms[rank], kernel, &p->operands[rank], streams[rank], &err) == GRS_OK;
        usleep(200000);
    }
    synchronize();
    ok(right && grs_comm_check(comms[0], &err) == GRS_OK && problem_check(p),
       "ranks that come 0.2 s late are waited for");
    for (int rank = 0; rank < TP; rank++) {
        CU(cuStreamDestroy(streams[rank]));
    }
    problem_free(p);
    destroy(comms, TP);
}

int main(void) {
    open_gpus();
    grs_ctx *ctx = policy_open_stalling(&planned), *others[POLICIES];
    const grs_kernel *kernel = NULL;
    struct wanted list[POLICIES + 1];
    for (int i = 0; i < POLICIES; i++) {
        others[i] = policy_open_stalling(&policies[i]);
        list[i] = (struct wanted){M, N, K, TP, others[i]};
    }
    list[POLICIES] = (struct wanted){M, N, K, TP, ctx};
    compile_all(list, POLICIES + 1);
    MUST(grs_ctx_get(ctx, M, N, K, TP, &kernel, &err));
    works_again(ctx, kernel);
    for (int rank = 0; rank < TP; rank++) {
        test_deadline(ctx, kernel, planned.name, rank, 0, 0.5);
        test_words(rank % 2);
    }
    test_abort(ctx, kernel);
    test_late_rank(ctx, kernel);
    int step =
        gpu_is_blackwell() ? 2 : 5; /* its tiles are twice as high or, of pairs, four times: fewer positions are sent */
    for (int i = 0; i < POLICIES; i++) {
        MUST(grs_ctx_get(others[i], M, N, K, TP, &kernel, &err));
        bool few = strstr(policy_text(&policies[i], gpu_is_blackwell()), "n: 256") != NULL;
        test_deadline(others[i], kernel, policies[i].name, i % TP, few ? 0 : step * i, 0.3);
        grs_ctx_close(others[i]);
    }
    grs_ctx_close(ctx);
    return finish();
}
