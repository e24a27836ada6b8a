/* A growing text or byte buffer. A failed allocation is remembered in `failed` and checked once at the end. The data is
 * always NUL-terminated beyond `length`. Zero-initialise; free with buf_free. Formatting is locale-independent as long as
 * no floating-point conversion is used: use buf_fixed for those. */
#ifndef GRS_COMMON_BUF_H
#define GRS_COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data;
    size_t length, capacity;
    bool failed;
};

void buf_append(struct buf *b, const void *data, size_t length);
void buf_puts(struct buf *b, const char *text);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_fixed(struct buf *b, double value, int decimals); /* "12.34", never a locale's comma */
void buf_clear(struct buf *b);                             /* keeps the memory */
char *buf_take(struct buf *b);                             /* the caller frees; NULL if any append failed */
void buf_free(struct buf *b);

#endif
