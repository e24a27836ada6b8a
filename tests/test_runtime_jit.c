/* Contexts, the table of kernels, and precompiling. Tests that compile need NVRTC and skip without it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "grs.h"
#include "runtime/context.h"
#include "runtime/kernel.h"
#include "runtime/nvrtc.h"

static char root[] = "/tmp/grs-test-jit-XXXXXX";
static grs_error err;

static int set_up_group(void **state) {
    (void)state;
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    setenv("GRS_LIBCUDA", "/nonexistent/libcuda.so.1", 1); /* the same results on machines with a GPU */
    setenv("GRS_CACHE_DIR", root, 1);
    unsetenv("GRS_CONFIG");
    unsetenv("GRS_ARCH");
    return 0;
}

static int tear_down_group(void **state) {
    (void)state;
    char command[4200];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void need_nvrtc(void) {
    struct nvrtc_location where;
    if (nvrtc_locate(NULL, &where, &err) != GRS_OK) {
        print_message("SKIP: %s\n", err.text);
        skip();
    }
}

static grs_ctx *open_context(const char *config_path) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = NULL;
    options.config_path = config_path;
    if (grs_ctx_open(&options, &ctx, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    return ctx;
}

static const char *write_config(const char *name, const char *text) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static grs_kernel_info info_of(const grs_kernel *kernel) {
    grs_kernel_info info = GRS_INIT(grs_kernel_info);
    assert_int_equal(grs_kernel_get_info(kernel, &info, &err), GRS_OK);
    return info;
}

/* ---------------------------------------------------------------- contexts ------------------------------------- */

static void test_arguments(void **state) {
    grs_ctx *ctx = open_context(NULL);
    const grs_kernel *kernel = (const grs_kernel *)&err;
    static const struct {
        int64_t m, n, k;
        int tp;
        const char *text;
    } rows[] = {
        {0, 8, 8, 1, "M: 0"},
        {-1, 8, 8, 1, "M: -1"},
        {1, 4, 8, 1, "N: 4"},
        {1, 4097, 8, 1, "N: 4097"},
        {1, 8, 2049, 1, "K: 2049"},
        {1, 8, 0, 1, "K: 0"},
        {1, 8, 8, 0, "tp: 0"},
        {1, 8, 8, GRS_MAX_TP + 1, "tp: 65"},
        {INT64_MAX, 8, 8, 1, "M: 9223372036854775807"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_not_equal(grs_ctx_get(ctx, rows[i].m, rows[i].n, rows[i].k, rows[i].tp, &kernel, &err), GRS_OK);
        assert_null(kernel);
        if (strncmp(err.text, rows[i].text, strlen(rows[i].text)) != 0) {
            fail_msg("%s does not begin with %s", err.text, rows[i].text);
        }
        assert_null(grs_jit_get(rows[i].m, rows[i].n, rows[i].k, rows[i].tp));
        assert_string_equal(grs_last_error()->text, err.text);
    }
    assert_int_equal(grs_ctx_get(NULL, 1, 8, 8, 1, &kernel, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_ctx_get(ctx, 1, 8, 8, 1, NULL, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_ctx_get(ctx, 0, 8, 8, 1, &kernel, NULL), GRS_ERR_ARGUMENT);
    grs_ctx_close(ctx);
    grs_ctx_close(NULL);
}

static void test_options_of_a_context(void **state) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx = (grs_ctx *)&options;
    (void)state;
    options.arch = "sm_80";
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_ERR_ARGUMENT);
    assert_null(ctx);
    assert_string_equal(err.text, "arch: sm_80; allowed: sm_90a, sm_100a, sm_100f, sm_103a");
    options.arch = NULL;
    setenv("GRS_ARCH", "volta", 1);
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "GRS_ARCH: volta; allowed: sm_90a, sm_100a, sm_100f, sm_103a");
    setenv("GRS_ARCH", "sm_90a", 1);
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    assert_int_equal(ctx->arch, ARCH_SM90A);
    grs_ctx_close(ctx);
    unsetenv("GRS_ARCH");
    options.sms = -3;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_ERR_ARGUMENT);
    assert_memory_equal(err.text, "sms is -3; allowed: 1 to", 24);
    options.sms = 0;
    options.config_path = "/nonexistent/config.yaml";
    assert_int_not_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    assert_non_null(strstr(err.text, "/nonexistent/config.yaml"));
    setenv("GRS_CONFIG", "/nonexistent/other.yaml", 1);
    assert_int_not_equal(grs_ctx_open(NULL, &ctx, &err), GRS_OK);
    assert_memory_equal(err.text, "GRS_CONFIG: ", 12);
    unsetenv("GRS_CONFIG");
    options.size = 1;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_ERR_ARGUMENT);
    assert_string_equal(err.text, "grs_ctx_options.size is 1; set it with GRS_INIT(grs_ctx_options)");
}

