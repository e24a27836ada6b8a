#include "cache/store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/evict.h"
#include "cache/lock.h"
#include "common/error.h"

#define TEMPORARY_PREFIX ".tmp-"
#define ASIDE_SUFFIX     ".damaged"
#define NAME_BYTES       (HASH_HEX_LENGTH + sizeof ASIDE_SUFFIX)
/* A temporary file is locked by its writer, but not in the instant after its creation, and not on every file system. */
#define STALE_SECONDS          60
#define STALE_SECONDS_UNLOCKED 86400
/* Evicting takes milliseconds; whoever holds its lock for longer is stopped, and must not stop others. */
#define STORE_LOCK_SECONDS 10

/* ---------------------------------------------------------------- reading ---------------------------------------- */

static enum found read_all(int fd, size_t size, void **image, const char *file, grs_error *why) {
    char *bytes = malloc(size + 1);
    if (!bytes) {
        error_set(why, GRS_ERR_MEMORY, "out of memory for %zu bytes of \"%s\"", size, file);
        return FOUND_REFUSED;
    }
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            error_set(why, GRS_ERR_IO, "\"%s\": %s", file, got < 0 ? strerror(errno) : "cut while it was read");
            free(bytes);
            return FOUND_REFUSED;
        }
        done += (size_t)got;
    }
    *image = bytes;
    return FOUND;
}

static enum found read_file(const struct trust_dir *root, const char *name, const char *file, bool note_use,
                            void **image, size_t *size, grs_error *why) {
    struct trust_dir fan;
    struct stat st;
    int fd = -1;
    *image = NULL;
    enum found found = trust_open_fan(root, name, false, &fan, why);
    if (found != FOUND)
        return found;
    found = trust_open_file(&fan, file, O_RDONLY, &fd, &st, why);
    if (found != FOUND)
        goto done;
    if (st.st_size < 0 || (size_t)st.st_size > ENTRY_MAX_BYTES) {
        error_set(why, GRS_ERR_IO, "\"%s/%s%s\" is too large for an entry", root->root, fan.sub, file);
        found = FOUND_REFUSED;
        goto done;
    }
    *size = (size_t)st.st_size;
    found = read_all(fd, *size, image, file, why);
    if (found == FOUND && note_use) /* fails where nothing may be written: then nothing is evicted there either */
        futimens(fd, (struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}});
done:
    if (fd >= 0)
        close(fd);
    trust_close(&fan);
    return found;
}

enum found store_load(const struct trust_dir *root, const char *name, void **image, size_t *size, grs_error *why) {
    return read_file(root, name, name, !root->shared, image, size, why);
}

enum found store_read(const struct trust_dir *root, const char *name, const char *file, void **image, size_t *size,
                      grs_error *why) {
    return read_file(root, name, file, false, image, size, why);
}

/* ---------------------------------------------------------------- names ------------------------------------------ */

static bool all_digits(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]) && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    return true;
}

/* What a file of the directory `two` is; false: none of ours. */
static bool classify(const char *two, const char *file, enum store_kind *kind) {
    size_t length = strlen(file), prefix = sizeof TEMPORARY_PREFIX - 1;
    if (!strncmp(file, TEMPORARY_PREFIX, prefix)) {
        *kind = STORE_TEMPORARY;
        return length == prefix + 32 && all_digits(file + prefix, 32);
    }
    if (length < HASH_HEX_LENGTH || !all_digits(file, HASH_HEX_LENGTH) || strncmp(file, two, 2))
        return false;
    *kind = length == HASH_HEX_LENGTH ? STORE_ENTRY : STORE_ASIDE;
    return *kind == STORE_ENTRY || !strcmp(file + HASH_HEX_LENGTH, ASIDE_SUFFIX);
}

/* A stream of the directory's names, which does not close the directory itself. */
static DIR *list(const struct trust_dir *dir) {
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream && fd >= 0)
        close(fd);
    return stream;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **store_match(const struct trust_dir *root, const char *name, size_t digits) {
    struct trust_dir fan;
    char **names = NULL;
    size_t count = 0;
    if (trust_open_fan(root, name, false, &fan, NULL) != FOUND)
        return NULL;
    DIR *stream = list(&fan);
    for (struct dirent *at; stream && (at = readdir(stream));) {
        enum store_kind kind;
        if (!classify(name, at->d_name, &kind) || kind != STORE_ENTRY || strncmp(at->d_name, name, digits))
            continue;
        char **more = realloc(names, (count + 2) * sizeof *names);
        char *copy = strdup(at->d_name);
        if (more)
            names = more;
        if (!more || !copy) {
            free(copy);
            break;
        }
        names[count++] = copy;
        names[count] = NULL;
    }
    if (stream)
        closedir(stream);
    trust_close(&fan);
    if (count)
        qsort(names, count, sizeof *names, by_text); /* so that every rank takes the same one */
    return names;
}

void store_free_names(char **names) {
    for (char **at = names; at && *at; at++)
        free(*at);
    free(names);
}

