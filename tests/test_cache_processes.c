/* The cache under several processes: started together, killed, stopped, and dying in the middle of a write. */
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>

#include "cache/lock.h"
#include "cache/store.h"
#include "tests/cache_fixture.h"

#define PROCESSES 8

static atomic_int *sources; /* how often each grs_source came out, in all processes; [0]: failures */

static int setup(void **state) {
    sources = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return sources == MAP_FAILED || fixture_setup(state);
}

static int teardown(void **state) {
    munmap(sources, 4096);
    return fixture_teardown(state);
}

struct racer {
    char *dir;
    int gate[2]; /* a pipe, closed by the parent when all may go */
    int count;   /* keys */
    double lock_seconds;
    struct job job;
};

static struct cache *open_racing(const struct racer *racer) {
    struct cache *cache = NULL;
    struct cache_options options = {.dir = racer->dir,
                                    .ro_dirs = (const char *const[]){NULL},
                                    .lock_seconds = racer->lock_seconds,
                                    .log = &shared_log};
    CHECK(cache_open(&options, &cache, NULL) == GRS_OK);
    return cache;
}

static void race(void *arg) {
    struct racer *racer = arg;
    char byte;
    close(racer->gate[1]);
    atomic_fetch_add(&shared->ready, 1);
    CHECK(read(racer->gate[0], &byte, 1) == 0); /* end of file: the gate is open, for all at once */
    struct cache *cache = open_racing(racer);
    for (int i = 0; i < racer->count; i++) {
        struct cache_key key = key_of(text_of("-DI=%d", i));
        int source = get(cache, &key, &racer->job);
        atomic_fetch_add(&sources[source < 0 ? 0 : source], 1);
    }
    cache_close(cache);
}

/* Start `count` processes that wait at the gate together, open it, and return their pids. */
static void start_race(struct racer *racer, pid_t *pids, int count) {
    assert_int_equal(pipe(racer->gate), 0);
    for (int i = 0; i < count; i++)
        pids[i] = start_child(race, racer);
    while (shared->ready < count)
        sleep_ms(1);
    close(racer->gate[1]);
    close(racer->gate[0]);
}

/* Scenario 1. */
static void test_eight_processes_one_compile(void **state) {
    (void)state;
    pid_t pids[PROCESSES];
    struct racer racer = {.dir = path_of("cache"), .count = 1, .job = {.sleep_ms = 300}};
    start_race(&racer, pids, PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(join_child(pids[i]), 0);
    assert_int_equal(shared->compiles, 1);
    assert_int_equal(sources[GRS_FROM_COMPILER], 1);
    assert_int_equal(sources[GRS_FROM_DISK], PROCESSES - 1);
    struct census census = census_of(racer.dir);
    assert_int_equal(census.entries, 1);
    assert_int_equal(census.temporary + census.aside + census.others, 0);
    assert_int_equal(shared->warnings, 0);
}

static void test_eight_processes_many_keys(void **state) {
    (void)state;
    pid_t pids[PROCESSES];
    struct racer racer = {.dir = path_of("cache"), .count = 40, .job = {.cubin_size = 20000}};
    start_race(&racer, pids, PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(join_child(pids[i]), 0);
    assert_int_equal(shared->compiles, 40);
    assert_int_equal(sources[0], 0);
    assert_int_equal(sources[GRS_FROM_COMPILER] + sources[GRS_FROM_DISK], 40 * PROCESSES);
    assert_int_equal(census_of(racer.dir).entries, 40);
    assert_int_equal(census_of(racer.dir).temporary, 0);
}

/* A damaged entry that eight processes meet at once is made once. */
static void test_eight_processes_one_damaged_entry(void **state) {
    (void)state;
    pid_t pids[PROCESSES];
    struct racer racer = {.dir = path_of("cache"), .count = 1, .job = {.sleep_ms = 100}};
    struct cache *cache = open_cache(racer.dir);
    struct cache_key key = key_of("-DI=0");
    assert_int_equal(get(cache, &key, &racer.job), GRS_FROM_COMPILER);
    cache_close(cache);
    assert_int_equal(truncate(entry_path(racer.dir, &key), 200), 0);
    start_race(&racer, pids, PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(join_child(pids[i]), 0);
    assert_int_equal(shared->compiles, 2);
    assert_int_equal(shared->warnings, 1);
    assert_int_equal(sources[GRS_FROM_DISK], PROCESSES - 1);
    assert_int_equal(census_of(racer.dir).entries, 1);
    assert_int_equal(census_of(racer.dir).aside, 1);
}

static void compile_for_ever(void *arg) {
    struct racer *racer = arg;
    struct cache *cache = open_racing(racer);
    struct cache_key key = key_of("-DI=0");
    struct job job = {.sleep_ms = 60000};
    get(cache, &key, &job);
}

/* Scenario 2: the holder of the lock is killed in the middle of a compile; whoever waits goes on. */
static void test_killed_holder(void **state) {
    (void)state;
    pid_t pids[2];
    struct racer racer = {.dir = path_of("cache"), .count = 1, .lock_seconds = 3600};
    pid_t holder = start_child(compile_for_ever, &racer);
    while (shared->compiles < 1)
        sleep_ms(1);
    start_race(&racer, pids, 2);
    sleep_ms(200);
    assert_int_equal(shared->compiles, 1); /* they do wait */
    kill(holder, SIGKILL);
    join_child(holder);
    for (int i = 0; i < 2; i++)
        assert_int_equal(join_child(pids[i]), 0);
    assert_int_equal(shared->compiles, 2);
    assert_int_equal(sources[GRS_FROM_COMPILER], 1);
    assert_int_equal(sources[GRS_FROM_DISK], 1);
    assert_int_equal(shared->warnings, 0);
    assert_int_equal(census_of(racer.dir).entries, 1);
}

/* A child that was forked while its parent compiled must not hold the lock beyond the parent's death. */
static void *compile_in_thread(void *arg) {
    compile_for_ever(arg);
    return NULL;
}

static void fork_and_hang(void *arg) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, compile_in_thread, arg) == 0);
    while (shared->compiles < 1)
        sleep_ms(1);
    if (fork() == 0) {
        alarm(60); /* should nobody be left to kill us */
        shared->done = getpid();
        for (;;)
            pause();
    }
    for (;;)
        pause();
}

