/* Finding NVRTC by files alone, reading ptxas's report, and (where NVRTC is installed) compiling. */
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/nvrtc.h"

static char root[] = "/tmp/grs-test-nvrtc-XXXXXX";
static const char *named; /* $GRS_NVRTC of whoever runs the tests: for those that compile */

/* ---------------------------------------------------------------- a fake installation --------------------------- */

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* This program is a position-independent ELF file: good enough a library for the search, which opens none. */
static void copy_self(const char *path) {
    FILE *self = fopen("/proc/self/exe", "rb");
    assert_non_null(self);
    static char data[16 << 20];
    size_t size = fread(data, 1, sizeof(data), self);
    fclose(self);
    assert_true(size > 1000 && size < sizeof(data));
    write_file(path, data, size);
}

static char *in_root(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *in_root(const char *format, ...) {
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    int head = snprintf(path, sizeof(paths[0]), "%s/", root);
    va_list list;
    va_start(list, format);
    vsnprintf(path + head, sizeof(paths[0]) - (size_t)head, format, list);
    va_end(list);
    return path;
}

static void install(const char *directory, const char *library, const char *builtins) {
    mkdir(in_root("%s", directory), 0700);
    copy_self(in_root("%s/%s", directory, library));
    if (builtins != NULL) {
        write_file(in_root("%s/%s", directory, builtins), "", 0);
    }
}

static int set_up(void **state) {
    (void)state;
    named = getenv("GRS_NVRTC") == NULL ? NULL : strdup(getenv("GRS_NVRTC"));
    unsetenv("GRS_NVRTC");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[4200];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

/* ---------------------------------------------------------------- the search ------------------------------------ */

static void test_named_file_and_directory(void **state) {
    struct nvrtc_location where, again;
    grs_error err = {0};
    (void)state;
    install("named", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9");
    assert_int_equal(nvrtc_locate(in_root("named/libnvrtc.so.12"), &where, &err), GRS_OK);
    assert_string_equal(where.path, in_root("named/libnvrtc.so.12"));
    assert_string_equal(where.builtins, in_root("named/libnvrtc-builtins.so.12.9"));
    assert_string_equal(where.origin, "nvrtc_path");
    assert_int_equal(where.version, 12090);
    assert_true(strlen(where.build_id) >= 16);

    setenv("GRS_NVRTC", in_root("named"), 1);
    assert_int_equal(nvrtc_locate(NULL, &again, &err), GRS_OK);
    unsetenv("GRS_NVRTC");
    assert_string_equal(again.path, where.path);
    assert_string_equal(again.build_id, where.build_id);
    assert_string_equal(again.origin, "GRS_NVRTC");
}

static void test_search_order(void **state) {
    struct nvrtc_location where;
    grs_error err = {0};
    (void)state;
    install("first", "libnvrtc.so.12", "libnvrtc-builtins.so.12.8");
    mkdir(in_root("kit"), 0700);
    install("kit/lib64", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0");
    setenv("CUDA_HOME", in_root("kit"), 1);
    setenv("LD_LIBRARY_PATH", in_root("nowhere:%s", in_root("first")), 1);
    assert_int_equal(nvrtc_locate(NULL, &where, &err), GRS_OK);
    assert_string_equal(where.path, in_root("first/libnvrtc.so.12"));
    assert_string_equal(where.origin, "LD_LIBRARY_PATH");

    /* Too old a library is passed over. */
    install("old", "libnvrtc.so.12", "libnvrtc-builtins.so.12.3");
    setenv("LD_LIBRARY_PATH", in_root("old"), 1);
    assert_int_equal(nvrtc_locate(NULL, &where, &err), GRS_OK);
    assert_string_not_equal(where.path, in_root("old/libnvrtc.so.12"));
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("CUDA_HOME");
}

static void test_newest_soname_and_matching_builtins(void **state) {
    struct nvrtc_location where;
    grs_error err = {0};
    (void)state;
    install("many", "libnvrtc.so.12.8.93", "libnvrtc-builtins.so.12.8");
    install("many", "libnvrtc.so.13.0.1", "libnvrtc-builtins.so.13.0.1");
    write_file(in_root("many/libnvrtc-builtins.so.12.9"), "", 0);
    write_file(in_root("many/libnvrtc-builtins.so.13.0"), "", 0);
    assert_int_equal(symlink("libnvrtc.so.12.8.93", in_root("many/libnvrtc.so.12")), 0);
    assert_int_equal(nvrtc_locate(in_root("many"), &where, &err), GRS_OK);
    assert_string_equal(where.builtins, in_root("many/libnvrtc-builtins.so.12.8"));
    assert_int_equal(symlink("libnvrtc.so.13.0.1", in_root("many/libnvrtc.so.13")), 0);
    assert_int_equal(nvrtc_locate(in_root("many"), &where, &err), GRS_OK);
    assert_string_equal(where.path, in_root("many/libnvrtc.so.13.0.1"));
    assert_string_equal(where.builtins, in_root("many/libnvrtc-builtins.so.13.0"));
}

static void test_refusals(void **state) {
    struct nvrtc_location where;
    grs_error err = {0};
    (void)state;
    install("stale", "libnvrtc.so.12", "libnvrtc-builtins.so.12.6");
    assert_int_equal(nvrtc_locate(in_root("stale"), &where, &err), GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "is NVRTC 12.6; 12.8 or newer is needed"));
    assert_non_null(strstr(err.text, in_root("stale/libnvrtc.so.12")));

    assert_int_equal(nvrtc_locate(in_root("absent.so"), &where, &err), GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, in_root("absent.so: No such file or directory")));
    assert_non_null(strstr(err.text, "GRS_NVRTC"));

    write_file(in_root("text.so"), "not a library", 13);
    assert_int_equal(nvrtc_locate(in_root("text.so"), &where, &err), GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "text.so: not a 64-bit ELF library"));

    mkdir(in_root("empty"), 0700);
    assert_int_equal(nvrtc_locate(in_root("empty"), &where, &err), GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "no libnvrtc.so.13, libnvrtc.so.12 or libnvrtc.so in this directory"));
}

