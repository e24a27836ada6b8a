/* Faults planted on purpose: each file of tests/emu_faults/ patches the templates (or the plan) and names the verdict that emulated
 * ranks must come to. The unpatched text passes under the same seeds, and a patch that no longer applies is a failure.
 *
 *   # what is wrong, in words
 *   expect: verdict[, verdict …]      as emu_verdict_name spells them; each run that ends badly must end with one of them
 *   role: sender                      who must have noticed (optional)
 *   says: text                        what the report must hold (optional)
 *   finds: 3                          runs that must find it, of the 4 schedules' (default: all)
 *   arch: sm_100a                     (default: sm_90a)
 *   config: line of YAML              (any number)
 *   shape: N,K,tp    launches: M …    ctas: 2
 *   plan: hold_bits                   a bit is set only when ring.depth stores are in flight (policy ring, flush never)
 *   file: grs/ring.cuh                then blocks of
 *   <<<<
 *   text to look for, white space aside
 *   ====
 *   text to put there
 *   >>>>
 */
#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buf.h"
#include "generator/emit.h"
#include "tests/emu_fixture.h"
#include "tools/grsrun_trial.h"

#define FAULTS           "tests/emu_faults"
#define MAX_FAULTS       128
#define MAX_LAUNCHES     8
#define MAX_PATCHED      4
#define SCHEDULES        4
#define MAX_EXPECTATIONS 4

struct fault {
    char name[64];
    enum emu_verdict expect[MAX_EXPECTATIONS];
    int expect_count;
    char role[32], says[256];
    int finds, ctas;
    enum arch arch;
    struct buf config;
    int64_t n, k, m[MAX_LAUNCHES];
    int tp, launches;
    bool hold_bits;
    struct emu_header changed[MAX_PATCHED + 1]; /* texts are owned */
    int changed_count, patches;
};

static struct fault faults[MAX_FAULTS];
static struct CMUnitTest tests[MAX_FAULTS];
static int fault_count;

static const char *const role_names[GRS_ROLE_COUNT] = {"loader", "prefetcher", "storer", "sender", "math", "issuer"};

/* ---------------------------------------------------------------- patches */

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t';
}

/* Where `wanted` stands at or after `from`, white space aside: [*begin, *end). */
static bool find_text(const char *text, size_t from, const char *wanted, size_t *begin, size_t *end) {
    for (size_t start = from; text[start]; start++) {
        size_t i = start, j = 0;
        for (;;) {
            while (is_space(wanted[j]))
                j++;
            if (!wanted[j])
                break;
            while (i > start && is_space(text[i]))
                i++;
            if (text[i] != wanted[j])
                break;
            i++, j++;
        }
        if (!wanted[j] && i > start) {
            *begin = start, *end = i;
            return true;
        }
    }
    return false;
}

static struct emu_header *header_of(struct fault *fault, const char *name) {
    for (int i = 0; i < fault->changed_count; i++)
        if (strcmp(fault->changed[i].name, name) == 0)
            return &fault->changed[i];
    for (int i = 0; emit_headers[i].name; i++)
        if (strcmp(emit_headers[i].name, name) == 0) {
            assert_true(fault->changed_count < MAX_PATCHED);
            struct emu_header *header = &fault->changed[fault->changed_count++];
            *header = (struct emu_header){emit_headers[i].name, strdup(emit_headers[i].text)};
            return header;
        }
    fail_msg("%s: there is no template %s", fault->name, name);
    return NULL;
}

static void patch(struct fault *fault, const char *file, const char *wanted, const char *instead) {
    struct emu_header *header = header_of(fault, file);
    size_t begin, end, again, ignored;
    if (!find_text(header->text, 0, wanted, &begin, &end))
        fail_msg("%s: %s no longer holds:\n%s", fault->name, file, wanted);
    if (find_text(header->text, end, wanted, &again, &ignored))
        fail_msg("%s: %s holds more than once:\n%s", fault->name, file, wanted);
    struct buf text = {0};
    buf_append(&text, header->text, begin);
    buf_puts(&text, instead);
    buf_puts(&text, header->text + end);
    free((char *)header->text);
    header->text = buf_take(&text);
    assert_non_null(header->text);
    fault->patches++;
}

/* ---------------------------------------------------------------- files */

static void add_expectation(struct fault *fault, const char *name) {
    for (int v = 1; v < EMU_VERDICTS; v++)
        if (strcmp(emu_verdict_name((enum emu_verdict)v), name) == 0) {
            assert_true(fault->expect_count < MAX_EXPECTATIONS);
            fault->expect[fault->expect_count++] = (enum emu_verdict)v;
            return;
        }
    fail_msg("%s: no verdict is called \"%s\"", fault->name, name);
}

