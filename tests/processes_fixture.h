/* Ranks in processes of their own, on the stand-in for libcuda: the test process forks them, and never uses the driver
 * itself, since a child could not after that. */
#ifndef GRS_TESTS_PROCESSES_FIXTURE_H
#define GRS_TESTS_PROCESSES_FIXTURE_H

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/peers.h"
#include "tests/runtime_fixture.h"

#define MAX_RANKS 8

/* What ranks and the test share. */
struct stage {
    pthread_barrier_t barrier; /* of all ranks */
    int size;
    _Alignas(struct hello) char gathered[MAX_RANKS][4096];
    struct outcome {
        grs_status status;
        char text[sizeof(((grs_error *)0)->text)];
        long value[4];
    } outcome[MAX_RANKS];
    int ended[MAX_RANKS]; /* as waitpid tells */
    volatile int flag;
};
static struct stage *stage;
_Static_assert(sizeof(struct hello) <= sizeof(stage->gathered[0]), "what a rank says first has room");

static inline void meet_all(void) {
    pthread_barrier_wait(&stage->barrier);
}

/* A bootstrap through memory that all ranks have. */
static inline int gather_by_memory(void *arg, const void *mine, size_t bytes, void *all) {
    memcpy(stage->gathered[*(int *)arg], mine, bytes);
    meet_all();
    for (int rank = 0; rank < stage->size; rank++) {
        memcpy((char *)all + (size_t)rank * bytes, stage->gathered[rank], bytes);
    }
    meet_all();
    return 0;
}

static inline int barrier_by_memory(void *arg) {
    (void)arg;
    meet_all();
    return 0;
}

static inline grs_bootstrap bootstrap_of(int *rank) {
    grs_bootstrap bootstrap = GRS_INIT(grs_bootstrap);
    bootstrap.arg = rank;
    bootstrap.all_gather = gather_by_memory;
    bootstrap.barrier = barrier_by_memory;
    return bootstrap;
}

/* In a rank: notes what a call gave. */
static inline void note(int rank, grs_status status) {
    stage->outcome[rank].status = status;
    snprintf(stage->outcome[rank].text, sizeof(stage->outcome[rank].text), "%s", status == GRS_OK ? "" : err.text);
}

/* In a rank: what must hold; the process ends with 1 when it does not. */
#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, err.text);                     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Forks the ranks, and waits for them. Each runs `work` with a context; a rank that hangs is ended after a minute. */
static inline void run_ranks(int size, void (*work)(grs_ctx *ctx, int rank)) {
    pthread_barrierattr_t attributes;
    pid_t pid[MAX_RANKS];
    stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(stage != MAP_FAILED);
    stage->size = size;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&stage->barrier, &attributes, (unsigned)size);
    fflush(NULL);
    for (int rank = 0; rank < size; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            alarm(60);
            fixture_reset(NULL);
            grs_ctx *ctx = open_context();
            work(ctx, rank);
            grs_ctx_close(ctx);
            _exit(0);
        }
    }
    for (int rank = 0; rank < size; rank++) {
        waitpid(pid[rank], &stage->ended[rank], 0);
    }
}

static inline void assert_ranks_ended_well(void) {
    for (int rank = 0; rank < stage->size; rank++) {
        assert_int_equal(stage->ended[rank], 0);
    }
}

static inline void leave_stage(void) {
    munmap(stage, sizeof(*stage));
}

#endif
