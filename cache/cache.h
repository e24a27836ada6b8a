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
    const char *dir;            /* NULL: $GRS_CACHE_DIR, $XDG_CACHE_HOME/grs, $HOME/.cache/grs, else memory only */
    const char *const *ro_dirs; /* NULL-terminated or NULL: $GRS_CACHE_RO_DIRS (colon-separated)                 */
    int64_t max_bytes;          /* 0: $GRS_CACHE_MAX (bytes, or with suffix K, M, G), else 2 GiB                 */
    bool memory_only;           /* never touch the disk, the read-only directories included */
    double lock_seconds;        /* 0: 120. How long to wait for another process that compiles the same kernel before
                                  * compiling it here as well; a dead process never holds anybody up            */
    const struct log *log;      /* outlives the cache */
};

/* Everything that can change the code. Texts are borrowed for the duration of a call. */
struct cache_key {
    const char *grs_version; /* "0.1.0"                                              */
    const char *text_digest; /* hex SHA-256 of all emitted text (entry + headers)    */
    const char *compiler_id; /* NVRTC's build id; NULL: none installed: any matches  */
    const char *options;     /* compile options, one a line                          */
    const char *arch;        /* full arch with suffix, "sm_90a"                      */
};

/* What an entry holds. A maker fills it with malloc'ed parts; NULL is an empty text. */
struct cache_entry {
    const char *name; /* lowered kernel name        */
    const char *arch;
    const char *compiler; /* human text: "NVRTC 13.0"   */
    const char *shape;    /* human text: "m 1..512 n 4096 k 2048 tp 4" */
    const char *config;   /* canonical solved config, one `key: value` a line */
    const void *meta;     /* launch metadata, opaque to the cache */
    size_t meta_size;
    const void *cubin;
    size_t cubin_size;
    const char *ptx; /* NUL-terminated beyond its size, like source and log */
    size_t ptx_size;
    const char *source;
    size_t source_size;
    const char *log;
    size_t log_size;

    /* Set by the cache in what it hands out; a maker leaves them zero. */
    char key[HASH_HEX_LENGTH + 1]; /* name of the entry: cache_key_digest of the key that it was made for */
    const char *key_text;          /* every field of that key but the compiler, one `name length:value` a line */
    const char *compiler_id;       /* the key's; "" when it had none */
    void *image;                   /* the block that every part above points into; NULL: each part is malloc'ed */
};

grs_status cache_open(const struct cache_options *options, struct cache **out, grs_error *err);
void cache_close(struct cache *cache);

/* Name of the entry of this key. The first 40 digits are SHA-256 of every field but the compiler (length-prefixed, entry
 * format included), the last 24 SHA-256 of compiler_id (all 0 for NULL): entries that differ in the compiler alone lie
 * side by side. */
void cache_key_digest(const struct cache_key *key, char hex[HASH_HEX_LENGTH + 1]);

/* Look the key up; on a miss take the key's lock (in the process and across processes), look again, and if it is still
 * missing call `make` to produce the entry, which is then published. At most one `make` runs a key: threads that ask for
 * it meanwhile wait and get the same result, the same error included. `*out` is a loaded entry (free with
 * cache_entry_free); `*source` (may be NULL) says where it came from: the compiler for the one caller whose `make` ran,
 * disk, or memory (another thread made it, or it could not be kept on disk). Fails only if `make` fails (its status and
 * error are passed on, and nothing is remembered: the next call makes again) or memory is exhausted. `make` fills
 * `*entry` with malloc'ed parts, which the cache frees whatever `make` returns; name and cubin must not be empty, and
 * arch must be the key's. */
grs_status cache_get(struct cache *cache, const struct cache_key *key,
                     grs_status (*make)(void *arg, struct cache_entry *entry, grs_error *err), void *arg,
                     struct cache_entry **out, grs_source *source, grs_error *err);
void cache_entry_free(struct cache_entry *entry);

/* True when an entry for the key exists and passes every check; loads nothing, makes nothing. */
bool cache_probe(struct cache *cache, const struct cache_key *key);

/* NULL when working from memory only. `why` (may be NULL) receives the reason then, "" otherwise. */
const char *cache_dir(const struct cache *cache, const char **why);

/* NULL while everything this cache was asked to keep is on disk; otherwise why the first of it is not, naming the
 * directory, the reason and the variable to set. Whoever was asked to fill the cache fails with this text. Valid as
 * long as the cache. */
const char *cache_trouble(struct cache *cache);

#endif
