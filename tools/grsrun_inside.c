#include "tools/grsrun_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/group.h"

#define POISON 0xff /* two of them are a NaN of BF16 */

int64_t inside_max_m(const struct grsrun_options *options, const grs_kernel *kernel, int64_t m) {
    const struct plan *plan = &kernel->plan;
    int64_t more = m + 4 * plan->value[FIELD_TILE_M] * plan->shape.tp; /* four rows of tiles an owner */
    int64_t most = plan->shape.m_max < plan_max_m(plan) ? plan->shape.m_max : plan_max_m(plan);
    return !options->guard ? m : more < most ? more : most;
}

grs_status inside_poison(struct team *team, grs_error *err) {
    static const enum symm_purpose poisoned[] = {SYMM_SLOTS, SYMM_OUTBOX};
    grs_status status = GRS_OK;
    for (int rank = 0; rank < team->tp; rank++) {
        const struct device *device = team->device[rank];
        const struct symm *symm = &team->comms[rank]->symm;
        status = device_use(device, err);
        for (int i = 0; i < 2 && !status; i++) {
            if (symm->pointer[poisoned[i]]) {
                status = device_check(device,
                                      device->drv->cuMemsetD8Async(symm->pointer[poisoned[i]], POISON,
                                                                   symm->sizes.bytes[poisoned[i]], device->stream),
                                      "cuMemsetD8Async", err);
            }
        }
        if (status) {
            return status;
        }
    }
    return team_wait(team, err); /* an upstream on another GPU must not be faster than the poison */
}

/* Bytes [first, end) of one allocation all hold `value`. */
static grs_status check_bytes(const struct team *team, int rank, enum symm_purpose purpose, size_t first, size_t end,
                              unsigned char value, grs_error *err) {
    const struct device *device = team->device[rank];
    if (first >= end) {
        return GRS_OK;
    }
    unsigned char *bytes = malloc(end - first);
    if (!bytes) {
        return error_set(err, GRS_ERR_MEMORY, "no memory for %zu bytes of %s", end - first, symm_purpose_name(purpose));
    }
    grs_status status = device_wait(device, err);
    status = status ? status
                    : device_check(device,
                                   device->drv->cuMemcpyDtoH(bytes, team->comms[rank]->symm.pointer[purpose] + first,
                                                             end - first),
                                   "cuMemcpyDtoH", err);
    for (size_t i = 0; i < end - first && !status; i++) {
        if (bytes[i] != value) {
            status = error_set(err, GRS_ERR_STATE,
                               "byte %zu of the %s of rank %d is 0x%02x after the launch, should be 0x%02x", first + i,
                               symm_purpose_name(purpose), rank, bytes[i], value);
        }
    }
    free(bytes);
    return status;
}

grs_status inside_check(struct team *team, const grs_kernel *kernel, int64_t m, grs_error *err) {
    struct symm_sizes used;
    symm_sizes_of(&kernel->plan, m, 1, &used);
    grs_status status = GRS_OK;
    for (int rank = 0; rank < team->tp && !status; rank++) {
        const struct symm *symm = &team->comms[rank]->symm;
        const size_t *bytes = symm->sizes.bytes;
        if (symm->pointer[SYMM_SLOTS] && team->options->guard) {
            status = check_bytes(team, rank, SYMM_SLOTS, used.bytes[SYMM_SLOTS], bytes[SYMM_SLOTS], POISON, err);
        }
        if (symm->pointer[SYMM_MASK]) {
            status = status ? status : check_bytes(team, rank, SYMM_MASK, 0, bytes[SYMM_MASK], 0, err);
        }
        if (symm->pointer[SYMM_GROUPS]) {
            status = status ? status : check_bytes(team, rank, SYMM_GROUPS, 0, bytes[SYMM_GROUPS], 0, err);
        }
    }
    return status;
}
