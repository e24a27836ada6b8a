#include "common/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {
    [GRS_LOG_ERROR] = "error", [GRS_LOG_WARN] = "warn", [GRS_LOG_INFO] = "info", [GRS_LOG_DEBUG] = "debug"};

bool log_parse_level(const char *text, grs_log_level *out) {
    for (int level = GRS_LOG_ERROR; text && level <= GRS_LOG_DEBUG; level++)
        if (!strcmp(text, level_names[level])) {
            *out = (grs_log_level)level;
            return true;
        }
    return false;
}

void log_stderr(void *arg, grs_log_level level, const char *text) {
    (void)arg;
    const char *name = level == GRS_LOG_WARN                              ? "warning"
                       : level >= GRS_LOG_ERROR && level <= GRS_LOG_DEBUG ? level_names[level]
                                                                          : "log";
    fprintf(stderr, "grs: %s: %s\n", name, text); /* one call, so that lines of several threads stay whole */
}

static void write_list(const struct log *log, grs_log_level level, const char *format, va_list args) {
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        return;
    log->sink(log->arg, level, text);
    free(text);
}

static bool wanted(const struct log *log, grs_log_level level) {
    return log && log->sink && level <= log->level;
}

void log_write(const struct log *log, grs_log_level level, const char *format, ...) {
    if (!wanted(log, level))
        return;
    va_list args;
    va_start(args, format);
    write_list(log, level, format, args);
    va_end(args);
}

/* Causes already written in this process. The list only grows: causes are static strings, a handful in all. */
struct cause {
    const char *text;
    struct cause *next;
};
static struct cause *causes;
static pthread_mutex_t causes_lock = PTHREAD_MUTEX_INITIALIZER;

/* True for exactly one caller a cause. Without memory to remember it a warning may repeat, which beats losing it. */
static bool claim(const char *text) {
    bool first = true;
    pthread_mutex_lock(&causes_lock);
    for (const struct cause *c = causes; c && first; c = c->next)
        first = strcmp(c->text, text) != 0;
    struct cause *added = first ? malloc(sizeof *added) : NULL;
    if (added) {
        *added = (struct cause){text, causes};
        causes = added;
    }
    pthread_mutex_unlock(&causes_lock);
    return first;
}

bool log_once(const struct log *log, grs_log_level level, const char *cause, const char *format, ...) {
    if (!wanted(log, level) || !claim(cause))
        return false;
    va_list args;
    va_start(args, format);
    write_list(log, level, format, args);
    va_end(args);
    return true;
}
