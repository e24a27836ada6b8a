#include "cache/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/key.h"
#include "cache/lock.h"
#include "cache/store.h"
#include "common/error.h"

/* ---------------------------------------------------------------- disk ------------------------------------------- */

/* Everybody who uses an entry holds its byte shared, so that it is not evicted, until the cache is closed. Taken before
 * the file is opened; where there are no locks, recent use alone protects it. */
static void mark_use(struct cache *cache, const struct trust_dir *root, const char *name) {
    struct stat st;
    pthread_mutex_lock(&cache->flights.mutex);
    if (cache->use_fd >= 0 && fstat(cache->use_fd, &st) == 0 && st.st_nlink == 0) {
        close(cache->use_fd); /* the directory was removed and made anew */
        cache->use_fd = -1;
    }
    if (cache->use_fd < 0)
        cache->use_fd = lock_open(root, NULL);
    int fd = cache->use_fd;
    pthread_mutex_unlock(&cache->flights.mutex);
    lock_wait(fd, lock_byte_use(name), false, 1.0); /* held by others only while they remove the entry */
}

/* The entry called `name` in a directory. */
static enum look look_at(const struct request *request, const struct trust_dir *root, const char *name,
                         struct cache_entry **out, grs_error *why) {
    struct cache_entry *entry = calloc(1, sizeof *entry);
    void *image = NULL;
    size_t size = 0;
    enum look look = LOOK_REFUSED;
    if (!entry) {
        error_set(why, GRS_ERR_MEMORY, "out of memory");
        return LOOK_REFUSED;
    }
    if (request->uses && !root->shared)
        mark_use(request->cache, root, name);
    enum found found =
        request->uses ? store_load(root, name, &image, &size, why) : store_read(root, name, name, &image, &size, why);
    if (found != FOUND) {
        look = found == FOUND_NOTHING ? LOOK_ABSENT : LOOK_REFUSED;
        goto done;
    }
    enum entry_state state = entry_decode(image, size, entry, why);
    if (state != ENTRY_INTACT) {
        look = state == ENTRY_DAMAGED ? LOOK_DAMAGED : LOOK_OTHER_FORMAT;
        goto done;
    }
    if (strcmp(entry->key, name) || strcmp(entry->key_text, request->text)) {
        error_set(why, GRS_ERR_IO, "it is the entry of another kernel, %s for %s", entry->name, entry->arch);
        look = LOOK_DAMAGED;
        goto done;
    }
    entry->image = image;
    *out = entry;
    return LOOK_HIT;
done:
    free(image);
    free(entry);
    return look;
}

/* The entry of the request in a directory: under its own name, or, when there is no compiler to ask for, under that of
 * any compiler. */
static enum look look_in(const struct request *request, const char *path, bool shared, struct cache_entry **out,
                         grs_error *why) {
    struct trust_dir root;
    enum found found = trust_open_root(path, shared, false, &root, why);
    if (found != FOUND)
        return found == FOUND_NOTHING ? LOOK_ABSENT : LOOK_REFUSED;
    enum look look = look_at(request, &root, request->name, out, why);
    char **names = look == LOOK_HIT || request->compiler_id ? NULL : store_match(&root, request->name, KEY_BASE_DIGITS);
    for (char **name = names; name && *name && look != LOOK_HIT; name++) {
        grs_error other;
        enum look result = strcmp(*name, request->name) ? look_at(request, &root, *name, out, &other) : LOOK_ABSENT;
        if (result == LOOK_HIT)
            look = LOOK_HIT;
        else if (result != LOOK_ABSENT)
            cache_complain(request->cache, "cache: damaged", "kernel cache entry \"%s/%.2s/%s\" is ignored: %s", path,
                           *name, *name, other.text);
    }
    store_free_names(names);
    trust_close(&root);
    return look;
}

enum look lookup_main(const struct request *request, struct cache_entry **out, grs_error *why) {
    const char *dir = request->cache->settings.dir;
    return dir ? look_in(request, dir, false, out, why) : LOOK_ABSENT;
}

bool lookup_shared(const struct request *request, struct cache_entry **out) {
    for (char **dir = request->cache->settings.ro_dirs; dir && *dir; dir++) {
        grs_error why;
        enum look look = look_in(request, *dir, true, out, &why);
        if (look == LOOK_HIT) {
            if (request->uses)
                cache_say_hit(request, *dir, *out);
            return true;
        }
        if (look == LOOK_DAMAGED || look == LOOK_REFUSED)
            cache_complain(request->cache, "cache: shared entry",
                           "in a directory of GRS_CACHE_RO_DIRS an entry is ignored: "
                           "\"%s/%.2s/%s\": %s",
                           *dir, request->name, request->name, why.text);
    }
    return false;
}

/* ---------------------------------------------------------------- memory ----------------------------------------- */

struct cache_entry *lookup_entry_from(void *image, size_t size) {
    struct cache_entry *entry = calloc(1, sizeof *entry);
    if (entry && image && entry_decode(image, size, entry, NULL) == ENTRY_INTACT) {
        entry->image = image;
        return entry;
    }
    free(entry);
    free(image);
    return NULL;
}

void *lookup_copy(const void *image, size_t size) {
    void *bytes = malloc(size);
    return bytes ? memcpy(bytes, image, size) : NULL;
}

bool lookup_memory(const struct request *request, struct cache_entry **out) {
    struct cache *cache = request->cache;
    size_t digits = request->compiler_id ? HASH_HEX_LENGTH : KEY_BASE_DIGITS;
    pthread_mutex_lock(&cache->flights.mutex);
    struct kept *kept = cache->kept;
    while (kept && strncmp(kept->name, request->name, digits))
        kept = kept->next;
    if (kept)
        *out = lookup_entry_from(lookup_copy(kept->image, kept->size), kept->size);
    pthread_mutex_unlock(&cache->flights.mutex);
    return kept && *out;
}

void lookup_keep(struct cache *cache, const char *name, const void *image, size_t size) {
    struct kept *kept = malloc(sizeof *kept);
    void *copy = kept ? lookup_copy(image, size) : NULL;
    if (!copy) { /* then it is made again when it is asked for again */
        free(kept);
        return;
    }
    *kept = (struct kept){.image = copy, .size = size};
    memcpy(kept->name, name, sizeof kept->name);
    pthread_mutex_lock(&cache->flights.mutex);
    kept->next = cache->kept;
    cache->kept = kept;
    pthread_mutex_unlock(&cache->flights.mutex);
}
