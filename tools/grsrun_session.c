#include "tools/grsrun_session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "tools/grsrun_helpers.h"
#include "tools/grsrun_zones.h"

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

grs_status session_open(struct session *session, int visible, grs_error *err) {
    const struct grsrun_options *options = session->options;
    session->drv = driver_get(err);
    if (!session->drv) {
        return GRS_ERR_DRIVER;
    }
    if (options->guard) {
        zones_install();
    }
    session->verify_rows = calloc(options->shape_count * 2, sizeof(*session->verify_rows));
    session->bench_rows = calloc(options->shape_count * BENCH_ROWS, sizeof(*session->bench_rows));
    session->ablate_rows =
        calloc(options->ablate ? options->shape_count * ABLATE_ROWS : 1, sizeof(*session->ablate_rows));
    if (!session->verify_rows || !session->bench_rows || !session->ablate_rows) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for the results of %zu shapes", options->shape_count);
    }
    grs_status status = grsrun_context_open(options, &session->ctx, err);
    return status ? status : open_devices(session, visible, err);
}

static void close_team(struct session *session) {
    baselines_leave(&session->baselines);
    if (session->team.tp) {
        team_close(&session->team);
    }
}

void session_close(struct session *session) {
    close_team(session);
    grs_ctx_close(session->ctx);
    for (int i = 0; i < session->device_count; i++) {
        device_close(&session->devices[i]);
    }
    free(session->devices);
    free(session->verify_rows);
    free(session->bench_rows);
    free(session->ablate_rows);
}

void session_show(const struct session *session, struct buf *text) {
    if (!session->options->json && text->data) {
        fputs(text->data, stdout);
        fflush(stdout);
    }
    buf_free(text);
}

void session_note(const struct grsrun_shape *shape, struct buf *notes) {
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

/* Whatever was measured under a model says so. */
static void note_pace(const struct session *session) {
    const struct team *team = &session->team;
    struct buf text = {0};
    if (isnan(team->pace_gbps)) {
        return;
    }
    buf_printf(&text, "# tp %d under a model of the link: ", team->tp);
    buf_fixed(&text, team->pace_gbps, 1);
    buf_printf(&text, " GB/s for a rank's %d of %d SMs, and 1 us more for a signal\n", team->sms, team->devices[0].sms);
    session_show(session, &text);
}

grs_status session_join(struct session *session, int tp, grs_error *err) {
    const struct grsrun_options *options = session->options;
    if (session->team.tp == tp) {
        return GRS_OK;
    }
    close_team(session);
    grs_status status =
        team_open(session->ctx, options, session->devices, session->device_count, tp, &session->team, err);
    if (status) {
        return status;
    }
    note_pace(session);
    if (options->bench || options->ablate) {
        struct buf notes = {0};
        baselines_join(&session->baselines, &session->team, &notes);
        session_note(NULL, &notes);
    }
    return GRS_OK;
}
