/* Opening a library that may be absent. */
#ifndef GRS_TOOLS_GRSRUN_LIBRARY_H
#define GRS_TOOLS_GRSRUN_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "grs.h"

struct library_symbol {
    const char *name;
    void *out;     /* of a pointer to a function           */
    bool optional; /* NULL where the library has it not    */
};

/* Opens what $variable names, else the first of `names` (ends with NULL) that the loader finds, or that lies beside NVRTC
 * or, as pip lays them out, in a `package`/lib next to NVRTC's; then looks up every symbol. The library stays open as long
 * as the process. GRS_ERR_UNSUPPORTED: not found, or a symbol is missing; the text says which and how to name a file. */
grs_status library_open(const char *variable, const char *const *names, const char *package,
                        const struct library_symbol *symbols, size_t count, grs_error *err);

#endif
