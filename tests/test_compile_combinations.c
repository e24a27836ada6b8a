/* Combinations of tile, policy, granularity and order through NVRTC, for every arch: no spills by ptxas's report. By default a few
 * for each arch, others for each; with FULL=1 all of them (an argument names the one arch to do):
 *
 *   make build/tests/test_compile_combinations && FULL=1 build/tests/test_compile_combinations sm_100a
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/combinations.h"
#include "tests/compile_fixture.h"

#define SAMPLES 2   /* of an arch, where not all are asked for                                          */
#define STRIDE  149 /* from one sample to the next: prime, so that all parts of a combination change    */

static void compile_combinations(void **state) {
    static const int rings[] = {2, 3, 8};
    enum arch arch = (enum arch)(intptr_t)*state;
    struct combination_refusals refusals = {0};
    bool full = combination_full();
    int most = 0, compiled = 0;
    need_compiler(arch);
    for (int i = 0; i < COMBINATIONS && (full || compiled < SAMPLES); i++) {
        int number = full ? i : (int)(((int64_t)i * ARCH_COUNT + arch) * STRIDE % COMBINATIONS);
        struct buf yaml = {0};
        struct plan plan;
        struct nvrtc_result result;
        grs_error err = {0};
        const struct plan_shape shape = {.m_min = 1, .m_max = 512, .n = 520, .k = 1032, .tp = rings[number % 3]};
        combination_text(number, arch, 16, number % 5 == 0, &yaml);
        if (combination_plan(&yaml, arch, &shape, &plan, &err)) {
            compile_plan(yaml.data, &plan, &result);
            check_report(yaml.data, &plan, &result);
            most = result.report.registers > most ? result.report.registers : most;
            nvrtc_result_free(&result);
            compiled++;
        } else {
            combination_refused(&refusals, err.text);
        }
        buf_free(&yaml);
    }
    print_message("%s: %d kernels without spills, at most %d registers\n", config_arch_name(arch), compiled, most);
    combination_print_refusals(&refusals);
    assert_true(compiled >= SAMPLES);
}

int main(int argc, char **argv) {
    struct CMUnitTest tests[ARCH_COUNT];
    size_t count = 0;
    for (intptr_t arch = 0; arch < ARCH_COUNT; arch++)
        if (argc < 2 || strcmp(argv[1], config_arch_name((enum arch)arch)) == 0)
            tests[count++] = (struct CMUnitTest){.name = config_arch_name((enum arch)arch),
                                                 .test_func = compile_combinations,
                                                 .initial_state = (void *)arch};
    return _cmocka_run_group_tests("combinations", tests, count, find_compiler, NULL);
}
