/* The cache's promises seen from outside: programs that call grs_jit_get, and a stand-in for NVRTC that counts its compiles
 * in a file, over all processes. */
#include <pthread.h>
#include <signal.h>

#include "tests/cache_fixture.h"

#define PROCESSES 8
#define N         512
#define K         256

static char *count_path, *shim_path;

static int setup(void **state) {
    if (fixture_setup(state))
        return -1;
    const char *build = getenv("BUILD");
    shim_path = realpath(text_of("%s/tests/shim/libnvrtc.so", build ? build : "build"), NULL);
    if (!shim_path)
        return -1;
    count_path = path_of("count");
    setenv("SHIM_NVRTC_COUNT", count_path, 1);
    setenv("GRS_NVRTC", shim_path, 1);
    setenv("GRS_CACHE_DIR", path_of("cache"), 1);
    setenv("GRS_ARCH", "sm_90a", 1);
    const char *unset[] = {"GRS_CACHE_RO_DIRS", "GRS_CACHE_MAX",         "GRS_CONFIG", "GRS_LOG", "SHIM_NVRTC_SLEEP_MS",
                           "SHIM_NVRTC_FAIL",   "SHIM_NVRTC_CUBIN_BYTES"};
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++)
        unsetenv(unset[i]);
    return 0;
}

static int teardown(void **state) {
    free(shim_path);
    return fixture_teardown(state);
}

/* How often the stand-in was opened ('o') or asked to compile ('c'). */
static int counted(char letter) {
    size_t size;
    char *letters = read_file(count_path, &size);
    int count = 0;
    for (size_t i = 0; letters && i < size; i++)
        count += letters[i] == letter;
    free(letters);
    return count;
}

static void forget_counts(void) {
    unlink(count_path);
}

/* Where a kernel came from; -1: there is none. Its image must be the one that the stand-in makes, after a comment that says
 * what the kernel is. */
static int source_of(const grs_kernel *kernel) {
    grs_kernel_info info = GRS_INIT(grs_kernel_info);
    const void *ptx;
    size_t length;
    if (!kernel || grs_kernel_get_info(kernel, &info, NULL) != GRS_OK ||
        grs_kernel_image(kernel, GRS_IMAGE_PTX, &ptx, &length, NULL) != GRS_OK || strlen(ptx) != length)
        return -1;
    const char *shim = strstr(ptx, "// shim: ");
    if (!shim || strcmp(shim, text_of("// shim: %s.cu", info.name)) != 0 ||
        strncmp(ptx, "// grs_gemm_rs_", strlen("// grs_gemm_rs_")) != 0 ||
        !strstr(ptx, text_of("\n// key %s\n", info.key)) || !strstr(ptx, "\n// compiled by NVRTC ") ||
        !strstr(ptx, text_of("\n//   tile.m: %d\n", info.tile_m)) ||
        !strstr(ptx, text_of("\n//   %d threads a CTA", info.threads)))
        return -1;
    return (int)info.source;
}

static void log_to_shared(void *arg, grs_log_level level, const char *text) {
    shared_sink(arg, level, text);
}

static grs_ctx *open_context(void) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    options.log = log_to_shared;
    grs_ctx *ctx = NULL;
    grs_error err = {0};
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return ctx;
}

/* One shape in a context of its own. */
static int get_anew(int64_t n) {
    grs_ctx *ctx = open_context();
    const grs_kernel *kernel = NULL;
    grs_ctx_get(ctx, 100, n, K, 2, &kernel, NULL);
    int source = source_of(kernel);
    grs_ctx_close(ctx);
    return source;
}

static int gate[2];

static void wait_at_gate_and_get(void *arg) {
    char byte;
    (void)arg;
    close(gate[1]);
    atomic_fetch_add(&shared->ready, 1);
    CHECK(read(gate[0], &byte, 1) == 0);
    int source = source_of(grs_jit_get(100, N, K, 2));
    CHECK(source > 0);
    atomic_fetch_add(&shared->done, source == GRS_FROM_DISK);
}

static void start_together(pid_t *pids, int count) {
    assert_int_equal(pipe(gate), 0);
    for (int i = 0; i < count; i++)
        pids[i] = start_child(wait_at_gate_and_get, NULL);
    while (shared->ready < count)
        sleep_ms(1);
    close(gate[1]);
    close(gate[0]);
}

