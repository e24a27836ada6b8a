/* Timing of work that is spread over GPUs: between two events on each, all starts held back until the host has queued
 * everything, the slowest GPU counts. */
#ifndef GRS_TOOLS_GRSRUN_TIME_H
#define GRS_TOOLS_GRSRUN_TIME_H

#include "tools/grsrun_team.h"

#define TIMING_SAMPLES_MAX 64

/* Something to be timed. `enqueue` puts one run of it on the streams of the team's GPUs, with operands number `set`. */
struct contestant {
    grs_status (*enqueue)(void *self, int set, grs_error *err);
    void *self;
    int count;
    double us[TIMING_SAMPLES_MAX]; /* of one run                                                    */
    double host_us;                /* least time that the host took to queue one run; 0: not timed  */
};

struct timing { /* zero-initialise; free with timing_close */
    struct team *team;
    CUevent go;                                 /* on the first GPU: the others start behind it */
    CUevent start[GRS_MAX_TP], end[GRS_MAX_TP]; /* by device */
    int sets, next_set;                         /* operands rotate over so many sets */
};

grs_status timing_open(struct team *team, int sets, struct timing *out, grs_error *err);
void timing_close(struct timing *timing);

/* One sample: `runs` runs one behind the other. */
grs_status timing_sample(struct timing *timing, struct contestant *contestant, int runs, grs_error *err);
/* `rounds` times: each contestant once in order, then once in reverse order, so that a drift of the clocks meets all
 * alike: 2 · rounds samples. One untimed run of each comes first. */
grs_status timing_alternate(struct timing *timing, struct contestant *const *contestants, int count, int runs,
                            int rounds, grs_error *err);

double timing_median(const struct contestant *contestant); /* NAN without samples */
double timing_spread(const struct contestant *contestant); /* (largest − smallest) / median */

#endif
