#include "tools/grsrun_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "tools/grsrun_bench.h"
#include "tools/grsrun_helpers.h"
#include "tools/grsrun_inside.h"
#include "tools/grsrun_svg.h"
#include "tools/grsrun_verify.h"
#include "tools/grsrun_zones.h"

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

/* One run of the program on GPUs. */
struct session {
    const struct grsrun_options *options;
    const struct driver *drv;
    struct device *devices;
    int device_count;
    grs_ctx *ctx;
    struct team team; /* tp 0: none is open */
    struct baselines baselines;
    struct verify_row *verify_rows; /* two a shape: exact, random */
    struct bench_row *bench_rows;   /* BENCH_ROWS a shape         */
    size_t verify_count, bench_count;
    bool wrong; /* a result was not right */
};

/* GPUs that the shape with the most of them needs. */
static grs_status devices_needed(const struct grsrun_options *options, int visible, int *out, grs_error *err) {
    *out = 0;
    for (size_t i = 0; i < options->shape_count; i++) {
        int ranks_per_gpu, devices;
        grs_status status =
            team_deal(options->shapes[i].tp, visible, options->ranks_per_gpu, &ranks_per_gpu, &devices, err);
        if (status) {
            return status;
        }
        *out = devices > *out ? devices : *out;
    }
    return GRS_OK;
}

static grs_status open_devices(struct session *session, int visible, grs_error *err) {
    int needed = 0;
    struct cache_entry *helpers = NULL;
    enum arch arch;
    grs_status status = devices_needed(session->options, visible, &needed, err);
    status = status ? status : device_arch(session->drv, 0, &arch, err);
    status = status ? status : helpers_get(session->ctx, arch, &helpers, err);
    session->devices = calloc((size_t)(needed ? needed : 1), sizeof(*session->devices));
    if (!status && !session->devices) {
        status = error_set(err, GRS_ERR_MEMORY, "no memory for %d GPUs' tables", needed);
    }
    while (!status && session->device_count < needed) {
        status = device_open(session->drv, session->device_count, helpers->cubin,
                             &session->devices[session->device_count], err);
        session->device_count += status == GRS_OK;
    }
    cache_entry_free(helpers);
    return status;
}

static grs_status session_open(struct session *session, grs_error *err) {
    const struct grsrun_options *options = session->options;
    int visible = gpu_count(err);
    session->drv = visible ? driver_get(err) : NULL;
    if (!session->drv) {
        return GRS_ERR_DRIVER;
    }
    if (options->guard) {
        zones_install();
    }
    session->verify_rows = calloc(options->shape_count * 2, sizeof(*session->verify_rows));
    session->bench_rows = calloc(options->shape_count * BENCH_ROWS, sizeof(*session->bench_rows));
    if (!session->verify_rows || !session->bench_rows) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the results of %zu shapes", options->shape_count);
    }
    grs_ctx_options ctx_options = GRS_INIT(grs_ctx_options);
    ctx_options.config_path = options->config_path;
    ctx_options.arch = options->has_arch ? config_arch_name(options->arch) : NULL;
    ctx_options.sms = options->sms;
    grs_status status = grs_ctx_open(&ctx_options, &session->ctx, err);
    return status ? status : open_devices(session, visible, err);
}

static void close_team(struct session *session) {
    baselines_leave(&session->baselines);
    if (session->team.tp) {
        team_close(&session->team);
    }
}

static void session_close(struct session *session) {
    close_team(session);
    grs_ctx_close(session->ctx);
    for (int i = 0; i < session->device_count; i++) {
        device_close(&session->devices[i]);
    }
    free(session->devices);
    free(session->verify_rows);
    free(session->bench_rows);
}

/* Text goes to standard output, notes to standard error; with --json standard output is for the object alone. */
static void show(const struct session *session, struct buf *text) {
    if (!session->options->json && text->data) {
        fputs(text->data, stdout);
        fflush(stdout);
    }
    buf_free(text);
}

