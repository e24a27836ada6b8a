/* Operands and limits of grsrun: the generator's values, the density of exact operands, and the bound on D, which must hold
 * for a ring that does everything right and fail for one that does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>

#include "tools/grsrun_values.h"

/* From a second implementation of the definition, in Python. Results that people compare across versions depend on it. */
static void values_are_pinned(void **state) {
    (void)state;
    uint64_t key = values_key(1, VALUES_A, 0);
    assert_int_equal(key, 0xd522b5d820b5e72full);
    assert_int_equal(values_key(5, VALUES_B, 3), 0xfc12e422904b1f1eull);
    assert_int_equal(values_element(key, VALUES_RANDOM, 0, 0), 0xbe27);
    assert_int_equal(values_element(key, VALUES_RANDOM, 0, 1ull << 40), 0x3a66);
    static const uint16_t exact[] = {0x0000, 0xbf80, 0x3f80, 0xbf80, 0xbf80, 0x0000};
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(values_element(key, VALUES_EXACT, 1u << 31, i), exact[i]);
    }
    assert_int_equal(values_poison(12345), 0xffba);
}

static void keys_differ(void **state) {
    (void)state;
    uint64_t keys[24];
    int count = 0;
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (int rank = 0; rank < 4; rank++) {
            keys[count++] = values_key(seed, VALUES_A, rank);
            keys[count++] = values_key(seed, VALUES_B, rank);
        }
    }
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(keys[i], keys[j]);
        }
    }
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        float x;
        uint16_t word;
    } cases[] = {{1.0f, 0x3f80},        {-1.0f, 0xbf80},  {1.00390625f, 0x3f80}, /* half way: to even, down */
                 {1.01171875f, 0x3f82},                                          /* half way: to even, up */
                 {1.00390649f, 0x3f81}, {256.0f, 0x4380}, {0.0f, 0x0000},        {-0.0f, 0x8000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(values_to_bf16(cases[i].x), cases[i].word);
    }
    for (int i = -256; i <= 256; i++) { /* the integers of mode exact */
        assert_true(values_from_bf16(values_to_bf16((float)i)) == (float)i);
    }
    assert_false(values_from_bf16(values_to_bf16(257.0f)) == 257.0f);
}

static void distributions(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    uint64_t key = values_key(7, VALUES_B, 3);
    double sum = 0, square = 0, ones = 0, minus = 0;
    uint32_t threshold = 1u << 30; /* one in four */
    for (uint64_t i = 0; i < COUNT; i++) {
        float x = values_from_bf16(values_element(key, VALUES_RANDOM, 0, i));
        assert_true(x >= -1 && x <= 1);
        sum += x;
        square += (double)x * x;
        float e = values_from_bf16(values_element(key, VALUES_EXACT, threshold, i));
        assert_true(e == 0 || e == 1 || e == -1);
        ones += e == 1;
        minus += e == -1;
    }
    /* Six standard deviations. */
    assert_true(fabs(sum / COUNT) < 6 * sqrt(1.0 / 3 / COUNT));
    assert_true(fabs(square / COUNT - 1.0 / 3) < 6 * sqrt(4.0 / 45 / COUNT));
    assert_true(fabs(ones / COUNT - 0.125) < 6 * sqrt(0.125 * 0.875 / COUNT));
    assert_true(fabs(minus / COUNT - 0.125) < 6 * sqrt(0.125 * 0.875 / COUNT));
}

static void poison_is_nan(void **state) {
    (void)state;
    uint16_t first = values_poison(0);
    bool differs = false;
    for (uint64_t w = 0; w < 1000; w++) {
        assert_true(isnan(values_from_bf16(values_poison(w))));
        differs |= values_poison(w) != first;
    }
    assert_true(differs);
}

static void words_of_a_padded_matrix(void **state) {
    (void)state;
    struct values_matrix matrix = {.key = values_key(1, VALUES_A, 0),
                                   .operand = VALUES_A,
                                   .mode = VALUES_RANDOM,
                                   .rows = 3,
                                   .columns = 8,
                                   .ld = 16,
                                   .lead = 24,
                                   .total = 24 + 48 + 24};
    int elements = 0;
    for (int64_t w = 0; w < matrix.total; w++) {
        int64_t i = w - 24, place = values_place(&matrix, w);
        bool inside = i >= 0 && i < 48 && i % 16 < 8;
        assert_int_equal(place, inside ? i / 16 * 8 + i % 16 : -1);
        assert_int_equal(values_word(&matrix, w), inside ? values_element(matrix.key, VALUES_RANDOM, 0, (uint64_t)place)
                                                         : values_poison((uint64_t)w));
        elements += inside;
    }
    assert_int_equal(elements, 24);
    matrix.operand = VALUES_D; /* nothing has been written into a D */
    assert_int_equal(values_word(&matrix, 24), values_poison(24));
}

