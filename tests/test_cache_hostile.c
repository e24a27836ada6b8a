/* The cache where it cannot or must not be used: full and read-only disks, no home, files of others, links, odd names. */
#include <grp.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/cache_fixture.h"

#define STRANGER 54321 /* a user without a passwd entry */

static bool is_root(void) {
    return geteuid() == 0;
}

/* A mount namespace of the child's own, so that what it mounts is gone with it. */
static bool private_mounts(void) {
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool may_mount(void) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(is_root() && private_mounts() && mount("none", work, "tmpfs", 0, "size=64k") == 0 ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static const char *const needs_mounts = "needs root and the right to mount";
static const char *const needs_root = "needs root, to own files as somebody else";

static void become_stranger(void) {
    CHECK(setgroups(0, NULL) == 0 && setgid(STRANGER) == 0 && setuid(STRANGER) == 0);
}

/* Everything works, from memory, with one warning that names the directory and the variable. */
static void works_from_memory(struct cache *cache, const char *dir) {
    struct cache_key key = key_of("-O3"), other = key_of("-O2");
    struct job job = {0};
    int before = shared->compiles;
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_MEMORY);
    CHECK(get(cache, &other, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &other, &job) == GRS_FROM_MEMORY);
    CHECK(shared->compiles == before + 2);
    CHECK(shared->warnings == 1);
    CHECK(strstr(shared->log, "GRS_CACHE_DIR"));
    CHECK(!dir || strstr(shared->log, dir));
    const char *trouble = cache_trouble(cache);
    CHECK(trouble && strstr(trouble, "GRS_CACHE_DIR") && (!dir || strstr(trouble, dir)));
}

/* ---------------------------------------------------------------- disks ------------------------------------------ */

/* Scenario 4: a file system of 1 MiB. What fits is kept, what does not runs from memory, nothing partial is left. */
static void full_disk(void *arg) {
    (void)arg;
    const char *mounted = path_of("tmpfs"), *dir = path_of("tmpfs/cache");
    CHECK(mkdir(mounted, 0700) == 0 && private_mounts());
    CHECK(mount("none", mounted, "tmpfs", 0, "size=1m") == 0);
    struct cache *cache = open_cache(dir);
    struct job job = {.cubin_size = 300000};
    int disk = 0, memory = 0;
    for (int i = 0; i < 8; i++) {
        struct cache_key key = key_of(text_of("-DI=%d", i));
        CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
        int source = get(cache, &key, &job);
        CHECK(source == GRS_FROM_DISK || source == GRS_FROM_MEMORY);
        disk += source == GRS_FROM_DISK;
        memory += source == GRS_FROM_MEMORY;
    }
    CHECK(shared->compiles == 8 && disk == 3 && memory == 5);
    CHECK(shared->warnings == 1);
    CHECK(strstr(shared->log, dir) && strstr(shared->log, "No space left") && strstr(shared->log, "GRS_CACHE_DIR"));
    CHECK(cache_trouble(cache) && strstr(cache_trouble(cache), dir));
    struct census census = census_of(dir);
    CHECK(census.entries == 3 && census.temporary == 0 && census.aside == 0);
    cache_close(cache);
    struct cache *again = open_cache(dir); /* what is there is whole */
    for (int i = 0; i < 8; i++) {
        struct cache_key key = key_of(text_of("-DI=%d", i));
        disk -= cache_probe(again, &key);
    }
    CHECK(disk == 0);
    cache_close(again);
}

static void test_full_disk(void **state) {
    (void)state;
    SKIP_UNLESS(may_mount(), needs_mounts);
    run_child(full_disk, NULL);
}

/* Not a byte to spare from the beginning: not even a directory can be made. */
static void no_inodes(void *arg) {
    (void)arg;
    const char *mounted = path_of("tmpfs");
    CHECK(mkdir(mounted, 0700) == 0 && private_mounts());
    CHECK(mount("none", mounted, "tmpfs", 0, "size=1m,nr_inodes=2") == 0);
    CHECK(mkdir(path_of("tmpfs/cache"), 0700) == 0);
    struct cache *cache = open_cache(path_of("tmpfs/cache"));
    works_from_memory(cache, path_of("tmpfs/cache"));
    cache_close(cache);
}

static void test_no_inodes(void **state) {
    (void)state;
    SKIP_UNLESS(may_mount(), needs_mounts);
    run_child(no_inodes, NULL);
}

/* A limit on file sizes must be an error like any other: by default its signal ends the process. */
static void file_size_limit(void *arg) {
    (void)arg;
    struct rlimit limit = {20000, 20000};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    struct cache *cache = open_cache(path_of("cache"));
    struct cache_key key = key_of("-O3");
    struct job job = {.cubin_size = 50000};
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_MEMORY);
    CHECK(shared->warnings == 1 && census_of(path_of("cache")).temporary == 0);
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGXFSZ));
    cache_close(cache);
}

