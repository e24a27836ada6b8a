/* Operands for which every element of D says which element it is: what was moved to a wrong place names the place that it was
 * made for. The rank with which the ring of an owner begins adds a digit of the element's number, every other rank 0; so what
 * arrives has crossed the whole ring as it was made. A launch carries one digit, exact in BF16: 1 to 256. */
#ifndef GRS_TESTS_INDEX_PATTERN_H
#define GRS_TESTS_INDEX_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#define INDEX_DIGITS 2 /* launches: rows of a segment x N must be at most 65536 */

struct index_pattern {
    int64_t M, N; /* K must be at least the rows of a segment */
    int tp, digit;
};

static inline int64_t index_segment_rows(const struct index_pattern *p) {
    return (p->M + p->tp - 1) / p->tp;
}

/* D[row of the segment, column]: 0 is never wanted, so what never came shows. */
static inline int index_wanted(const struct index_pattern *p, int64_t row, int64_t column) {
    return 1 + (int)((row * p->N + column) >> (8 * p->digit) & 255);
}

/* A[row, k] picks row k of the segment, on the rank after whose product the partial sets out. */
static inline int index_a(const struct index_pattern *p, int rank, int64_t row, int64_t k) {
    int64_t c = index_segment_rows(p);
    return row / c == (rank + 1) % p->tp && row % c == k;
}

static inline int index_b(const struct index_pattern *p, int64_t column, int64_t k) {
    return k < index_segment_rows(p) ? index_wanted(p, k, column) : 0;
}

/* The element that the digits found at one place were made for, row * N + column; -1: none. */
static inline int64_t index_found(const float digits[INDEX_DIGITS]) {
    int64_t place = 0;
    for (int i = INDEX_DIGITS - 1; i >= 0; i--) {
        if (!(digits[i] >= 1 && digits[i] <= 256) || digits[i] != (float)(int)digits[i])
            return -1;
        place = place << 8 | ((int)digits[i] - 1);
    }
    return place;
}

#endif
