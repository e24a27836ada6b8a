/* The strict layer over libyaml's events: text → a tree of nodes with positions. What YAML allows and a config does not
 * (anchors, aliases, tags, directives, several documents, tabs, deep nesting, keys that are not texts) becomes a problem
 * here; keys and values are judged by config_parse.c. */
#ifndef GRS_GENERATOR_CONFIG_YAML_H
#define GRS_GENERATOR_CONFIG_YAML_H

#include "generator/config_problems.h"

enum node_kind {
    NODE_SCALAR = 0,
    NODE_SEQUENCE,
    NODE_MAPPING,
    NODE_REFUSED /* its problem is reported already: say nothing more about it */
};

struct node {
    enum node_kind kind;
    struct position where;
    const char *text; /* scalar, or key: NUL-terminated, may hold further NULs */
    size_t length;
    bool plain;       /* scalar without quotes */
    struct node *key; /* of a mapping's child  */
    struct node *first, *last, *next;
};

struct yaml_tree {
    struct node *root; /* NULL when the text holds no document */
    struct yaml_block *blocks;
};

/* False when reading stopped early (memory, broken YAML): `tree` then holds what was read so far, and must not be
 * judged. yaml_tree_free in both cases. */
bool yaml_read(const char *text, size_t length, struct yaml_tree *tree, struct problems *problems);
void yaml_tree_free(struct yaml_tree *tree);

/* Bytes that no config may hold: NUL and other control characters, tabs, invalid UTF-8, exotic line ends. A byte-order
 * mark at the start is fine. False when any was found. */
bool yaml_check_bytes(const char *text, size_t length, struct problems *problems);

#endif
