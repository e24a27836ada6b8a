/* grsgen cache list, show and verify. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/entry.h"
#include "common/error.h"
#include "tools/grsgen.h"
#include "tools/grsgen_cache.h"
#include "tools/grsgen_json.h"

/* ---------------------------------------------------------------- list ------------------------------------------- */

/* "just now", "5 min", "3 h", "12 d" since a time. */
static const char *print_age(char text[32], int64_t then, int64_t now) {
    int64_t seconds = now - then;
    if (seconds < 60)
        return "now";
    snprintf(text, 32, "%" PRId64 " %s",
             seconds < 3600    ? seconds / 60
             : seconds < 86400 ? seconds / 3600
                               : seconds / 86400,
             seconds < 3600    ? "min"
             : seconds < 86400 ? "h"
                               : "d");
    return text;
}

/* The value of a key in canonical config text; false when it is not there. */
static bool config_value(const char *config, const char *key, char out[32]) {
    size_t length = strlen(key);
    for (const char *line = config; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, key, length) && line[length] == ':' && line[length + 1] == ' ') {
            line += length + 2;
            snprintf(out, 32, "%.*s", (int)strcspn(line, "\n"), line);
            return true;
        }
    return false;
}

/* What sets configs apart at a glance: "128x256x64 s3 r4". */
static const char *config_text(const char *config, char text[160]) {
    char m[32], n[32], k[32], stages[32], depth[32];
    if (!config_value(config, "tile.m", m) || !config_value(config, "tile.n", n) || !config_value(config, "tile.k", k))
        return "-";
    int used = snprintf(text, 160, "%sx%sx%s", m, n, k);
    if (config_value(config, "stages.load", stages))
        used += snprintf(text + used, 160 - (size_t)used, " s%s", stages);
    if (config_value(config, "ring.depth", depth))
        snprintf(text + used, 160 - (size_t)used, " r%s", depth);
    return text;
}

static bool is_listed(const struct cache_command *command, const struct cache_row *row) {
    return !command->arch || (row->arch && !strcmp(row->arch, command->arch));
}

static int list_as_json(const struct cache_command *command, const struct cache_rows *rows) {
    json_t *entries = json_array();
    json_int_t bytes = 0;
    for (size_t i = 0; i < rows->count; i++) {
        bytes += rows->row[i].shared ? 0 : rows->row[i].size;
        if (is_listed(command, &rows->row[i]))
            json_array_append_new(entries, cache_json_of_row(&rows->row[i]));
    }
    return json_print(json_pack("{s:s?, s:I, s:I, s:o}", "dir", command->settings.dir, "bytes", bytes, "max_bytes",
                                (json_int_t)command->settings.max_bytes, "entries", entries));
}

static void list_row(struct buf *out, const struct cache_row *row, int64_t now) {
    char made[32], used[32], config[160];
    struct buf size = {0};
    cache_print_bytes(&size, row->size);
    const char *size_text = size.failed ? "" : size.data;
    if (row->kind == STORE_ENTRY && row->state == ADMIN_INTACT)
        buf_printf(out, "%.12s  %-8s  %-30s  %-20s  %10s  %7s  %7s  %s%s%s\n", row->key, row->arch, row->shape,
                   config_text(row->config, config), size_text, print_age(made, row->made, now),
                   print_age(used, row->used, now), row->compiler, row->in_use ? ", in use" : "",
                   row->shared ? ", shared" : "");
    else
        buf_printf(out, "%.12s  %s%s%s (%s)\n", row->key, cache_row_state(row), *row->why ? ": " : "", row->why,
                   size_text);
    buf_free(&size);
}

