#include "tools/grsgen_json.h"

#include <stdlib.h>

static json_t *value_of(const struct plan *plan, enum field field) {
    if (!config_fields[field].choices)
        return json_integer(plan->value[field]);
    struct buf text = {0};
    config_value_text(field, plan->value[field], &text);
    json_t *value = config_fields[field].max && plan->value[field] ? json_integer(plan->value[field])
                                                                   : json_string(text.failed ? "" : text.data);
    buf_free(&text);
    return value;
}

json_t *json_of_plan(const struct work_item *item) {
    const struct plan *plan = &item->plan;
    json_t *values = json_object(), *regions = json_array();
    for (int f = 0; f < FIELD_COUNT; f++)
        json_object_set_new(values, config_fields[f].key,
                            json_pack("{s:o, s:s, s:s?}", "value", value_of(plan, (enum field)f), "from",
                                      plan->origin[f] == ORIGIN_CONFIG ? "config" : "planner", "reason",
                                      plan->reason[f]));
    for (int i = 0; i < plan->region_count; i++)
        json_array_append_new(regions, json_pack("{s:s, s:I, s:I}", "name", plan->region[i].name, "offset",
                                                 (json_int_t)plan->region[i].offset, "bytes",
                                                 (json_int_t)plan->region[i].bytes));
    struct plan_estimate estimate;
    struct plan_memory memory;
    plan_estimate(plan, item->m, &estimate);
    plan_memory_of(plan, item->m, plan->max_grid, &memory);
    return json_pack("{s:s, s:s?, s:s, s:I, s:I, s:I, s:I, s:i, s:I, s:i, s:i, s:i, s:i, s:I, s:I, s:o, s:I, s:I, s:f, "
                     "s:f, s:f, s:o, s:o}",
                     "kernel", plan->name, "name", item->name, "arch", config_arch_name(plan->arch), "m_min",
                     (json_int_t)plan->shape.m_min, "m_max", (json_int_t)plan->shape.m_max, "n",
                     (json_int_t)plan->shape.n, "k", (json_int_t)plan->shape.k, "tp", plan->shape.tp, "m",
                     (json_int_t)item->m, "threads", plan->threads, "registers_launch", plan->registers_launch,
                     "registers_producer", plan->registers_producer, "registers_consumer", plan->registers_consumer,
                     "shared_bytes", (json_int_t)plan->shared_bytes, "shared_limit", (json_int_t)plan->shared_limit,
                     "shared_map", regions, "rank_memory_bytes", (json_int_t)memory.total, "link_bytes",
                     (json_int_t)plan_link_bytes(plan, item->m), "gemm_us", estimate.gemm_us, "link_us",
                     estimate.link_us, "limit_us", estimate.limit_us, "expected_us",
                     estimate.expected_us > 0 ? json_real(estimate.expected_us) : json_null(), "values", values);
}

int json_print(json_t *object) {
    struct buf out = {0};
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (text) {
        buf_puts(&out, text);
        buf_puts(&out, "\n");
    } else {
        out.failed = true;
    }
    free(text);
    return print_buf(&out);
}