/* ---------------------------------------------------------------- build ids ------------------------------------- */

static int own_note(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && info->dlpi_name[0] == '\0'; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const unsigned char *at = (const unsigned char *)(info->dlpi_addr + segment->p_vaddr);
        const unsigned char *end = at + segment->p_memsz;
        while (segment->p_type == PT_NOTE && at + 12 <= end) {
            ElfW(Nhdr) head;
            memcpy(&head, at, sizeof(head));
            const unsigned char *value = at + 12 + ((head.n_namesz + 3) & ~3u);
            if (head.n_type == 3 && head.n_namesz == 4 && memcmp(at + 12, "GNU", 4) == 0) {
                for (unsigned j = 0; j < head.n_descsz; j++) {
                    sprintf((char *)arg + 2 * j, "%02x", value[j]);
                }
                return 1;
            }
            at = value + ((head.n_descsz + 3) & ~3u);
        }
    }
    return 0;
}

static void test_build_id_is_the_note(void **state) {
    char loaded[256] = "", read[256] = "";
    (void)state;
    assert_true(nvrtc_read_build_id("/proc/self/exe", read, sizeof(read)));
    dl_iterate_phdr(own_note, loaded);
    if (loaded[0] == '\0') { /* a linker that writes none: the digest stands for it */
        assert_memory_equal(read, "file-", 5);
    } else {
        assert_string_equal(read, loaded);
    }
}

/* Every cut of a file's beginning is survived, and none gives a build id that is not there. */
static void test_damaged_elf(void **state) {
    char id[256], whole[256];
    (void)state;
    copy_self(in_root("cut"));
    assert_true(nvrtc_read_build_id(in_root("cut"), whole, sizeof(whole)));
    for (int size = 2000; size >= 0; size -= 7) {
        assert_int_equal(truncate(in_root("cut"), size), 0);
        id[0] = '\0';
        bool ok = nvrtc_read_build_id(in_root("cut"), id, sizeof(id));
        assert_true(!ok || strcmp(id, whole) == 0 || strncmp(id, "file-", 5) == 0);
        if (size < 64) {
            assert_false(ok);
        }
    }
    assert_false(nvrtc_read_build_id(root, id, sizeof(id)));
}

static void test_digest_without_a_note(void **state) {
    char one[256], two[256];
    (void)state;
    Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
                       .e_type = ET_DYN,
                       .e_phentsize = sizeof(Elf64_Phdr)};
    char data[4096] = {0};
    memcpy(data, &head, sizeof(head));
    write_file(in_root("plain"), data, sizeof(data));
    assert_true(nvrtc_read_build_id(in_root("plain"), one, sizeof(one)));
    assert_memory_equal(one, "file-", 5);
    data[4000] = 1;
    write_file(in_root("plain"), data, sizeof(data));
    assert_true(nvrtc_read_build_id(in_root("plain"), two, sizeof(two)));
    assert_string_not_equal(one, two);
}

