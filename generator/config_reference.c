/* docs/config.md, made from the field table. */
#include "generator/config.h"

static void row_archs(struct buf *out, const struct field_info *info) {
    buf_puts(out, " ");
    if (info->only_family)
        config_archs_text((enum arch)(info->only_family - 1), out);
    else
        buf_puts(out, "all");
    buf_puts(out, " |");
}

static void row(struct buf *out, const char *key, const struct field_info *info) {
    buf_printf(out, "| `%s` | ", key);
    config_allowed_text(info, out);
    buf_printf(out, " | %s |", info->help);
    if (info >= config_fields && info < config_fields + FIELD_COUNT)
        row_archs(out, info);
    buf_puts(out, "\n");
}

void config_reference(struct buf *out) {
    buf_puts(out,
             "# Config reference\n\n"
             "<!-- Made by `grsgen --schema=markdown` from the field table in generator/config_fields.c. -->\n\n"
             "A config is one YAML document. Only `version` is required: whatever is left out takes the value that\n"
             "the planner chooses for the arch and the shape, and `grsgen --explain` says which and why.\n\n"
             "```yaml\n"
             "version: 1\n"
             "arch: [sm_90a]\n"
             "link_gbps: 372\n"
             "tile:   {m: 128, n: 256, k: 64}\n"
             "ring:   {depth: 4, place: global, chunk: {bytes: 8192, count: 2}}\n"
             "signal: {granularity: {group: 4}}\n"
             "order:  {interleave: 3}\n"
             "shapes:\n"
             "  - {m: 8192, n: 4096, k: 2048, tp: 4, name: o_proj}\n"
             "  - {m: [256, 512, 1024], n: 8192, k: 3584, tp: [2, 4, 8]} # lists multiply\n"
             "```\n\n## Keys\n\n"
             "`version` must be ");
    buf_printf(out, "%d. `arch` is a list of ", CONFIG_VERSION);
    for (int a = 0; a < ARCH_COUNT; a++)
        buf_printf(out, "%s`%s`", a == 0 ? "" : a + 1 < ARCH_COUNT ? ", " : " and ", config_arch_name((enum arch)a));
    buf_puts(out, "; left out, `$GRS_ARCH` says which, else\nthe library takes that of GPU 0, and `grsgen` sm_90a.\n\n"
                  "| key | allowed | what it is | arch |\n| --- | --- | --- | --- |\n");
    for (int f = 0; f < FIELD_COUNT; f++)
        row(out, config_fields[f].key, &config_fields[f]);
    buf_puts(out,
             "\n`signal.granularity.group` is written `granularity: {group: 4}`, and `order.interleave` is written\n"
             "`order: {interleave: 2}`. `ring.chunk` belongs to `ring.place: global`.\n\n"
             "## Shapes\n\n"
             "`shapes` is a list of mappings, each with every key of this table. `m` and `tp` may be lists of such\n"
             "numbers, which multiply: every m for each tp. `name` is free: ");
    buf_printf(out,
               "1 to %d letters, digits, `.`, `_` or `-`.\nA file holds up to %d shapes after multiplication.\n\n"
               "| key | allowed | what it is |\n| --- | --- | --- |\n",
               CONFIG_MAX_NAME, CONFIG_MAX_SHAPES);
    for (int f = 0; f < SHAPE_FIELD_COUNT; f++)
        row(out, config_shape_fields[f].key, &config_shape_fields[f]);
    buf_printf(
        out,
        "\n## What is refused\n\n"
        "Each mistake is reported as `file:line:col: key: what, allowed`, all of a file at once (up to 20): unknown\n"
        "keys (with the nearest known one), duplicate keys, anchors, aliases, tags, directives, several documents,\n"
        "tabs, control characters, text that is not UTF-8, numbers that look octal or are no decimal integers,\n"
        "values out of range, empty lists, nesting above %d, files above 1 MiB. A byte-order mark and CRLF line\n"
        "ends are fine.\n\n"
        "A config that is well-formed can still be refused for a shape: when shared memory, registers or the wait\n"
        "graph do not allow it, or when a value is legal but not built yet. `grsgen --check` does both.\n",
        CONFIG_MAX_DEPTH);
}
