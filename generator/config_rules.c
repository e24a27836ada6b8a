/* What makes a config wrong though each of its values is allowed, whatever the shape. What depends on the shape or on
 * limits of the machine is plan_solve's. */
#include "generator/config_parse.h"

static void check_arch(struct config_reader *r) {
    const struct config *c = r->config;
    if (!r->arch_where.line)
        return; /* the arch is known later; plan_solve looks then */
    for (int f = 0; f < FIELD_COUNT; f++) {
        const struct field_info *info = &config_fields[f];
        enum arch family = (enum arch)(info->only_family - 1);
        if (!c->is_set[f] || !info->only_family || config_lists_family(c, family))
            continue;
        struct buf names = {0};
        config_archs_text(family, &names);
        if (names.failed)
            r->problems->out_of_memory = true;
        else
            problem_add(r->problems, c->where[f], info->key,
                        "arch (line %d) has no such key, allowed: this key with %s", r->arch_where.line, names.data);
        buf_free(&names);
    }
}

static void check_chunks(struct config_reader *r) {
    static const enum field chunk_fields[] = {FIELD_CHUNK_BYTES, FIELD_CHUNK_COUNT};
    const struct config *c = r->config;
    if (!c->is_set[FIELD_RING_PLACE] || c->value[FIELD_RING_PLACE] != PLACE_SHARED)
        return;
    for (int i = 0; i < 2; i++)
        if (c->is_set[chunk_fields[i]])
            problem_add(r->problems, c->where[chunk_fields[i]], config_fields[chunk_fields[i]].key,
                        "ring.place (line %d) is shared, allowed: chunks with place: global only",
                        c->where[FIELD_RING_PLACE].line);
}

static void check_tile(struct config_reader *r) {
    const struct config *c = r->config;
    enum arch family = (enum arch)(config_fields[FIELD_CTA_GROUP].only_family - 1);
    bool no_pairs = r->arch_where.line && !config_lists_family(c, family);
    if (c->is_set[FIELD_TILE_M] && c->value[FIELD_TILE_M] == 256 &&
        !(c->is_set[FIELD_CTA_GROUP] && c->value[FIELD_CTA_GROUP] == 2))
        problem_add(r->problems, c->where[FIELD_TILE_M], config_fields[FIELD_TILE_M].key,
                    "256 without tile.cta_group: 2, allowed: 64 or 128%s",
                    no_pairs ? "" : ", or 256 with cta_group: 2");
}

static void check_fixed(struct config_reader *r) {
    const struct config *c = r->config;
    if (c->is_set[FIELD_M_MODE] && c->value[FIELD_M_MODE] == M_FIXED && !r->shapes_where.line)
        problem_add(r->problems, c->where[FIELD_M_MODE], config_fields[FIELD_M_MODE].key,
                    "fixed without shapes, allowed: dynamic, or fixed with the Ms listed under shapes");
}

void config_check_rules(struct config_reader *r) {
    check_arch(r);
    check_chunks(r);
    check_tile(r);
    check_fixed(r);
}
