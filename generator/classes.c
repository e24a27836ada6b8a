#include "generator/classes.h"

#include "generator/plan_defaults.h"

/* Tops of classes of one rank: the M's that are common. The choice for a class is the one for its top. */
static const int64_t tops[] = {2048, 4096, 8192, INT32_MAX};

/* Ends a class at `m_max`. */
static void end_class(struct classes *out, struct plan_shape *next, int64_t m_max) {
    out->shape[out->count] = *next;
    out->shape[out->count++].m_max = m_max;
    next->m_min = m_max + 1;
}

void classes_make(const struct config *config, enum arch arch, int64_t n, int64_t k, int tp, struct classes *out) {
    struct plan_shape next = {.m_min = 1, .m_max = INT32_MAX, .n = n, .k = k, .tp = tp};
    bool pingpong = config->is_set[FIELD_SCHEDULE] && config->value[FIELD_SCHEDULE] == SCHEDULE_PINGPONG;
    out->count = 0;
    int64_t wave = plan_wave_m(config, arch, n), narrow = plan_narrow_m(config, arch, n, k, tp);
    bool widths = !config->is_set[FIELD_TILE_N] && !pingpong; /* tile, schedule and place are what depends on M */
    bool places = plan_sends_straight(config, arch, wave, n, k, tp) == STRAIGHT_FEW_TILES;
    if (places && (!widths || wave < narrow))
        end_class(out, &next, wave);
    if (widths)
        end_class(out, &next, narrow);
    for (size_t i = 0; i + 1 < sizeof tops / sizeof *tops && tp == 1; i++) {
        bool same = plan_takes_turns(config, arch, tops[i], n, k) == plan_takes_turns(config, arch, tops[i + 1], n, k);
        if (tops[i] >= next.m_min && !same)
            end_class(out, &next, tops[i]);
    }
    end_class(out, &next, INT32_MAX);
}

const struct plan_shape *classes_find(const struct classes *classes, int64_t M) {
    for (int i = 0; i < classes->count; i++)
        if (M >= classes->shape[i].m_min && M <= classes->shape[i].m_max)
            return &classes->shape[i];
    return NULL;
}
