/* Building grs_error values: once, where the fact is known. Callers only prepend context. */
#ifndef GRS_COMMON_ERROR_H
#define GRS_COMMON_ERROR_H

#include "grs.h"

/* Fill the slot (may be NULL) and return `status`, so that `return error_set(...)` reads well. Text that does not fit is
 * cut with "…" at the end. */
grs_status error_set(grs_error *err, grs_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same with a position; the text becomes "file:line:col: message". */
grs_status error_at(grs_error *err, grs_status status, const char *file, int line, int column, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Put "context: " before the text that is there; returns the status that is there. Without a slot it cannot know that and
 * returns GRS_ERR_STATE: where `err` may be NULL, keep the status that the failing call returned. */
grs_status error_prepend(grs_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_clear(grs_error *err);

#endif
