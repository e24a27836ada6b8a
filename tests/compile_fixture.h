/* What the tests that compile generated kernels share: the NVRTC at hand, and what ptxas must say of every kernel. */
#ifndef GRS_TESTS_COMPILE_FIXTURE_H
#define GRS_TESTS_COMPILE_FIXTURE_H

/* After cmocka's headers. */
#include <stdio.h>
#include <string.h>

#include "generator/emit.h"
#include "generator/plan.h"
#include "runtime/nvrtc.h"

static const struct nvrtc *compiler; /* NULL: none found */
static char no_compiler[sizeof((grs_error *)0)->text];

/* A group's set-up. */
static int find_compiler(void **state) {
    (void)state;
    struct nvrtc_location where;
    grs_error err = {0};
    if (nvrtc_locate(NULL, &where, &err) != GRS_OK || nvrtc_open(&where, &compiler, &err) != GRS_OK)
        snprintf(no_compiler, sizeof no_compiler, "%s", err.text);
    return 0;
}

static inline void need_compiler(enum arch arch) {
    if (!compiler) {
        print_message("SKIP: no NVRTC: %.*s\n", (int)strcspn(no_compiler, "\n"), no_compiler);
        skip();
    }
    if (nvrtc_version(compiler) < nvrtc_arch_version(arch)) {
        print_message("SKIP: this NVRTC is older than %s\n", config_arch_name(arch));
        skip();
    }
}

/* The caller frees the result. */
static inline void compile_plan(const char *name, const struct plan *plan, struct nvrtc_result *out) {
    struct buf entry = {0};
    grs_error err = {0};
    assert_int_equal(emit_entry(plan, &entry, &err), GRS_OK);
    if (nvrtc_compile(compiler, plan->arch, "entry.cu", entry.data, emit_headers, plan->name, out, &err) != GRS_OK)
        fail_msg("%s: %s", name, err.text);
    buf_free(&entry);
}

/* No spill, no stack, no warning, no shared memory beside the planner's map, no more registers than the plan deals out. */
static inline void check_report(const char *name, const struct plan *plan, const struct nvrtc_result *result) {
    const struct ptxas_report *report = &result->report;
    if (!report->found || report->spill_store_bytes || report->spill_load_bytes || report->stack_bytes ||
        report->static_shared_bytes || strstr(result->log, "warning") || strstr(result->log, "setmaxnreg ignored"))
        fail_msg("%s:\n%s", name, result->log);
    if (report->registers > plan->registers_launch || report->registers * plan->threads > 65536)
        fail_msg("%s: %d registers in %d threads, planned for %d", name, report->registers, plan->threads,
                 plan->registers_launch);
}

#endif