int cache_list(const struct cache_command *command) {
    struct cache_rows rows;
    struct buf out = {0};
    int64_t now = time(NULL), bytes = 0, entries = 0;
    int code = cache_rows_collect(command, &rows);
    if (code)
        goto done;
    if (command->json) {
        code = list_as_json(command, &rows);
        goto done;
    }
    if (rows.count)
        buf_printf(&out, "%-12s  %-8s  %-30s  %-20s  %10s  %7s  %7s  %s\n", "key", "arch", "shape", "config", "size",
                   "age", "used", "compiler");
    for (size_t i = 0; i < rows.count; i++) {
        if (is_listed(command, &rows.row[i]))
            list_row(&out, &rows.row[i], now);
        bytes += rows.row[i].shared ? 0 : rows.row[i].size;
        entries += !rows.row[i].shared && rows.row[i].kind == STORE_ENTRY;
    }
    buf_printf(&out, "%s%" PRId64 " entr%s, ", rows.count ? "\n" : "", entries, entries == 1 ? "y" : "ies");
    cache_print_bytes(&out, bytes);
    buf_puts(&out, " of ");
    cache_print_bytes(&out, command->settings.max_bytes);
    buf_printf(&out, ", in %s\n", command->settings.dir ? command->settings.dir : "no directory of your own");
    code = print_buf(&out);
done:
    buf_free(&out);
    cache_rows_free(&rows);
    return code;
}

/* ---------------------------------------------------------------- show ------------------------------------------- */

/* The one entry whose key starts with the text; NULL after printing why there is none, or which there are. */
static const struct cache_row *find(const struct cache_rows *rows, const char *text) {
    const struct cache_row *found = NULL;
    bool several = false;
    for (size_t i = 0; i < rows->count; i++) {
        const struct cache_row *row = &rows->row[i];
        if (row->kind != STORE_ENTRY || strncmp(row->key, text, strlen(text)))
            continue;
        several |= found && strcmp(found->key, row->key);
        if (!found)
            found = row;
    }
    if (!found)
        fail(0, "no entry's key starts with '%s'; see grsgen cache list", text);
    if (!several)
        return found;
    fail(0, "several keys start with '%s':", text);
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].kind == STORE_ENTRY && !strncmp(rows->row[i].key, text, strlen(text)))
            fprintf(stderr, "  %s\n", rows->row[i].key);
    return NULL;
}

struct part {
    const char *name, *data;
    size_t size;
};

static int write_part(const struct cache_command *command, const struct part *parts, size_t count) {
    struct buf out = {0}, allowed = {0};
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(command->part, parts[i].name)) {
            buf_append(&out, parts[i].data, parts[i].size);
            buf_free(&allowed);
            return print_buf(&out);
        }
        buf_printf(&allowed, "%s%s", i ? ", " : "", parts[i].name);
    }
    int code = fail(GRSGEN_USAGE, "--part: '%s' is not possible, allowed: %s", command->part,
                    allowed.failed ? "" : allowed.data);
    buf_free(&allowed);
    return code;
}

static void indent(struct buf *out, const char *title, const char *text, size_t size) {
    buf_printf(out, "%s\n", title);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        buf_puts(out, "    ");
        buf_append(out, text + at, length);
        buf_puts(out, "\n");
        at += length + 1;
    }
}

/* True for text that may go to a terminal: the launch metadata is opaque here. */
static bool is_text(const char *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (((unsigned char)data[i] < ' ' && data[i] != '\n') || data[i] == 127)
            return false;
    return size > 0;
}

static int show_entry(const struct cache_command *command, const struct cache_row *row,
                      const struct cache_entry *entry) {
    const struct part parts[] = {
        {"key", entry->key_text, strlen(entry->key_text)},
        {"config", entry->config, strlen(entry->config)},
        {"meta", entry->meta, entry->meta_size},
        {"source", entry->source, entry->source_size},
        {"ptx", entry->ptx, entry->ptx_size},
        {"cubin", entry->cubin, entry->cubin_size},
        {"log", entry->log, entry->log_size},
    };
    const size_t count = sizeof parts / sizeof parts[0];
    if (command->part)
        return write_part(command, parts, count);
    if (command->json) {
        json_t *object = cache_json_of_row(row), *sizes = json_object();
        for (size_t i = 0; i < count; i++)
            json_object_set_new(sizes, parts[i].name, json_integer((json_int_t)parts[i].size));
        json_object_set_new(object, "key_text", json_string(entry->key_text));
        json_object_set_new(object, "meta",
                            is_text(entry->meta, entry->meta_size) ? cache_json_of_config(entry->meta) : json_null());
        json_object_set_new(object, "log", json_stringn_nocheck(entry->log, entry->log_size));
        json_object_set_new(object, "part_bytes", sizes);
        return json_print(object);
    }
    char made[32], used[32];
    struct buf out = {0};
    int64_t now = time(NULL);
    buf_printf(&out, "%s\nfile      %s/%.2s/%s\nkernel    %s\narch      %s\nshape     %s\ncompiler  %s (%s)\n",
               row->key, row->dir, row->key, row->key, entry->name, entry->arch, entry->shape, entry->compiler,
               *entry->compiler_id ? entry->compiler_id : "not identified");
    buf_printf(&out, "age       %s, last used %s%s%s\nsize      ", print_age(made, row->made, now),
               print_age(used, row->used, now), used[0] && row->used + 60 <= now ? " ago" : "",
               row->in_use ? ", in use" : "");
    cache_print_bytes(&out, row->size);
    for (size_t i = 2; i < count; i++)
        buf_printf(&out, "%s %s %zu", i == 2 ? ":" : ",", parts[i].name, parts[i].size);
    buf_puts(&out, "\n");
    indent(&out, "config", entry->config, strlen(entry->config));
    if (is_text(entry->meta, entry->meta_size))
        indent(&out, "compiled", entry->meta, entry->meta_size);
    indent(&out, "key", entry->key_text, strlen(entry->key_text));
    if (entry->log_size)
        indent(&out, "compiler's log", entry->log, entry->log_size);
    return print_buf(&out);
}

