#include "tools/grsrun_draw.h"

void draw_begin(struct buf *out, int width, int height) {
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
               width, height, width, height, width, height);
}

void draw_end(struct buf *out) {
    buf_puts(out, "</svg>\n");
}

static void number(struct buf *out, const char *name, double value) {
    buf_printf(out, " %s=\"", name);
    buf_fixed(out, value, 1);
    buf_puts(out, "\"");
}

void draw_text(struct buf *out, double x, double y, const char *anchor, const char *text) {
    buf_puts(out, "<text");
    number(out, "x", x);
    number(out, "y", y);
    buf_printf(out, " text-anchor=\"%s\">%s</text>\n", anchor, text);
}

void draw_line(struct buf *out, double x1, double y1, double x2, double y2, const char *style) {
    buf_puts(out, "<line");
    number(out, "x1", x1);
    number(out, "y1", y1);
    number(out, "x2", x2);
    number(out, "y2", y2);
    buf_printf(out, " %s/>\n", style);
}

void draw_rect(struct buf *out, double x, double y, double width, double height, const char *colour) {
    buf_puts(out, "<rect");
    number(out, "x", x);
    number(out, "y", y);
    number(out, "width", width);
    number(out, "height", height);
    buf_printf(out, " fill=\"%s\"/>\n", colour);
}
