/* What operands hold and what may be expected of D: one text for the host (C11) and for the helper kernels (CUDA), so that
 * both speak of the same numbers. Values come from a counter: element (row, column) of an operand depends on nothing but the
 * seed, the operand's name, its rank and its place, never on strides or on the device that makes it. */
#ifndef GRS_TOOLS_GRSRUN_VALUES_H
#define GRS_TOOLS_GRSRUN_VALUES_H

#if defined(__CUDACC_RTC__)
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define VALUES_FUNCTION static __device__ inline
#else
#include <stdint.h>
#include <string.h>
#define VALUES_FUNCTION static inline
#endif

/* exact: −1, 0 and 1, so sparse that every partial sum is an integer of magnitude at most VALUES_EXACT_MAX, the range in
 * which BF16 holds every integer: any order of addition gives the same bits. random: uniform in [−1, 1], rounded to BF16. */
enum values_mode { VALUES_EXACT = 0, VALUES_RANDOM };
#define VALUES_EXACT_MAX 256

enum values_operand { VALUES_A = 0, VALUES_B, VALUES_D };

/* One matrix in memory, in 16-bit words: `lead` guard words, rows × ld, guard words up to `total`. What is not an element
 * holds poison, and so does all of a D before the launch. */
struct values_matrix {
    uint64_t key;       /* values_key of seed, operand and rank                  */
    uint32_t operand;   /* enum values_operand                                   */
    uint32_t mode;      /* enum values_mode                                      */
    uint32_t threshold; /* exact: an element is not 0 with probability / 2^32    */
    uint32_t spare;
    int64_t rows, columns, ld;
    int64_t lead, total;
};

/* What the reference kernel is asked for: D of one owner, summed over a ring of ranks: all of them, or those of a node. */
struct values_reference {
    uint64_t seed;
    uint32_t mode, threshold;
    int32_t ring, owner; /* ranks first_rank to first_rank + ring - 1; the owner's number among them: it adds last */
    int32_t first_rank, spare;
    int64_t n, k;
    int64_t first_row, rows; /* of A that the owner keeps */
};

/* What the kernel that adds up nodes is asked for: [nodes][count] sums and bounds become [count]. */
struct values_nodes {
    int64_t count;
    int32_t nodes, spare;
};

/* What the compare kernel finds; all zero at the start except `first`, which is all ones. Places are row · N + column. */
struct values_verdict {
    uint64_t mismatches;
    uint64_t unwritten;         /* of these: still hold the poison                           */
    uint64_t first, last;       /* places of the first and the last mismatch                 */
    double error2, got2, want2; /* Σ (got − want)², Σ got², Σ want²                          */
    float worst;                /* random: largest error / bound (as float bits it only grows) */
    float spare;
};

/* What the check kernel finds; `first` starts as all ones. */
struct values_damage {
    uint64_t words; /* that changed */
    uint64_t first; /* word offset from the start of the buffer */
};

/* Memory that is to hold one value, in 32-bit words: what grsrun_spans looks through. There a damage's `first` is the number of
 * the span << 40 | the word in it. */
struct values_span {
    uint64_t address, words;
    uint32_t value, spare;
};
#define VALUES_SPAN_SHIFT 40

