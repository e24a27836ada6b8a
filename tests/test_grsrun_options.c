/* The command line of grsrun: what is accepted, and what is said of what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/grsrun_options.h"

/* Parses a line that is split at blanks. */
static grs_status parse(const char *line, struct grsrun_options *out, enum options_request *request, grs_error *err) {
    static char copy[1024];
    char *argv[64] = {"grsrun"};
    int argc = 1;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        assert_true(argc < 64);
        argv[argc++] = word;
    }
    return grsrun_options_parse(argc, argv, out, request, err);
}

static void accept(const char *line, struct grsrun_options *out) {
    enum options_request request;
    grs_error err;
    grs_status status = parse(line, out, &request, &err);
    if (status) {
        fail_msg("'%s' was refused: %s", line, err.text);
    }
    assert_int_equal(request, OPTIONS_RUN);
}

static void refuse(const char *line, const char *expected) {
    struct grsrun_options options;
    enum options_request request;
    grs_error err;
    grs_status status = parse(line, &options, &request, &err);
    if (!status) {
        fail_msg("'%s' was accepted", line);
    }
    assert_int_equal(err.status, status);
    assert_string_equal(err.text, expected);
    grsrun_options_free(&options);
}

static void defaults(void **state) {
    (void)state;
    struct grsrun_options options;
    accept("--shape 8192,4096,2048", &options);
    assert_int_equal(options.shape_count, 1);
    assert_int_equal(options.shapes[0].m, 8192);
    assert_int_equal(options.shapes[0].n, 4096);
    assert_int_equal(options.shapes[0].k, 2048);
    assert_int_equal(options.shapes[0].tp, 1);
    assert_true(options.verify);
    assert_false(options.bench);
    assert_int_equal(options.backend, BACKEND_AUTO);
    assert_int_equal(options.seed, 1);
    assert_int_equal(options.repeat, 2);
    assert_int_equal(options.iters, 20);
    assert_false(options.has_arch);
    assert_non_null(options.config);
    grsrun_options_free(&options);
}

static void every_option(void **state) {
    (void)state;
    struct grsrun_options options;
    accept("--shape=64,128,256 --tp 2 --backend gpu --arch sm_90a --verify --rounds 3 --seed 0x10 --repeat 20 "
           "--iters 7 --l2 cold --ranks-per-gpu 2 --sms 66 --lda +8 --ldb 512 --ldd +0 --guard --graph --ctas 5 "
           "--schedule "
           "adversarial --runs 9",
           &options);
    assert_int_equal(options.shapes[0].tp, 2);
    assert_int_equal(options.backend, BACKEND_GPU);
    assert_true(options.has_arch);
    assert_int_equal(options.arch, ARCH_SM90A);
    assert_true(options.verify && options.guard && options.graph);
    assert_int_equal(options.rounds, 3);
    assert_int_equal(options.seed, 16);
    assert_int_equal(options.repeat, 20);
    assert_int_equal(options.iters, 7);
    assert_int_equal(options.l2, L2_COLD);
    assert_int_equal(options.ranks_per_gpu, 2);
    assert_int_equal(options.sms, 66);
    assert_int_equal(grsrun_leading(&options.lda, 256), 264);
    assert_int_equal(grsrun_leading(&options.ldb, 256), 512);
    assert_int_equal(grsrun_leading(&options.ldd, 128), 128);
    assert_int_equal(options.ctas, 5);
    assert_int_equal(options.schedule, EMU_ADVERSARIAL);
    assert_int_equal(options.runs, 9);
    grsrun_options_free(&options);
}

static void nodes_of_processes(void **state) {
    (void)state;
    struct grsrun_options options;
    accept("--procs --shape 8,8,8", &options);
    assert_true(options.procs && options.nodes == 0);
    grsrun_options_free(&options);
    accept("--procs --nodes 2 --graph --tp 4 --shape 8,16,8,8", &options);
    assert_true(options.procs && options.nodes == 2 && options.graph);
    grsrun_options_free(&options);
}

static void bench_alone_does_not_verify(void **state) {
    (void)state;
    struct grsrun_options options;
    accept("--bench --json --svg x.svg --save x.json --shape 8,8,8", &options);
    assert_true(options.bench && options.json);
    assert_string_equal(options.svg_path, "x.svg");
    assert_string_equal(options.save_path, "x.json");
    assert_false(options.verify);
    grsrun_options_free(&options);
}

