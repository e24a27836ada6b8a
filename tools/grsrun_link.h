/* The rate of the link between GPUs, measured: what our kernel's traffic is held against. */
#ifndef GRS_TOOLS_GRSRUN_LINK_H
#define GRS_TOOLS_GRSRUN_LINK_H

#include "tools/grsrun_team.h"

/* GB/s at which every rank stores to downstream's memory with all its SMs, all at once, the slowest rank's. For a team with a
 * GPU a rank; waits. */
grs_status link_measure(struct team *team, double *gbps, grs_error *err);

#endif
