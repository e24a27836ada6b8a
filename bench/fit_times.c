/* The planner's times of a GPU (generator/plan_time.c) against launches that were measured, and the times that would fit best.
 *
 *   make build/bench/fit_times && build/bench/fit_times                    the rows of bench/measured_times.h
 *   build/bench/fit_times --link 372 bench/results/h200-x2-link.json      rows back to back of results, as planned today
 *
 * Prints each row as it is expected now and after the fit, and the fitted struct. Minimises the weighted sum of squares of
 * log(expected / measured), one number at a time. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measured_times.h"
#include "generator/classes.h"
#include "generator/plan_time.h"

#define MOST_ROWS  256
#define FIRST_STEP 0.2
#define LAST_STEP  0.0005
#define NAMED(name)                                                                                                    \
    { #name, offsetof(struct plan_times, name), false }
#define HELD(name)                                                                                                     \
    { #name, offsetof(struct plan_times, name), true }

/* Held: the rows cannot tell a hop from what lies between two launches, since a launch has one of each that shows. */
static const struct {
    const char *name;
    size_t offset;
    bool held;
} numbers[PLAN_TIMES_COUNT] = {NAMED(tensor_tflops), NAMED(operand_tbps), NAMED(beside_ns_kib), NAMED(copy_ns_kib),
                               NAMED(launch_us),     HELD(hop_us),        NAMED(throttle)};

struct row {
    struct plan plan;
    int64_t m;
    double us, weight;
};
static struct row rows[MOST_ROWS];
static int count;

static void add(const struct measured_time *measured) {
    char yaml[1024];
    struct config *config = NULL;
    grs_error err = {0};
    struct classes classes;
    struct row *row = &rows[count];
    snprintf(yaml, sizeof yaml, "version: 1\n%s", measured->yaml);
    if (count == MOST_ROWS || config_parse("row", yaml, strlen(yaml), &config, &err) != GRS_OK) {
        fprintf(stderr, "%s\n", count == MOST_ROWS ? "too many rows" : err.text);
        exit(1);
    }
    classes_make(config, ARCH_SM90A, measured->n, measured->k, measured->tp, &classes);
    if (plan_solve(config, ARCH_SM90A, classes_find(&classes, measured->m), &row->plan, &err) != GRS_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    row->m = measured->m;
    row->us = measured->us;
    row->weight = measured->weight;
    config_free(config);
    count++;
}

static void read_results(const char *path, const char *yaml) {
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error), *row;
    size_t i;
    if (!file) {
        fprintf(stderr, "%s:%d: %s\n", path, error.line, error.text);
        exit(1);
    }
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        const char *mode = json_string_value(json_object_get(row, "mode"));
        json_t *us = json_object_get(row, "ours_us");
        if (!mode || strcmp(mode, "back_to_back") || !json_is_number(us) ||
            json_integer_value(json_object_get(row, "ranks_per_gpu")) != 1)
            continue;
        add(&(struct measured_time){
            json_integer_value(json_object_get(row, "m")), json_integer_value(json_object_get(row, "n")),
            json_integer_value(json_object_get(row, "k")), (int)json_integer_value(json_object_get(row, "tp")), yaml,
            json_number_value(us), 1});
    }
    json_decref(file);
}

static double loss(const struct plan_times *times) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double off = log(plan_time(&rows[i].plan, rows[i].m, times) / rows[i].us);
        sum += rows[i].weight * off * off;
    }
    return sum;
}

static double *number(struct plan_times *times, int i) {
    return (double *)((char *)times + numbers[i].offset);
}

static struct plan_times fit(struct plan_times best) {
    double least = loss(&best);
    for (double step = FIRST_STEP; step > LAST_STEP; step /= 2)
        for (bool better = true; better;) {
            better = false;
            for (int i = 0; i < 2 * PLAN_TIMES_COUNT; i++) {
                struct plan_times tried = best;
                if (numbers[i / 2].held)
                    continue;
                *number(&tried, i / 2) *= i % 2 ? 1 + step : 1 / (1 + step);
                double here = loss(&tried);
                if (here < least * (1 - 1e-6)) {
                    least = here;
                    best = tried;
                    better = true;
                }
            }
        }
    return best;
}

int main(int argc, char **argv) {
    const struct plan_times *now = plan_times_of(ARCH_SM90A);
    char yaml[64] = "";
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--link")) {
        snprintf(yaml, sizeof yaml, "link_gbps: %d\n", atoi(argv[2]));
        first = 3;
    }
    for (int i = first; i < argc; i++)
        read_results(argv[i], yaml);
    for (int i = 0; argc == 1 && i < MEASURED_TIMES; i++)
        add(&measured_times[i]);
    if (count < PLAN_TIMES_COUNT) {
        fprintf(stderr, "%d row%s too few for %d numbers\n", count, count == 1 ? " is" : "s are", PLAN_TIMES_COUNT);
        return 1;
    }
    struct plan_times fitted = fit(*now);
    printf("| M | N | K | tp | tile | measured, us | expected, us | off | tiles go | fitted, us | off |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < count; i++) {
        const struct plan *plan = &rows[i].plan;
        const int64_t *v = plan->value;
        double expected = plan_time(plan, rows[i].m, now), after = plan_time(plan, rows[i].m, &fitted);
        printf("| %" PRId64 " | %" PRId64 " | %" PRId64 " | %d | %" PRId64 "x%" PRId64
               " | %.1f | %.1f | %+ld %% | %s | %.1f | %+ld %% |\n",
               rows[i].m, plan->shape.n, plan->shape.k, plan->shape.tp, v[FIELD_TILE_M], v[FIELD_TILE_N], rows[i].us,
               expected, lround(100 * (expected / rows[i].us - 1)),
               plan->shape.tp == 1                   ? "–"
               : v[FIELD_RING_PLACE] == PLACE_SHARED ? "straight"
                                                     : "outbox",
               after, lround(100 * (after / rows[i].us - 1)));
    }
    double weights = 0;
    for (int i = 0; i < count; i++)
        weights += rows[i].weight;
    printf("root mean square of the log: %.3f now, %.3f fitted\n", sqrt(loss(now) / weights),
           sqrt(loss(&fitted) / weights));
    for (int i = 0; i < PLAN_TIMES_COUNT; i++)
        printf("    .%s = %.4g,\n", numbers[i].name, *number(&fitted, i));
    return 0;
}
