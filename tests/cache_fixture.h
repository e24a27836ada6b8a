/* What the tests of the cache share: a directory of their own, a maker that counts, and children whose doings the parent
 * can count. Counters lie in memory that is shared across fork, so that "one compile" means one in all processes. */
#ifndef GRS_TESTS_CACHE_FIXTURE_H
#define GRS_TESTS_CACHE_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "cache/entry.h"
#include "cache/key.h"
#include "common/error.h"

/* ---------------------------------------------------------------- shared memory ---------------------------------- */

struct shared {
    atomic_int compiles, warnings, done, ready;
    atomic_size_t log_used;
    char log[1 << 16]; /* warnings, a line each */
};

static struct shared *shared;

static inline void shared_sink(void *arg, grs_log_level level, const char *text) {
    (void)arg;
    if (level > GRS_LOG_WARN)
        return;
    atomic_fetch_add(&shared->warnings, 1);
    size_t length = strlen(text) + 1, at = atomic_fetch_add(&shared->log_used, length);
    if (at + length < sizeof shared->log) {
        memcpy(shared->log + at, text, length - 1);
        shared->log[at + length - 1] = '\n';
    }
}

static const struct log shared_log = {.sink = shared_sink, .level = GRS_LOG_DEBUG};

/* ---------------------------------------------------------------- directories ------------------------------------ */

static char work[4096]; /* of the test that runs */

static struct text {
    struct text *next;
    char *text;
} * texts;

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void remove_tree(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* In memory where possible: the tests publish thousands of entries, each with its fsync. */
static inline int fixture_setup(void **state) {
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(work, sizeof work, "%s/grs-test-cache-XXXXXX", base);
    return shared == MAP_FAILED || !mkdtemp(work);
}

static inline int fixture_teardown(void **state) {
    (void)state;
    remove_tree(work);
    for (struct text *next; texts; texts = next) {
        next = texts->next;
        free(texts->text);
        free(texts);
    }
    munmap(shared, sizeof *shared);
    return 0;
}

/* A text that lives until the end of the test. */
__attribute__((format(printf, 1, 2))) static inline char *text_of(const char *format, ...) {
    struct text *text = malloc(sizeof *text);
    va_list args;
    va_start(args, format);
    if (!text || vasprintf(&text->text, format, args) < 0 || !text->text)
        abort();
    va_end(args);
    text->next = texts;
    texts = text;
    return text->text;
}

/* A path below the test's directory. */
static inline char *path_of(const char *name) {
    return text_of("%s/%s", work, name);
}

static inline void write_file(const char *path, const void *data, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    close(fd);
}

/* The bytes of a file; the caller frees. NULL: there is none. */
static inline char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    *size = 0;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    *size = fread(data, 1, *size, file);
    data[*size] = 0;
    fclose(file);
    return data;
}

struct census {
    int entries, aside, temporary, others;
    long long bytes;
};
static struct census census_now;

static inline int census_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    const char *name = path + ftw->base;
    if (type == FTW_D)
        return 0;
    census_now.bytes += st->st_size;
    if (!strncmp(name, ".tmp-", 5))
        census_now.temporary++;
    else if (strlen(name) == HASH_HEX_LENGTH)
        census_now.entries++;
    else if (strlen(name) > HASH_HEX_LENGTH && !strcmp(name + HASH_HEX_LENGTH, ".damaged"))
        census_now.aside++;
    else if (strcmp(name, "lock") && strcmp(name, "size"))
        census_now.others++;
    return 0;
}

/* What lies in a cache directory. */
static inline struct census census_of(const char *dir) {
    census_now = (struct census){0};
    nftw(dir, census_one, 16, FTW_PHYS);
    return census_now;
}

/* ---------------------------------------------------------------- keys and makers -------------------------------- */

static const char *const some_text = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static inline struct cache_key key_of(const char *options) {
    return (struct cache_key){.grs_version = "0.1.0",
                              .text_digest = some_text,
                              .compiler_id = "build-id-1",
                              .options = options,
                              .arch = "sm_90a"};
}

/* Not inlined: gcc would see the null checks of the undefined-behaviour sanitizer and warn of a null "%s". */
__attribute__((noinline, unused)) static char *entry_path(const char *dir, const struct cache_key *key) {
    char name[HASH_HEX_LENGTH + 1];
    cache_key_digest(key, name);
    return text_of("%s/%.2s/%s", dir, name, name);
}

