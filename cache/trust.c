#include "cache/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"

#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

static enum found refuse(const struct trust_dir *dir, const char *name, grs_error *why, const char *problem) {
    error_set(why, GRS_ERR_IO, "\"%s%s%s%s\" %s", dir->root, *dir->sub || *name ? "/" : "", dir->sub, name, problem);
    return FOUND_REFUSED;
}

/* Who may own it and who may write it. */
static enum found judge(const struct trust_dir *dir, const char *name, const struct stat *st, grs_error *why) {
    char problem[160];
    uid_t user = geteuid();
    if (st->st_uid != user && st->st_uid != 0 && !(dir->shared && st->st_uid == dir->owner)) {
        snprintf(problem, sizeof problem, "belongs to user %u, neither to user %u nor to root", (unsigned)st->st_uid,
                 (unsigned)user);
        return refuse(dir, name, why, problem);
    }
    if (st->st_mode & OTHERS_WRITE) {
        snprintf(problem, sizeof problem, "can be written by others (mode %04o): chmod go-w would allow it",
                 (unsigned)st->st_mode & 07777);
        return refuse(dir, name, why, problem);
    }
    return FOUND;
}

/* An open failed: say what is there instead. */
static enum found explain(int error, int at, const char *path, const struct trust_dir *dir, const char *name,
                          grs_error *why) {
    struct stat st;
    if (error == ENOENT)
        return FOUND_NOTHING;
    if ((error == ELOOP || error == ENOTDIR) && fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISLNK(st.st_mode))
            return refuse(dir, name, why, "is a symbolic link, which is never followed");
        if (!S_ISDIR(st.st_mode))
            return refuse(dir, name, why, "is not a directory");
    }
    error_set(why, GRS_ERR_IO, "\"%s%s%s%s\": %s", dir->root, *dir->sub || *name ? "/" : "", dir->sub, name,
              strerror(error));
    return FOUND_REFUSED;
}

/* Make every missing directory on the way; 0, or the errno of the first that could not be made. */
static int make_directories(const char *path) {
    char *copy = strdup(path);
    int error = copy ? 0 : ENOMEM;
    for (char *at = copy; at && *at; at++)
        if (at[1] == '/' || !at[1]) {
            char rest = at[1];
            at[1] = 0;
            if (mkdir(copy, 0700) && errno != EEXIST && !error)
                error = errno;
            at[1] = rest;
        }
    free(copy);
    return error;
}

enum found trust_open_root(const char *path, bool shared, bool create, struct trust_dir *out, grs_error *why) {
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;
    *out = (struct trust_dir){.fd = open(path, flags), .root = path, .shared = shared};
    if (out->fd < 0 && errno == ENOENT && create) {
        int error = make_directories(path);
        out->fd = open(path, flags);
        if (out->fd < 0 && errno == ENOENT) {
            error_set(why, GRS_ERR_IO, "\"%s\" cannot be created: %s", path, strerror(error ? error : ENOENT));
            return FOUND_REFUSED;
        }
    }
    if (out->fd < 0)
        return explain(errno, AT_FDCWD, path, out, "", why);
    enum found found = FOUND;
    if (fstat(out->fd, &st)) {
        found = explain(errno, AT_FDCWD, path, out, "", why);
    } else {
        out->owner = st.st_uid;
        out->mode = st.st_mode;
        found = judge(out, "", &st, why);
    }
    if (found != FOUND)
        trust_close(out);
    return found;
}

enum found trust_open_fan(const struct trust_dir *root, const char *name, bool create, struct trust_dir *out,
                          grs_error *why) {
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const char two[3] = {name[0], name[1], 0};
    struct stat st;
    bool made = false;
    *out = *root;
    out->fd = openat(root->fd, two, flags);
    if (out->fd < 0 && errno == ENOENT && create) {
        made = mkdirat(root->fd, two, 0700) == 0;
        if (!made && errno != EEXIST) {
            error_set(why, GRS_ERR_IO, "\"%s/%s\" cannot be created: %s", root->root, two, strerror(errno));
            return FOUND_REFUSED;
        }
        out->fd = openat(root->fd, two, flags);
    }
    if (out->fd < 0)
        return explain(errno, root->fd, two, root, two, why);
    if (made)
        fchmod(out->fd, 0700 | (root->mode & 0055));
    enum found found = FOUND;
    if (fstat(out->fd, &st))
        found = explain(errno, root->fd, two, root, two, why);
    else
        found = judge(root, two, &st, why);
    if (found != FOUND)
        trust_close(out);
    else
        memcpy(out->sub, (char[4]){two[0], two[1], '/', 0}, 4);
    return found;
}

enum found trust_open_file(const struct trust_dir *dir, const char *name, int flags, int *fd, struct stat *st,
                           grs_error *why) {
    /* O_NONBLOCK: a FIFO must not hold us up. O_NOATIME, which only the owner may ask for: the access time of an entry is
     * that of its last use, set explicitly. */
    flags |= O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    mode_t mode = trust_file_mode(dir);
    *fd = openat(dir->fd, name, flags | O_NOATIME, mode);
    if (*fd < 0 && errno == EPERM)
        *fd = openat(dir->fd, name, flags, mode);
    if (*fd < 0)
        return explain(errno, dir->fd, name, dir, name, why);
    enum found found = FOUND;
    if (fstat(*fd, st))
        found = explain(errno, dir->fd, name, dir, name, why);
    else if (!S_ISREG(st->st_mode))
        found = refuse(dir, name, why, "is not a regular file");
    else
        found = judge(dir, name, st, why);
    if (found != FOUND) {
        close(*fd);
        *fd = -1;
    }
    return found;
}

void trust_close(struct trust_dir *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = -1;
}

mode_t trust_file_mode(const struct trust_dir *dir) {
    return 0600 | (dir->mode & 0044);
}
