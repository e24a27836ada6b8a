/* Two tensor-parallel groups at once on one machine, each with data of its own: in one process and in two, launching at the same
 * time, one waiting while the other works, one aborted or killed while the other goes on.
 *
 * GRS_TEST_BATCHES: another number of batches than 50, of six launches each; tests/test_many.sh runs few of them without a GPU.
 *
 * With four GPUs or more each group has half of them. With fewer they share: two ranks a group, over two GPUs or on one, and each
 * rank with so many SMs that both groups fit; processes that share a GPU take turns. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/gpu.h"

enum { GROUPS = 2, PROBLEMS = 6 };
static const int64_t N = 256, K = 128, rows[PROBLEMS] = {600, 130, 7, 600, 257, 64};

/* ---------------------------------------------------------------- groups --------------------------------------- */

static int batches(void) {
    const char *text = getenv("GRS_TEST_BATCHES");
    return text == NULL ? 50 : atoi(text);
}

struct side { /* one of the groups */
    int number, tp;
    grs_comm *comms[GRS_MAX_TP];
    CUstream streams[GRS_MAX_TP];
    const grs_kernel *kernels[PROBLEMS];
    struct problem *problems[PROBLEMS];
};

static int ranks_of_a_group(void) {
    return gpu_count >= 4 ? gpu_count / 2 : 2;
}
static bool groups_share(void) {
    return gpu_count < 4;
}

