#include "cache/usage.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALID_SECONDS 86400

/* 20 digits and what must follow them; -1: something else is there. */
static int64_t read_number(const char *text, char end) {
    int64_t value = 0;
    for (int i = 0; i < 20; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value))
            return -1;
    return text[20] == end ? value : -1;
}

bool usage_read(const struct trust_dir *root, struct usage *out) {
    char text[USAGE_FILE_BYTES + 1];
    struct stat st;
    int fd;
    if (trust_open_file(root, USAGE_FILE_NAME, O_RDONLY, &fd, &st, NULL) != FOUND)
        return false;
    bool whole = read(fd, text, sizeof text) == USAGE_FILE_BYTES;
    close(fd);
    if (!whole)
        return false;
    out->bytes = read_number(text, ' ');
    out->counted = read_number(text + 21, '\n');
    int64_t age = (int64_t)time(NULL) - out->counted;
    return out->bytes >= 0 && out->counted >= 0 && age >= 0 && age < VALID_SECONDS;
}

void usage_write(const struct trust_dir *root, const struct usage *usage) {
    char text[64];
    struct stat st;
    int fd;
    snprintf(text, sizeof text, "%020" PRId64 " %020" PRId64 "\n", usage->bytes, usage->counted);
    if (trust_open_file(root, USAGE_FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC, &fd, &st, NULL) != FOUND)
        return usage_forget(root);
    bool written = write(fd, text, USAGE_FILE_BYTES) == USAGE_FILE_BYTES;
    written &= close(fd) == 0;
    if (!written)
        usage_forget(root);
}

void usage_forget(const struct trust_dir *root) {
    unlinkat(root->fd, USAGE_FILE_NAME, 0);
}