int cache_show(const struct cache_command *command) {
    struct cache_rows rows;
    struct trust_dir root;
    struct cache_entry entry;
    grs_error err;
    void *image = NULL;
    size_t size;
    int code = cache_rows_collect(command, &rows);
    const struct cache_row *row = code ? NULL : find(&rows, command->arguments[0]);
    if (!row) {
        code = GRSGEN_FAILED;
        goto done;
    }
    if (row->state != ADMIN_INTACT) {
        code = fail(GRSGEN_FAILED, "entry %s is of no use here (%s): %s", row->key, cache_row_state(row), row->why);
        goto done;
    }
    code = GRSGEN_FAILED;
    error_set(&err, GRS_ERR_IO, "entry %s has just been removed", row->key);
    if (trust_open_root(row->dir, row->shared, false, &root, &err) == FOUND) {
        if (store_read(&root, row->key, row->key, &image, &size, &err) == FOUND &&
            entry_decode(image, size, &entry, &err) == ENTRY_INTACT)
            code = GRSGEN_OK;
        trust_close(&root);
    }
    code = code ? fail_with(code, &err) : show_entry(command, row, &entry);
done:
    free(image);
    cache_rows_free(&rows);
    return code;
}

/* ---------------------------------------------------------------- verify ----------------------------------------- */

int cache_verify(const struct cache_command *command) {
    struct cache_rows rows;
    struct buf out = {0};
    int counts[ADMIN_REFUSED + 1] = {0}, aside = 0;
    int code = cache_rows_collect(command, &rows);
    json_t *problems = json_array();
    if (code)
        goto done;
    for (size_t i = 0; i < rows.count; i++) {
        const struct cache_row *row = &rows.row[i];
        aside += row->kind == STORE_ASIDE;
        if (row->kind != STORE_ENTRY)
            continue;
        counts[row->state]++;
        if (row->state == ADMIN_INTACT)
            continue;
        json_array_append_new(problems, cache_json_of_row(row));
        buf_printf(&out, "%s/%.2s/%s: %s: %s\n", row->dir, row->key, row->key, cache_row_state(row), row->why);
    }
    bool bad = counts[ADMIN_DAMAGED] || counts[ADMIN_REFUSED];
    if (command->json) {
        code = json_print(json_pack("{s:i, s:i, s:i, s:i, s:i, s:O}", "intact", counts[ADMIN_INTACT], "damaged",
                                    counts[ADMIN_DAMAGED], "refused", counts[ADMIN_REFUSED], "other_format",
                                    counts[ADMIN_OTHER_FORMAT], "moved_aside", aside, "problems", problems));
    } else {
        buf_printf(&out, "%d intact, %d damaged, %d refused, %d of another format, %d moved aside earlier\n",
                   counts[ADMIN_INTACT], counts[ADMIN_DAMAGED], counts[ADMIN_REFUSED], counts[ADMIN_OTHER_FORMAT],
                   aside);
        code = print_buf(&out);
    }
    if (!code && bad)
        code = GRSGEN_FAILED;
done:
    json_decref(problems);
    buf_free(&out);
    cache_rows_free(&rows);
    return code;
}
