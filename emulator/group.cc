// R ranks: their memory, the arguments of their launches as the runtime would make them, and the run.
#include <math.h>
#include <string.h>

#include <algorithm>
#include <new>

#include "emulator/build.h"
#include "emulator/monitor.h"
#include "emulator/tensor_map.h"

extern "C" {
#include "common/error.h"
}

struct emu_group {
    struct emu_group_options options;
    emu::machine machine;
    struct queued {
        const struct emu_kernel *kernel;
        const struct plan *plan;
        int64_t m;
        std::vector<emu_operands> operands;
    };
    std::vector<queued> launches;
    explicit emu_group(const struct emu_group_options &o) : options(o), machine(o.schedule, o.seed) {}
};

namespace {

struct rank_memory {
    emu::region *slots, *mask, *outbox, *groups, *control, *record, *waits, *stamps;
};

size_t waits_of(const emu_group *group) { // a rank's wait counters
    return static_cast<size_t>(group->options.ctas) * GRS_ROLE_COUNT * GRS_WAIT_COUNT;
}

grs_status no_memory(grs_error *err) {
    return error_set(err, GRS_ERR_MEMORY, "emulator: out of memory");
}

// What every launch of the group needs at most, reserved once, as a communicator does.
bool reserve(emu_group *group, std::vector<rank_memory> &out) {
    struct plan_memory most;
    memset(&most, 0, sizeof(most));
    for (const emu_group::queued &l : group->launches) {
        struct plan_memory m;
        plan_memory_of(l.plan, l.m, group->options.ctas, &m);
        most.slots = std::max(most.slots, m.slots);
        most.mask = std::max(most.mask, m.mask);
        most.outbox = std::max(most.outbox, m.outbox);
        most.groups = std::max(most.groups, m.groups);
    }
    emu::global_memory &memory = group->machine.memory;
    group->machine.protocol.reset(new emu::monitor());
    for (int rank = 0; rank < group->options.ranks; ++rank) {
        rank_memory r;
        r.slots = memory.add(rank, emu::purpose::slots, "slots", static_cast<size_t>(most.slots));
        r.mask = memory.add(rank, emu::purpose::mask, "mask", static_cast<size_t>(most.mask));
        r.outbox = memory.add(rank, emu::purpose::outbox, "outbox", static_cast<size_t>(most.outbox));
        r.groups = memory.add(rank, emu::purpose::groups, "group counters", static_cast<size_t>(most.groups));
        r.control = memory.add(rank, emu::purpose::control, "control words", sizeof(grs_control));
        r.record = memory.add(rank, emu::purpose::scratch, "wait record", sizeof(grs_wait_record));
        r.waits = memory.add(rank, emu::purpose::scratch, "wait counters", waits_of(group) * sizeof(uint64_t));
        r.stamps = memory.add(rank, emu::purpose::scratch, "stamps of launches", GRS_STAMPS * sizeof(grs_stamp));
        if (!r.slots || !r.mask || !r.outbox || !r.groups || !r.control || !r.record || !r.waits || !r.stamps)
            return false;
        memset(r.slots->base, 0xff, r.slots->bytes); // NaN: what nobody wrote shows in D
        memset(r.outbox->base, 0xff, r.outbox->bytes);
        out.push_back(r);
        emu::monitored_rank m;
        m.mask = r.mask;
        m.control = r.control;
        m.bits.resize(r.mask->bytes * 8);
        group->machine.protocol->ranks.push_back(m);
    }
    return true;
}

// Bits that upstream sets on `rank`: those of the segments that it does not start.
int64_t bits_of(const struct plan *plan, int64_t m, int rank) {
    int64_t bits = 0;
    for (int owner = 0; owner < plan->segments; ++owner) {
        int64_t tiles = plan_segment_tiles_of(plan, m, owner);
        if (owner % plan->shape.tp == (rank + 1) % plan->shape.tp || tiles == 0)
            continue;
        bits += plan->group_tiles ? (tiles + plan->group_tiles - 1) / plan->group_tiles : 1;
    }
    return bits;
}

uint32_t cluster_of(const struct plan *plan) {
    return static_cast<uint32_t>(plan->value[FIELD_CLUSTER]);
}

// CTAs a rank: no more than tiles; with clusters, whole ones.
int grid_of(const struct plan *plan, int64_t m, int ctas) {
    struct plan_tiles tiles;
    plan_tiles_of(plan, m, &tiles);
    int64_t cluster = cluster_of(plan), wanted = (tiles.total + cluster - 1) / cluster * cluster;
    return wanted < ctas ? static_cast<int>(wanted) : ctas;
}

grs_status encode(const struct plan *plan, int64_t m, const emu_operands &o, int64_t kept, grs_rank_args *args,
                  grs_error *err) {
    struct plan_boxes boxes;
    plan_boxes(plan, &boxes);
    auto box = [](const int(&b)[2], int i) { return static_cast<uint32_t>(b[i]); };
    uint64_t n = static_cast<uint64_t>(plan->shape.n), k = static_cast<uint64_t>(plan->shape.k);
    grs_status status = emu::tensor_map_encode(o.a, k, static_cast<uint64_t>(m), static_cast<uint64_t>(o.lda),
                                               box(boxes.a, 0), box(boxes.a, 1), 128, &args->a, err);
    if (status == GRS_OK)
        status = emu::tensor_map_encode(o.b, k, n, static_cast<uint64_t>(o.ldb), box(boxes.b, 0), box(boxes.b, 1), 128,
                                        &args->b, err);
    if (status == GRS_OK && kept > 0)
        status = emu::tensor_map_encode(o.d, n, static_cast<uint64_t>(kept), static_cast<uint64_t>(o.ldd),
                                        box(boxes.d, 0), box(boxes.d, 1), 128, &args->d, err);
    uint64_t tile = static_cast<uint64_t>(boxes.d_tiles);
    if (status == GRS_OK && kept > 0 && tile > 0)
        status =
            emu::tensor_map_encode_layers(o.d, tile, static_cast<uint64_t>(kept), static_cast<uint64_t>(o.ldd),
                                          n / tile, tile, box(boxes.d, 0), box(boxes.d, 1), 128, &args->d_tiles, err);
    return status;
}

grs_status fill_rank(const emu_group *group, const std::vector<rank_memory> &memory, grs_control *const *everyone,
                     const emu_group::queued &q, int rank, grs_rank_args *args, grs_error *err) {
    int ranks = group->options.ranks;
    const rank_memory &own = memory[static_cast<size_t>(rank)],
                      &down = memory[static_cast<size_t>((rank + ranks - 1) % ranks)],
                      &up = memory[static_cast<size_t>((rank + 1) % ranks)];
    int64_t kept;
    kept = plan_segment_rows_of(q.plan, q.m, rank);
    args->slots = own.slots->base;
    args->mask = reinterpret_cast<uint64_t *>(own.mask->base);
    args->peer_slots = down.slots->base;
    args->peer_mask = reinterpret_cast<uint64_t *>(down.mask->base);
    args->control = reinterpret_cast<grs_control *>(own.control->base);
    args->upstream = reinterpret_cast<grs_control *>(up.control->base);
    args->outbox = own.outbox->base;
    args->everyone = everyone;
    args->record = reinterpret_cast<grs_wait_record *>(own.record->base);
    args->groups = reinterpret_cast<uint32_t *>(own.groups->base);
    args->counters = reinterpret_cast<uint64_t *>(own.waits->base);
    args->stamps = reinterpret_cast<grs_stamp *>(own.stamps->base);
    args->rank = rank;
    args->has_d = kept > 0;
    return encode(q.plan, q.m, q.operands[static_cast<size_t>(rank)], kept, args, err);
}

grs_status make_launch(const emu_group *group, const std::vector<rank_memory> &memory, grs_control *const *everyone,
                       const emu_group::queued &q, uint64_t number, int first_rank, int ranks, emu::launch *out,
                       grs_error *err) {
    const struct plan *plan = q.plan;
    out->entry = q.kernel->entry;
    int a_rank = grid_of(plan, q.m, group->options.ctas);
    out->ctas = static_cast<uint32_t>(a_rank * ranks);
    out->threads = static_cast<uint32_t>(plan->threads);
    out->shared_bytes = static_cast<uint32_t>(plan->shared_bytes);
    out->registers = static_cast<uint32_t>(plan->registers_launch);
    out->cluster = cluster_of(plan);
    out->plan = plan;
    out->number = number;
    memset(&out->args, 0, sizeof(out->args));
    out->args.m = static_cast<int32_t>(q.m);
    out->args.grid = a_rank;
    out->args.wave = group->options.ctas;
    out->args.ranks = ranks;
    out->args.ring = group->options.ranks;
    out->args.deadline_ns = group->machine.deadline_ns;
    out->args.stall = group->options.stall;
    out->args.pace_ps_per_kib = group->options.pace_ps_per_kib;
    out->args.pace_signal_ns = group->options.pace_signal_ns;
    out->args.send_ps_per_byte = group->options.send_ps_per_byte;
    for (int rank = 0; rank < group->options.ranks; ++rank) {
        out->bits.push_back(bits_of(plan, q.m, rank));
        out->bits_limit.push_back(plan_bits_of(plan, q.m));
    }
    for (int i = 0; i < ranks; ++i) {
        grs_status status = fill_rank(group, memory, everyone, q, first_rank + i, &out->args.rank[i], err);
        if (status != GRS_OK)
            return status;
    }
    return GRS_OK;
}

} // namespace

