/* A config: YAML text → struct config. One field table (config_fields.c) drives the parser, bounds, canonical text,
 * emitted constants, the JSON schema and help. */
#ifndef GRS_GENERATOR_CONFIG_H
#define GRS_GENERATOR_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "grs.h"

/* Full targets of the compiler. Those of one family share their keys and their kernel's text; a family is named by its first. */
enum arch { ARCH_SM90A = 0, ARCH_SM100A, ARCH_SM100F, ARCH_SM103A, ARCH_COUNT };

/* Index into config.value. The order is that of canonical text and of emitted constants. */
enum field {
    FIELD_SMS = 0, /* 0: all                                     */
    FIELD_LINK_GBPS,
    FIELD_TILE_M,
    FIELD_TILE_N,
    FIELD_TILE_K,
    FIELD_SCHEDULE, /* enum schedule                              */
    FIELD_CLUSTER,
    FIELD_CTA_GROUP, /* of the family of sm_100a                   */
    FIELD_STAGES_LOAD,
    FIELD_STAGES_ACCUM, /* of the family of sm_100a                   */
    FIELD_RING_DEPTH,
    FIELD_RING_PLACE, /* enum ring_place                            */
    FIELD_CHUNK_BYTES,
    FIELD_CHUNK_COUNT,
    FIELD_GRANULARITY,  /* enum granularity                           */
    FIELD_GROUP,        /* tiles a bit, with granularity group        */
    FIELD_DRAIN_POLICY, /* enum drain_policy                          */
    FIELD_DRAIN_FLUSH,  /* enum drain_flush                           */
    FIELD_ORDER,        /* enum tile_order                            */
    FIELD_LAG,          /* waves, with order interleave               */
    FIELD_M_MODE,       /* enum m_mode                                */
    FIELD_COUNT
};

enum schedule { SCHEDULE_COOPERATIVE = 0, SCHEDULE_PINGPONG };
enum ring_place { PLACE_GLOBAL = 0, PLACE_SHARED };
enum granularity { GRANULARITY_TILE = 0, GRANULARITY_GROUP, GRANULARITY_SEGMENT };
enum drain_policy { DRAIN_RING = 0, DRAIN_PER_TILE, DRAIN_LANE_PER_STAGE };
enum drain_flush { FLUSH_OWNER_BOUNDARY = 0, FLUSH_PER_TILE, FLUSH_NEVER };
enum tile_order { ORDER_SEGMENT = 0, ORDER_INTERLEAVE };
enum m_mode { M_DYNAMIC = 0, M_FIXED };

struct position {
    int line, column; /* from 1; 0: not from a file */
};

/* One row of the table. `choices` is NULL-terminated, in enum order, for fields that name a choice. */
struct field_info {
    const char *key;      /* dotted path in the file: "ring.chunk.bytes"                       */
    const char *constant; /* name in the generated Config: "chunk_bytes"; NULL: not emitted    */
    const char *const *choices;
    int64_t min, max, multiple; /* allowed range of numbers                                          */
    bool plan_time;             /* used by the planner only (sms, link_gbps, m)                      */
    const char *help;           /* one line                                                          */
    const int64_t *allowed;     /* 0-terminated list that replaces the range; NULL: the range        */
    int only_family;            /* 1 + enum arch of the one family that knows the key; 0: all do     */
};
extern const struct field_info config_fields[FIELD_COUNT];

/* Keys of one entry of `shapes`; those that may be lists multiply. The same rows as above serve them. */
enum shape_field { SHAPE_M = 0, SHAPE_N, SHAPE_K, SHAPE_TP, SHAPE_FIELD_COUNT };
extern const struct field_info config_shape_fields[SHAPE_FIELD_COUNT];
bool config_shape_field_is_list(enum shape_field field);
#define CONFIG_MAX_SHAPES 10000 /* after lists are multiplied out */
#define CONFIG_MAX_NAME   64    /* letters, digits, '.', '_', '-' */
#define CONFIG_MAX_BYTES  (1 << 20)
#define CONFIG_MAX_DEPTH  8
#define CONFIG_VERSION    1

/* A choice that carries a number: "group" of signal.granularity has the field signal.granularity.group. */
bool config_choice_field(enum field field, int64_t choice, enum field *number);
/* Where such a number belongs: FIELD_GROUP → FIELD_GRANULARITY. */
bool config_choice_owner(enum field number, enum field *owner);

/* The text of a value as it stands in YAML: "128", "cooperative", "all". */
void config_value_text(enum field field, int64_t value, struct buf *out);
/* What a key allows, for people: "64, 128 or 256", "all or 1 to 1024", "tile, {group: 1 to 64} or segment". */
void config_allowed_text(const struct field_info *info, struct buf *out);

/* JSON Schema (draft 7) for editors, and the reference in Markdown (docs/config.md); both made from the tables. */
void config_schema(struct buf *out);
void config_reference(struct buf *out);

/* One shape of the file after lists are multiplied out. M's stay a list: with `m: dynamic` they ask for classes. */
struct config_shape {
    int64_t m, n, k;
    int tp;
    const char *name; /* or NULL */
    struct position where;
};

struct config {
    const char *path;      /* as given, for messages; "(defaults)" without a file */
    bool arch[ARCH_COUNT]; /* all false: the context's                            */
    int64_t value[FIELD_COUNT];
    bool is_set[FIELD_COUNT]; /* false: the planner chooses                          */
    struct position where[FIELD_COUNT];
    struct config_shape *shapes;
    size_t shape_count;
};

/* Parse and validate. Reports up to 20 mistakes in one error text, each line `file:line:col: key: what, allowed`; the
 * error's line and column are the first one's. On success the caller frees with config_free. */
grs_status config_parse(const char *path, const char *text, size_t length, struct config **out, grs_error *err);
grs_status config_load(const char *path, struct config **out, grs_error *err); /* "-": standard input */
/* Nothing set: the planner chooses everything. */
grs_status config_defaults(struct config **out, grs_error *err);
void config_free(struct config *config);

const char *config_arch_name(enum arch arch); /* "sm_90a" */
bool config_arch_parse(const char *text, enum arch *out);
enum arch config_arch_family(enum arch arch);
bool config_arch_knows(enum arch arch, enum field field);
/* "sm_100a, sm_100f, sm_103a"; every arch with ARCH_COUNT. */
void config_archs_text(enum arch family, struct buf *out);
/* Whether the config lists an arch of this family. */
bool config_lists_family(const struct config *config, enum arch family);

#endif
