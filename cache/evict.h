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

/* Make `incoming` more bytes fit below `max_bytes`: damaged entries go first, and then the others by last use, never one in
 * use. Files of dead writers go as well. `name` and `temporary` are those of the incoming entry: they are neither counted
 * nor removed (NULL: none). False when it cannot fit.
 *
 * `lock_fd` is the lock file; `locked` says that it holds the byte of the store. Then what the directory holds is
 * remembered, and as long as that is far enough from the bound nothing is looked at (`count`: look all the same). */
struct evict_request {
    int lock_fd;
    bool locked, count;
    const char *name, *temporary;
    size_t incoming;
    int64_t max_bytes;
};
bool evict_make_room(const struct trust_dir *root, const struct evict_request *request, struct evict_report *report);

#endif
