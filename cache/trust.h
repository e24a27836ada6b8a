/* Opening directories and files that may hold code to run. Nothing is followed through a symbolic link, everything must
 * belong to the user or to root and be writable by nobody else; a shared directory, which somebody named explicitly, may
 * belong to any one user, and so may what lies in it. */
#ifndef GRS_CACHE_TRUST_H
#define GRS_CACHE_TRUST_H

#include <stdbool.h>
#include <sys/stat.h>

#include "grs.h"

enum found {
    FOUND = 0,
    FOUND_NOTHING, /* does not exist                                                                */
    FOUND_REFUSED, /* exists and may not be used, or cannot be reached: the error slot says why     */
};

struct trust_dir {
    int fd;           /* -1: not open                                                               */
    const char *root; /* path of the cache directory, borrowed                                      */
    char sub[4];      /* "" for the root, else "ab/": for messages                                  */
    uid_t owner;      /* of the root: may own what lies in it                                       */
    mode_t mode;      /* of the root: what is created in it is readable by whoever may read the root */
    bool shared;      /* never written                                                              */
};

/* The cache directory; with `create` it and its parents are made (mode 0700). Close with trust_close. */
enum found trust_open_root(const char *path, bool shared, bool create, struct trust_dir *out, grs_error *why);

/* The directory named by the first two digits of `name` in it; with `create` it is made. */
enum found trust_open_fan(const struct trust_dir *root, const char *name, bool create, struct trust_dir *out,
                          grs_error *why);

/* A regular file for reading, its times unchanged by that; `flags` are added (O_RDWR, O_CREAT). */
enum found trust_open_file(const struct trust_dir *dir, const char *name, int flags, int *fd, struct stat *st,
                           grs_error *why);

void trust_close(struct trust_dir *dir);

/* Modes for what is created in a directory. */
mode_t trust_file_mode(const struct trust_dir *dir);

#endif
