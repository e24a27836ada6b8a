/* Structs that carry their own size, and numbers from the environment. */
#ifndef GRS_RUNTIME_OPTIONS_H
#define GRS_RUNTIME_OPTIONS_H

#include "grs.h"

/* Copies a caller's struct, whose first member is its size, into `to` of `known` bytes; what the caller's version lacks is
 * zero. A caller that is newer than this library may set nothing that is unknown here: GRS_ERR_ARGUMENT. `from` NULL:
 * all zero. */
grs_status options_copy(void *to, size_t known, const void *from, const char *type, grs_error *err);

/* Fills a caller's struct as far as its size says. `from` is of this library's version. */
grs_status options_return(void *to, const void *from, size_t known, const char *type, grs_error *err);

/* A decimal number from the environment, locale-independent: *value stays when the variable is unset or empty. Text that
 * is no number, or outside [min, max]: GRS_ERR_ARGUMENT naming the variable. */
grs_status options_number(const char *variable, double min, double max, double *value, grs_error *err);

#endif
