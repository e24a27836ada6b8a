/* The on-disk kernel cache: what the rest of the library sees of it. docs/cache.md specifies the entry format.
 *
 * A cache is opened once a context. All calls are safe from any thread. A missing, damaged or unusable cache is never an
 * error of cache_open or cache_get: the cache then works from memory only and says why, once, through the log. */
#ifndef GRS_CACHE_H
#define GRS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/hash.h"
#include "common/log.h"
#include "grs.h"

struct cache; /* opaque */

struct cache_options {
    const char *dir;             /* NULL: $GRS_CACHE_DIR, $XDG_CACHE_HOME/grs, $HOME/.cache/grs, else memory only */
    const char *const *ro_dirs;  /* NULL-terminated or NULL: $GRS_CACHE_RO_DIRS (colon-separated)                 */
    int64_t max_bytes;           /* 0: $GRS_CACHE_MAX (bytes, or with suffix K, M, G), else 2 GiB                 */
    bool memory_only;
    const struct log *log;       /* outlives the cache */
};

/* Everything that can change the code. Texts are borrowed for the duration of a call. */
struct cache_key {
    const char *grs_version;  /* "0.1.0"                                              */
    const char *text_digest;  /* hex SHA-256 of all emitted text (entry + headers)    */
    const char *compiler_id;  /* NVRTC's build id; NULL: none installed: any matches  */
    const char *options;      /* compile options, one a line                          */
    const char *arch;         /* full arch with suffix, "sm_90a"                      */
};

/* What an entry holds. Blobs are owned by the entry. */
struct cache_entry {
    const char *name;         /* lowered kernel name        */
    const char *arch;
    const char *compiler;     /* human text: "NVRTC 13.0"   */
    const char *shape;        /* human text: "m 1..512 n 4096 k 2048 tp 4" */
    const char *config;       /* canonical solved config, one `key: value` a line */
    const void *meta;         /* launch metadata, opaque to the cache */
    size_t meta_size;
    const void *cubin;
    size_t cubin_size;
    const char *ptx;          /* NUL-terminated beyond its size, like source and log */
    size_t ptx_size;
    const char *source;
    size_t source_size;
    const char *log;
    size_t log_size;
};

grs_status cache_open(const struct cache_options *options, struct cache **out, grs_error *err);
void cache_close(struct cache *cache);

/* Name of the entry of this key: hex SHA-256 over length-prefixed fields, entry format included. */
void cache_key_digest(const struct cache_key *key, char hex[HASH_HEX_LENGTH + 1]);

/* Look the key up; on a miss take the key's lock (in the process and across processes), look again, and if it is still
 * missing call `make` to produce the entry, which is then published. At most one `make` runs a key. `*out` is a loaded
 * entry (free with cache_entry_free); `*source` says where it came from. Fails only if `make` fails (its status and
 * error are passed on) or memory is exhausted. `make` fills `*entry` with malloc'ed parts that the cache then owns. */
grs_status cache_get(struct cache *cache, const struct cache_key *key,
                     grs_status (*make)(void *arg, struct cache_entry *entry, grs_error *err), void *arg,
                     struct cache_entry **out, grs_source *source, grs_error *err);
void cache_entry_free(struct cache_entry *entry);

/* True when an entry for the key exists and passes every check; loads nothing, makes nothing. */
bool cache_probe(struct cache *cache, const struct cache_key *key);

/* NULL when working from memory only. `why` (may be NULL) receives the reason then, "" otherwise. */
const char *cache_dir(const struct cache *cache, const char **why);

#endif
