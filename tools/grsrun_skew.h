/* --skew: how far apart in time the ranks begin and end one launch, and how long a rank stands still between two, from the
 * stamps of a kernel that has the wait counters compiled in (templates/args.h). */
#ifndef GRS_TOOLS_GRSRUN_SKEW_H
#define GRS_TOOLS_GRSRUN_SKEW_H

#include <jansson.h>

#include "common/buf.h"
#include "templates/args.h"
#include "tools/grsrun_clock.h"
#include "tools/grsrun_team.h"

#define SKEW_BATCHES  5
#define SKEW_LAUNCHES 101 /* a batch, back to back; the first has none before it and is not counted */
_Static_assert(SKEW_LAUNCHES <= GRS_STAMPS, "a batch's stamps are all there at its end");

struct skew_figures { /* over launches */
    double median, p99, max;
};

/* Microseconds. `launches` 0: not measured. */
struct skew {
    int launches;
    struct skew_figures begin; /* latest rank's begin − earliest rank's, of the same launch                         */
    struct skew_figures end;   /* the same of their ends                                                           */
    struct skew_figures gap;   /* a rank's begin − its end of the launch before: one clock, so no error of clocks  */
    double clocks; /* at most so far are two GPUs' clocks apart after correction; 0 where all ranks share one      */
    double step;   /* of the coarsest clock: no difference is finer                                                */
};

/* What a figure is taken from; at most SKEW_BATCHES batches. */
struct skew_samples {
    int launches, gaps;
    double begin[SKEW_BATCHES * SKEW_LAUNCHES], end[SKEW_BATCHES * SKEW_LAUNCHES];
    double gap[SKEW_BATCHES * SKEW_LAUNCHES * GRS_MAX_TP];
};

/* A rank's view of a batch: its GPU's clock before and after it, and the ring of its stamps. Ranks of one GPU have the same
 * sights. */
struct skew_rank {
    struct clock_sight before, after;
    const grs_stamp *stamps; /* GRS_STAMPS of them */
};

/* Adds a batch whose first launch had epoch `first`; that launch is compared with none. `skew` keeps what is known of the clocks.
 * GRS_ERR_STATE, naming rank and launch: a stamp is missing, or ends before it begins. */
grs_status skew_add(const struct skew_rank *ranks, int tp, uint64_t first, int launches, struct skew_samples *samples,
                    struct skew *skew, grs_error *err);
/* Sorts the samples. */
void skew_summarise(struct skew_samples *samples, struct skew *skew);

/* Launches a kernel that has the stamps compiled in, back to back; it need not be prepared. Waits. The kernel must outlive the
 * team. */
grs_status skew_measure(struct team *team, const grs_kernel *stamping, struct operands *operands, struct skew *out,
                        grs_error *err);

void skew_text(const struct skew *skew, struct buf *out);
/* {"launches", "begin_us": {"median", "p99", "max"}, "end_us", "gap_us", "clocks_us", "step_us"}; null when not measured. */
json_t *skew_json(const struct skew *skew);

#endif
