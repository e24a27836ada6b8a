#include "tools/grsrun_waits.h"

#include <stdlib.h>

#include "common/error.h"
#include "runtime/fault.h"
#include "runtime/group.h"

static const char *const role_keys[GRS_ROLE_COUNT] = {"loader", "prefetcher", "storer", "sender", "math", "issuer"};
static const char *const wait_keys[GRS_WAIT_COUNT] = {
    [GRS_WAIT_NONE] = "run",
    [GRS_WAIT_STAGE_FREE] = "stage_free",
    [GRS_WAIT_STAGE_FULL] = "stage_full",
    [GRS_WAIT_TILE_FREE] = "tile_free",
    [GRS_WAIT_TILE_READY] = "tile_ready",
    [GRS_WAIT_TILE_FULL] = "tile_full",
    [GRS_WAIT_UPSTREAM] = "upstream",
    [GRS_WAIT_OUTBOX_FREE] = "outbox_free",
    [GRS_WAIT_OUTBOX_FULL] = "outbox_full",
    [GRS_WAIT_CREDIT] = "credit",
    [GRS_WAIT_CHUNK] = "chunk",
    [GRS_WAIT_LINK] = "link",
    [GRS_WAIT_ACCUM_FREE] = "accum_free",
    [GRS_WAIT_ACCUM_FULL] = "accum_full",
};

void waits_add(const uint64_t *counters, int ctas, int launches, int all, struct waits *out) {
    double each = 1.0 / launches / all;
    for (int cta = 0; cta < ctas; cta++, counters += SYMM_WAITS_A_CTA) {
        uint64_t longest = 0;
        for (int role = 0; role < GRS_ROLE_COUNT; role++) {
            const uint64_t *of_role = counters + (ptrdiff_t)role * GRS_WAIT_COUNT;
            longest = of_role[GRS_WAIT_NONE] > longest ? of_role[GRS_WAIT_NONE] : longest;
            for (int wait = 0; wait < GRS_WAIT_COUNT; wait++) {
                out->cycles[role][wait] += (double)of_role[wait] * each;
            }
        }
        out->run += (double)longest * each;
    }
}

static grs_status zero_counters(struct team *team, grs_error *err) {
    grs_status status = GRS_OK;
    for (int rank = 0; rank < team->tp && !status; rank++) {
        const struct device *device = team->device[rank];
        const struct symm *symm = &team->comms[rank]->symm;
        status = device_use(device, err);
        status = status ? status
                        : device_check(device,
                                       device->drv->cuMemsetD8Async(symm->pointer[SYMM_WAITS], 0,
                                                                    symm->sizes.bytes[SYMM_WAITS], device->stream),
                                       "cuMemsetD8Async", err);
    }
    return status ? status : team_wait(team, err);
}

/* CTAs of a rank in launches of this kernel with these operands. */
static int grid_of(const struct team *team, const grs_kernel *counting, int rank, int64_t m) {
    const struct grs_comm *comm = team->comms[rank];
    const struct group_kernel *prepared = group_find_kernel(comm->group, counting);
    return group_launch_grid(&counting->plan, m, prepared->modules[comm->device - comm->group->devices].grid);
}

static grs_status read_counters(struct team *team, const grs_kernel *counting, int64_t m, struct waits *out,
                                grs_error *err) {
    int all = 0;
    grs_status status = GRS_OK;
    for (int rank = 0; rank < team->tp; rank++) {
        all += grid_of(team, counting, rank, m);
    }
    for (int rank = 0; rank < team->tp && !status; rank++) {
        const struct device *device = team->device[rank];
        int ctas = grid_of(team, counting, rank, m);
        size_t bytes = (size_t)ctas * SYMM_WAITS_A_CTA * sizeof(uint64_t);
        uint64_t *counters = malloc(bytes);
        status = counters ? device_use(device, err)
                          : error_set(err, GRS_ERR_MEMORY, "no memory for the wait counters of %d CTAs", ctas);
        status =
            status
                ? status
                : device_check(device,
                               device->drv->cuMemcpyDtoH(counters, team->comms[rank]->symm.pointer[SYMM_WAITS], bytes),
                               "cuMemcpyDtoH", err);
        if (!status) {
            waits_add(counters, ctas, WAITS_LAUNCHES, all, out);
        }
        free(counters);
    }
    return status;
}

grs_status waits_count(struct team *team, const grs_kernel *counting, struct operands *operands, struct waits *out,
                       grs_error *err) {
    int64_t m = operands->shape.m;
    *out = (struct waits){0};
    grs_status status = grs_comm_prepare(team->comms[0], counting, m, err);
    for (int launch = -1; launch < WAITS_LAUNCHES && !status; launch++) { /* the first is not counted */
        status = team_launch(team, counting, operands, err);
        if (launch < 0 && !status) {
            status = team_wait(team, err);
            status = status ? status : zero_counters(team, err);
        }
    }
    status = status ? status : team_wait(team, err);
    return status ? status : read_counters(team, counting, m, out, err);
}

double waits_share(const struct waits *waits, enum grs_role role, enum grs_wait wait) {
    return waits->run > 0 ? waits->cycles[role][wait] / waits->run : 0;
}

void waits_text(const struct waits *waits, struct buf *out) {
    buf_printf(out, "#   waits: cycles a CTA and launch, and their share of its %.0f\n", waits->run);
    for (int role = 0; role < GRS_ROLE_COUNT; role++) {
        if (waits->cycles[role][GRS_WAIT_NONE] == 0) {
            continue;
        }
        buf_printf(out, "#     %-10s %9.0f %5.1f %%  there\n", fault_role_name((enum grs_role)role),
                   waits->cycles[role][GRS_WAIT_NONE], waits_share(waits, (enum grs_role)role, GRS_WAIT_NONE) * 100);
        for (int wait = 1; wait < GRS_WAIT_COUNT; wait++) {
            double share = waits_share(waits, (enum grs_role)role, (enum grs_wait)wait);
            if (share > 0) {
                buf_printf(out, "#     %-10s %9.0f %5.1f %%  for %s\n", "", waits->cycles[role][wait], share * 100,
                           fault_wait_name((enum grs_wait)wait));
            }
        }
    }
}

json_t *waits_json(const struct waits *waits) {
    if (waits->run == 0) {
        return json_null();
    }
    json_t *roles = json_object();
    for (int role = 0; role < GRS_ROLE_COUNT; role++) {
        if (waits->cycles[role][GRS_WAIT_NONE] == 0) {
            continue;
        }
        json_t *shares = json_object();
        for (int wait = 0; wait < GRS_WAIT_COUNT; wait++) {
            double share = waits_share(waits, (enum grs_role)role, (enum grs_wait)wait);
            if (share > 0) {
                json_object_set_new(shares, wait_keys[wait], json_real(share));
            }
        }
        json_object_set_new(roles, role_keys[role], shares);
    }
    return json_pack("{s:f, s:o}", "run_cycles", waits->run, "roles", roles);
}