static void test_killed_holder_with_a_child(void **state) {
    (void)state;
    pid_t pids[1];
    struct racer racer = {.dir = path_of("cache"), .count = 1, .lock_seconds = 3600};
    pid_t holder = start_child(fork_and_hang, &racer);
    while (!shared->done)
        sleep_ms(1);
    kill(holder, SIGKILL);
    join_child(holder);
    start_race(&racer, pids, 1);
    int status = join_child(pids[0]);
    kill(shared->done, SIGKILL);
    assert_int_equal(status, 0);
    assert_int_equal(sources[GRS_FROM_COMPILER], 1);
}

/* A holder that is alive but stopped holds others up for a time only. */
static void test_stopped_holder(void **state) {
    (void)state;
    pid_t pids[1];
    struct racer racer = {.dir = path_of("cache"), .count = 1, .lock_seconds = 0.2};
    pid_t holder = start_child(compile_for_ever, &racer);
    while (shared->compiles < 1)
        sleep_ms(1);
    kill(holder, SIGSTOP);
    start_race(&racer, pids, 1);
    assert_int_equal(join_child(pids[0]), 0);
    kill(holder, SIGKILL);
    join_child(holder);
    assert_int_equal(shared->compiles, 2);
    assert_int_equal(sources[GRS_FROM_COMPILER], 1);
    assert_int_equal(shared->warnings, 1);
    assert_non_null(strstr(shared->log, "another process"));
}

/* Whoever waits takes an entry as soon as it is there, though the holder may go on holding the lock. */
static void test_entry_appears_while_waiting(void **state) {
    (void)state;
    pid_t pids[1];
    struct racer racer = {.dir = path_of("cache"), .count = 1, .lock_seconds = 3600};
    struct cache_key key = key_of("-DI=0");
    char name[HASH_HEX_LENGTH + 1];
    char *entry = entry_path(racer.dir, &key), *hidden = path_of("hidden");
    struct trust_dir root;
    struct cache *cache = open_cache(racer.dir);
    assert_int_equal(get(cache, &key, &racer.job), GRS_FROM_COMPILER);
    cache_close(cache);
    assert_int_equal(rename(entry, hidden), 0);
    cache_key_digest(&key, name);
    assert_int_equal(trust_open_root(racer.dir, false, false, &root, NULL), FOUND);
    int lock_fd = lock_open(&root, NULL);
    assert_int_equal(lock_try(lock_fd, lock_byte_make(name), true), LOCK_TAKEN);
    start_race(&racer, pids, 1);
    sleep_ms(100);
    assert_int_equal(shared->compiles, 1);
    assert_int_equal(rename(hidden, entry), 0);
    assert_int_equal(join_child(pids[0]), 0);
    assert_int_equal(sources[GRS_FROM_DISK], 1);
    assert_int_equal(shared->compiles, 1);
    lock_close(lock_fd);
    trust_close(&root);
}

/* ---------------------------------------------------------------- temporary files -------------------------------- */

/* What a writer that dies in the middle leaves: a locked temporary file with half an entry. */
static void die_writing(void *arg) {
    const char *path = arg;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0 && write(fd, "GRSENTRY", 8) == 8);
    struct timespec past[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    CHECK(futimens(fd, past) == 0);
    shared->ready = 1;
    for (;;)
        pause();
}

