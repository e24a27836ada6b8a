/* grsgen cache: what lies in the directories, as rows, and rows as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/grsgen.h"
#include "tools/grsgen_cache.h"

struct collector {
    struct cache_rows *rows;
    bool shared;
};

static void add_row(void *arg, const struct admin_item *item) {
    struct collector *collector = arg;
    struct cache_rows *rows = collector->rows;
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : 64;
        struct cache_row *more = realloc(rows->row, capacity * sizeof *more);
        if (!more) {
            rows->failed = true;
            return;
        }
        rows->row = more;
        rows->capacity = capacity;
    }
    struct cache_row *row = &rows->row[rows->count++];
    const struct cache_entry *entry = item->entry;
    *row = (struct cache_row){.dir = item->dir,
                              .shared = collector->shared,
                              .in_use = item->in_use,
                              .kind = item->kind,
                              .state = item->state,
                              .why = strdup(item->why),
                              .size = item->size,
                              .made = item->made,
                              .used = item->used};
    snprintf(row->key, sizeof row->key, "%s", item->file);
    rows->failed |= !row->why;
    if (!entry)
        return;
    row->name = strdup(entry->name);
    row->arch = strdup(entry->arch);
    row->shape = strdup(entry->shape);
    row->config = strdup(entry->config);
    row->compiler = strdup(entry->compiler);
    row->compiler_id = strdup(entry->compiler_id);
    rows->failed |= !row->name || !row->arch || !row->shape || !row->config || !row->compiler || !row->compiler_id;
}

static int compare(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "");
}

static int by_shape(const void *left, const void *right) {
    const struct cache_row *a = left, *b = right;
    int order = compare(a->arch, b->arch);
    if (!order)
        order = strverscmp(a->shape ? a->shape : "", b->shape ? b->shape : "");
    if (!order)
        order = strcmp(a->key, b->key);
    return order ? order : a->shared - b->shared;
}

int cache_rows_collect(const struct cache_command *command, struct cache_rows *out) {
    grs_error err;
    *out = (struct cache_rows){0};
    for (size_t i = 0; command->dirs[i]; i++) {
        struct collector collector = {.rows = out, .shared = i > 0};
        if (*command->dirs[i] && admin_walk(command->dirs[i], i > 0, add_row, &collector, &err) != GRS_OK)
            return fail_with(GRSGEN_FAILED, &err);
    }
    if (out->failed)
        return fail(GRSGEN_FAILED, "out of memory for the list of entries");
    if (out->count)
        qsort(out->row, out->count, sizeof *out->row, by_shape);
    return GRSGEN_OK;
}

void cache_rows_free(struct cache_rows *rows) {
    for (size_t i = 0; i < rows->count; i++) {
        struct cache_row *row = &rows->row[i];
        char *texts[] = {row->why, row->name, row->arch, row->shape, row->config, row->compiler, row->compiler_id};
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            free(texts[t]);
    }
    free(rows->row);
    *rows = (struct cache_rows){0};
}

const char *cache_row_state(const struct cache_row *row) {
    static const char *const states[] = {"intact", "damaged", "other format", "refused"};
    if (row->kind == STORE_ASIDE)
        return "moved aside";
    return row->kind == STORE_TEMPORARY ? "temporary" : states[row->state];
}

void cache_print_bytes(struct buf *out, int64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    buf_fixed(out, value, unit && value < 100);
    buf_printf(out, " %s", units[unit]);
}

json_t *cache_json_of_config(const char *config) {
    json_t *object = json_object();
    while (config && *config) {
        size_t line = strcspn(config, "\n"), key = strcspn(config, ":\n");
        char *name = strndup(config, key);
        if (name && key + 2 <= line)
            json_object_set_new(object, name, json_stringn(config + key + 2, line - key - 2));
        free(name);
        config += line + (config[line] == '\n');
    }
    return object;
}

json_t *cache_json_of_row(const struct cache_row *row) {
    return json_pack("{s:s, s:s, s:b, s:s, s:s, s:s?, s:s?, s:s?, s:o, s:I, s:I, s:I, s:b, s:s?, s:s?}", "key",
                     row->key, "dir", row->dir, "shared", row->shared, "state", cache_row_state(row), "why", row->why,
                     "kernel", row->name, "arch", row->arch, "shape", row->shape, "config",
                     row->config ? cache_json_of_config(row->config) : json_null(), "bytes", (json_int_t)row->size,
                     "made", (json_int_t)row->made, "used", (json_int_t)row->used, "in_use", row->in_use, "compiler",
                     row->compiler, "compiler_id", row->compiler_id);
}