struct lines {
    int count;
    char last[1024];
};
static void collect(void *arg, grs_log_level level, const char *text) {
    struct lines *lines = arg;
    (void)level;
    lines->count++;
    snprintf(lines->last, sizeof(lines->last), "%s", text);
}

static void test_log_goes_to_the_callback(void **state) {
    struct lines lines = {0};
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx;
    (void)state;
    options.log = collect;
    options.log_arg = &lines;
    options.log_level = GRS_LOG_DEBUG;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    assert_true(lines.count > 0);
    grs_ctx_close(ctx);
    lines.count = 0;
    options.log_level = GRS_LOG_WARN;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    assert_int_equal(lines.count, 0);
    grs_ctx_close(ctx);
}

/* ---------------------------------------------------------------- no compiler ---------------------------------- */

/* A hundred callers get the remembered failure; NVRTC is looked for once. */
static void test_failures_are_remembered(void **state) {
    struct lines lines = {0};
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx;
    const grs_kernel *kernel;
    grs_error again;
    (void)state;
    options.nvrtc_path = "/nonexistent/libnvrtc.so";
    options.memory_only = 1;
    options.log = collect;
    options.log_arg = &lines;
    options.log_level = GRS_LOG_DEBUG;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    assert_int_equal(grs_ctx_get(ctx, 4096, 512, 256, 2, &kernel, &err), GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "is not in the cache and cannot be compiled"));
    assert_non_null(strstr(err.text, "/nonexistent/libnvrtc.so"));
    int count = lines.count;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(grs_ctx_get(ctx, 4096 + i, 512, 256, 2, &kernel, &again), GRS_ERR_COMPILER);
        assert_string_equal(again.text, err.text);
    }
    assert_int_equal(lines.count, count);
    grs_ctx_close(ctx);
}

static void test_fixed_m_serves_what_is_listed(void **state) {
    const char *path =
        write_config("fixed.yaml", "version: 1\nm: fixed\nshapes:\n  - {m: 256, n: 512, k: 256, tp: 2}\n");
    struct plan_shape class;
    grs_ctx *ctx = open_context(path);
    (void)state;
    assert_int_equal(jit_class(ctx->config, ctx->arch, 256, 512, 256, 2, &class, &err), GRS_OK);
    assert_int_equal(class.m_min, 256);
    assert_int_equal(class.m_max, 256);
    assert_int_equal(jit_class(ctx->config, ctx->arch, 255, 512, 256, 2, &class, &err), GRS_ERR_CONFIG);
    assert_non_null(strstr(err.text, "do not list M 255, N 512, K 256, tp 2"));
    grs_ctx_close(ctx);
}

static void test_metadata(void **state) {
    const struct kernel_meta meta = {168, 4, 16, 1024, 384, 230400, 256, 800};
    struct kernel_meta read;
    struct buf text = {0};
    (void)state;
    kernel_meta_write(&meta, &text);
    assert_true(kernel_meta_read(text.data, text.length, &read));
    assert_memory_equal(&read, &meta, sizeof(meta));
    assert_false(kernel_meta_read(text.data, text.length - 1, &read)); /* cut */
    assert_false(kernel_meta_read(text.data, 0, &read));
    buf_puts(&text, "of a later version: 7\n");
    assert_true(kernel_meta_read(text.data, text.length, &read));
    assert_memory_equal(&read, &meta, sizeof(meta));
    buf_free(&text);
}

/* ---------------------------------------------------------------- with a compiler ------------------------------ */

/* A small kernel, so that the tests compile fast. */
static const char small_config[] = "version: 1\ntile: {m: 64, n: 64, k: 64}\nstages: {load: 2}\n"
                                   "shapes:\n  - {m: [64, 4096], n: 256, k: 128, tp: [1, 2]}\n";

