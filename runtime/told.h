/* Texts and errors that come from other processes. */
#ifndef GRS_RUNTIME_TOLD_H
#define GRS_RUNTIME_TOLD_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Control characters would play tricks on terminals. `text` has room for the NUL at `length`. */
static inline void told_text(char *text, size_t length) {
    text[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        text[i] = (unsigned char)text[i] < ' ' && text[i] != '\n' ? '?' : text[i];
    }
}

static inline grs_status told_status(int32_t status) {
    return status >= GRS_OK && status <= GRS_ERR_CANCELLED ? (grs_status)status : GRS_ERR_PEER;
}

/* An error as it was sent; never GRS_OK, never without a text. */
static inline grs_status told_error(int32_t status, char *text, size_t length, grs_error *err) {
    told_text(text, length);
    return error_set(err, told_status(status) == GRS_OK ? GRS_ERR_PEER : told_status(status), "%s",
                     length == 0 ? "a rank failed and did not say why" : text);
}

#endif
