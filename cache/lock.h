/* Advisory locks across processes: single bytes of one file, `lock` in the cache directory, which is never removed. A byte
 * is locked through an open file description, so threads exclude one another as well, and the kernel drops the lock when
 * its holder dies. Where the file system has no locks, everything goes on without: work may then be done twice. */
#ifndef GRS_CACHE_LOCK_H
#define GRS_CACHE_LOCK_H

#include <sys/types.h>

#include "cache/trust.h"

#define LOCK_FILE_NAME "lock"

enum lock_result { LOCK_TAKEN = 0, LOCK_BUSY, LOCK_UNSUPPORTED };

/* The lock file of a directory, made if need be; -1 when there can be none: `why` says why. Every call gives a holder of its own. */
int lock_open(const struct trust_dir *root, grs_error *why);
void lock_close(int fd); /* -1 is fine; drops what it holds, also when a forked child still has the file open */

/* Which byte. Names whose bytes coincide only wait for one another in vain. */
off_t lock_byte_store(void);            /* evicting and publishing: one process at a time */
off_t lock_byte_make(const char *name); /* making the entry of this name                  */
off_t lock_byte_use(const char *name);  /* shared by those that use it; exclusive: removing it */

enum lock_result lock_try(int fd, off_t byte, bool exclusive);
void lock_drop(int fd, off_t byte);
/* Poll for it for up to `seconds`. */
enum lock_result lock_wait(int fd, off_t byte, bool exclusive, double seconds);
/* True when another holder has the byte, shared or exclusive. */
bool lock_is_held(int fd, off_t byte);

/* Seconds of a clock that only goes forward, and a pause that grows from 1 to 32 ms with each call. */
double lock_clock(void);
void lock_pause(unsigned *calls);

#endif