static void test_file_size_limit(void **state) {
    (void)state;
    run_child(file_size_limit, NULL);
}

/* A filled cache on a file system that has become read-only: hits work and warn of nothing; the first entry that cannot be
 * kept warns once. */
static void read_only_disk(void *arg) {
    (void)arg;
    const char *mounted = path_of("disk"), *dir = path_of("disk/cache");
    struct cache_key key = key_of("-O1");
    struct job job = {0};
    CHECK(mkdir(mounted, 0700) == 0 && private_mounts());
    CHECK(mount("none", mounted, "tmpfs", 0, "size=1m") == 0);
    struct cache *cache = open_cache(dir);
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    cache_close(cache);
    CHECK(mount("none", mounted, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    cache = open_cache(dir);
    CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
    CHECK(shared->warnings == 0 && !cache_trouble(cache));
    works_from_memory(cache, dir);
    CHECK(census_of(dir).entries == 1);
    cache_close(cache);
}

static void test_read_only_disk(void **state) {
    (void)state;
    SKIP_UNLESS(may_mount(), needs_mounts);
    run_child(read_only_disk, NULL);
}

/* Scenario 5: no home, a user nobody knows, a root that cannot be written. */
static void nothing_to_write_to(void *arg) {
    const char *home = arg;
    struct cache_options options = {.log = &shared_log};
    struct cache *cache;
    const char *top = path_of("top"), *cwd = path_of("top/cwd");
    CHECK(mkdir(top, 0755) == 0 && mkdir(cwd, 0777) == 0 && chmod(cwd, 0777) == 0 && chmod(work, 0755) == 0);
    CHECK(private_mounts());
    CHECK(mount(top, top, NULL, MS_BIND, NULL) == 0);
    CHECK(chdir(cwd) == 0 && chroot(top) == 0 && chdir("/cwd") == 0);
    /* The working directory can be written, the rest cannot. */
    CHECK(mount("/cwd", "/cwd", NULL, MS_BIND, NULL) == 0 && chdir("/cwd") == 0);
    CHECK(mount("none", "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0);
    become_stranger();
    CHECK(open("probe", O_CREAT | O_WRONLY, 0600) >= 0 && unlink("probe") == 0);
    CHECK(mkdir("/probe", 0700) < 0 && errno == EROFS);
    unsetenv("GRS_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    if (home)
        setenv("HOME", home, 1);
    else
        unsetenv("HOME");
    CHECK(cache_open(&options, &cache, NULL) == GRS_OK);
    CHECK(!cache_dir(cache, NULL));
    works_from_memory(cache, home);
    cache_close(cache);
    DIR *here = opendir(".");
    for (struct dirent *at; here && (at = readdir(here));)
        CHECK(!strcmp(at->d_name, ".") || !strcmp(at->d_name, ".."));
    closedir(here);
}

static void test_no_home_and_read_only_root(void **state) {
    (void)state;
    SKIP_UNLESS(may_mount(), needs_mounts);
    run_child(nothing_to_write_to, NULL);
}

static void test_home_is_a_read_only_root(void **state) {
    (void)state;
    SKIP_UNLESS(may_mount(), needs_mounts);
    run_child(nothing_to_write_to, (void *)"/");
}

/* ---------------------------------------------------------------- other people ----------------------------------- */

/* A directory that must not be used, for the reason in `expected`: nothing is read from it and nothing written to it. */
struct bad_dir {
    char *dir;
    const char *expected;
};

static void bad_dir_is_ignored(void *arg) {
    const struct bad_dir *bad = arg;
    struct cache *cache = open_cache(bad->dir);
    const char *why = NULL;
    CHECK(!cache_dir(cache, &why));
    CHECK(strstr(why, bad->expected) && strstr(why, bad->dir));
    works_from_memory(cache, bad->dir);
    CHECK(strstr(shared->log, bad->expected));
    cache_close(cache);
}

/* A cache with the entries that works_from_memory asks for, so that using them would show. */
static char *filled_cache(const char *name) {
    char *dir = path_of(name);
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3"), other = key_of("-O2");
    struct job job = {0};
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(get(cache, &other, &job), GRS_FROM_COMPILER);
    cache_close(cache);
    return dir;
}

static void test_group_writable_directory(void **state) {
    (void)state;
    const mode_t modes[] = {0770, 0720, 0702, 0777, 01777};
    char *dir = filled_cache("cache");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct bad_dir bad = {dir, "can be written by others"};
        shared->warnings = 0;
        assert_int_equal(chmod(dir, modes[i]), 0);
        run_child(bad_dir_is_ignored, &bad);
        assert_int_equal(census_of(dir).entries, 2);
    }
}

static void test_foreign_directory(void **state) {
    (void)state;
    SKIP_UNLESS(is_root(), needs_root);
    struct bad_dir bad = {filled_cache("cache"), "belongs to user 54321"};
    assert_int_equal(chown(bad.dir, STRANGER, STRANGER), 0);
    run_child(bad_dir_is_ignored, &bad);
    assert_int_equal(census_of(bad.dir).entries, 2);
}

static void test_linked_directory(void **state) {
    (void)state;
    char *target = filled_cache("target");
    struct bad_dir bad = {path_of("link"), "symbolic link"};
    assert_int_equal(symlink(target, bad.dir), 0);
    run_child(bad_dir_is_ignored, &bad);
    assert_int_equal(census_of(target).entries, 2);
    bad.dir = path_of("link/"); /* with which the system would follow it */
    shared->warnings = 0;
    struct bad_dir slash = {text_of("%.*s", (int)strlen(bad.dir) - 1, bad.dir), "symbolic link"};
    run_child(bad_dir_is_ignored, &slash);
}

static void test_directory_that_is_a_file(void **state) {
    (void)state;
    struct bad_dir bad = {path_of("file"), "not a directory"};
    write_file(bad.dir, "x", 1);
    run_child(bad_dir_is_ignored, &bad);
    bad.dir = path_of("file/below");
    bad.expected = "Not a directory";
    shared->warnings = 0;
    run_child(bad_dir_is_ignored, &bad);
}

/* An entry that must not be used, in a directory that may: made anew, with one warning, and replaced. */
struct bad_entry {
    char *dir;
    const char *expected;
};

static void bad_entry_is_ignored(void *arg) {
    const struct bad_entry *bad = arg;
    struct cache *cache = open_cache(bad->dir);
    struct cache_key key = key_of("-O3"), other = key_of("-O2");
    struct job job = {0};
    int before = shared->compiles;
    CHECK(!cache_probe(cache, &key));
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
    CHECK(get(cache, &other, &job) == GRS_FROM_DISK);
    CHECK(shared->compiles == before + 1);
    CHECK(shared->warnings == 1);
    CHECK(strstr(shared->log, bad->expected) && strstr(shared->log, entry_path(bad->dir, &key)));
    CHECK(!cache_trouble(cache));
    cache_close(cache);
}

static void test_foreign_entry(void **state) {
    (void)state;
    SKIP_UNLESS(is_root(), needs_root);
    struct bad_entry bad = {filled_cache("cache"), "belongs to user 54321"};
    struct cache_key key = key_of("-O3");
    assert_int_equal(chown(entry_path(bad.dir, &key), STRANGER, STRANGER), 0);
    run_child(bad_entry_is_ignored, &bad);
}

static void test_group_writable_entry(void **state) {
    (void)state;
    struct bad_entry bad = {filled_cache("cache"), "can be written by others"};
    struct cache_key key = key_of("-O3");
    assert_int_equal(chmod(entry_path(bad.dir, &key), 0620), 0);
    run_child(bad_entry_is_ignored, &bad);
}

/* The link's target, a good entry for the very key, is neither used nor touched. */
static void test_linked_entry(void **state) {
    (void)state;
    struct bad_entry bad = {filled_cache("cache"), "symbolic link"};
    struct cache_key key = key_of("-O3");
    const char *path = entry_path(bad.dir, &key), *target = path_of("target");
    struct stat before, after;
    size_t size, now_size;
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(stat(target, &before), 0);
    char *image = read_file(target, &size);
    assert_int_equal(stat(target, &before), 0);
    run_child(bad_entry_is_ignored, &bad);
    assert_int_equal(stat(target, &after), 0);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
    assert_memory_equal(&before.st_atim, &after.st_atim, sizeof before.st_atim);
    assert_true(before.st_ino == after.st_ino && before.st_mode == after.st_mode);
    char *now = read_file(target, &now_size);
    assert_int_equal(now_size, size);
    assert_memory_equal(now, image, size);
    free(now);
    free(image);
}

static void test_entry_that_is_a_fifo(void **state) {
    (void)state;
    struct bad_entry bad = {filled_cache("cache"), "not a regular file"};
    struct cache_key key = key_of("-O3");
    const char *path = entry_path(bad.dir, &key);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    run_child(bad_entry_is_ignored, &bad);
}

/* The directory above the entry is a link, or somebody else's. */
static void bad_fan_is_ignored(void *arg) {
    const struct bad_entry *bad = arg;
    struct cache *cache = open_cache(bad->dir);
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    CHECK(get(cache, &key, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &key, &job) == GRS_FROM_MEMORY);
    CHECK(strstr(shared->log, bad->expected));
    cache_close(cache);
}

static void test_bad_fan_out_directory(void **state) {
    (void)state;
    struct bad_entry bad = {filled_cache("cache"), "symbolic link"};
    struct cache_key key = key_of("-O3");
    char *target = path_of("target");
    char *fan = fan_path(bad.dir, &key);
    assert_int_equal(rename(fan, target), 0);
    assert_int_equal(symlink(target, fan), 0);
    run_child(bad_fan_is_ignored, &bad);
    assert_int_equal(unlink(fan), 0);
    assert_int_equal(rename(target, fan), 0);
    assert_int_equal(chmod(fan, 0777), 0);
    bad.expected = "can be written by others";
    run_child(bad_fan_is_ignored, &bad);
}

/* Root's entries are used by everybody who may read them, but cannot be written. */
static void use_roots(void *arg) {
    become_stranger();
    struct cache *cache = open_cache(arg);
    struct cache_key key = key_of("-O3"), missing = key_of("-O1");
    struct job job = {0};
    CHECK(get(cache, &key, &job) == GRS_FROM_DISK);
    CHECK(shared->warnings == 0);
    CHECK(get(cache, &missing, &job) == GRS_FROM_COMPILER);
    CHECK(get(cache, &missing, &job) == GRS_FROM_MEMORY);
    CHECK(shared->warnings == 1 && strstr(shared->log, "Permission denied"));
    cache_close(cache);
}

static void test_directory_of_root(void **state) {
    (void)state;
    SKIP_UNLESS(is_root(), needs_root);
    char *dir = path_of("cache");
    assert_int_equal(chmod(work, 0755), 0);
    assert_int_equal(mkdir(dir, 0755), 0); /* what is put into it takes its mode from it */
    assert_int_equal(chmod(dir, 0755), 0);
    filled_cache("cache");
    run_child(use_roots, dir);
}

/* ---------------------------------------------------------------- shared directories ----------------------------- */

struct shared_dirs {
    const char *const *dirs;
    const char *expected; /* NULL: the entry is used; else the warning that says why not */
};

static void use_shared(void *arg) {
    const struct shared_dirs *test = arg;
    struct cache_options options = {.dir = path_of("own"), .log = &shared_log};
    struct cache *cache;
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    struct buf list = {0};
    for (int i = 0; test->dirs[i]; i++)
        buf_printf(&list, "%s%s", i ? ":" : "", test->dirs[i]);
    setenv("GRS_CACHE_RO_DIRS", list.data, 1);
    CHECK(cache_open(&options, &cache, NULL) == GRS_OK);
    CHECK(get(cache, &key, &job) == (test->expected ? GRS_FROM_COMPILER : GRS_FROM_DISK));
    CHECK(shared->warnings == (test->expected != NULL));
    CHECK(!test->expected || (strstr(shared->log, test->expected) && strstr(shared->log, "GRS_CACHE_RO_DIRS")));
    CHECK(census_of(options.dir).entries == (test->expected != NULL));
    cache_close(cache);
}

static void test_shared_directories(void **state) {
    (void)state;
    char *one = path_of("empty"), *two = filled_cache("shared"), *own = path_of("own");
    struct cache_key key = key_of("-O3");
    char *entry = entry_path(two, &key);
    struct stat before, after;
    struct shared_dirs good = {(const char *const[]){one, two, NULL}, NULL};
    assert_int_equal(mkdir(one, 0700), 0);
    assert_int_equal(stat(entry, &before), 0);
    run_child(use_shared, &good);
    assert_int_equal(stat(entry, &after), 0);
    assert_memory_equal(&before, &after, sizeof before); /* not even a use is noted */
    assert_int_equal(census_of(one).others + census_of(one).entries, 0);
    assert_int_not_equal(access(path_of("empty/lock"), F_OK), 0);

    struct shared_dirs bad = {(const char *const[]){two, NULL}, "can be written by others"};
    assert_int_equal(chmod(two, 0777), 0);
    run_child(use_shared, &bad);
    remove_tree(own);
    assert_int_equal(chmod(two, 0700), 0);
    assert_int_equal(chmod(entry, 0666), 0);
    shared->warnings = 0;
    run_child(use_shared, &bad);
    remove_tree(own);
    assert_int_equal(chmod(entry, 0600), 0);
    assert_int_equal(truncate(entry, 100), 0);
    bad.expected = "its size is not";
    shared->warnings = 0;
    run_child(use_shared, &bad);
    assert_int_equal(census_of(two).aside, 0); /* nothing is moved where nothing may be written */
    remove_tree(own);
    shared->warnings = 0;
    struct shared_dirs missing = {(const char *const[]){path_of("nowhere"), NULL}, "does not exist"};
    run_child(use_shared, &missing);
}

/* Naming a shared directory is trusting its owner, and nobody else. */
static void test_shared_directory_of_a_colleague(void **state) {
    (void)state;
    SKIP_UNLESS(is_root(), needs_root);
    char *dir = filled_cache("shared"), *own = path_of("own");
    struct cache_key key = key_of("-O3");
    char *entry = entry_path(dir, &key), *fan = fan_path(dir, &key);
    struct shared_dirs good = {(const char *const[]){dir, NULL}, NULL};
    struct shared_dirs bad = {(const char *const[]){dir, NULL}, "belongs to user 54322"};
    assert_int_equal(chown(dir, STRANGER, STRANGER) | chown(fan, STRANGER, STRANGER) | chown(entry, STRANGER, STRANGER),
                     0);
    run_child(use_shared, &good);
    remove_tree(own);
    assert_int_equal(chown(entry, STRANGER + 1, STRANGER), 0);
    run_child(use_shared, &bad);
}

/* ---------------------------------------------------------------- names and locales ------------------------------ */

/* Scenario 8. */
static void test_long_and_odd_names(void **state) {
    (void)state;
    char part[201];
    memset(part, 'x', 200);
    part[200] = 0;
    memcpy(part, " it's \"quoted\" \xc3\xa4\xe2\x82\xac $HOME ; * ", 31);
    char *dir = text_of("%s/%s/%s/%s/cache", work, part, part, part);
    struct cache *cache = open_cache(dir);
    struct cache_key key = key_of("-O3");
    struct job job = {0};
    assert_string_equal(cache_dir(cache, NULL), dir);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    assert_int_equal(get(cache, &key, &job), GRS_FROM_DISK);
    assert_int_equal(census_of(dir).entries, 1);
    assert_int_equal(shared->warnings, 0);
    cache_close(cache);
}

static void name_too_long(void *arg) {
    struct cache *cache = open_cache(arg);
    works_from_memory(cache, arg);
    cache_close(cache);
}

static void test_name_too_long(void **state) {
    (void)state;
    char *part = text_of("%0256d", 0);
    run_child(name_too_long, text_of("%s/%s", work, part));
}

/* A comma for a decimal point and other digits' grouping: names and bytes are the same. */
static void test_comma_locale(void **state) {
    (void)state;
    char *locales = path_of("locales");
    mkdir(locales, 0700);
    int made =
        system(text_of("localedef -i de_DE -f UTF-8 --no-archive '%s/locales/de_DE.UTF-8' >/dev/null 2>&1", work));
    setenv("LOCPATH", locales, 1);
    bool has_comma = made == 0 && setlocale(LC_ALL, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
    unsetenv("LOCPATH");
    if (!has_comma)
        setlocale(LC_ALL, "C");
    SKIP_UNLESS(has_comma, "localedef cannot make de_DE.UTF-8");
    size_t size, plain_size;
    struct job job = {.cubin_size = 1234567};
    struct cache_key key = key_of("-O3");
    char comma[HASH_HEX_LENGTH + 1], plain[HASH_HEX_LENGTH + 1];
    cache_key_digest(&key, comma);
    struct cache *cache = open_cache(path_of("comma"));
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    cache_close(cache);
    setlocale(LC_ALL, "C");
    cache_key_digest(&key, plain);
    cache = open_cache(path_of("plain"));
    assert_int_equal(get(cache, &key, &job), GRS_FROM_COMPILER);
    cache_close(cache);
    assert_string_equal(comma, plain);
    char *with = read_file(entry_path(path_of("comma"), &key), &size);
    char *without = read_file(entry_path(path_of("plain"), &key), &plain_size);
    assert_int_equal(size, plain_size);
    assert_memory_equal(with, without, size);
    free(with);
    free(without);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_full_disk),
        TEST(test_no_inodes),
        TEST(test_file_size_limit),
        TEST(test_read_only_disk),
        TEST(test_no_home_and_read_only_root),
        TEST(test_home_is_a_read_only_root),
        TEST(test_group_writable_directory),
        TEST(test_foreign_directory),
        TEST(test_linked_directory),
        TEST(test_directory_that_is_a_file),
        TEST(test_foreign_entry),
        TEST(test_group_writable_entry),
        TEST(test_linked_entry),
        TEST(test_entry_that_is_a_fifo),
        TEST(test_bad_fan_out_directory),
        TEST(test_directory_of_root),
        TEST(test_shared_directories),
        TEST(test_shared_directory_of_a_colleague),
        TEST(test_long_and_odd_names),
        TEST(test_name_too_long),
        TEST(test_comma_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
