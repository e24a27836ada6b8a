#include "generator/config_problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

bool problems_full(const struct problems *problems) {
    return problems->count >= PROBLEMS_MAX || problems->out_of_memory;
}

void problem_add(struct problems *problems, struct position where, const char *key, const char *format, ...) {
    if (problems_full(problems))
        return;
    char *what = NULL, *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&what, format, args);
    va_end(args);
    if (length < 0 || asprintf(&text, "%s: %s", key, what) < 0) {
        problems->out_of_memory = true;
        text = NULL;
    }
    if (length >= 0)
        free(what);
    problems->list[problems->count++] = (struct problem){where, text};
}

/* Insertion sort: stable, so that several mistakes at one place keep the order in which they were found. */
static void sort_by_position(struct problems *problems) {
    for (int i = 1; i < problems->count; i++) {
        struct problem moved = problems->list[i];
        int j = i;
        for (; j > 0; j--) {
            struct position before = problems->list[j - 1].where;
            if (before.line < moved.where.line ||
                (before.line == moved.where.line && before.column <= moved.where.column))
                break;
            problems->list[j] = problems->list[j - 1];
        }
        problems->list[j] = moved;
    }
}

grs_status problems_report(struct problems *problems, const char *path, grs_error *err) {
    if (problems->out_of_memory)
        return error_set(err, GRS_ERR_MEMORY, "%s: out of memory while reading the config", path);
    if (!problems->count)
        return GRS_OK;
    sort_by_position(problems);
    struct buf text = {0};
    for (int i = 0; i < problems->count && i < PROBLEMS_SHOWN; i++) {
        const struct problem *p = &problems->list[i];
        if (i)
            buf_printf(&text, "\n%s:%d:%d: ", path, p->where.line, p->where.column);
        buf_puts(&text, p->text);
    }
    if (problems->count > PROBLEMS_SHOWN)
        buf_printf(&text, "\n%s: %d of %s%d mistakes shown", path, PROBLEMS_SHOWN,
                   problems->count == PROBLEMS_MAX ? "at least " : "", problems->count);
    struct position first = problems->list[0].where;
    grs_status status = text.failed ? error_set(err, GRS_ERR_MEMORY, "%s: out of memory", path)
                                    : error_at(err, GRS_ERR_CONFIG, path, first.line, first.column, "%s", text.data);
    buf_free(&text);
    return status;
}

void problems_free(struct problems *problems) {
    for (int i = 0; i < problems->count; i++)
        free(problems->list[i].text);
    problems->count = 0;
}

struct quoted quote(const char *text, size_t length) {
    enum { SHOWN = 40 };
    struct quoted q;
    size_t end = length;
    if (end > SHOWN) {
        end = SHOWN;
        while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80)
            end--;
    }
    size_t used = 0;
    q.text[used++] = '\'';
    for (size_t i = 0; i < end; i++)
        q.text[used++] = (unsigned char)text[i] < 32 || text[i] == 127 ? '?' : text[i];
    if (end < length) {
        memcpy(q.text + used, "\xe2\x80\xa6", 3); /* … */
        used += 3;
    }
    q.text[used++] = '\'';
    q.text[used] = 0;
    return q;
}

/* Levenshtein distance with adjacent swaps counted as one step (optimal string alignment), for texts below 64 bytes. */
static int distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    int rows[3][64];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        above[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_length];
}

const char *nearest_text(const char *text, size_t length, const char *const *candidates) {
    const char *best = NULL;
    int best_distance = 0;
    if (length >= 64)
        return NULL;
    for (; *candidates; candidates++) {
        size_t candidate_length = strlen(*candidates);
        if (candidate_length >= 64)
            continue;
        int d = distance(text, length, *candidates, candidate_length);
        int near = (int)(candidate_length > length ? candidate_length : length) / 3;
        if (d <= (near > 0 ? near : 1) && d < (int)candidate_length && (!best || d < best_distance)) {
            best = *candidates;
            best_distance = d;
        }
    }
    return best;
}
