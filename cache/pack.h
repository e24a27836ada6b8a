/* One file of many entries, to carry them to other machines. docs/cache.md specifies it. */
#ifndef GRS_CACHE_PACK_H
#define GRS_CACHE_PACK_H

#include "cache/cache.h"

struct pack_report {
    int entries;   /* in the file                                   */
    int present;   /* unpacking: of those, how many were there already */
    int64_t bytes; /* of the file                                  */
};

/* Write the entries of these names (in `dirs`, a NULL-terminated list whose first is the own directory, the rest shared
 * ones; the first that has it counts) to `file`, which is replaced only when all of it is written. Refuses names that are
 * nowhere, and entries that are damaged or not of this format. */
grs_status pack_write(const char *file, const char *const *dirs, const char *const *names, size_t count,
                      struct pack_report *report, grs_error *err);

/* Check all of `file`, and only then publish its entries into `dir`, which is made if need be. Refuses a file or an entry
 * that is damaged or of another format, and then publishes nothing. */
grs_status pack_read(const char *file, const char *dir, int64_t max_bytes, struct pack_report *report, grs_error *err);

#endif
