/* Ranges for profilers: what a tool that is named in NVTX_INJECTION64_PATH sees of a compile, a load, a prepare and launches, and
 * that programs without one, or with one that is no good, run as if there were none. Each case is a process of its own, since
 * a tool is looked for once a process. */
#include <unistd.h>

#include "runtime/nvtx.h"
#include "tests/runtime_fixture.h"
#include "tests/shim_nvtx.h"

enum { TP = 2, ROWS = 256, N = 512, K = 256 };

static char build[4096];
static char log_text[16384];

static const char *in_build(const char *name) {
    static char path[2][8192];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof(path[turn]), "%s/tests/shim/%s", build, name);
    return path[turn];
}

static void keep(void *arg, grs_log_level level, const char *text) {
    (void)arg;
    (void)level;
    size_t length = strlen(log_text);
    snprintf(log_text + length, sizeof(log_text) - length, "%s\n", text);
}

/* Compiles (through the stand-in), prepares and launches on two ranks. */
static void use_the_library(void) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    grs_comm *comms[TP];
    grs_operands operands[TP];
    const grs_kernel *kernel = NULL;
    options.memory_only = 1;
    options.nvrtc_path = in_build("libnvrtc.so");
    options.log = keep;
    options.log_level = GRS_LOG_DEBUG;
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK || grs_ctx_get(ctx, ROWS, N, K, TP, &kernel, &err) != GRS_OK ||
        grs_ctx_get(ctx, ROWS, N, K, TP, &kernel, &err) != GRS_OK ||
        grs_comm_create_local(ctx, TP, NULL, NULL, comms, &err) != GRS_OK ||
        grs_comm_prepare(comms[0], kernel, ROWS, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    for (int rank = 0; rank < TP; rank++) {
        operands[rank] = (grs_operands){
            .A = (void *)0x10000, .lda = K, .B = (void *)0x20000, .ldb = K, .D = (void *)0x30000, .ldd = N, .M = ROWS};
    }
    if (grs_launch_local(comms, kernel, operands, NULL, &err) != GRS_OK ||
        grs_launch(comms[0], kernel, &operands[0], NULL, &err) != GRS_OK ||
        grs_launch(comms[1], kernel, &operands[1], NULL, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    operands[0].M = 0; /* refused: the range ends all the same */
    assert_int_equal(grs_launch(comms[0], kernel, &operands[0], NULL, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_launch_local(comms, NULL, operands, NULL, &err), GRS_ERR_ARGUMENT);
    destroy_all(comms, TP);
    grs_ctx_close(ctx);
}

static struct shim_nvtx *tool(void) {
    void *library = dlopen(in_build("libnvtx.so"), RTLD_NOW | RTLD_NOLOAD);
    shim_nvtx_function *get = library == NULL ? NULL : (shim_nvtx_function *)dlsym(library, "shim_nvtx_get");
    return get == NULL ? NULL : get();
}

static const char *const wanted[] = {
    "get grs_gemm_rs_n512_k256_tp2_",    "  compile grs_gemm_rs_n512_k256_tp2_", "prepare grs_gemm_rs_n512_k256_tp2_",
    "  load grs_gemm_rs_n512_k256_tp2_", "  load grs_gemm_rs_n512_k256_tp2_",    "launch grs_gemm_rs_n512_k256_tp2_",
    "launch grs_gemm_rs_n512_k256_tp2_", "launch grs_gemm_rs_n512_k256_tp2_",    "launch grs_gemm_rs_n512_k256_tp2_",
};

static void check_ranges(const char *first_line) {
    const struct shim_nvtx *seen = tool();
    assert_non_null(seen);
    const char *at = seen->text;
    if (first_line[0] != '\0') {
        assert_memory_equal(at, first_line, strlen(first_line));
        at += strlen(first_line);
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        if (strncmp(at, wanted[i], strlen(wanted[i])) != 0) {
            fail_msg("range %zu is not \"%s\" in\n%s", i, wanted[i], seen->text);
        }
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    assert_int_equal(seen->depth, 0);
    assert_non_null(strstr(seen->text, ", M up to 256, rank 0\n"));
    assert_non_null(strstr(seen->text, ", M 256\n"));
    assert_non_null(strstr(seen->text, ", M 256, rank 1\n"));
    assert_non_null(strstr(seen->text, " for sm_90a\n"));
    assert_non_null(strstr(log_text, "NVTX: ranges go to "));
}

/* ---------------------------------------------------------------- the cases ----------------------------------- */

static void a_tool_with_domains(void **state) {
    (void)state;
    use_the_library();
    assert_true(nvtx_active());
    check_ranges("domain grs\n");
}

static void a_tool_without_domains(void **state) {
    (void)state;
    setenv("SHIM_NVTX", "core", 1);
    use_the_library();
    check_ranges("");
}

static void a_tool_that_refuses(void **state) {
    (void)state;
    setenv("SHIM_NVTX", "refuses", 1);
    use_the_library();
    assert_false(nvtx_active());
    assert_null(tool()); /* closed again */
    assert_non_null(strstr(log_text, "its InitializeInjectionNvtx2 refused"));
}

static void a_tool_that_takes_nothing(void **state) {
    (void)state;
    setenv("SHIM_NVTX", "nothing", 1);
    use_the_library();
    assert_false(nvtx_active());
    assert_non_null(strstr(log_text, "it takes no ranges"));
}

static void no_tool_at_all(void **state) {
    (void)state;
    unsetenv("NVTX_INJECTION64_PATH");
    use_the_library();
    assert_false(nvtx_active());
    assert_null(strstr(log_text, "NVTX"));
}

static void no_such_file(void **state) {
    (void)state;
    setenv("NVTX_INJECTION64_PATH", "/nonexistent/libtool.so", 1);
    use_the_library();
    assert_false(nvtx_active());
    assert_non_null(strstr(log_text, "NVTX: no ranges: /nonexistent/libtool.so: "));
}

static void a_library_that_is_no_tool(void **state) {
    (void)state;
    setenv("NVTX_INJECTION64_PATH", in_build("libnvrtc.so"), 1);
    use_the_library();
    assert_false(nvtx_active());
    assert_non_null(strstr(log_text, "it has no InitializeInjectionNvtx2"));
}

/* The numbers that runtime/nvtx.c declares on its own are those of NVIDIA's headers, where there are any. */
static void declarations_agree_with_the_headers(void **state) {
    (void)state;
    static const char *const includes[] = {"/usr/local/cuda/include", "/usr/include"};
    for (int i = 0; i < 2; i++) {
        char command[2048];
        snprintf(command, sizeof(command), "%s/nvtx3/nvToolsExt.h", includes[i]);
        if (access(command, R_OK) != 0) {
            continue;
        }
        snprintf(command, sizeof(command),
                 "printf '%%s\n' '#include <stddef.h>' '#include <nvtx3/nvToolsExt.h>' '_Static_assert("
                 "sizeof(nvtxEventAttributes_t) == 48 && offsetof(nvtxEventAttributes_t, message) == 40 && "
                 "offsetof(nvtxEventAttributes_t, messageType) == 32 && NVTX_VERSION == 3 && "
                 "NVTX_MESSAGE_TYPE_ASCII == 1 && NVTX_ETID_CALLBACKS == 1 && NVTX_ETID_VERSIONINFO == 3 && "
                 "NVTX_CB_MODULE_CORE == 1 && NVTX_CB_MODULE_CORE2 == 5 && NVTX_CB_MODULE_SIZE == 7 && "
                 "NVTX_CBID_CORE_RangePushA == 9 && NVTX_CBID_CORE_RangePop == 11 && NVTX_CBID_CORE_SIZE == 16 && "
                 "NVTX_CBID_CORE2_DomainRangePushEx == 4 && NVTX_CBID_CORE2_DomainRangePop == 5 && "
                 "NVTX_CBID_CORE2_DomainCreateA == 12 && NVTX_CBID_CORE2_SIZE == 16 && NVTX_CBID_CUDA_SIZE == 9 && "
                 "NVTX_CBID_OPENCL_SIZE == 15 && NVTX_CBID_CUDART_SIZE == 7 && NVTX_CBID_SYNC_SIZE == 7, \"\");' | "
                 "cc -std=c11 -D_GNU_SOURCE -I%s -fsyntax-only -x c -",
                 includes[i]);
        assert_int_equal(system(command), 0);
        return;
    }
    print_message("SKIP: no NVTX headers on this machine\n");
    skip();
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(a_tool_with_domains),
    cmocka_unit_test(a_tool_without_domains),
    cmocka_unit_test(a_tool_that_refuses),
    cmocka_unit_test(a_tool_that_takes_nothing),
    cmocka_unit_test(no_tool_at_all),
    cmocka_unit_test(no_such_file),
    cmocka_unit_test(a_library_that_is_no_tool),
    cmocka_unit_test(declarations_agree_with_the_headers),
};
enum { CASES = sizeof(cases) / sizeof(*cases) };

/* Without an argument: each case in a process of its own, which is given its name. What that prints is for the runner of tests
 * only where it failed. */
static void in_a_process(void **state) {
    const struct CMUnitTest *one = *state;
    char command[8192], path[4096] = "";
    static char output[65536];
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    snprintf(command, sizeof(command), "'%s' %s 2>&1", path, one->name);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    size_t length = fread(output, 1, sizeof(output) - 1, child);
    output[length] = '\0';
    if (pclose(child) != 0) {
        fail_msg("%s:\n%s", one->name, output);
    }
    const char *skipped = strstr(output, "SKIP: ");
    if (skipped != NULL) {
        print_message("%.*s\n", (int)strcspn(skipped, "\n"), skipped);
        skip();
    }
}

static int start(void **state) {
    return fixture_open(state) == 0 ? fixture_reset(state) : -1;
}

int main(int argc, char **argv) {
    const char *given = getenv("BUILD");
    struct CMUnitTest tests[CASES];
    if (realpath(given == NULL ? "build" : given, build) == NULL) {
        return 1;
    }
    setenv("NVTX_INJECTION64_PATH", in_build("libnvtx.so"), 1);
    for (int i = 0; i < CASES; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            const struct CMUnitTest one[] = {cases[i]};
            return cmocka_run_group_tests_name(cases[i].name, one, start, NULL);
        }
        tests[i] =
            (struct CMUnitTest){.name = cases[i].name, .test_func = in_a_process, .initial_state = (void *)&cases[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
