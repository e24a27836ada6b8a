/* GRS_LOG=debug: every decision between a call and a kernel is told, with its reason. The compiler and the driver are stand-ins. */
#include <sys/stat.h>
#include <unistd.h>

#include "generator/plan_explain.h"
#include "tests/runtime_fixture.h"

enum { M = 300, N = 512, K = 256, TP = 4 };

static char folder[] = "/tmp/grs-test-decisions-XXXXXX", text[65536], compiler[4096], other_compiler[4096];

static void keep(void *arg, grs_log_level level, const char *line) {
    (void)arg;
    (void)level;
    size_t length = strlen(text);
    snprintf(text + length, sizeof(text) - length, "%s\n", line);
}

static void expect(const char *line) {
    if (strstr(text, line) == NULL) {
        fail_msg("the log lacks \"%s\":\n%s", line, text);
    }
}

static const char *in_folder(const char *name) {
    static char path[2][4096];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *path, const char *lines) {
    write_file(path, lines, strlen(lines));
}

/* The same library with another build id: another compiler, by what the key knows of it. */
static void make_other_compiler(void) {
    static char bytes[1 << 20];
    char hex[128] = "";
    unsigned char id[64];
    FILE *file = fopen(compiler, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof(bytes), file), length = 0;
    fclose(file);
    assert_true(size > 0 && size < sizeof(bytes) && nvrtc_read_build_id(compiler, hex, sizeof(hex)));
    for (unsigned byte; sscanf(hex + 2 * length, "%2x", &byte) == 1; length++) {
        id[length] = (unsigned char)byte;
    }
    char *found = memmem(bytes, size, id, length);
    assert_true(length >= 8 && found != NULL);
    found[0] ^= 1;
    snprintf(other_compiler, sizeof(other_compiler), "%s", in_folder("libnvrtc-other.so"));
    write_file(other_compiler, bytes, size);
}

static int start(void **state) {
    const char *build = getenv("BUILD");
    snprintf(compiler, sizeof(compiler), "%s/tests/shim/libnvrtc.so", build == NULL ? "build" : build);
    if (mkdtemp(folder) == NULL || fixture_open(state) != 0) {
        return -1;
    }
    unsetenv("GRS_CONFIG");
    unsetenv("GRS_ARCH");
    unsetenv("GRS_CACHE_RO_DIRS");
    setenv("GRS_CACHE_DIR", in_folder("cache"), 1);
    setenv("GRS_LOG", "debug", 1);
    make_other_compiler();
    return fixture_reset(state);
}

