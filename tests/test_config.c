/* The config parser: every kind of bad file with its exact error text (tests/golden/config), and good files by value.
 * GRS_UPDATE_GOLDEN=1 writes the golden texts anew. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
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

#include "generator/config.h"
#include "tests/golden.h"

#define GOLDEN "tests/golden/config"

static int yaml_only(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 5 && !strcmp(entry->d_name + length - 5, ".yaml");
}

static void bad_files_give_their_golden_error(void **state) {
    (void)state;
    struct dirent **files;
    int count = scandir(GOLDEN, &files, yaml_only, alphasort), different = 0;
    assert_true(count >= 50);
    for (int i = 0; i < count; i++) {
        char path[512], golden_path[512];
        snprintf(path, sizeof path, GOLDEN "/%s", files[i]->d_name);
        snprintf(golden_path, sizeof golden_path, "%.*s.err", (int)strlen(path) - 5, path);
        struct buf text = golden_read(path), got = {0};
        struct config *config = (struct config *)1;
        grs_error err = {0};
        grs_status status = config_parse(files[i]->d_name, text.data, text.length, &config, &err);
        assert_int_equal(status, GRS_ERR_CONFIG);
        assert_int_equal(err.status, GRS_ERR_CONFIG);
        assert_null(config);
        buf_printf(&got, "%s\n", err.text);
        char where[600];
        snprintf(where, sizeof where, "%s:%d:%d: ", files[i]->d_name, err.line, err.column);
        assert_memory_equal(err.text, where, strlen(where));
        different += !golden_matches(golden_path, &got);
        buf_free(&text);
        buf_free(&got);
        free(files[i]);
    }
    free(files);
    assert_int_equal(different, 0);
}

static struct config *parse(const char *text) {
    struct config *config = NULL;
    grs_error err = {0};
    if (config_parse("t.yaml", text, strlen(text), &config, &err) != GRS_OK)
        fail_msg("%s", err.text);
    assert_non_null(config);
    return config;
}

static void everything_in_one_file(void **state) {
    (void)state;
    struct config *c = parse("version: 1\n"
                             "arch: [sm_100a]\n"
                             "sms: 64\n"
                             "link_gbps: 372\n"
                             "tile:   {m: 256, n: 192, k: 128, cluster: 2, cta_group: 2}\n"
                             "stages: {load: 3, accum: 2}\n"
                             "ring:   {depth: 4, place: global, chunk: {bytes: 8192, count: 2}}\n"
                             "signal: {granularity: {group: 4}}\n"
                             "drain:  {policy: lane_per_stage, flush: never}\n"
                             "order:  {interleave: 2}\n"
                             "m: fixed\n"
                             "shapes:\n"
                             "  - {m: 8192, n: 4096, k: 2048, tp: 4, name: o_proj}\n"
                             "  - {m: [256, 512, 1024], n: 8192, k: 3584, tp: [2, 4]}\n");
    static const int64_t expected[FIELD_COUNT] = {
        [FIELD_SMS] = 64,
        [FIELD_LINK_GBPS] = 372,
        [FIELD_TILE_M] = 256,
        [FIELD_TILE_N] = 192,
        [FIELD_TILE_K] = 128,
        [FIELD_CLUSTER] = 2,
        [FIELD_CTA_GROUP] = 2,
        [FIELD_STAGES_LOAD] = 3,
        [FIELD_STAGES_ACCUM] = 2,
        [FIELD_RING_DEPTH] = 4,
        [FIELD_RING_PLACE] = PLACE_GLOBAL,
        [FIELD_CHUNK_BYTES] = 8192,
        [FIELD_CHUNK_COUNT] = 2,
        [FIELD_GRANULARITY] = GRANULARITY_GROUP,
        [FIELD_GROUP] = 4,
        [FIELD_DRAIN_POLICY] = DRAIN_LANE_PER_STAGE,
        [FIELD_DRAIN_FLUSH] = FLUSH_NEVER,
        [FIELD_ORDER] = ORDER_INTERLEAVE,
        [FIELD_LAG] = 2,
        [FIELD_M_MODE] = M_FIXED,
    };
    for (int f = 0; f < FIELD_COUNT; f++) {
        assert_int_equal(c->is_set[f], f != FIELD_SCHEDULE);
        assert_int_equal(c->value[f], expected[f]);
    }
    assert_false(c->arch[ARCH_SM90A]);
    assert_true(c->arch[ARCH_SM100A]);
    assert_int_equal(c->where[FIELD_TILE_N].line, 5);
    assert_int_equal(c->where[FIELD_TILE_N].column, 21);
    assert_int_equal(c->shape_count, 7);
    assert_string_equal(c->shapes[0].name, "o_proj");
    assert_int_equal(c->shapes[0].m, 8192);
    /* for each tp, every m */
    static const int64_t m[] = {256, 512, 1024, 256, 512, 1024};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(c->shapes[1 + i].m, m[i]);
        assert_int_equal(c->shapes[1 + i].tp, i < 3 ? 2 : 4);
        assert_int_equal(c->shapes[1 + i].n, 8192);
        assert_int_equal(c->shapes[1 + i].k, 3584);
        assert_null(c->shapes[1 + i].name);
        assert_int_equal(c->shapes[1 + i].where.line, 14);
    }
    assert_string_equal(c->path, "t.yaml");
    config_free(c);
}

