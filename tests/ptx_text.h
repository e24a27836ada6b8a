/* Looking for instructions in PTX: comments are no instructions, and ours name them. */
#ifndef GRS_TESTS_PTX_TEXT_H
#define GRS_TESTS_PTX_TEXT_H

#include <string.h>

/* In place. */
static inline void ptx_strip_comments(char *text) {
    char *to = text;
    for (const char *at = text; *at;) {
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

static inline int ptx_count(const char *text, const char *what) {
    int found = 0;
    for (const char *at = text; (at = strstr(at, what)); at++)
        found++;
    return found;
}

#endif
