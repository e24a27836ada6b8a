#include "tools/grsrun_clock.h"

#include <string.h>
#include <time.h>

#include "common/error.h"

#define PATIENCE_NS 2000000000ull /* for one answer; the kernel has as much for a question */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

struct clock_sight clock_sight_of(const struct clock_ping *pings, int count) {
    const struct clock_ping *best = &pings[0];
    uint64_t step = 0;
    for (int i = 1; i < count; i++) {
        best = pings[i].after - pings[i].before < best->after - best->before ? &pings[i] : best;
        step = common_divisor(step, pings[i].gpu - pings[0].gpu);
    }
    uint64_t half = (best->after - best->before + 1) / 2;
    return (struct clock_sight){.gpu = best->gpu, .host = best->before + half, .half = half, .step = step};
}

double clock_host_ns(const struct clock_sight *first, const struct clock_sight *second, uint64_t gpu) {
    /* Both clocks count from far away: only differences fit into a double. */
    double on_gpu = (double)(int64_t)(second->gpu - first->gpu),
           on_host = (double)(int64_t)(second->host - first->host);
    return (double)(int64_t)(gpu - first->gpu) * (on_gpu > 0 ? on_host / on_gpu : 1);
}

/* What host and kernel talk through: memory of the host that both see. */
struct line {
    uint64_t asked; /* questions so far */
    uint64_t unused[15];
    uint64_t answer[CLOCK_PINGS]; /* 0: none yet */
};

static bool ask(struct line *line, struct clock_ping pings[CLOCK_PINGS]) {
    for (uint64_t i = 0; i < CLOCK_PINGS; i++) {
        struct clock_ping *ping = &pings[i];
        ping->before = now_ns();
        __atomic_store_n(&line->asked, i + 1, __ATOMIC_RELEASE);
        do {
            ping->gpu = __atomic_load_n(&line->answer[i], __ATOMIC_ACQUIRE);
            ping->after = now_ns();
            if (ping->after - ping->before > PATIENCE_NS) {
                return false;
            }
        } while (ping->gpu == 0);
    }
    return true;
}

static grs_status launch(const struct device *device, struct line *line, grs_error *err) {
    CUdeviceptr pointer = 0, answers;
    int32_t pings = CLOCK_PINGS;
    uint64_t patience = PATIENCE_NS;
    grs_status status = device_check(device, device->drv->cuMemHostGetDevicePointer(&pointer, line, 0),
                                     "cuMemHostGetDevicePointer", err);
    answers = pointer + offsetof(struct line, answer);
    void *arguments[] = {&pointer, &answers, &pings, &patience};
    return status ? status
                  : device_check(device,
                                 device->drv->cuLaunchKernel(device->clock, 1, 1, 1, 1, 1, 1, 0, device->stream,
                                                             arguments, NULL),
                                 "cuLaunchKernel(grsrun_clock)", err);
}

grs_status clock_look(const struct device *device, struct clock_sight *out, grs_error *err) {
    struct clock_ping pings[CLOCK_PINGS];
    void *memory = NULL;
    *out = (struct clock_sight){0};
    grs_status status = device_use(device, err);
    status = status ? status
                    : device_check(device,
                                   device->drv->cuMemHostAlloc(&memory, sizeof(struct line),
                                                               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                                   "cuMemHostAlloc", err);
    if (status) {
        return status;
    }
    memset(memory, 0, sizeof(struct line));
    status = launch(device, memory, err);
    bool answered = !status && ask(memory, pings);
    if (!status) { /* also a kernel that was given up: it leaves by itself */
        status = device_wait(device, err);
    }
    if (!status && !answered) {
        status = error_set(err, GRS_ERR_TIMEOUT, "GPU %d did not say what its clock shows within 2 s", device->ordinal);
    }
    device->drv->cuMemFreeHost(memory);
    if (!status) {
        *out = clock_sight_of(pings, CLOCK_PINGS);
    }
    return status;
}