static int end(void **state) {
    (void)state;
    char command[256];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static int forget(void **state) {
    text[0] = '\0';
    unsetenv("GRS_CONFIG");
    unsetenv("GRS_ARCH");
    return fixture_reset(state);
}

/* The kernel of a context of its own, with the level of GRS_LOG. */
static grs_kernel_info get(const char *nvrtc, const char *config, const char *arch) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    static char name[128], key[65];
    grs_kernel_info info = GRS_INIT(grs_kernel_info);
    const grs_kernel *kernel;
    grs_ctx *ctx = NULL;
    options.nvrtc_path = nvrtc;
    options.config_path = config;
    options.arch = arch;
    options.log = keep;
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK || grs_ctx_get(ctx, M, N, K, TP, &kernel, &err) != GRS_OK ||
        grs_kernel_get_info(kernel, &info, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    snprintf(name, sizeof(name), "%s", info.name);
    snprintf(key, sizeof(key), "%s", info.key);
    grs_ctx_close(ctx);
    info.name = name;
    info.key = key;
    return info;
}

static void what_is_chosen_and_why(void **state) {
    (void)state;
    grs_kernel_info info = get(compiler, NULL, NULL);
    char line[8192];
    expect("no config is named, by option or GRS_CONFIG: the planner chooses everything\n");
    expect("arch sm_90a, that of GPU 0; every GPU of a communicator must run it (GPU 0: sm_90)\n");
    snprintf(line, sizeof(line), "N %d, K %d, tp %d: class 1 of 4 by M, 1 to ", N, K, TP);
    expect(line);
    char *found = realpath(compiler, NULL); /* as the library says where it found it */
    assert_non_null(found);
    snprintf(line, sizeof(line), "NVRTC: %s", found);
    free(found);
    expect(line);
    /* Each value that matters, with a reason. */
    struct config *config = NULL;
    struct plan plan;
    struct plan_shape class;
    assert_int_equal(config_defaults(&config, &err), GRS_OK);
    assert_int_equal(jit_class(config, ARCH_SM90A, M, N, K, TP, &class, &err), GRS_OK);
    assert_int_equal(plan_solve(config, ARCH_SM90A, &class, &plan, &err), GRS_OK);
    config_free(config);
    int values = 0;
    for (int f = 0; f < FIELD_COUNT; f++) {
        struct buf value = {0};
        config_value_text((enum field)f, plan.value[f], &value);
        if (explain_matters(&plan, (enum field)f)) {
            assert_non_null(plan.reason[f]);
            snprintf(line, sizeof(line), "%s: %s %s: %s\n", info.name, config_fields[f].key, value.data,
                     plan.reason[f]);
            expect(line);
            values++;
        }
        buf_free(&value);
    }
    assert_true(values >= 15);
    snprintf(line, sizeof(line), ": compiled, key %s\n", info.key);
    expect(line);
}

static void hit_or_miss_and_why(void **state) {
    char line[8192], first[65];
    snprintf(first, sizeof(first), "%s", get(compiler, NULL, NULL).key); /* made here, or by the test before */
    forget(state);
    grs_kernel_info info = get(compiler, NULL, NULL);
    assert_string_equal(info.key, first);
    snprintf(line, sizeof(line), "kernel cache: hit: \"%s/%.2s/%s\"\n", in_folder("cache"), info.key, info.key);
    expect(line);
    assert_null(strstr(text, "miss"));

    forget(state); /* the directory is empty for another tile */
    write_text(in_folder("tile.yaml"), "version: 1\ntile: {m: 64, n: 64}\n");
    info = get(compiler, in_folder("tile.yaml"), NULL);
    snprintf(line, sizeof(line),
             "kernel cache: miss: \"%s/%.2s/%s\" is not there, nor is this kernel by another compiler\n",
             in_folder("cache"), info.key, info.key);
    expect(line);
    snprintf(line, sizeof(line), "%s: tile.m 64: the config says so\n", info.name);
    expect(line);

    forget(state);
    info = get(other_compiler, NULL, NULL);
    snprintf(line, sizeof(line), "%s\" is not there; 1 entry of this kernel was made by another compiler\n", info.key);
    expect(line);

    forget(state); /* no compiler: any will do */
    info = get("/nonexistent/libnvrtc.so", NULL, NULL);
    expect(", whatever compiled it, since there is no NVRTC here: NVRTC ");
    assert_int_equal(info.source, GRS_FROM_DISK);

    forget(state); /* damage is told, and made good */
    snprintf(line, sizeof(line), "%s/%.2s/%s", in_folder("cache"), first, first);
    assert_int_equal(truncate(line, 100), 0);
    info = get(compiler, NULL, NULL);
    assert_int_equal(info.source, GRS_FROM_COMPILER);
    expect(" is damaged: ");

    forget(state); /* found in a directory that is shared */
    setenv("GRS_CACHE_RO_DIRS", in_folder("cache"), 1);
    setenv("GRS_CACHE_DIR", in_folder("empty"), 1);
    info = get(compiler, NULL, NULL);
    unsetenv("GRS_CACHE_RO_DIRS");
    snprintf(line, sizeof(line), "kernel cache: hit: \"%s/%.2s/%s\"\n", in_folder("cache"), info.key, info.key);
    expect(line);

    forget(state); /* no directory at all */
    setenv("GRS_CACHE_DIR", "/proc/nonexistent", 1);
    info = get(compiler, NULL, NULL);
    setenv("GRS_CACHE_DIR", in_folder("cache"), 1);
    expect("kernel cache: in memory only\n");
    snprintf(line, sizeof(line), "kernel cache: miss: %s is not in memory, and there is no directory\n", info.key);
    expect(line);
}

static void who_named_the_config_and_the_arch(void **state) {
    write_text(in_folder("two.yaml"), "version: 1\narch: [sm_90a, sm_100a]\ntile: {n: 64}\n");
    get(compiler, in_folder("two.yaml"), NULL);
    expect("two.yaml, by option: it sets 1 value, the planner chooses the rest\n");
    expect("arch sm_90a, that of GPU 0");

    forget(state);
    setenv("GRS_CONFIG", in_folder("two.yaml"), 1);
    setenv("GRS_ARCH", "sm_100a", 1);
    get(compiler, NULL, NULL);
    expect("two.yaml, by GRS_CONFIG: it sets 1 value");
    expect("arch sm_100a, by GRS_ARCH\n");

    forget(state);
    get(compiler, NULL, "sm_103a");
    expect("arch sm_103a, by option\n");

    forget(state); /* GPUs of two kinds: the first counts */
    shim->device[0].major = 10;
    shim->device[1].major = 9;
    get(compiler, NULL, NULL);
    expect("arch sm_100a, that of GPU 0; every GPU of a communicator must run it (GPU 0: sm_100)\n");

    forget(state); /* none that has a kernel */
    shim->device[0].major = 8;
    get(compiler, in_folder("two.yaml"), NULL);
    expect("arch sm_90a, the first that the config lists (GPU 0: sm_80)\n");
    forget(state);
    shim->device[0].major = 8;
    get(compiler, NULL, NULL);
    expect("arch sm_90a, the usual one, since nothing says which (GPU 0: sm_80)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_chosen_and_why, forget),
        cmocka_unit_test_setup(hit_or_miss_and_why, forget),
        cmocka_unit_test_setup(who_named_the_config_and_the_arch, forget),
    };
    return cmocka_run_group_tests(tests, start, end);
}
