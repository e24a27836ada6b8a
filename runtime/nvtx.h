/* Ranges for profilers (Nsight Systems and others), through NVTX version 3 and without a header of it: a tool names its library
 * in NVTX_INJECTION64_PATH, as it does for every program that is built with NVTX. Where there is none, a range is one
 * branch that is never taken. The ranges are those of the thread that calls, in a domain "grs". */
#ifndef GRS_RUNTIME_NVTX_H
#define GRS_RUNTIME_NVTX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/log.h"

struct nvtx_tool;
extern _Atomic(const struct nvtx_tool *) nvtx_attached;

/* Looks for a tool, once a process; says in the log what it found. */
void nvtx_open(const struct log *log);

static inline bool nvtx_active(void) {
    return __builtin_expect(atomic_load_explicit(&nvtx_attached, memory_order_acquire) != NULL, 0);
}

/* Begins a range, which ends with the thread's next pop. Only where nvtx_active; ranges nest. */
void nvtx_push(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
void nvtx_pop(void) __attribute__((cold));

#endif
