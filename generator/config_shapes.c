/* `shapes`: a list of mappings whose m and tp may be lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/config_parse.h"
#include "generator/config_values.h"

/* One value or several of a shape's key. Not set: missing or refused (then reported). */
struct value_list {
    int64_t *values;
    size_t count;
};

static bool push(struct config_reader *r, struct value_list *list, size_t *capacity, int64_t value) {
    if (list->count == *capacity) {
        size_t wanted = *capacity ? *capacity * 2 : 8;
        int64_t *grown = realloc(list->values, wanted * sizeof *grown);
        if (!grown) {
            r->problems->out_of_memory = true;
            return false;
        }
        list->values = grown;
        *capacity = wanted;
    }
    list->values[list->count++] = value;
    return true;
}

static void read_values(struct config_reader *r, const struct node *node, const char *key, enum shape_field field,
                        struct value_list *out) {
    const struct field_info *info = &config_shape_fields[field];
    size_t capacity = 0;
    int64_t value;
    if (node->kind != NODE_SEQUENCE || !config_shape_field_is_list(field)) {
        if (node->kind == NODE_SEQUENCE)
            problem_add(r->problems, node->where, key, "a list, allowed: one number (m and tp may be lists)");
        else if (value_read_number(r->problems, node, key, info, &value))
            push(r, out, &capacity, value);
        return;
    }
    if (!node->first)
        problem_add(r->problems, node->where, key, "empty list, allowed: at least one number");
    for (const struct node *item = node->first; item && !problems_full(r->problems); item = item->next)
        if (value_read_number(r->problems, item, key, info, &value) && !push(r, out, &capacity, value))
            return;
}

static const char *read_name(struct config_reader *r, const struct node *node, const char *key) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (node->kind == NODE_REFUSED)
        return NULL;
    if (node->kind != NODE_SCALAR || node->length == 0 || node->length > CONFIG_MAX_NAME ||
        strspn(node->text, letters) != node->length) {
        problem_add(r->problems, node->where, key, "%s is no name, allowed: 1 to %d letters, digits, '.', '_', '-'",
                    node_text(node).text, CONFIG_MAX_NAME);
        return NULL;
    }
    char **grown = realloc(r->names, (r->name_count + 1) * sizeof *grown);
    char *name = strdup(node->text);
    if (grown)
        r->names = grown;
    if (!grown || !name) {
        r->problems->out_of_memory = true;
        free(name);
        return NULL;
    }
    r->names[r->name_count++] = name;
    return name;
}

static bool append_shape(struct config_reader *r, struct config_shape shape) {
    if (r->config->shape_count == r->shape_capacity) {
        size_t wanted = r->shape_capacity ? r->shape_capacity * 2 : 16;
        struct config_shape *grown = realloc(r->config->shapes, wanted * sizeof *grown);
        if (!grown) {
            r->problems->out_of_memory = true;
            return false;
        }
        r->config->shapes = grown;
        r->shape_capacity = wanted;
    }
    r->config->shapes[r->config->shape_count++] = shape;
    return true;
}

static void multiply(struct config_reader *r, const struct value_list lists[SHAPE_FIELD_COUNT], const char *name,
                     struct position where, const char *key) {
    size_t ms = lists[SHAPE_M].count, tps = lists[SHAPE_TP].count; /* each at most as many as a file has bytes */
    if (ms * tps > CONFIG_MAX_SHAPES - r->config->shape_count) {
        problem_add(r->problems, where, key, "more than %d shapes in all, allowed: 1 to %d", CONFIG_MAX_SHAPES,
                    CONFIG_MAX_SHAPES);
        return;
    }
    for (size_t t = 0; t < tps; t++)
        for (size_t m = 0; m < ms; m++)
            if (!append_shape(r, (struct config_shape){.m = lists[SHAPE_M].values[m],
                                                       .n = lists[SHAPE_N].values[0],
                                                       .k = lists[SHAPE_K].values[0],
                                                       .tp = (int)lists[SHAPE_TP].values[t],
                                                       .name = name,
                                                       .where = where}))
                return;
}

static void read_shape(struct config_reader *r, const struct node *node, size_t index) {
    static const char *const known[] = {"m", "n", "k", "tp", "name", NULL};
    char base[48], key[160];
    snprintf(base, sizeof base, "shapes[%zu]", index);
    if (node->kind == NODE_REFUSED)
        return;
    if (node->kind != NODE_MAPPING) {
        problem_add(r->problems, node->where, base,
                    "%s where a shape is expected, allowed: {m: 8192, n: 4096, k: 2048, tp: 4}", node_text(node).text);
        return;
    }
    struct value_list lists[SHAPE_FIELD_COUNT] = {0};
    struct position seen[SHAPE_FIELD_COUNT + 1] = {0};
    const char *name = NULL;
    for (const struct node *child = node->first; child && !problems_full(r->problems); child = child->next) {
        int i = 0;
        while (known[i] && !node_is(child->key, known[i]))
            i++;
        struct quoted q = quote(child->key->text, child->key->length);
        snprintf(key, sizeof key, "%s.%.*s", base, (int)strlen(q.text) - 2, q.text + 1);
        if (!known[i]) {
            const char *near = nearest_text(child->key->text, child->key->length, known);
            problem_add(r->problems, child->key->where, key, "unknown key, allowed here: m, n, k, tp, name%s%s%s",
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        } else if (seen[i].line) {
            problem_add(r->problems, child->key->where, key,
                        "duplicate key, allowed: once (first at line %d, column %d)", seen[i].line, seen[i].column);
        } else {
            seen[i] = child->key->where;
            if (i < SHAPE_FIELD_COUNT)
                read_values(r, child, key, (enum shape_field)i, &lists[i]);
            else
                name = read_name(r, child, key);
        }
    }
    bool complete = true;
    for (int i = 0; i < SHAPE_FIELD_COUNT; i++) {
        complete = complete && lists[i].count;
        if (!seen[i].line) {
            struct buf allowed = {0};
            config_allowed_text(&config_shape_fields[i], &allowed);
            snprintf(key, sizeof key, "%s.%s", base, known[i]);
            problem_add(r->problems, node->where, key, "missing, allowed: %s", allowed.failed ? "" : allowed.data);
            buf_free(&allowed);
        }
    }
    if (complete)
        multiply(r, lists, name, node->where, base);
    for (int i = 0; i < SHAPE_FIELD_COUNT; i++)
        free(lists[i].values);
}

void config_read_shapes(struct config_reader *r, const struct node *node) {
    r->shapes_where = node->where;
    if (node->kind == NODE_REFUSED)
        return;
    if (node->kind != NODE_SEQUENCE)
        problem_add(r->problems, node->where, "shapes",
                    "%s where a list is expected, allowed: a list of {m: …, n: …, k: …, tp: …}", node_text(node).text);
    else if (!node->first)
        problem_add(r->problems, node->where, "shapes", "empty list, allowed: at least one shape");
    size_t index = 0;
    for (const struct node *item = node->first; node->kind == NODE_SEQUENCE && item && !problems_full(r->problems);
         item = item->next)
        read_shape(r, item, index++);
}