/* Dense where nothing can overflow, and never more than what Bernstein's inequality allows. */
static void density_of_exact_operands(void **state) {
    (void)state;
    double dense = values_threshold(256, 8, 64, 1) / 4294967296.0;
    assert_true(fabs(dense * dense - 0.5) < 1e-6);
    static const struct {
        int64_t m, n, k;
        int tp;
    } shapes[] = {
        {256, 4096, 2048, 1}, {8192, 4096, 2048, 8}, {8192, 8192, 14336, 8}, {1, 8, 16384, 8}, {8192, 28672, 8192, 64}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        double p = values_threshold(shapes[i].m, shapes[i].n, shapes[i].k, shapes[i].tp) / 4294967296.0;
        double variance = p * p * (double)shapes[i].k * shapes[i].tp, t = 257;
        double chance =
            2 * exp(-t * t / 2 / (variance + t / 3)) * (double)shapes[i].m * (double)shapes[i].n * shapes[i].tp;
        assert_true(chance < 1.01e-9);
        assert_true(variance > 100 || p > 0.7); /* and still full enough to show a missing product */
    }
}

/* ---------------------------------------------------------------- the bound -------------------------------------- */

enum { M = 24, N = 24, K = 200, R = 5 };
enum fault { NONE, RANK_MISSING, PRODUCT_MISSING, ROUNDED_TWICE_AS_COARSE, NODE_MISSING };

static float element(uint64_t seed, enum values_operand operand, int rank, enum values_mode mode, uint32_t threshold,
                     int64_t index) {
    return values_from_bf16(values_element(values_key(seed, operand, rank), mode, threshold, (uint64_t)index));
}

static uint16_t round_to(float x, enum fault fault) {
    uint16_t word = values_to_bf16(x);
    return fault == ROUNDED_TWICE_AS_COARSE ? word & 0xfffc : word; /* cut to 6 bits: up to 4 units off */
}

/* What a ring of R ranks makes of one element, and the verdict on all of them as the compare kernel gives it. */
static void run_ring(enum values_mode mode, enum fault fault, struct values_verdict *verdict) {
    const uint64_t seed = 42;
    uint32_t threshold = mode == VALUES_EXACT ? values_threshold(M, N, K, R) : 0;
    *verdict = (struct values_verdict){.first = UINT64_MAX};
    for (int64_t i = 0; i < M * N; i++) {
        int64_t row = i / N, column = i % N;
        float partial = 0, bound = 0;
        double exact = 0;
        for (int rank = R - 1; rank >= 0; rank--) { /* owner 0: from rank R − 1 down */
            float own = 0, peak = 0;
            double own_exact = 0;
            for (int64_t k = 0; k < K; k++) {
                float a = element(seed, VALUES_A, rank, mode, threshold, row * K + k);
                float b = element(seed, VALUES_B, rank, mode, threshold, column * K + k);
                own_exact += (double)a * b;
                own += fault == PRODUCT_MISSING && rank == 2 && k == 77 ? 0 : a * b;
                peak = fmaxf(peak, fabsf((float)own_exact));
            }
            exact += own_exact;
            bound = values_bound(bound, (float)exact, fmaxf(peak, fabsf((float)exact)), K);
            partial = values_from_bf16(round_to(partial + (fault == RANK_MISSING && rank == 3 ? 0 : own), fault));
        }
        double error = fabs(partial - exact);
        bool wrong = mode == VALUES_EXACT ? values_to_bf16(partial) != values_to_bf16((float)exact) : !(error <= bound);
        verdict->mismatches += wrong;
        verdict->worst = fmaxf(verdict->worst, (float)error / bound);
        verdict->error2 += error * error;
        verdict->got2 += (double)partial * partial;
        verdict->want2 += exact * exact;
    }
}

