/* A chart of what --bench measured back to back: ours / limit against M, one line for each N, K and tp. */
#ifndef GRS_TOOLS_GRSRUN_SVG_H
#define GRS_TOOLS_GRSRUN_SVG_H

#include "tools/grsrun_report.h"

/* The drawing as text. Rows without a ratio are left out; where none has one, the chart says so. The same rows give the same
 * bytes. */
void svg_draw(const struct bench_row *rows, size_t count, struct buf *out);
/* To a file, as report_save does. */
grs_status svg_write(const char *path, const struct bench_row *rows, size_t count, grs_error *err);

#endif
