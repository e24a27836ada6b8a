/* grsgen cache: what its files share. */
#ifndef GRS_TOOLS_GRSGEN_CACHE_H
#define GRS_TOOLS_GRSGEN_CACHE_H

#include <jansson.h>

#include "cache/admin.h"
#include "cache/settings.h"
#include "common/buf.h"

#define CACHE_MIN_DIGITS 4 /* of a key on the command line */

struct cache_command {
    struct settings settings;
    const char *const *dirs; /* the own directory, then the shared ones; NULL-terminated */
    bool json;
    const char *part; /* of show: what to write instead of the summary; NULL: the summary */
    const char *arch; /* of list and pack: this one only; NULL: all                       */
    char **arguments; /* file and keys                                                    */
    int count;
};

/* One file of a cache; texts are owned. */
struct cache_row {
    char key[HASH_HEX_LENGTH + 1];
    const char *dir;
    bool shared, in_use;
    enum store_kind kind;
    enum admin_state state;
    char *why;
    char *name, *arch, *shape, *config, *compiler, *compiler_id; /* NULL unless intact */
    int64_t size, made, used;                                    /* bytes; seconds since 1970 */
};

struct cache_rows {
    struct cache_row *row;
    size_t count, capacity;
    bool failed; /* out of memory */
};

/* Everything in every directory, entries by arch, shape and key. The exit code; the caller frees in any case. */
int cache_rows_collect(const struct cache_command *command, struct cache_rows *out);
void cache_rows_free(struct cache_rows *rows);

/* "intact", "damaged", … */
const char *cache_row_state(const struct cache_row *row);
json_t *cache_json_of_row(const struct cache_row *row);
/* An object of `key: value` lines, values as text. */
json_t *cache_json_of_config(const char *config);
/* "1.2 MiB" */
void cache_print_bytes(struct buf *out, int64_t bytes);

int cache_list(const struct cache_command *command);
int cache_show(const struct cache_command *command);
int cache_verify(const struct cache_command *command);

#endif
