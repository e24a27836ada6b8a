/* One run of grsrun on GPUs: its devices, its context, the ranks of the shape at hand, and the rows found so far. */
#ifndef GRS_TOOLS_GRSRUN_SESSION_H
#define GRS_TOOLS_GRSRUN_SESSION_H

#include "tools/grsrun_ablate.h"
#include "tools/grsrun_bench.h"

struct session { /* zero-initialise but for options; free with session_close */
    const struct grsrun_options *options;
    const struct driver *drv;
    struct device *devices;
    int device_count;
    grs_ctx *ctx;
    struct team team; /* tp 0: none is open */
    struct baselines baselines;
    struct verify_row *verify_rows; /* two a shape: exact, random   */
    struct bench_row *bench_rows;   /* BENCH_ROWS a shape           */
    struct ablate_row *ablate_rows; /* at most ABLATE_ROWS a shape  */
    size_t verify_count, bench_count, ablate_count;
    bool wrong; /* a result was not right */
};

/* As many of the `visible` GPUs as the shapes need, a context, and room for the rows. */
grs_status session_open(struct session *session, int visible, grs_error *err);
void session_close(struct session *session);

/* Makes the ranks of a tp, unless they are there; says what it is worth knowing about their link. */
grs_status session_join(struct session *session, int tp, grs_error *err);

/* Text goes to standard output, notes to standard error, under the shape that they are about (NULL: none); with --json standard
 * output is for the object alone. Both free the buffer. */
void session_show(const struct session *session, struct buf *text);
void session_note(const struct grsrun_shape *shape, struct buf *notes);

#endif