extern "C" grs_status emu_group_open(const struct emu_group_options *options, struct emu_group **out, grs_error *err) {
    *out = nullptr;
    struct emu_group_options o = *options;
    if (o.ranks < 1 || o.ranks > GRS_MAX_RING || o.ctas < 1)
        return error_set(err, GRS_ERR_ARGUMENT,
                         "emulated ranks: %d ranks of %d CTAs; allowed: 1 to %d ranks, at least 1 CTA", o.ranks, o.ctas,
                         GRS_MAX_RING);
    if (o.ranks_per_grid == 0)
        o.ranks_per_grid = 1;
    if (o.ranks_per_grid < 1 || o.ranks_per_grid > GRS_MAX_SHARED_RANKS)
        return error_set(err, GRS_ERR_ARGUMENT, "emulated ranks: %d ranks a grid; allowed: 1 to %d", o.ranks_per_grid,
                         GRS_MAX_SHARED_RANKS);
    if (emu::the)
        return error_set(err, GRS_ERR_STATE, "emulated ranks: another group is open; one at a time");
    *out = new (std::nothrow) emu_group(o);
    if (!*out)
        return no_memory(err);
    (*out)->machine.deadline_ns = o.deadline_ns ? o.deadline_ns : uint64_t{1000} * 1000000000;
    if (o.max_steps)
        (*out)->machine.max_steps = o.max_steps;
    return GRS_OK;
}

