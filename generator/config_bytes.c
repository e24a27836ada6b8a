/* The bytes of a config, before any YAML: positions here count characters, as libyaml's do. */
#include "generator/config_yaml.h"

/* Length of the well-formed UTF-8 sequence at `s`, or 0 (Unicode 15, table 3-7: no overlong forms, no surrogates). */
static size_t sequence_length(const unsigned char *s, size_t left) {
    if (s[0] < 0x80)
        return 1;
    size_t length = s[0] >= 0xC2 && s[0] <= 0xDF   ? 2
                    : s[0] >= 0xE0 && s[0] <= 0xEF ? 3
                    : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                                   : 0;
    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

bool yaml_check_bytes(const char *text, size_t length, struct problems *problems) {
    const unsigned char *s = (const unsigned char *)text;
    struct position at = {1, 1};
    int before = problems->count, tab_line = 0;
    for (size_t i = 0; i < length && !problems_full(problems);) {
        size_t width = sequence_length(s + i, length - i);
        if (width == 0) {
            problem_add(problems, at, "file", "byte 0x%02x is not valid UTF-8, allowed: UTF-8 text", s[i]);
            return false; /* what follows is guesswork */
        }
        bool wide_break = (width == 2 && s[i] == 0xC2 && s[i + 1] == 0x85) ||
                          (width == 3 && s[i] == 0xE2 && s[i + 1] == 0x80 && (s[i + 2] == 0xA8 || s[i + 2] == 0xA9));
        if (s[i] == 0) {
            problem_add(problems, at, "file", "NUL byte, allowed: UTF-8 text");
            return false;
        } else if (s[i] == '\t') {
            if (tab_line != at.line) /* one a line is enough */
                problem_add(problems, at, "file", "tab, allowed: spaces");
            tab_line = at.line;
        } else if (s[i] == '\r' && (i + 1 == length || s[i + 1] != '\n')) {
            problem_add(problems, at, "file", "carriage return without line feed, allowed: LF or CRLF line ends");
        } else if (wide_break) {
            problem_add(problems, at, "file", "Unicode line separator, allowed: LF or CRLF line ends");
        } else if ((s[i] < 32 && s[i] != '\n' && s[i] != '\r') || s[i] == 127 ||
                   (width == 2 && s[i] == 0xC2 && s[i + 1] < 0xA0)) {
            problem_add(problems, at, "file", "control character 0x%02x, allowed: printable text",
                        width == 2 ? s[i + 1] : s[i]);
        }
        if (s[i] == '\n') {
            at.line++;
            at.column = 1;
        } else {
            at.column++;
        }
        i += width;
    }
    return problems->count == before;
}
