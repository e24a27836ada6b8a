/* What people do to a cache directory: look at everything in it, clean it up, empty it. */
#ifndef GRS_CACHE_ADMIN_H
#define GRS_CACHE_ADMIN_H

#include "cache/cache.h"
#include "cache/evict.h"
#include "cache/store.h"

enum admin_state {
    ADMIN_INTACT = 0,
    ADMIN_DAMAGED,      /* fails a check, or lies under another entry's name           */
    ADMIN_OTHER_FORMAT, /* whole, for an older or newer grs                            */
    ADMIN_REFUSED,      /* may not be used (owner, mode, no regular file), or unreadable */
};

struct admin_item {
    const char *dir, *file; /* the cache directory, and the name of the file in dir/ab/ */
    enum store_kind kind;
    enum admin_state state;          /* of an entry; temporary and moved-aside files are not read */
    const char *why;                 /* "" when intact                                            */
    const struct cache_entry *entry; /* NULL unless intact                                   */
    int64_t size;
    time_t made, used;
    bool in_use; /* by a process that runs now                                */
};

/* Call `visit` for every file of the cache in `dir`, in no order; what it gets is valid during the call. No file at all
 * when the directory does not exist. GRS_ERR_IO when it may not be used. */
grs_status admin_walk(const char *dir, bool shared, void (*visit)(void *arg, const struct admin_item *item), void *arg,
                      grs_error *err);

/* Remove damaged entries, those that were moved aside, files of dead writers, and the least recently used beyond
 * `max_bytes`. */
grs_status admin_prune(const char *dir, int64_t max_bytes, struct evict_report *report, grs_error *err);

/* Remove every entry, those in use included: whoever uses them has them in memory. */
grs_status admin_clear(const char *dir, struct evict_report *report, grs_error *err);

#endif
