/* The tree of a config file → struct config, driven by the field table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/config_parse.h"
#include "generator/config_values.h"

#define KEY_SIZE  160 /* of a full key in messages; the user's part is cut by quote() */
#define MAX_NAMES 32  /* names that one mapping can know */

/* Names that one mapping knows: the next components of all keys that begin with `prefix`, and those given besides. */
struct names {
    const char *list[MAX_NAMES + 1];
    struct position seen[MAX_NAMES]; /* line 0: not yet */
    char text[MAX_NAMES][32];
    int count;
};

static void names_add(struct names *names, const char *text, size_t length) {
    for (int i = 0; i < names->count; i++)
        if (strlen(names->list[i]) == length && !memcmp(names->list[i], text, length))
            return;
    snprintf(names->text[names->count], sizeof names->text[0], "%.*s", (int)length, text);
    names->list[names->count] = names->text[names->count];
    names->list[++names->count] = NULL;
}

static void names_below(struct names *names, const char *prefix) {
    size_t length = strlen(prefix);
    for (int f = 0; f < FIELD_COUNT; f++)
        if (!strncmp(config_fields[f].key, prefix, length))
            names_add(names, config_fields[f].key + length, strcspn(config_fields[f].key + length, "."));
}

/* A key that stands elsewhere: "load" under tile → "stages.load". Only when there is exactly one. */
static const char *belongs_elsewhere(const struct node *key) {
    const char *found = NULL;
    for (int f = 0; f < FIELD_COUNT; f++) {
        const char *last = strrchr(config_fields[f].key, '.');
        if (last && node_is(key, last + 1)) {
            if (found)
                return NULL;
            found = config_fields[f].key;
        }
    }
    return found;
}

static void unknown_key(struct config_reader *r, const struct node *key, const char *prefix,
                        const struct names *names) {
    char full[KEY_SIZE], advice[96] = "";
    struct quoted q = quote(key->text, key->length);
    snprintf(full, sizeof full, "%s%.*s", prefix, (int)strlen(q.text) - 2, q.text + 1);
    const char *near = nearest_text(key->text, key->length, names->list);
    const char *elsewhere = belongs_elsewhere(key);
    if (near)
        snprintf(advice, sizeof advice, "; did you mean %s%s?", prefix, near);
    else if (elsewhere)
        snprintf(advice, sizeof advice, "; did you mean %s?", elsewhere);
    struct buf allowed = {0};
    for (int i = 0; i < names->count; i++)
        buf_printf(&allowed, "%s%s", i ? ", " : "", names->list[i]);
    if (allowed.failed)
        r->problems->out_of_memory = true;
    else
        problem_add(r->problems, key->where, full, "unknown key, allowed here: %s%s", allowed.data, advice);
    buf_free(&allowed);
}

/* Known and not a duplicate: its index in `names`; else -1 and a problem. */
static int check_key(struct config_reader *r, const struct node *key, const char *prefix, struct names *names) {
    for (int i = 0; i < names->count; i++) {
        if (!node_is(key, names->list[i]))
            continue;
        if (names->seen[i].line) {
            char full[KEY_SIZE];
            snprintf(full, sizeof full, "%s%s", prefix, names->list[i]);
            problem_add(r->problems, key->where, full, "duplicate key, allowed: once (first at line %d, column %d)",
                        names->seen[i].line, names->seen[i].column);
            return -1;
        }
        names->seen[i] = key->where;
        return i;
    }
    unknown_key(r, key, prefix, names);
    return -1;
}

static void set_field(struct config_reader *r, enum field field, int64_t value, struct position where) {
    r->config->value[field] = value;
    r->config->is_set[field] = true;
    r->config->where[field] = where;
}

/* `signal.granularity: {group: 4}`: a mapping with one key, the name of a choice that carries a number. */
static void read_choice_mapping(struct config_reader *r, enum field field, const struct node *node) {
    char prefix[KEY_SIZE];
    snprintf(prefix, sizeof prefix, "%s.", config_fields[field].key);
    struct names names = {0};
    names_below(&names, prefix);
    int taken = 0;
    for (const struct node *child = node->first; child; child = child->next) {
        if (check_key(r, child->key, prefix, &names) < 0)
            continue;
        for (int i = 0; config_fields[field].choices[i]; i++) {
            enum field number;
            int64_t value;
            if (!node_is(child->key, config_fields[field].choices[i]) || !config_choice_field(field, i, &number))
                continue;
            if (value_read_number(r->problems, child, config_fields[number].key, &config_fields[number], &value)) {
                set_field(r, field, i, node->where);
                set_field(r, number, value, child->where);
            }
            taken++;
        }
    }
    if (!taken && !node->first) {
        struct buf allowed = {0};
        config_allowed_text(&config_fields[field], &allowed);
        problem_add(r->problems, node->where, config_fields[field].key, "empty mapping, allowed: %s",
                    allowed.failed ? "" : allowed.data);
        buf_free(&allowed);
    }
}

