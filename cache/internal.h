/* What the files of the cache share. */
#ifndef GRS_CACHE_INTERNAL_H
#define GRS_CACHE_INTERNAL_H

#include "cache/cache.h"
#include "cache/flight.h"
#include "cache/settings.h"

/* An entry that could not be kept on disk. */
struct kept {
    struct kept *next;
    char name[HASH_HEX_LENGTH + 1];
    void *image;
    size_t size;
};

struct cache {
    struct settings settings;
    double lock_seconds;
    const struct log *log;
    struct flights flights; /* its mutex guards what follows as well */
    struct kept *kept;
    int use_fd; /* a lock file through which the bytes of the entries in use are held; -1: not open */
    char *trouble;
};

/* One key on its way through the cache. */
struct request {
    struct cache *cache;
    char *text;              /* of the key, without the compiler               */
    const char *compiler_id; /* NULL: any will do                              */
    bool uses;               /* what is found is in use until the cache closes */
    char name[HASH_HEX_LENGTH + 1];
};

enum look {
    LOOK_HIT = 0,
    LOOK_ABSENT,
    LOOK_REFUSED,      /* there is something that may not be used            */
    LOOK_DAMAGED,      /* there is a file that is not the entry it should be */
    LOOK_OTHER_FORMAT, /* there is an entry for an older or newer grs        */
};

/* Look in the directory that is written, in the shared ones, and among what could not be kept on disk. On a hit *out is
 * the caller's (cache_entry_free). lookup_main says what is wrong with what it finds; lookup_shared warns by itself. */
enum look lookup_main(const struct request *request, struct cache_entry **out, grs_error *why);
bool lookup_shared(const struct request *request, struct cache_entry **out);
bool lookup_memory(const struct request *request, struct cache_entry **out);

/* Tells those who debug where an entry was found. */
void cache_say_hit(const struct request *request, const char *dir, const struct cache_entry *entry);

/* Keep a copy for the life of the cache. */
void lookup_keep(struct cache *cache, const char *name, const void *image, size_t size);

/* An entry around an image, which it owns from then on, also on failure; NULL when the image is no intact entry. */
struct cache_entry *lookup_entry_from(void *image, size_t size);
void *lookup_copy(const void *image, size_t size);

/* A warning, once a cause (a static text) and process; after that the same for those who debug. */
void cache_complain(struct cache *cache, const char *cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
