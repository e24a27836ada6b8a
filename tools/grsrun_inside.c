#include "tools/grsrun_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/error.h"
#include "runtime/group.h"
#include "tools/grsrun_zones.h"

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
    if (team->in_processes) { /* upstream's kernel may be writing there already */
        return GRS_OK;
    }
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

/* ---------------------------------------------------------------- what must hold -------------------------------- */

/* Spans of one device, and for the report where each lies: from byte `at` of a block of `bytes` bytes. */
struct area {
    int rank; /* -1: not of a communicator */
    enum symm_purpose purpose;
    int64_t at;
    size_t bytes;
};
struct areas {
    struct values_span *spans;
    struct area *where;
    size_t count, room;
    bool failed; /* no memory */
};

static void add(struct areas *areas, struct area where, CUdeviceptr block, int64_t end, uint32_t value) {
    if (where.at >= end) {
        return;
    }
    if (areas->count == areas->room && !areas->failed) {
        size_t room = areas->room ? 2 * areas->room : 256;
        struct values_span *spans = realloc(areas->spans, room * sizeof(*spans));
        areas->spans = spans ? spans : areas->spans;
        struct area *places = realloc(areas->where, room * sizeof(*places));
        areas->where = places ? places : areas->where;
        areas->failed = !spans || !places;
        areas->room = areas->failed ? areas->room : room;
    }
    if (!areas->failed) {
        areas->where[areas->count] = where;
        areas->spans[areas->count++] =
            (struct values_span){block + (uint64_t)where.at, (uint64_t)(end - where.at) / 4, value, 0};
    }
}

static uint32_t bytes_of(unsigned char value) {
    return value * 0x01010101u;
}

/* The control words that are not listed here change in ways of their own (the link model's clock). */
static void add_control(struct areas *areas, struct area where, CUdeviceptr block, const struct team *team) {
    const uint64_t epoch = team->launches, credit = team->tp > 1 ? epoch : 0;
    const struct {
        size_t at, end;
        uint64_t value;
    } words[] = {{offsetof(grs_control, epoch), 8, epoch},
                 {8, offsetof(grs_control, credit), 0}, /* departed */
                 {offsetof(grs_control, credit), offsetof(grs_control, credit) + 8, credit},
                 {offsetof(grs_control, credit) + 8, offsetof(grs_control, pace), 0}, /* abort */
                 {offsetof(grs_control, pace) + 8, sizeof(grs_control), 0}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        bool is_zero = words[i].value == 0;
        for (int half = 0; half < (is_zero ? 1 : 2); half++) {
            where.at = (int64_t)words[i].at + 4 * half;
            add(areas, where, block, is_zero ? (int64_t)words[i].end : where.at + 4,
                (uint32_t)(words[i].value >> 32 * half));
        }
    }
    for (int rank = 0; rank < team->tp; rank++) {
        for (int half = 0; half < 2; half++) {
            where.at = (int64_t)(SYMM_EVERYONE_OFFSET + (size_t)rank * sizeof(CUdeviceptr)) + 4 * half;
            add(areas, where, block, where.at + 4,
                (uint32_t)(team->comms[rank]->symm.pointer[SYMM_CONTROL] >> 32 * half));
        }
    }
}

/* CTAs of a rank: each has a part of the outbox. */
static int grid_of(const struct team *team, int rank, const grs_kernel *kernel, int64_t m) {
    const struct grs_comm *comm = team->comms[rank];
    const struct group_kernel *prepared = group_find_kernel(comm->group, kernel);
    return group_launch_grid(&kernel->plan, m, prepared->modules[comm->device - comm->group->devices].grid);
}

static void add_rank(struct areas *areas, const struct team *team, int rank, const grs_kernel *kernel, int64_t m) {
    const struct symm *symm = &team->comms[rank]->symm;
    struct symm_sizes used = {{0}};
    if (kernel) {
        symm_sizes_of(&kernel->plan, m, grid_of(team, rank, kernel, m), &used);
    }
    for (int purpose = 0; purpose < SYMM_PURPOSES; purpose++) {
        struct area where = {.rank = rank, .purpose = (enum symm_purpose)purpose, .bytes = symm->sizes.bytes[purpose]};
        CUdeviceptr block = symm->pointer[purpose];
        if (block && purpose == SYMM_CONTROL) {
            add_control(areas, where, block, team);
        } else if (block && (purpose == SYMM_SLOTS || purpose == SYMM_OUTBOX)) {
            where.at = (int64_t)(kernel ? used.bytes[purpose] : where.bytes);
            add(areas, where, block, (int64_t)where.bytes, bytes_of(POISON));
        } else if (block && purpose != SYMM_WAITS && purpose != SYMM_STAMPS) { /* mask and group counters */
            add(areas, where, block, (int64_t)where.bytes, 0);
        }
    }
}

