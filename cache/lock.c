#include "cache/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/entry.h"

#define MAKE_BYTES ((off_t)1 << 60)
#define USE_BYTES  ((off_t)1 << 61)

int lock_open(const struct trust_dir *root, grs_error *why) {
    struct stat st;
    int fd;
    return trust_open_file(root, LOCK_FILE_NAME, O_RDWR | O_CREAT, &fd, &st, why) == FOUND ? fd : -1;
}

/* One request for one byte. */
static int request(int fd, int command, off_t byte, short type, struct flock *out) {
    *out = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result;
    do
        result = fcntl(fd, command, out);
    while (result < 0 && errno == EINTR);
    return result;
}

void lock_close(int fd) {
    if (fd < 0)
        return;
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_OFD_SETLK, &all);
    close(fd);
}

static off_t byte_of(const char *name, off_t range) {
    uint8_t digest[16];
    hash_xxh3_128(name, strlen(name), digest);
    return range + (off_t)(entry_get64(digest) >> 4);
}

off_t lock_byte_store(void) {
    return 0;
}

off_t lock_byte_make(const char *name) {
    return byte_of(name, MAKE_BYTES);
}

off_t lock_byte_use(const char *name) {
    return byte_of(name, USE_BYTES);
}

enum lock_result lock_try(int fd, off_t byte, bool exclusive) {
    struct flock lock;
    if (fd < 0)
        return LOCK_UNSUPPORTED;
    if (request(fd, F_OFD_SETLK, byte, exclusive ? F_WRLCK : F_RDLCK, &lock) == 0)
        return LOCK_TAKEN;
    return errno == EAGAIN || errno == EACCES ? LOCK_BUSY : LOCK_UNSUPPORTED;
}

void lock_drop(int fd, off_t byte) {
    struct flock lock;
    if (fd >= 0)
        request(fd, F_OFD_SETLK, byte, F_UNLCK, &lock);
}

enum lock_result lock_wait(int fd, off_t byte, bool exclusive, double seconds) {
    double end = lock_clock() + seconds;
    unsigned calls = 0;
    for (;;) {
        enum lock_result result = lock_try(fd, byte, exclusive);
        if (result != LOCK_BUSY || lock_clock() >= end)
            return result;
        lock_pause(&calls);
    }
}

bool lock_is_held(int fd, off_t byte) {
    struct flock lock;
    return fd >= 0 && request(fd, F_OFD_GETLK, byte, F_WRLCK, &lock) == 0 && lock.l_type != F_UNLCK;
}

double lock_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void lock_pause(unsigned *calls) {
    struct timespec pause = {.tv_nsec = 1000000L << (*calls < 5 ? *calls : 5)};
    ++*calls;
    nanosleep(&pause, NULL);
}
