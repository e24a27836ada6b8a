/* A point in time up to which something may take. */
#ifndef GRS_RUNTIME_DEADLINE_H
#define GRS_RUNTIME_DEADLINE_H

#include <stdint.h>
#include <time.h>

struct deadline {
    double seconds; /* as it was asked for, for messages */
    int64_t ns;     /* of the monotonic clock */
};

static inline int64_t deadline_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline struct deadline deadline_in(double seconds) {
    return (struct deadline){seconds, deadline_now() + (int64_t)(seconds * 1e9)};
}

/* For poll: 0 when it has passed. */
static inline int deadline_left_ms(const struct deadline *deadline) {
    int64_t left = deadline->ns - deadline_now();
    return left <= 0 ? 0 : (int)(left / 1000000 < INT32_MAX - 1 ? left / 1000000 + 1 : INT32_MAX);
}

#endif