/* Scenario 1. */
static void test_eight_processes_one_compile(void **state) {
    (void)state;
    pid_t pids[PROCESSES];
    setenv("SHIM_NVRTC_SLEEP_MS", "300", 1);
    start_together(pids, PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(join_child(pids[i]), 0);
    assert_int_equal(counted('c'), 1);
    assert_int_equal(counted('o'), 1); /* whoever waits does not even open the compiler */
    assert_int_equal(shared->done, PROCESSES - 1);
    struct census census = census_of(path_of("cache"));
    assert_int_equal(census.entries, 1);
    assert_int_equal(census.temporary + census.aside + census.others, 0);
}

static void compile_slowly(void *arg) {
    (void)arg;
    setenv("SHIM_NVRTC_SLEEP_MS", "60000", 1);
    grs_jit_get(100, N, K, 2);
}

/* Scenario 2. */
static void test_holder_killed(void **state) {
    (void)state;
    pid_t pids[2], holder = start_child(compile_slowly, NULL);
    while (counted('c') < 1)
        sleep_ms(1);
    start_together(pids, 2);
    sleep_ms(200);
    assert_int_equal(counted('c'), 1);
    kill(holder, SIGKILL);
    join_child(holder);
    for (int i = 0; i < 2; i++)
        assert_int_equal(join_child(pids[i]), 0);
    assert_int_equal(counted('c'), 2);
    assert_int_equal(census_of(path_of("cache")).entries, 1);
}

static char *only_entry;

static int find_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    if (type == FTW_F && strlen(path + ftw->base) == HASH_HEX_LENGTH)
        only_entry = text_of("%s", path);
    return 0;
}

/* Scenario 3, through the library; every single byte is the business of the tests below it. */
static void damage(void *arg) {
    (void)arg;
    CHECK(get_anew(N) == GRS_FROM_COMPILER);
    nftw(path_of("cache"), find_entry, 16, FTW_PHYS);
    size_t size, now_size;
    char *image = read_file(only_entry, &size);
    CHECK(image && size > 1000);
    int compiles = 1;
    for (size_t at = 0; at < size; at += size / 61) {
        for (int cut = 0; cut < 2; cut++) {
            image[at] ^= (char)(cut ? 0 : 0x10);
            int fd = open(only_entry, O_WRONLY | O_TRUNC);
            CHECK(write(fd, image, cut ? at : size) == (ssize_t)(cut ? at : size));
            close(fd);
            image[at] ^= (char)(cut ? 0 : 0x10);
            CHECK(get_anew(N) == GRS_FROM_COMPILER);
            CHECK(counted('c') == ++compiles);
            CHECK(get_anew(N) == GRS_FROM_DISK);
            char *now = read_file(only_entry, &now_size);
            CHECK(now_size == size);
            free(now);
        }
    }
    free(image);
    CHECK(shared->warnings == 1 && strstr(shared->log, only_entry));
}

static void test_damage(void **state) {
    (void)state;
    run_child(damage, NULL);
}

/* Scenario 7: the entry of one shape under the name of another. */
static void planted(void *arg) {
    (void)arg;
    CHECK(get_anew(N) == GRS_FROM_COMPILER);
    nftw(path_of("cache"), find_entry, 16, FTW_PHYS);
    char *first = only_entry, *kept = path_of("kept");
    CHECK(rename(first, kept) == 0);
    CHECK(get_anew(2 * N) == GRS_FROM_COMPILER);
    nftw(path_of("cache"), find_entry, 16, FTW_PHYS);
    CHECK(strcmp(first, only_entry) && rename(kept, only_entry) == 0);
    CHECK(get_anew(2 * N) == GRS_FROM_COMPILER);
    CHECK(get_anew(2 * N) == GRS_FROM_DISK);
    CHECK(counted('c') == 3 && shared->warnings == 1);
}

static void test_planted(void **state) {
    (void)state;
    run_child(planted, NULL);
}

/* A hit does not open the compiler. */
static void test_a_hit_opens_no_compiler(void **state) {
    (void)state;
    assert_int_equal(get_anew(N), GRS_FROM_COMPILER);
    forget_counts();
    pid_t pids[1];
    start_together(pids, 1);
    assert_int_equal(join_child(pids[0]), 0);
    assert_int_equal(shared->done, 1);
    assert_int_equal(counted('o') + counted('c'), 0);
}

/* The stand-in with another build id: another compiler. */
static char *other_compiler(void) {
    size_t size;
    char *path = path_of("other/libnvrtc.so"), *image = read_file(shim_path, &size);
    mkdir(path_of("other"), 0700);
    /* The GNU note: name size 4, description size, type 3, "GNU\0", the id. */
    static const char note[] = {3, 0, 0, 0, 'G', 'N', 'U', 0};
    char *at = memmem(image, size, note, sizeof note);
    assert_non_null(at);
    at[sizeof note] ^= 1;
    write_file(path, image, size);
    free(image);
    return path;
}

