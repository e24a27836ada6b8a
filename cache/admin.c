#include "cache/admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/lock.h"
#include "cache/usage.h"
#include "common/error.h"

#define LOCK_SECONDS 10

struct walk {
    const struct trust_dir *root;
    int lock_fd; /* -1: what is in use is not known */
    void (*visit)(void *arg, const struct admin_item *item);
    void *arg;
};

/* Read and check one entry. *image is the caller's to free and may be NULL. */
static enum admin_state check(const struct trust_dir *root, const char *name, struct cache_entry *entry, void **image,
                              grs_error *why) {
    size_t size;
    *image = NULL;
    if (store_read(root, name, name, image, &size, why) != FOUND)
        return ADMIN_REFUSED;
    enum entry_state state = entry_decode(*image, size, entry, why);
    if (state != ENTRY_INTACT)
        return state == ENTRY_DAMAGED ? ADMIN_DAMAGED : ADMIN_OTHER_FORMAT;
    if (!strcmp(entry->key, name))
        return ADMIN_INTACT;
    error_set(why, GRS_ERR_IO, "it is the entry of another kernel, %s for %s", entry->name, entry->arch);
    return ADMIN_DAMAGED;
}

static void visit_file(void *arg, const struct trust_dir *fan, const char *file, enum store_kind kind,
                       const struct stat *st) {
    const struct walk *walk = arg;
    struct cache_entry entry;
    grs_error why;
    void *image = NULL;
    (void)fan;
    struct admin_item item = {.dir = walk->root->root,
                              .file = file,
                              .kind = kind,
                              .why = "",
                              .size = st->st_size,
                              .made = st->st_mtime,
                              /* An entry is created before it is written. */
                              .used = st->st_atime > st->st_mtime ? st->st_atime : st->st_mtime};
    if (kind == STORE_ENTRY) {
        item.state = check(walk->root, file, &entry, &image, &why);
        item.in_use = lock_is_held(walk->lock_fd, lock_byte_use(file));
        if (item.state == ADMIN_INTACT)
            item.entry = &entry;
        else
            item.why = why.text;
    }
    walk->visit(walk->arg, &item);
    free(image);
}

/* Open what is to be written to, and lock it if that can be. */
static grs_status enter(const char *dir, struct trust_dir *root, int *lock_fd, bool *locked, grs_error *err) {
    enum found found = trust_open_root(dir, false, false, root, err);
    if (found == FOUND_NOTHING)
        return error_set(err, GRS_ERR_IO, "\"%s\" does not exist", dir);
    if (found != FOUND)
        return GRS_ERR_IO;
    *lock_fd = lock_open(root, NULL);
    *locked = lock_wait(*lock_fd, lock_byte_store(), true, LOCK_SECONDS) == LOCK_TAKEN;
    return GRS_OK;
}

grs_status admin_walk(const char *dir, bool shared, void (*visit)(void *arg, const struct admin_item *item), void *arg,
                      grs_error *err) {
    struct trust_dir root;
    enum found found = trust_open_root(dir, shared, false, &root, err);
    if (found != FOUND)
        return found == FOUND_NOTHING ? GRS_OK : GRS_ERR_IO;
    /* A directory that is only looked at gets no lock file. */
    bool has_lock = !shared && faccessat(root.fd, LOCK_FILE_NAME, F_OK, 0) == 0;
    struct walk walk = {.root = &root, .lock_fd = has_lock ? lock_open(&root, NULL) : -1, .visit = visit, .arg = arg};
    store_walk(&root, visit_file, &walk);
    lock_close(walk.lock_fd);
    trust_close(&root);
    return GRS_OK;
}

/* ---------------------------------------------------------------- cleaning up ------------------------------------ */

struct sweep {
    const struct trust_dir *root;
    int lock_fd;
    bool locked, all;
    struct evict_report *report;
};

/* Damaged, seen under the lock of its name: nobody is making it anew at this moment. */
static bool is_damaged(const struct sweep *sweep, const char *name) {
    struct cache_entry entry;
    grs_error why;
    void *image;
    off_t byte = lock_byte_make(name);
    if (lock_try(sweep->lock_fd, byte, true) == LOCK_BUSY)
        return false;
    bool damaged = check(sweep->root, name, &entry, &image, &why) == ADMIN_DAMAGED;
    lock_drop(sweep->lock_fd, byte);
    free(image);
    return damaged;
}

static void sweep_file(void *arg, const struct trust_dir *fan, const char *file, enum store_kind kind,
                       const struct stat *st) {
    const struct sweep *sweep = arg;
    struct evict_report *report = sweep->report;
    if (kind == STORE_TEMPORARY ? !store_is_stale(fan, file, st)
                                : kind == STORE_ENTRY && !sweep->all && !is_damaged(sweep, file)) {
        report->bytes += st->st_size;
        report->entries += kind == STORE_ENTRY;
        return;
    }
    bool in_use = kind == STORE_ENTRY && lock_is_held(sweep->lock_fd, lock_byte_use(file));
    if (unlinkat(fan->fd, file, 0))
        return;
    report->freed += st->st_size;
    report->in_use += in_use;
    if (kind == STORE_TEMPORARY)
        report->stale++;
    else if (kind == STORE_ASIDE || !sweep->all)
        report->aside++;
    else
        report->removed++;
}

static grs_status sweep_dir(const char *dir, bool all, int64_t max_bytes, struct evict_report *report, grs_error *err) {
    struct trust_dir root;
    struct evict_report more = {0};
    struct sweep sweep = {.root = &root, .all = all, .report = report};
    *report = (struct evict_report){0};
    grs_status status = enter(dir, &root, &sweep.lock_fd, &sweep.locked, err);
    if (status != GRS_OK)
        return status;
    store_walk(&root, sweep_file, &sweep);
    if (all) {
        usage_forget(&root);
    } else {
        const struct evict_request request = {
            .lock_fd = sweep.lock_fd, .locked = sweep.locked, .count = true, .max_bytes = max_bytes};
        evict_make_room(&root, &request, &more);
        report->bytes = more.bytes;
        report->entries = more.entries;
        report->removed = more.removed;
        report->in_use = more.in_use;
        report->freed += more.freed;
    }
    lock_close(sweep.lock_fd);
    trust_close(&root);
    return GRS_OK;
}

grs_status admin_prune(const char *dir, int64_t max_bytes, struct evict_report *report, grs_error *err) {
    return sweep_dir(dir, false, max_bytes, report, err);
}

grs_status admin_clear(const char *dir, struct evict_report *report, grs_error *err) {
    return sweep_dir(dir, true, 0, report, err);
}
