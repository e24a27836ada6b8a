/* Between the parts of the config parser. */
#ifndef GRS_GENERATOR_CONFIG_PARSE_H
#define GRS_GENERATOR_CONFIG_PARSE_H

#include "generator/config_yaml.h"

struct config_reader {
    struct config *config;
    struct problems *problems;
    struct position arch_where;
    struct position shapes_where; /* line 0: no shapes */
    char **names;                 /* texts that config.shapes point to */
    size_t name_count, shape_capacity;
};

/* config_parse.c: the whole file. */
void config_read_tree(struct config_reader *reader, const struct node *root);
/* config_shapes.c: the list below `shapes`, lists multiplied out: for each tp, every m. */
void config_read_shapes(struct config_reader *reader, const struct node *node);
/* config_rules.c: what single values cannot tell. */
void config_check_rules(struct config_reader *reader);

#endif
