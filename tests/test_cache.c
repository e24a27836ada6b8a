/* The cache in one process: hits, misses, damage, bounds, threads and fork. */
#include <pthread.h>

#include "cache/lock.h"
#include "cache/settings.h"
#include "tests/cache_fixture.h"

static void test_miss_then_disk(void **state) {
    (void)state;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3"), other = key_of("-O2");
    struct job job = {0};
    const char *why = NULL;
    struct stat st;
    assert_string_equal(cache_dir(cache, &why), dir);
    assert_string_equal(why, "");
    assert_false(cache_probe(cache, &key));
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_true(cache_probe(cache, &key));
    assert_false(cache_probe(cache, &other));
    assert_int_equal(get(cache, &key, &job), GRS_FROM_DISK);
    cache_close(cache);
    cache = open_cache(dir);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_DISK);
    assert_int_equal(shared->compiles, 1);
    assert_null(cache_trouble(cache));
    cache_close(cache);

    struct census census = census_of(dir);
    assert_int_equal(census.entries, 1);
    assert_int_equal(census.temporary + census.aside + census.others, 0);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(entry_path(dir, &key), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(shared->warnings, 0);
}

static void test_memory_only(void **state) {
    (void)state;
    struct cache *cache = NULL;
    struct cache_options options = {.dir = path_of("cache"), .memory_only = true, .log = &shared_log};
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    assert_int_equal(cache_open(&options, &cache, NULL), GRS_OK);
    assert_null(cache_dir(cache, NULL));
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_MEMORY);
    assert_true(cache_probe(cache, &key));
    key.compiler_id = NULL;
    assert_int_equal(get(cache, &key, &job), GRS_FROM_MEMORY);
    assert_int_equal(shared->compiles, 1);
    assert_int_equal(shared->warnings, 0);
    assert_int_not_equal(access(path_of("cache"), F_OK), 0);
    cache_close(cache);
}

static void test_failure_is_passed_on_and_not_remembered(void **state) {
    (void)state;
    struct cache *cache = open_cache(path_of("cache"));
    struct cache_key key = key_of("-O3");
    struct job bad = {.fail = GRS_ERR_COMPILER}, good = {0};
    struct cache_entry *entry = (void *)1;
    grs_error err;
    assert_int_equal(cache_get(cache, &key, make_entry, &bad, &entry, NULL, &err), GRS_ERR_COMPILER);
    assert_null(entry);
    assert_int_equal(err.status, GRS_ERR_COMPILER);
    assert_string_equal(err.text, "compile 1 failed");
    assert_int_equal(get(cache, &key, &good), GRS_FROM_COMPILER);
    assert_int_equal(shared->compiles, 2);
    cache_close(cache);
}

/* Without a compiler any entry that matches in all else is used; with one, only its own. */
static void compilers(void *arg) {
    (void)arg;
    struct cache *cache = open_cache(path_of("cache"));
    struct cache_key one = key_of("-O3"), two = key_of("-O3"), none = key_of("-O3"), elsewhere = key_of("-O2");
    struct job job = {0}, fails = {.fail = GRS_ERR_COMPILER};
    two.compiler_id = "build-id-2";
    none.compiler_id = NULL;
    elsewhere.compiler_id = NULL;
    CHECK(get(cache, &none, &fails) == -1);
    CHECK(get(cache, &one, &job) == GRS_FROM_COMPILER);
    CHECK(!cache_probe(cache, &two));
    CHECK(cache_probe(cache, &none));
    CHECK(get(cache, &two, &job) == GRS_FROM_COMPILER);
    CHECK(shared->compiles == 3);
    CHECK(get(cache, &none, &fails) == GRS_FROM_DISK);
    CHECK(get(cache, &elsewhere, &fails) == -1);
    CHECK(census_of(path_of("cache")).entries == 2);
    /* A damaged one of the two does not keep the other from being found, and is not touched. */
    const char *paths[] = {entry_path(path_of("cache"), &one), entry_path(path_of("cache"), &two)};
    for (int i = 0; i < 2; i++) {
        size_t size;
        char *image = read_file(paths[i], &size);
        write_file(paths[i], "damaged", 7);
        CHECK(get(cache, &none, &fails) == GRS_FROM_DISK);
        write_file(paths[i], image, size);
        free(image);
    }
    CHECK(census_of(path_of("cache")).entries == 2);
    /* Candidates are tried in the order of their names, so the damage of the first was met. */
    CHECK(shared->warnings == 1 && strstr(shared->log, paths[strcmp(paths[0], paths[1]) > 0]));
    cache_close(cache);
}