static void ablate_is_a_table_of_its_own(void **state) {
    (void)state;
    struct grsrun_options options;
    accept("--ablate --tp 2,4 --pace 372.5 --svg x.svg --json --shape 8,8,8", &options);
    assert_true(options.ablate && !options.bench && !options.verify && !options.waits);
    assert_true(options.pace_gbps == 372.5);
    assert_int_equal(options.shape_count, 2);
    grsrun_options_free(&options);
    accept("--bench --waits --precompile --pace 0.5 --shape 8,8,8", &options);
    assert_true(options.bench && options.waits && !options.skew && options.precompile && options.pace_gbps == 0.5);
    grsrun_options_free(&options);
    accept("--bench --skew --shape 8,8,8", &options);
    assert_true(options.bench && options.skew && !options.waits);
    grsrun_options_free(&options);
}

static void check_ms(const char *text, const int64_t *expected, size_t count) {
    struct grsrun_options options = {0};
    grs_error err;
    assert_int_equal(grsrun_options_parse_shape(text, &options, &err), GRS_OK);
    assert_int_equal(options.shape_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(options.shapes[i].m, expected[i]);
        assert_int_equal(options.shapes[i].n, 4096);
        assert_int_equal(options.shapes[i].k, 2048);
    }
    grsrun_options_free(&options);
}

static void lists_and_ranges_of_m(void **state) {
    (void)state;
    check_ms("1,4096,2048", (int64_t[]){1}, 1);
    check_ms("7,256,1023,4096,2048", (int64_t[]){7, 256, 1023}, 3);
    check_ms("256:8192,4096,2048", (int64_t[]){256, 512, 1024, 2048, 4096, 8192}, 6);
    check_ms("256:8192x2,4096,2048", (int64_t[]){256, 512, 1024, 2048, 4096, 8192}, 6);
    check_ms("1:100x10,5,4096,2048", (int64_t[]){1, 10, 100, 5}, 4);
    check_ms("100:300+100,4096,2048", (int64_t[]){100, 200, 300}, 3);
    check_ms("5:5,4096,2048", (int64_t[]){5}, 1);
    check_ms("2147483647,4096,2048", (int64_t[]){2147483647}, 1);
}

static void shapes_multiply_with_tp(void **state) {
    (void)state;
    struct grsrun_options options;
    accept("--shape 1,2,8,16 --shape 3,24,32 --tp 1,2,8", &options);
    static const struct grsrun_shape expected[] = {{1, 8, 16, 0}, {2, 8, 16, 0}, {3, 24, 32, 0}};
    static const int tps[] = {1, 2, 8};
    assert_int_equal(options.shape_count, 9);
    for (size_t i = 0; i < 9; i++) {
        assert_int_equal(options.shapes[i].m, expected[i % 3].m);
        assert_int_equal(options.shapes[i].n, expected[i % 3].n);
        assert_int_equal(options.shapes[i].k, expected[i % 3].k);
        assert_int_equal(options.shapes[i].tp, tps[i / 3]);
    }
    grsrun_options_free(&options);
}

#define SHAPE_ALLOWED "allowed is M[,M...],N,K with M from 1 or FIRST:LAST[xFACTOR|+STEP], N and K multiples of 8"

