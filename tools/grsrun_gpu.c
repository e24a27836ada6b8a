#include "tools/grsrun_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "tools/grsrun_inside.h"
#include "tools/grsrun_session.h"
#include "tools/grsrun_svg.h"
#include "tools/grsrun_verify.h"

int gpu_count(grs_error *err) {
    int count = 0;
    const struct driver *drv = driver_get(err);
    if (!drv) {
        return 0;
    }
    CUresult result = drv->cuDeviceGetCount(&count);
    if (result) {
        driver_error(drv, err, result, "cuDeviceGetCount");
        return 0;
    }
    if (count == 0) {
        error_set(err, GRS_ERR_DRIVER, "the driver sees no GPU (is CUDA_VISIBLE_DEVICES empty?)");
    }
    return count;
}

const char *const gpu_driver_paths[] = {"/sys/module/nvidia/version", "/proc/driver/nvidia/version", NULL};

/* The first text like 580.95.05 of the file. */
bool gpu_driver_version(const char *const *paths, char out[32]) {
    for (int i = 0; paths[i]; i++) {
        FILE *file = fopen(paths[i], "r");
        char line[512] = "";
        bool read = file && fgets(line, sizeof(line), file);
        if (file) {
            fclose(file);
        }
        for (const char *word = read ? strtok(line, " \t\n") : NULL; word; word = strtok(NULL, " \t\n")) {
            size_t length = strspn(word, "0123456789.");
            if (length == strlen(word) && length < 32 && strchr(word, '.')) {
                memcpy(out, word, length + 1);
                return true;
            }
        }
    }
    return false;
}

/* Both modes of one shape, in one of the rounds; the rows are shown with the last, or with the first that goes wrong. */
static grs_status verify(struct session *session, size_t index, int round, const grs_kernel *kernel, grs_error *err) {
    grs_status status = GRS_OK;
    for (int mode = VALUES_EXACT; mode <= VALUES_RANDOM && !status; mode++) {
        struct verify_row *row = &session->verify_rows[2 * index + (size_t)mode];
        struct buf notes = {0}, text = {0};
        if (round == 0) {
            verify_begin(&session->team, kernel, &session->options->shapes[index], (enum values_mode)mode, row);
            session->verify_count++;
        }
        bool was_right = row->passed;
        status = verify_round(&session->team, kernel, (enum values_mode)mode, row, &notes, err);
        session->wrong |= !row->passed && !status;
        if (!status && (round + 1 == session->options->rounds || (was_right && !row->passed))) {
            report_verify_text(row, &text);
        }
        session_show(session, &text);
        session_note(NULL, &notes);
    }
    return status;
}

/* With --waits and --skew: the kernel once more, with counters and stamps. */
static grs_status get_counting(struct session *session, const struct grsrun_shape *shape, const grs_kernel **out,
                               grs_error *err) {
    struct wanted wanted = {.config = session->ctx->config, .shape = *shape, .count_waits = true};
    grs_status status = wanted_get(session->ctx, &wanted, 1, err);
    *out = wanted.kernel;
    if (!status && !wanted.kernel) {
        *err = *wanted.error;
        status = err->status;
    }
    wanted_free(&wanted, 1);
    return status;
}

static grs_status bench(struct session *session, const struct grsrun_shape *shape, const grs_kernel *kernel,
                        grs_error *err) {
    struct bench_row *rows = &session->bench_rows[session->bench_count];
    struct buf notes = {0}, text = {0};
    const grs_kernel *counting = NULL;
    bool correct;
    grs_status status =
        session->options->waits || session->options->skew ? get_counting(session, shape, &counting, err) : GRS_OK;
    status =
        status ? status
               : bench_shape(&session->team, kernel, counting, shape, &session->baselines, rows, &correct, &notes, err);
    if (!status) {
        session->bench_count += BENCH_ROWS;
        session->wrong |= !correct;
        for (int i = 0; i < BENCH_ROWS; i++) {
            report_bench_text(&rows[i], &text);
        }
    }
    session_show(session, &text);
    session_note(shape, &notes);
    return status;
}

static grs_status ablate(struct session *session, const struct grsrun_shape *shape, grs_error *err) {
    struct ablate_row *rows = &session->ablate_rows[session->ablate_count];
    struct buf notes = {0}, text = {0};
    size_t count;
    bool correct;
    grs_status status =
        ablate_shape(session->ctx, &session->team, shape, &session->baselines, rows, &count, &correct, &notes, err);
    if (!status) {
        session->ablate_count += count;
        session->wrong |= !correct;
        ablate_text(rows, count, &text);
    }
    session_show(session, &text);
    session_note(shape, &notes);
    return status;
}

/* The tables' heads before the first row; JSON, the chart and the last word after the last. */
static void describe_machine(const struct session *session, struct report_head *head, char driver[32], char cuda[16]) {
    int version = session->drv->version;
    snprintf(cuda, 16, "%d.%d", version / 1000, version % 1000 / 10);
    *head = (struct report_head){.kind = session->options->bench    ? "bench"
                                         : session->options->ablate ? "ablation"
                                                                    : "verify",
                                 .gpu = session->devices[0].name,
                                 .driver = gpu_driver_version(gpu_driver_paths, driver) ? driver : NULL,
                                 .cuda = cuda};
}

