/* NCCL without GPUs: all-gather, reduce-scatter and split among processes that share memory. "Device" memory is the host's. Sums
 * are made along a ring and rounded at each rank, as NCCL's are. Under a driver with cuLaunchHostFunc calls are in the order of their
 * stream, so that graphs hold them. Calls of a group are done at its end, or none of them. */
#include "tests/shim_nccl.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

#include "tools/grsrun_values.h"

enum { SUCCESS = 0, INTERNAL = 3, INVALID = 4, UINT8 = 1, BFLOAT16 = 9, SUM = 0, IN_PROGRESS = 7 };
#define ROOM ((size_t)1 << 16)

#define FUNCTION(type, name, parameters)                                                                               \
    type name parameters;                                                                                              \
    type name parameters

static struct shim_nccl_counts counts;
FUNCTION(const struct shim_nccl_counts *, shim_nccl_get, (void)) {
    return &counts;
}

/* ---------------------------------------------------------------- what a communicator is ------------------------ */

FUNCTION(int, ncclCommCount, (const struct ncclComm *comm, int *count)) {
    *count = comm->size;
    return SUCCESS;
}
FUNCTION(int, ncclCommUserRank, (const struct ncclComm *comm, int *rank)) {
    *rank = comm->rank;
    return SUCCESS;
}
FUNCTION(int, ncclCommCuDevice, (const struct ncclComm *comm, int *device)) {
    *device = comm->device;
    return SUCCESS;
}
FUNCTION(int, ncclCommGetAsyncError, (struct ncclComm * comm, int *error)) {
    int left = __atomic_load_n(&comm->in_progress, __ATOMIC_RELAXED); /* a test looks at it */
    *error = left > 0 ? IN_PROGRESS : comm->parent ? comm->parent->async_fails : comm->fails;
    __atomic_store_n(&comm->in_progress, left - (left > 0), __ATOMIC_RELAXED);
    return SUCCESS;
}
FUNCTION(const char *, ncclGetErrorString, (int status)) {
    return status == 0 ? "no error" : "unhandled shim error";
}
FUNCTION(int, ncclGetVersion, (int *version)) {
    *version = 22809;
    return SUCCESS;
}

/* ---------------------------------------------------------------- making one ------------------------------------ */

struct area {
    pthread_barrier_t barrier;
    int ready;
    _Alignas(64) char shared[];
};

static size_t area_bytes(int size) {
    return sizeof(struct area) + (size_t)size * ROOM;
}

/* The ranks of a new communicator meet in a file of that name; its rank 0 makes it, and takes the name away when all have come. */
static int meet(const char *name, int rank, int size, struct ncclComm **out) {
    const struct timespec pause = {0, 1000000};
    int file = rank == 0 ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    struct stat about = {0};
    if (rank == 0 && (file < 0 || ftruncate(file, (off_t)area_bytes(size)) != 0)) {
        return INVALID;
    }
    for (int i = 0; (size_t)about.st_size < area_bytes(size) && i < 60000; i++) {
        file = file < 0 ? open(name, O_RDWR | O_CLOEXEC) : file;
        if (file < 0 || fstat(file, &about) != 0 || (size_t)about.st_size < area_bytes(size)) {
            nanosleep(&pause, NULL);
        }
    }
    struct area *area = mmap(NULL, area_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (area == MAP_FAILED) {
        return INVALID;
    }
    if (rank == 0) {
        pthread_barrierattr_t attributes;
        pthread_barrierattr_init(&attributes);
        pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&area->barrier, &attributes, (unsigned)size);
        __atomic_store_n(&area->ready, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&area->ready, __ATOMIC_ACQUIRE)) {
        nanosleep(&pause, NULL);
    }
    pthread_barrier_wait(&area->barrier);
    if (rank == 0) {
        unlink(name);
    }
    *out = calloc(1, sizeof(**out));
    **out = (struct ncclComm){.rank = rank,
                              .size = size,
                              .shared = area->shared,
                              .room = ROOM,
                              .barrier = &area->barrier,
                              .mapped = area_bytes(size)};
    counts.alive++;
    return SUCCESS;
}

static void new_name(char *out, size_t size) {
    static int count;
    snprintf(out, size, "/dev/shm/grs-shim-nccl-%d-%d", (int)getpid(), count++);
}