static void test_compilers(void **state) {
    (void)state;
    run_child(compilers, NULL);
}

/* Of several, every process takes the same one, whatever order the directory lists them in. */
static void test_the_first_compiler_is_taken(void **state) {
    (void)state;
    struct cache *cache = open_cache(path_of("cache"));
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    char first[HASH_HEX_LENGTH + 1] = "g", name[HASH_HEX_LENGTH + 1];
    for (int i = 0; i < 9; i++) {
        struct cache_entry *entry = NULL;
        key.compiler_id = text_of("build-id-%d", i);
        assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
        cache_key_digest(&key, name);
        if (strcmp(name, first) < 0)
            memcpy(first, name, sizeof first);
        key.compiler_id = NULL;
        assert_int_equal(cache_get(cache, &key, make_entry, &job, &entry, NULL, NULL), GRS_OK);
        assert_string_equal(entry->key, first);
        cache_entry_free(entry);
    }
    cache_close(cache);
}

static void test_wrong_arch_from_the_maker(void **state) {
    (void)state;
    struct cache *cache = open_cache(path_of("cache"));
    struct cache_key key = key_of("-O3");
    struct job job = {.arch = "sm_100a"};
    struct cache_entry *entry;
    grs_error err;
    assert_int_equal(cache_get(cache, &key, make_entry, &job, &entry, NULL, &err), GRS_ERR_STATE);
    assert_non_null(strstr(err.text, "sm_100a"));
    assert_int_equal(census_of(path_of("cache")).entries, 0);
    cache_close(cache);
}

/* ---------------------------------------------------------------- damage ----------------------------------------- */

/* Every cut and every flipped byte of an entry on disk: detected, moved aside, made once more, and one warning in all. */
static void damage_everywhere(void *arg) {
    (void)arg;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    char *path = entry_path(dir, &key);
    size_t size, now_size;
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    char *image = read_file(path, &size);
    int expected = 1;
    for (size_t at = 0; at < 2 * size; at++) {
        bool cut = at < size;
        if (!cut)
            image[at - size] ^= (char)(1 << at % 8);
        int fd = open(path, O_WRONLY | O_TRUNC);
        CHECK(write(fd, image, cut ? at : size) == (ssize_t)(cut ? at : size));
        close(fd);
        if (!cut)
            image[at - size] ^= (char)(1 << at % 8);
        CHECK(!cache_probe(cache, &key));
        CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
        CHECK(shared->compiles == ++expected);
        CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
        char *now = read_file(path, &now_size);
        CHECK(now_size == size && !memcmp(now, image, size));
        free(now);
    }
    CHECK(shared->warnings == 1);
    CHECK(strstr(shared->log, path) && strstr(shared->log, "moved aside"));
    struct census census = census_of(dir);
    CHECK(census.entries == 1 && census.aside == 1 && census.temporary == 0);
    CHECK(!cache_trouble(cache));
    cache_close(cache);
}

static void test_every_cut_and_flip(void **state) {
    (void)state;
    run_child(damage_everywhere, NULL);
}

/* A valid entry under the name of another shape, or of another arch. */
static void planted(void *arg) {
    (void)arg;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3"), shape = key_of("-O3"), arch = key_of("-O3");
    struct job job = {0}, hopper = {.arch = "sm_90"};
    shape.text_digest = "another shape";
    arch.arch = "sm_90";
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &shape, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &arch, &hopper) == GRS_FROM_COMPILER);
    CHECK(rename(entry_path(dir, &shape), entry_path(dir, &key)) == 0);
    CHECK(!cache_probe(cache, &key));
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(rename(entry_path(dir, &arch), entry_path(dir, &key)) == 0);
    CHECK(!cache_probe(cache, &key));
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(shared->compiles == 5);
    CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
    CHECK(shared->warnings == 1 && strstr(shared->log, "another kernel"));
    cache_close(cache);
}

