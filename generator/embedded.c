/* The table of embedded templates. The texts come from templates/embed.S, the list from the Makefile: a new header in
 * templates/ appears here without an edit. */
#include "generator/emit.h"

#define TEMPLATE(symbol, path, name) extern __attribute__((visibility("hidden"))) const char template_##symbol[];
#include "templates.list"
#undef TEMPLATE

#define TEMPLATE(symbol, path, name) {name, template_##symbol},
const struct emit_header emit_headers[] = {
#include "templates.list"
    {NULL, NULL},
};