struct unique_id {
    char name[128];
};
FUNCTION(int, ncclGetUniqueId, (struct unique_id * id)) {
    memset(id, 0, sizeof(*id));
    new_name(id->name, sizeof(id->name));
    return SUCCESS;
}
typedef int device_function(int *device);
static void *driver_symbol(const char *name);
FUNCTION(int, ncclCommInitRank, (struct ncclComm * *out, int size, struct unique_id id, int rank)) {
    device_function *device = (device_function *)driver_symbol("cuCtxGetDevice");
    int status = meet(id.name, rank, size, out);
    if (status == SUCCESS && device != NULL && device(&(*out)->device) != 0) {
        return INVALID;
    }
    return status;
}

static void gather(struct ncclComm *comm, const void *from, size_t bytes, void *to) {
    uint32_t word;
    if (bytes == sizeof(word) && (uintptr_t)from % sizeof(word) == 0) { /* one that may be written meanwhile */
        word = __atomic_load_n((const uint32_t *)from, __ATOMIC_RELAXED);
        from = &word;
    }
    memcpy(comm->shared + (size_t)comm->rank * comm->room, from, bytes);
    pthread_barrier_wait(comm->barrier);
    for (int rank = 0; rank < comm->size; rank++) {
        memcpy((char *)to + (size_t)rank * bytes, comm->shared + (size_t)rank * comm->room, bytes);
    }
    pthread_barrier_wait(comm->barrier);
}

static int end(struct ncclComm *comm) {
    if (comm->mapped == 0) { /* the test's own: nobody but the test may end it */
        return INVALID;
    }
    munmap((void *)comm->barrier, comm->mapped);
    free(comm);
    counts.alive--;
    return SUCCESS;
}
struct choice {
    int color, key;
    char name[64];
};

FUNCTION(int, ncclCommSplit, (struct ncclComm * comm, int color, int key, struct ncclComm **out, void *config)) {
    struct choice mine = {.color = color, .key = key}, *all = calloc((size_t)comm->size, sizeof(*all));
    int rank = 0, size = 0;
    const char *name = NULL;
    new_name(mine.name, sizeof(mine.name));
    if (config != NULL || sizeof(mine) > comm->room) {
        return INVALID;
    }
    gather(comm, &mine, sizeof(mine), all);
    for (int i = 0; i < comm->size; i++) {
        if (all[i].color == color) {
            size++;
            rank += all[i].key < key;
            name = name == NULL || all[i].key == 0 ? all[i].name : name;
        }
    }
    int status = meet(name, rank, size, out);
    free(all);
    if (status == SUCCESS && comm->split_fails != 0) {
        end(*out);
        *out = NULL;
        return comm->split_fails;
    }
    if (status == SUCCESS) {
        (*out)->device = comm->device;
        (*out)->scatter_fails = comm->scatter_fails;
        (*out)->parent = comm;
        (*out)->in_progress = comm->in_progress;
    }
    return status == SUCCESS && comm->in_progress > 0 ? IN_PROGRESS : status;
}

FUNCTION(int, ncclCommDestroy, (struct ncclComm * comm)) {
    return end(comm);
}
FUNCTION(int, ncclCommAbort, (struct ncclComm * comm)) {
    __atomic_fetch_add(&counts.aborted, 1, __ATOMIC_RELEASE);
    return end(comm);
}

/* ---------------------------------------------------------------- work ------------------------------------------ */

struct work {
    void (*run)(void *work);
    struct ncclComm *comm;
    const void *from;
    void *to;
    size_t count; /* bytes of a gather, sums of a scatter */
};

static void gather_now(void *argument) {
    const struct work *work = argument;
    gather(work->comm, work->from, work->count, work->to);
}

/* A piece of every rank's share at a time: what all ranks have for all. */
static void scatter_now(void *argument) {
    const struct work *work = argument;
    struct ncclComm *comm = work->comm;
    const uint16_t *from = work->from;
    size_t size = (size_t)comm->size, most = comm->room / 2 / size;
    counts.scatters++;
    for (size_t first = 0; first < work->count; first += most) {
        size_t piece = work->count - first < most ? work->count - first : most;
        uint16_t *mine = (uint16_t *)(void *)(comm->shared + (size_t)comm->rank * comm->room);
        for (size_t rank = 0; rank < size; rank++) {
            memcpy(mine + rank * piece, from + rank * work->count + first, piece * 2);
        }
        pthread_barrier_wait(comm->barrier);
        for (size_t i = 0; i < piece; i++) {
            uint16_t sum = 0;
            for (size_t hop = 1; hop <= size; hop++) {
                size_t rank = ((size_t)comm->rank + hop) % size;
                const uint16_t *of = (const uint16_t *)(void *)(comm->shared + rank * comm->room);
                uint16_t x = of[(size_t)comm->rank * piece + i];
                sum = hop == 1 ? x : values_to_bf16(values_from_bf16(sum) + values_from_bf16(x));
            }
            ((uint16_t *)work->to)[first + i] = sum;
        }
        pthread_barrier_wait(comm->barrier);
    }
}