static void words_stand_for_values(void **state) {
    (void)state;
    struct config *c = parse("version: 1\nsms: all\ntile: {schedule: pingpong}\nring: {place: shared}\n"
                             "signal: {granularity: segment}\ndrain: {policy: per_tile, flush: per_tile}\n"
                             "order: segment\nm: dynamic\n");
    assert_true(c->is_set[FIELD_SMS]);
    assert_int_equal(c->value[FIELD_SMS], 0);
    assert_int_equal(c->value[FIELD_SCHEDULE], SCHEDULE_PINGPONG);
    assert_int_equal(c->value[FIELD_RING_PLACE], PLACE_SHARED);
    assert_int_equal(c->value[FIELD_GRANULARITY], GRANULARITY_SEGMENT);
    assert_false(c->is_set[FIELD_GROUP]);
    assert_int_equal(c->value[FIELD_DRAIN_POLICY], DRAIN_PER_TILE);
    assert_int_equal(c->value[FIELD_DRAIN_FLUSH], FLUSH_PER_TILE);
    assert_int_equal(c->value[FIELD_ORDER], ORDER_SEGMENT);
    assert_false(c->is_set[FIELD_LAG]);
    assert_int_equal(c->value[FIELD_M_MODE], M_DYNAMIC);
    assert_false(c->arch[ARCH_SM90A] || c->arch[ARCH_SM100A]);
    config_free(c);
    c = parse("version: 1\nsignal: {granularity: tile}\norder: {interleave: 64}\n");
    assert_int_equal(c->value[FIELD_GRANULARITY], GRANULARITY_TILE);
    assert_int_equal(c->value[FIELD_LAG], 64);
    config_free(c);
}

