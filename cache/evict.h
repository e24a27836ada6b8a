/* Keeping a cache directory below its bound. */
#ifndef GRS_CACHE_EVICT_H
#define GRS_CACHE_EVICT_H

#include <stddef.h>
#include <stdint.h>

#include "cache/trust.h"

struct evict_report {
    int64_t bytes, entries; /* what is left, entries in use included */
    int64_t freed;          /* bytes                                  */
    int removed, in_use;    /* entries evicted; entries that could not be because somebody uses them */
    int aside, stale;       /* damaged entries and left-over temporary files removed */
};

/* Remove files of dead writers, and then, damaged entries first and the rest by last use, as many as it takes for
 * `incoming` more bytes to fit below `max_bytes`. `lock_fd` holds the byte of the store (-1: no locks here). `name` and
 * `temporary` are those of the incoming entry: they are neither counted nor removed (NULL: none). False when it cannot
 * fit. */
bool evict_make_room(const struct trust_dir *root, int lock_fd, const char *name, const char *temporary,
                     size_t incoming, int64_t max_bytes, struct evict_report *report);

#endif
