/* Generated kernels through NVRTC: those of tests/golden/emit and, of each config in configs/, the kernel of one class.
 * ptxas's report must show no spills and no more registers than the plan deals out. And the one-file text through nvcc,
 * where there is one. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "generator/classes.h"
#include "generator/emit.h"
#include "tests/compile_fixture.h"
#include "tests/emit_cases.h"
#include "tests/ptx_text.h"

/* Kernels whose text was compiled by an earlier test of this run. */
static char compiled[64][65];
static int compiled_count;

static bool seen_before(const struct plan *plan) {
    char hex[65];
    struct buf entry = {0};
    assert_int_equal(emit_entry(plan, &entry, NULL), GRS_OK);
    emit_digest(plan, &entry, hex);
    buf_free(&entry);
    for (int i = 0; i < compiled_count; i++)
        if (!strcmp(compiled[i], hex))
            return true;
    assert_true(compiled_count < 64);
    memcpy(compiled[compiled_count++], hex, sizeof hex);
    return false;
}

/* Each wait and each signal of the ring is marked, and a mark stands before what it names: its next instruction in PTX comes
 * from the next piece of inline assembly. */
static void check_marks(const char *name, const struct plan *plan, const char *ptx) {
    static const struct {
        const char *mark, *instruction;
        bool each;   /* every such instruction has the mark, and nothing else has it */
        bool ring;   /* of several ranks                                             */
        bool outbox; /* with ring.place: global alone                                */
    } rows[] = {
        {"// grs: signal tile\n", "red.release.sys.global.or.b64", true, true, false},
        {"// grs: signal credit\n", "st.release.sys.global.b64", true, true, false},
        {"// grs: wait credit\n", "ld.acquire.sys.global.b64", false, true, false},
        {"// grs: wait upstream\n", "ld.acquire.sys.global.b64", false, true, false},
        {"// grs: wait outbox full\n", "mbarrier.try_wait.parity", false, true, true},
        {"// grs: wait chunk\n", "mbarrier.try_wait.parity", false, true, true},
        {"// grs: wait landed\n", "cp.async.bulk.wait_group 0;", false, false, false},
        {"// grs: wait stage free\n", "mbarrier.try_wait.parity", false, false, false},
        {"// grs: wait tile free\n", "mbarrier.try_wait.parity", false, false, false},
    };
    char *code = strdup(ptx);
    assert_non_null(code);
    ptx_strip_comments(code);
    assert_int_equal(ptx_count(code, "grs:"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if ((rows[i].ring && plan->shape.tp == 1) || (rows[i].outbox && plan->value[FIELD_RING_PLACE] != PLACE_GLOBAL))
            continue;
        const char *mark = strstr(ptx, rows[i].mark), *end = mark ? strstr(mark + 1, "// end inline asm") : NULL;
        if (!mark)
            fail_msg("%s: the PTX lacks %s", name, rows[i].mark);
        assert_non_null(end);
        if (!memmem(mark, (size_t)(end - mark), rows[i].instruction, strlen(rows[i].instruction)))
            end = strstr(end + 1, "// end inline asm");
        if (!end || !memmem(mark, (size_t)(end - mark), rows[i].instruction, strlen(rows[i].instruction)))
            fail_msg("%s: no %s after %s", name, rows[i].instruction, rows[i].mark);
        if (rows[i].each)
            assert_int_equal(ptx_count(ptx, rows[i].mark), ptx_count(code, rows[i].instruction));
    }
    free(code);
}

static void check_kernel(const char *name, const struct plan *plan) {
    struct nvrtc_result result;
    if (seen_before(plan))
        return;
    compile_plan(name, plan, &result);
    check_marks(name, plan, result.ptx);
    ptx_strip_comments(result.ptx);
    const struct ptxas_report *report = &result.report;
    print_message("%-28s %-8s %3d registers, %d barriers, %6zu bytes of cubin, %.2f s\n", name,
                  config_arch_name(plan->arch), report->registers, report->barriers, result.cubin_size, result.seconds);
    check_report(name, plan, &result);
    if (!plan->tensor_columns) { /* what setmaxnreg moves between warps is what each was launched with */
        char dealt[64];
        assert_int_equal(report->registers, plan->registers_launch);
        int math = 128 * plan->consumer_warpgroups, others = plan->threads - math;
        assert_true(others * plan->registers_producer + math * plan->registers_consumer <=
                    report->registers * plan->threads);
        assert_int_equal(others % 128, 0); /* setmaxnreg goes by whole warpgroups */
        snprintf(dealt, sizeof dealt, "setmaxnreg.inc.sync.aligned.u32 %d;", plan->registers_consumer);
        assert_int_equal(ptx_count(result.ptx, dealt), 1);
        snprintf(dealt, sizeof dealt, "setmaxnreg.dec.sync.aligned.u32 %d;", plan->registers_producer);
        assert_int_equal(ptx_count(result.ptx, dealt), others > 128 ? 2 : 1); /* the roles', and the further senders' */
    }
    /* One kernel, under its plain name, with the launch bounds of the plan. */
    char head[256], bounds[64];
    snprintf(head, sizeof head, ".visible .entry %s(", plan->name);
    snprintf(bounds, sizeof bounds, ".maxntid %d", plan->threads);
    assert_int_equal(ptx_count(result.ptx, ".entry "), 1);
    assert_int_equal(ptx_count(result.ptx, head), 1);
    assert_int_equal(ptx_count(result.ptx, bounds), 1);
    nvrtc_result_free(&result);
}

static void compile_cases(enum arch arch) {
    need_compiler(arch);
    int kernels = 0;
    for (int i = 0; i < EMIT_CASES; i++) {
        if (emit_cases[i].arch != arch)
            continue;
        struct plan plan = emit_case_plan(&emit_cases[i]);
        check_kernel(emit_cases[i].name, &plan);
        kernels++;
    }
    assert_true(kernels >= 2);
}

static void hopper_kernels_do_not_spill(void **state) {
    (void)state;
    compile_cases(ARCH_SM90A);
}

static void blackwell_kernels_do_not_spill(void **state) {
    (void)state;
    compile_cases(ARCH_SM100A);
}

/* ---------------------------------------------------------------- configs/ */

static int yaml_only(const struct dirent *file) {
    size_t length = strlen(file->d_name);
    return length > 5 && !strcmp(file->d_name + length - 5, ".yaml");
}

/* A config without shapes is for any: one of the usual sweep. */
static void check_config(const char *path) {
    static const struct config_shape usual = {.m = 8192, .n = 4096, .k = 2048, .tp = 4};
    struct config *config = NULL;
    struct classes classes;
    struct plan plan = {0};
    grs_error err = {0};
    if (config_load(path, &config, &err) != GRS_OK)
        fail_msg("%s", err.text);
    const struct config_shape *shape = config->shape_count ? &config->shapes[config->shape_count - 1] : &usual;
    for (int arch = 0; arch < ARCH_COUNT; arch++) {
        if (!config->arch[arch])
            continue;
        classes_make(config, (enum arch)arch, shape->n, shape->k, shape->tp, &classes);
        if (plan_solve(config, (enum arch)arch, classes_find(&classes, shape->m), &plan, &err) != GRS_OK)
            fail_msg("%s", err.text);
        check_kernel(path, &plan);
    }
    config_free(config);
}

static void configs_of_the_repository_compile(void **state) {
    (void)state;
    struct dirent **files;
    int number = scandir("configs", &files, yaml_only, alphasort);
    assert_true(number >= 5);
    need_compiler(ARCH_SM90A);
    for (int i = 0; i < number; i++) {
        char path[300];
        snprintf(path, sizeof path, "configs/%s", files[i]->d_name);
        check_config(path);
        free(files[i]);
    }
    free(files);
}

/* ---------------------------------------------------------------- diagnostics, nvcc */

/* A mistake in the text is reported where it is, with the file that people can open. */
static void errors_cite_the_template_and_the_key(void **state) {
    (void)state;
    need_compiler(ARCH_SM90A);
    struct plan plan = emit_case_plan(&emit_cases[0]);
    struct buf entry = {0};
    struct nvrtc_result result;
    grs_error err = {0};
    plan.shared_bytes += 1024; /* a planner that disagrees with the template */
    assert_int_equal(emit_entry(&plan, &entry, &err), GRS_OK);
    assert_int_equal(nvrtc_compile(compiler, plan.arch, "entry.cu", entry.data, emit_headers, plan.name, &result, &err),
                     GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "grs/gemm_rs_sm90.cuh("));
    assert_non_null(strstr(err.text, "shared memory: the planner's map and the kernel's differ"));
    buf_free(&entry);
}

