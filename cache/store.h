/* A cache directory on disk: DIR/ab/<64 digits> is an entry, with .damaged behind it one that was moved aside, and
 * DIR/ab/.tmp-<32 digits> one that is being written. Bytes only: what they mean is entry.h's. */
#ifndef GRS_CACHE_STORE_H
#define GRS_CACHE_STORE_H

#include <stddef.h>
#include <sys/stat.h>

#include "cache/trust.h"
#include "common/hash.h"
#include "grs.h"

/* The bytes of the entry of this name; free *image. A use is noted in the file's access time unless the directory is
 * shared. FOUND_REFUSED: not a file that may be trusted, or it cannot be read. */
enum found store_load(const struct trust_dir *root, const char *name, void **image, size_t *size, grs_error *why);

/* The same, whatever the file is called (an entry moved aside, for one), and no use is noted. */
enum found store_read(const struct trust_dir *root, const char *name, const char *file, void **image, size_t *size,
                      grs_error *why);

/* Names of entries that start with the same `digits` as `name`, in order; free with store_free_names. NULL: none. */
char **store_match(const struct trust_dir *root, const char *name, size_t digits);
void store_free_names(char **names);

/* Write an entry: temporary file, fsync, room made for it below `max_bytes`, rename, fsync of the directory. What was
 * there under this name is replaced. GRS_ERR_IO: nothing is left behind and `why` says what is to be changed. */
grs_status store_publish(const struct trust_dir *root, const char *name, const void *image, size_t size,
                         int64_t max_bytes, grs_error *why);

/* Rename a damaged entry so that it is out of the way; the caller holds the lock of its name. */
bool store_move_aside(const struct trust_dir *root, const char *name);

enum store_kind { STORE_ENTRY = 0, STORE_ASIDE, STORE_TEMPORARY };

/* Call `visit` for every file that is the cache's. `fan` is open during the call, `file` is its name in it. */
void store_walk(const struct trust_dir *root,
                void (*visit)(void *arg, const struct trust_dir *fan, const char *file, enum store_kind kind,
                              const struct stat *st),
                void *arg);

/* True when the temporary file belongs to nobody any more: its writer is dead. */
bool store_is_stale(const struct trust_dir *fan, const char *file, const struct stat *st);

#endif
