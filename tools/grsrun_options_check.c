/* What options mean together. */
#include <inttypes.h>

#include "common/error.h"
#include "tools/grsrun_options.h"

int64_t grsrun_leading(const struct grsrun_stride *stride, int64_t row) {
    return stride->is_absolute ? stride->value : row + stride->value;
}

static grs_status check_stride(const char *name, const struct grsrun_stride *stride, char dimension, int64_t row,
                               grs_error *err) {
    int64_t ld = grsrun_leading(stride, row);
    if (ld < row) {
        return error_set(err, GRS_ERR_ARGUMENT, "--%s: %" PRId64 " is less than a row, %c = %" PRId64, name, ld,
                         dimension, row);
    }
    return GRS_OK;
}

static grs_status check_ablate(const struct grsrun_options *options, grs_error *err) {
    if (options->bench || options->verify) {
        return error_set(err, GRS_ERR_ARGUMENT, "--ablate is a table of its own: leave out --bench and --verify");
    }
    if (options->graph) {
        return error_set(err, GRS_ERR_ARGUMENT, "--graph holds one kernel: it cannot be used with --ablate");
    }
    for (size_t i = 0; i < options->shape_count; i++) {
        if (options->shapes[i].tp == 1) {
            return error_set(err, GRS_ERR_ARGUMENT,
                             "--ablate compares ways to send, and one rank sends nothing: give --tp 2 or more");
        }
    }
    return GRS_OK;
}

/* What is for GPUs alone. */
static grs_status check_emulated(const struct grsrun_options *options, grs_error *err) {
    const struct {
        bool given;
        const char *text;
    } refused[] = {{options->bench, "--bench times GPUs"},
                   {options->ablate, "--ablate times GPUs"},
                   {options->precompile, "--precompile compiles for GPUs"},
                   {options->pace_gbps > 0, "--pace is for ranks on GPUs"}};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (refused[i].given) {
            return error_set(err, GRS_ERR_ARGUMENT, "%s: it cannot be used with --backend emu", refused[i].text);
        }
    }
    return GRS_OK;
}

static grs_status check_nodes(const struct grsrun_options *options, grs_error *err) {
    int tp = options->shapes[0].tp;
    if (!options->procs) {
        return error_set(err, GRS_ERR_ARGUMENT, "--nodes divides ranks that are processes of their own: give --procs");
    }
    if (tp % options->nodes) {
        return error_set(err, GRS_ERR_ARGUMENT, "--nodes %d: %d rank%s cannot be divided into %d nodes of one size",
                         options->nodes, tp, tp == 1 ? "" : "s", options->nodes);
    }
    return GRS_OK;
}

static grs_status check_procs(const struct grsrun_options *options, grs_error *err) {
    if (options->bench || options->json || options->save_path || options->guard || options->ranks_per_gpu ||
        options->backend == BACKEND_EMU) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "--procs verifies on GPUs: it cannot be used with --bench, --json, --save, --guard, "
                         "--ranks-per-gpu or --backend emu");
    }
    if (options->ablate || options->pace_gbps > 0) {
        return error_set(err, GRS_ERR_ARGUMENT, "--procs verifies on GPUs: it cannot be used with --ablate or --pace");
    }
    for (size_t i = 0; i < options->shape_count; i++) {
        if (options->shapes[i].tp != options->shapes[0].tp) {
            return error_set(err, GRS_ERR_ARGUMENT,
                             "--procs starts the ranks of one tp, and there are shapes with tp %d and with tp %d",
                             options->shapes[0].tp, options->shapes[i].tp);
        }
    }
    return GRS_OK;
}

grs_status grsrun_options_check(const struct grsrun_options *options, grs_error *err) {
    grs_status status = options->backend == BACKEND_EMU ? check_emulated(options, err) : GRS_OK;
    status = status || !options->procs ? status : check_procs(options, err);
    status = status || !options->nodes ? status : check_nodes(options, err);
    status = status || !options->ablate ? status : check_ablate(options, err);
    if (status) {
        return status;
    }
    if (options->waits && !options->bench && !options->ablate) {
        return error_set(err, GRS_ERR_ARGUMENT, "--waits counts in timed launches: give --bench");
    }
    if (options->waits && options->graph) {
        return error_set(err, GRS_ERR_ARGUMENT, "--graph holds one kernel: it cannot be used with --waits");
    }
    if (options->skew && !options->bench) {
        return error_set(err, GRS_ERR_ARGUMENT, "--skew compares ranks in timed launches: give --bench");
    }
    if (options->skew && options->graph) {
        return error_set(err, GRS_ERR_ARGUMENT, "--graph holds one kernel: it cannot be used with --skew");
    }
    if (options->precompile && (options->json || options->save_path || options->svg_path)) {
        return error_set(err, GRS_ERR_ARGUMENT, "--precompile measures nothing: leave out --json, --save and --svg");
    }
    if ((options->json || options->save_path) && options->bench && options->verify) {
        return error_set(err, GRS_ERR_ARGUMENT,
                         "--json and --save hold one table: give --bench (which checks D too) or --verify");
    }
    if ((options->bench || options->ablate) && (options->guard || options->rounds > 1)) {
        return error_set(err, GRS_ERR_ARGUMENT, "--guard and --rounds are for --verify: leave them out with %s",
                         options->bench ? "--bench" : "--ablate");
    }
    if (options->svg_path && !options->bench && !options->ablate) {
        return error_set(err, GRS_ERR_ARGUMENT, "--svg draws what --bench or --ablate measures: give one of them");
    }
    for (size_t i = 0; i < options->shape_count; i++) {
        const struct grsrun_shape *shape = &options->shapes[i];
        status = check_stride("lda", &options->lda, 'K', shape->k, err);
        status = status ? status : check_stride("ldb", &options->ldb, 'K', shape->k, err);
        status = status ? status : check_stride("ldd", &options->ldd, 'N', shape->n, err);
        if (status) {
            return status;
        }
    }
    return GRS_OK;
}
