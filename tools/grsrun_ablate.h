/* --ablate: the older kernel's policies, each change alone, all together, our default and the baselines, on the same operands
 * in the same run, with the wait counters that explain the times. */
#ifndef GRS_TOOLS_GRSRUN_ABLATE_H
#define GRS_TOOLS_GRSRUN_ABLATE_H

#include "tools/grsrun_context.h"
#include "tools/grsrun_rivals.h"
#include "tools/grsrun_variants.h"
#include "tools/grsrun_waits.h"

#define ABLATE_ROWS (VARIANT_COUNT + RIVAL_COUNT) /* a shape, at most */

/* One line of the table. What was not measured is NAN, what does not apply is empty. */
struct ablate_row {
    struct grsrun_shape shape;
    int ranks_per_gpu, sms, iters;
    double pace_gbps;         /* of a rank's link under the link model          */
    const char *name, *title; /* of the variant or the baseline; static        */
    bool is_baseline;
    bool is_best_baseline; /* the fastest that does the whole work; where none does (ranks share a GPU): the products */
    char config[65];       /* the kernel's key                               */
    struct variants_policies policies;
    double us, spread;  /* back to back: median; (largest − smallest) / median  */
    double limit_us;    /* max(cuBLAS, bytes that a rank sends / the link's rate) */
    double older_us;    /* of the first row of this shape                 */
    struct waits waits; /* of a kernel that counts them                   */
    bool equal;         /* D is bit for bit that of our default           */
    char refused[512];  /* why there is no such kernel                    */
};

/* Writes the rows of one shape, `*count` of them. `limit_us` needs cuBLAS. A D that is not what our default makes, or a
 * default's D that is wrong, is said in `notes` and makes `*correct` false. An error means that a launch, memory or a library
 * failed. */
grs_status ablate_shape(grs_ctx *ctx, struct team *team, const struct grsrun_shape *shape,
                        const struct baselines *baselines, struct ablate_row rows[ABLATE_ROWS], size_t *count,
                        bool *correct, struct buf *notes, grs_error *err);

/* What a shape wants compiled: VARIANT_COUNT configs, and twice as many kernels under them, the second half with wait
 * counters. */
void ablate_want(const struct variants_base *base, const struct grsrun_shape *shape, struct config *configs,
                 struct wanted *wanted);

/* us / limit, and older / us; NAN where either is unknown. */
double ablate_ratio(const struct ablate_row *row);
double ablate_speedup(const struct ablate_row *row);

/* The columns, once; then a shape's rows under a line that names it. */
void ablate_head(struct buf *out);
void ablate_text(const struct ablate_row *rows, size_t count, struct buf *out);
json_t *ablate_json(const struct ablate_row *rows, size_t count);

/* A chart: one group of bars a shape, in the order of the rows. The same rows give the same bytes. */
void ablate_draw(const struct ablate_row *rows, size_t count, struct buf *out);

#endif
