/* What grsgen prints with --json. */
#ifndef GRS_TOOLS_GRSGEN_JSON_H
#define GRS_TOOLS_GRSGEN_JSON_H

#include <jansson.h>

#include "tools/grsgen.h"

/* A kernel's plan: name, arch, class of M, values with their origin and reason, resources, memory and limits at item->m. */
json_t *json_of_plan(const struct work_item *item);
/* Writes the object to standard output and releases it; the exit code. NULL: out of memory. */
int json_print(json_t *object);

#endif
