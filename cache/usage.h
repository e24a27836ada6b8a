/* How much lies in a cache directory, remembered in the file `size` so that publishing an entry need not look at all the
 * others. Read and written under the lock of the store. Never too small but for files that were put there by hand, which is
 * why it expires; what cannot be read counts as not known. */
#ifndef GRS_CACHE_USAGE_H
#define GRS_CACHE_USAGE_H

#include <stdint.h>

#include "cache/trust.h"

#define USAGE_FILE_NAME  "size"
#define USAGE_FILE_BYTES 42 /* two numbers of 20 digits: bytes, and when they were last counted (seconds since 1970) */

struct usage {
    int64_t bytes, counted;
};

/* False: not known, or counted more than a day ago. */
bool usage_read(const struct trust_dir *root, struct usage *out);

/* On failure it is forgotten. */
void usage_write(const struct trust_dir *root, const struct usage *usage);
void usage_forget(const struct trust_dir *root);

#endif
