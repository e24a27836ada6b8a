/* The few shapes that charts are made of, as SVG text. Lengths in pixels. */
#ifndef GRS_TOOLS_GRSRUN_DRAW_H
#define GRS_TOOLS_GRSRUN_DRAW_H

#include "common/buf.h"

void draw_begin(struct buf *out, int width, int height); /* a white page */
void draw_end(struct buf *out);
/* `anchor`: start, middle or end. `text` holds no character that XML gives a meaning. */
void draw_text(struct buf *out, double x, double y, const char *anchor, const char *text);
/* `style`: attributes. */
void draw_line(struct buf *out, double x1, double y1, double x2, double y2, const char *style);
void draw_rect(struct buf *out, double x, double y, double width, double height, const char *colour);

#endif
