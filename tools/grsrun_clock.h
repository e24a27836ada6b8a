/* The clocks of GPUs (%globaltimer) against the host's, by asking each of them many times and keeping the fastest answer. */
#ifndef GRS_TOOLS_GRSRUN_CLOCK_H
#define GRS_TOOLS_GRSRUN_CLOCK_H

#include "tools/grsrun_device.h"

#define CLOCK_PINGS 1000 /* 2 to 4 ms over PCIe */

/* One question: the GPU looked at its clock between these times of the host's (CLOCK_MONOTONIC). Nanoseconds. */
struct clock_ping {
    uint64_t before, after, gpu;
};

/* At this time of the GPU's clock it was this time on the host's, give or take `half`, and what the clock steps by. */
struct clock_sight {
    uint64_t gpu, host, half;
    uint64_t step; /* of the GPU's clock: the greatest that all pings are multiples of, from the first on */
};

/* From the ping with the least time between question and answer; `count` at least 1. */
struct clock_sight clock_sight_of(const struct clock_ping *pings, int count);

/* The host's time at `gpu` in ns from the first sight on, by the line through two sights. Between them the error is at most the
 * larger half of the two, if the clocks run evenly. */
double clock_host_ns(const struct clock_sight *first, const struct clock_sight *second, uint64_t gpu);

/* Asks this GPU. Its stream must be empty: a kernel answers while this thread asks. */
grs_status clock_look(const struct device *device, struct clock_sight *out, grs_error *err);

#endif
