#include "tools/grsrun_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

static json_t *text_or_null(const char *text) {
    return text ? json_string(text) : json_null();
}
json_t *report_number(double x) {
    return isfinite(x) ? json_real(x) : json_null();
}

bool report_commit(const char *version, char commit[64], bool *dirty) {
    const char *at = strstr(version, "(commit ");
    if (!at || sscanf(at, "(commit %63[^,)]", commit) != 1) {
        return false;
    }
    *dirty = strstr(at, ", dirty)") != NULL;
    return true;
}

json_t *report_object(const struct report_head *head, json_t *rows) {
    time_t now = time(NULL);
    struct tm utc;
    char date[32], commit[64];
    bool dirty = false;
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    bool stamped = report_commit(grs_version(), commit, &dirty);
    return json_pack("{s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "kind", text_or_null(head->kind), "gpu",
                     text_or_null(head->gpu), "driver", text_or_null(head->driver), "cuda", text_or_null(head->cuda),
                     "date", date, "commit", text_or_null(stamped ? commit : NULL), "dirty",
                     stamped ? json_boolean(dirty) : json_null(), "rows", rows);
}

grs_status report_dump(const json_t *object, struct buf *out, grs_error *err) {
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    buf_puts(out, text ? text : "");
    buf_puts(out, "\n");
    bool whole = text && !out->failed;
    free(text);
    return whole ? GRS_OK : error_set(err, GRS_ERR_MEMORY, "no memory for the JSON");
}

grs_status report_save(const char *path, const struct buf *text, grs_error *err) {
    struct buf temporary = {0};
    grs_status status = GRS_OK;
    buf_printf(&temporary, "%s.%ld", path, (long)getpid());
    if (text->failed || temporary.failed) {
        status = error_set(err, GRS_ERR_MEMORY, "%s: no memory for its text", path);
        goto done;
    }
    FILE *file = fopen(temporary.data, "w");
    bool written = file && fwrite(text->data, 1, text->length, file) == text->length;
    written = file && fclose(file) == 0 && written;
    if (!written || rename(temporary.data, path)) {
        status = error_set(err, GRS_ERR_IO, "%s: %s", path, strerror(errno));
        unlink(temporary.data);
    }
done:
    buf_free(&temporary);
    return status;
}

void report_origin(const struct report_head *head, struct buf *out) {
    buf_printf(out, "# %s, driver %s, CUDA %s, grs %s\n", head->gpu ? head->gpu : "GPU unknown",
               head->driver ? head->driver : "unknown", head->cuda ? head->cuda : "unknown", grs_version());
}

/* ---------------------------------------------------------------- --bench -------------------------------------- */

double report_tflops(const struct bench_row *row, double us) {
    const struct grsrun_shape *s = &row->shape;
    return 2.0 * (double)s->m * (double)s->n * (double)s->k * row->ranks_per_gpu / us * 1e-6;
}

double report_ratio(const struct bench_row *row) {
    return row->ours_us / row->limit_us;
}

static json_t *bench_row_json(const struct bench_row *row) {
    const struct grsrun_shape *s = &row->shape;
    return json_pack(
        "{s:I, s:I, s:I, s:i, s:i, s:i, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:s, s:s, s:o, "
        "s:o, s:o, s:o, s:o}",
        "m", (json_int_t)s->m, "n", (json_int_t)s->n, "k", (json_int_t)s->k, "tp", s->tp, "ranks_per_gpu",
        row->ranks_per_gpu, "sms", row->sms, "pace_gbps", report_number(row->pace_gbps), "config", row->config,
        "ours_us", report_number(row->ours_us), "cublas_us", report_number(row->cublas_us), "cublas_nccl_us",
        report_number(row->cublas_nccl_us), "async_tp_us", report_number(row->async_tp_us), "link_gbps",
        report_number(row->link_gbps), "limit_us", report_number(row->limit_us), "metric", report_number(row->metric),
        "rel_err", report_number(row->rel_err), "iters", row->iters, "mode",
        row->isolated ? "isolated" : "back_to_back", "l2", row->l2 == L2_COLD ? "cold" : "warm",
        "cublas_nccl_registered_us", report_number(row->registered_us), "link_peak_gbps",
        report_number(row->link_peak_gbps), "waits", waits_json(&row->waits), "skew", skew_json(&row->skew),
        "cublas_default_us", report_number(row->cublas_default_us));
}

json_t *report_bench_json(const struct bench_row *rows, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, bench_row_json(&rows[i]));
    }
    return array;
}

void report_cell(struct buf *out, int width, int decimals, double x) {
    if (isfinite(x)) {
        buf_printf(out, " %*.*f", width, decimals, x);
    } else {
        buf_printf(out, " %*s", width, "-");
    }
}

