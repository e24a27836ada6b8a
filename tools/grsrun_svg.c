#include "tools/grsrun_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "tools/grsrun_draw.h"

/* The page, the plot in it, and the legend to its right; in pixels. */
enum { WIDTH = 960, HEIGHT = 480, LEFT = 64, TOP = 40, RIGHT = 700, BOTTOM = 420, LEGEND_X = 720, LEGEND_STEP = 18 };

/* Okabe and Ito's colours, which colour-blind readers can tell apart; beyond eight lines the dashes change too. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#8c6d00"};
static const char *const dashes[] = {"", "6 3", "2 3", "8 3 2 3"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))
#define DASHES  (sizeof(dashes) / sizeof(dashes[0]))

static bool is_drawn(const struct bench_row *row) {
    return !row->isolated && isfinite(report_ratio(row));
}

static bool same_line(const struct bench_row *a, const struct bench_row *b) {
    return a->shape.n == b->shape.n && a->shape.k == b->shape.k && a->shape.tp == b->shape.tp;
}

/* What the axes span: powers of two of M, tenths of the ratio. */
struct axes {
    int first, last; /* log2 of M    */
    int bottom, top; /* ratio · 10   */
};

static double place_x(const struct axes *axes, double m) {
    return LEFT + (log2(m) - axes->first) / (axes->last - axes->first) * (RIGHT - LEFT);
}
static double place_y(const struct axes *axes, double ratio) {
    return BOTTOM - (ratio * 10 - axes->bottom) / (axes->top - axes->bottom) * (BOTTOM - TOP);
}

static bool find_axes(const struct bench_row *rows, size_t count, struct axes *out) {
    double least_m = INFINITY, most_m = 0, least = 1, most = 1; /* 1, the limit, is always in view */
    for (size_t i = 0; i < count; i++) {
        if (is_drawn(&rows[i])) {
            double m = (double)rows[i].shape.m, ratio = report_ratio(&rows[i]);
            least_m = fmin(least_m, m), most_m = fmax(most_m, m);
            least = fmin(least, ratio), most = fmax(most, ratio);
        }
    }
    *out = (struct axes){.bottom = (int)floor(least * 10 - 0.5), .top = (int)ceil(most * 10 + 0.5)};
    if (most_m == 0) {
        return false;
    }
    out->first = (int)floor(log2(least_m));
    out->last = (int)ceil(log2(most_m));
    out->last += out->last == out->first;
    return true;
}

static void draw_axes(const struct axes *axes, struct buf *out) {
    char label[32];
    for (int power = axes->first; power <= axes->last; power++) {
        double x = place_x(axes, ldexp(1, power));
        draw_line(out, x, TOP, x, BOTTOM, "stroke=\"#dddddd\"");
        snprintf(label, sizeof(label), "%" PRId64, (int64_t)1 << power);
        draw_text(out, x, BOTTOM + 18, "middle", label);
    }
    int step = (axes->top - axes->bottom) / 12 + 1;
    for (int tenth = axes->bottom; tenth <= axes->top; tenth++) {
        if (tenth != 10 && (tenth - 10) % step) {
            continue;
        }
        double y = place_y(axes, tenth / 10.0);
        draw_line(out, LEFT, y, RIGHT, y,
                  tenth == 10 ? "stroke=\"#666666\" stroke-width=\"1.5\"" : "stroke=\"#dddddd\"");
        snprintf(label, sizeof(label), "%d.%d", tenth / 10, tenth % 10);
        draw_text(out, LEFT - 8, y + 4, "end", label);
    }
    draw_text(out, (LEFT + RIGHT) / 2.0, BOTTOM + 40, "middle", "M");
}

/* The line that row `first` is the first of, in order of M as the rows come. */
static void draw_curve(const struct axes *axes, const struct bench_row *rows, size_t count, size_t first, int number,
                       struct buf *out) {
    const char *colour = colours[(size_t)number % COLOURS], *dash = dashes[(size_t)number / COLOURS % DASHES];
    char style[96], label[96];
    snprintf(style, sizeof(style), "stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"", colour, dash);
    buf_printf(out, "<polyline fill=\"none\" %s points=\"", style);
    for (size_t i = first; i < count; i++) {
        if (is_drawn(&rows[i]) && same_line(&rows[first], &rows[i])) {
            buf_fixed(out, place_x(axes, (double)rows[i].shape.m), 1);
            buf_puts(out, ",");
            buf_fixed(out, place_y(axes, report_ratio(&rows[i])), 1);
            buf_puts(out, " ");
        }
    }
    buf_puts(out, "\"/>\n");
    for (size_t i = first; i < count; i++) {
        if (is_drawn(&rows[i]) && same_line(&rows[first], &rows[i])) {
            buf_puts(out, "<circle r=\"3\" cx=\"");
            buf_fixed(out, place_x(axes, (double)rows[i].shape.m), 1);
            buf_puts(out, "\" cy=\"");
            buf_fixed(out, place_y(axes, report_ratio(&rows[i])), 1);
            buf_printf(out, "\" fill=\"%s\"/>\n", colour);
        }
    }
    double y = TOP + 10 + number * (double)LEGEND_STEP;
    draw_line(out, LEGEND_X, y - 4, LEGEND_X + 28, y - 4, style);
    snprintf(label, sizeof(label), "N %" PRId64 ", K %" PRId64 ", tp %d", rows[first].shape.n, rows[first].shape.k,
             rows[first].shape.tp);
    draw_text(out, LEGEND_X + 36, y, "start", label);
}

static bool is_first_of_line(const struct bench_row *rows, size_t i) {
    for (size_t j = 0; j < i; j++) {
        if (is_drawn(&rows[j]) && same_line(&rows[j], &rows[i])) {
            return false;
        }
    }
    return is_drawn(&rows[i]);
}

void svg_draw(const struct bench_row *rows, size_t count, struct buf *out) {
    struct axes axes;
    int lines = 0;
    for (size_t i = 0; i < count; i++) {
        lines += is_first_of_line(rows, i);
    }
    int legend = TOP + 30 + lines * LEGEND_STEP, height = legend > HEIGHT ? legend : HEIGHT;
    draw_begin(out, WIDTH, height);
    draw_text(out, LEFT, TOP - 16, "start", "time / max(cuBLAS, bytes sent / link), back to back; lower is better");
    if (find_axes(rows, count, &axes)) {
        draw_axes(&axes, out);
        int number = 0;
        for (size_t i = 0; i < count; i++) {
            if (is_first_of_line(rows, i)) {
                draw_curve(&axes, rows, count, i, number++, out);
            }
        }
    } else {
        draw_text(out, LEFT, TOP + 20, "start", "nothing to compare with was measured");
    }
    draw_end(out);
}

grs_status svg_write(const char *path, const struct bench_row *rows, size_t count, grs_error *err) {
    struct buf text = {0};
    svg_draw(rows, count, &text);
    grs_status status = report_save(path, &text, err);
    buf_free(&text);
    return status;
}
