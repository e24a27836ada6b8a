/* The policies that --ablate compares: configs that differ in how partial tiles are signalled, kept and drained, on one
 * tile and one number of stages, so that the matrix loop is the same in all. */
#ifndef GRS_TOOLS_GRSRUN_VARIANTS_H
#define GRS_TOOLS_GRSRUN_VARIANTS_H

#include "generator/plan.h"
#include "tools/grsrun.h"

/* In the order of the table. Names and titles are in variants_info. */
enum variant {
    VARIANT_OLDER = 0,  /* segment flags, two tiles in shared memory, a drain a tile */
    VARIANT_FLAGS,      /* the older one, but for the flags …                        */
    VARIANT_RING,       /* … but for the ring                                        */
    VARIANT_DRAIN,      /* … but for the drain                                       */
    VARIANT_LANES,      /* … with a drain that has a warp a stage                    */
    VARIANT_ALL,        /* all three changed                                         */
    VARIANT_LESS_FLAGS, /* all but the flags …                                       */
    VARIANT_LESS_RING,  /* … but the ring                                            */
    VARIANT_LESS_DRAIN, /* … but the drain                                           */
    VARIANT_ALL_LANES,  /* all three, with a drain that has a warp a chunk           */
    VARIANT_ORDER,      /* all three, and segments interleaved: our default's policies */
    VARIANT_DEFAULT,    /* our default, on its own tile                              */
    VARIANT_COUNT
};

struct variant_info {
    const char *name;  /* one word, for scripts */
    const char *title; /* for people            */
};
extern const struct variant_info variants_info[VARIANT_COUNT];

/* The tile and the stages that all variants but the default share: those of the config where it sets them, else the widest tile
 * on which two tiles in shared memory leave as many stages as the ring in global memory does, and so many stages. */
struct variants_base {
    const struct config *config; /* borrowed: what is not a policy comes from it */
    int64_t tile_n, stages;
};
grs_status variants_base(const struct config *config, enum arch arch, const struct grsrun_shape *shape,
                         struct variants_base *out, grs_error *err);

/* The config of a variant. Borrows what the base's config points to. */
void variants_config(const struct variants_base *base, enum variant variant, struct config *out);

/* The policies of a plan in words: "tile", "shared 2", "per_tile", "interleave 2". */
struct variants_policies {
    char tile[32], granularity[32], ring[32], drain[32], order[32];
    int stages;
};
void variants_describe(const struct plan *plan, struct variants_policies *out);

#endif