void store_walk(const struct trust_dir *root,
                void (*visit)(void *arg, const struct trust_dir *fan, const char *file, enum store_kind kind,
                              const struct stat *st),
                void *arg) {
    DIR *outer = list(root);
    for (struct dirent *dir; outer && (dir = readdir(outer));) {
        struct trust_dir fan;
        if (strlen(dir->d_name) != 2 || !all_digits(dir->d_name, 2) ||
            trust_open_fan(root, dir->d_name, false, &fan, NULL) != FOUND)
            continue;
        DIR *inner = list(&fan);
        for (struct dirent *at; inner && (at = readdir(inner));) {
            enum store_kind kind;
            struct stat st;
            if (classify(dir->d_name, at->d_name, &kind) && fstatat(fan.fd, at->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                visit(arg, &fan, at->d_name, kind, &st);
        }
        if (inner)
            closedir(inner);
        trust_close(&fan);
    }
    if (outer)
        closedir(outer);
}

/* ---------------------------------------------------------------- writing ---------------------------------------- */

bool store_is_stale(const struct trust_dir *fan, const char *file, const struct stat *st) {
    double age = difftime(time(NULL), st->st_mtime);
    if (age < STALE_SECONDS)
        return false;
    int fd = openat(fan->fd, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool stale = flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && age > STALE_SECONDS_UNLOCKED);
    close(fd);
    return stale;
}

bool store_move_aside(const struct trust_dir *root, const char *name) {
    struct trust_dir fan;
    char aside[NAME_BYTES];
    if (trust_open_fan(root, name, false, &fan, NULL) != FOUND)
        return false;
    snprintf(aside, sizeof aside, "%s" ASIDE_SUFFIX, name);
    bool moved = renameat(fan.fd, name, fan.fd, aside) == 0;
    trust_close(&fan);
    return moved;
}

/* All of it or an errno. A limit on file sizes (ulimit -f) must give an error like any other, not end the process. */
static int write_all(int fd, const void *data, size_t size) {
    sigset_t limit, old;
    int error = 0;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &old);
    for (const char *at = data; size && !error;) {
        ssize_t put = write(fd, at, size);
        if (put >= 0) {
            at += put;
            size -= (size_t)put;
        } else if (errno != EINTR) {
            error = errno;
        }
    }
    if (error == EFBIG)
        sigtimedwait(&limit, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!error && fsync(fd))
        error = errno;
    return error;
}

/* Remove what dead writers left in this directory; the rest is found when everything is counted. */
static void reap(const struct trust_dir *fan) {
    DIR *stream = list(fan);
    for (struct dirent *at; stream && (at = readdir(stream));) {
        enum store_kind kind;
        struct stat st;
        if (classify(fan->sub, at->d_name, &kind) && kind == STORE_TEMPORARY &&
            fstatat(fan->fd, at->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && store_is_stale(fan, at->d_name, &st))
            unlinkat(fan->fd, at->d_name, 0);
    }
    if (stream)
        closedir(stream);
}

/* A file nobody else has, locked for as long as it is open: whoever finds it unlocked knows that its writer is dead. */
static int create_temporary(const struct trust_dir *fan, char name[NAME_BYTES]) {
    uint8_t random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -1;
    size_t used = (size_t)snprintf(name, NAME_BYTES, TEMPORARY_PREFIX);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(name + used + 2 * i, 3, "%02x", random[i]);
    int fd = openat(fan->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        flock(fd, LOCK_EX | LOCK_NB);
        fchmod(fd, trust_file_mode(fan));
    }
    return fd;
}

/* Make room and rename, under the lock of the store. */
static grs_status place(const struct trust_dir *root, const struct trust_dir *fan, const char *temporary,
                        const char *name, size_t size, int64_t max_bytes, grs_error *why) {
    struct evict_report report;
    grs_status status = GRS_OK;
    int lock_fd = lock_open(root, NULL);
    const struct evict_request request = {
        .lock_fd = lock_fd,
        .locked = lock_wait(lock_fd, lock_byte_store(), true, STORE_LOCK_SECONDS) == LOCK_TAKEN,
        .name = name,
        .temporary = temporary,
        .incoming = size,
        .max_bytes = max_bytes,
    };
    if (!evict_make_room(root, &request, &report))
        status = error_set(
            why, GRS_ERR_IO,
            "an entry of %zu bytes does not fit into the %lld that GRS_CACHE_MAX allows beside %lld that are in "
            "use by running processes",
            size, (long long)max_bytes, (long long)report.bytes);
    else if (renameat(fan->fd, temporary, fan->fd, name))
        status = error_set(why, GRS_ERR_IO, "\"%s/%s%s\": %s", root->root, fan->sub, name, strerror(errno));
    lock_close(lock_fd);
    return status;
}

grs_status store_publish(const struct trust_dir *root, const char *name, const void *image, size_t size,
                         int64_t max_bytes, grs_error *why) {
    struct trust_dir fan;
    char temporary[NAME_BYTES];
    grs_status status = GRS_OK;
    if (trust_open_fan(root, name, true, &fan, why) != FOUND)
        return GRS_ERR_IO;
    reap(&fan);
    int fd = create_temporary(&fan, temporary);
    if (fd < 0) {
        status =
            error_set(why, GRS_ERR_IO, "cannot create a file in \"%s/%.2s\": %s", root->root, name, strerror(errno));
        goto done;
    }
    int error = write_all(fd, image, size);
    if (error)
        status = error_set(why, GRS_ERR_IO, "cannot write %zu bytes: %s", size, strerror(error));
    else
        status = place(root, &fan, temporary, name, size, max_bytes, why);
    if (status != GRS_OK)
        unlinkat(fan.fd, temporary, 0);
    else
        fsync(fan.fd); /* the entry is there and whole; should its name not survive a crash, it is made again */
    close(fd);
done:
    trust_close(&fan);
    return status;
}