/* Murmur's finaliser on 64 bits: every input bit reaches every output bit. */
VALUES_FUNCTION uint64_t values_mix(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

VALUES_FUNCTION uint64_t values_key(uint64_t seed, uint32_t operand, int32_t rank) {
    return values_mix(values_mix(seed) + ((uint64_t)operand << 32 | (uint32_t)rank) + 1);
}

VALUES_FUNCTION uint32_t values_bits(float x) {
#if defined(__CUDACC_RTC__)
    return __float_as_uint(x);
#else
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
#endif
}

VALUES_FUNCTION float values_from_bf16(uint16_t word) {
#if defined(__CUDACC_RTC__)
    return __uint_as_float((uint32_t)word << 16);
#else
    uint32_t bits = (uint32_t)word << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
#endif
}

/* To the nearest, ties to even; for finite numbers. */
VALUES_FUNCTION uint16_t values_to_bf16(float x) {
    uint32_t bits = values_bits(x);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The BF16 word of one element; `index` is row · columns + column. */
VALUES_FUNCTION uint16_t values_element(uint64_t key, uint32_t mode, uint32_t threshold, uint64_t index) {
    uint64_t h = values_mix(key + index * 0x9e3779b97f4a7c15ull);
    if (mode == VALUES_EXACT) {
        return (uint32_t)h >= threshold ? 0 : h >> 63 ? 0xbf80 : 0x3f80;
    }
    return values_to_bf16((float)((int32_t)(h >> 32) >> 8) * (1.0f / 8388608.0f)); /* 24 bits: exact as float */
}

/* A NaN whose payload depends on the place, so that stray copies of poison show too. */
VALUES_FUNCTION uint16_t values_poison(uint64_t word) {
    return (uint16_t)(0xff81 + (values_mix(word) & 63));
}

/* The element that word `w` of the matrix's buffer belongs to, or −1 outside the rows. */
VALUES_FUNCTION int64_t values_place(const struct values_matrix *matrix, int64_t w) {
    int64_t i = w - matrix->lead;
    if (i < 0 || i >= matrix->rows * matrix->ld) {
        return -1;
    }
    int64_t row = i / matrix->ld, column = i - row * matrix->ld;
    return column < matrix->columns ? row * matrix->columns + column : -1;
}

/* What word `w` of the buffer holds before a launch. */
VALUES_FUNCTION uint16_t values_word(const struct values_matrix *matrix, int64_t w) {
    int64_t place = matrix->operand == VALUES_D ? -1 : values_place(matrix, w);
    return place < 0 ? values_poison((uint64_t)w)
                     : values_element(matrix->key, matrix->mode, matrix->threshold, (uint64_t)place);
}

/* How far D may be from the exact sum (mode random). Along the ring, in the order of addition, let P be the exact sum up to
 * and with this rank and b the bound before it. The rank adds
 *   its own product in FP32: ⌈K/16⌉ matrix instructions and one addition of the partial, each off by at most 2^-21 of the
 *     largest magnitude in play (24 bits of significand, products aligned to the largest and cut), which is at most
 *     `peak`, the largest |running sum| seen while K advances, plus the 16 products of one instruction, each below 1;
 *   one rounding to BF16: half a unit in the last place of 8 bits, 2^-8 of the magnitude that is rounded, |P| + b. */
VALUES_FUNCTION float values_bound(float b, float prefix, float peak, int64_t k) {
    float steps = (float)((k + 15) / 16 + 1);
    float accumulated = b + steps * (1.0f / 2097152.0f) * (peak + 16.0f);
    float magnitude = (prefix < 0.0f ? -prefix : prefix) + accumulated;
    return accumulated + magnitude * (1.0f / 256.0f);
}

/* The same after the sums of nodes were added in BF16, in an order that is NCCL's own: `b` is the sum of the nodes' bounds, `sum` that
 * of their exact sums, and `reach` the largest magnitude that a sum of some of them can have. Each addition rounds once, the last
 * one the sum of all. */
VALUES_FUNCTION float values_bound_nodes(float b, float sum, float reach, int32_t nodes) {
    for (int32_t added = 1; added < nodes; added++) {
        float magnitude = added + 1 < nodes ? reach : sum < 0.0f ? -sum : sum;
        b += (magnitude + b) * (1.0f / 256.0f);
    }
    return b;
}

/* Element `i` of a values_nodes: sums and bounds of all nodes into those of the whole. Returns the largest magnitude that a sum of
 * some of the nodes can have. */
VALUES_FUNCTION float values_add_nodes(const struct values_nodes *task, int64_t i, const float *sums_of,
                                       const float *bounds_of, float *sums, float *bounds) {
    double up = 0, down = 0;
    float b = 0;
    for (int32_t node = 0; node < task->nodes; node++) {
        float sum = sums_of[node * task->count + i];
        up += sum > 0.0f ? sum : 0.0f;
        down -= sum < 0.0f ? sum : 0.0f;
        b += bounds_of[node * task->count + i];
    }
    float reach = (float)(up > down ? up : down);
    sums[i] = (float)(up - down);
    bounds[i] = values_bound_nodes(b, sums[i], reach, task->nodes);
    return reach;
}

#if !defined(__CUDACC_RTC__)
/* exact: the greatest density for which the chance that any partial sum of any element leaves the range is below 10^-9. */
uint32_t values_threshold(int64_t m, int64_t n, int64_t k, int tp);

/* random: greatest ‖D − ref‖ / ‖ref‖ and metric that pass. BF16 rounds with a relative error of 1.7e-3 (root mean square);
 * the partial sums that are rounded have variance 1/R, 2/R … 1 of the result's, which adds up to (R + 1) / 2. Over S nodes of L
 * ranks they have 1/R … L/R on each, then 2L/R, 3L/R … 1: (L + 1) / 2 + (S + 1) / 2 - 1 / S. */
double values_rel_err_limit(int tp, int nodes);
#define VALUES_METRIC_LIMIT 1e-5
/* Over nodes it is at least what the limit of the relative error amounts to, half of its square: NCCL rounds once more a node. */
double values_metric_limit(int tp, int nodes);
/* Both are statistics: with fewer elements of D than this one unlucky cancellation decides, and the bound alone judges. */
#define VALUES_STATISTIC_MIN 1024

/* ‖D − ref‖ / ‖ref‖ and 1 − 2·x·y / (x·x + y·y) = ‖x − y‖² / (x·x + y·y); 0 where both are 0. */
double values_rel_err(const struct values_verdict *verdict);
double values_metric(const struct values_verdict *verdict);
#endif

#endif