static void test_planted_entries(void **state) {
    (void)state;
    run_child(planted, NULL);
}

/* Written by an older or newer format, or under a name for other versions: ignored, left in place, no warning. */
static void other_versions(void *arg) {
    (void)arg;
    const char *dir = path_of("cache");
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3"), newer = key_of("-O3");
    struct job job = {0};
    size_t size, now_size;
    const char *path = entry_path(dir, &key);
    newer.compiler_id = "build-id-newer";
    CHECK(get(cache, &newer, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    uint8_t *image = (uint8_t *)read_file(path, &size);
    for (uint32_t format = 0; format < 4; format += format ? 1 : 2) {
        entry_put32(image + 8, format);
        hash_xxh3_128(image, size - ENTRY_TAIL_BYTES, image + size - ENTRY_TAIL_BYTES);
        int fd = open(path, O_WRONLY | O_TRUNC);
        CHECK(write(fd, image, size) == (ssize_t)size);
        close(fd);
        struct cache *fresh = open_cache(dir); /* one that has nothing in memory */
        CHECK(!cache_probe(fresh, &key));
        CHECK(get(fresh, &key, &job) == GRS_FROM_COMPILER);
        CHECK(get(fresh, &key, &job) == GRS_FROM_MEMORY);
        char *now = read_file(path, &now_size);
        CHECK(now_size == size && !memcmp(now, image, size));
        CHECK(cache_trouble(fresh) && strstr(cache_trouble(fresh), "another format"));
        free(now);
        cache_close(fresh);
    }
    CHECK(get(cache, &newer, &job) == GRS_FROM_DISK);
    CHECK(census_of(dir).entries == 2 && census_of(dir).aside == 0);
    cache_close(cache);
}

static void test_other_versions(void **state) {
    (void)state;
    run_child(other_versions, NULL);
}

/* ---------------------------------------------------------------- bound ------------------------------------------ */

static struct cache *open_bounded(const char *dir, int64_t max) {
    struct cache *cache = NULL;
    struct cache_options options = {
        .dir = dir, .ro_dirs = (const char *const[]){NULL}, .max_bytes = max, .log = &shared_log};
    assert_int_equal(cache_open(&options, &cache, NULL), GRS_OK);
    return cache;
}

static const char *numbered(int i) {
    return text_of("-DI=%d", i);
}

/* Get a key through a cache that is closed again: what was used is then no longer in use. */
static int get_briefly(const char *dir, int64_t max, int i, struct job *job) {
    struct cache *cache = open_bounded(dir, max);
    struct cache_key key = key_of(numbered(i));
    int source = get(cache, &key, job);
    cache_close(cache);
    sleep_ms(12); /* last uses must differ by more than a tick of the file system's clock */
    return source;
}

static bool present(const char *dir, int i) {
    struct cache_key key = key_of(numbered(i));
    return access(entry_path(dir, &key), F_OK) == 0;
}

static void test_least_recently_used_goes_first(void **state) {
    (void)state;
    const char *dir = path_of("cache");
    struct job job = {.cubin_size = 10000};
    const int64_t max = 45000; /* four entries */
    for (int i = 0; i < 4; i++)
        assert_int_equal(get_briefly(dir, max, i, &job), GRS_FROM_COMPILER);
    assert_int_equal(get_briefly(dir, max, 0, &job), GRS_FROM_DISK); /* 1 is the oldest now */
    assert_int_equal(get_briefly(dir, max, 4, &job), GRS_FROM_COMPILER);
    assert_true(present(dir, 0) && !present(dir, 1) && present(dir, 2) && present(dir, 3) && present(dir, 4));
    assert_int_equal(get_briefly(dir, max, 5, &job), GRS_FROM_COMPILER);
    assert_true(present(dir, 0) && !present(dir, 2) && present(dir, 3));
    /* Damaged ones go before any other. */
    struct cache_key key = key_of(numbered(5));
    char *from = entry_path(dir, &key);
    assert_int_equal(rename(from, text_of("%s.damaged", from)), 0);
    assert_int_equal(census_of(dir).aside, 1);
    assert_int_equal(get_briefly(dir, max, 6, &job), GRS_FROM_COMPILER);
    assert_true(present(dir, 0) && present(dir, 3) && present(dir, 4) && present(dir, 6));
    assert_int_equal(census_of(dir).aside, 0);
    for (int i = 10; i < 30; i++) {
        assert_int_equal(get_briefly(dir, max, i, &job), GRS_FROM_COMPILER);
        assert_true(census_of(dir).bytes <= max);
    }
    assert_int_equal(shared->warnings, 0);
}

static long long remembered(void) {
    size_t size;
    char *text = read_file(path_of("cache/size"), &size);
    long long bytes = text ? strtoll(text, NULL, 10) : -1;
    free(text);
    return bytes;
}

/* What lies in the directory is remembered, and counted anew when it is not known, expired, or said to be too much. */
static void test_remembered_size(void **state) {
    (void)state;
    const char *dir = path_of("cache"), *file = path_of("cache/size");
    struct job job = {.cubin_size = 10000};
    const int64_t max = 45000; /* four entries */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(get_briefly(dir, max, i, &job), GRS_FROM_COMPILER);
        assert_int_equal(remembered(), census_of(dir).bytes);
    }
    const char *lies[] = {
        "",
        "nonsense",
        text_of("%020d %020lld", 0, (long long)time(NULL)),                     /* cut */
        text_of("%020d %020lld\nmore", 0, (long long)time(NULL)),               /* too long */
        text_of("%020d %020lld\n", 0, (long long)time(NULL) - 90000),           /* expired */
        text_of("%020d %020lld\n", 0, (long long)time(NULL) + 90000),           /* from the future */
        text_of("%020lld %020lld\n", INT64_MAX - 5LL, (long long)time(NULL)),   /* far too much */
        text_of("%s %020lld\n", "99999999999999999999", (long long)time(NULL)), /* more than a number holds */
        text_of("%020d %020lld\n", -5, (long long)time(NULL)),
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        write_file(file, lies[i], strlen(lies[i]));
        assert_int_equal(get_briefly(dir, max, (int)i + 3, &job), GRS_FROM_COMPILER);
        assert_int_equal(census_of(dir).entries, 4);
        assert_int_equal(remembered(), census_of(dir).bytes);
    }
    /* As long as it says that there is room, nothing is counted: what was removed meanwhile is not noticed. */
    assert_int_equal(get_briefly(dir, max, 20, &job), GRS_FROM_COMPILER);
    long long before = remembered();
    struct cache_key key = key_of(numbered(20));
    assert_int_equal(unlink(entry_path(dir, &key)), 0);
    assert_int_equal(get_briefly(dir, 10 * max, 21, &job), GRS_FROM_COMPILER);
    assert_true(remembered() > before && remembered() > census_of(dir).bytes);
}

static void uses(void *arg) {
    struct cache *cache = open_bounded(arg, 0);
    struct cache_key key = key_of(numbered(0));
    struct job job = {.cubin_size = 10000};
    CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
    shared->ready = 1;
    for (int i = 0; i < 10000 && !shared->done; i++)
        sleep_ms(1);
}

/* The oldest entry is in use by another process; it goes as soon as that process is gone. */
static void test_an_entry_in_use_stays(void **state) {
    (void)state;
    char *dir = path_of("cache");
    struct job job = {.cubin_size = 10000};
    const int64_t max = 22000; /* two entries */
    assert_int_equal(get_briefly(dir, max, 0, &job), GRS_FROM_COMPILER);
    pid_t user = start_child(uses, dir);
    while (!shared->ready)
        sleep_ms(1);
    for (int i = 1; i < 6; i++) {
        assert_int_equal(get_briefly(dir, max, i, &job), GRS_FROM_COMPILER);
        assert_true(present(dir, 0) && present(dir, i));
        assert_true(census_of(dir).bytes <= max);
    }
    shared->done = 1;
    assert_int_equal(join_child(user), 0);
    assert_int_equal(get_briefly(dir, max, 6, &job), GRS_FROM_COMPILER);
    assert_false(present(dir, 0));
    assert_true(present(dir, 5) && present(dir, 6));
}

/* What does not fit beside the entries in use runs from memory: one warning, the bound holds, nothing in use is lost. */
static void all_in_use(void *arg) {
    const char *dir = arg;
    struct cache *cache = open_bounded(dir, 22000);
    struct job job = {.cubin_size = 10000}, huge = {.cubin_size = 100000};
    for (int i = 0; i < 5; i++) {
        struct cache_key key = key_of(numbered(i));
        CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
        CHECK(get(cache, &key, &job) == (i < 2 ? GRS_FROM_DISK : GRS_FROM_MEMORY));
        CHECK(census_of(dir).bytes <= 22000);
    }
    CHECK(present(dir, 0) && present(dir, 1));
    struct cache_key key = key_of("huge");
    CHECK(get(cache, &key, &huge) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &huge) == GRS_FROM_MEMORY);
    CHECK(present(dir, 0) && present(dir, 1));
    CHECK(shared->warnings == 1 && strstr(shared->log, "GRS_CACHE_MAX") && strstr(shared->log, dir));
    CHECK(cache_trouble(cache) && strstr(cache_trouble(cache), "GRS_CACHE_MAX"));
    CHECK(census_of(dir).temporary == 0);
    cache_close(cache);
}

