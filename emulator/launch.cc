// Grids and CTAs: how they start, and what must be true when they end.
#include <string.h>

#include <new>

#include "emulator/machine.h"

namespace emu {

namespace {

// Shared memory that was never written reads as NaN in BF16.
constexpr int poison = 0xff;

void set_up_memory(cta &c, uint32_t bytes) {
    if (bytes > c.shared_bytes || !c.shared) {
        c.storage.reset(new (std::nothrow) char[bytes + 1024]);
        if (!c.storage)
            fail(EMU_EXHAUSTED, "no memory for %u bytes of shared memory", bytes);
        uintptr_t start = reinterpret_cast<uintptr_t>(c.storage.get());
        c.shared = reinterpret_cast<char *>((start + 1023) / 1024 * 1024);
    }
    c.shared_bytes = bytes;
    memset(c.shared, poison, bytes);
    c.marks.resize(bytes);
}

void set_up_registers(cta &c) {
    const launch &l = *c.running;
    if (l.registers * l.threads > register_file)
        fail(EMU_REGISTERS, "a launch of %u threads with %u registers each; there are %u", l.threads, l.registers,
             register_file);
    c.free_registers = 0;
    c.warpgroups.clear();
    for (uint32_t i = 0; i * warpgroup_threads < l.threads; ++i) {
        c.warpgroups.emplace_back();
        c.warpgroups.back().index = i;
        c.warpgroups.back().registers = l.registers;
        c.warpgroups.back().matrix = make_products();
    }
}

void set_up_thread(thread &t, cta &c, uint32_t index) {
    t = thread();
    t.in = &c;
    t.index = index;
    t.self = emu_self{index, c.block, c.shared};
    t.know.seen = t.know.shared = t.know.global = c.of->stream.seen; // a kernel's end is a fence for everything
    t.tensor_seen = t.know.seen;
    t.own.self = c.counts[index];
    t.own.warp = c.counts[the->warp_agent(index / warp_lanes)];
    t.own.products = c.counts[the->warpgroup_agent(index / warpgroup_threads)];
    t.copier = c.copier_of[index];
    if (t.copier >= 0) {
        t.own.read = c.counts[the->copier_agent(static_cast<uint32_t>(t.copier), false)];
        t.own.land = c.counts[the->copier_agent(static_cast<uint32_t>(t.copier), true)];
    }
    t.own.tensor = t.own.tensor_read = c.counts[the->tensor_read_agent(index / warp_lanes)];
    t.own_shared = t.own_global = t.own;
    ++t.own.self;
    t.at.position = -1;
}

} // namespace

void machine::start(grid *g) {
    const launch &l = g->launches[g->next];
    g->live = l.ctas;
    for (uint32_t i = 0; i < l.ctas; ++i) {
        cta &c = *g->ctas[i];
        uint32_t a_rank = l.args.grid > 0 ? static_cast<uint32_t>(l.args.grid) : l.ctas;
        c.running = &l;
        c.rank = l.args.rank[i / a_rank].rank;
        c.index = static_cast<int32_t>(i % a_rank);
        c.departed = false;
        c.loads = c.reads = 0;
        set_up_memory(c, l.shared_bytes);
        set_up_registers(c);
        c.mbarriers.clear();
        for (named_barrier &b : c.barriers)
            b = named_barrier();
        c.own_cluster_barrier = named_barrier();
        c.cluster_barrier = &g->ctas[i / l.cluster * l.cluster]->own_cluster_barrier;
        c.threads.resize(l.threads);
        c.warps.assign((l.threads + warp_lanes - 1) / warp_lanes, warp());
        c.live = l.threads;
        set_up_tensor(c);
        for (uint32_t j = 0; j < l.threads; ++j) {
            thread &t = c.threads[j];
            set_up_thread(t, c, j);
            fiber_prepare(t.context, stacks_.stack(static_cast<size_t>(c.slot) * max_threads + j), stacks_.bytes(),
                          thread_main, &t);
            enqueue(&t);
        }
    }
}

void machine::finish(thread *t) {
    cta &c = *t->in;
    changed();
    current = t; // for whoever reports
    if (t->group_open)
        fail(EMU_GROUP_MISUSE, "the thread ends with bulk stores that it never committed");
    current = nullptr;
    c.of->stream.gather(t->know);
    c.counts[t->index] = t->own.self;
    if (--c.live == 0)
        finish_cta(&c);
}

void machine::finish_cta(cta *c) {
    current = &c->threads[0];
    if (c->loads)
        fail(EMU_GROUP_MISUSE, "the CTA ends while %u copies still write its shared memory", c->loads);
    if (c->reads)
        fail(EMU_GROUP_MISUSE, "the CTA ends while %u stores have yet to read their source in its shared memory",
             c->reads);
    for (const warpgroup &w : c->warpgroups)
        check_products_over(w);
    check_tensor_over(*c);
    current = nullptr;
    if (--c->of->live == 0 && c->of->in_flight == 0)
        finish_grid(c->of);
}

void machine::finish_grid(grid *g) {
    const launch &l = g->launches[g->next];
    for (uint32_t i = 0; i < l.ctas; ++i) {
        const cta &c = *g->ctas[i];
        for (uint32_t agent = 0; agent < agents(); ++agent)
            if (c.counts[agent])
                g->stream.seen.raise(c.slot, agent, c.counts[agent]);
    }
    g->stream.shared = g->stream.global = g->stream.seen;
    if (!deadlocked)
        for (int i = 0; i < l.args.ranks; ++i)
            monitor_left(l, l.args.rank[i].rank);
    if (++g->next < g->launches.size())
        post(event{event_kind::start, nullptr, nullptr, 0, g});
    else
        --running_grids_;
}

} // namespace emu
