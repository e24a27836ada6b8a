#include "tools/grsrun_values.h"

#include <math.h>

/* A partial sum has at most L = K · tp terms a·b: independent, symmetric, of magnitude at most 1 and variance v, the
 * probability that both factors are not 0. Bernstein's inequality:
 *     P(|S| >= t) <= 2 exp(−t² / 2 / (L·v + t / 3)).
 * There are M · N · tp partial sums, and we want the sum of their probabilities below 10^-9, with t the first integer out
 * of range. Solved for v; each factor is not 0 with probability √v. */
uint32_t values_threshold(int64_t m, int64_t n, int64_t k, int tp) {
    const double t = VALUES_EXACT_MAX + 1, most = 0.5;
    double terms = (double)k * tp;
    double exponent = log(2e9 * (double)m * (double)n * tp);
    double v = (t * t / 2 / exponent - t / 3) / terms;
    if (terms < t || v > most) {
        v = most;
    }
    return (uint32_t)(sqrt(v) * 4294967296.0);
}

double values_rel_err_limit(int tp, int nodes) {
    double local = (double)tp / nodes;
    return 2.2e-3 * sqrt((local + 1) / 2 + (nodes + 1) / 2.0 - 1.0 / nodes);
}

double values_metric_limit(int tp, int nodes) {
    double limit = values_rel_err_limit(tp, nodes);
    return nodes == 1 ? VALUES_METRIC_LIMIT : fmax(VALUES_METRIC_LIMIT, limit * limit / 2);
}

double values_rel_err(const struct values_verdict *verdict) {
    return verdict->error2 == 0 ? 0 : sqrt(verdict->error2 / verdict->want2);
}

double values_metric(const struct values_verdict *verdict) {
    return verdict->error2 == 0 ? 0 : verdict->error2 / (verdict->got2 + verdict->want2);
}
