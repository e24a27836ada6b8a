#include "generator/classes.h"

#include <stdlib.h>
#include <string.h>

#include "generator/machine.h"
#include "generator/plan_defaults.h"

/* Tops of classes of one rank: the M's that are common. The choice for a class is the one for its top. */
static const int64_t tops[] = {2048, 4096, 8192, INT32_MAX};

static bool same_choices(const struct config *config, enum arch arch, const struct plan_shape *a,
                         const struct plan_shape *b) {
    int64_t shared = machine_of(arch)->shared_limit;
    struct plan one = {.arch = arch, .shape = *a, .segments = a->tp, .shared_limit = shared};
    struct plan other = {.arch = arch, .shape = *b, .segments = b->tp, .shared_limit = shared};
    plan_defaults(config, &one);
    plan_defaults(config, &other);
    return memcmp(one.value, other.value, sizeof one.value) == 0;
}

/* Neighbours that the config leaves no difference become one: senders of an outbox take the registers of wide tiles, say. */
static void join_alike(const struct config *config, enum arch arch, struct classes *classes) {
    int kept = 0;
    for (int i = 1; i < classes->count; i++)
        if (same_choices(config, arch, &classes->shape[kept], &classes->shape[i]))
            classes->shape[kept].m_max = classes->shape[i].m_max;
        else
            classes->shape[++kept] = classes->shape[i];
    classes->count = kept + 1;
}

/* Ends a class at `m_max`, if that is not the end of one already. */
static void end_class(struct classes *out, struct plan_shape *next, int64_t m_max) {
    if (m_max < next->m_min)
        return;
    out->shape[out->count] = *next;
    out->shape[out->count++].m_max = m_max;
    next->m_min = m_max + 1;
}

static int by_size(const void *a, const void *b) {
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

/* The tile and its way to the peer are what depends on M: up to where each is chosen. */
void classes_make(const struct config *config, enum arch arch, int64_t n, int64_t k, int tp, struct classes *out) {
    struct plan_shape next = {.m_min = 1, .m_max = INT32_MAX, .n = n, .k = k, .tp = tp};
    int64_t ends[] = {plan_small_m(config, arch, n, tp), tp > 1 ? plan_few_m(config, arch, n) : 0,
                      plan_narrow_m(config, arch, n, k, tp)};
    qsort(ends, sizeof ends / sizeof *ends, sizeof *ends, by_size);
    out->count = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        end_class(out, &next, ends[i]);
    for (size_t i = 0; i + 1 < sizeof tops / sizeof *tops && tp == 1; i++) {
        bool same = plan_takes_turns(config, arch, tops[i], n, k) == plan_takes_turns(config, arch, tops[i + 1], n, k);
        if (!same)
            end_class(out, &next, tops[i]);
    }
    end_class(out, &next, INT32_MAX);
    join_alike(config, arch, out);
}

const struct plan_shape *classes_find(const struct classes *classes, int64_t M) {
    for (int i = 0; i < classes->count; i++)
        if (M >= classes->shape[i].m_min && M <= classes->shape[i].m_max)
            return &classes->shape[i];
    return NULL;
}
