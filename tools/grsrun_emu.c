/* grsrun --backend emu: every shape on emulated ranks. A run is a group of ranks on which launches with exact and with random
 * operands alternate, so that mask, credits and slots are used again; each run has a seed of its own. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "common/error.h"
#include "generator/emit.h"
#include "tools/grsrun_report.h"
#include "tools/grsrun_trial.h"

#define KINDS 2 /* of operands: exact, random */

static const char *const schedule_names[] = {"random", "eager", "lazy", "adversarial"};
_Static_assert((int)EMU_RANDOM == (int)EMU_SCHEDULE_RANDOM && (int)EMU_EAGER == (int)EMU_SCHEDULE_EAGER &&
                   (int)EMU_LAZY == (int)EMU_SCHEDULE_LAZY && (int)EMU_ADVERSARIAL == (int)EMU_SCHEDULE_ADVERSARIAL,
               "the command line's schedules are the emulator's");

struct session {
    const struct grsrun_options *options;
    enum arch arch;
    char *directory;            /* keeps compiled kernels; NULL: nowhere */
    struct emu_header *changed; /* templates read from $GRS_EMU_TEMPLATES; NULL: the embedded ones */
    struct verify_row *rows;
    size_t row_count;
    bool wrong;
};

static void show(const struct session *session, struct buf *text) {
    if (!session->options->json && text->data)
        fputs(text->data, stdout);
    fflush(stdout);
    buf_free(text);
}

/* Beside the kernels that were compiled for GPUs, where there is such a place. */
static grs_status find_directory(struct session *session, grs_error *err) {
    struct cache_options options = {0};
    struct log silent = {0};
    struct cache *cache;
    struct buf path = {0};
    options.log = &silent;
    grs_status status = cache_open(&options, &cache, err);
    if (status)
        return status;
    const char *directory = cache_dir(cache, NULL);
    if (directory) {
        buf_printf(&path, "%s/emu", directory);
        session->directory = buf_take(&path);
        if (!session->directory)
            status = error_set(err, GRS_ERR_MEMORY, "no memory for a path");
    }
    cache_close(cache);
    return status;
}

static char *read_text(const char *path) {
    struct buf text = {0};
    char piece[4096];
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;)
        buf_append(&text, piece, n);
    fclose(file);
    return buf_take(&text);
}

/* For work on templates: those that lie in the directory $GRS_EMU_TEMPLATES are taken from there instead of from this program. */
static grs_status read_templates(struct session *session, grs_error *err) {
    const char *directory = getenv("GRS_EMU_TEMPLATES");
    size_t count = 0, used = 0;
    if (!directory || !*directory)
        return GRS_OK;
    while (emit_headers[count].name)
        count++;
    session->changed = calloc(count + 1, sizeof *session->changed);
    if (!session->changed)
        return error_set(err, GRS_ERR_MEMORY, "no memory for %zu templates", count);
    for (size_t i = 0; i < count; i++) {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", directory, strrchr(emit_headers[i].name, '/') + 1);
        /* The emulator's own stand-ins are not to be replaced. */
        bool is_ours = strstr(emit_headers[i].name, "/ptx.cuh") || strstr(emit_headers[i].name, "/mma_");
        char *text = path.failed || is_ours ? NULL : read_text(path.data);
        buf_free(&path);
        if (text)
            session->changed[used++] = (struct emu_header){emit_headers[i].name, text};
    }
    return used ? GRS_OK : error_set(err, GRS_ERR_ARGUMENT, "GRS_EMU_TEMPLATES: %s holds no template", directory);
}

static void free_templates(struct session *session) {
    for (int i = 0; session->changed && session->changed[i].name; i++)
        free((char *)session->changed[i].text);
    free(session->changed);
}

static grs_status check_options(const struct grsrun_options *options, grs_error *err) {
    if (options->bench)
        return error_set(err, GRS_ERR_ARGUMENT, "--bench: emulated ranks have no time to measure; allowed: --verify");
    if (options->graph)
        return error_set(err, GRS_ERR_ARGUMENT, "--graph: emulated ranks have no graphs to capture");
    return GRS_OK;
}

/* Elements between rows beyond the row itself. */
static grs_status pad_of(const struct grsrun_stride *stride, int64_t row, const char *name, int64_t *out,
                         grs_error *err) {
    *out = grsrun_leading(stride, row) - row;
    return *out >= 0
               ? GRS_OK
               : error_set(err, GRS_ERR_ARGUMENT, "--%s: %" PRId64 "; allowed: at least the row's %" PRId64 " elements",
                           name, *out + row, row);
}

