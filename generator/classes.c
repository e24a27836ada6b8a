#include "generator/classes.h"

#include "generator/plan_defaults.h"

void classes_make(const struct config *config, enum arch arch, int64_t n, int64_t k, int tp, struct classes *out) {
    struct plan_shape all = {.m_min = 1, .m_max = INT32_MAX, .n = n, .k = k, .tp = tp};
    out->count = 0;
    int64_t narrow = plan_narrow_m(config, arch, n, k, tp);
    if (!config->is_set[FIELD_TILE_N]) { /* the one choice that depends on M */
        out->shape[out->count] = all;
        out->shape[out->count++].m_max = narrow;
        all.m_min = narrow + 1;
    }
    out->shape[out->count++] = all;
}

const struct plan_shape *classes_find(const struct classes *classes, int64_t M) {
    for (int i = 0; i < classes->count; i++)
        if (M >= classes->shape[i].m_min && M <= classes->shape[i].m_max)
            return &classes->shape[i];
    return NULL;
}