static void one_file_with_nvcc(const struct emit_case *row) {
    static const char *const places[] = {"nvcc", "/usr/local/cuda/bin/nvcc"};
    char directory[] = "/tmp/grs-test-nvcc-XXXXXX", command[1024], path[256];
    const char *nvcc = NULL, *arch = config_arch_name(row->arch) + strlen("sm_");
    for (int i = 0; i < 2 && !nvcc; i++) {
        snprintf(command, sizeof command, "%s --list-gpu-arch 2>/dev/null | grep -q compute_%.*s", places[i],
                 (int)strspn(arch, "0123456789"), arch);
        nvcc = system(command) == 0 ? places[i] : NULL;
    }
    if (!nvcc) {
        print_message("SKIP: no nvcc that knows sm_%s\n", arch);
        skip();
    }
    struct plan plan = emit_case_plan(row);
    struct buf text = {0};
    assert_int_equal(emit_standalone(&plan, NULL, &text, NULL), GRS_OK);
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/kernel.cu", directory);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.length, file), text.length);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command,
             "cd '%s' && %s -std=c++17 -gencode arch=compute_%s,code=sm_%s -Werror all-warnings -c -o kernel.o "
             "kernel.cu >log 2>&1 || { cat log; false; }",
             directory, nvcc, arch, arch);
    int status = system(command);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
    buf_free(&text);
}

static const struct emit_case *first_of(enum arch arch) {
    int i = 0;
    while (emit_cases[i].arch != arch)
        i++;
    return &emit_cases[i];
}

static void one_hopper_file_compiles_with_nvcc(void **state) {
    (void)state;
    one_file_with_nvcc(first_of(ARCH_SM90A));
}

static void one_blackwell_file_compiles_with_nvcc(void **state) {
    (void)state;
    one_file_with_nvcc(first_of(ARCH_SM100A));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hopper_kernels_do_not_spill),        cmocka_unit_test(blackwell_kernels_do_not_spill),
        cmocka_unit_test(configs_of_the_repository_compile),  cmocka_unit_test(errors_cite_the_template_and_the_key),
        cmocka_unit_test(one_hopper_file_compiles_with_nvcc), cmocka_unit_test(one_blackwell_file_compiles_with_nvcc),
    };
    return cmocka_run_group_tests(tests, find_compiler, NULL);
}