/* An entry that could never fit pushes nothing out. */
static void too_large(void *arg) {
    const char *dir = arg;
    struct job job = {.cubin_size = 10000}, huge = {.cubin_size = 100000};
    for (int i = 0; i < 3; i++)
        CHECK(get_briefly(dir, 45000, i, &job) == GRS_FROM_COMPILER);
    CHECK(get_briefly(dir, 45000, 3, &huge) == GRS_FROM_COMPILER);
    CHECK(present(dir, 0) && present(dir, 1) && present(dir, 2) && !present(dir, 3));
    CHECK(shared->warnings == 1 && strstr(shared->log, "45000"));
}

static void test_too_large_for_the_bound(void **state) {
    (void)state;
    run_child(too_large, (void *)path_of("cache"));
}

static void test_bound_with_all_in_use(void **state) {
    (void)state;
    run_child(all_in_use, (void *)path_of("cache"));
}

/* ---------------------------------------------------------------- threads ---------------------------------------- */

#define THREADS 8

struct thread_job {
    struct cache *cache;
    struct job job;
    int count; /* of keys */
    atomic_int from[4], failed;
    pthread_barrier_t barrier;
};

static void *thread_body(void *arg) {
    struct thread_job *all = arg;
    pthread_barrier_wait(&all->barrier);
    for (int i = 0; i < all->count; i++) {
        char options[32];
        snprintf(options, sizeof options, "-DI=%d", i);
        struct cache_key key = key_of(options);
        struct cache_entry *entry = NULL;
        grs_source source = 0;
        grs_error err = {0};
        grs_status status = cache_get(all->cache, &key, make_entry, &all->job, &entry, &source, &err);
        if (status == GRS_OK && entry_is_right(entry, &all->job))
            atomic_fetch_add(&all->from[source], 1);
        else if (status == GRS_ERR_COMPILER && !entry && !strcmp(err.text, "compile 1 failed"))
            atomic_fetch_add(&all->failed, 1);
        cache_entry_free(entry);
    }
    return NULL;
}

