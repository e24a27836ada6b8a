/* Making, loading and freeing configs. */
#include "generator/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "generator/config_parse.h"

/* What a config owns besides its public part. */
struct owned_config {
    struct config config;
    char *path;
    char **names;
    size_t name_count;
};

static struct owned_config *make(const char *path) {
    struct owned_config *owned = calloc(1, sizeof *owned);
    if (!owned)
        return NULL;
    owned->config.path = owned->path = strdup(path);
    if (!owned->path) {
        free(owned);
        return NULL;
    }
    return owned;
}

void config_free(struct config *config) {
    if (!config)
        return;
    struct owned_config *owned = (struct owned_config *)config; /* its first member */
    for (size_t i = 0; i < owned->name_count; i++)
        free(owned->names[i]);
    free(owned->names);
    free(owned->path);
    free(config->shapes);
    free(owned);
}

grs_status config_defaults(struct config **out, grs_error *err) {
    struct owned_config *owned = make("(defaults)");
    *out = owned ? &owned->config : NULL;
    return owned ? GRS_OK : error_set(err, GRS_ERR_MEMORY, "out of memory for a config");
}

/* Collects problems; `reader` and `tree` are the caller's to free. */
static void read_text(const char *text, size_t length, struct config_reader *reader, struct yaml_tree *tree) {
    struct position start = {1, 1};
    if (length > CONFIG_MAX_BYTES) {
        problem_add(reader->problems, start, "file", "more than 1 MiB, allowed: up to %d bytes", CONFIG_MAX_BYTES);
        return;
    }
    if (length >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) { /* byte-order mark */
        text += 3;
        length -= 3;
    }
    if (!yaml_check_bytes(text, length, reader->problems) || !yaml_read(text, length, tree, reader->problems))
        return;
    if (!tree->root) {
        problem_add(reader->problems, start, "file", "empty, allowed: at least version: %d", CONFIG_VERSION);
        return;
    }
    config_read_tree(reader, tree->root);
    config_check_rules(reader);
}

grs_status config_parse(const char *path, const char *text, size_t length, struct config **out, grs_error *err) {
    *out = NULL;
    grs_status status = GRS_OK;
    struct owned_config *owned = make(path);
    struct problems *problems = calloc(1, sizeof *problems);
    struct yaml_tree tree = {0};
    if (!owned || !problems) {
        status = error_set(err, GRS_ERR_MEMORY, "%s: out of memory while reading the config", path);
        goto done;
    }
    struct config_reader reader = {.config = &owned->config, .problems = problems};
    read_text(text, length, &reader, &tree);
    owned->names = reader.names;
    owned->name_count = reader.name_count;
    status = problems_report(problems, path, err);
    if (status == GRS_OK) {
        *out = &owned->config;
        owned = NULL;
    }
done:
    yaml_tree_free(&tree);
    if (problems)
        problems_free(problems);
    free(problems);
    config_free(owned ? &owned->config : NULL);
    return status;
}

grs_status config_load(const char *path, struct config **out, grs_error *err) {
    *out = NULL;
    bool standard_input = !strcmp(path, "-");
    const char *shown = standard_input ? "(standard input)" : path;
    grs_status status = GRS_OK;
    struct buf text = {0};
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        status = error_set(err, GRS_ERR_IO, "%s: cannot be opened: %s", shown, strerror(errno));
        goto done;
    }
    while (text.length <= CONFIG_MAX_BYTES) { /* one byte more than allowed is enough to refuse it */
        char piece[65536];
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = error_set(err, GRS_ERR_IO, "%s: cannot be read: %s", shown, strerror(errno));
            goto done;
        }
        if (got == 0)
            break;
        buf_append(&text, piece, (size_t)got);
        if (text.failed) {
            status = error_set(err, GRS_ERR_MEMORY, "%s: out of memory while reading the config", shown);
            goto done;
        }
    }
    status = config_parse(shown, text.data ? text.data : "", text.length, out, err);
done:
    if (fd >= 0 && !standard_input)
        close(fd);
    buf_free(&text);
    return status;
}
