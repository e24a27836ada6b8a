#include "cache/evict.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/lock.h"
#include "cache/store.h"
#include "cache/usage.h"

struct victim {
    char file[HASH_HEX_LENGTH + 16];
    struct timespec used;
    int64_t bytes;
    enum store_kind kind;
};

struct survey {
    struct victim *victims;
    size_t count, capacity;
    int64_t bytes;
    const struct evict_request *request;
    struct evict_report *report;
};

static void visit(void *arg, const struct trust_dir *fan, const char *file, enum store_kind kind,
                  const struct stat *st) {
    struct survey *survey = arg;
    const struct evict_request *request = survey->request;
    if ((request->name && !strcmp(file, request->name)) || (request->temporary && !strcmp(file, request->temporary)))
        return;
    if (kind == STORE_TEMPORARY && store_is_stale(fan, file, st) && unlinkat(fan->fd, file, 0) == 0) {
        survey->report->stale++;
        survey->report->freed += st->st_size;
        return;
    }
    survey->bytes += st->st_size;
    survey->report->entries += kind == STORE_ENTRY;
    if (kind == STORE_TEMPORARY)
        return;
    if (survey->count == survey->capacity) {
        size_t capacity = survey->capacity ? 2 * survey->capacity : 256;
        struct victim *more = realloc(survey->victims, capacity * sizeof *more);
        if (!more)
            return; /* counted, and evicted another time */
        survey->victims = more;
        survey->capacity = capacity;
    }
    struct victim *victim = &survey->victims[survey->count++];
    *victim = (struct victim){.used = st->st_atim, .bytes = st->st_size, .kind = kind};
    strcpy(victim->file, file); /* the walk lets no longer names through */
}

static int compare_times(struct timespec a, struct timespec b) {
    if (a.tv_sec != b.tv_sec)
        return a.tv_sec < b.tv_sec ? -1 : 1;
    return (a.tv_nsec > b.tv_nsec) - (a.tv_nsec < b.tv_nsec);
}

/* Damaged entries first, then by last use. */
static int by_worth(const void *left, const void *right) {
    const struct victim *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind == STORE_ASIDE ? -1 : 1;
    int order = compare_times(a->used, b->used);
    return order ? order : strcmp(a->file, b->file);
}

static void evict(const struct trust_dir *root, const struct victim *victim, struct survey *survey) {
    int lock_fd = survey->request->lock_fd;
    struct trust_dir fan;
    off_t use = lock_byte_use(victim->file);
    struct evict_report *report = survey->report;
    /* A user takes the shared lock before it opens the file, so nobody starts using it while we have it exclusively. */
    if (victim->kind == STORE_ENTRY && lock_try(lock_fd, use, true) == LOCK_BUSY) {
        report->in_use++;
        return;
    }
    if (trust_open_fan(root, victim->file, false, &fan, NULL) == FOUND) {
        if (unlinkat(fan.fd, victim->file, 0) == 0) {
            survey->bytes -= victim->bytes;
            report->freed += victim->bytes;
            report->entries -= victim->kind == STORE_ENTRY;
            *(victim->kind == STORE_ENTRY ? &report->removed : &report->aside) += 1;
        }
        trust_close(&fan);
    }
    lock_drop(lock_fd, use);
}

bool evict_make_room(const struct trust_dir *root, const struct evict_request *request, struct evict_report *report) {
    struct survey survey = {.request = request, .report = report, .bytes = USAGE_FILE_BYTES};
    struct usage usage;
    int64_t allowed = request->max_bytes - (int64_t)request->incoming;
    *report = (struct evict_report){0};
    if (allowed < 0)
        return false; /* nothing that could be removed would help */
    if (!request->locked || request->count || !usage_read(root, &usage) || usage.bytes > allowed) {
        usage.counted = time(NULL);
        store_walk(root, visit, &survey);
        if (survey.bytes > allowed && survey.count)
            qsort(survey.victims, survey.count, sizeof *survey.victims, by_worth);
        for (size_t i = 0; i < survey.count && survey.bytes > allowed; i++)
            evict(root, &survey.victims[i], &survey);
        free(survey.victims);
        usage.bytes = survey.bytes;
    }
    report->bytes = usage.bytes;
    bool fits = usage.bytes <= allowed;
    /* Before the entry is there: a process that dies in between leaves a number that is too large. */
    usage.bytes += fits ? (int64_t)request->incoming : 0;
    if (request->locked)
        usage_write(root, &usage);
    else
        usage_forget(root);
    return fits;
}