static bool maps_contain(const char *name) {
    char line[4096];
    bool found = false;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        found = strstr(line, name) != NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

/* In a process of its own: 0 when the kernel came from `source` and NVRTC was opened only for a compile. */
static int get_in_child(const char *config, grs_source source, bool opened) {
    int code = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        grs_ctx *ctx = open_context(config);
        const grs_kernel *kernel;
        grs_status status = grs_ctx_get(ctx, 64, 256, 128, 2, &kernel, &err);
        if (status != GRS_OK) {
            print_error("%s\n", err.text);
            _exit(2);
        }
        bool right = info_of(kernel).source == source && maps_contain("libnvrtc") == opened;
        grs_ctx_close(ctx);
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    return code;
}

static void test_disk_hit_never_opens_nvrtc(void **state) {
    need_nvrtc();
    const char *config = write_config("small.yaml", small_config);
    (void)state;
    assert_int_equal(get_in_child(config, GRS_FROM_COMPILER, true), 0);
    assert_int_equal(get_in_child(config, GRS_FROM_DISK, false), 0);
    /* An entry that matches in every other field is used where no NVRTC is installed. */
    setenv("GRS_NVRTC", "/nonexistent", 1);
    assert_int_equal(get_in_child(config, GRS_FROM_DISK, false), 0);
    unsetenv("GRS_NVRTC");
}

/* Hooks are other text and so other kernels; the context's come from the environment. */
static void test_hooks_are_other_kernels(void **state) {
    need_nvrtc();
    const char *config = write_config("small.yaml", small_config);
    const struct kernel_hooks none = {0}, all = {.count_waits = true, .pace_model = true, .stall = true};
    struct grs_kernel *plain, *hooked;
    const grs_kernel *paced;
    struct plan_shape class;
    (void)state;
    setenv("GRS_PACE_GBPS", "186", 1);
    grs_ctx *ctx = open_context(config);
    unsetenv("GRS_PACE_GBPS");
    assert_int_equal(jit_class(ctx->config, ctx->arch, 64, 256, 128, 2, &class, &err), GRS_OK);
    assert_int_equal(jit_build_hooked(ctx, ctx->config, ctx->arch, &class, &none, &plain, &err), GRS_OK);
    assert_int_equal(jit_build_hooked(ctx, ctx->config, ctx->arch, &class, &all, &hooked, &err), GRS_OK);
    assert_int_equal(grs_ctx_get(ctx, 64, 256, 128, 2, &paced, &err), GRS_OK);
    assert_string_not_equal(plain->key, hooked->key);
    assert_string_not_equal(plain->key, paced->key);
    assert_string_not_equal(hooked->key, paced->key);
    assert_false(plain->plan.pace_model || plain->plan.count_waits || plain->plan.stall_hook);
    assert_true(paced->plan.pace_model && !paced->plan.count_waits && !paced->plan.stall_hook);
    assert_true(hooked->plan.pace_model && hooked->plan.count_waits && hooked->plan.stall_hook);
    kernel_free(plain);
    kernel_free(hooked);
    grs_ctx_close(ctx);

    setenv("GRS_PACE_GBPS", "fast", 1);
    assert_int_equal(grs_ctx_open(NULL, &ctx, &err), GRS_ERR_ARGUMENT);
    unsetenv("GRS_PACE_GBPS");
    assert_non_null(strstr(err.text, "GRS_PACE_GBPS=fast"));
    assert_null(ctx);
}

static void test_info_and_images(void **state) {
    need_nvrtc();
    grs_ctx *ctx = open_context(write_config("small.yaml", small_config));
    const grs_kernel *kernel, *other;
    const void *data;
    size_t length, bytes, more;
    char text[512];
    (void)state;
    assert_int_equal(grs_ctx_get(ctx, 64, 256, 128, 2, &kernel, &err), GRS_OK);
    grs_kernel_info info = info_of(kernel);
    assert_memory_equal(info.name, "grs_gemm_rs_n256_k128_tp2_64x64x64", 34);
    assert_string_equal(info.arch, "sm_90a");
    assert_int_equal(strlen(info.key), 64);
    assert_int_equal(info.n, 256);
    assert_int_equal(info.k, 128);
    assert_int_equal(info.tp, 2);
    assert_int_equal(info.tile_m, 64);
    assert_int_equal(info.stages, 2);
    assert_true(info.m_min <= 64 && info.m_max >= 64);
    assert_true(info.registers > 0 && info.registers <= 255);
    assert_int_equal(info.spill_bytes, 0);
    assert_int_equal(info.threads, kernel->plan.threads);
    assert_int_equal(info.shared_bytes, kernel->plan.shared_bytes);

    /* Times: those of the information are those of its M, and of a larger M they are longer. */
    double expected, limit, other_expected, other_limit;
    assert_int_equal(grs_kernel_times(kernel, info.times_m, &expected, &limit, &err), GRS_OK);
    assert_true(info.times_m >= info.m_min && info.times_m <= info.m_max);
    assert_true(expected > limit && limit > 0);
    assert_true(info.expected_us == expected && info.limit_us == limit);
    assert_int_equal(grs_kernel_times(kernel, info.times_m / 2, &other_expected, &other_limit, &err), GRS_OK);
    assert_true(other_expected < expected && other_limit < limit);
    assert_int_equal(grs_kernel_times(kernel, info.m_min, NULL, NULL, &err), GRS_OK);
    assert_int_equal(grs_kernel_times(kernel, info.m_max + 1, &expected, &limit, &err), GRS_ERR_ARGUMENT);
    assert_non_null(strstr(err.text, " serves "));
    assert_int_equal(grs_kernel_times(NULL, 1, &expected, &limit, &err), GRS_ERR_ARGUMENT);

    /* Every M of the class gives the same pointer, another tp another kernel. */
    assert_int_equal(grs_ctx_get(ctx, 63, 256, 128, 2, &other, &err), GRS_OK);
    assert_ptr_equal(other, kernel);
    assert_int_equal(grs_ctx_get(ctx, 64, 256, 128, 1, &other, &err), GRS_OK);
    assert_ptr_not_equal(other, kernel);

    assert_int_equal(grs_kernel_image(kernel, GRS_IMAGE_CUBIN, &data, &length, &err), GRS_OK);
    assert_memory_equal(data, "\177ELF", 4);
    assert_int_equal(grs_kernel_image(kernel, GRS_IMAGE_PTX, &data, &length, &err), GRS_OK);
    assert_int_equal(strlen(data), length);
    snprintf(text, sizeof(text), "\n// key %s\n", info.key);
    assert_non_null(strstr(data, text));
    snprintf(text, sizeof(text), "\n.visible .entry %s(", info.name); /* beyond the comment, which names it too */
    assert_non_null(strstr(data, text));
    assert_int_equal(grs_kernel_image(kernel, GRS_IMAGE_SOURCE, &data, &length, &err), GRS_OK);
    assert_non_null(strstr(data, info.name));
    assert_null(strstr(data, "#include \"grs/")); /* one standalone file */
    assert_int_equal(grs_kernel_image(kernel, GRS_IMAGE_LOG, &data, &length, &err), GRS_OK);
    assert_non_null(strstr(data, "registers"));
    assert_int_equal(grs_kernel_image(kernel, (grs_image)9, &data, &length, &err), GRS_ERR_ARGUMENT);
    assert_null(data);

    assert_int_equal(grs_kernel_memory(kernel, 64, 66, &bytes, &err), GRS_OK);
    assert_int_equal(grs_kernel_memory(kernel, 1024, 66, &more, &err), GRS_OK);
    assert_true(bytes < more);
    assert_int_equal(grs_kernel_memory(kernel, info.times_m, 132, &more, &err), GRS_OK); /* an H200's SMs */
    assert_int_equal(info.memory_bytes, more);
    assert_int_equal(grs_kernel_memory(kernel, 0, 66, &bytes, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_kernel_memory(kernel, 64, 100000, &bytes, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_kernel_memory(kernel, 64, 0, &bytes, &err), GRS_ERR_DRIVER); /* nobody knows how many */
    grs_ctx_close(ctx);
}

struct caller {
    grs_ctx *ctx;
    pthread_barrier_t *start;
    const grs_kernel *kernel;
};
static void *call(void *arg) {
    struct caller *caller = arg;
    pthread_barrier_wait(caller->start);
    for (int i = 0; i < 200; i++) {
        if (grs_ctx_get(caller->ctx, 64 + i, 264, 128, 2, &caller->kernel, NULL) != GRS_OK) {
            caller->kernel = NULL;
            break;
        }
    }
    return NULL;
}

static void test_threads_share_one_compile(void **state) {
    enum { THREADS = 8 };
    need_nvrtc();
    grs_ctx *ctx = open_context(write_config("small.yaml", small_config));
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    (void)state;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){ctx, &start, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_non_null(callers[i].kernel);
        assert_ptr_equal(callers[i].kernel, callers[0].kernel);
    }
    assert_non_null(ctx->kernels);
    assert_null(ctx->kernels->next);
    assert_int_equal(info_of(callers[0].kernel).source, GRS_FROM_COMPILER);
    pthread_barrier_destroy(&start);
    grs_ctx_close(ctx);
}

/* The last class is open, but its kernel ends where positions end: an M beyond is refused, asked for first or after others. */
static void test_no_kernel_for_an_m_beyond_its_own(void **state) {
    (void)state;
    need_nvrtc();
    grs_ctx *ctx = open_context(NULL);
    const grs_kernel *kernel, *other;
    assert_int_equal(grs_ctx_get(ctx, INT32_MAX, 8, 8, 1, &kernel, &err), GRS_ERR_PLAN);
    assert_int_equal(grs_ctx_get(ctx, 1000000, 8, 8, 1, &kernel, &err), GRS_OK);
    int64_t most = info_of(kernel).m_max;
    assert_int_equal(grs_ctx_get(ctx, most, 8, 8, 1, &other, &err), GRS_OK);
    assert_ptr_equal(other, kernel);
    assert_int_equal(grs_ctx_get(ctx, most + 1, 8, 8, 1, &other, &err), GRS_ERR_PLAN);
    assert_null(other);
    assert_int_equal(grs_ctx_get(ctx, INT32_MAX, 8, 8, 1, &other, &err), GRS_ERR_PLAN);
    assert_non_null(strstr(err.text, "allowed: up to 2147483390"));
    grs_ctx_close(ctx);
}

/* Enough shapes for the table to grow several times; nothing is lost. Kernels that cannot be made fill slots as well. */
static void test_table_grows(void **state) {
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    grs_ctx *ctx;
    const grs_kernel *kernel;
    (void)state;
    options.nvrtc_path = "/nonexistent/libnvrtc.so";
    options.memory_only = 1;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= 300; i++) {
            assert_int_equal(grs_ctx_get(ctx, 1, 8 * i, 64, 1 + i % 8, &kernel, &err), GRS_ERR_COMPILER);
        }
        assert_int_equal(ctx->jit.count, 300);
    }
    assert_true(atomic_load(&ctx->jit.table)->mask >= 600);
    grs_ctx_close(ctx);
}

