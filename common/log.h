/* Logging through a callback that the context owns. The library never prints by itself. */
#ifndef GRS_COMMON_LOG_H
#define GRS_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "grs.h"

struct log {
    void (*sink)(void *arg, grs_log_level level, const char *text);
    void *arg;
    grs_log_level level; /* messages above it are not formatted */
};

/* "error|warn|info|debug" → level; false when the text is none of them. */
bool log_parse_level(const char *text, grs_log_level *out);
void log_stderr(void *arg, grs_log_level level, const char *text); /* the default sink: "grs: warning: …" */
void log_write(const struct log *log, grs_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Once per process and `cause` (a static string): for warnings that must not repeat. True when it was written. */
bool log_once(const struct log *log, grs_log_level level, const char *cause, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
