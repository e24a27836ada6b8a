/* Reading single values of a config: numbers within a range, and names out of a list. Internal to config_*.c. */
#ifndef GRS_GENERATOR_CONFIG_VALUES_H
#define GRS_GENERATOR_CONFIG_VALUES_H

#include "generator/config_yaml.h"

/* "a list", "a mapping", "text '…'", "nothing": what a node is, for messages. */
struct quoted node_text(const struct node *node);

/* A number within info's bounds, or (where info has choices) the index of a choice, or a mapping with the one key that
 * names a choice with a number. Reports what is wrong and returns false otherwise. */
bool value_read_number(struct problems *problems, const struct node *node, const char *key,
                       const struct field_info *info, int64_t *out);
bool value_read_choice(struct problems *problems, const struct node *node, const char *key,
                       const struct field_info *info, int64_t *out);

/* False, with "is out of range, allowed: …" in `why`, for a number that the row does not allow. */
bool value_is_allowed(const struct field_info *info, int64_t value, struct buf *why);

bool node_is(const struct node *scalar, const char *text);

#endif
