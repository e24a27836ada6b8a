/* The memory that the runtime keeps for a communicator: poisoned before a launch, looked at behind it. */
#ifndef GRS_TOOLS_GRSRUN_INSIDE_H
#define GRS_TOOLS_GRSRUN_INSIDE_H

#include "tools/grsrun_team.h"

/* The M to prepare for when launches are to have `m`: with guard zones more, so that slots and mask end behind what the
 * launch uses. */
int64_t inside_max_m(const struct grsrun_options *options, const grs_kernel *kernel, int64_t m);

/* NaNs into the receive slots and outboxes of every rank, so that a partial that is read before it has arrived shows. No
 * launch may be in flight; waits. */
grs_status inside_poison(struct team *team, grs_error *err);

/* After a launch with M rows, the latest of this team: every mask and counter is zero again, slots and outboxes behind what
 * this M uses hold the poison, control words say so many launches and nothing else, and (with guard zones) nothing around
 * any of these blocks has changed. `kernel` NULL: launches of several kinds went before, and slots and outboxes may hold
 * anything. GRS_ERR_STATE names what is wrong. No launch may be in flight. */
grs_status inside_check(struct team *team, const grs_kernel *kernel, int64_t m, grs_error *err);

#endif
