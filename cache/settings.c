#include "cache/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/error.h"

#define DEFAULT_MAX_BYTES ((int64_t)2 << 30)

bool settings_parse_size(const char *text, int64_t *out) {
    static const char suffixes[] = "KMGT";
    int64_t value = 0, unit = 1;
    const char *at = text;
    for (; isdigit((unsigned char)*at); at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at - '0', &value))
            return false;
    const char *suffix = *at ? strchr(suffixes, toupper((unsigned char)*at)) : NULL;
    if (suffix) {
        unit = (int64_t)1 << 10 * (suffix - suffixes + 1);
        at++;
    }
    return !*at && !__builtin_mul_overflow(value, unit, out) && *out > 0;
}

/* A variable that is set and not empty; ignored in programs that run with more rights than their user has. */
static const char *variable(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

/* Absolute and without trailing slashes (one would make a symbolic link be followed). NULL without memory, or when the
 * path is relative to a directory that is gone. */
static char *absolute(const char *path, size_t length) {
    struct buf text = {0};
    if (path[0] != '/') {
        char *here = getcwd(NULL, 0);
        if (!here)
            return NULL;
        buf_printf(&text, "%s/", here);
        free(here);
    }
    buf_append(&text, path, length);
    while (!text.failed && text.length > 1 && text.data[text.length - 1] == '/')
        text.data[--text.length] = 0;
    return buf_take(&text);
}

static char *join(const char *base, const char *rest) {
    struct buf text = {0};
    buf_printf(&text, "%s/%s", base, rest);
    char *path = buf_take(&text), *clean = path ? absolute(path, strlen(path)) : NULL;
    free(path);
    return clean;
}

static bool is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* dir or why; false without memory. */
static bool locate(const struct cache_options *options, struct settings *out) {
    const char *value;
    const char *why = NULL;
    if (options->memory_only) {
        why = "";
    } else if ((value = options->dir && *options->dir ? options->dir : variable("GRS_CACHE_DIR"))) {
        out->dir = absolute(value, strlen(value));
    } else if ((value = variable("XDG_CACHE_HOME")) && value[0] == '/') { /* relative ones are to be ignored */
        out->dir = join(value, "grs");
    } else if ((value = variable("HOME")) && value[0] == '/') {
        /* The directory of a user who has none is not to be made. */
        if (is_directory(value))
            out->dir = join(value, ".cache/grs");
        else
            why = "GRS_CACHE_DIR and XDG_CACHE_HOME are unset and HOME is not a directory";
    } else {
        why = "GRS_CACHE_DIR, XDG_CACHE_HOME and HOME are unset";
    }
    if (!out->dir)
        out->why = strdup(why ? why : "the working directory, which the path of the cache is relative to, is gone");
    return out->dir || out->why;
}

static bool add_ro_dir(struct settings *out, const char *path, size_t length) {
    size_t count = 0;
    while (out->ro_dirs && out->ro_dirs[count])
        count++;
    char **more = realloc(out->ro_dirs, (count + 2) * sizeof *more);
    if (!more)
        return false;
    out->ro_dirs = more;
    more[count] = absolute(path, length);
    more[count + 1] = NULL;
    return more[count] != NULL;
}

static bool list_ro_dirs(const struct cache_options *options, struct settings *out) {
    const char *list = options->ro_dirs || options->memory_only ? NULL : variable("GRS_CACHE_RO_DIRS");
    bool good = true;
    if (options->ro_dirs && !options->memory_only)
        for (const char *const *at = options->ro_dirs; *at && good; at++)
            good = !**at || add_ro_dir(out, *at, strlen(*at));
    while (list && *list && good) {
        size_t length = strcspn(list, ":");
        good = !length || add_ro_dir(out, list, length);
        list += length + (list[length] == ':');
    }
    return good;
}

grs_status settings_resolve(const struct cache_options *options, struct settings *out, grs_error *err) {
    const char *max = variable("GRS_CACHE_MAX");
    *out = (struct settings){.max_bytes = options->max_bytes};
    if (out->max_bytes <= 0) {
        out->max_bytes = DEFAULT_MAX_BYTES;
        if (max && !settings_parse_size(max, &out->max_bytes)) {
            out->max_bytes = DEFAULT_MAX_BYTES;
            log_once(options->log, GRS_LOG_WARN, "cache: GRS_CACHE_MAX",
                     "GRS_CACHE_MAX is \"%s\"; allowed: a number of bytes from 1, or one with K, M, G or T behind it. "
                     "2G is used instead",
                     max);
        }
    }
    if (!locate(options, out) || !list_ro_dirs(options, out)) {
        settings_free(out);
        return error_set(err, GRS_ERR_MEMORY, "out of memory for the settings of the kernel cache");
    }
    return GRS_OK;
}

void settings_free(struct settings *settings) {
    for (char **at = settings->ro_dirs; at && *at; at++)
        free(*at);
    free(settings->ro_dirs);
    free(settings->dir);
    free(settings->why);
    *settings = (struct settings){0};
}
