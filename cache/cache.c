#include "cache/cache.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/internal.h"
#include "cache/key.h"
#include "cache/lock.h"
#include "cache/store.h"
#include "common/error.h"

#define DEFAULT_LOCK_SECONDS 120

/* ---------------------------------------------------------------- what goes wrong -------------------------------- */

void cache_complain(struct cache *cache, const char *cause, const char *format, ...) {
    char *line = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&line, format, args);
    va_end(args);
    if (length >= 0 && !log_once(cache->log, GRS_LOG_WARN, cause, "%s", line))
        log_write(cache->log, GRS_LOG_DEBUG, "%s", line);
    if (length >= 0)
        free(line);
}

/* What was asked for is not on disk. The first reason is kept for whoever was asked to fill the cache. */
static void not_kept(struct cache *cache, const char *cause, const char *where, const char *reason) {
    struct buf text = {0};
    buf_printf(&text,
               "kernel cache%s%s%s: %s. Kernels are kept in memory only and compiled again by every process: set "
               "GRS_CACHE_DIR to a directory that is yours, can be written and has room",
               where ? " \"" : "", where ? where : "", where ? "\"" : "", reason);
    char *line = buf_take(&text);
    if (!line)
        return;
    cache_complain(cache, cause, "%s", line);
    pthread_mutex_lock(&cache->flights.mutex);
    if (!cache->trouble) {
        cache->trouble = line;
        line = NULL;
    }
    pthread_mutex_unlock(&cache->flights.mutex);
    free(line);
}

/* ---------------------------------------------------------------- opening ---------------------------------------- */

/* Make the directory now, so that what is wrong with it is known before anything is compiled. */
static void check_dir(struct cache *cache) {
    struct trust_dir root;
    grs_error why;
    if (cache->settings.dir && trust_open_root(cache->settings.dir, false, true, &root, &why) == FOUND)
        trust_close(&root);
    else if (cache->settings.dir) {
        free(cache->settings.dir);
        cache->settings.dir = NULL;
        cache->settings.why = strdup(why.text);
    }
    if (!cache->settings.dir && (!cache->settings.why || *cache->settings.why))
        not_kept(cache, "cache: directory", NULL, cache->settings.why ? cache->settings.why : "out of memory");
}

/* Shared directories that may not be used are dropped; one that is not there may come (it may be mounted on demand). */
static void check_ro_dirs(struct cache *cache) {
    char **kept = cache->settings.ro_dirs;
    for (char **dir = kept; dir && *dir; dir++) {
        struct trust_dir root;
        grs_error why;
        enum found found = trust_open_root(*dir, true, false, &root, &why);
        if (found == FOUND)
            trust_close(&root);
        if (found == FOUND_NOTHING)
            error_set(&why, GRS_ERR_IO, "\"%s\" does not exist", *dir);
        if (found != FOUND)
            cache_complain(cache, "cache: shared directory", "a directory of GRS_CACHE_RO_DIRS is ignored: %s",
                           why.text);
        if (found == FOUND_REFUSED)
            free(*dir);
        else
            *kept++ = *dir;
    }
    if (kept)
        *kept = NULL;
}

grs_status cache_open(const struct cache_options *options, struct cache **out, grs_error *err) {
    *out = NULL;
    struct cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the kernel cache");
    grs_status status = settings_resolve(options, &cache->settings, err);
    if (status != GRS_OK) {
        free(cache);
        return status;
    }
    cache->lock_seconds = options->lock_seconds > 0 ? options->lock_seconds : DEFAULT_LOCK_SECONDS;
    cache->log = options->log;
    cache->use_fd = -1;
    flights_init(&cache->flights);
    check_dir(cache);
    check_ro_dirs(cache);
    log_write(cache->log, GRS_LOG_DEBUG,
              cache->settings.dir ? "kernel cache: %s, up to %lld MiB" : "kernel cache: in memory only%s",
              cache->settings.dir ? cache->settings.dir : "", (long long)(cache->settings.max_bytes >> 20));
    *out = cache;
    return GRS_OK;
}

void cache_close(struct cache *cache) {
    if (!cache)
        return;
    flights_destroy(&cache->flights);
    if (cache->use_fd >= 0)
        close(cache->use_fd); /* not unlocked: a forked process may go on using the entries */
    for (struct kept *kept = cache->kept, *next; kept; kept = next) {
        next = kept->next;
        free(kept->image);
        free(kept);
    }
    settings_free(&cache->settings);
    free(cache->trouble);
    free(cache);
}

const char *cache_dir(const struct cache *cache, const char **why) {
    if (why)
        *why = cache->settings.why ? cache->settings.why : "";
    return cache->settings.dir;
}

const char *cache_trouble(struct cache *cache) {
    pthread_mutex_lock(&cache->flights.mutex);
    const char *trouble = cache->trouble;
    pthread_mutex_unlock(&cache->flights.mutex);
    return trouble;
}

typedef grs_status maker(void *arg, struct cache_entry *entry, grs_error *err);