static void refusals(void **state) {
    (void)state;
    refuse("", "nothing to run: give --shape M,N,K or --config FILE; see grsrun --help");
    refuse("--shape 8,8", "--shape: '8,8' is not a shape; " SHAPE_ALLOWED);
    refuse("--shape 8,8,", "--shape: '8,8,' is not a shape; " SHAPE_ALLOWED);
    refuse("--shape 8,8,8x", "--shape: '8,8,8x' is not a shape; " SHAPE_ALLOWED);
    refuse("--shape 8,8,-8", "--shape: '8,8,-8' is not a shape; " SHAPE_ALLOWED);
    refuse("--shape 0,8,8", "--shape: '0,8,8': bad M at '0,8,8'; " SHAPE_ALLOWED);
    refuse("--shape ,8,8", "--shape: ',8,8': bad M at ',8,8'; " SHAPE_ALLOWED);
    refuse("--shape 4,8:4,8,8", "--shape: '4,8:4,8,8': bad M at '8:4,8,8'; " SHAPE_ALLOWED);
    refuse("--shape 4:8x1,8,8", "--shape: '4:8x1,8,8': bad M at '4:8x1,8,8'; " SHAPE_ALLOWED);
    refuse("--shape 2147483648,8,8", "--shape: '2147483648,8,8': bad M at '2147483648,8,8'; " SHAPE_ALLOWED);
    refuse("--shape 99999999999999999999,8,8",
           "--shape: '99999999999999999999,8,8': bad M at '99999999999999999999,8,8'; " SHAPE_ALLOWED);
    refuse("--shape 8,12,8", "--shape: '8,12,8': N = 12 is not a multiple of 8");
    refuse("--shape 8,8,20", "--shape: '8,8,20': K = 20 is not a multiple of 8");
    refuse("--shape 1:100000+1,8,8", "more than 4096 shapes in one command");
    refuse("--shape 8,8,8 --tp 0", "--tp: '0' is not a list of numbers from 1 to 64");
    refuse("--shape 8,8,8 --tp 2,", "--tp: '2,' is not a list of numbers from 1 to 64");
    refuse("--shape 8,8,8 --tp 65", "--tp: '65' is not a list of numbers from 1 to 64");
    refuse("--shape 8,8,8 --backend cuda", "--backend: 'cuda' is none of auto, gpu, emu");
    refuse("--shape 8,8,8 --l2 hot", "--l2: 'hot' is none of warm, cold");
    refuse("--shape 8,8,8 --arch sm_80", "--arch: 'sm_80' is none of sm_90a, sm_100a, sm_100f, sm_103a");
    refuse("--shape 8,8,8 --iters 0", "--iters: '0' is not a number from 1 to 10000");
    refuse("--shape 8,8,8 --iters 1e3", "--iters: '1e3' is not a number from 1 to 10000");
    refuse("--shape 8,8,8 --seed -1", "--seed: '-1' is not a number from 0 to 2^64 - 1");
    refuse("--shape 8,8,8 --seed 18446744073709551616",
           "--seed: '18446744073709551616' is not a number from 0 to 2^64 - 1");
    refuse("--shape 8,8,8 --lda +4", "--lda: '+4' is neither a multiple of 8 nor '+' and one");
    refuse("--shape 8,8,8 --lda 0", "--lda: '0' is neither a multiple of 8 nor '+' and one");
    refuse("--shape 8,8,64 --lda 32", "--lda: 32 is less than a row, K = 64");
    refuse("--shape 8,128,8 --ldd 64", "--ldd: 64 is less than a row, N = 128");
    refuse("--shape 8,8,8 --bench --backend emu", "--bench times GPUs: it cannot be used with --backend emu");
    refuse("--shape 8,8,8 --bench --guard", "--guard and --rounds are for --verify: leave them out with --bench");
    refuse("--shape 8,8,8 --bench --rounds 2", "--guard and --rounds are for --verify: leave them out with --bench");
    refuse("--shape 8,8,8 --svg x", "--svg draws what --bench or --ablate measures: give one of them");
    refuse("--shape 8,8,8 --tp 2 --ablate --bench", "--ablate is a table of its own: leave out --bench and --verify");
    refuse("--shape 8,8,8 --tp 2 --ablate --verify", "--ablate is a table of its own: leave out --bench and --verify");
    refuse("--shape 8,8,8 --tp 2,1 --ablate",
           "--ablate compares ways to send, and one rank sends nothing: give --tp 2 or more");
    refuse("--shape 8,8,8 --tp 2 --ablate --graph", "--graph holds one kernel: it cannot be used with --ablate");
    refuse("--shape 8,8,8 --tp 2 --ablate --guard",
           "--guard and --rounds are for --verify: leave them out with --ablate");
    refuse("--shape 8,8,8 --tp 2 --ablate --backend emu", "--ablate times GPUs: it cannot be used with --backend emu");
    refuse("--shape 8,8,8 --pace 100 --backend emu",
           "--pace is for ranks on GPUs: it cannot be used with --backend emu");
    refuse("--shape 8,8,8 --precompile --backend emu",
           "--precompile compiles for GPUs: it cannot be used with --backend emu");
    refuse("--shape 8,8,8 --precompile --json", "--precompile measures nothing: leave out --json, --save and --svg");
    refuse("--shape 8,8,8 --waits", "--waits counts in timed launches: give --bench");
    refuse("--shape 8,8,8 --bench --waits --graph", "--graph holds one kernel: it cannot be used with --waits");
    refuse("--shape 8,8,8 --skew", "--skew compares ranks in timed launches: give --bench");
    refuse("--shape 8,8,8 --bench --skew --graph", "--graph holds one kernel: it cannot be used with --skew");
    refuse("--shape 8,8,8 --pace 0", "--pace: '0' is not a rate from 0.1 to 100000");
    refuse("--shape 8,8,8 --pace -5", "--pace: '-5' is not a rate from 0.1 to 100000");
    refuse("--shape 8,8,8 --pace 1e3", "--pace: '1e3' is not a rate from 0.1 to 100000");
    refuse("--shape 8,8,8 --pace 3.7.2", "--pace: '3.7.2' is not a rate from 0.1 to 100000");
    refuse("--shape 8,8,8 --pace .", "--pace: '.' is not a rate from 0.1 to 100000");
    refuse("--shape 8,8,8 --pace 100001", "--pace: '100001' is not a rate from 0.1 to 100000");
    refuse("--shape 8,8,8 --tp 4 --nodes 2", "--nodes divides ranks that are processes of their own: give --procs");
    refuse("--shape 8,8,8 --tp 4 --procs --nodes 3", "--nodes 3: 4 ranks cannot be divided into 3 nodes of one size");
    refuse("--shape 8,8,8 --procs --nodes 2", "--nodes 2: 1 rank cannot be divided into 2 nodes of one size");
    refuse("--shape 8,8,8 --procs --nodes 0", "--nodes: '0' is not a number from 1 to 64");
    refuse("--shape 8,8,8 --procs --nodes 65", "--nodes: '65' is not a number from 1 to 64");
    refuse("--shape 8,8,8 --tp 4 --procs --nodes 2 --json",
           "--procs verifies on GPUs: it cannot be used with --bench, --json, --save, --guard, --ranks-per-gpu or "
           "--backend emu");
    refuse("--shape 8,8,8 --tp 4 --procs --nodes 2 --ablate",
           "--procs verifies on GPUs: it cannot be used with --ablate or --pace");
    refuse("--shape 8,8,8 --bench --verify --json",
           "--json and --save hold one table: give --bench (which checks D too) or --verify");
    refuse("--shape 8,8,8 --frobnicate", "unknown or ambiguous option '--frobnicate'; see grsrun --help");
    refuse("--shape 8,8,8 -v", "unknown or ambiguous option '-v'; see grsrun --help");
    refuse("--shape 8,8,8 --iters", "--iters needs an argument; see grsrun --help");
    refuse("--shape 8,8,8 more", "unexpected argument 'more'; see grsrun --help");
}

