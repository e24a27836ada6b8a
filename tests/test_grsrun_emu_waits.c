/* Wait counters, stamps and the link model on emulated ranks: kernels that have them still make the right D, and what they count
 * and say of the time can be true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emu_fixture.h"
#include "tools/grsrun_trial.h"

enum { RANKS = 2, CTAS = 2, M = 200, N = 264, K = 136, LAUNCHES = 2 };

static grs_error err;

struct counted {
    uint64_t cycles[RANKS][CTAS][GRS_ROLE_COUNT][GRS_WAIT_COUNT];
};

/* grs_args.send_ps_per_byte of the launches. */
static uint32_t tempo;

/* Of every launch of every rank: it began, then it ended, then the next one of the rank began; and a rank that adds what another
 * one sends ended after that one had begun. There is no other stamp. */
static void check_stamps(grs_stamp (*stamps)[GRS_STAMPS]) {
    for (int rank = 0; rank < RANKS; rank++) {
        const grs_stamp *own = stamps[rank], *other = stamps[(rank + 1) % RANKS];
        for (int launch = 0; launch < LAUNCHES; launch++) {
            assert_true(own[launch].begin > 0 && own[launch].begin < own[launch].end);
            assert_true(other[launch].begin < own[launch].end);
            assert_true(launch == 0 || own[launch - 1].end < own[launch].begin);
        }
        for (int unused = LAUNCHES; unused < GRS_STAMPS; unused++) {
            assert_true(own[unused].begin == 0 && own[unused].end == 0);
        }
    }
}

static uint32_t signal_ns; /* what a bit takes longer */

/* Two launches of a kernel with both hooks; the emulator must find nothing wrong. False: no compiler. */
static bool run(const char *yaml, enum arch arch, uint64_t pace_ps_per_kib, struct plan *plan, struct counted *out) {
    struct buf text = {0};
    struct config *config = NULL;
    struct plan_shape shape = {.m_min = 1, .m_max = INT32_MAX, .n = N, .k = K, .tp = RANKS};
    struct trial_kernel kernel = {0};
    struct trial_result result;
    buf_printf(&text, "version: 1\n%s", yaml);
    if (config_parse("test.yaml", text.data, text.length, &config, &err) ||
        plan_solve(config, arch, &shape, plan, &err)) {
        fail_msg("%s", err.text);
    }
    buf_free(&text);
    config_free(config);
    plan_add_hooks(plan, true, true, false);
    grs_status status = trial_kernel_build(plan, NULL, NULL, &kernel, &err);
    if (status == GRS_ERR_COMPILER && strstr(err.text, "found")) {
        return false;
    }
    struct trial_launch launches[LAUNCHES] = {{.kernel = &kernel, .m = M, .seed = 1, .mode = VALUES_EXACT},
                                              {.kernel = &kernel, .m = M, .seed = 2, .mode = VALUES_RANDOM}};
    static grs_stamp stamps[RANKS][GRS_STAMPS];
    struct emu_group_options options = {.ranks = RANKS,
                                        .ctas = CTAS,
                                        .ranks_per_grid = RANKS,
                                        .stamps = stamps[0],
                                        .seed = 7,
                                        .pace_ps_per_kib = pace_ps_per_kib,
                                        .pace_signal_ns = signal_ns,
                                        .send_ps_per_byte = tempo,
                                        .counters = (uint64_t *)out};
    memset(out, 0xee, sizeof(*out));
    if (status || trial_run(&options, launches, LAUNCHES, &result, &err)) {
        fail_msg("%s", err.text);
    }
    if (result.report.verdict != EMU_PASSED) {
        fail_msg("%s", result.report.text);
    }
    for (int i = 0; i < LAUNCHES; i++) {
        assert_int_equal(result.verdict[i].mismatches, 0);
    }
    check_stamps(stamps);
    free(result.verdict);
    trial_kernel_free(&kernel);
    return true;
}

static uint64_t sum_of(const struct counted *counted, enum grs_role role, enum grs_wait wait) {
    uint64_t sum = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        for (int cta = 0; cta < CTAS; cta++) {
            sum += counted->cycles[rank][cta][role][wait];
        }
    }
    return sum;
}

/* Every role was there about as long as `model` (were all threads of the math warps counted, theirs would be a multiple), and
 * none waited for one thing longer than that. */
static void check_plausible(const struct counted *counted, enum grs_role model, const enum grs_role *roles, int count) {
    for (int rank = 0; rank < RANKS; rank++) {
        for (int cta = 0; cta < CTAS; cta++) {
            uint64_t there = counted->cycles[rank][cta][model][GRS_WAIT_NONE];
            for (int i = 0; i < count; i++) {
                const uint64_t *of_role = counted->cycles[rank][cta][roles[i]];
                assert_in_range(of_role[GRS_WAIT_NONE], there / 4, 4 * there);
                for (int wait = 1; wait < GRS_WAIT_COUNT; wait++) {
                    assert_in_range(of_role[wait], 0, of_role[GRS_WAIT_NONE]);
                }
            }
        }
    }
}

static void need_compiler(bool there) {
    if (!there) {
        print_message("SKIP: %s\n", err.text);
        skip();
    }
}