/* ---------------------------------------------------------------- getting ---------------------------------------- */

static bool request_init(struct request *request, struct cache *cache, const struct cache_key *key, bool uses) {
    struct buf text = {0};
    *request = (struct request){.cache = cache, .uses = uses};
    key_text(key, &text);
    request->text = buf_take(&text);
    request->compiler_id = key->compiler_id && *key->compiler_id ? key->compiler_id : NULL;
    if (request->text)
        key_name(request->text, request->compiler_id, request->name);
    return request->text != NULL;
}

void cache_say_hit(const struct request *request, const char *dir, const struct cache_entry *entry) {
    log_write(request->cache->log, GRS_LOG_DEBUG, "kernel cache: hit: \"%s/%.2s/%s\"%s%s", dir, entry->key, entry->key,
              request->compiler_id ? "" : ", whatever compiled it, since there is no NVRTC here: ",
              request->compiler_id ? "" : entry->compiler);
}

/* Why nothing was found, for those who debug; what is refused, damaged or of another format says so by itself. */
static void say_miss(const struct request *request, enum look look) {
    const char *dir = request->cache->settings.dir, *name = request->name;
    const struct log *log = request->cache->log;
    struct trust_dir root;
    if (look != LOOK_ABSENT || !log || log->level < GRS_LOG_DEBUG)
        return;
    if (!dir) {
        log_write(log, GRS_LOG_DEBUG, "kernel cache: miss: %s is not in memory, and there is no directory", name);
        return;
    }
    int others = 0; /* of the same text, options and arch */
    if (request->compiler_id && trust_open_root(dir, false, false, &root, NULL) == FOUND) {
        char **names = store_match(&root, name, KEY_BASE_DIGITS);
        while (names && names[others])
            others++;
        store_free_names(names);
        trust_close(&root);
    }
    if (others)
        log_write(
            log, GRS_LOG_DEBUG,
            "kernel cache: miss: \"%s/%.2s/%s\" is not there; %d entr%s of this kernel %s made by another compiler",
            dir, name, name, others, others == 1 ? "y" : "ies", others == 1 ? "was" : "were");
    else
        log_write(log, GRS_LOG_DEBUG,
                  "kernel cache: miss: \"%s/%.2s/%s\" is not there, nor is this kernel by another compiler", dir, name,
                  name);
}

/* The lock of the request's name, unless the entry appears while we wait for it: then true. *lock_fd is -1 when there is
 * no lock to be had. */
static bool wait_for_turn(const struct request *request, struct flight *flight, int *lock_fd,
                          struct cache_entry **out) {
    struct cache *cache = request->cache;
    struct trust_dir root;
    grs_error why;
    *lock_fd = -1;
    if (!cache->settings.dir || trust_open_root(cache->settings.dir, false, true, &root, &why) != FOUND)
        return false;
    *lock_fd = lock_open(&root, &why);
    trust_close(&root);
    flight_note_lock(&cache->flights, flight, *lock_fd);
    if (*lock_fd < 0)
        log_write(cache->log, GRS_LOG_DEBUG, "kernel cache: compiling without a lock: %s", why.text);
    double end = lock_clock() + cache->lock_seconds;
    unsigned pauses = 0;
    bool said = false;
    while (lock_try(*lock_fd, lock_byte_make(request->name), true) == LOCK_BUSY) {
        if (!said)
            log_write(cache->log, GRS_LOG_DEBUG, "kernel cache: another process compiles %s: waiting for it",
                      request->name);
        said = true;
        if (lookup_main(request, out, &why) == LOOK_HIT)
            return true;
        if (lock_clock() >= end) {
            cache_complain(
                cache, "cache: lock",
                "kernel cache \"%s\": another process has been compiling the same kernel for %.0f s; compiling "
                "it here as well",
                cache->settings.dir, cache->lock_seconds);
            break;
        }
        lock_pause(&pauses);
    }
    return false;
}

/* Put an entry on disk, or else keep it in memory. `occupied`: another version's entry has its name. */
static void keep(const struct request *request, bool occupied, const void *image, size_t size) {
    struct cache *cache = request->cache;
    const char *dir = cache->settings.dir;
    struct trust_dir root;
    grs_error why;
    grs_status status = GRS_ERR_IO;
    if (dir && occupied)
        error_set(&why, GRS_ERR_IO, "the name of the entry is taken by one of another format");
    else if (dir && trust_open_root(dir, false, true, &root, &why) == FOUND) {
        status = store_publish(&root, request->name, image, size, cache->settings.max_bytes, &why);
        trust_close(&root);
    }
    if (status == GRS_OK)
        return;
    if (dir)
        not_kept(cache, "cache: publish", dir, why.text);
    lookup_keep(cache, request->name, image, size);
}