/* Both zones of every allocation on the device; a block that is not a multiple of 4 long has up to 3 bytes without. */
static void add_zones(struct areas *areas, const struct team *team, const struct device *device) {
    const struct zone_block *blocks;
    size_t count = zones_blocks(&blocks);
    for (size_t i = 0; i < count; i++) {
        struct area where = {.rank = -1, .bytes = blocks[i].bytes};
        for (int rank = 0; rank < team->tp; rank++) {
            for (int purpose = 0; purpose < SYMM_PURPOSES; purpose++) {
                if (team->comms[rank]->symm.pointer[purpose] == blocks[i].pointer) {
                    where.rank = rank;
                    where.purpose = (enum symm_purpose)purpose;
                }
            }
        }
        if (blocks[i].context == device->context) {
            where.at = -ZONE_BYTES;
            add(areas, where, blocks[i].pointer, 0, bytes_of(ZONE_BYTE));
            where.at = (int64_t)(blocks[i].bytes + 3) / 4 * 4;
            add(areas, where, blocks[i].pointer, where.at + ZONE_BYTES - 4, bytes_of(ZONE_BYTE));
        }
    }
}

/* ---------------------------------------------------------------- the check ------------------------------------- */

static grs_status report(const struct device *device, const struct areas *areas, const struct values_damage *damage,
                         grs_error *err) {
    size_t index = (size_t)(damage->first >> VALUES_SPAN_SHIFT);
    int64_t word = (int64_t)(damage->first & (((uint64_t)1 << VALUES_SPAN_SHIFT) - 1));
    const struct values_span *span = &areas->spans[index];
    const struct area *where = &areas->where[index];
    unsigned char found[4], wanted[4];
    grs_status status = device_check(device, device->drv->cuMemcpyDtoH(found, span->address + (uint64_t)word * 4, 4),
                                     "cuMemcpyDtoH", err);
    if (status) {
        return status;
    }
    int i = 0;
    for (int b = 3; b >= 0; b--) {
        wanted[b] = (unsigned char)(span->value >> 8 * b);
        i = found[b] != wanted[b] ? b : i;
    }
    int64_t byte = where->at + word * 4 + i, size = (int64_t)where->bytes;
    struct buf text = {0};
    buf_printf(&text, "byte %" PRId64 " %s ",
               byte < 0      ? -byte
               : byte < size ? byte
                             : byte - size + 1,
               byte < 0      ? "before"
               : byte < size ? "of"
                             : "behind");
    if (where->rank >= 0) {
        buf_printf(&text, "the %s of rank %d", symm_purpose_name(where->purpose), where->rank);
    } else {
        buf_printf(&text, "a block of %zu bytes on GPU %d", where->bytes, device->ordinal);
    }
    status = error_set(err, GRS_ERR_STATE, "%s is 0x%02x after the launch, should be 0x%02x",
                       text.data ? text.data : "", found[i], wanted[i]);
    buf_free(&text);
    return status;
}

static grs_status check_device(const struct device *device, const struct team *team, const grs_kernel *kernel,
                               int64_t m, grs_error *err) {
    struct areas areas = {0};
    struct values_damage damage = {0};
    for (int rank = 0; rank < team->tp; rank++) {
        if (team->device[rank] == device) {
            add_rank(&areas, team, rank, kernel, m);
        }
    }
    add_zones(&areas, team, device);
    grs_status status = areas.failed ? error_set(err, GRS_ERR_MEMORY, "no memory for a list of what is to be checked")
                                     : spans_check(device, areas.spans, areas.count, &damage, err);
    if (!status && damage.words) {
        status = report(device, &areas, &damage, err);
    }
    free(areas.spans);
    free(areas.where);
    return status;
}

grs_status inside_check(struct team *team, const grs_kernel *kernel, int64_t m, grs_error *err) {
    grs_status status = GRS_OK;
    for (int i = 0; i < team->device_count && !status && !team->in_processes; i++) {
        status = check_device(&team->devices[i], team, kernel, m, err);
    }
    return status;
}