/* Of the time that senders are there: emulated runs of other schedules are longer or shorter as a whole. */
static double share_of_link(const struct counted *counted) {
    return (double)sum_of(counted, GRS_ROLE_SENDER, GRS_WAIT_LINK) /
           (double)sum_of(counted, GRS_ROLE_SENDER, GRS_WAIT_NONE);
}

static void ring_in_global_memory(void **state) {
    (void)state;
    static const enum grs_role roles[] = {GRS_ROLE_LOADER, GRS_ROLE_PREFETCHER, GRS_ROLE_STORER, GRS_ROLE_SENDER,
                                          GRS_ROLE_MATH};
    static const char yaml[] =
        "tile: {m: 64, n: 64}\nstages: {load: 2}\nring: {place: global}\norder: {interleave: 1}\n";
    static struct counted paced, slow, none;
    struct plan plan;
    need_compiler(run(yaml, ARCH_SM90A, 100000, &plan, &paced));
    run(yaml, ARCH_SM90A, 10000000, &plan, &slow);
    run(yaml, ARCH_SM90A, 0, &plan, &none);
    check_plausible(&paced, GRS_ROLE_LOADER, roles, 5);
    check_plausible(&slow, GRS_ROLE_LOADER, roles, 5);
    check_plausible(&none, GRS_ROLE_LOADER, roles, 5);
    /* What each role can wait for, and nothing else. */
    assert_true(sum_of(&paced, GRS_ROLE_MATH, GRS_WAIT_STAGE_FULL) > 0);
    assert_true(sum_of(&paced, GRS_ROLE_SENDER, GRS_WAIT_OUTBOX_FULL) > 0);
    assert_int_equal(sum_of(&paced, GRS_ROLE_MATH, GRS_WAIT_UPSTREAM), 0);
    assert_int_equal(sum_of(&paced, GRS_ROLE_LOADER, GRS_WAIT_LINK), 0);
    assert_int_equal(sum_of(&paced, GRS_ROLE_ISSUER, GRS_WAIT_NONE), 0);
    /* A hundredth of the rate holds sends up longer, and all partials of a rank cross one link. */
    assert_true(sum_of(&slow, GRS_ROLE_SENDER, GRS_WAIT_LINK) > 2 * sum_of(&paced, GRS_ROLE_SENDER, GRS_WAIT_LINK));
    assert_true(share_of_link(&slow) > 10 * share_of_link(&paced) && share_of_link(&slow) > 10 * share_of_link(&none));
    int64_t kib = plan_link_bytes(&plan, M) * LAUNCHES / 1024;
    for (int rank = 0; rank < RANKS; rank++) {
        uint64_t longest = 0;
        for (int cta = 0; cta < CTAS; cta++) {
            uint64_t there = slow.cycles[rank][cta][GRS_ROLE_SENDER][GRS_WAIT_NONE];
            longest = there > longest ? there : longest;
        }
        assert_true(longest >= 2 * 10000 * (uint64_t)kib); /* emulated: 2 cycles a ns; 10000 ns a KiB */
    }
}

/* One thread sends, and stands still for as long as a bit takes. */
static void bits_take_their_time(void **state) {
    (void)state;
    static const char yaml[] = "tile: {m: 64, n: 64}\nstages: {load: 2}\nring: {place: shared, depth: 1}\n";
    static struct counted quick, late;
    struct plan plan;
    struct plan_tiles tiles;
    need_compiler(run(yaml, ARCH_SM90A, 1, &plan, &quick));
    signal_ns = 20000;
    run(yaml, ARCH_SM90A, 1, &plan, &late);
    plan_tiles_of(&plan, M, &tiles);
    uint64_t bits = (uint64_t)tiles.max_tiles * RANKS * LAUNCHES, ns = bits * signal_ns;
    signal_ns = 0;
    assert_true(sum_of(&quick, GRS_ROLE_STORER, GRS_WAIT_LINK) < ns / 2);
    assert_true(sum_of(&late, GRS_ROLE_STORER, GRS_WAIT_LINK) > 2 * ns * 9 / 10); /* emulated: 2 cycles a ns */
}

static void ring_in_shared_memory(void **state) {
    (void)state;
    static const enum grs_role roles[] = {GRS_ROLE_LOADER, GRS_ROLE_PREFETCHER, GRS_ROLE_STORER, GRS_ROLE_SENDER,
                                          GRS_ROLE_MATH};
    static struct counted counted;
    struct plan plan;
    need_compiler(run("tile: {m: 64, n: 64}\nstages: {load: 2}\nring: {depth: 2, place: shared}\n"
                      "drain: {policy: lane_per_stage}\norder: segment\n",
                      ARCH_SM90A, 100000, &plan, &counted));
    check_plausible(&counted, GRS_ROLE_LOADER, roles, 5); /* two lanes: storer and sender */
    assert_int_equal(sum_of(&counted, GRS_ROLE_SENDER, GRS_WAIT_OUTBOX_FULL), 0);
    assert_true(sum_of(&counted, GRS_ROLE_SENDER, GRS_WAIT_LINK) > 0);
    assert_true(sum_of(&counted, GRS_ROLE_STORER, GRS_WAIT_LINK) > 0);
}

