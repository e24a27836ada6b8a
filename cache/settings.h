/* Where the cache is and how large it may grow: options first, then the environment. */
#ifndef GRS_CACHE_SETTINGS_H
#define GRS_CACHE_SETTINGS_H

#include "cache/cache.h"

struct settings {
    char *dir;      /* absolute, without trailing slash; NULL: memory only   */
    char *why;      /* why dir is NULL, or "" where that was asked for       */
    char **ro_dirs; /* NULL-terminated, absolute; NULL: none                 */
    int64_t max_bytes;
};

/* Fails only without memory. A value that makes no sense is warned about, by the variable's name, and counts as unset. */
grs_status settings_resolve(const struct cache_options *options, struct settings *out, grs_error *err);
void settings_free(struct settings *settings);

/* "4096", "64K", "512M", "2G" or "1T" (powers of 1024); false for anything else, 0 included. */
bool settings_parse_size(const char *text, int64_t *out);

#endif