/* ---------------------------------------------------------------- ptxas's report -------------------------------- */

static void test_report(void **state) {
    static const char log[] =
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'other' for 'sm_90a'\n"
        "ptxas info    : Function properties for other\n"
        "ptxas         .     8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 1 barriers\n"
        "ptxas info    : Compiling entry function 'grs_k' for 'sm_90a'\n"
        "ptxas info    : Function properties for grs_k\n"
        "ptxas         .     16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads\n"
        "ptxas info    : Function properties for helper\n"
        "ptxas         .     99 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 9 barriers, 16 bytes cumulative stack size, 1024 "
        "bytes smem\n"
        "ptxas info    : Compiling entry function 'last' for 'sm_90a'\n"
        "ptxas info    : Used 255 registers\n";
    struct ptxas_report report;
    (void)state;
    ptxas_parse(log, "grs_k", &report);
    assert_true(report.found);
    assert_int_equal(report.registers, 168);
    assert_int_equal(report.barriers, 9);
    assert_int_equal(report.stack_bytes, 16);
    assert_int_equal(report.spill_store_bytes, 12);
    assert_int_equal(report.spill_load_bytes, 24);
    assert_int_equal(report.static_shared_bytes, 1024);
    ptxas_parse(log, "grs", &report);
    assert_false(report.found);
    ptxas_parse("", "grs_k", &report);
    assert_false(report.found);
}

/* ---------------------------------------------------------------- the real library ------------------------------ */

static const struct nvrtc *real_nvrtc(void) {
    static const struct nvrtc *nvrtc;
    struct nvrtc_location where;
    grs_error err = {0};
    if (nvrtc == NULL) {
        if (nvrtc_locate(named, &where, &err) != GRS_OK) {
            print_message("SKIP: %s\n", err.text);
            skip();
        }
        assert_int_equal(nvrtc_open(&where, &nvrtc, &err), GRS_OK);
        assert_true(where.version == 0 || where.version == nvrtc_version(nvrtc));
    }
    return nvrtc;
}

static const struct emit_header headers[] = {
    {"grs/twice.cuh", "#pragma once\nnamespace grs { __device__ inline float twice(float x) { return x + x; } }\n"},
    {NULL, NULL},
};

static void test_compile(void **state) {
    const struct nvrtc *nvrtc = real_nvrtc();
    struct nvrtc_result result;
    grs_error err = {0};
    (void)state;
    const char *source = "#include \"grs/twice.cuh\"\n"
                         "extern \"C\" __global__ void __launch_bounds__(128, 1) tiny(float *x) {\n"
                         "    __shared__ float s[128];\n"
                         "    s[threadIdx.x] = x[threadIdx.x];\n"
                         "    __syncthreads();\n"
                         "    x[threadIdx.x] = grs::twice(s[127 - threadIdx.x]);\n"
                         "}\n";
    if (nvrtc_compile(nvrtc, ARCH_SM90A, "tiny.cu", source, headers, "tiny", &result, &err) != GRS_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(result.cubin_size > 1000);
    assert_memory_equal(result.cubin, "\177ELF", 4);
    assert_non_null(strstr(result.ptx, ".target sm_90a"));
    assert_non_null(strstr(result.ptx, ".entry tiny"));
    assert_int_equal(strlen(result.ptx), result.ptx_size);
    assert_int_equal(strlen(result.log), result.log_size);
    assert_true(result.report.found);
    assert_true(result.report.registers > 0 && result.report.registers <= 255);
    assert_int_equal(result.report.static_shared_bytes, 512);
    assert_int_equal(result.report.spill_store_bytes, 0);
    assert_null(memmem(result.cubin, result.cubin_size, ".debug_line", 11));
    nvrtc_result_free(&result);

    setenv("GRS_LINE_INFO", "1", 1);
    assert_int_equal(nvrtc_compile(nvrtc, ARCH_SM90A, "tiny.cu", source, headers, "tiny", &result, &err), GRS_OK);
    unsetenv("GRS_LINE_INFO");
    assert_non_null(memmem(result.cubin, result.cubin_size, ".debug_line", 11));
    assert_non_null(strstr(result.ptx, "grs/twice.cuh"));
    nvrtc_result_free(&result);
}

/* Only on request: the options are a part of the cache key. */
static void test_options(void **state) {
    struct buf plain = {0}, empty = {0}, lines = {0};
    (void)state;
    nvrtc_options(ARCH_SM90A, &plain);
    assert_null(strstr(plain.data, "line-info"));
    setenv("GRS_LINE_INFO", "", 1);
    nvrtc_options(ARCH_SM90A, &empty);
    assert_string_equal(empty.data, plain.data);
    setenv("GRS_LINE_INFO", "1", 1);
    nvrtc_options(ARCH_SM90A, &lines);
    unsetenv("GRS_LINE_INFO");
    assert_non_null(strstr(lines.data, "\n--generate-line-info\n"));
    assert_memory_equal(lines.data, plain.data, strlen(plain.data));
    buf_free(&plain);
    buf_free(&empty);
    buf_free(&lines);
}

static void test_compile_error_holds_the_log(void **state) {
    const struct nvrtc *nvrtc = real_nvrtc();
    struct nvrtc_result result;
    grs_error err = {0};
    (void)state;
    const char *source = "#include \"grs/twice.cuh\"\n"
                         "extern \"C\" __global__ void bad(float *x) { x[0] = grs::thrice(x[1]); }\n";
    assert_int_equal(nvrtc_compile(nvrtc, ARCH_SM90A, "bad.cu", source, headers, "bad", &result, &err),
                     GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "bad.cu(2)"));
    assert_non_null(strstr(err.text, "thrice"));
    assert_null(result.log);
}

