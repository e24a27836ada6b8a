#include "tools/grsrun_rank.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "tools/grsrun_helpers.h"
#include "tools/grsrun_verify.h"
#include "tools/grsrun_world.h"

struct rank {
    const struct grsrun_options *options;
    bool prefix, wrong;
    grs_ctx *ctx;
    grs_comm *comm;
    struct device device;
    bool device_is_open;
    struct team team; /* in which only this rank is here */
    struct world world;
    grs_path_info path;
};

static void say(const struct rank *rank, FILE *file, struct buf *text) {
    char *rest = NULL;
    for (char *line = text->data ? strtok_r(text->data, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        if (rank->prefix && rank->comm) {
            fprintf(file, "rank %d | %s\n", grs_comm_rank(rank->comm), line);
        } else {
            fprintf(file, "%s\n", line);
        }
    }
    fflush(file);
    buf_free(text);
}

static grs_status check_size(const struct rank *rank, int size, grs_error *err) {
    int tp = rank->options->shapes[0].tp;
    return size == tp
               ? GRS_OK
               : error_set(err, GRS_ERR_ARGUMENT, "the launcher started %d ranks, and the shapes have tp %d", size, tp);
}

static grs_status open_device(struct rank *rank, int ordinal, grs_error *err) {
    struct cache_entry *helpers = NULL;
    enum arch arch;
    const struct driver *drv = driver_get(err);
    grs_status status = drv ? device_arch(drv, ordinal, &arch, err) : GRS_ERR_DRIVER;
    status = status ? status : helpers_get(rank->ctx, arch, &helpers, err);
    status = status ? status : device_open(drv, ordinal, helpers->cubin, &rank->device, err);
    cache_entry_free(helpers);
    rank->device_is_open = !status;
    return status;
}

static grs_status join_host(struct rank *rank, grs_error *err) {
    grs_status status = grs_comm_create_env(rank->ctx, NULL, &rank->comm, err);
    status = status ? status : check_size(rank, grs_comm_size(rank->comm), err);
    return status ? status : open_device(rank, grs_comm_device(rank->comm), err);
}

static grs_status join_nodes(struct rank *rank, grs_error *err) {
    struct environment environment;
    grs_error own;
    int visible = 0;
    grs_status status = environment_read(&environment, err);
    status = status ? status : check_size(rank, environment.size, err);
    if (status) {
        return status;
    }
    const struct driver *drv = driver_get(NULL);
    if (drv) {
        drv->cuDeviceGetCount(&visible);
    }
    grs_status mine = open_device(rank, environment_device(&environment, visible), &own);
    status = world_join(&environment, rank->options->nodes, &rank->device, mine, &own, &rank->world, err);
    return status ? status : grs_comm_create_nccl(rank->ctx, rank->world.comm, NULL, &rank->comm, err);
}

static grs_status open_rank(struct rank *rank, grs_error *err) {
    const struct grsrun_options *options = rank->options;
    grs_ctx_options ctx_options = GRS_INIT(grs_ctx_options);
    ctx_options.config_path = options->config_path;
    ctx_options.arch = options->has_arch ? config_arch_name(options->arch) : NULL;
    ctx_options.sms = options->sms;
    grs_status status = grs_ctx_open(&ctx_options, &rank->ctx, err);
    status = status ? status : options->nodes ? join_nodes(rank, err) : join_host(rank, err);
    rank->path = GRS_INIT(grs_path_info);
    status = status ? status : grs_comm_get_path(rank->comm, &rank->path, err);
    if (status) {
        return status;
    }
    int number = grs_comm_rank(rank->comm), tp = grs_comm_size(rank->comm);
    rank->team = (struct team){.options = options,
                               .devices = &rank->device,
                               .device_count = 1,
                               .ranks_per_gpu = 1,
                               .tp = tp,
                               .nodes = rank->path.nodes,
                               .sms = options->sms ? options->sms : rank->device.sms,
                               .in_processes = true,
                               .own_rank = number};
    for (int other = 0; other < tp; other++) {
        rank->team.device[other] = &rank->device;
        rank->team.streams[other] = rank->device.stream;
    }
    rank->team.comms[number] = rank->comm;
    return GRS_OK;
}

static grs_status verify_shape(struct rank *rank, const struct grsrun_shape *shape, grs_error *err) {
    const grs_kernel *kernel = NULL;
    grs_error own;
    /* Also where there is no kernel: the other ranks must hear of it. */
    grs_status missing = grs_ctx_get(rank->ctx, shape->m, shape->n, shape->k, shape->tp, &kernel, &own);
    grs_status status = grs_comm_prepare(rank->comm, kernel, shape->m, err);
    status = missing && !status ? missing : status;
    for (int mode = VALUES_EXACT; mode <= VALUES_RANDOM && !status; mode++) {
        struct verify_row row;
        struct buf notes = {0}, text = {0};
        verify_begin(&rank->team, kernel, shape, (enum values_mode)mode, &row);
        for (int round = 0; round < rank->options->rounds && !status; round++) {
            status = verify_round(&rank->team, kernel, (enum values_mode)mode, &row, &notes, err);
        }
        rank->wrong |= !row.passed && !status;
        if (!status) {
            report_verify_text(&row, &text);
        }
        say(rank, stdout, &text);
        say(rank, stderr, &notes);
    }
    if (status) {
        error_prepend(err, "%" PRId64 ",%" PRId64 ",%" PRId64 " tp %d", shape->m, shape->n, shape->k, shape->tp);
    }
    return status;
}

int rank_main(const struct grsrun_options *options, bool prefix) {
    struct rank rank = {.options = options, .prefix = prefix};
    struct buf text = {0};
    grs_error err;
    grs_status status = open_rank(&rank, &err);
    if (!status) {
        if (options->nodes) {
            world_path_text(&rank.path, rank.team.tp, &text);
        }
        report_verify_head(&text);
        say(&rank, stdout, &text);
    }
    for (size_t i = 0; i < options->shape_count && !status; i++) {
        status = verify_shape(&rank, &options->shapes[i], &err);
    }
    if (status && rank.comm) {
        grs_comm_abort(rank.comm, NULL); /* kernels of the others do not wait for ours */
    }
    if (status || rank.wrong) {
        buf_printf(&text, "grsrun: %s", status ? err.text : "FAILED: a result is wrong; see above");
        say(&rank, stderr, &text);
    }
    grs_comm_destroy(rank.comm);
    if (rank.device_is_open) {
        device_use(&rank.device, NULL);
        world_leave(&rank.world, status != GRS_OK);
        device_close(&rank.device);
    }
    grs_ctx_close(rank.ctx);
    return status ? grsrun_exit_code(status) : rank.wrong ? GRSRUN_FAILED : GRSRUN_OK;
}
