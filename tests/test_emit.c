/* The generated text: golden (tests/golden/emit), the same from run to run and under any locale, and whole as one file.
 * GRS_UPDATE_GOLDEN=1 build/tests/test_emit writes the golden texts anew. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "generator/emit.h"
#include "generator/plan_explain.h"
#include "tests/emit_cases.h"
#include "tests/golden.h"

#define GOLDEN "tests/golden/emit"

static struct buf entry_of(const struct plan *plan) {
    struct buf text = {0};
    assert_int_equal(emit_entry(plan, &text, NULL), GRS_OK);
    return text;
}

static struct buf standalone_of(const struct plan *plan) {
    struct buf text = {0};
    assert_int_equal(emit_standalone(plan, NULL, &text, NULL), GRS_OK);
    return text;
}

static void entries_are_golden(void **state) {
    (void)state;
    int different = 0;
    for (int i = 0; i < EMIT_CASES; i++) {
        struct plan plan = emit_case_plan(&emit_cases[i]);
        struct buf got = entry_of(&plan);
        char path[256];
        snprintf(path, sizeof path, GOLDEN "/%s.cu", emit_cases[i].name);
        different += !golden_matches(path, &got);
        buf_free(&got);
    }
    assert_int_equal(different, 0);
}

/* ---------------------------------------------------------------- the same under any locale */

/* Everything that is written of every case, one after the other. */
static struct buf everything(void) {
    struct buf all = {0};
    for (int i = 0; i < EMIT_CASES; i++) {
        struct plan plan = emit_case_plan(&emit_cases[i]);
        struct buf entry = entry_of(&plan);
        char hex[65];
        emit_digest(&plan, &entry, hex);
        buf_puts(&all, entry.data);
        buf_puts(&all, hex);
        assert_int_equal(emit_standalone(&plan, NULL, &all, NULL), GRS_OK);
        plan_canonical(&plan, &all);
        plan_explain(&plan, plan.shape.m_min, 0, &all);
        json_t *object = json_object();
        assert_true(plan_explain_json(&plan, plan.shape.m_min, 0, object));
        char *json = json_dumps(object, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(10));
        assert_non_null(json);
        buf_puts(&all, json);
        free(json);
        json_decref(object);
        buf_free(&entry);
    }
    assert_false(all.failed);
    return all;
}

static void the_same_from_run_to_run(void **state) {
    (void)state;
    struct buf first = everything(), second = everything();
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
    buf_free(&first);
    buf_free(&second);
}

static void the_same_under_a_locale_with_decimal_commas(void **state) {
    (void)state;
    char directory[] = "/tmp/grs-test-locale-XXXXXX", command[512];
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", directory);
    int made = system(command);
    setenv("LOCPATH", directory, 1);
    const char *taken = made == 0 ? setlocale(LC_ALL, "de_DE.UTF-8") : NULL;
    struct buf there = {0}, here = {0};
    char number[16] = "";
    if (taken) {
        snprintf(number, sizeof number, "%.1f", 1.5);
        there = everything();
    }
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    assert_int_equal(system(command), 0);
    if (!taken) {
        print_message("SKIP: localedef cannot make a locale with decimal commas (package locales)\n");
        skip();
    }
    assert_string_equal(number, "1,5"); /* the locale was in force */
    here = everything();
    assert_int_equal(here.length, there.length);
    assert_memory_equal(here.data, there.data, here.length);
    buf_free(&here);
    buf_free(&there);
}

/* ---------------------------------------------------------------- what the text depends on */

static void digests_tell_kernels_apart(void **state) {
    (void)state;
    char hex[EMIT_CASES + 2][65];
    struct plan plan;
    for (int i = 0; i <= EMIT_CASES + 1; i++) {
        plan = emit_case_plan(&emit_cases[i < EMIT_CASES ? i : 0]);
        plan.stall_hook = i == EMIT_CASES;  /* the test hook is another kernel */
        plan.raster += i == EMIT_CASES + 1; /* so is any number               */
        struct buf entry = entry_of(&plan);
        emit_digest(&plan, &entry, hex[i]);
        assert_int_equal(strspn(hex[i], "0123456789abcdef"), 64);
        for (int other = 0; other < i; other++)
            assert_string_not_equal(hex[i], hex[other]);
        buf_free(&entry);
    }
    /* The digest covers each byte of the entry and its length. */
    struct buf entry = entry_of(&plan);
    char whole[65], other[65];
    emit_digest(&plan, &entry, whole);
    entry.data[entry.length / 2] ^= 1;
    emit_digest(&plan, &entry, other);
    assert_string_not_equal(whole, other);
    entry.data[entry.length / 2] ^= 1;
    entry.length--;
    emit_digest(&plan, &entry, other);
    assert_string_not_equal(whole, other);
    buf_free(&entry);
}