/* A child of a fork that came while nobody was compiling makes kernels like its parent. */
static void test_child_of_a_fork(void **state) {
    int code = -1;
    need_nvrtc();
    grs_ctx *ctx = open_context(write_config("small.yaml", small_config));
    const grs_kernel *kernel, *own;
    (void)state;
    assert_int_equal(grs_ctx_get(ctx, 64, 256, 128, 2, &kernel, &err), GRS_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool right = grs_ctx_get(ctx, 64, 256, 128, 2, &own, &err) == GRS_OK && own == kernel &&
                     grs_ctx_get(ctx, 64, 256, 192, 2, &own, &err) == GRS_OK && own != kernel;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    grs_ctx_close(ctx);
}

/* The fork comes from inside a compile (from its log callback): the child is told, and does not hang. */
struct forker {
    int code;
    bool forked;
    grs_ctx *ctx;
};
static void fork_inside(void *arg, grs_log_level level, const char *text) {
    struct forker *forker = arg;
    (void)level;
    (void)text;
    if (forker->ctx == NULL || forker->forked) {
        return;
    }
    forker->forked = true;
    pid_t child = fork();
    if (child == 0) {
        const grs_kernel *kernel;
        bool right = grs_ctx_get(forker->ctx, 1, 64, 64, 1, &kernel, &err) == GRS_ERR_STATE &&
                     strstr(err.text, "forked while another thread was making a kernel") != NULL;
        _exit(right ? 0 : 1);
    }
    waitpid(child, &forker->code, 0);
}

static void test_fork_in_the_middle(void **state) {
    struct forker forker = {.code = -1};
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    const grs_kernel *kernel;
    (void)state;
    options.nvrtc_path = "/nonexistent/libnvrtc.so";
    options.memory_only = 1;
    options.log = fork_inside;
    options.log_arg = &forker;
    options.log_level = GRS_LOG_DEBUG;
    grs_ctx *ctx;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    forker.ctx = ctx;
    assert_int_equal(grs_ctx_get(ctx, 4096, 512, 256, 2, &kernel, &err), GRS_ERR_COMPILER);
    assert_true(forker.forked);
    assert_int_equal(forker.code, 0);
    grs_ctx_close(ctx);
}

/* ---------------------------------------------------------------- precompiling --------------------------------- */

struct seen {
    int calls, last_done, total, hits, stop_at;
};
static int note(void *arg, const grs_progress *progress) {
    struct seen *seen = arg;
    seen->calls++;
    assert_int_equal(progress->done, seen->last_done + 1);
    assert_memory_equal(progress->name, "grs_gemm_rs_n256", 16);
    seen->last_done = progress->done;
    seen->total = progress->total;
    seen->hits = progress->hits;
    return progress->done == seen->stop_at;
}

static void test_precompile(void **state) {
    need_nvrtc();
    const char *config = write_config("pre.yaml", small_config);
    grs_ctx *ctx = open_context(NULL);
    struct seen seen = {0};
    const grs_kernel *kernel;
    (void)state;
    if (grs_precompile(ctx, config, 2, note, &seen, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(seen.total >= 2); /* tp 1 and 2 */
    assert_int_equal(seen.calls, seen.total);
    struct seen again = {0};
    assert_int_equal(grs_precompile(ctx, config, 0, note, &again, &err), GRS_OK);
    assert_int_equal(again.hits, again.total);
    struct seen stopped = {.stop_at = 1};
    assert_int_equal(grs_precompile(ctx, config, 1, note, &stopped, &err), GRS_ERR_CANCELLED);
    assert_int_equal(stopped.calls, 1);
    assert_non_null(strstr(err.text, "cancelled after 1 of "));
    grs_ctx_close(ctx);

    /* What was compiled for the config is what a context with that config finds. */
    ctx = open_context(config);
    assert_int_equal(grs_ctx_get(ctx, 4096, 256, 128, 1, &kernel, &err), GRS_OK);
    assert_int_equal(info_of(kernel).source, GRS_FROM_DISK);
    grs_ctx_close(ctx);
}

static void test_precompile_refusals(void **state) {
    grs_ctx *ctx = open_context(NULL);
    grs_ctx_options options = GRS_INIT(grs_ctx_options);
    const char *config = write_config("pre.yaml", small_config);
    (void)state;
    assert_int_equal(grs_precompile(NULL, config, 1, NULL, NULL, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_precompile(ctx, NULL, 1, NULL, NULL, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_precompile(ctx, config, -1, NULL, NULL, &err), GRS_ERR_ARGUMENT);
    assert_int_equal(grs_precompile(ctx, "/nonexistent.yaml", 1, NULL, NULL, &err), GRS_ERR_IO);
    grs_ctx_close(ctx);
    /* Filling the cache is the whole point: without one it is an error. */
    options.cache_dir = "/proc/no/such/place";
    options.log = collect;
    struct lines lines = {0};
    options.log_arg = &lines;
    assert_int_equal(grs_ctx_open(&options, &ctx, &err), GRS_OK);
    assert_int_equal(grs_precompile(ctx, config, 1, NULL, NULL, &err), GRS_ERR_IO);
    assert_non_null(strstr(err.text, "/proc/no/such/place"));
    grs_ctx_close(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_options_of_a_context),
        cmocka_unit_test(test_log_goes_to_the_callback),
        cmocka_unit_test(test_failures_are_remembered),
        cmocka_unit_test(test_fixed_m_serves_what_is_listed),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_disk_hit_never_opens_nvrtc),
        cmocka_unit_test(test_hooks_are_other_kernels),
        cmocka_unit_test(test_info_and_images),
        cmocka_unit_test(test_threads_share_one_compile),
        cmocka_unit_test(test_no_kernel_for_an_m_beyond_its_own),
        cmocka_unit_test(test_table_grows),
        cmocka_unit_test(test_child_of_a_fork),
        cmocka_unit_test(test_fork_in_the_middle),
        cmocka_unit_test(test_precompile),
        cmocka_unit_test(test_precompile_refusals),
    };
    return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
