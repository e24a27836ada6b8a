/* --diff A B: what differs between two configs' plans and emitted text, kernel by kernel. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "generator/emit.h"
#include "generator/plan_explain.h"
#include "tools/grsgen.h"

static void value_text(const struct plan *plan, enum field field, struct buf *out) {
    config_value_text(field, plan->value[field], out);
    if (plan->origin[field] == ORIGIN_CONFIG)
        buf_puts(out, " (config)");
    else
        buf_printf(out, " (planner: %s)", plan->reason[field]);
}

/* "  key   A: …" and "B: …" below it, when they differ. */
static int line(struct buf *out, const char *key, struct buf *a, struct buf *b) {
    bool differs = a->failed || b->failed || strcmp(a->data, b->data) != 0;
    if (differs)
        buf_printf(out, "  %-24s A: %s\n  %-24s B: %s\n", key, a->failed ? "?" : a->data, "",
                   b->failed ? "?" : b->data);
    buf_free(a);
    buf_free(b);
    return differs;
}

static int number(struct buf *out, const char *key, int64_t a, int64_t b) {
    struct buf text_a = {0}, text_b = {0};
    buf_printf(&text_a, "%" PRId64, a);
    buf_printf(&text_b, "%" PRId64, b);
    return line(out, key, &text_a, &text_b);
}

static int diff_plans(const struct plan *a, const struct plan *b, struct buf *out) {
    int differences = 0;
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (a->value[f] == b->value[f] || !(explain_matters(a, (enum field)f) || explain_matters(b, (enum field)f)))
            continue;
        struct buf text_a = {0}, text_b = {0};
        value_text(a, (enum field)f, &text_a);
        value_text(b, (enum field)f, &text_b);
        differences += line(out, config_fields[f].key, &text_a, &text_b);
    }
    differences += number(out, "smallest M", a->shape.m_min, b->shape.m_min);
    differences += number(out, "largest M", a->shape.m_max, b->shape.m_max);
    differences += number(out, "threads a CTA", a->threads, b->threads);
    differences += number(out, "registers of the roles", a->registers_producer, b->registers_producer);
    differences += number(out, "registers of the math", a->registers_consumer, b->registers_consumer);
    differences += number(out, "shared memory", a->shared_bytes, b->shared_bytes);
    differences += number(out, "largest grid", a->max_grid, b->max_grid);
    return differences;
}

/* Lines of a text; the pieces point into it. */
struct lines {
    const char **start;
    size_t *length, count;
};

static bool split(const struct buf *text, struct lines *out) {
    size_t most = 1;
    for (size_t i = 0; i < text->length; i++)
        most += text->data[i] == '\n';
    *out = (struct lines){malloc(most * sizeof *out->start), malloc(most * sizeof *out->length), 0};
    if (!out->start || !out->length)
        return false;
    for (size_t at = 0; at < text->length;) {
        size_t length = strcspn(text->data + at, "\n");
        out->start[out->count] = text->data + at;
        out->length[out->count++] = length;
        at += length + 1;
    }
    return true;
}

static bool same_line(const struct lines *a, size_t i, const struct lines *b, size_t j) {
    return a->length[i] == b->length[j] && !memcmp(a->start[i], b->start[j], a->length[i]);
}

/* The longest common subsequence by the textbook's table; an entry has some forty lines. */
static int diff_lines(const struct lines *a, const struct lines *b, struct buf *out) {
    size_t width = b->count + 1;
    int *common = calloc((a->count + 1) * width, sizeof *common), differences = 0;
    if (!common) {
        out->failed = true;
        return 0;
    }
    for (size_t i = a->count; i-- > 0;)
        for (size_t j = b->count; j-- > 0;) {
            int skip_a = common[(i + 1) * width + j], skip_b = common[i * width + j + 1];
            common[i * width + j] = same_line(a, i, b, j) ? common[(i + 1) * width + j + 1] + 1
                                    : skip_a > skip_b     ? skip_a
                                                          : skip_b;
        }
    for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
        if (i < a->count && j < b->count && same_line(a, i, b, j)) {
            i++, j++;
        } else if (j == b->count || (i < a->count && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            buf_printf(out, "  - %.*s\n", (int)a->length[i], a->start[i]);
            i++, differences++;
        } else {
            buf_printf(out, "  + %.*s\n", (int)b->length[j], b->start[j]);
            j++, differences++;
        }
    }
    free(common);
    return differences;
}