/* The same over `nodes` nodes of `local` ranks: a ring within each, owner 0 again, then the sums of nodes in BF16, in an order that
 * differs from element to element. */
static void run_nodes(enum values_mode mode, enum fault fault, int nodes, int local, struct values_verdict *verdict) {
    const uint64_t seed = 43;
    uint32_t threshold = mode == VALUES_EXACT ? values_threshold(M, N, K, nodes * local) : 0;
    const struct values_nodes task = {.count = 1, .nodes = nodes};
    *verdict = (struct values_verdict){.first = UINT64_MAX};
    for (int64_t i = 0; i < M * N; i++) {
        float sum_of[8] = {0}, bound_of[8] = {0}, node_sum[8], sum, bound, got = 0;
        for (int node = 0; node < nodes; node++) {
            float partial = 0;
            double exact = 0;
            for (int l = local - 1; l >= 0; l--) {
                float own = 0, peak = 0;
                double own_exact = 0;
                for (int64_t k = 0; k < K; k++) {
                    float a = element(seed, VALUES_A, node * local + l, mode, threshold, i / N * K + k);
                    float b = element(seed, VALUES_B, node * local + l, mode, threshold, i % N * K + k);
                    own_exact += (double)a * b;
                    own += a * b;
                    peak = fmaxf(peak, fabsf((float)own_exact));
                }
                exact += own_exact;
                bound_of[node] = values_bound(bound_of[node], (float)exact, fmaxf(peak, fabsf((float)exact)), K);
                partial = values_from_bf16(values_to_bf16(partial + own));
            }
            sum_of[node] = (float)exact;
            node_sum[node] = partial;
        }
        for (int hop = 0; hop < nodes; hop++) {
            int node = (int)(hop + i) % nodes;
            float own = fault == NODE_MISSING && node == 1 ? 0 : node_sum[node];
            got = hop == 0 ? own : values_from_bf16(round_to(got + own, fault));
        }
        float reach = values_add_nodes(&task, 0, sum_of, bound_of, &sum, &bound);
        double error = fabs((double)got - sum);
        bool wrong = mode == VALUES_EXACT ? values_to_bf16(got) != values_to_bf16(sum) : !(error <= bound);
        assert_true(reach >= fabsf(sum) && (mode == VALUES_RANDOM || reach <= VALUES_EXACT_MAX));
        verdict->mismatches += wrong;
        verdict->worst = fmaxf(verdict->worst, (float)error / bound);
        verdict->error2 += error * error;
        verdict->got2 += (double)got * got;
        verdict->want2 += (double)sum * sum;
    }
}