static json_t *rows_json(const struct session *session) {
    if (session->options->ablate) {
        return ablate_json(session->ablate_rows, session->ablate_count);
    }
    return session->options->bench ? report_bench_json(session->bench_rows, session->bench_count)
                                   : report_verify_json(session->verify_rows, session->verify_count);
}

static grs_status write_chart(const struct session *session, grs_error *err) {
    struct buf text = {0};
    if (session->options->ablate) {
        ablate_draw(session->ablate_rows, session->ablate_count, &text);
    } else {
        svg_draw(session->bench_rows, session->bench_count, &text);
    }
    grs_status status = report_save(session->options->svg_path, &text, err);
    buf_free(&text);
    return status;
}

/* JSON to standard output, JSON and chart to files, as asked for. Files are what is kept: only of a run that went through
 * and whose results are right. */
static grs_status write_results(const struct session *session, const struct report_head *head, bool keep,
                                grs_error *err) {
    const struct grsrun_options *options = session->options;
    struct buf text = {0};
    grs_status status = GRS_OK;
    if (options->json || options->save_path) {
        json_t *object = report_object(head, rows_json(session));
        status = report_dump(object, &text, err);
        json_decref(object);
    }
    if (!status && options->json && (fputs(text.data, stdout) == EOF || fflush(stdout))) {
        status = error_set(err, GRS_ERR_IO, "standard output: the JSON could not be written");
    }
    if (!status && keep && options->save_path) {
        status = report_save(options->save_path, &text, err);
    }
    buf_free(&text);
    return !status && keep && options->svg_path ? write_chart(session, err) : status;
}

/* The shape's kernel, and memory for its M. */
static grs_status prepare(struct session *session, const struct grsrun_shape *shape, const grs_kernel **kernel,
                          grs_error *err) {
    grs_status status = grs_ctx_get(session->ctx, shape->m, shape->n, shape->k, shape->tp, kernel, err);
    return status ? status
                  : grs_comm_prepare(session->team.comms[0], *kernel, inside_max_m(session->options, *kernel, shape->m),
                                     err);
}

static grs_status run_shape(struct session *session, size_t index, int round, grs_error *err) {
    const struct grsrun_options *options = session->options;
    const struct grsrun_shape *shape = &options->shapes[index];
    const grs_kernel *kernel = NULL;
    grs_status status = session_join(session, shape->tp, err);
    if (options->verify || options->bench) {
        status = status ? status : prepare(session, shape, &kernel, err);
    }
    if (options->verify) {
        status = status ? status : verify(session, index, round, kernel, err);
    }
    if (options->bench) {
        status = status ? status : bench(session, shape, kernel, err);
    }
    if (options->ablate) {
        status = status ? status : ablate(session, shape, err);
    }
    if (status) {
        error_prepend(err, "%" PRId64 ",%" PRId64 ",%" PRId64 " tp %d", shape->m, shape->n, shape->k, shape->tp);
    }
    return status;
}

static grs_status run_shapes(struct session *session, grs_error *err) {
    grs_status status = GRS_OK;
    for (int round = 0; round < session->options->rounds; round++) {
        for (size_t i = 0; i < session->options->shape_count && !status; i++) {
            status = run_shape(session, i, round, err);
        }
    }
    return status;
}

int grsrun_exit_code(grs_status status) {
    switch (status) {
    case GRS_OK: return GRSRUN_OK;
    case GRS_ERR_ARGUMENT:
    case GRS_ERR_CONFIG:
    case GRS_ERR_PLAN:
    case GRS_ERR_UNSUPPORTED: return GRSRUN_USAGE;
    default: return GRSRUN_FAILED;
    }
}

int grsrun_gpu_main(const struct grsrun_options *options) {
    struct session session = {.options = options};
    struct report_head head;
    struct buf text = {0}, notes = {0};
    char driver[32], cuda[16];
    grs_error err;
    int visible = gpu_count(&err);
    grs_status status = visible ? session_open(&session, visible, &err) : GRS_ERR_DRIVER;
    if (!status) {
        describe_machine(&session, &head, driver, cuda);
        report_origin(&head, &text);
        if (options->verify) {
            report_verify_head(&text);
        }
        if (options->bench) {
            report_bench_head(&text);
        }
        if (options->ablate) {
            ablate_head(&text);
        }
        if (options->bench || options->ablate) {
            baselines_open(&session.baselines, &notes);
        }
        session_show(&session, &text);
        session_note(NULL, &notes);
        status = run_shapes(&session, &err);
        grs_error later; /* only the first failure is reported */
        grs_status written = write_results(&session, &head, !status && !session.wrong, status ? &later : &err);
        status = status ? status : written;
    }
    if (status) {
        fprintf(stderr, "grsrun: %s\n", err.text);
    } else if (session.wrong) {
        fprintf(stderr, "grsrun: FAILED: a result is wrong; see above\n");
    }
    session_close(&session);
    return status ? grsrun_exit_code(status) : session.wrong ? GRSRUN_FAILED : GRSRUN_OK;
}