/* Scenario 9: entries of another NVRTC are ignored and left in place; with none installed any will do. */
static void test_compilers(void **state) {
    (void)state;
    char *other = other_compiler();
    assert_int_equal(get_anew(N), GRS_FROM_COMPILER);
    setenv("GRS_NVRTC", path_of("nowhere"), 1);
    assert_int_equal(get_anew(N), GRS_FROM_DISK);
    setenv("GRS_NVRTC", other, 1);
    assert_int_equal(get_anew(N), GRS_FROM_COMPILER);
    assert_int_equal(get_anew(N), GRS_FROM_DISK);
    setenv("GRS_NVRTC", shim_path, 1);
    assert_int_equal(get_anew(N), GRS_FROM_DISK);
    setenv("GRS_NVRTC", path_of("nowhere"), 1);
    assert_int_equal(get_anew(N), GRS_FROM_DISK);
    assert_int_equal(get_anew(2 * N), -1);
    assert_int_equal(counted('c'), 2);
    assert_int_equal(census_of(path_of("cache")).entries, 2);
    assert_int_equal(shared->warnings, 0);
}

/* ---------------------------------------------------------------- one process ------------------------------------ */

#define THREADS 8
static atomic_int good, failed;

static void *get_in_thread(void *arg) {
    grs_ctx *ctx = arg;
    for (int i = 0; i < 13; i++) {
        const grs_kernel *kernel = NULL;
        grs_error err = {0};
        grs_status status = grs_ctx_get(ctx, 100, N, K, 2, &kernel, &err);
        atomic_fetch_add(&good, status == GRS_OK && kernel);
        atomic_fetch_add(&failed, status == GRS_ERR_COMPILER && strstr(err.text, "told to fail") != NULL);
    }
    return NULL;
}

static void run_threads(grs_ctx *ctx) {
    pthread_t threads[THREADS];
    good = failed = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_in_thread, ctx), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_threads_compile_once(void **state) {
    (void)state;
    setenv("SHIM_NVRTC_SLEEP_MS", "50", 1);
    grs_ctx *ctx = open_context();
    run_threads(ctx);
    assert_int_equal(good, 13 * THREADS);
    assert_int_equal(counted('c'), 1);
    grs_ctx_close(ctx);
}

/* A hundred callers of a key that does not compile: one compile, the same error for all. */
static void test_failures_are_remembered(void **state) {
    (void)state;
    setenv("SHIM_NVRTC_SLEEP_MS", "50", 1);
    setenv("SHIM_NVRTC_FAIL", "1", 1);
    grs_ctx *ctx = open_context();
    run_threads(ctx);
    assert_int_equal(failed, 13 * THREADS);
    assert_int_equal(counted('c'), 1);
    assert_int_equal(census_of(path_of("cache")).entries, 0);
    grs_ctx_close(ctx);
    unsetenv("SHIM_NVRTC_FAIL");
    assert_int_equal(get_anew(N), GRS_FROM_COMPILER); /* not beyond the context */
}

/* A child that forks after use works, or gets an error that says why it cannot. */
static void use_after_fork(void *arg) {
    (void)arg;
    CHECK(source_of(grs_jit_get(100, N, K, 2)) == GRS_FROM_COMPILER);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 1; i < 3; i++) {
            const grs_kernel *kernel = grs_jit_get(100, i * N, K, 2);
            CHECK(kernel ? source_of(kernel) > 0
                         : grs_last_error()->status == GRS_ERR_STATE && strstr(grs_last_error()->text, "fork"));
        }
        _exit(0);
    }
    CHECK(join_child(child) == 0);
    CHECK(source_of(grs_jit_get(100, 3 * N, K, 2)) == GRS_FROM_COMPILER);
}

static void test_fork_after_use(void **state) {
    (void)state;
    run_child(use_after_fork, NULL);
}

/* ---------------------------------------------------------------- no cache --------------------------------------- */

static void no_cache(void *arg) {
    (void)arg;
    unsetenv("GRS_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    mkdir(path_of("cwd"), 0700);
    CHECK(chdir(path_of("cwd")) == 0);
    grs_ctx *ctx = open_context();
    const grs_kernel *kernel = NULL, *again = NULL;
    CHECK(grs_ctx_get(ctx, 100, N, K, 2, &kernel, NULL) == GRS_OK);
    CHECK(grs_ctx_get(ctx, 101, N, K, 2, &again, NULL) == GRS_OK);
    CHECK(source_of(kernel) == GRS_FROM_COMPILER && kernel == again);
    CHECK(counted('c') == 1);
    CHECK(shared->warnings == 1 && strstr(shared->log, "GRS_CACHE_DIR"));
    grs_ctx_close(ctx);
    CHECK(rmdir(path_of("cwd")) == 0); /* nothing was written there */
}

static void test_no_cache(void **state) {
    (void)state;
    run_child(no_cache, NULL);
}

#define LIBRARY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(test_eight_processes_one_compile),
        LIBRARY_TEST(test_holder_killed),
        LIBRARY_TEST(test_damage),
        LIBRARY_TEST(test_planted),
        LIBRARY_TEST(test_a_hit_opens_no_compiler),
        LIBRARY_TEST(test_compilers),
        LIBRARY_TEST(test_threads_compile_once),
        LIBRARY_TEST(test_failures_are_remembered),
        LIBRARY_TEST(test_fork_after_use),
        LIBRARY_TEST(test_no_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