static void set_field(struct fault *fault, const char *key, char *value, char *file) {
    if (strcmp(key, "expect") == 0) {
        for (char *rest = value, *word = strtok_r(rest, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
            add_expectation(fault, word + strspn(word, " "));
    } else if (strcmp(key, "role") == 0) {
        snprintf(fault->role, sizeof fault->role, "%s", value);
    } else if (strcmp(key, "says") == 0) {
        snprintf(fault->says, sizeof fault->says, "%s", value);
    } else if (strcmp(key, "finds") == 0) {
        fault->finds = atoi(value);
    } else if (strcmp(key, "arch") == 0) {
        if (!config_arch_parse(value, &fault->arch))
            fail_msg("%s: no arch is called \"%s\"", fault->name, value);
    } else if (strcmp(key, "config") == 0) {
        buf_printf(&fault->config, "%s\n", value);
    } else if (strcmp(key, "shape") == 0) {
        assert_int_equal(sscanf(value, "%" SCNd64 ",%" SCNd64 ",%d", &fault->n, &fault->k, &fault->tp), 3);
    } else if (strcmp(key, "launches") == 0) {
        fault->launches = 0;
        for (char *at = value; *at && fault->launches < MAX_LAUNCHES;)
            fault->m[fault->launches++] = strtoll(at, &at, 10);
    } else if (strcmp(key, "ctas") == 0) {
        fault->ctas = atoi(value);
    } else if (strcmp(key, "plan") == 0) {
        assert_string_equal(value, "hold_bits");
        fault->hold_bits = true;
    } else if (strcmp(key, "file") == 0) {
        snprintf(file, 64, "%s", value);
    } else {
        fail_msg("%s: unknown key \"%s\"", fault->name, key);
    }
}

static void load_fault(const char *path, struct fault *fault) {
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    char line[1024], file[64] = "";
    struct buf wanted = {0}, instead = {0};
    enum { FIELDS, WANTED, INSTEAD } state = FIELDS;
    buf_puts(&fault->config, "version: 1\n");
    fault->finds = SCHEDULES, fault->ctas = 2;
    while (fgets(line, sizeof line, stream)) {
        if (strncmp(line, "<<<<", 4) == 0) {
            state = WANTED;
        } else if (strncmp(line, "====", 4) == 0) {
            state = INSTEAD;
        } else if (strncmp(line, ">>>>", 4) == 0) {
            patch(fault, file, wanted.data, instead.data ? instead.data : "");
            buf_clear(&wanted);
            buf_clear(&instead);
            state = FIELDS;
        } else if (state != FIELDS) {
            buf_puts(state == WANTED ? &wanted : &instead, line);
        } else if (line[0] != '#' && line[0] != '\n') {
            char *colon = strchr(line, ':');
            assert_non_null(colon);
            line[strcspn(line, "\n")] = 0;
            *colon = 0;
            set_field(fault, line, colon + 1 + strspn(colon + 1, " "), file);
        }
    }
    fclose(stream);
    buf_free(&wanted);
    buf_free(&instead);
    assert_true(fault->expect_count > 0 && fault->launches > 0 && fault->tp > 0);
    assert_true(fault->patches > 0 || fault->hold_bits);
}

/* ---------------------------------------------------------------- runs */

static void make_kernel(struct fault *fault, bool planted, struct trial_kernel *out) {
    grs_error err;
    struct config *config;
    if (config_parse(fault->name, fault->config.data, fault->config.length, &config, &err))
        fail_msg("%s", err.text);
    struct plan plan;
    const struct plan_shape shape = {1, 4096, fault->n, fault->k, fault->tp};
    if (plan_solve(config, fault->arch, &shape, &plan, &err))
        fail_msg("%s", err.text);
    if (planted && fault->hold_bits)
        plan.value[FIELD_DRAIN_FLUSH] = FLUSH_NEVER;
    if (trial_kernel_build(&plan, planted ? fault->changed : NULL, emu_kernel_directory(), out, &err))
        fail_msg("%s: %s", fault->name, err.text);
    config_free(config);
}

static void run(const struct fault *fault, const struct trial_kernel *kernel, enum emu_schedule schedule,
                struct trial_result *out) {
    grs_error err;
    struct trial_launch launches[MAX_LAUNCHES];
    for (int i = 0; i < fault->launches; i++)
        launches[i] = (struct trial_launch){
            .kernel = kernel, .m = fault->m[i], .seed = (uint64_t)i, .mode = i % 2 ? VALUES_RANDOM : VALUES_EXACT};
    const struct emu_group_options options = {
        .ranks = fault->tp, .ctas = fault->ctas, .schedule = schedule, .seed = 1, .max_steps = 20000000};
    if (trial_run(&options, launches, fault->launches, out, &err))
        fail_msg("%s: %s", fault->name, err.text);
    free(out->verdict);
    out->verdict = NULL;
}

/* The unpatched text under every schedule; faults that share config, shape and launches share these runs. */
static void check_right(struct fault *fault) {
    static struct trial_result result; /* large */
    static struct buf done;
    struct buf key = {0};
    buf_printf(&key, "\n%s %d %" PRId64 " %" PRId64 " %d %d", fault->config.data, fault->arch, fault->n, fault->k,
               fault->tp, fault->ctas);
    for (int i = 0; i < fault->launches; i++)
        buf_printf(&key, " %" PRId64, fault->m[i]);
    buf_puts(&key, ";");
    if (!done.data || !strstr(done.data, key.data)) {
        struct trial_kernel kernel;
        make_kernel(fault, false, &kernel);
        for (int schedule = 0; schedule < SCHEDULES; schedule++) {
            run(fault, &kernel, (enum emu_schedule)schedule, &result);
            if (result.report.verdict != EMU_PASSED)
                fail_msg("%s, schedule %d: the unpatched text: %s\n%s", fault->name, schedule,
                         emu_verdict_name(result.report.verdict), result.report.text);
        }
        trial_kernel_free(&kernel);
        buf_puts(&done, key.data);
    }
    buf_free(&key);
}

static bool is_expected(const struct fault *fault, const struct emu_report *report) {
    bool found = false;
    for (int i = 0; i < fault->expect_count; i++)
        found = found || fault->expect[i] == report->verdict;
    if (fault->role[0])
        found = found && report->role >= 0 && strcmp(role_names[report->role], fault->role) == 0;
    return found && (!fault->says[0] || strstr(report->text, fault->says));
}

/* Length of the first lines of a text. */
static int first_lines(const char *text, int lines) {
    size_t length = 0;
    for (int i = 0; i < lines && text[length]; i++)
        length += strcspn(text + length, "\n") + 1;
    return (int)(length ? length - 1 : 0);
}

static void fault_is_found(void **state) {
    static struct trial_result result; /* large */
    struct fault *fault = *state;
    char path[256];
    snprintf(path, sizeof path, FAULTS "/%s", fault->name);
    load_fault(path, fault);
    check_right(fault);
    struct trial_kernel wrong;
    make_kernel(fault, true, &wrong);
    int found = 0;
    for (int schedule = 0; schedule < SCHEDULES; schedule++) {
        run(fault, &wrong, (enum emu_schedule)schedule, &result);
        const struct emu_report *report = &result.report;
        if (report->verdict == EMU_PASSED)
            continue;
        if (!is_expected(fault, report))
            fail_msg("%s, schedule %d: %s\n%s", fault->name, schedule, emu_verdict_name(report->verdict), report->text);
        if (found++ == 0)
            print_message("%s\n    %.*s\n", emu_verdict_name(report->verdict), first_lines(report->text, 2),
                          report->text);
    }
    if (found < fault->finds)
        fail_msg("%s: found under %d of %d schedules; at least %d are asked for", fault->name, found, SCHEDULES,
                 fault->finds);
    trial_kernel_free(&wrong);
    for (int i = 0; i < fault->changed_count; i++)
        free((char *)fault->changed[i].text);
    buf_free(&fault->config);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct fault *)a)->name, ((const struct fault *)b)->name);
}

int main(int argc, char **argv) {
    EMU_RETURN_IF_UNWATCHABLE();
    DIR *directory = opendir(FAULTS);
    if (!directory) {
        fprintf(stderr, "%s cannot be read; run the tests from the repository's root\n", FAULTS);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(directory)) && fault_count < MAX_FAULTS;)
        if (entry->d_name[0] != '.' && (argc < 2 || strstr(entry->d_name, argv[1])))
            snprintf(faults[fault_count++].name, sizeof faults->name, "%.63s", entry->d_name);
    closedir(directory);
    qsort(faults, (size_t)fault_count, sizeof *faults, by_name);
    for (int i = 0; i < fault_count; i++)
        tests[i] =
            (struct CMUnitTest){.name = faults[i].name, .test_func = fault_is_found, .initial_state = &faults[i]};
    return _cmocka_run_group_tests("faults", tests, (size_t)fault_count, NULL, NULL);
}
