/* Facts about the sm_100a kernels that must hold in the PTX, whatever else changes: no comment, no source text is looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "generator/machine.h"
#include "tests/compile_fixture.h"
#include "tests/emit_cases.h"
#include "tests/ptx_text.h"

/* The PTX of a case of emit_cases.h without comments, for an arch of its family; the caller frees it. */
static char *ptx_for(const char *name, enum arch arch) {
    struct nvrtc_result result;
    int i = 0;
    need_compiler(arch);
    while (i < EMIT_CASES && strcmp(emit_cases[i].name, name))
        i++;
    assert_true(i < EMIT_CASES);
    struct plan plan = emit_case_plan(&emit_cases[i]);
    plan.arch = arch;
    compile_plan(name, &plan, &result);
    check_report(name, &plan, &result);
    char *ptx = strdup(result.ptx);
    assert_non_null(ptx);
    ptx_strip_comments(ptx);
    nvrtc_result_free(&result);
    return ptx;
}

static char *ptx_of(const char *name) {
    return ptx_for(name, ARCH_SM100A);
}

static void expect(const char *ptx, const char *const *present, const char *const *absent) {
    for (; *present; present++)
        if (!strstr(ptx, *present))
            fail_msg("the PTX lacks %s", *present);
    for (; *absent; absent++)
        if (strstr(ptx, *absent))
            fail_msg("the PTX has %s", *absent);
}

/* What the ring and the products need on any tile. */
static const char *const always[] = {"tcgen05.ld.sync.aligned.32x32b.x32.b32",
                                     "tcgen05.wait::ld.sync.aligned",
                                     "tcgen05.fence::before_thread_sync",
                                     "tcgen05.fence::after_thread_sync",
                                     "cp.async.bulk.tensor.2d.shared::cluster.global.tile",
                                     "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group",
                                     "cp.async.bulk.wait_group 0",
                                     "fence.proxy.async.shared::cta",
                                     "red.release.sys.global.or.b64",
                                     "ld.acquire.sys.global.b64",
                                     NULL};
static const char *const never[] = {"wgmma", "setmaxnreg", "call.uni", "ld.local", "st.local", NULL};

static void one_cta_a_tile(void **state) {
    (void)state;
    static const char *const present[] = {"tcgen05.mma.cta_group::1.kind::f16",
                                          "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
                                          "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
                                          "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
                                          "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
                                          NULL};
    static const char *const absent[] = {"cta_group::2", "multicast", ".cluster_dim", "barrier.cluster", NULL};
    char *ptx = ptx_of("blackwell");
    expect(ptx, always, never);
    expect(ptx, present, absent);
    free(ptx);
}

static void a_pair_a_tile(void **state) {
    (void)state;
    static const char *const present[] = {
        "tcgen05.mma.cta_group::2.kind::f16",
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32",
        "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned",
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32",
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64",
        "mbarrier::complete_tx::bytes.cta_group::2",
        "barrier.cluster",
        NULL};
    static const char *const absent[] = {"cta_group::1", NULL};
    char *ptx = ptx_of("blackwell_pair");
    expect(ptx, always, never);
    expect(ptx, present, absent);
    free(ptx);
}

static void clusters_of_single_ctas(void **state) {
    (void)state;
    static const char *const present[] = {
        "tcgen05.mma.cta_group::1.kind::f16",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64",
        "mbarrier::complete_tx::bytes.multicast::cluster", NULL};
    static const char *const absent[] = {"cta_group::2", NULL};
    char *ptx = ptx_of("blackwell_cluster");
    expect(ptx, always, never);
    expect(ptx, present, absent);
    free(ptx);
}

/* One text for the family; what differs is the target, and where it runs. */
static void archs_of_the_family(void **state) {
    (void)state;
    static const struct {
        enum arch arch;
        const char *target;
        bool on_10_0, on_10_3;
    } rows[] = {{ARCH_SM100A, ".target sm_100a", true, false},
                {ARCH_SM100F, ".target sm_100f", true, true},
                {ARCH_SM103A, ".target sm_103a", false, true}};
    static const char *const absent[] = {NULL};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(config_arch_family(rows[i].arch), ARCH_SM100A);
        assert_int_equal(machine_runs(rows[i].arch, 10, 0), rows[i].on_10_0);
        assert_int_equal(machine_runs(rows[i].arch, 10, 3), rows[i].on_10_3);
        assert_false(machine_runs(rows[i].arch, 9, 0) || machine_runs(rows[i].arch, 12, 0));
        assert_true(config_arch_knows(rows[i].arch, FIELD_CTA_GROUP) &&
                    !config_arch_knows(rows[i].arch, FIELD_SCHEDULE));
        const char *const target[] = {rows[i].target, "tcgen05.mma.cta_group::2.kind::f16", NULL};
        char *ptx = ptx_for("blackwell_pair", rows[i].arch);
        expect(ptx, always, never);
        expect(ptx, target, absent);
        free(ptx);
    }
    enum arch arch;
    assert_true(machine_arch_of(10, 0, &arch) && arch == ARCH_SM100A);
    assert_true(machine_arch_of(10, 3, &arch) && arch == ARCH_SM103A);
    assert_true(machine_arch_of(9, 0, &arch) && arch == ARCH_SM90A);
    assert_false(machine_arch_of(8, 0, &arch) || machine_arch_of(12, 0, &arch));
}

/* The helper itself: a fact that stands in a comment alone does not count. */
static void comments_do_not_count(void **state) {
    (void)state;
    char text[] = "a // tcgen05.mma\nb /* tcgen05.ld\n*/ c /";
    ptx_strip_comments(text);
    assert_string_equal(text, "a \nb  c /");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_cta_a_tile),          cmocka_unit_test(a_pair_a_tile),
        cmocka_unit_test(clusters_of_single_ctas), cmocka_unit_test(archs_of_the_family),
        cmocka_unit_test(comments_do_not_count),
    };
    return cmocka_run_group_tests(tests, find_compiler, NULL);
}
