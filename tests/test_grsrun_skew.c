/* --skew: the arithmetic of clocks and stamps, on made-up ones; and what is printed of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/grsrun_skew.h"

enum { RANKS = 3, LAUNCHES = 100 };
static grs_error err;

/* ---------------------------------------------------------------- clocks ---------------------------------------- */

/* The fastest answer counts, wherever it is; a clock of 32 ns steps is known as one. */
static void fastest_ping(void **state) {
    (void)state;
    const uint64_t far = 1700000000000000000u; /* both clocks count from long ago: a double holds no such time */
    struct clock_ping pings[] = {{5000, 9000, far + 3200},
                                 {20000, 22000, far + 17600},
                                 {30001, 31000, far + 26720},
                                 {40000, 49000, far + 41600}};
    struct clock_sight sight = clock_sight_of(pings, 4);
    assert_int_equal(sight.gpu, far + 26720);
    assert_int_equal(sight.host, 30501);
    assert_int_equal(sight.half, 500);
    assert_int_equal(sight.step, 480);
    pings[3].gpu += 32;
    assert_int_equal(clock_sight_of(pings, 4).step, 32);
    assert_int_equal(clock_sight_of(pings, 1).host, 7000);
}

/* A clock that is fast by 1 part in 10^5 is put right between two sights, and outside of them. */
static void line_through_sights(void **state) {
    (void)state;
    const uint64_t far = 1700000000000000000u;
    struct clock_sight first = {.gpu = far, .host = 12345}, second = {.gpu = far + 1000010000, .host = 1000012345};
    assert_true(clock_host_ns(&first, &second, far) == 0);
    assert_true(fabs(clock_host_ns(&first, &second, far + 500005000) - 500000000) < 1e-3);
    assert_true(fabs(clock_host_ns(&first, &second, far + 1000010000) - 1000000000) < 1e-3);
    assert_true(fabs(clock_host_ns(&first, &second, far - 100001) + 100000) < 1e-3);
    assert_true(clock_host_ns(&first, &first, far + 100) == 100); /* one sight: no rate to correct */
}

/* ---------------------------------------------------------------- stamps ---------------------------------------- */

/* Three ranks on clocks that are years apart, the third one fast by 1 part in 10^4. True times, in ns of the host's clock: launch
 * l of rank r begins at 100000 · l + begin[r], and ends 60000 later, but one of rank 1 by `late_ns` more. */
struct made {
    struct skew_rank ranks[RANKS];
    grs_stamp stamps[RANKS][GRS_STAMPS];
};

static uint64_t clock_of(int rank, uint64_t host) {
    static const uint64_t zero[RANKS] = {1000, 1700000000000000000u, 900000000000000u};
    return zero[rank] + host + (rank == 2 ? host / 10000 : 0);
}

static struct made *make(uint64_t first, const int *begin, int late_launch, int late_ns) {
    struct made *made = calloc(1, sizeof(*made));
    const uint64_t host = 5000000000u;
    assert_non_null(made);
    for (int rank = 0; rank < RANKS; rank++) {
        uint64_t after = host + (LAUNCHES + 1) * (uint64_t)100000;
        made->ranks[rank] = (struct skew_rank){
            .before = {.gpu = clock_of(rank, host), .host = host, .half = 500 + 100 * (uint64_t)rank, .step = 32},
            .after = {.gpu = clock_of(rank, after), .host = after, .half = 400, .step = rank == 1 ? 64 : 32},
            .stamps = made->stamps[rank]};
        for (uint64_t l = 0; l < LAUNCHES; l++) {
            uint64_t at = host + 100000 * l + (uint64_t)begin[rank], end = at + 60000;
            if (rank == 1 && (int)l == late_launch) {
                end += (uint64_t)late_ns;
            }
            made->stamps[rank][(first + l) % GRS_STAMPS] = (grs_stamp){clock_of(rank, at), clock_of(rank, end)};
        }
    }
    return made;
}

static struct skew_samples *no_samples(void) {
    struct skew_samples *samples = calloc(1, sizeof(*samples));
    assert_non_null(samples);
    return samples;
}

/* The ring of stamps is met where it starts anew; one late end shows in the largest values and in no other. */
static void figures(void **state) {
    (void)state;
    static const int begin[RANKS] = {2000, 500, 1200};
    struct skew skew = {0};
    struct skew_samples *samples = no_samples();
    struct made *made = make(GRS_STAMPS - 30, begin, 77, 7000);
    assert_int_equal(skew_add(made->ranks, RANKS, GRS_STAMPS - 30, LAUNCHES, samples, &skew, &err), GRS_OK);
    skew_summarise(samples, &skew);
    assert_int_equal(skew.launches, LAUNCHES - 1);
    assert_int_equal(samples->gaps, RANKS * (LAUNCHES - 1));
    assert_true(fabs(skew.begin.median - 1.5) < 2e-3 && fabs(skew.begin.max - 1.5) < 2e-3);
    assert_true(fabs(skew.end.median - 1.5) < 2e-3);
    assert_true(fabs(skew.end.max - 6.3) < 2e-3 && fabs(skew.end.p99 - 6.3) < 2e-3); /* of 99 the 99th is the last */
    assert_true(fabs(skew.gap.median - 40) < 5e-3 && fabs(skew.gap.max - 40) < 5e-3);
    assert_true(fabs(samples->gap[0] - 33) < 5e-3); /* sorted: after the late end */
    assert_true(fabs(skew.clocks - 1.3) < 1e-9);    /* 0.6 + 0.7 */
    assert_true(fabs(skew.step - 0.064) < 1e-9);
    free(made);
    free(samples);
}