/* The command that repeats one run. */
static void replay_text(const struct session *session, const struct grsrun_shape *shape, uint64_t seed,
                        struct buf *out) {
    const struct grsrun_options *o = session->options;
    buf_printf(out,
               "grsrun --backend emu --shape %" PRId64 ",%" PRId64 ",%" PRId64
               " --tp %d --ctas %d --schedule %s --seed %" PRIu64,
               shape->m, shape->n, shape->k, shape->tp, o->ctas, schedule_names[o->schedule], seed);
    if (session->arch != ARCH_SM90A)
        buf_printf(out, " --arch %s", config_arch_name(session->arch));
    if (o->config_path)
        buf_printf(out, " --config %s", o->config_path);
    if (o->repeat != 2)
        buf_printf(out, " --repeat %d", o->repeat);
    if (o->ranks_per_gpu > 1)
        buf_printf(out, " --ranks-per-gpu %d", o->ranks_per_gpu);
    const struct {
        const char *name;
        const struct grsrun_stride *stride;
    } strides[] = {{"lda", &o->lda}, {"ldb", &o->ldb}, {"ldd", &o->ldd}};
    for (int i = 0; i < 3; i++)
        if (strides[i].stride->value)
            buf_printf(out, " --%s %s%" PRId64, strides[i].name, strides[i].stride->is_absolute ? "" : "+",
                       strides[i].stride->value);
}

/* What each rank kept and received, over all launches of a run. */
static void ranks_text(const struct trial_kernel *kernel, const struct grsrun_shape *shape,
                       const struct trial_result *result, int launches, struct buf *out) {
    for (int rank = 0; rank < shape->tp; rank++) {
        int64_t kept = plan_segment_rows_of(&kernel->plan, shape->m, rank);
        buf_printf(out, "# rank %d: received %" PRIu64 " partials, %" PRIu64 " bytes, from rank %d in %d launches; ",
                   rank, result->report.received[rank].partials, result->report.received[rank].bytes,
                   (rank + 1) % shape->tp, launches);
        if (kept)
            buf_printf(out, "its %" PRId64 " rows of D are right\n", kept);
        else
            buf_puts(out, "it keeps no row\n");
    }
}

static void count_launch(const struct trial_launch *launch, const struct values_verdict *verdict,
                         struct verify_row *row) {
    const struct plan_shape *s = &launch->kernel->plan.shape;
    row->launches++;
    row->elements += (uint64_t)(launch->m * s->n);
    row->mismatches += verdict->mismatches;
    row->rel_err = fmax(row->rel_err, values_rel_err(verdict));
    row->metric = fmax(row->metric, values_metric(verdict));
}

static grs_status one_run(struct session *session, const struct grsrun_shape *shape, const struct trial_kernel *kernel,
                          uint64_t seed, bool describe, struct verify_row *rows, grs_error *err) {
    const struct grsrun_options *o = session->options;
    int count = KINDS * o->repeat;
    struct trial_launch *launches = calloc((size_t)count, sizeof *launches);
    struct trial_result result = {0};
    struct trial_launch model = {.kernel = kernel, .m = shape->m};
    grs_status status = launches ? GRS_OK : error_set(err, GRS_ERR_MEMORY, "no memory for %d launches", count);
    status = status ? status : pad_of(&o->lda, shape->k, "lda", &model.pad_a, err);
    status = status ? status : pad_of(&o->ldb, shape->k, "ldb", &model.pad_b, err);
    status = status ? status : pad_of(&o->ldd, shape->n, "ldd", &model.pad_d, err);
    for (int i = 0; i < count && !status; i++) {
        launches[i] = model;
        launches[i].mode = i % KINDS == 0 ? VALUES_EXACT : VALUES_RANDOM;
        launches[i].seed = values_mix(seed + (uint64_t)(i % KINDS));
    }
    const struct emu_group_options group = {.ranks = shape->tp,
                                            .ctas = o->ctas,
                                            .ranks_per_grid = o->ranks_per_gpu,
                                            .schedule = (enum emu_schedule)o->schedule,
                                            .seed = seed};
    status = status ? status : trial_run(&group, launches, count, &result, err);
    for (int i = 0; i < count && !status; i++)
        count_launch(&launches[i], &result.verdict[i], &rows[i % KINDS]);
    if (!status && result.report.verdict != EMU_PASSED) {
        struct buf replay = {0};
        replay_text(session, shape, seed, &replay);
        fprintf(stderr, "grsrun: emulated ranks: %s\n%s# replay: %s\n", emu_verdict_name(result.report.verdict),
                result.report.text, replay.data ? replay.data : "");
        buf_free(&replay);
        session->wrong = true;
        rows[0].passed = rows[1].passed = false;
    } else if (!status && describe) {
        struct buf text = {0};
        ranks_text(kernel, shape, &result, count, &text);
        show(session, &text);
    }
    free(result.verdict);
    free(launches);
    return status;
}