extern "C" void emu_group_close(struct emu_group *group) {
    delete group;
}

extern "C" uint16_t *emu_group_memory(struct emu_group *group, int rank, size_t words, bool is_output) {
    emu::region *r = group->machine.memory.add(rank, is_output ? emu::purpose::output : emu::purpose::operand,
                                               is_output ? "D" : "operands", words * 2);
    return r ? reinterpret_cast<uint16_t *>(r->base) : nullptr;
}

extern "C" grs_status emu_group_launch(struct emu_group *group, const struct emu_kernel *kernel,
                                       const struct plan *plan, int64_t M, const struct emu_operands *operands,
                                       grs_error *err) {
    if (plan->shape.tp != group->options.ranks)
        return error_set(err, GRS_ERR_ARGUMENT, "emulated ranks: a plan for tp %d on %d ranks", plan->shape.tp,
                         group->options.ranks);
    if (M < 1 || M > plan_max_m(plan))
        return error_set(err, GRS_ERR_ARGUMENT, "emulated ranks: M of %lld", static_cast<long long>(M));
    if (group->options.ctas % static_cast<int>(cluster_of(plan)))
        return error_set(err, GRS_ERR_ARGUMENT, "emulated ranks: %d CTAs a rank are no multiple of clusters of %u",
                         group->options.ctas, cluster_of(plan));
    emu_group::queued q{kernel, plan, M, {}};
    q.operands.assign(operands, operands + group->options.ranks);
    group->launches.push_back(q);
    return GRS_OK;
}

extern "C" void emu_group_run(struct emu_group *group, struct emu_report *report) {
    emu::machine &m = group->machine;
    int ranks = group->options.ranks;
    std::vector<rank_memory> memory;
    grs_error error;
    memset(&error, 0, sizeof(error));
    std::vector<grs_control *> everyone;
    bool ok = reserve(group, memory);
    for (const rank_memory &r : memory)
        everyone.push_back(reinterpret_cast<grs_control *>(r.control->base));
    if (!ok)
        no_memory(&error);
    for (int first = 0; first < ranks && ok; first += group->options.ranks_per_grid) {
        m.grids.emplace_back(new emu::grid());
        emu::grid &g = *m.grids.back();
        g.index = static_cast<uint32_t>(m.grids.size() - 1);
        g.launches.resize(group->launches.size());
        for (size_t i = 0; i < group->launches.size() && ok; ++i)
            ok = make_launch(group, memory, everyone.data(), group->launches[i], i, first,
                             std::min(group->options.ranks_per_grid, ranks - first), &g.launches[i], &error) == GRS_OK;
    }
    if (ok && !m.prepare())
        ok = no_memory(&error) == GRS_OK;
    if (ok) {
        m.run();
        for (const rank_memory &r : memory) { // what the kernel itself says of a deadlock
            const grs_wait_record *w = reinterpret_cast<const grs_wait_record *>(r.record->base);
            size_t used = strlen(m.report.text);
            if (w->complete)
                snprintf(m.report.text + used, sizeof(m.report.text) - used,
                         "  the kernel's record: rank %d CTA %d %s, tile %d of owner %d, position %lld, epoch %llu\n",
                         w->rank, w->cta, emu::name_role(static_cast<int>(w->role)), w->tile, w->owner,
                         static_cast<long long>(w->position), static_cast<unsigned long long>(w->epoch));
        }
        for (size_t i = 0; i < memory.size() && group->options.counters; ++i)
            memcpy(group->options.counters + i * waits_of(group), memory[i].waits->base, memory[i].waits->bytes);
        for (size_t i = 0; i < memory.size() && group->options.stamps; ++i)
            memcpy(group->options.stamps + i * GRS_STAMPS, memory[i].stamps->base, memory[i].stamps->bytes);
        for (size_t i = 0; i < memory.size(); ++i)
            for (int64_t bits : m.protocol->ranks[i].set_in)
                m.report.received[i].partials += static_cast<uint64_t>(bits);
    } else {
        m.report.verdict = EMU_EXHAUSTED;
        snprintf(m.report.text, sizeof(m.report.text), "%s\n", error.text);
    }
    *report = m.report;
}
