/* --check, --explain, --schema: what needs neither compiler nor cache. */
#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "generator/plan_explain.h"
#include "tools/grsgen.h"
#include "tools/grsgen_json.h"

static void arch_list(const struct work *work, struct buf *out) {
    bool seen[ARCH_COUNT] = {0};
    for (size_t i = 0; i < work->count; i++)
        seen[work->items[i].plan.arch] = true;
    const char *between = "";
    for (int a = 0; a < ARCH_COUNT; a++)
        if (seen[a]) {
            buf_printf(out, "%s%s", between, config_arch_name((enum arch)a));
            between = ", ";
        }
}

int grsgen_check(const struct grsgen_options *options) {
    struct work work;
    int code = work_load(options, options->config_path, &work);
    if (code)
        return code;
    struct buf out = {0};
    if (options->json) {
        json_t *kernels = json_array();
        for (size_t i = 0; i < work.count; i++)
            json_array_append_new(kernels, json_of_plan(&work.items[i]));
        code = json_print(json_pack("{s:s, s:s, s:I, s:o}", "kind", "check", "config", work.config->path, "shapes",
                                    (json_int_t)work.shape_count, "kernels", kernels));
    } else {
        buf_printf(&out, "%s: ok", work.config->path);
        if (work.count) {
            buf_printf(&out, ": %zu shape%s, %zu kernel%s for ", work.shape_count, work.shape_count == 1 ? "" : "s",
                       work.count, work.count == 1 ? "" : "s");
            arch_list(&work, &out);
        } else {
            buf_puts(&out, ": no shapes");
        }
        buf_puts(&out, "\n");
        code = print_buf(&out);
    }
    work_free(&work);
    return code;
}

int grsgen_explain(const struct grsgen_options *options) {
    struct work work;
    int code = work_load(options, options->config_path, &work);
    if (code)
        return code;
    struct buf out = {0};
    json_t *kernels = options->json ? json_array() : NULL;
    if (!work.count)
        code = fail(GRSGEN_USAGE, "--explain: %s has no shapes, allowed: a config with shapes, or --shape M,N,K,tp",
                    work.config->path);
    for (size_t i = 0; i < work.count; i++) {
        const struct work_item *item = &work.items[i];
        if (options->json) {
            json_t *kernel = json_of_plan(item);
            if (!code && !plan_explain_json(&item->plan, item->m, 0, kernel))
                code = fail(GRSGEN_FAILED, "--explain: out of memory for %s", item->plan.name);
            json_array_append_new(kernels, kernel);
            continue;
        }
        if (i)
            buf_puts(&out, "\n");
        if (item->name)
            buf_printf(&out, "# %s\n", item->name);
        plan_explain(&item->plan, item->m, 0, &out);
    }
    if (options->json && !code)
        code = json_print(
            json_pack("{s:s, s:s, s:o}", "kind", "explain", "config", work.config->path, "kernels", kernels));
    else if (options->json)
        json_decref(kernels);
    else if (!code)
        code = print_buf(&out);
    buf_free(&out);
    work_free(&work);
    return code;
}

int grsgen_schema(const struct grsgen_options *options) {
    struct buf out = {0};
    if (options->schema == SCHEMA_MARKDOWN)
        config_reference(&out);
    else
        config_schema(&out);
    return print_buf(&out);
}