static grs_status run_shape(struct session *session, const struct grsrun_shape *shape, grs_error *err) {
    const struct grsrun_options *o = session->options;
    struct trial_kernel kernel;
    struct verify_row *rows = &session->rows[session->row_count];
    grs_status status = trial_kernel_make(o->config, session->arch, shape->m, shape->n, shape->k, shape->tp,
                                          session->changed, session->directory, &kernel, err);
    if (status)
        return status;
    if (o->ctas > kernel.plan.max_grid) { /* the wait graph was not asked: a circle would be no fault of the kernel */
        status = error_set(err, GRS_ERR_PLAN, "--ctas: %d; %s is planned for at most %d a rank (sms); allowed: 1 to %d",
                           o->ctas, kernel.plan.name, kernel.plan.max_grid, kernel.plan.max_grid);
        trial_kernel_free(&kernel);
        return status;
    }
    for (int i = 0; i < KINDS; i++)
        rows[i] = (struct verify_row){.shape = *shape,
                                      .ranks_per_gpu = o->ranks_per_gpu ? o->ranks_per_gpu : 1,
                                      .sms = o->ctas,
                                      .mode = i == 0 ? "exact" : "random",
                                      .data_sets = o->runs,
                                      .worst = NAN,
                                      .pace_gbps = NAN,
                                      .repeats_equal = true,
                                      .surroundings_intact = true,
                                      .passed = true};
    for (int run = 0; run < o->runs && !status && rows[0].passed; run++)
        status = one_run(session, shape, &kernel, o->seed + (uint64_t)run, run + 1 == o->runs, rows, err);
    trial_kernel_free(&kernel);
    if (status)
        return status;
    session->row_count += KINDS;
    struct buf text = {0};
    for (int i = 0; i < KINDS; i++)
        report_verify_text(&rows[i], &text);
    show(session, &text);
    return GRS_OK;
}

static grs_status write_json(const struct session *session, grs_error *err) {
    const struct grsrun_options *o = session->options;
    struct report_head head = {.kind = "verify", .gpu = "emulated"};
    struct buf text = {0};
    json_t *object = report_object(&head, report_verify_json(session->rows, session->row_count));
    grs_status status = report_dump(object, &text, err);
    json_decref(object);
    if (!status && o->json && (fputs(text.data, stdout) == EOF || fflush(stdout)))
        status = error_set(err, GRS_ERR_IO, "standard output: the JSON could not be written");
    if (!status && o->save_path && !session->wrong)
        status = report_save(o->save_path, &text, err);
    buf_free(&text);
    return status;
}

/* As for GPUs, but that there is none to ask: the option or environment, else the first that the config lists, else sm_90a. */
static grs_status choose_arch(const struct grsrun_options *options, enum arch *out, grs_error *err) {
    const char *named = getenv("GRS_ARCH");
    if (options->has_arch) {
        *out = options->arch;
    } else if (named && *named) {
        struct buf allowed = {0};
        if (config_arch_parse(named, out))
            return GRS_OK;
        config_archs_text(ARCH_COUNT, &allowed);
        error_set(err, GRS_ERR_ARGUMENT, "GRS_ARCH: %s; allowed: %s", named, allowed.failed ? "" : allowed.data);
        buf_free(&allowed);
        return GRS_ERR_ARGUMENT;
    } else {
        int arch = 0;
        while (arch < ARCH_COUNT && !options->config->arch[arch])
            arch++;
        *out = arch < ARCH_COUNT ? (enum arch)arch : ARCH_SM90A;
    }
    return GRS_OK;
}

int grsrun_emu_main(const struct grsrun_options *options) {
    struct session session = {.options = options};
    struct buf text = {0};
    grs_error err;
    grs_status status = check_options(options, &err);
    status = status ? status : choose_arch(options, &session.arch, &err);
    status = status ? status : find_directory(&session, &err);
    status = status ? status : read_templates(&session, &err);
    session.rows = calloc(options->shape_count * KINDS, sizeof *session.rows);
    if (!status && !session.rows)
        status = error_set(&err, GRS_ERR_MEMORY, "no memory for the results of %zu shapes", options->shape_count);
    if (!status) {
        buf_printf(&text, "# emulated ranks (%s), schedule %s, %d CTAs a rank, seed %" PRIu64 "%s, grs %s\n",
                   config_arch_name(session.arch), schedule_names[options->schedule], options->ctas, options->seed,
                   options->runs > 1 ? " and the ones after it" : "", grs_version());
        buf_puts(&text, "# D is compared bit for bit with the ring computed on the host\n");
        report_verify_head(&text);
        show(&session, &text);
    }
    for (size_t i = 0; i < options->shape_count && !status && !session.wrong; i++)
        status = run_shape(&session, &options->shapes[i], &err);
    if (!status && (options->json || options->save_path))
        status = write_json(&session, &err);
    if (status)
        fprintf(stderr, "grsrun: %s\n", err.text);
    free(session.rows);
    free(session.directory);
    free_templates(&session);
    return status ? grsrun_exit_code(status) : session.wrong ? GRSRUN_FAILED : GRSRUN_OK;
}