/* What is at the request's name, seen under its lock, is not for us: say so once, and put what is damaged out of the way. */
static void clear_place(const struct request *request, enum look look, const grs_error *why) {
    struct cache *cache = request->cache;
    const char *dir = cache->settings.dir, *name = request->name;
    struct trust_dir root;
    if (look == LOOK_REFUSED)
        cache_complain(cache, "cache: refused", "kernel cache entry ignored, the kernel is compiled again: %s",
                       why->text);
    if (look == LOOK_OTHER_FORMAT)
        log_write(cache->log, GRS_LOG_INFO, "kernel cache entry \"%s/%.2s/%s\" left alone: %s", dir, name, name,
                  why->text);
    if (look != LOOK_DAMAGED || trust_open_root(dir, false, false, &root, NULL) != FOUND)
        return;
    bool moved = store_move_aside(&root, name);
    trust_close(&root);
    cache_complain(cache, "cache: damaged",
                   "kernel cache entry \"%s/%.2s/%s\" is damaged: %s. %s, and the kernel is compiled again", dir, name,
                   name, why->text, moved ? "It was moved aside" : "It could not be moved aside");
}

/* Look again under the lock, and make what is still missing. */
static grs_status look_or_make(const struct request *request, maker *make, void *arg, struct cache_entry **out,
                               grs_source *source, grs_error *err) {
    struct cache_entry made = {0};
    void *image = NULL;
    size_t size = 0;
    grs_error why;
    enum look look = lookup_main(request, out, &why);
    if (look == LOOK_HIT) {
        *source = GRS_FROM_DISK;
        return GRS_OK;
    }
    say_miss(request, look);
    clear_place(request, look, &why);
    grs_status status = make(arg, &made, err);
    if (status == GRS_OK)
        status = entry_encode(&made, request->text, request->compiler_id, &image, &size, err);
    entry_free_parts(&made);
    if (status != GRS_OK)
        return status;
    keep(request, look == LOOK_OTHER_FORMAT, image, size);
    *source = GRS_FROM_COMPILER;
    *out = lookup_entry_from(image, size);
    return *out ? GRS_OK : error_set(err, GRS_ERR_MEMORY, "out of memory for a cache entry");
}

/* As the leader of its flight. */
static grs_status lead(const struct request *request, struct flight *flight, maker *make, void *arg,
                       struct cache_entry **out, grs_source *source, grs_error *err) {
    struct cache *cache = request->cache;
    grs_error why;
    grs_status status = GRS_OK;
    int lock_fd = -1;
    *source = GRS_FROM_MEMORY;
    if (lookup_memory(request, out)) {
        log_write(cache->log, GRS_LOG_DEBUG, "kernel cache: hit: %s is in memory, since it could not be kept on disk",
                  request->name);
        return GRS_OK;
    }
    *source = GRS_FROM_DISK;
    if (lookup_main(request, out, &why) == LOOK_HIT) {
        cache_say_hit(request, cache->settings.dir, *out);
        return GRS_OK;
    }
    if (lookup_shared(request, out))
        return GRS_OK;
    if (!wait_for_turn(request, flight, &lock_fd, out))
        status = look_or_make(request, make, arg, out, source, err);
    if (status == GRS_OK && *source == GRS_FROM_DISK) /* by another process, meanwhile */
        cache_say_hit(request, cache->settings.dir, *out);
    flight_note_lock(&cache->flights, flight, -1);
    lock_close(lock_fd);
    return status;
}

grs_status cache_get(struct cache *cache, const struct cache_key *key,
                     grs_status (*make)(void *arg, struct cache_entry *entry, grs_error *err), void *arg,
                     struct cache_entry **out, grs_source *source, grs_error *err) {
    struct request request;
    struct flight *flight;
    grs_error error;
    grs_source from = GRS_FROM_MEMORY;
    grs_status status;
    *out = NULL;
    error_clear(&error);
    if (!request_init(&request, cache, key, true))
        return error_set(err, GRS_ERR_MEMORY, "out of memory for a key of the kernel cache");
    bool leads = flight_join(&cache->flights, request.name, &flight);
    if (!flight) {
        status = error_set(&error, GRS_ERR_MEMORY, "out of memory for a key of the kernel cache");
    } else if (leads) {
        status = lead(&request, flight, make, arg, out, &from, &error);
        const void *image = status == GRS_OK ? (*out)->image : NULL;
        flight_land(&cache->flights, flight, status, image, image ? entry_claimed_size(image) : 0, &error);
    } else {
        struct landing landing = flight_wait(&cache->flights, flight, &error);
        status = landing.status;
        if (status == GRS_OK && !(*out = lookup_entry_from(landing.image, landing.size)))
            status = error_set(&error, GRS_ERR_MEMORY, "out of memory for a cache entry");
    }
    if (status != GRS_OK && err)
        *err = error;
    if (source)
        *source = from;
    free(request.text);
    return status;
}

bool cache_probe(struct cache *cache, const struct cache_key *key) {
    struct request request;
    struct cache_entry *entry = NULL;
    grs_error why;
    bool found = request_init(&request, cache, key, false) &&
                 (lookup_memory(&request, &entry) || lookup_main(&request, &entry, &why) == LOOK_HIT ||
                  lookup_shared(&request, &entry));
    cache_entry_free(entry);
    free(request.text);
    return found;
}