static void run_threads(struct thread_job *all) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all->barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_body, all), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all->barrier);
}

static void test_threads_make_a_key_once(void **state) {
    (void)state;
    struct thread_job all = {.cache = open_cache(path_of("cache")), .count = 12, .job = {.sleep_ms = 5}};
    run_threads(&all);
    assert_int_equal(shared->compiles, 12);
    assert_int_equal(all.from[GRS_FROM_COMPILER], 12);
    assert_int_equal(all.from[GRS_FROM_MEMORY] + all.from[GRS_FROM_DISK], 12 * (THREADS - 1));
    assert_int_equal(census_of(path_of("cache")).entries, 12);
    cache_close(all.cache);
}

static void test_threads_in_memory(void **state) {
    (void)state;
    struct thread_job all = {.count = 12, .job = {.sleep_ms = 5}};
    struct cache_options options = {.memory_only = true, .log = &shared_log};
    assert_int_equal(cache_open(&options, &all.cache, NULL), GRS_OK);
    run_threads(&all);
    assert_int_equal(shared->compiles, 12);
    cache_close(all.cache);
}

/* Those who wait for a maker that fails get its error, and do not all try again at once. */
static void test_waiters_share_the_error(void **state) {
    (void)state;
    struct thread_job all = {.cache = open_cache(path_of("cache")), .count = 1};
    all.job = (struct job){.sleep_ms = 300, .fail = GRS_ERR_COMPILER};
    run_threads(&all);
    assert_int_equal(all.failed, THREADS);
    assert_int_equal(shared->compiles, 1);
    cache_close(all.cache);
}

