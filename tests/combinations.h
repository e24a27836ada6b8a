/* Every combination of tile, policy, granularity and order, numbered from 0. The tests that take some of them by default take
 * all of them with FULL=1. What a config cannot have at once the planner refuses, and so says which to leave out. */
#ifndef GRS_TESTS_COMBINATIONS_H
#define GRS_TESTS_COMBINATIONS_H

/* After cmocka's headers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generator/plan.h"

static const char *const combination_kinds[2][3] = {{"", ", cluster: 2", ", schedule: pingpong"}, /* sm_90a        */
                                                    {"", ", cluster: 2", ", cta_group: 2"}};      /* sm_100a, … */
/* The ring. Depths and chunks are small, so that buffers go round with few tiles. */
static const char *const combination_rings[] = {
    "ring: {depth: 2, chunk: {bytes: 2048, count: 2}}\n",
    "ring: {depth: 1, chunk: {bytes: 3072, count: 3}}\ndrain: {policy: per_tile}\n",
    "ring: {depth: 3, chunk: {bytes: 1024, count: 4}}\ndrain: {policy: lane_per_stage}\n",
    "ring: {depth: 2, place: shared}\n",
    "ring: {depth: 1, place: shared}\ndrain: {policy: per_tile}\n",
    "ring: {depth: 2, place: shared}\ndrain: {policy: lane_per_stage}\n",
    "ring: {depth: 3, place: shared}\ndrain: {policy: lane_per_stage}\n",
    "ring: {depth: 1, place: shared}\ndrain: {flush: never}\n",
};
static const char *const combination_bits[] = {"", "signal: {granularity: {group: 3}}\n",
                                               "signal: {granularity: segment}\n"};
static const char *const combination_orders[] = {"order: segment\n", "order: {interleave: 2}\n"};

enum {
    COMBINATION_KINDS = 3,
    COMBINATION_WIDTHS = 4, /* tile.n 64 to 256 */
    COMBINATION_RINGS = sizeof combination_rings / sizeof *combination_rings,
    COMBINATION_BITS = sizeof combination_bits / sizeof *combination_bits,
    COMBINATION_ORDERS = sizeof combination_orders / sizeof *combination_orders,
    COMBINATIONS = COMBINATION_KINDS * COMBINATION_WIDTHS * COMBINATION_RINGS * COMBINATION_BITS * COMBINATION_ORDERS
};

static inline bool combination_full(void) {
    const char *full = getenv("FULL");
    return full && *full && *full != '0';
}

/* The config of a number, for a grid of `sms` CTAs, with so many accumulators where they are in tensor memory (0: as many as fit). */
static inline void combination_text(int number, enum arch arch, int sms, int accumulators, struct buf *out) {
    bool tensor = config_arch_family(arch) == ARCH_SM100A;
    int kind = number % COMBINATION_KINDS, rest = number / COMBINATION_KINDS;
    int width = 64 * (1 + rest % COMBINATION_WIDTHS);
    rest /= COMBINATION_WIDTHS;
    buf_printf(out, "version: 1\nsms: %d\ntile: {n: %d%s}\nstages: {load: 2", sms, width,
               combination_kinds[tensor][kind]);
    if (tensor && accumulators)
        buf_printf(out, ", accum: %d", accumulators);
    buf_puts(out, "}\n");
    buf_puts(out, combination_rings[rest % COMBINATION_RINGS]);
    rest /= COMBINATION_RINGS;
    buf_puts(out, combination_bits[rest % COMBINATION_BITS]);
    buf_puts(out, combination_orders[rest / COMBINATION_BITS]);
}

/* False: the planner refuses it (err says why). */
static inline bool combination_plan(const struct buf *yaml, enum arch arch, const struct plan_shape *shape,
                                    struct plan *out, grs_error *err) {
    struct config *config = NULL;
    if (config_parse("combination", yaml->data, yaml->length, &config, err) != GRS_OK)
        fail_msg("%s", err->text);
    grs_status status = plan_solve(config, arch, shape, out, err);
    config_free(config);
    if (status != GRS_OK && status != GRS_ERR_PLAN && status != GRS_ERR_UNSUPPORTED)
        fail_msg("%s%s", yaml->data, err->text);
    return status == GRS_OK;
}

/* Counts refusals by what they say up to the first number. */
struct combination_refusals {
    struct {
        char text[96];
        int count;
    } reason[16];
    int reasons;
};

static inline void combination_refused(struct combination_refusals *refusals, const char *text) {
    const char *at = strstr(text, ": ");
    at = at ? at + 2 : text;
    char reason[96];
    snprintf(reason, sizeof reason, "%.*s", (int)strcspn(at, ";,"), at);
    for (char *c = reason; *c; c++)
        *c = *c >= '0' && *c <= '9' ? '#' : *c;
    int i = 0;
    while (i < refusals->reasons && strcmp(refusals->reason[i].text, reason))
        i++;
    assert_true(i < 16);
    if (i == refusals->reasons)
        snprintf(refusals->reason[refusals->reasons++].text, sizeof reason, "%s", reason);
    refusals->reason[i].count++;
}

static inline void combination_print_refusals(const struct combination_refusals *refusals) {
    for (int i = 0; i < refusals->reasons; i++)
        print_message("  refused: %4d  %s\n", refusals->reason[i].count, refusals->reason[i].text);
}

#endif
