#include "tools/grsrun_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"

/* The driver queues about a thousand launches a GPU; beyond that the host waits whatever we do. */
#define QUEUE_SAFE 256

grs_status timing_open(struct team *team, int sets, struct timing *out, grs_error *err) {
    *out = (struct timing){.team = team, .sets = sets};
    for (int i = 0; i < team->device_count; i++) {
        const struct device *device = &team->devices[i];
        CUevent *events[] = {&out->start[i], &out->end[i], i == 0 ? &out->go : NULL};
        grs_status status = device_use(device, err);
        for (int e = 0; e < 3 && events[e] && !status; e++) {
            status =
                device_check(device, device->drv->cuEventCreate(events[e], CU_EVENT_DEFAULT), "cuEventCreate", err);
        }
        if (status) {
            timing_close(out);
            return status;
        }
    }
    return GRS_OK;
}

void timing_close(struct timing *timing) {
    for (int i = 0; timing->team && i < timing->team->device_count; i++) {
        const struct device *device = &timing->team->devices[i];
        CUevent events[] = {timing->start[i], timing->end[i], i == 0 ? timing->go : NULL};
        for (int e = 0; e < 3; e++) {
            if (events[e] && !device_use(device, NULL)) {
                device->drv->cuEventDestroy(events[e]);
            }
        }
    }
    *timing = (struct timing){0};
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The first GPU spins for so long; every GPU's start event comes right behind. */
static grs_status hold(struct timing *timing, double us, grs_error *err) {
    struct team *team = timing->team;
    grs_status status = device_spin(&team->devices[0], (uint64_t)(us * 1e3), err);
    for (int i = 0; i < team->device_count && !status; i++) {
        const struct device *device = &team->devices[i];
        const struct driver *drv = device->drv;
        status = device_use(device, err);
        if (!status && i == 0) {
            status = device_check(device, drv->cuEventRecord(timing->go, device->stream), "cuEventRecord", err);
        } else if (!status) {
            status =
                device_check(device, drv->cuStreamWaitEvent(device->stream, timing->go, 0), "cuStreamWaitEvent", err);
        }
        status = status
                     ? status
                     : device_check(device, drv->cuEventRecord(timing->start[i], device->stream), "cuEventRecord", err);
    }
    return status;
}

static grs_status record_ends(struct timing *timing, grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < timing->team->device_count && !status; i++) {
        const struct device *device = &timing->team->devices[i];
        status = device_use(device, err);
        status = status ? status
                        : device_check(device, device->drv->cuEventRecord(timing->end[i], device->stream),
                                       "cuEventRecord", err);
    }
    return status;
}

static grs_status slowest(struct timing *timing, double *us, grs_error *err) {
    grs_status status = GRS_OK;
    *us = 0;
    for (int i = 0; i < timing->team->device_count && !status; i++) {
        const struct device *device = &timing->team->devices[i];
        float ms = 0;
        status = device_use(device, err);
        status = status ? status
                        : device_check(device, device->drv->cuEventElapsedTime(&ms, timing->start[i], timing->end[i]),
                                       "cuEventElapsedTime", err);
        *us = fmax(*us, ms * 1e3);
    }
    return status;
}

grs_status timing_sample(struct timing *timing, struct contestant *contestant, int runs, grs_error *err) {
    struct team *team = timing->team;
    const struct device *first = &team->devices[0];
    double hold_us = 100 + 20.0 * (runs < QUEUE_SAFE ? runs : QUEUE_SAFE) * team->tp, us = 0;
    for (int attempt = 0; attempt < 3; attempt++, hold_us *= 4) {
        grs_status status = hold(timing, hold_us, err);
        double begun = now_us();
        for (int i = 0; i < runs && !status; i++) {
            status = contestant->enqueue(contestant->self, timing->next_set, err);
            timing->next_set = (timing->next_set + 1) % timing->sets;
        }
        double host_us = (now_us() - begun) / runs;
        /* If the GPU has begun before all was queued, the figure may be the host's. */
        status = status ? status : device_use(first, err);
        bool in_time = !status && first->drv->cuEventQuery(timing->start[0]) == CUDA_ERROR_NOT_READY;
        status = status ? status : record_ends(timing, err);
        grs_error later;
        grs_status waited = team_wait(team, status ? &later : err);
        status = status ? status : waited;
        status = status ? status : slowest(timing, &us, err);
        if (status) {
            return status;
        }
        contestant->host_us = contestant->host_us == 0 ? host_us : fmin(contestant->host_us, host_us);
        if (in_time || runs * team->tp > QUEUE_SAFE) {
            break;
        }
    }
    if (contestant->count < TIMING_SAMPLES_MAX) {
        contestant->us[contestant->count++] = us / runs;
    }
    return GRS_OK;
}

grs_status timing_alternate(struct timing *timing, struct contestant *const *contestants, int count, int runs,
                            int rounds, grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < count && !status; i++) {
        status = contestants[i]->enqueue(contestants[i]->self, 0, err);
        status = status ? status : team_wait(timing->team, err);
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 2 * count && !status; i++) {
            status = timing_sample(timing, contestants[i < count ? i : 2 * count - 1 - i], runs, err);
        }
    }
    return status;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A sorted copy of the samples. */
static int sorted(const struct contestant *contestant, double out[TIMING_SAMPLES_MAX]) {
    memcpy(out, contestant->us, sizeof(contestant->us));
    qsort(out, (size_t)contestant->count, sizeof(double), ascending);
    return contestant->count;
}

double timing_median(const struct contestant *contestant) {
    double us[TIMING_SAMPLES_MAX];
    int count = sorted(contestant, us);
    return count ? (us[(count - 1) / 2] + us[count / 2]) / 2 : NAN;
}

double timing_spread(const struct contestant *contestant) {
    double us[TIMING_SAMPLES_MAX];
    int count = sorted(contestant, us);
    return count ? (us[count - 1] - us[0]) / timing_median(contestant) : NAN;
}