static void requests(void **state) {
    (void)state;
    struct grsrun_options options;
    enum options_request request;
    assert_int_equal(parse("--help", &options, &request, NULL), GRS_OK);
    assert_int_equal(request, OPTIONS_HELP);
    grsrun_options_free(&options);
    assert_int_equal(parse("--version", &options, &request, NULL), GRS_OK);
    assert_int_equal(request, OPTIONS_VERSION);
    grsrun_options_free(&options);
}

static void help_names_every_option(void **state) {
    (void)state;
    struct buf help = {0};
    grsrun_options_help(&help);
    static const char *const names[] = {
        "--shape M[,M...],N,K", "--tp R[,R...]", "--config FILE", "--verify",     "--bench", "--json",
        "--svg FILE",           "--seed S",      "--repeat N",    "(warm, cold)", "--sms N", "--lda L",
        "(auto, gpu, emu)",     "--graph",       "--guard",       "Exit codes"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_non_null(strstr(help.data, names[i]));
    }
    for (const char *line = help.data; *line; line = strchr(line, '\n') + 1) {
        assert_true(strchr(line, '\n') - line <= 120);
    }
    buf_free(&help);
}

/* ---------------------------------------------------------------- shapes from a config --------------------------- */

static char config_path[] = "/tmp/grsrun-test-XXXXXX";

static int write_config(void **state) {
    (void)state;
    static const char text[] = "version: 1\n"
                               "shapes:\n"
                               "  - {m: [16, 32], n: 64, k: 128, tp: [1, 2]}\n"
                               "  - {m: 5, n: 8, k: 8, tp: 4}\n";
    int file = mkstemp(config_path);
    return file < 0 || write(file, text, sizeof(text) - 1) < 0 || close(file);
}
static int remove_config(void **state) {
    (void)state;
    return unlink(config_path);
}

static void shapes_of_a_config(void **state) {
    (void)state;
    struct grsrun_options options;
    char line[128];
    snprintf(line, sizeof(line), "--config %s", config_path);
    accept(line, &options);
    assert_int_equal(options.shape_count, 5);
    grsrun_options_free(&options);

    snprintf(line, sizeof(line), "--config %s --tp 4,2", config_path);
    accept(line, &options);
    assert_int_equal(options.shape_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(options.shapes[i].tp, options.shapes[i].m == 5 ? 4 : 2);
    }
    grsrun_options_free(&options);

    snprintf(line, sizeof(line), "--config %s --shape 9,8,8", config_path); /* only its values */
    accept(line, &options);
    assert_int_equal(options.shape_count, 1);
    grsrun_options_free(&options);

    char expected[128];
    snprintf(line, sizeof(line), "--config %s --tp 8", config_path);
    snprintf(expected, sizeof(expected), "%s: no shape with that tp; give one with --shape M,N,K", config_path);
    refuse(line, expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_option),
        cmocka_unit_test(nodes_of_processes),
        cmocka_unit_test(bench_alone_does_not_verify),
        cmocka_unit_test(ablate_is_a_table_of_its_own),
        cmocka_unit_test(lists_and_ranges_of_m),
        cmocka_unit_test(shapes_multiply_with_tp),
        cmocka_unit_test(refusals),
        cmocka_unit_test(requests),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test_setup_teardown(shapes_of_a_config, write_config, remove_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