/* ---------------------------------------------------------------- calls and groups of them ---------------------- */

typedef int launch_function(void *stream, void (*call)(void *), void *argument);
typedef int capturing_function(void *stream, int *status);

static void *driver_symbol(const char *name) {
    const char *path = getenv("GRS_LIBCUDA");
    void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    return library == NULL ? NULL : dlsym(library, name);
}

static struct ncclComm *root_of(struct ncclComm *comm) {
    return comm->parent ? comm->parent : comm;
}

/* A call that NCCL does not let go before the communicator is aborted, which takes it away. */
static bool stands(struct ncclComm *comm) {
    if (!root_of(comm)->stands) {
        return false;
    }
    int before = __atomic_load_n(&counts.aborted, __ATOMIC_ACQUIRE);
    __atomic_store_n(&root_of(comm)->standing, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&counts.aborted, __ATOMIC_ACQUIRE) == before) {
        usleep(1000);
    }
    return true;
}

/* Into the stream's order: at once, or as a part of the graph that it is captured into. */
static int issue(const struct work *work, void *stream) {
    launch_function *launch = (launch_function *)driver_symbol("cuLaunchHostFunc");
    capturing_function *capturing = (capturing_function *)driver_symbol("cuStreamIsCapturing");
    int is_capturing = 0;
    struct work own = *work;
    if (launch != NULL && capturing != NULL && capturing(stream, &is_capturing) == 0 && is_capturing) {
        struct work *kept = malloc(sizeof(*kept)); /* the graph has it */
        *kept = own;
        own.comm->captured++;
        return launch(stream, kept->run, kept) == 0 ? SUCCESS : INVALID;
    }
    own.run(&own);
    return SUCCESS;
}

static int answer_of(const struct ncclComm *comm) {
    return comm->in_progress > 0 ? IN_PROGRESS : SUCCESS;
}

enum { MOST_CALLS = 8 };
static _Thread_local struct {
    int depth, count, error; /* of a call inside: nothing of the group is done then */
    struct {
        struct work work;
        void *stream;
    } call[MOST_CALLS];
} group;

FUNCTION(int, ncclGroupStart, (void)) {
    group.depth++;
    return SUCCESS;
}
FUNCTION(int, ncclGroupEnd, (void)) {
    if (group.depth == 0) {
        return INVALID;
    }
    if (--group.depth > 0) {
        return SUCCESS;
    }
    int status = group.error, count = status == SUCCESS ? group.count : 0;
    group.count = group.error = 0;
    if (count > 0 && stands(group.call[0].work.comm)) {
        return INTERNAL;
    }
    counts.groups += count > 0;
    for (int i = 0; i < count && status == SUCCESS; i++) {
        status = issue(&group.call[i].work, group.call[i].stream);
    }
    return count > 0 && status == SUCCESS ? answer_of(group.call[count - 1].work.comm) : status;
}

/* `status` of a call's arguments. */
static int call(int status, const struct work *work, void *stream) {
    if (group.depth == 0) {
        if (status == SUCCESS && stands(work->comm)) {
            return INTERNAL;
        }
        status = status == SUCCESS ? issue(work, stream) : status;
        return status == SUCCESS ? answer_of(work->comm) : status;
    }
    if (status == SUCCESS && group.count == MOST_CALLS) {
        status = INTERNAL;
    }
    group.error = group.error != SUCCESS ? group.error : status;
    if (status == SUCCESS) {
        group.call[group.count].work = *work;
        group.call[group.count++].stream = stream;
    }
    return status;
}

FUNCTION(int, ncclAllGather,
         (const void *from, void *to, size_t count, int type, struct ncclComm *comm, void *stream)) {
    const struct work work = {gather_now, comm, from, to, count};
    struct ncclComm *root = root_of(comm);
    int status = call(comm->fails != 0                                    ? comm->fails
                      : type != UINT8 || count == 0 || count > comm->room ? INVALID
                                                                          : SUCCESS,
                      &work, stream);
    root->gathers++;
    return root->gathers == root->gather_fails_at && group.depth == 0 ? INTERNAL : status;
}

FUNCTION(int, ncclReduceScatter,
         (const void *from, void *to, size_t count, int type, int op, struct ncclComm *comm, void *stream)) {
    const struct work work = {scatter_now, comm, from, to, count};
    return call(comm->scatter_fails != 0                      ? comm->scatter_fails
                : type != BFLOAT16 || op != SUM || count == 0 ? INVALID
                                                              : SUCCESS,
                &work, stream);
}