static void test_long_log_goes_to_a_file(void **state) {
    const struct nvrtc *nvrtc = real_nvrtc();
    struct nvrtc_result result;
    grs_error err = {0};
    struct buf source = {0};
    (void)state;
    for (int i = 0; i < 60; i++) {
        buf_printf(&source, "int a_name_that_is_long_enough_to_fill_the_log_%d = not_declared_anywhere_at_all_%d;\n", i,
                   i);
    }
    setenv("TMPDIR", root, 1);
    assert_int_equal(nvrtc_compile(nvrtc, ARCH_SM90A, "long.cu", source.data, NULL, "long", &result, &err),
                     GRS_ERR_COMPILER);
    unsetenv("TMPDIR");
    buf_free(&source);
    const char *where = strstr(err.text, "the whole log is in ");
    assert_non_null(where);
    char path[4096] = "";
    assert_int_equal(sscanf(where, "the whole log is in %4095s", path), 1);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    static char log[1 << 20];
    size_t size = fread(log, 1, sizeof(log) - 1, file);
    fclose(file);
    log[size] = '\0';
    assert_non_null(strstr(log, "errors detected in the compilation"));
}

/* A header of the same name in the working directory must not be taken. */
static void test_nothing_is_read_from_the_directory(void **state) {
    const struct nvrtc *nvrtc = real_nvrtc();
    struct nvrtc_result result;
    grs_error err = {0};
    char old[4096];
    (void)state;
    assert_non_null(getcwd(old, sizeof(old)));
    write_file(in_root("local.cuh"), "\n", 1);
    assert_int_equal(chdir(root), 0);
    grs_status status =
        nvrtc_compile(nvrtc, ARCH_SM90A, "include.cu", "#include \"local.cuh\"\n", NULL, "none", &result, &err);
    assert_int_equal(chdir(old), 0);
    assert_int_equal(status, GRS_ERR_COMPILER);
    assert_non_null(strstr(err.text, "local.cuh"));
}

static void test_open_says_what_is_not_nvrtc(void **state) {
    struct nvrtc_location where = {0};
    const struct nvrtc *nvrtc;
    grs_error err = {0};
    (void)state;
    strcpy(where.path, "/nonexistent/libnvrtc.so.13");
    assert_int_equal(nvrtc_open(&where, &nvrtc, &err), GRS_ERR_COMPILER);
    assert_null(nvrtc);
    assert_non_null(strstr(err.text, "/nonexistent/libnvrtc.so.13"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_file_and_directory),
        cmocka_unit_test(test_search_order),
        cmocka_unit_test(test_newest_soname_and_matching_builtins),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_build_id_is_the_note),
        cmocka_unit_test(test_damaged_elf),
        cmocka_unit_test(test_digest_without_a_note),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_compile),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_compile_error_holds_the_log),
        cmocka_unit_test(test_long_log_goes_to_a_file),
        cmocka_unit_test(test_nothing_is_read_from_the_directory),
        cmocka_unit_test(test_open_says_what_is_not_nvrtc),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
