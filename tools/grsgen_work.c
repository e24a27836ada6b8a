/* From options to plans: archs × shapes, one item a kernel. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "generator/classes.h"
#include "tools/grsgen.h"

void work_shape_text(const struct plan *plan, struct buf *out) {
    const struct plan_shape *s = &plan->shape;
    if (s->m_min == s->m_max)
        buf_printf(out, "m %" PRId64, s->m_min);
    else
        buf_printf(out, "m %" PRId64 "..%" PRId64, s->m_min, s->m_max);
    buf_printf(out, " n %" PRId64 " k %" PRId64 " tp %d", s->n, s->k, s->tp);
}

void work_free(struct work *work) {
    config_free(work->config);
    free(work->items);
    *work = (struct work){0};
}

static bool same_kernel(const struct plan *plan, enum arch arch, const struct plan_shape *s) {
    return plan->arch == arch && plan->shape.n == s->n && plan->shape.k == s->k && plan->shape.tp == s->tp &&
           plan->shape.m_min == s->m_min;
}

/* Refusals already printed: several shapes often fail for the same reason. */
struct refusals {
    char *text[16];
    int count;
};

static void print_once(struct refusals *refusals, const grs_error *err) {
    for (int i = 0; i < refusals->count; i++)
        if (!strcmp(refusals->text[i], err->text))
            return;
    fail_with(0, err);
    if (refusals->count < 16 && (refusals->text[refusals->count] = strdup(err->text)))
        refusals->count++;
}

static int add_item(struct work *work, enum arch arch, const struct config_shape *shape, struct refusals *refusals) {
    bool fixed = work->config->is_set[FIELD_M_MODE] && work->config->value[FIELD_M_MODE] == M_FIXED;
    struct plan_shape wanted = {.m_min = shape->m, .m_max = shape->m, .n = shape->n, .k = shape->k, .tp = shape->tp};
    if (!fixed) {
        struct classes classes;
        classes_make(work->config, arch, shape->n, shape->k, shape->tp, &classes);
        wanted = *classes_find(&classes, shape->m);
    }
    grs_error err = {0};
    for (size_t i = 0; i < work->count; i++)
        if (same_kernel(&work->items[i].plan, arch, &wanted)) {
            if (plan_check_m(&work->items[i].plan, shape->m, &err) != GRS_OK) {
                print_once(refusals, &err);
                return GRSGEN_USAGE;
            }
            if (shape->m > work->items[i].m)
                work->items[i].m = shape->m;
            return GRSGEN_OK;
        }
    struct work_item *grown = realloc(work->items, (work->count + 1) * sizeof *grown);
    if (!grown)
        return fail(GRSGEN_FAILED, "out of memory for %zu kernels", work->count + 1);
    work->items = grown;
    struct work_item *item = &work->items[work->count];
    *item = (struct work_item){.shape = wanted, .m = shape->m, .name = shape->name};
    if (plan_solve(work->config, arch, &wanted, &item->plan, &err) != GRS_OK ||
        plan_check_m(&item->plan, shape->m, &err) != GRS_OK) {
        print_once(refusals, &err);
        return GRSGEN_USAGE;
    }
    work->count++;
    return GRSGEN_OK;
}

static bool is_wanted(const struct grsgen_options *options, const struct config_shape *shape) {
    return !options->only || (shape->name && !strcmp(shape->name, options->only));
}

int work_load(const struct grsgen_options *options, const char *config_path, struct work *work) {
    grs_error err = {0};
    struct refusals refusals = {0};
    int code = GRSGEN_OK;
    *work = (struct work){0};
    if ((config_path ? config_load(config_path, &work->config, &err) : config_defaults(&work->config, &err)) != GRS_OK)
        return fail_with(err.status == GRS_ERR_MEMORY ? GRSGEN_FAILED : GRSGEN_USAGE, &err);
    const struct config_shape *shapes = options->shape_count ? options->shapes : work->config->shapes;
    size_t count = options->shape_count ? options->shape_count : work->config->shape_count;
    bool arch[ARCH_COUNT], any = false;
    for (int a = 0; a < ARCH_COUNT; a++) {
        arch[a] = options->has_arch ? options->arch[a] : work->config->arch[a];
        any = any || arch[a];
    }
    const char *named = getenv("GRS_ARCH");
    enum arch usual = ARCH_SM90A;
    if (!any && named && *named && !config_arch_parse(named, &usual)) {
        code = fail(GRSGEN_USAGE, "GRS_ARCH: '%s' is unknown; see grsgen --help", named);
        goto done;
    }
    if (!any)
        arch[usual] = true;
    for (int a = 0; a < ARCH_COUNT && code != GRSGEN_FAILED; a++) {
        work->archs += arch[a];
        for (size_t s = 0; arch[a] && s < count && code != GRSGEN_FAILED; s++) {
            if (!is_wanted(options, &shapes[s]))
                continue;
            work->shape_count++;
            int one = add_item(work, (enum arch)a, &shapes[s], &refusals);
            code = one ? one : code;
        }
    }
    if (!code && !work->shape_count && options->only)
        code = fail(GRSGEN_USAGE, "--only: no shape of %s is called '%s'", config_path, options->only);
done:
    for (int i = 0; i < refusals.count; i++)
        free(refusals.text[i]);
    if (code)
        work_free(work);
    return code;
}
