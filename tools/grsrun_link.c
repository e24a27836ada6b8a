#include "tools/grsrun_link.h"

#include "common/error.h"
#include "tools/grsrun_time.h"

#define BYTES ((size_t)64 << 20) /* a push */
#define UNIT  16                 /* bytes that a thread stores at a time */

struct pushes {
    struct team *team;
    CUdeviceptr from[GRS_MAX_TP], to[GRS_MAX_TP]; /* by rank: its own; where its upstream stores */
};

static grs_status enqueue(void *self, int set, grs_error *err) {
    struct pushes *pushes = self;
    const struct team *team = pushes->team;
    int64_t units = BYTES / UNIT;
    grs_status status = GRS_OK;
    (void)set;
    for (int rank = 0; rank < team->tp && !status; rank++) {
        void *arguments[] = {&pushes->from[rank], &pushes->to[(rank + team->tp - 1) % team->tp], &units};
        status = device_run(team->device[rank], team->device[rank]->push, units, arguments, err);
    }
    return status;
}

grs_status link_measure(struct team *team, double *gbps, grs_error *err) {
    struct pushes pushes = {.team = team};
    struct timing timing = {0};
    struct contestant contestant = {.enqueue = enqueue, .self = &pushes};
    struct contestant *only = &contestant;
    grs_status status = timing_open(team, 1, &timing, err);
    for (int rank = 0; rank < team->tp && !status; rank++) {
        status = device_alloc(team->device[rank], BYTES, &pushes.from[rank], err);
        status = status ? status : device_alloc(team->device[rank], BYTES, &pushes.to[rank], err);
    }
    status = status ? status : timing_alternate(&timing, &only, 1, 5, 3, err);
    if (!status) {
        *gbps = (double)BYTES / timing_median(&contestant) * 1e-3;
    }
    for (int rank = 0; rank < team->tp; rank++) {
        device_free(team->device[rank], pushes.from[rank]);
        device_free(team->device[rank], pushes.to[rank]);
    }
    timing_close(&timing);
    return status;
}