/* Where the rank's SMs or its link are known, another plan may follow, but the numbers themselves are not in the kernel. */
static void plan_time_values_are_not_in_the_text(void **state) {
    (void)state;
    struct emit_case a = emit_cases[0], b = emit_cases[0];
    struct buf yaml = {0};
    buf_printf(&yaml, "sms: 100\nlink_gbps: 100\nm: dynamic\n%s", a.yaml);
    b.yaml = yaml.data;
    struct plan one = emit_case_plan(&a), two = emit_case_plan(&b);
    struct buf first = standalone_of(&one), second = standalone_of(&two);
    assert_string_equal(first.data, second.data);
    buf_free(&first);
    buf_free(&second);
    buf_free(&yaml);
}

/* ---------------------------------------------------------------- one file */

static int occurrences(const char *text, const char *what) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        count++;
    return count;
}

/* Characters outside comments, strings and character constants. */
static int count_in_code(const char *text, char wanted) {
    int count = 0;
    for (const char *at = text; *at; at++) {
        if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n") - 1;
        else if (at[0] == '/' && at[1] == '*')
            at = strstr(at + 2, "*/") + 1;
        else if (*at == '"')
            for (at++; *at != '"'; at++)
                at += *at == '\\';
        else
            count += *at == wanted;
    }
    return count;
}

/* Headers that a file reaches through includes, itself excluded. */
static void reach(const char *text, bool *reached) {
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        for (int i = 0; emit_headers[i].name; i++) {
            char include[128];
            snprintf(include, sizeof include, "#include \"%s\"", emit_headers[i].name);
            if (!strncmp(line, include, strlen(include)) && !reached[i]) {
                reached[i] = true;
                reach(emit_headers[i].text, reached);
            }
        }
    }
}

static void one_file_holds_each_template_once(void **state) {
    (void)state;
    for (int i = 0; i < EMIT_CASES; i++) {
        struct plan plan = emit_case_plan(&emit_cases[i]);
        struct buf entry = entry_of(&plan), text = standalone_of(&plan);
        bool reached[64] = {0};
        int count = 0;
        reach(entry.data, reached);
        for (int h = 0; emit_headers[h].name; h++) {
            char mark[128];
            assert_true(h < 64);
            snprintf(mark, sizeof mark, "// ---- %s\n", emit_headers[h].name);
            assert_int_equal(occurrences(text.data, mark), reached[h]);
            count += reached[h];
        }
        assert_true(count >= 8);
        assert_int_equal(occurrences(text.data, "#include \"grs/"), 0);
        assert_int_equal(occurrences(text.data, "#pragma once"), 0);
        assert_int_equal(strlen(text.data), text.length);
        /* It needs no toolkit: the two headers of the C language, which NVRTC does not see. */
        assert_int_equal(occurrences(text.data, "#include"),
                         occurrences(text.data, "#include <stddef.h>") + occurrences(text.data, "#include <stdint.h>"));
        assert_int_equal(count_in_code(text.data, '{'), count_in_code(text.data, '}'));
        assert_int_equal(count_in_code(text.data, '('), count_in_code(text.data, ')'));
        /* The comment and one kernel bear the name, and everything after the templates is the entry's. */
        assert_int_equal(occurrences(text.data, plan.name), 2);
        assert_memory_equal(text.data, "// grs_gemm_rs_", 15);
        const char *config = strstr(entry.data, "struct Config {");
        assert_non_null(config);
        assert_string_equal(text.data + text.length - strlen(config), config);
        buf_free(&entry);
        buf_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_golden),
        cmocka_unit_test(the_same_from_run_to_run),
        cmocka_unit_test(the_same_under_a_locale_with_decimal_commas),
        cmocka_unit_test(digests_tell_kernels_apart),
        cmocka_unit_test(plan_time_values_are_not_in_the_text),
        cmocka_unit_test(one_file_holds_each_template_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