/* Two caches on one directory in one process exclude one another as two processes do. */
static void *second_cache(void *arg) {
    struct cache *cache = open_cache(arg);
    struct cache_key key = key_of("-O3");
    struct job job = {.sleep_ms = 100};
    int source = get(cache, &key, &job);
    cache_close(cache);
    return (void *)(intptr_t)source;
}

static void test_two_caches_one_directory(void **state) {
    (void)state;
    pthread_t threads[2];
    void *from[2];
    char *dir = path_of("cache");
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, second_cache, dir), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &from[i]);
    assert_int_equal(shared->compiles, 1);
    assert_int_equal((intptr_t)from[0] + (intptr_t)from[1], GRS_FROM_COMPILER + GRS_FROM_DISK);
}

/* ---------------------------------------------------------------- fork ------------------------------------------- */

static struct cache *inherited;

static void use_inherited(void *arg) {
    struct cache_key key = key_of(arg), fresh = key_of("-O1");
    struct job job = {0};
    CHECK(get(inherited, &key, &job) == GRS_FROM_DISK || shared->compiles <= 3);
    CHECK(get(inherited, &fresh, &job) > 0);
    cache_close(inherited);
}

static void *slow_maker(void *arg) {
    struct cache_key key = key_of("-O2");
    struct job job = {.sleep_ms = 400};
    *(int *)arg = get(inherited, &key, &job);
    return NULL;
}

/* A child that is forked while another thread compiles: it works, waits for its parent's lock like any other process, and
 * does not keep the parent's locks alive. */
