#include "generator/config_yaml.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

/* Nodes and their texts live in blocks that are freed together. */
struct yaml_block {
    struct yaml_block *next;
    size_t used, size;
    _Alignas(16) char data[];
};

static void *allocate(struct yaml_tree *tree, size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    if (!tree->blocks || tree->blocks->size - tree->blocks->used < bytes) {
        size_t size = bytes > 16384 ? bytes : 16384;
        struct yaml_block *block = malloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (struct yaml_block){.next = tree->blocks, .size = size};
        tree->blocks = block;
    }
    void *memory = tree->blocks->data + tree->blocks->used;
    tree->blocks->used += bytes;
    return memset(memory, 0, bytes);
}

void yaml_tree_free(struct yaml_tree *tree) {
    while (tree->blocks) {
        struct yaml_block *next = tree->blocks->next;
        free(tree->blocks);
        tree->blocks = next;
    }
    *tree = (struct yaml_tree){0};
}

static struct position position_of(yaml_mark_t mark) {
    return (struct position){(int)mark.line + 1, (int)mark.column + 1};
}

/* One level of nesting. In a mapping, `key` is the key whose value comes next; NULL: a key comes next. */
struct level {
    struct node *node, *key;
    bool drop_value; /* the key was refused: so is its value */
};

struct reader {
    struct yaml_tree *tree;
    struct problems *problems;
    struct level level[CONFIG_MAX_DEPTH];
    int depth;
    bool out_of_memory;
};

static struct node *node_of_event(struct reader *r, const yaml_event_t *event) {
    struct node *node = allocate(r->tree, sizeof *node);
    if (!node)
        return NULL;
    node->where = position_of(event->start_mark);
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT: {
        node->kind = NODE_SCALAR;
        node->length = event->data.scalar.length;
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        char *text = allocate(r->tree, node->length + 1);
        if (!text)
            return NULL;
        memcpy(text, event->data.scalar.value, node->length);
        node->text = text;
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    }
    case YAML_SEQUENCE_START_EVENT:
        node->kind = NODE_SEQUENCE;
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        node->kind = NODE_MAPPING;
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default: /* YAML_ALIAS_EVENT */
        node->kind = NODE_REFUSED;
        problem_add(r->problems, node->where, "yaml", "alias *%s, allowed: the value itself", event->data.alias.anchor);
    }
    if (anchor)
        problem_add(r->problems, node->where, "yaml", "anchor &%s, allowed: the value alone", anchor);
    if (tag)
        problem_add(r->problems, node->where, "yaml", "tag %s, allowed: the value alone",
                    quote((const char *)tag, strlen((const char *)tag)).text);
    return node;
}

/* Hang `node` into the innermost open node. */
static void attach(struct reader *r, struct node *node) {
    if (r->depth == 0) {
        r->tree->root = node;
        return;
    }
    struct level *top = &r->level[r->depth - 1];
    if (top->node->kind == NODE_MAPPING) {
        if (top->drop_value) {
            top->drop_value = false;
            return;
        }
        if (!top->key) {
            if (node->kind != NODE_SCALAR) {
                if (node->kind != NODE_REFUSED)
                    problem_add(r->problems, node->where, "yaml", "a key that is a list or a mapping, allowed: a name");
                top->drop_value = true;
            } else {
                top->key = node;
            }
            return;
        }
        node->key = top->key;
        top->key = NULL;
    }
    if (top->node->last)
        top->node->last->next = node;
    else
        top->node->first = node;
    top->node->last = node;
}

/* One event; false: stop reading. */
static bool take_event(struct reader *r, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: {
        struct position where = position_of(event->start_mark);
        if (r->tree->root) {
            problem_add(r->problems, where, "yaml", "a second document, allowed: one document a file");
            return false;
        }
        if (event->data.document_start.version_directive ||
            event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
            problem_add(r->problems, where, "yaml", "directive, allowed: none");
        return true;
    }
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: {
        struct node *node = node_of_event(r, event);
        if (!node) {
            r->out_of_memory = true;
            return false;
        }
        attach(r, node);
        if (node->kind == NODE_SEQUENCE || node->kind == NODE_MAPPING) {
            if (r->depth == CONFIG_MAX_DEPTH) {
                problem_add(r->problems, node->where, "yaml", "nested more than %d deep, allowed: depth 1 to %d",
                            CONFIG_MAX_DEPTH, CONFIG_MAX_DEPTH);
                return false;
            }
            r->level[r->depth++] = (struct level){.node = node};
        }
        return true;
    }
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: r->depth--; return true;
    default: return true;
    }
}

static void parser_problem(struct reader *r, const yaml_parser_t *parser) {
    if (parser->error == YAML_MEMORY_ERROR) {
        r->out_of_memory = true;
        return;
    }
    struct position where = position_of(parser->problem_mark);
    if (parser->context) {
        struct position start = position_of(parser->context_mark);
        problem_add(r->problems, where, "yaml", "%s (%s that starts at line %d, column %d)", parser->problem,
                    parser->context, start.line, start.column);
    } else {
        problem_add(r->problems, where, "yaml", "%s", parser->problem ? parser->problem : "cannot be read");
    }
}

bool yaml_read(const char *text, size_t length, struct yaml_tree *tree, struct problems *problems) {
    struct reader r = {.tree = tree, .problems = problems};
    yaml_parser_t parser;
    *tree = (struct yaml_tree){0};
    if (!yaml_parser_initialize(&parser)) {
        problems->out_of_memory = true;
        return false;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    bool more = true, complete = false;
    while (more && !problems_full(problems)) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            parser_problem(&r, &parser);
            break;
        }
        complete = event.type == YAML_STREAM_END_EVENT;
        more = !complete && take_event(&r, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (r.out_of_memory)
        problems->out_of_memory = true;
    return complete;
}
