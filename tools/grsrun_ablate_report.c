/* What --ablate found, as text, as JSON and as a chart. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/grsrun_ablate.h"
#include "tools/grsrun_draw.h"
#include "tools/grsrun_report.h"

double ablate_ratio(const struct ablate_row *row) {
    return row->us / row->limit_us;
}

double ablate_speedup(const struct ablate_row *row) {
    return row->older_us / row->us;
}

static bool same_shape(const struct grsrun_shape *a, const struct grsrun_shape *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->tp == b->tp;
}

/* ---------------------------------------------------------------- text ------------------------------------------ */

/* The waits that tell the policies apart. */
static const struct {
    enum grs_role role;
    enum grs_wait wait;
    const char *head[2];
} columns[] = {
    {GRS_ROLE_MATH, GRS_WAIT_STAGE_FULL, {"math:", "A, B"}},
    {GRS_ROLE_MATH, GRS_WAIT_TILE_READY, {"math:", "tile"}},
    {GRS_ROLE_PREFETCHER, GRS_WAIT_UPSTREAM, {"pref.:", "upstr."}},
    {GRS_ROLE_PREFETCHER, GRS_WAIT_TILE_FREE, {"pref.:", "buffer"}},
};
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

void ablate_head(struct buf *out) {
    buf_puts(out,
             "# us: median of the slowest GPU, back to back; ratio: us / max(cuBLAS, bytes sent / link); older /: how "
             "many times as fast as the older kernel\n"
             "# waits, in % of a CTA's run: math warps for A and B and for the tile buffer; prefetcher for upstream's "
             "partial and for the buffer to be free\n"
             "# D: equal where it is bit for bit our default's; *: the best baseline\n");
    for (int line = 0; line < 2; line++) {
        buf_printf(out, "#%-68s %9s %5s %6s %7s", line ? "what" : "", line ? "us" : "", line ? "+-%" : "",
                   line ? "ratio" : "", line ? "older /" : "");
        for (size_t i = 0; i < COLUMNS; i++) {
            buf_printf(out, " %6s", columns[i].head[line]);
        }
        buf_printf(out, "  %s\n", line ? "D" : "");
    }
}

static void row_text(const struct ablate_row *row, struct buf *out) {
    buf_printf(out, " %-68s", row->title);
    report_cell(out, 9, 2, row->us);
    report_cell(out, 5, 1, row->spread * 100);
    report_cell(out, 6, 3, ablate_ratio(row));
    report_cell(out, 7, 3, ablate_speedup(row));
    for (size_t i = 0; i < COLUMNS; i++) {
        report_cell(out, 6, 1,
                    row->waits.run > 0 ? waits_share(&row->waits, columns[i].role, columns[i].wait) * 100 : NAN);
    }
    buf_printf(out, "  %s\n",
               row->is_baseline  ? row->is_best_baseline ? "*" : "-"
               : row->refused[0] ? "-"
               : row->equal      ? "equal"
                                 : "DIFFERS");
    if (row->refused[0]) {
        buf_printf(out, "#   refused: %s\n", row->refused);
    }
}

void ablate_text(const struct ablate_row *rows, size_t count, struct buf *out) {
    for (size_t i = 0; i < count; i++) {
        const struct grsrun_shape *s = &rows[i].shape;
        if (i == 0 || !same_shape(s, &rows[i - 1].shape)) {
            const struct variants_policies *older = &rows[i].policies;
            buf_printf(out,
                       "# %" PRId64 ",%" PRId64 ",%" PRId64 " tp %d, %d a GPU, %d SMs each; tile %s, %d stages; limit",
                       s->m, s->n, s->k, s->tp, rows[i].ranks_per_gpu, rows[i].sms, older->tile, older->stages);
            report_cell(out, 1, 2, rows[i].limit_us);
            buf_puts(out, " us\n");
        }
        row_text(&rows[i], out);
    }
}

/* ---------------------------------------------------------------- JSON ------------------------------------------ */

static json_t *text_or_null(const char *text) {
    return text[0] ? json_string(text) : json_null();
}