static void read_field(struct config_reader *r, enum field field, const struct node *node) {
    const struct field_info *info = &config_fields[field];
    enum field number;
    bool carries_number = false;
    for (int i = 0; info->choices && info->choices[i]; i++)
        carries_number = carries_number || config_choice_field(field, i, &number);
    if (carries_number && node->kind == NODE_MAPPING) {
        read_choice_mapping(r, field, node);
        return;
    }
    int64_t value;
    bool read = info->choices ? value_read_choice(r->problems, node, info->key, info, &value)
                              : value_read_number(r->problems, node, info->key, info, &value);
    if (!read)
        return;
    if (carries_number && config_choice_field(field, value, &number)) {
        const char *name = info->choices[value];
        problem_add(r->problems, node->where, info->key, "%s needs a number, allowed: {%s: %lld} to {%s: %lld}", name,
                    name, (long long)config_fields[number].min, name, (long long)config_fields[number].max);
        return;
    }
    set_field(r, field, value, node->where);
}

/* A section such as `tile:`, or the whole file with prefix "". */
static void read_section(struct config_reader *r, const char *prefix, const struct node *node);

static void read_key(struct config_reader *r, const char *prefix, const struct node *value) {
    char full[KEY_SIZE];
    snprintf(full, sizeof full, "%s%s", prefix, value->key->text); /* known, so short */
    for (int f = 0; f < FIELD_COUNT; f++)
        if (!strcmp(config_fields[f].key, full)) {
            read_field(r, (enum field)f, value);
            return;
        }
    if (value->kind == NODE_REFUSED)
        return;
    if (value->kind != NODE_MAPPING) {
        struct names names = {0};
        char below[KEY_SIZE + 1];
        snprintf(below, sizeof below, "%s.", full);
        names_below(&names, below);
        struct buf allowed = {0};
        for (int i = 0; i < names.count; i++)
            buf_printf(&allowed, "%s%s", i ? ", " : "", names.list[i]);
        problem_add(r->problems, value->where, full, "%s where a mapping is expected, allowed keys: %s",
                    node_text(value).text, allowed.failed ? "" : allowed.data);
        buf_free(&allowed);
        return;
    }
    strcat(full, ".");
    read_section(r, full, value);
}

static void read_section(struct config_reader *r, const char *prefix, const struct node *node) {
    struct names names = {0};
    names_below(&names, prefix);
    for (const struct node *child = node->first; child && !problems_full(r->problems); child = child->next)
        if (check_key(r, child->key, prefix, &names) >= 0)
            read_key(r, prefix, child);
}

static void read_version(struct config_reader *r, const struct node *node) {
    static const struct field_info info = {
        .key = "version", .min = CONFIG_VERSION, .max = CONFIG_VERSION, .multiple = 1};
    int64_t value;
    value_read_number(r->problems, node, info.key, &info, &value);
}

static void read_arch(struct config_reader *r, const struct node *node) {
    const char *names[ARCH_COUNT + 1] = {0};
    struct buf allowed = {0};
    for (int a = 0; a < ARCH_COUNT; a++)
        names[a] = config_arch_name((enum arch)a);
    config_archs_text(ARCH_COUNT, &allowed);
    if (allowed.failed) {
        r->problems->out_of_memory = true;
        return;
    }
    if (node->kind == NODE_SCALAR || node->kind == NODE_MAPPING)
        problem_add(r->problems, node->where, "arch", "%s where a list is expected, allowed: a list of %s, e.g. [%s]",
                    node_text(node).text, allowed.data, names[0]);
    else if (node->kind == NODE_SEQUENCE && !node->first)
        problem_add(r->problems, node->where, "arch", "empty list, allowed: at least one of %s", allowed.data);
    for (const struct node *item = node->first; node->kind == NODE_SEQUENCE && item; item = item->next) {
        enum arch arch;
        if (item->kind == NODE_REFUSED)
            continue;
        if (item->kind != NODE_SCALAR || item->length != strlen(item->text) || !config_arch_parse(item->text, &arch)) {
            const char *near = item->kind == NODE_SCALAR ? nearest_text(item->text, item->length, names) : NULL;
            problem_add(r->problems, item->where, "arch", "%s is unknown, allowed: %s%s%s%s", node_text(item).text,
                        allowed.data, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        } else if (r->config->arch[arch]) {
            problem_add(r->problems, item->where, "arch", "%s is listed twice, allowed: once", names[arch]);
        } else {
            r->config->arch[arch] = true;
        }
    }
    r->arch_where = node->where;
    buf_free(&allowed);
}

void config_read_tree(struct config_reader *r, const struct node *root) {
    if (root->kind != NODE_MAPPING) {
        if (root->kind != NODE_REFUSED)
            problem_add(r->problems, root->where, "file",
                        "%s where keys are expected, allowed: a mapping such as version: 1", node_text(root).text);
        return;
    }
    struct names names = {0};
    names_add(&names, "version", strlen("version"));
    names_add(&names, "arch", strlen("arch"));
    names_below(&names, "");
    names_add(&names, "shapes", strlen("shapes"));
    bool version = false;
    for (const struct node *child = root->first; child && !problems_full(r->problems); child = child->next) {
        version = version || node_is(child->key, "version");
        if (check_key(r, child->key, "", &names) < 0)
            continue;
        if (node_is(child->key, "version"))
            read_version(r, child);
        else if (node_is(child->key, "arch"))
            read_arch(r, child);
        else if (node_is(child->key, "shapes"))
            config_read_shapes(r, child);
        else
            read_key(r, "", child);
    }
    if (!version)
        problem_add(r->problems, root->where, "version", "missing, allowed: version: %d", CONFIG_VERSION);
}