static void show_notes(const struct grsrun_shape *shape, struct buf *notes) {
    char *rest = notes->data;
    for (char *line = notes->data ? strtok_r(notes->data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (shape) {
            fprintf(stderr, "# %" PRId64 ",%" PRId64 ",%" PRId64 " tp %d: %s\n", shape->m, shape->n, shape->k,
                    shape->tp, line);
        } else {
            fprintf(stderr, "# %s\n", line);
        }
    }
    buf_free(notes);
}

/* The ranks of the shape's tp, its kernel, and memory for its M. */
static grs_status prepare(struct session *session, const struct grsrun_shape *shape, const grs_kernel **kernel,
                          grs_error *err) {
    grs_status status = GRS_OK;
    if (session->team.tp != shape->tp) {
        close_team(session);
        status = team_open(session->ctx, session->options, session->devices, session->device_count, shape->tp,
                           &session->team, err);
        if (!status && session->options->bench) {
            struct buf notes = {0};
            baselines_join(&session->baselines, &session->team, &notes);
            show_notes(NULL, &notes);
        }
    }
    status = status ? status : grs_ctx_get(session->ctx, shape->m, shape->n, shape->k, shape->tp, kernel, err);
    return status ? status
                  : grs_comm_prepare(session->team.comms[0], *kernel, inside_max_m(session->options, *kernel, shape->m),
                                     err);
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
        show(session, &text);
        show_notes(NULL, &notes);
    }
    return status;
}

static grs_status bench(struct session *session, const struct grsrun_shape *shape, const grs_kernel *kernel,
                        grs_error *err) {
    struct bench_row *rows = &session->bench_rows[session->bench_count];
    struct buf notes = {0}, text = {0};
    bool correct;
    grs_status status = bench_shape(&session->team, kernel, shape, &session->baselines, rows, &correct, &notes, err);
    if (!status) {
        session->bench_count += BENCH_ROWS;
        session->wrong |= !correct;
        for (int i = 0; i < BENCH_ROWS; i++) {
            report_bench_text(&rows[i], &text);
        }
    }
    show(session, &text);
    show_notes(shape, &notes);
    return status;
}

/* The tables' heads before the first row; JSON, the chart and the last word after the last. */
static void describe_machine(const struct session *session, struct report_head *head, char driver[32], char cuda[16]) {
    int version = session->drv->version;
    snprintf(cuda, 16, "%d.%d", version / 1000, version % 1000 / 10);
    *head = (struct report_head){.kind = session->options->bench ? "bench" : "verify",
                                 .gpu = session->devices[0].name,
                                 .driver = gpu_driver_version(gpu_driver_paths, driver) ? driver : NULL,
                                 .cuda = cuda};
}

/* JSON to standard output, JSON and chart to files, as asked for. Files are what is kept: only of a run that went through
 * and whose results are right. */
static grs_status write_results(const struct session *session, const struct report_head *head, bool keep,
                                grs_error *err) {
    const struct grsrun_options *options = session->options;
    struct buf text = {0};
    grs_status status = GRS_OK;
    if (options->json || options->save_path) {
        json_t *rows = options->bench ? report_bench_json(session->bench_rows, session->bench_count)
                                      : report_verify_json(session->verify_rows, session->verify_count);
        json_t *object = report_object(head, rows);
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
    if (!status && keep && options->svg_path) {
        status = svg_write(options->svg_path, session->bench_rows, session->bench_count, err);
    }
    return status;
}

static grs_status run_shape(struct session *session, size_t index, int round, grs_error *err) {
    const struct grsrun_shape *shape = &session->options->shapes[index];
    const grs_kernel *kernel;
    grs_status status = prepare(session, shape, &kernel, err);
    if (session->options->verify) {
        status = status ? status : verify(session, index, round, kernel, err);
    }
    if (session->options->bench) {
        status = status ? status : bench(session, shape, kernel, err);
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
    grs_status status = session_open(&session, &err);
    if (!status) {
        describe_machine(&session, &head, driver, cuda);
        report_origin(&head, &text);
        if (options->verify) {
            report_verify_head(&text);
        }
        if (options->bench) {
            report_bench_head(&text);
            baselines_open(&session.baselines, &notes);
        }
        show(&session, &text);
        show_notes(NULL, &notes);
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