/* The smallest and the largest value of every number are allowed; one step beyond is not. */
static void bounds_are_inclusive(void **state) {
    (void)state;
    for (int f = 0; f < FIELD_COUNT; f++) {
        const struct field_info *info = &config_fields[f];
        if (!info->max)
            continue;
        int64_t tries[] = {info->min, info->max, info->min - info->multiple, info->max + info->multiple};
        for (int t = 0; t < 4; t++) {
            char text[256] = "version: 1\n", key[64];
            snprintf(key, sizeof key, "%s", info->key);
            int depth = 0;
            for (char *part = strtok(key, "."); part; part = strtok(NULL, "."), depth++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s: ", depth ? "{" : "", part);
            snprintf(text + strlen(text), sizeof text - strlen(text), "%lld%.*s\n", (long long)tries[t], depth - 1,
                     "}}}");
            if (f == FIELD_TILE_M && tries[t] == 256)
                snprintf(text, sizeof text, "version: 1\ntile: {m: 256, cta_group: 2}\n");
            struct config *c = NULL;
            grs_error err = {0};
            grs_status status = config_parse("t", text, strlen(text), &c, &err);
            if (status != (t < 2 ? GRS_OK : GRS_ERR_CONFIG))
                fail_msg("%s gives %s", text, err.text);
            if (c)
                assert_int_equal(c->value[f], tries[t]);
            config_free(c);
        }
    }
    struct config *c = parse(
        "version: 1\nshapes: [{m: 2147483647, n: 2147483640, k: 2147483640, tp: 64}, {m: 1, n: 8, k: 8, tp: 1}]\n");
    assert_int_equal(c->shapes[0].m, INT32_MAX);
    assert_int_equal(c->shapes[0].n, 2147483640);
    assert_int_equal(c->shapes[0].tp, 64);
    config_free(c);
}

static void byte_order_mark_and_crlf_are_fine(void **state) {
    (void)state;
    struct config *c =
        parse("\xEF\xBB\xBFversion: 1\r\n# caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\r\ntile:\r\n  m: 64\r\n");
    assert_int_equal(c->value[FIELD_TILE_M], 64);
    assert_int_equal(c->where[FIELD_TILE_M].line, 4);
    config_free(c);
    c = parse("---\nversion: 1\n...\n");
    config_free(c);
}

static void sizes_up_to_one_mebibyte(void **state) {
    (void)state;
    char *text = malloc((1 << 20) + 1);
    memset(text, '#', (1 << 20) + 1);
    memcpy(text, "version: 1\n", 11);
    struct config *c = NULL;
    grs_error err = {0};
    assert_int_equal(config_parse("big.yaml", text, 1 << 20, &c, &err), GRS_OK);
    config_free(c);
    assert_int_equal(config_parse("big.yaml", text, (1 << 20) + 1, &c, &err), GRS_ERR_CONFIG);
    assert_string_equal(err.text, "big.yaml:1:1: file: more than 1 MiB, allowed: up to 1048576 bytes");
    free(text);
}

/* A megabyte of what could make a parser slow or deep is answered at once. */
static void hostile_files_are_refused(void **state) {
    (void)state;
    static const char *const units[] = {"[",       "{",   "- ", "? ", "a: ",     "[],",
                                        "zz: 1\n", "&a ", "!",  "\"", "{a: 1},", "- 1\n"};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        struct buf text = {0};
        buf_puts(&text, "version: 1\n");
        while (text.length + strlen(units[u]) < CONFIG_MAX_BYTES)
            buf_puts(&text, units[u]);
        struct config *c = NULL;
        grs_error err = {0};
        assert_int_equal(config_parse("x", text.data, text.length, &c, &err), GRS_ERR_CONFIG);
        buf_free(&text);
    }
}

static void slot_may_be_missing(void **state) {
    (void)state;
    struct config *c = (struct config *)1;
    assert_int_equal(config_parse("x", "a", 1, &c, NULL), GRS_ERR_CONFIG);
    assert_null(c);
    config_free(NULL);
}

static void loading(void **state) {
    (void)state;
    struct config *c = (struct config *)1;
    grs_error err = {0};
    assert_int_equal(config_load("/nonexistent/x.yaml", &c, &err), GRS_ERR_IO);
    assert_null(c);
    assert_string_equal(err.text, "/nonexistent/x.yaml: cannot be opened: No such file or directory");
    assert_int_equal(config_load("/", &c, &err), GRS_ERR_IO);
    assert_string_equal(err.text, "/: cannot be read: Is a directory");
    assert_int_equal(config_load("/dev/zero", &c, &err), GRS_ERR_CONFIG);
    assert_non_null(strstr(err.text, "more than 1 MiB"));
    assert_int_equal(config_load("/dev/null", &c, &err), GRS_ERR_CONFIG);
    assert_non_null(strstr(err.text, "empty"));
    assert_int_equal(config_load(GOLDEN "/octal.yaml", &c, &err), GRS_ERR_CONFIG);
    assert_int_equal(err.line, 2);
    assert_int_equal(config_defaults(&c, &err), GRS_OK);
    assert_string_equal(c->path, "(defaults)");
    assert_int_equal(c->shape_count, 0);
    for (int f = 0; f < FIELD_COUNT; f++)
        assert_false(c->is_set[f]);
    config_free(c);
}

/* Every row of the table can be used, and its text reads back as its value. */
static void table_is_complete(void **state) {
    (void)state;
    for (int f = 0; f < FIELD_COUNT; f++) {
        const struct field_info *info = &config_fields[f];
        assert_non_null(info->key);
        assert_non_null(info->help);
        assert_true(info->choices || info->max);
        assert_true(!info->max || (info->multiple > 0 && info->min % info->multiple == 0));
        assert_int_equal(info->constant == NULL, info->plan_time);
        for (int g = 0; g < f; g++) {
            assert_string_not_equal(info->key, config_fields[g].key);
            assert_true(!info->constant || !config_fields[g].constant ||
                        strcmp(info->constant, config_fields[g].constant));
        }
        for (int i = 0; info->choices && info->choices[i]; i++) {
            struct buf b = {0};
            config_value_text((enum field)f, i, &b);
            assert_string_equal(b.data, info->choices[i]);
            buf_free(&b);
        }
    }
    struct buf b = {0};
    config_value_text(FIELD_TILE_M, 128, &b);
    buf_puts(&b, " ");
    config_value_text(FIELD_SMS, 0, &b);
    buf_puts(&b, " ");
    config_value_text(FIELD_SMS, 132, &b);
    assert_string_equal(b.data, "128 all 132");
    buf_free(&b);
    enum field owner, number;
    assert_true(config_choice_owner(FIELD_GROUP, &owner));
    assert_int_equal(owner, FIELD_GRANULARITY);
    assert_true(config_choice_field(FIELD_ORDER, ORDER_INTERLEAVE, &number));
    assert_int_equal(number, FIELD_LAG);
    assert_false(config_choice_field(FIELD_ORDER, ORDER_SEGMENT, &number));
    assert_false(config_choice_owner(FIELD_TILE_M, &owner));
}

static void archs_have_names(void **state) {
    (void)state;
    enum arch arch;
    for (int a = 0; a < ARCH_COUNT; a++) {
        assert_true(config_arch_parse(config_arch_name((enum arch)a), &arch));
        assert_int_equal(arch, a);
    }
    assert_false(config_arch_parse("sm_90", &arch));
    assert_false(config_arch_parse("", &arch));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_files_give_their_golden_error),
        cmocka_unit_test(everything_in_one_file),
        cmocka_unit_test(words_stand_for_values),
        cmocka_unit_test(bounds_are_inclusive),
        cmocka_unit_test(byte_order_mark_and_crlf_are_fine),
        cmocka_unit_test(sizes_up_to_one_mebibyte),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(slot_may_be_missing),
        cmocka_unit_test(loading),
        cmocka_unit_test(table_is_complete),
        cmocka_unit_test(archs_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