static void test_fork_while_a_thread_makes(void **state) {
    (void)state;
    inherited = open_cache(path_of("cache"));
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    int source = 0;
    pthread_t maker;
    assert_int_equal(get(inherited, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(pthread_create(&maker, NULL, slow_maker, &source), 0);
    while (shared->compiles < 2)
        sleep_ms(1);
    pid_t one = start_child(use_inherited, "-O3"); /* an entry that is there */
    pid_t two = start_child(use_inherited, "-O2"); /* the one that is being made */
    assert_int_equal(join_child(one), 0);
    assert_int_equal(join_child(two), 0);
    pthread_join(maker, NULL);
    assert_int_equal(source, GRS_FROM_COMPILER);
    assert_int_equal(shared->compiles, 3);
    cache_close(inherited);
}

/* ---------------------------------------------------------------- settings --------------------------------------- */

static void test_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value; /* 0: not a size */
    } cases[] = {
        {"1", 1},
        {"4096", 4096},
        {"64K", 65536},
        {"64k", 65536},
        {"512M", 536870912},
        {"2G", 1LL << 31},
        {"1T", 1LL << 40},
        {"0", 0},
        {"", 0},
        {"G", 0},
        {"-1", 0},
        {"1.5G", 0},
        {"2GB", 0},
        {"2 G", 0},
        {" 2G", 0},
        {"0x10", 0},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", 0},
        {"9007199254740992K", 0},
        {"8388608T", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = -1;
        bool valid = settings_parse_size(cases[i].text, &value);
        assert_int_equal(valid, cases[i].value != 0);
        if (valid)
            assert_int_equal(value, cases[i].value);
    }
}

struct place {
    const char *dir, *xdg, *home, *cwd, *expected;
};

static void locate(void *arg) {
    const struct place *place = arg;
    struct cache_options options = {.log = &shared_log};
    struct cache *cache;
    const char *names[] = {"GRS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"},
               *values[] = {place->dir, place->xdg, place->home};
    for (int i = 0; i < 3; i++)
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    CHECK(chdir(place->cwd) == 0);
    CHECK(cache_open(&options, &cache, NULL) == GRS_OK);
    const char *dir = cache_dir(cache, NULL);
    if (place->expected ? !dir || strcmp(dir, place->expected) : dir != NULL) {
        fprintf(stderr, "cache in %s, expected %s\n", dir ? dir : "memory",
                place->expected ? place->expected : "memory");
        _exit(1);
    }
    CHECK(shared->warnings == !place->expected);
    cache_close(cache);
}

static void test_location(void **state) {
    (void)state;
    mkdir(path_of("home"), 0700);
    char *home = path_of("home"), *xdg = path_of("xdg"), *own = path_of("own/deep");
    char *under_home = path_of("home/.cache/grs"), *under_xdg = path_of("xdg/grs");
    char *slashes = path_of("own/deep//"), *missing = path_of("no-such-home");
    char *relative = path_of("rel/ative");
    const struct place places[] = {
        {own, xdg, home, work, own},
        {slashes, xdg, home, work, own},
        {"rel/ative", NULL, NULL, work, relative},
        {NULL, xdg, home, work, under_xdg},
        {"", xdg, home, work, under_xdg},
        {NULL, NULL, home, work, under_home},
        {NULL, "relative", home, work, under_home},
        {NULL, NULL, missing, work, NULL}, /* is not made */
        {NULL, "", "", work, NULL},
        {NULL, NULL, "relative", work, NULL},
        {NULL, NULL, NULL, work, NULL},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        shared->warnings = 0;
        run_child(locate, (void *)&places[i]);
    }
    assert_int_not_equal(access(missing, F_OK), 0);
    assert_int_not_equal(access(path_of("relative"), F_OK), 0);
}

static void bound_from_environment(void *arg) {
    struct cache_options options = {.dir = arg, .log = &shared_log};
    struct cache *cache;
    struct cache_key key = key_of("-O3");
    struct job job = {.cubin_size = 5000};
    setenv("GRS_CACHE_MAX", "4K", 1);
    CHECK(cache_open(&options, &cache, NULL) == GRS_OK);
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_MEMORY);
    CHECK(strstr(shared->log, "4096"));
    cache_close(cache);
    setenv("GRS_CACHE_MAX", "plenty", 1);
    CHECK(cache_open(&options, &cache, NULL) == GRS_OK);
    CHECK(strstr(shared->log, "GRS_CACHE_MAX is \"plenty\""));
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
    cache_close(cache);
}

static void test_bound_from_environment(void **state) {
    (void)state;
    run_child(bound_from_environment, (void *)path_of("cache"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_miss_then_disk),
        TEST(test_memory_only),
        TEST(test_failure_is_passed_on_and_not_remembered),
        TEST(test_compilers),
        TEST(test_the_first_compiler_is_taken),
        TEST(test_wrong_arch_from_the_maker),
        TEST(test_every_cut_and_flip),
        TEST(test_planted_entries),
        TEST(test_other_versions),
        TEST(test_least_recently_used_goes_first),
        TEST(test_remembered_size),
        TEST(test_an_entry_in_use_stays),
        TEST(test_bound_with_all_in_use),
        TEST(test_too_large_for_the_bound),
        TEST(test_threads_make_a_key_once),
        TEST(test_threads_in_memory),
        TEST(test_waiters_share_the_error),
        TEST(test_two_caches_one_directory),
        TEST(test_fork_while_a_thread_makes),
        TEST(test_sizes),
        TEST(test_location),
        TEST(test_bound_from_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