static void side_join(struct side *side) {
    grs_comm_options options = GRS_INIT(grs_comm_options);
    int devices[GRS_MAX_TP], sms;
    for (int rank = 0; rank < side->tp; rank++) {
        devices[rank] = groups_share() ? rank % gpu_count : side->number * side->tp + rank;
    }
    CU(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    if (groups_share()) {
        options.sms = sms / GROUPS / (gpu_count == 1 ? side->tp : 1);
    }
    MUST(grs_comm_create_local(grs_default_ctx(), side->tp, devices, &options, side->comms, &err));
    for (int i = 0; i < PROBLEMS; i++) {
        side->kernels[i] = kernel_for(rows[i], N, K, side->tp);
        MUST(grs_comm_prepare(side->comms[0], side->kernels[i], rows[i], &err));
    }
}

static void side_open(struct side *side, int number) {
    *side = (struct side){.number = number, .tp = ranks_of_a_group()};
    side_join(side);
    for (int rank = 0; rank < side->tp; rank++) {
        CU(cuCtxSetCurrent(contexts[grs_comm_device(side->comms[rank])]));
        CU(cuStreamCreate(&side->streams[rank], CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < PROBLEMS; i++) {
        side->problems[i] = problem_make(side->comms, rows[i], N, K, side->tp, 0, (uint64_t)(100 * number + i + 1));
    }
}

static void side_close(struct side *side) {
    for (int i = 0; i < PROBLEMS; i++) {
        problem_free(side->problems[i]);
    }
    for (int rank = 0; rank < side->tp; rank++) {
        CU(cuCtxSetCurrent(contexts[grs_comm_device(side->comms[rank])]));
        CU(cuStreamDestroy(side->streams[rank]));
    }
    destroy(side->comms, side->tp);
}

/* D back to poison. Unlike problem_poison it waits for nothing of the other group, which may not end before this one does. */
static void side_poison(const struct side *side, struct problem *p) {
    for (int rank = 0; rank < side->tp; rank++) {
        if (p->D[rank].base != 0) {
            poison(&p->D[rank]);
            CU(cuCtxSetCurrent(contexts[p->D[rank].device]));
            CU(cuMemcpyHtoD(p->D[rank].base, p->D[rank].host, matrix_bytes(&p->D[rank])));
            CU(cuStreamSynchronize(NULL)); /* the copy has arrived: other streams do not wait for it */
        }
    }
}

static void side_wait(const struct side *side) {
    for (int rank = 0; rank < side->tp; rank++) {
        CU(cuCtxSetCurrent(contexts[grs_comm_device(side->comms[rank])]));
        CU(cuStreamSynchronize(side->streams[rank]));
    }
}

static bool side_launch(struct side *side, int which) {
    return grs_launch_local(side->comms, side->kernels[which], side->problems[which]->operands,
                            (void *const *)side->streams, &err) == GRS_OK;
}

/* All but rank 0, which the others then wait for. */
static bool side_launch_without_first(struct side *side, int which) {
    bool right = true;
    for (int rank = 1; rank < side->tp && right; rank++) {
        right = grs_launch(side->comms[rank], side->kernels[which], &side->problems[which]->operands[rank],
                           side->streams[rank], &err) == GRS_OK;
    }
    return right;
}

static bool side_is_waiting(const struct side *side) {
    bool waits = false;
    for (int rank = 0; rank < side->tp; rank++) {
        CU(cuCtxSetCurrent(contexts[grs_comm_device(side->comms[rank])]));
        waits |= drv->cuStreamQuery(side->streams[rank]) == CUDA_ERROR_NOT_READY;
    }
    return waits;
}

/* Every problem once, back to back, and every element of every D. */
static bool side_batch(struct side *side, pthread_barrier_t *together) {
    bool right = true;
    for (int i = 0; i < PROBLEMS; i++) {
        side_poison(side, side->problems[i]);
    }
    if (together != NULL) {
        pthread_barrier_wait(together);
    }
    for (int i = 0; i < PROBLEMS && right; i++) {
        right = side_launch(side, i);
    }
    side_wait(side);
    right = right && grs_comm_check(side->comms[0], &err) == GRS_OK;
    for (int i = 0; i < PROBLEMS && right; i++) {
        right = problem_check(side->problems[i]);
    }
    return right;
}

static int side_batches(struct side *side, int count) {
    int done = 0;
    while (done < count && side_batch(side, NULL)) {
        done++;
    }
    return done;
}

/* Launches without rank 0 and aborts it; afterwards the group is one that refuses launches. */
static bool side_aborts(struct side *side) {
    bool right = side_launch_without_first(side, 0);
    usleep(50000);
    bool waited = side_is_waiting(side);
    right = right && waited && grs_comm_abort(side->comms[0], &err) == GRS_OK;
    double start = seconds();
    while (side_is_waiting(side) && seconds() - start < 10) {
        usleep(1000);
    }
    must(!side_is_waiting(side), "the kernels leave after an abort");
    return right && grs_comm_check(side->comms[0], &err) == GRS_ERR_STATE && !side_launch(side, 1);
}

/* ---------------------------------------------------------------- one process ---------------------------------- */

struct worker {
    struct side *side;
    pthread_barrier_t *together;
    int batches;
    bool right;
    grs_error why;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    for (; worker->batches < batches(); worker->batches++) { /* also after a failure: the other one counts on it */
        if (!side_batch(worker->side, worker->together) && worker->right) {
            worker->right = false;
            worker->why = err;
        }
    }
    return NULL;
}

static void test_at_once(struct side *sides) {
    pthread_barrier_t together;
    pthread_t threads[GROUPS];
    static struct worker workers[GROUPS];
    pthread_barrier_init(&together, NULL, GROUPS);
    for (int i = 0; i < GROUPS; i++) {
        workers[i] = (struct worker){.side = &sides[i], .together = &together, .right = true};
        must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "a thread");
    }
    for (int i = 0; i < GROUPS; i++) {
        pthread_join(threads[i], NULL);
        err = workers[i].why;
        ok(workers[i].right,
           "group %d: %d launches from a thread of its own, at the same time as the other's, are right", i,
           workers[i].batches * PROBLEMS);
    }
    pthread_barrier_destroy(&together);
}

static void test_one_waits(struct side *waiting, struct side *working) {
    side_poison(waiting, waiting->problems[0]);
    bool launched = side_launch_without_first(waiting, 0);
    int wanted = (batches() + 1) / 2, done = side_batches(working, wanted);
    bool still = side_is_waiting(waiting);
    ok(launched && done == wanted && still, "%d launches of group %d while group %d waits for one of its ranks",
       done * PROBLEMS, working->number, waiting->number);
    bool right = grs_launch(waiting->comms[0], waiting->kernels[0], &waiting->problems[0]->operands[0],
                            waiting->streams[0], &err) == GRS_OK;
    side_wait(waiting);
    ok(right && grs_comm_check(waiting->comms[0], &err) == GRS_OK && problem_check(waiting->problems[0]),
       "and group %d is right when that rank has come", waiting->number);
}

static void test_one_is_aborted(struct side *aborted, struct side *other) {
    struct worker worker = {.side = other, .right = true};
    pthread_t thread;
    must(pthread_create(&thread, NULL, work, &worker) == 0, "a thread");
    bool right = side_aborts(aborted);
    grs_error why = err;
    pthread_join(thread, NULL);
    int wanted = (batches() + 9) / 10, after = side_batches(other, wanted);
    bool unharmed = worker.right && after == wanted && grs_comm_check(other->comms[0], &err) == GRS_OK;
    ok(right, "group %d is aborted: %s", aborted->number, why.text);
    err = worker.right ? err : worker.why;
    ok(unharmed, "%d launches of group %d beside it and after it are right", (worker.batches + after) * PROBLEMS,
       other->number);
    destroy(aborted->comms, aborted->tp);
    side_join(aborted);
    test_at_once((struct side[]){*aborted, *other});
}

static void in_one_process(void) {
    struct side sides[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        side_open(&sides[i], i);
        ok(side_batch(&sides[i], NULL), "group %d of %d ranks, by itself", i,
           sides[i].tp); /* also loads every kernel */
    }
    test_at_once(sides);
    test_one_waits(&sides[0], &sides[1]);
    test_one_waits(&sides[1], &sides[0]);
    test_one_is_aborted(&sides[0], &sides[1]);
    for (int i = 0; i < GROUPS; i++) {
        side_close(&sides[i]);
    }
}

/* ---------------------------------------------------------------- two processes -------------------------------- */

/* A process with one group: says that it is ready, and then works until it is told to stop, and some more. With "abort" it ends its
 * group in the middle of a launch. Whatever is wrong goes to standard error; exit code 0: all was right. */
static int be_process(int number, bool aborts) {
    struct side side;
    struct pollfd told = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    side_open(&side, number);
    bool right = side_batch(&side, NULL);
    must(right && write(STDOUT_FILENO, "r", 1) == 1 && read(STDIN_FILENO, &byte, 1) == 1, "the first launches");
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what must() says from here on */
    int done = 0, some = (batches() + 4) / 5;
    for (; right && (done < some || (!aborts && poll(&told, 1, 0) == 0)); done++) {
        right = side_batch(&side, NULL);
    }
    if (right && aborts) {
        right = side_aborts(&side);
    } else {
        right = right && side_batches(&side, some) == some;
    }
    if (!right) {
        fprintf(stderr, "group %d, batch %d: %s\n", number, done, err.text);
    }
    side_close(&side);
    return right ? 0 : 1;
}

struct process {
    pid_t pid;
    int to, from;
};

static struct process start(int number, const char *what) {
    int to[2], from[2];
    char digit[2] = {(char)('0' + number), 0};
    must(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "pipes");
    struct process process = {fork(), to[1], from[0]};
    must(process.pid >= 0, "a process");
    if (process.pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_groups", digit, what, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    return process;
}

/* A process that cannot even begin says why on the same way. */
static bool is_ready(const struct process *process) {
    char byte = 0;
    if (read(process->from, &byte, 1) == 1 && byte == 'r') {
        return true;
    }
    fprintf(stderr, "# ");
    for (fputc(byte, stderr); read(process->from, &byte, 1) == 1;) {
        fputc(byte, stderr);
    }
    return false;
}
static bool tell(const struct process *process) {
    return write(process->to, "g", 1) == 1;
}

/* Its wait status. */
static int end(struct process *process) {
    int status = -1;
    waitpid(process->pid, &status, 0);
    close(process->to);
    close(process->from);
    return status;
}

static void in_two_processes(const char *what) {
    struct process one = start(0, "work"), two = start(1, what);
    bool killed = strcmp(what, "kill") == 0, aborted = strcmp(what, "abort") == 0;
    bool right = is_ready(&one) && is_ready(&two) && tell(&one) && tell(&two);
    int second = -1;
    snprintf(err.text, sizeof(err.text), "what a process says of itself is on standard error");
    sleep(1);
    if (killed) {
        kill(two.pid, SIGKILL);
    }
    if (killed || aborted) {
        second = end(&two);
        usleep(500000);
    }
    right = right && tell(&one) && (killed || aborted || tell(&two));
    int first = end(&one);
    second = killed || aborted ? second : end(&two);
    ok(right && first == 0, "two processes: the first group is right%s",
       killed    ? " when the other's process is killed"
       : aborted ? " when the other is aborted"
                 : "");
    ok(killed ? WIFSIGNALED(second) && WTERMSIG(second) == SIGKILL : second == 0, "two processes: the second, %s",
       what);
}

int main(int argc, char **argv) {
    struct wanted list[PROBLEMS];
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32",
           1); /* a hardware queue a stream: nobody stands in line behind a rank that waits */
    signal(SIGPIPE, SIG_IGN);
    open_gpus();
    must(grs_default_ctx() != NULL, "a context");
    for (int i = 0; i < PROBLEMS; i++) {
        list[i] = (struct wanted){rows[i], N, K, ranks_of_a_group(), NULL};
    }
    compile_all(list, PROBLEMS);
    if (argc == 3) {
        return be_process(atoi(argv[1]), strcmp(argv[2], "abort") == 0);
    }
    in_one_process();
    fflush(stdout);
    in_two_processes("work");
    in_two_processes("kill");
    in_two_processes("abort");
    return finish();
}
