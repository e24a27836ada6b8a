/* The mistakes of a config, collected in the order of the file: `file:line:col: key: what, allowed`. */
#ifndef GRS_GENERATOR_CONFIG_PROBLEMS_H
#define GRS_GENERATOR_CONFIG_PROBLEMS_H

#include "generator/config.h"

#define PROBLEMS_SHOWN 20
#define PROBLEMS_MAX   200 /* reading stops there */

struct problem {
    struct position where;
    char *text; /* "key: what, allowed"; NULL when memory ran out */
};

struct problems {
    struct problem list[PROBLEMS_MAX];
    int count;
    bool out_of_memory;
};

/* Adds "key: " and the formatted text. `where` counts from 1. */
void problem_add(struct problems *problems, struct position where, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool problems_full(const struct problems *problems);
/* GRS_OK when there is none; else fills `err` with the first PROBLEMS_SHOWN, sorted by position. */
grs_status problems_report(struct problems *problems, const char *path, grs_error *err);
void problems_free(struct problems *problems);

/* A piece of the user's text for a message: in quotes, at most 40 bytes, nothing unprintable. */
struct quoted {
    char text[64];
};
struct quoted quote(const char *text, size_t length);

/* The candidate that differs least from `text`, or NULL when none is near (more than a third of it would have to
 * change). `candidates` is NULL-terminated. */
const char *nearest_text(const char *text, size_t length, const char *const *candidates);

#endif