/* The directory that the entry is in. */
__attribute__((noinline, unused)) static char *fan_path(const char *dir, const struct cache_key *key) {
    char name[HASH_HEX_LENGTH + 1];
    cache_key_digest(key, name);
    return text_of("%s/%.2s", dir, name);
}

struct job {
    const char *arch;
    size_t cubin_size; /* 0: 64                        */
    int sleep_ms;
    grs_status fail; /* not GRS_OK: fail with it       */
};

static inline void sleep_ms(int ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

static inline char *pattern(size_t size) {
    char *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    bytes[size] = 0;
    return bytes;
}

static inline grs_status make_entry(void *arg, struct cache_entry *entry, grs_error *err) {
    const struct job *job = arg;
    int number = atomic_fetch_add(&shared->compiles, 1) + 1;
    sleep_ms(job->sleep_ms);
    if (job->fail != GRS_OK)
        return error_set(err, job->fail, "compile %d failed", number);
    *entry = (struct cache_entry){
        .name = strdup("grs_gemm_rs_n4096_k2048_tp4"),
        .arch = strdup(job->arch ? job->arch : "sm_90a"),
        .compiler = strdup("NVRTC 13.0"),
        .shape = strdup("m 1..512 n 4096 k 2048 tp 4"),
        .config = strdup("tile.m: 128\ntile.n: 256\n"),
        .meta = pattern(24),
        .meta_size = 24,
        .cubin_size = job->cubin_size ? job->cubin_size : 64,
        .ptx = strdup(".version 8.7"),
        .ptx_size = 12,
        .source = strdup("// source"),
        .source_size = 9,
        .log = NULL,
    };
    entry->cubin = pattern(entry->cubin_size);
    return GRS_OK;
}

static inline bool entry_is_right(const struct cache_entry *entry, const struct job *job) {
    size_t size = job->cubin_size ? job->cubin_size : 64;
    char *cubin = pattern(size);
    bool right = entry && !strcmp(entry->name, "grs_gemm_rs_n4096_k2048_tp4") &&
                 !strcmp(entry->arch, job->arch ? job->arch : "sm_90a") && entry->meta_size == 24 &&
                 entry->cubin_size == size && !memcmp(entry->cubin, cubin, size) &&
                 !strcmp(entry->ptx, ".version 8.7") && !strcmp(entry->source, "// source") && !strcmp(entry->log, "");
    free(cubin);
    return right;
}

/* ---------------------------------------------------------------- caches and children ---------------------------- */

static inline struct cache *open_cache(const char *dir) {
    struct cache *cache = NULL;
    struct cache_options options = {.dir = dir, .ro_dirs = (const char *const[]){NULL}, .log = &shared_log};
    if (cache_open(&options, &cache, NULL) != GRS_OK)
        abort();
    return cache;
}

/* Get the key; -1 on failure or when the entry is not what the job makes, else where it came from. */
static inline int get(struct cache *cache, const struct cache_key *key, struct job *job) {
    struct cache_entry *entry = NULL;
    grs_source source = 0;
    grs_status status = cache_get(cache, key, make_entry, job, &entry, &source, NULL);
    bool right = status == GRS_OK && entry_is_right(entry, job);
    cache_entry_free(entry);
    return right ? (int)source : -1;
}

/* In children, where cmocka's assertions must not be used: say what failed and leave. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: in child: %s\n", __FILE__, __LINE__, #condition);                                  \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline pid_t start_child(void (*body)(void *arg), void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* when a test fails, nothing stays behind */
        body(arg);
        _exit(0);
    }
    assert_true(pid > 0);
    return pid;
}

/* The wait status of a child. */
static inline int join_child(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

/* Run `body` in a process of its own and expect it to succeed: warnings are counted by process. */
static inline void run_child(void (*body)(void *arg), void *arg) {
    assert_int_equal(join_child(start_child(body, arg)), 0);
}

#define SKIP_UNLESS(condition, why)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("SKIP: %s\n", why);                                                                                 \
            skip();                                                                                                    \
        }                                                                                                              \
    } while (0)

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