/* Left-over temporary files of dead writers go when the next entry is published beside them, or when all is counted; those
 * of living ones and fresh ones stay. */
static void test_stale_temporary_files(void **state) {
    (void)state;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3"), other = key_of("-O2");
    struct job job = {0};
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(get(cache, &other, &job), GRS_FROM_COMPILER);
    char *entry = entry_path(dir, &key), *fan = fan_path(dir, &key);
    char *stale = text_of("%s/.tmp-0123456789abcdef0123456789abcdef", fan);
    char *fresh = text_of("%s/.tmp-0123456789abcdef0123456789abcde0", fan);
    char *far = text_of("%s/.tmp-0123456789abcdef0123456789abcde1", fan_path(dir, &other));
    write_file(fresh, "half", 4);
    write_file(far, "half", 4);
    struct timespec past[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, far, past, 0), 0);
    pid_t writer = start_child(die_writing, stale);
    while (!shared->ready)
        sleep_ms(1);
    unlink(entry);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(access(stale, F_OK), 0); /* alive, however old */
    kill(writer, SIGKILL);
    join_child(writer);
    unlink(entry);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_not_equal(access(stale, F_OK), 0);
    assert_int_equal(access(fresh, F_OK), 0);
    assert_int_equal(access(far, F_OK), 0);
    unlink(entry);
    unlink(path_of("cache/size"));
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(access(fresh, F_OK), 0);
    assert_int_not_equal(access(far, F_OK), 0);
    assert_int_equal(census_of(dir).entries, 2);
    cache_close(cache);
}

/* Publish the same large entry again and again. */
static void publish_for_ever(void *arg) {
    struct trust_dir root;
    struct cache_key key = key_of("-O3");
    struct job job = {.cubin_size = 300000};
    struct cache_entry entry = {0};
    struct buf text = {0};
    char name[HASH_HEX_LENGTH + 1];
    void *image;
    size_t size;
    CHECK(make_entry(&job, &entry, NULL) == GRS_OK);
    key_text(&key, &text);
    cache_key_digest(&key, name);
    CHECK(entry_encode(&entry, text.data, key.compiler_id, &image, &size, NULL) == GRS_OK);
    for (;;) {
        CHECK(trust_open_root(arg, false, true, &root, NULL) == FOUND);
        CHECK(store_publish(&root, name, image, size, 1 << 30, NULL) == GRS_OK);
        trust_close(&root);
        atomic_fetch_add(&shared->ready, 1);
    }
}

/* Readers beside writers that are killed at any moment see the whole entry or none. */
static void test_killed_writers_and_readers(void **state) {
    (void)state;
    char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3");
    struct job job = {.cubin_size = 300000};
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    for (int round = 0; round < 40; round++) {
        shared->ready = 0;
        pid_t writer = start_child(publish_for_ever, dir);
        for (int looks = 0; looks < 5 || shared->ready < 3; looks++)
            assert_int_equal(get(cache, &key, &job), GRS_FROM_DISK);
        kill(writer, SIGKILL);
        assert_true(WIFSIGNALED(join_child(writer)));
        assert_int_equal(get(cache, &key, &job), GRS_FROM_DISK);
    }
    assert_int_equal(shared->compiles, 1 + 40); /* one by `get`, one by each writer */
    assert_int_equal(shared->warnings, 0);
    cache_close(cache);
}

/* The lock file is one for all keys and is never removed or replaced. */
static void test_lock_file_stays(void **state) {
    (void)state;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct job job = {0};
    struct stat before, after;
    struct cache_key key = key_of("-O3"), other = key_of("-O2");
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(stat(path_of("cache/lock"), &before), 0);
    assert_int_equal(get(cache, &other, &job), GRS_FROM_COMPILER);
    cache_close(cache);
    assert_int_equal(stat(path_of("cache/lock"), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(after.st_size, 0);
}

/* The directory is removed under a running process: made anew, and everything works as before. */
static void test_directory_removed_meanwhile(void **state) {
    (void)state;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    remove_tree(dir);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_DISK);
    assert_int_equal(shared->warnings, 0);
    cache_close(cache);
}

#define PROCESS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        PROCESS_TEST(test_eight_processes_one_compile),       PROCESS_TEST(test_eight_processes_many_keys),
        PROCESS_TEST(test_eight_processes_one_damaged_entry), PROCESS_TEST(test_killed_holder),
        PROCESS_TEST(test_killed_holder_with_a_child),        PROCESS_TEST(test_stopped_holder),
        PROCESS_TEST(test_entry_appears_while_waiting),       PROCESS_TEST(test_stale_temporary_files),
        PROCESS_TEST(test_killed_writers_and_readers),        PROCESS_TEST(test_lock_file_stays),
        PROCESS_TEST(test_directory_removed_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
