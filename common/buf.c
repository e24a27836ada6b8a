#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `extra` more bytes and the NUL beyond them. Growth doubles, so that appending is linear overall. */
static bool reserve(struct buf *b, size_t extra) {
    if (b->failed)
        return false;
    if (extra >= SIZE_MAX / 2 - b->length) {
        b->failed = true;
        return false;
    }
    size_t need = b->length + extra + 1;
    if (need <= b->capacity)
        return true;
    size_t capacity = b->capacity ? b->capacity * 2 : 256;
    if (capacity < need)
        capacity = need;
    char *data = realloc(b->data, capacity);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void buf_append(struct buf *b, const void *data, size_t length) {
    if (!reserve(b, length))
        return;
    if (length)
        memcpy(b->data + b->length, data, length);
    b->length += length;
    b->data[b->length] = 0;
}

void buf_puts(struct buf *b, const char *text) {
    buf_append(b, text, strlen(text));
}

void buf_printf(struct buf *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        b->failed = true;
    else if (reserve(b, (size_t)length)) {
        vsnprintf(b->data + b->length, (size_t)length + 1, format, again);
        b->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void buf_fixed(struct buf *b, double value, int decimals) {
    char text[400]; /* the largest double has 309 digits before the point */
    if (decimals < 0)
        decimals = 0;
    if (decimals > 60)
        decimals = 60;
    snprintf(text, sizeof text, "%.*f", decimals, value);
    /* Whatever the locale put between the digits (it may be several bytes) becomes one point. */
    char *point = text + strspn(text, "-0123456789infa");
    size_t width = strcspn(point, "0123456789");
    buf_append(b, text, (size_t)(point - text));
    if (*point) {
        buf_puts(b, ".");
        buf_puts(b, point + width);
    }
}

void buf_clear(struct buf *b) {
    b->length = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

char *buf_take(struct buf *b) {
    char *data = NULL;
    if (reserve(b, 0)) {
        data = b->data;
        data[b->length] = 0;
        *b = (struct buf){0};
    }
    buf_free(b);
    return data;
}

void buf_free(struct buf *b) {
    free(b->data);
    *b = (struct buf){0};
}
