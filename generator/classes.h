/* Size classes of M: with `m: dynamic` a handful of kernels serve every M. */
#ifndef GRS_GENERATOR_CLASSES_H
#define GRS_GENERATOR_CLASSES_H

#include "generator/plan.h"

#define CLASSES_MAX 6

struct classes {
    int count;
    struct plan_shape shape[CLASSES_MAX]; /* ascending, contiguous from M = 1; the last has m_max = INT32_MAX */
};

/* The classes that the planner makes for (N, K, tp, arch) under a config. */
void classes_make(const struct config *config, enum arch arch, int64_t n, int64_t k, int tp, struct classes *out);
/* The class that serves M (>= 1). */
const struct plan_shape *classes_find(const struct classes *classes, int64_t M);

#endif
