/* The helper kernels compile for every arch that the NVRTC at hand knows, with every entry and without spills in the ones
 * whose speed matters. Skipped where there is no NVRTC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tools/grsrun_helpers.h"
#include "tools/grsrun_kernels.h"

static void texts_are_whole(void **state) {
    (void)state;
    assert_non_null(strstr(kernels_source, "#include \"grsrun_values.h\""));
    assert_non_null(strstr(kernels_source, "grsrun_spin"));
    assert_string_equal(kernels_headers[0].name, "grsrun_values.h");
    assert_non_null(strstr(kernels_headers[0].text, "values_threshold"));
    assert_null(kernels_headers[1].name);
}

static void compiles_for(enum arch arch) {
    static const char *const entries[] = {"grsrun_fill",    "grsrun_check", "grsrun_checksum", "grsrun_reference",
                                          "grsrun_compare", "grsrun_spin",  "grsrun_push"};
    struct nvrtc_location where;
    const struct nvrtc *nvrtc;
    struct nvrtc_result result = {0};
    grs_error err;
    if (nvrtc_locate(NULL, &where, &err)) {
        print_message("SKIP: %s\n", "no NVRTC");
        skip();
    }
    grs_status status = nvrtc_open(&where, &nvrtc, &err);
    status = status ? status : helpers_compile(nvrtc, arch, &result, &err);
    if (status == GRS_ERR_UNSUPPORTED) {
        print_message("SKIP: this NVRTC does not know %s\n", config_arch_name(arch));
        skip();
    }
    if (status) {
        fail_msg("%s", err.text);
    }
    assert_non_null(result.cubin);
    assert_true(result.cubin_size > 1000);
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        char entry[64];
        snprintf(entry, sizeof(entry), ".entry %s(", entries[i]);
        assert_non_null(strstr(result.ptx, entry));
    }
    struct ptxas_report report;
    ptxas_parse(result.log, "grsrun_compare", &report);
    assert_true(report.found);
    assert_int_equal(report.spill_load_bytes, 0);
    ptxas_parse(result.log, "grsrun_reference", &report);
    assert_true(report.found && report.registers <= 128);
    assert_true(report.spill_load_bytes < 256); /* addresses outside the loop over K */
    nvrtc_result_free(&result);
}

static void compiles_for_sm_90a(void **state) {
    (void)state;
    compiles_for(ARCH_SM90A);
}
static void compiles_for_sm_100a(void **state) {
    (void)state;
    compiles_for(ARCH_SM100A);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_whole),
        cmocka_unit_test(compiles_for_sm_90a),
        cmocka_unit_test(compiles_for_sm_100a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
