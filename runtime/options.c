#include "runtime/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/error.h"

static grs_status size_error(const char *type, size_t size, grs_error *err) {
    return error_set(err, GRS_ERR_ARGUMENT, "%s.size is %zu; set it with GRS_INIT(%s)", type, size, type);
}

grs_status options_copy(void *to, size_t known, const void *from, const char *type, grs_error *err) {
    size_t size;
    memset(to, 0, known);
    if (from == NULL) {
        return GRS_OK;
    }
    memcpy(&size, from, sizeof(size));
    if (size < sizeof(size) || size > 4096) {
        return size_error(type, size, err);
    }
    for (size_t i = known; i < size; i++) {
        if (((const unsigned char *)from)[i] != 0) {
            return error_set(err, GRS_ERR_UNSUPPORTED,
                             "%s sets a member at byte %zu that this version of the library (%s) does not know", type,
                             i, grs_version());
        }
    }
    memcpy(to, from, size < known ? size : known);
    return GRS_OK;
}

grs_status options_return(void *to, const void *from, size_t known, const char *type, grs_error *err) {
    size_t size;
    memcpy(&size, to, sizeof(size));
    if (size < sizeof(size) || size > 4096) {
        return size_error(type, size, err);
    }
    size_t count = size < known ? size : known;
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), count - sizeof(size));
    memset((char *)to + count, 0, size - count);
    return GRS_OK;
}

/* "-12.5" without the locale's decimal sign; no exponent. */
static bool parse(const char *text, double *out) {
    bool negative = *text == '-', digits = false;
    double value = 0, scale = 1;
    text += negative;
    for (; *text >= '0' && *text <= '9'; text++, digits = true) {
        value = value * 10 + (*text - '0');
    }
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++, digits = true) {
            scale /= 10;
            value += scale * (*text - '0');
        }
    }
    *out = negative ? -value : value;
    return digits && *text == '\0';
}

grs_status options_number(const char *variable, double min, double max, double *value, grs_error *err) {
    const char *text = getenv(variable);
    double number;
    if (text == NULL || text[0] == '\0') {
        return GRS_OK;
    }
    if (!parse(text, &number) || number < min || number > max) {
        struct buf range = {0};
        buf_fixed(&range, min, 0);
        buf_puts(&range, " to ");
        buf_fixed(&range, max, 0);
        grs_status status = error_set(err, GRS_ERR_ARGUMENT, "%s=%s; allowed: a number from %s", variable, text,
                                      range.data == NULL ? "?" : range.data);
        buf_free(&range);
        return status;
    }
    *value = number;
    return GRS_OK;
}
