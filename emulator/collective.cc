// Threads that meet: barriers of a CTA and of a cluster, warps that execute one instruction together, setmaxnreg.
#include <string.h>

#include "emulator/machine.h"

namespace emu {

namespace {

void meet(named_barrier &b, uint32_t threads, blocked_on what, const char *instruction, uint64_t number) {
    thread &t = current();
    if (b.arrived == 0)
        b.expected = threads;
    else if (b.expected != threads)
        fail(EMU_DIVERGED, "%s %llu: this thread expects %u threads, the first to arrive expected %u", instruction,
             static_cast<unsigned long long>(number), threads, b.expected);
    release(t, b.gathered);
    the->changed();
    if (++b.arrived < b.expected) {
        b.waiting.push_back(&t);
        the->block(what, instruction, number);
        return;
    }
    for (thread *w : b.waiting) {
        acquire(*w, b.gathered);
        the->wake(w);
    }
    acquire(t, b.gathered);
    b = named_barrier();
}

} // namespace

void device_barrier_sync(uint32_t barrier, uint32_t threads) {
    the->maybe_yield();
    cta &c = *current().in;
    if (barrier >= 16)
        fail(EMU_BAD_OPERAND, "barrier.sync %u; there are 16", barrier);
    if (threads % warp_lanes || threads > c.threads.size())
        fail(EMU_BAD_OPERAND, "barrier.sync %u with %u threads; allowed: whole warps, at most %zu threads", barrier,
             threads, c.threads.size());
    meet(c.barriers[barrier], threads ? threads : static_cast<uint32_t>(c.threads.size()), blocked_on::barrier,
         "barrier.sync", barrier);
}

// ---------------------------------------------------------------- clusters

uint32_t device_cluster_rank() {
    return current().in->block % current().in->running->cluster;
}

void device_cluster_sync() {
    the->maybe_yield();
    cta &c = *current().in;
    meet(*c.cluster_barrier, c.running->threads * c.running->cluster, blocked_on::cluster, "barrier.cluster", 0);
}

cta &cluster_peer(cta &c, uint32_t cluster_rank, const char *instruction) {
    uint32_t size = c.running->cluster;
    if (cluster_rank >= size)
        fail(EMU_OUT_OF_BOUNDS, "%s: CTA %u of a cluster of %u", instruction, cluster_rank, size);
    cta &peer = *c.of->ctas[c.block / size * size + cluster_rank];
    if (peer.live == 0)
        fail(EMU_OUT_OF_BOUNDS, "%s: CTA %u of the cluster has ended", instruction, cluster_rank);
    return peer;
}

// ---------------------------------------------------------------- warps

bool join_warp(const char *instruction, uint64_t detail) {
    thread &t = current();
    warp &w = t.in->warps[t.index / warp_lanes];
    uint32_t lane = t.index % warp_lanes;
    if (w.arrived && (strcmp(w.instruction, instruction) != 0 || w.detail != detail))
        fail(EMU_DIVERGED, "lane %u executes %s while other lanes of its warp execute %s", lane, instruction,
             w.instruction);
    w.instruction = instruction;
    w.detail = detail;
    w.arrived |= 1u << lane;
    the->changed();
    if (w.arrived != 0xffffffffu) {
        the->block(blocked_on::warp, instruction, detail);
        return false;
    }
    return true;
}

thread *first_lane() {
    thread &t = current();
    return &t.in->threads[t.index / warp_lanes * warp_lanes];
}

void part_warp() {
    thread *lanes = first_lane();
    lanes->in->warps[lanes->index / warp_lanes].arrived = 0;
    for (uint32_t i = 0; i < warp_lanes; ++i)
        if (&lanes[i] != the->current)
            the->wake(&lanes[i]);
}

void whole_warp(const char *instruction) {
    if (current().in->threads.size() % warp_lanes)
        fail(EMU_BAD_OPERAND, "%s in a CTA of %zu threads: only whole warps are modelled", instruction,
             current().in->threads.size());
}

void device_warp_sync() {
    whole_warp("bar.warp.sync");
    if (!join_warp("bar.warp.sync", 0))
        return;
    thread *lanes = first_lane();
    knowledge all;
    for (uint32_t i = 0; i < warp_lanes; ++i)
        release(lanes[i], all);
    for (uint32_t i = 0; i < warp_lanes; ++i)
        acquire(lanes[i], all);
    part_warp();
}

uint32_t device_warp_broadcast(uint32_t value, uint32_t lane) {
    whole_warp("shfl.sync");
    thread &t = current();
    t.collective_value = value;
    if (join_warp("shfl.sync", lane)) {
        thread *lanes = first_lane();
        uint32_t result = lanes[lane % warp_lanes].collective_value;
        for (uint32_t i = 0; i < warp_lanes; ++i)
            lanes[i].collective_value = result;
        part_warp();
    }
    return t.collective_value;
}

void device_matrix_load(uint32_t *fragment, const void *row) {
    whole_warp("ldmatrix");
    thread &t = current();
    t.collective_out = fragment;
    t.collective_row = row;
    if (join_warp("ldmatrix", 0)) {
        matrix_load(first_lane());
        part_warp();
    }
}

void device_matrix_store(void *row, const uint32_t *fragment) {
    whole_warp("stmatrix");
    thread &t = current();
    t.collective_out = const_cast<uint32_t *>(fragment);
    t.collective_row = row;
    if (join_warp("stmatrix", 0)) {
        matrix_store(first_lane());
        part_warp();
    }
}

// ---------------------------------------------------------------- registers

namespace {

// The warpgroup has met and has what it asked for: all but the calling thread go on.
void settle_registers(cta &c, warpgroup &w) {
    uint32_t before = w.registers;
    w.registers = w.wanted;
    w.arrived = 0;
    if (w.wanted >= before)
        c.free_registers -= (w.wanted - before) * warpgroup_threads;
    else
        c.free_registers += (before - w.wanted) * warpgroup_threads;
    for (thread *t : w.waiting)
        the->wake(t);
    w.waiting.clear();
}

bool can_have(const cta &c, const warpgroup &w) {
    return w.wanted <= w.registers || (w.wanted - w.registers) * warpgroup_threads <= c.free_registers;
}

} // namespace

void device_registers(uint32_t count, bool increase) {
    const char *instruction = increase ? "setmaxnreg.inc" : "setmaxnreg.dec";
    the->maybe_yield();
    thread &t = current();
    cta &c = *t.in;
    warpgroup &w = c.warpgroups[t.index / warpgroup_threads];
    if (count < 24 || count > 256 || count % 8)
        fail(EMU_REGISTERS, "%s %u; allowed: multiples of 8 from 24 to 256", instruction, count);
    if (increase ? count < w.registers : count > w.registers)
        fail(EMU_REGISTERS, "%s %u in a warpgroup whose threads have %u", instruction, count, w.registers);
    if (w.arrived && (w.wanted != count || w.increase != increase))
        fail(EMU_DIVERGED, "%s %u, while other threads of the warpgroup ask for %u", instruction, count, w.wanted);
    w.wanted = count;
    w.increase = increase;
    ++w.arrived;
    the->changed();
    if (w.arrived < warpgroup_threads || !can_have(c, w)) {
        w.waiting.push_back(&t);
        the->block(blocked_on::registers, instruction, count);
        return;
    }
    settle_registers(c, w);
    for (warpgroup &other : c.warpgroups) // that met before and waits for registers
        if (other.arrived == warpgroup_threads && can_have(c, other))
            settle_registers(c, other);
}

} // namespace emu
