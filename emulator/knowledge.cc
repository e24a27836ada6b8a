#include "emulator/machine.h"

namespace emu {

void knowledge::join(const knowledge &other) {
    seen.join(other.seen);
    shared.join(other.shared);
    global.join(other.global);
}

void knowledge::gather(const knowledge &other) {
    seen.gather(other.seen);
    shared.gather(other.shared);
    global.gather(other.global);
}

bool knows(const thread &t, const epoch &e, level l) {
    if (e.by_host)
        return true;
    const marks &own = l == level::seen ? t.own : l == level::shared ? t.own_shared : t.own_global;
    if (e.cta == t.in->slot) {
        if (e.agent == t.index)
            return l == level::seen || own.self >= e.count;
        if (e.agent == the->warp_agent(t.index / warp_lanes) && own.warp >= e.count)
            return true;
        if (e.agent == the->warpgroup_agent(t.index / warpgroup_threads) && own.products >= e.count)
            return true;
        if (e.agent == the->tensor_read_agent(t.index / warp_lanes) && own.tensor_read >= e.count)
            return true;
        if (t.copier >= 0 && e.agent == the->copier_agent(static_cast<uint32_t>(t.copier), false) &&
            own.read >= e.count)
            return true;
        if (t.copier >= 0 && e.agent == the->copier_agent(static_cast<uint32_t>(t.copier), true) && own.land >= e.count)
            return true;
    }
    const vector_clock &base = l == level::seen ? t.know.seen : l == level::shared ? t.know.shared : t.know.global;
    return base.covers(e);
}

namespace {

void raise(const thread &t, const marks &own, vector_clock &into) {
    uint32_t slot = t.in->slot;
    into.raise(slot, t.index, own.self);
    into.raise(slot, the->warp_agent(t.index / warp_lanes), own.warp);
    if (own.products)
        into.raise(slot, the->warpgroup_agent(t.index / warpgroup_threads), own.products);
    if (own.tensor)
        into.raise(slot, the->tensor_read_agent(t.index / warp_lanes), own.tensor);
    if (t.copier >= 0) {
        into.raise(slot, the->copier_agent(static_cast<uint32_t>(t.copier), false), own.read);
        into.raise(slot, the->copier_agent(static_cast<uint32_t>(t.copier), true), own.land);
    }
}

} // namespace

void release(thread &t, knowledge &into) {
    into.gather(t.know);
    raise(t, t.own, into.seen);
    raise(t, t.own_shared, into.shared);
    raise(t, t.own_global, into.global);
    ++t.own.self;
}

void acquire(thread &t, const knowledge &from) {
    t.know.join(from);
}

void device_fence_proxy_async(bool shared_only) {
    thread &t = current();
    t.know.shared = t.know.seen;
    t.own_shared = t.own;
    if (!shared_only) {
        t.know.global = t.know.seen;
        t.own_global = t.own;
    }
    ++t.own.self; // what it writes from now on is not fenced
    for (const std::unique_ptr<mbarrier> &b : t.in->mbarriers)
        if (b->made.agent == t.index)
            b->fenced = true;
}

} // namespace emu