static void cell_exponent(struct buf *out, double x) {
    if (isfinite(x)) {
        buf_printf(out, " %9.2e", x);
    } else {
        buf_printf(out, " %9s", "-");
    }
}

void report_bench_head(struct buf *out) {
    buf_puts(out,
             "# ours, cuBLAS: median us of the slowest GPU, with the spread of the samples; cuBLAS: the fastest of its "
             "algorithms; itself: the one that it takes by itself\n"
             "# +NCCL: the fastest, then reduce-scatter; +reg: between registered buffers\n"
             "# limit: max(cuBLAS, bytes sent / link); ratio: ours / limit; link: bytes that a rank sends / ours\n");
    buf_printf(out, "#%7s %7s %7s %3s %5s %4s %-8s %-4s %9s %5s %8s %9s %5s %9s %9s %9s %9s %6s %9s %9s\n", "M", "N",
               "K", "tp", "r/gpu", "SMs", "mode", "L2", "ours us", "+-%", "TFLOP/s", "cuBLAS us", "+-%", "itself",
               "+NCCL us", "+reg us", "limit us", "ratio", "link GB/s", "rel_err");
}

void report_bench_text(const struct bench_row *row, struct buf *out) {
    const struct grsrun_shape *s = &row->shape;
    buf_printf(out, " %7" PRId64 " %7" PRId64 " %7" PRId64 " %3d %5d %4d %-8s %-4s", s->m, s->n, s->k, s->tp,
               row->ranks_per_gpu, row->sms, row->isolated ? "isolated" : "b2b", row->l2 == L2_COLD ? "cold" : "warm");
    report_cell(out, 9, 2, row->ours_us);
    report_cell(out, 5, 1, row->ours_spread * 100);
    report_cell(out, 8, 1, report_tflops(row, row->ours_us));
    report_cell(out, 9, 2, row->cublas_us);
    report_cell(out, 5, 1, row->cublas_spread * 100);
    report_cell(out, 9, 2, row->cublas_default_us);
    report_cell(out, 9, 2, row->cublas_nccl_us);
    report_cell(out, 9, 2, row->registered_us);
    report_cell(out, 9, 2, row->limit_us);
    report_cell(out, 6, 3, report_ratio(row));
    report_cell(out, 9, 1, row->link_gbps);
    cell_exponent(out, row->rel_err);
    buf_puts(out, "\n");
    if (row->waits.run > 0) {
        waits_text(&row->waits, out);
    }
    if (row->skew.launches > 0) {
        skew_text(&row->skew, out);
    }
}

/* ---------------------------------------------------------------- --verify ------------------------------------- */

static json_t *verify_row_json(const struct verify_row *row) {
    const struct grsrun_shape *s = &row->shape;
    return json_pack("{s:I, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:I, s:I, s:o, s:o, s:o, s:b, s:b, s:b, s:o}",
                     "m", (json_int_t)s->m, "n", (json_int_t)s->n, "k", (json_int_t)s->k, "tp", s->tp, "ranks_per_gpu",
                     row->ranks_per_gpu, "sms", row->sms, "config", row->config, "mode", row->mode, "data_sets",
                     row->data_sets, "launches", row->launches, "elements", (json_int_t)row->elements, "mismatches",
                     (json_int_t)row->mismatches, "rel_err", report_number(row->rel_err), "metric",
                     report_number(row->metric), "worst", report_number(row->worst), "repeats_equal",
                     row->repeats_equal, "surroundings_intact", row->surroundings_intact, "passed", row->passed,
                     "pace_gbps", report_number(row->pace_gbps));
}

json_t *report_verify_json(const struct verify_row *rows, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, verify_row_json(&rows[i]));
    }
    return array;
}

void report_verify_head(struct buf *out) {
    buf_puts(out, "# exact: D bit for bit; random: every element within its bound; of bound: largest error / bound\n");
    buf_printf(out, "#%7s %7s %7s %3s %5s %4s %-6s %8s %10s %9s %9s %8s  %s\n", "M", "N", "K", "tp", "r/gpu", "SMs",
               "data", "launches", "mismatches", "rel_err", "metric", "of bound", "verdict");
}

void report_verify_text(const struct verify_row *row, struct buf *out) {
    const struct grsrun_shape *s = &row->shape;
    buf_printf(out, " %7" PRId64 " %7" PRId64 " %7" PRId64 " %3d %5d %4d %-6s %8d %10" PRIu64, s->m, s->n, s->k, s->tp,
               row->ranks_per_gpu, row->sms, row->mode, row->launches, row->mismatches);
    cell_exponent(out, row->rel_err);
    cell_exponent(out, row->metric);
    report_cell(out, 8, 3, row->worst);
    buf_printf(out, "  %s\n", row->passed ? "ok" : "FAILED");
}