static json_t *row_json(const struct ablate_row *row) {
    const struct grsrun_shape *s = &row->shape;
    const struct variants_policies *p = &row->policies;
    return json_pack(
        "{s:I, s:I, s:I, s:i, s:i, s:i, s:o, s:i, s:s, s:s, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "m", (json_int_t)s->m, "n", (json_int_t)s->n, "k", (json_int_t)s->k, "tp", s->tp, "ranks_per_gpu",
        row->ranks_per_gpu, "sms", row->sms, "pace_gbps", report_number(row->pace_gbps), "iters", row->iters, "variant",
        row->name, "title", row->title, "baseline", row->is_baseline, "best_baseline", row->is_best_baseline, "config",
        text_or_null(row->config), "tile", text_or_null(p->tile), "stages",
        p->stages ? json_integer(p->stages) : json_null(), "granularity", text_or_null(p->granularity), "ring",
        text_or_null(p->ring), "drain", text_or_null(p->drain), "order", text_or_null(p->order), "us",
        report_number(row->us), "spread", report_number(row->spread), "limit_us", report_number(row->limit_us), "ratio",
        report_number(ablate_ratio(row)), "speedup_over_older", report_number(ablate_speedup(row)), "bitwise_equal",
        row->is_baseline || row->refused[0] ? json_null() : json_boolean(row->equal), "refused",
        text_or_null(row->refused), "waits", waits_json(&row->waits));
}

json_t *ablate_json(const struct ablate_row *rows, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, row_json(&rows[i]));
    }
    return array;
}

/* ---------------------------------------------------------------- chart ----------------------------------------- */

/* In pixels: a group has a line of text, a bar a row, and a gap. */
enum { WIDTH = 1000, TOP = 40, LEFT = 430, RIGHT = 840, BAR = 16, STEP = 22, HEAD = 26, GAP = 18 };

static size_t group_end(const struct ablate_row *rows, size_t count, size_t first) {
    size_t end = first + 1;
    while (end < count && same_shape(&rows[end].shape, &rows[first].shape)) {
        end++;
    }
    return end;
}

static void draw_bar(const struct ablate_row *row, double scale, double y, struct buf *out) {
    static const char variant[] = "#56b4e9", ours[] = "#0072b2", baseline[] = "#999999";
    bool is_ours = row->policies.order[0] && row->name == variants_info[VARIANT_DEFAULT].name;
    struct buf label = {0};
    draw_text(out, LEFT - 8, y + BAR - 4, "end", row->title);
    if (isfinite(row->us)) {
        draw_rect(out, LEFT, y, row->us * scale, BAR, row->is_baseline ? baseline : is_ours ? ours : variant);
        buf_fixed(&label, row->us, 1);
        buf_puts(&label, " µs");
        if (isfinite(ablate_ratio(row))) {
            buf_puts(&label, ", ");
            buf_fixed(&label, ablate_ratio(row), 2);
        }
    } else {
        buf_puts(&label, row->refused[0] ? "refused" : "not measured");
    }
    draw_text(out, LEFT + (isfinite(row->us) ? row->us * scale : 0) + 6, y + BAR - 4, "start",
              label.data ? label.data : "");
    buf_free(&label);
}

static double draw_group(const struct ablate_row *rows, size_t count, double y, struct buf *out) {
    const struct grsrun_shape *s = &rows[0].shape;
    char head[160];
    double longest = 0;
    for (size_t i = 0; i < count; i++) {
        longest = isfinite(rows[i].us) ? fmax(longest, rows[i].us) : longest;
    }
    double scale = longest > 0 ? (RIGHT - LEFT) / longest : 0;
    int length = snprintf(head, sizeof(head), "M %" PRId64 ", N %" PRId64 ", K %" PRId64 ", tp %d, %d a GPU", s->m,
                          s->n, s->k, s->tp, rows[0].ranks_per_gpu);
    if (isfinite(rows[0].pace_gbps)) {
        snprintf(head + length, sizeof(head) - (size_t)length, ", link model %d GB/s a rank",
                 (int)lround(rows[0].pace_gbps));
    }
    draw_text(out, 12, y + 14, "start", head);
    y += HEAD;
    for (size_t i = 0; i < count; i++) {
        draw_bar(&rows[i], scale, y + (double)i * STEP, out);
    }
    if (isfinite(rows[0].limit_us) && scale > 0) {
        double x = LEFT + rows[0].limit_us * scale;
        draw_line(out, x, y - 4, x, y + (double)count * STEP,
                  "stroke=\"#d55e00\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"");
    }
    return y + (double)count * STEP + GAP;
}

void ablate_draw(const struct ablate_row *rows, size_t count, struct buf *out) {
    int groups = 0;
    for (size_t first = 0; first < count; first = group_end(rows, count, first)) {
        groups++;
    }
    draw_begin(out, WIDTH, TOP + groups * (HEAD + GAP) + (int)count * STEP + GAP);
    draw_text(out, 12, TOP - 16, "start",
              "time and ratio to the limit, back to back; shorter is better; dashed: max(cuBLAS, bytes sent / link)");
    double y = TOP;
    for (size_t first = 0; first < count; first = group_end(rows, count, first)) {
        y = draw_group(&rows[first], group_end(rows, count, first) - first, y, out);
    }
    draw_end(out);
}