/* On Blackwell the issuer waits for stages, and the math warps for its products; loader and issuer are through early. The issuer of a pair is
 * the even CTA's alone. */
static void issuer_and_tensor_memory(void **state) {
    (void)state;
    static const enum grs_role roles[] = {GRS_ROLE_PREFETCHER, GRS_ROLE_STORER, GRS_ROLE_MATH};
    static struct counted single, pair;
    struct plan plan;
    need_compiler(run("tile: {n: 64}\nstages: {load: 2, accum: 1}\n", ARCH_SM100A, 100000, &plan, &single));
    check_plausible(&single, GRS_ROLE_MATH, roles, 3);
    assert_true(sum_of(&single, GRS_ROLE_ISSUER, GRS_WAIT_STAGE_FULL) > 0);
    assert_true(sum_of(&single, GRS_ROLE_ISSUER, GRS_WAIT_ACCUM_FREE) >
                0); /* one accumulator: products wait for its readers */
    assert_true(sum_of(&single, GRS_ROLE_MATH, GRS_WAIT_ACCUM_FULL) > 0);
    assert_int_equal(sum_of(&single, GRS_ROLE_MATH, GRS_WAIT_STAGE_FULL), 0);
    assert_int_equal(sum_of(&single, GRS_ROLE_ISSUER, GRS_WAIT_TILE_READY), 0);
    run("tile: {n: 64, cta_group: 2}\nstages: {load: 2}\n", ARCH_SM100A, 100000, &plan, &pair);
    check_plausible(&pair, GRS_ROLE_MATH, roles, 3);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(pair.cycles[rank][0][GRS_ROLE_ISSUER][GRS_WAIT_STAGE_FULL] > 0);
        assert_int_equal(pair.cycles[rank][1][GRS_ROLE_ISSUER][GRS_WAIT_NONE], 0);
    }
}

/* Of the threads that send, one counts for a role, however many there are: were all counted, a role would have been there for
 * many times as long as the math warps, which see every tile. */
static void many_senders(void **state) {
    (void)state;
    static const char *const rings[] = {"{place: shared, depth: 8}", "{chunk: {bytes: 1024, count: 8}}"};
    static struct counted counted;
    struct plan plan;
    for (int i = 0; i < 2; i++) {
        char yaml[200];
        snprintf(yaml, sizeof(yaml),
                 "tile: {m: 64, n: 64}\nring: %s\ndrain: {policy: lane_per_stage}\norder: segment\n", rings[i]);
        need_compiler(run(yaml, ARCH_SM90A, 100000, &plan, &counted));
        assert_int_equal(plan.ship_lanes, 8);
        assert_true(sum_of(&counted, GRS_ROLE_SENDER, GRS_WAIT_LINK) > 0);
        for (int rank = 0; rank < RANKS; rank++) {
            for (int cta = 0; cta < CTAS; cta++) {
                const uint64_t *sender = counted.cycles[rank][cta][GRS_ROLE_SENDER];
                uint64_t math = counted.cycles[rank][cta][GRS_ROLE_MATH][GRS_WAIT_NONE];
                assert_in_range(sender[GRS_WAIT_NONE], 1, 2 * math);
                for (int wait = 1; wait < GRS_WAIT_COUNT; wait++) {
                    assert_in_range(sender[wait], 0, sender[GRS_WAIT_NONE]);
                }
            }
        }
    }
}

/* Without a model of the link whoever sends waits for its turn if there is a tempo, whatever way tiles go; older kernels
 * have the same code and are told none. */
static void sends_keep_to_the_tempo(void **state) {
    (void)state;
    static const struct {
        const char *ring;
        enum grs_role sender;
    } ways[] = {{"ring: {place: global}\n", GRS_ROLE_SENDER},
                {"ring: {place: shared, depth: 1}\n", GRS_ROLE_STORER},
                {"ring: {place: shared, depth: 2}\ndrain: {policy: lane_per_stage}\n", GRS_ROLE_STORER}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        static struct counted with, without;
        struct plan plan;
        char yaml[200];
        snprintf(yaml, sizeof(yaml), "tile: {m: 64, n: 64}\nstages: {load: 2}\n%s", ways[i].ring);
        need_compiler(run(yaml, ARCH_SM90A, 0, &plan, &without));
        tempo = 10000; /* 4 KiB in 41 us */
        run(yaml, ARCH_SM90A, 0, &plan, &with);
        tempo = 0;
        uint64_t waited = sum_of(&with, ways[i].sender, GRS_WAIT_LINK);
        assert_true(waited > 10 * sum_of(&without, ways[i].sender, GRS_WAIT_LINK) && waited > 0);
    }
}

int main(void) {
    EMU_RETURN_IF_UNWATCHABLE();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_in_global_memory), cmocka_unit_test(bits_take_their_time),
        cmocka_unit_test(ring_in_shared_memory), cmocka_unit_test(sends_keep_to_the_tempo),
        cmocka_unit_test(many_senders),          cmocka_unit_test(issuer_and_tensor_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