/* Many launches: 99 of 100 are not above p99, and the late one is. */
static void batches_add_up(void **state) {
    (void)state;
    static const int begin[RANKS] = {0, 3000, 1000};
    struct skew skew = {0};
    struct skew_samples *samples = no_samples();
    for (int batch = 0; batch < SKEW_BATCHES; batch++) {
        struct made *made = make((uint64_t)batch * LAUNCHES, begin, batch == 2 ? 50 : -1, 9000);
        assert_int_equal(skew_add(made->ranks, RANKS, (uint64_t)batch * LAUNCHES, LAUNCHES, samples, &skew, &err),
                         GRS_OK);
        free(made);
    }
    skew_summarise(samples, &skew);
    assert_int_equal(skew.launches, SKEW_BATCHES * (LAUNCHES - 1));
    assert_true(fabs(skew.end.p99 - 3) < 2e-3 && fabs(skew.end.max - 12) < 2e-3);
    free(samples);
}

/* Ranks of one GPU: their times differ by nothing that a clock could be wrong about. */
static void one_clock(void **state) {
    (void)state;
    static const int begin[RANKS] = {0, 0, 0};
    struct skew skew = {0};
    struct skew_samples *samples = no_samples();
    struct made *made = make(0, begin, -1, 0);
    made->ranks[1] = made->ranks[2] = made->ranks[0];
    assert_int_equal(skew_add(made->ranks, RANKS, 0, LAUNCHES, samples, &skew, &err), GRS_OK);
    skew_summarise(samples, &skew);
    assert_true(skew.clocks == 0 && skew.begin.max == 0 && skew.end.max == 0);
    free(made);
    free(samples);
}

static void missing_stamps(void **state) {
    (void)state;
    static const int begin[RANKS] = {0, 0, 0};
    struct skew skew = {0};
    struct skew_samples *samples = no_samples();
    struct made *made = make(7, begin, -1, 0);
    made->stamps[2][7 + 40].end = 5;
    assert_int_equal(skew_add(made->ranks, RANKS, 7, LAUNCHES, samples, &skew, &err), GRS_ERR_STATE);
    assert_non_null(strstr(err.text, "rank 2 has no stamps of launch 47: begin "));
    made->stamps[1][7 + 3].begin = 0;
    samples->launches = samples->gaps = 0;
    assert_int_equal(skew_add(made->ranks, RANKS, 7, LAUNCHES, samples, &skew, &err), GRS_ERR_STATE);
    assert_non_null(strstr(err.text, "rank 1 has no stamps of launch 10: begin 0, end "));
    free(made);
    free(samples);
}

/* ---------------------------------------------------------------- report ---------------------------------------- */

static void text_and_json(void **state) {
    (void)state;
    struct skew none = {0}, skew = {.launches = 500,
                                    .begin = {0.5, 1.25, 30},
                                    .end = {0.25, 2, 4},
                                    .gap = {1.5, 2.5, 123.456},
                                    .clocks = 1.125,
                                    .step = 0.032};
    struct buf text = {0};
    skew_text(&skew, &text);
    assert_string_equal(text.data, "#   skew: of 500 launches back to back the median, 99 of 100, the largest, us\n"
                                   "#     between the first and last rank's begin      0.50      1.25     30.00\n"
                                   "#     between the first and last rank's end        0.25      2.00      4.00\n"
                                   "#     a rank between one end and next begin        1.50      2.50    123.46\n"
                                   "#     clocks: known to 1.12 us between GPUs, in steps of 0.032\n");
    buf_free(&text);
    json_t *object = skew_json(&skew), *nothing = skew_json(&none);
    char *dump = json_dumps(object, JSON_REAL_PRECISION(6));
    assert_string_equal(dump, "{\"launches\": 500, \"begin_us\": {\"median\": 0.5, \"p99\": 1.25, \"max\": 30.0}, "
                              "\"end_us\": {\"median\": 0.25, \"p99\": 2.0, \"max\": 4.0}, "
                              "\"gap_us\": {\"median\": 1.5, \"p99\": 2.5, \"max\": 123.456}, "
                              "\"clocks_us\": 1.125, \"step_us\": 0.032}");
    assert_true(json_is_null(nothing));
    free(dump);
    json_decref(object);
    json_decref(nothing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fastest_ping),   cmocka_unit_test(line_through_sights), cmocka_unit_test(figures),
        cmocka_unit_test(batches_add_up), cmocka_unit_test(one_clock),           cmocka_unit_test(missing_stamps),
        cmocka_unit_test(text_and_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
