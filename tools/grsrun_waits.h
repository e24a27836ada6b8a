/* Wait counters: what each role of a kernel waits for, and how long. */
#ifndef GRS_TOOLS_GRSRUN_WAITS_H
#define GRS_TOOLS_GRSRUN_WAITS_H

#include <jansson.h>

#include "common/buf.h"
#include "templates/args.h"
#include "tools/grsrun_team.h"

#define WAITS_LAUNCHES 5 /* that are counted */

/* Cycles of one launch, averaged over the CTAs of all ranks. All zero: not counted. */
struct waits {
    double cycles[GRS_ROLE_COUNT][GRS_WAIT_COUNT]; /* of GRS_WAIT_NONE: how long the role was there             */
    double run;                                    /* of a CTA: of the role that was there longest              */
};

/* Launches a kernel that has the counters compiled in, which need not be prepared; waits. The kernel must outlive the team. */
grs_status waits_count(struct team *team, const grs_kernel *counting, struct operands *operands, struct waits *out,
                       grs_error *err);

/* Adds one rank's counters of `launches` launches on `ctas` CTAs, [cta][role][wait], for an average over `all` CTAs. */
void waits_add(const uint64_t *counters, int ctas, int launches, int all, struct waits *out);

/* Part of a CTA's run that a role waited for something; 0 where it never does. */
double waits_share(const struct waits *waits, enum grs_role role, enum grs_wait wait);

/* A line a role and wait, the shares in per cent. */
void waits_text(const struct waits *waits, struct buf *out);
/* {"run_cycles", "roles": {"loader": {"run": 1, "stage_free": 0.31}, …}}, shares of the run; null when nothing was counted. */
json_t *waits_json(const struct waits *waits);

#endif