static int diff_text(const struct plan *a, const struct plan *b, struct buf *out) {
    struct buf text_a = {0}, text_b = {0};
    struct lines lines_a = {0}, lines_b = {0};
    grs_error err;
    int differences = 0;
    if (emit_entry(a, &text_a, &err) == GRS_OK && emit_entry(b, &text_b, &err) == GRS_OK && split(&text_a, &lines_a) &&
        split(&text_b, &lines_b))
        differences = diff_lines(&lines_a, &lines_b, out);
    else
        out->failed = true;
    free(lines_a.start);
    free(lines_a.length);
    free(lines_b.start);
    free(lines_b.length);
    buf_free(&text_a);
    buf_free(&text_b);
    return differences;
}

/* The kernel of `work` that serves this item's M: classes of the two configs need not agree. */
static const struct work_item *counterpart(const struct work *work, const struct work_item *item) {
    for (size_t i = 0; i < work->count; i++) {
        const struct plan_shape *s = &work->items[i].plan.shape;
        if (work->items[i].plan.arch == item->plan.arch && s->n == item->plan.shape.n && s->k == item->plan.shape.k &&
            s->tp == item->plan.shape.tp && item->m >= s->m_min && item->m <= s->m_max)
            return &work->items[i];
    }
    return NULL;
}

static void header(const struct work_item *item, struct buf *out) {
    buf_printf(out, "%s m %" PRId64 " n %" PRId64 " k %" PRId64 " tp %d: ", config_arch_name(item->plan.arch), item->m,
               item->plan.shape.n, item->plan.shape.k, item->plan.shape.tp);
}

int grsgen_diff(const struct grsgen_options *options) {
    struct work a = {0}, b = {0};
    struct buf out = {0};
    int code = work_load(options, options->config_path, &a);
    if (!code)
        code = work_load(options, options->other_path, &b);
    if (!code && (!a.count || !b.count))
        code = fail(GRSGEN_USAGE, "--diff: %s has no shapes, allowed: configs with shapes, or --shape M,N,K,tp",
                    a.count ? b.config->path : a.config->path);
    if (code)
        goto done;
    buf_printf(&out, "A: %s\nB: %s\n", options->config_path, options->other_path);
    for (size_t i = 0; i < a.count; i++) {
        const struct work_item *other = counterpart(&b, &a.items[i]);
        header(&a.items[i], &out);
        if (!other) {
            buf_puts(&out, "only in A\n");
            continue;
        }
        struct buf plans = {0}, text = {0};
        int differences = diff_plans(&a.items[i].plan, &other->plan, &plans);
        int changed = diff_text(&a.items[i].plan, &other->plan, &text);
        if (!differences && !changed)
            buf_puts(&out, "the same\n");
        else
            buf_printf(&out, "%d difference%s of the plans\n%s", differences, differences == 1 ? "" : "s",
                       differences ? plans.data : "");
        if (changed)
            buf_printf(&out, "  emitted text, beside the name of the kernel:\n%s", text.data);
        else if (differences)
            buf_puts(&out, "  emitted text: the same\n");
        out.failed = out.failed || plans.failed || text.failed;
        buf_free(&plans);
        buf_free(&text);
    }
    for (size_t i = 0; i < b.count; i++)
        if (!counterpart(&a, &b.items[i])) {
            header(&b.items[i], &out);
            buf_puts(&out, "only in B\n");
        }
    code = print_buf(&out);
done:
    buf_free(&out);
    work_free(&a);
    work_free(&b);
    return code;
}