static void nodes_are_added(void **state) {
    static const struct { int nodes, local; } cases[] = {{2, 1}, {2, 2}, {4, 1}, {2, 4}, {3, 2}, {8, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int nodes = cases[i].nodes, local = cases[i].local;
        double limit = values_rel_err_limit(nodes * local, nodes);
        struct values_verdict verdict;
        run_nodes(VALUES_EXACT, NONE, nodes, local, &verdict);
        assert_true(verdict.mismatches == 0 && verdict.error2 == 0 && verdict.want2 > 0);
        run_nodes(VALUES_EXACT, NODE_MISSING, nodes, local, &verdict);
        assert_true(verdict.mismatches > M * N / 2);
        run_nodes(VALUES_RANDOM, NONE, nodes, local, &verdict);
        assert_int_equal(verdict.mismatches, 0);
        assert_true(verdict.worst > 0.2 && verdict.worst <= 1); /* in any order: so not as near as with one ring */
        assert_true(values_rel_err(&verdict) <= limit && values_rel_err(&verdict) > limit / 2);
        assert_true(values_metric(&verdict) < values_metric_limit(nodes * local, nodes));
        run_nodes(VALUES_RANDOM, NODE_MISSING, nodes, local, &verdict);
        assert_true(verdict.mismatches > M * N / 2 && values_rel_err(&verdict) > limit);
        run_nodes(VALUES_RANDOM, ROUNDED_TWICE_AS_COARSE, nodes, local, &verdict);
        assert_true(values_rel_err(&verdict) > limit);
    }
}

/* Sums of some nodes may be larger than the sum of all. */
static void nodes_that_cancel(void **state) {
    (void)state;
    const float sums_of[] = {100, -100, 3}, bounds_of[] = {0, 0, 0};
    const struct values_nodes task = {.count = 1, .nodes = 3}, two = {.count = 1, .nodes = 2},
                              one = {.count = 1, .nodes = 1};
    float sum, bound;
    assert_true(values_add_nodes(&task, 0, sums_of, bounds_of, &sum, &bound) == 103);
    assert_true(sum == 3 && bound >= 103.0f / 256 && bound < 110.0f / 256);
    assert_true(values_add_nodes(&two, 0, sums_of, bounds_of, &sum, &bound) == 100);
    assert_true(sum == 0 && bound == 0); /* 100 - 100, with nothing to round */
    assert_true(values_add_nodes(&one, 0, sums_of, bounds_of, &sum, &bound) == 100);
    assert_true(sum == 100 && bound == 0);
}

static void a_right_ring_passes(void **state) {
    (void)state;
    struct values_verdict verdict;
    run_ring(VALUES_EXACT, NONE, &verdict);
    assert_int_equal(verdict.mismatches, 0);
    assert_true(verdict.error2 == 0 && verdict.want2 > 0);
    assert_true(values_rel_err(&verdict) == 0 && values_metric(&verdict) == 0);

    run_ring(VALUES_RANDOM, NONE, &verdict);
    assert_int_equal(verdict.mismatches, 0);
    assert_true(verdict.worst > 0.3 && verdict.worst <= 1); /* the bound is near what happens */
    assert_true(values_rel_err(&verdict) > 1e-3);
    assert_true(values_rel_err(&verdict) <= values_rel_err_limit(R, 1));
    assert_true(values_metric(&verdict) < VALUES_METRIC_LIMIT);
}

static void a_wrong_ring_fails(void **state) {
    (void)state;
    struct values_verdict verdict;
    run_ring(VALUES_EXACT, RANK_MISSING, &verdict);
    assert_true(verdict.mismatches > M * N / 2);
    run_ring(VALUES_EXACT, PRODUCT_MISSING, &verdict); /* visible where neither factor is 0: about half */
    assert_true(verdict.mismatches > M * N / 4);
    run_ring(VALUES_RANDOM, RANK_MISSING, &verdict);
    assert_true(verdict.mismatches > M * N / 2);
    assert_true(values_rel_err(&verdict) > values_rel_err_limit(R, 1) && values_metric(&verdict) > VALUES_METRIC_LIMIT);
    run_ring(VALUES_RANDOM, PRODUCT_MISSING, &verdict);
    assert_true(verdict.mismatches > 0);
    run_ring(VALUES_RANDOM, ROUNDED_TWICE_AS_COARSE, &verdict);
    assert_true(values_rel_err(&verdict) > values_rel_err_limit(R, 1));
}

static void limits(void **state) {
    (void)state;
    assert_true(fabs(values_rel_err_limit(1, 1) - 2.2e-3) < 1e-12);
    assert_true(fabs(values_rel_err_limit(8, 1) - 2.2e-3 * sqrt(4.5)) < 1e-12);
    assert_true(fabs(values_rel_err_limit(2, 2) - 2.2e-3 * sqrt(2)) < 1e-12); /* 1/2 twice, and 1 */
    assert_true(values_metric_limit(8, 1) == VALUES_METRIC_LIMIT && values_metric_limit(2, 2) == VALUES_METRIC_LIMIT);
    assert_true(fabs(values_metric_limit(8, 8) - 1.301e-5) < 1e-8);
    assert_true(fabs(values_rel_err_limit(4, 2) - 2.2e-3 * sqrt(2.5)) < 1e-12); /* 1/4 and 1/2 twice, and 1 */
    struct values_verdict verdict = {.error2 = 4, .got2 = 60, .want2 = 100};
    assert_true(values_rel_err(&verdict) == 0.2);
    assert_true(values_metric(&verdict) == 0.025);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_pinned),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(distributions),
        cmocka_unit_test(poison_is_nan),
        cmocka_unit_test(words_of_a_padded_matrix),
        cmocka_unit_test(density_of_exact_operands),
        cmocka_unit_test(a_right_ring_passes),
        cmocka_unit_test(a_wrong_ring_fails),
        cmocka_unit_test(limits),
        cmocka_unit_test(nodes_are_added),
        cmocka_unit_test(nodes_that_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
