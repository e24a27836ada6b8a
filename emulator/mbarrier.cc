#include "emulator/machine.h"

#include <string.h>

namespace emu {

namespace {

// What an initialised mbarrier holds in shared memory: overwriting it is noticed at the next use.
constexpr uint64_t tag = 0x6d62617272000000u;  // "mbarr"
constexpr uint32_t max_count = (1u << 20) - 1; // of arrivals, and of bytes in either direction

void check_place(cta &c, const void *p, const char *instruction) {
    if (!c.holds(p, 8))
        fail(EMU_OUT_OF_BOUNDS, "%s: the barrier at %p is not in this CTA's shared memory", instruction, p);
    if (c.offset(p) % 8)
        fail(EMU_BAD_OPERAND, "%s: a barrier at shared address %#x is not 8-byte aligned", instruction, c.offset(p));
}

void complete_phase(mbarrier &b) {
    ++b.phase;
    b.pending = b.expected;
    b.completed = std::move(b.gathered);
    b.gathered.clear();
    the->changed();
    for (thread *t : b.waiting)
        the->wake(t);
    b.waiting.clear();
}

void settle(mbarrier &b) {
    if (b.pending == 0 && b.bytes == 0)
        complete_phase(b);
}

void arrive(mbarrier &b, const char *instruction, uint32_t expect_bytes) {
    thread &t = current();
    if (b.pending == 0)
        fail(EMU_BARRIER_COUNT, "%s on %s: phase %llu has had all of its %u arrivals (and waits for %lld bytes)",
             instruction, name_barrier(b).c_str(), static_cast<unsigned long long>(b.phase), b.expected,
             static_cast<long long>(b.bytes));
    b.bytes += expect_bytes;
    if (b.bytes > static_cast<int64_t>(max_count))
        fail(EMU_BARRIER_COUNT, "%s on %s: %lld bytes announced; at most %u can be counted", instruction,
             name_barrier(b).c_str(), static_cast<long long>(b.bytes), max_count);
    release(t, b.gathered);
    --b.pending;
    the->changed();
    settle(b);
}

seen_phase &phase_of(thread &t, mbarrier *b) {
    for (seen_phase &s : t.phases)
        if (s.of == b)
            return s;
    t.phases.push_back(seen_phase{b});
    return t.phases.back();
}

} // namespace

mbarrier &mbarrier_at(cta &c, const void *p, const char *instruction) {
    check_place(c, p, instruction);
    uint64_t held;
    memcpy(&held, p, sizeof(held));
    uint64_t number = held & 0xffffff;
    if ((held & ~uint64_t{0xffffff}) != tag || number >= c.mbarriers.size() ||
        c.mbarriers[number]->offset != c.offset(p)) {
        for (const std::unique_ptr<mbarrier> &b : c.mbarriers)
            if (b->offset == c.offset(p))
                fail(EMU_OVERWRITTEN, "%s: %s was overwritten", instruction, name_barrier(*b).c_str());
        fail(EMU_BAD_OPERAND, "%s: no barrier was initialised at shared address %#x", instruction,
             c.offset(p) + window_base);
    }
    mbarrier &b = *c.mbarriers[number];
    if (the->current && !knows(current(), b.made, level::seen))
        fail(EMU_TOO_EARLY, "%s on %s: its initialisation by %s is not known to be over", instruction,
             name_barrier(b).c_str(), who(b.made).c_str());
    return b;
}

void device_mbarrier_init(void *barrier, uint32_t arrivals) {
    thread &t = current();
    cta &c = *t.in;
    check_place(c, barrier, "mbarrier.init");
    if (arrivals == 0 || arrivals > max_count)
        fail(EMU_BAD_OPERAND, "mbarrier.init: a count of %u; allowed: 1 to %u", arrivals, max_count);
    for (const std::unique_ptr<mbarrier> &b : c.mbarriers)
        if (b->offset == c.offset(barrier))
            fail(EMU_BAD_OPERAND, "mbarrier.init: %s is initialised already", name_barrier(*b).c_str());
    if (c.mbarriers.size() == max_mbarriers)
        fail(EMU_EXHAUSTED, "mbarrier.init: more than %u barriers in a CTA", max_mbarriers);
    std::unique_ptr<mbarrier> b(new mbarrier());
    b->in = &c;
    b->number = static_cast<uint32_t>(c.mbarriers.size());
    b->offset = c.offset(barrier);
    b->expected = b->pending = arrivals;
    b->agent = the->mbarrier_agent(b->number);
    b->made = own_epoch(t);
    uint64_t held = tag | b->number;
    memcpy(barrier, &held, sizeof(held));
    c.mbarriers.push_back(std::move(b));
}

void device_fence_mbarrier_init() {
    thread &t = current();
    for (const std::unique_ptr<mbarrier> &b : t.in->mbarriers)
        if (b->made.agent == t.index)
            b->fenced = true;
}

void device_mbarrier_arrive(void *barrier, uint32_t expect_bytes, bool expect) {
    const char *instruction = expect ? "mbarrier.arrive.expect_tx" : "mbarrier.arrive";
    the->maybe_yield();
    arrive(mbarrier_at(*current().in, barrier, instruction), instruction, expect_bytes);
}

void complete_bytes(mbarrier &b, uint32_t bytes, uint32_t copy_count) {
    b.bytes -= bytes;
    if (b.bytes < -static_cast<int64_t>(max_count))
        fail(EMU_BARRIER_COUNT, "%s: %lld bytes arrived that were not announced", name_barrier(b).c_str(),
             static_cast<long long>(-b.bytes));
    // What the copy wrote to shared memory is seen by whoever waits for this phase, through either proxy. That it has read
    // global memory is known too, but orders copies of other CTAs only after a proxy fence.
    b.gathered.seen.raise(b.in->slot, b.agent, copy_count);
    b.gathered.shared.raise(b.in->slot, b.agent, copy_count);
    the->changed();
    settle(b);
}

void arrive_from_products(mbarrier &b, const knowledge &what) {
    if (b.pending == 0)
        fail(EMU_BARRIER_COUNT, "tcgen05.commit on %s: phase %llu has had all of its %u arrivals",
             name_barrier(b).c_str(), static_cast<unsigned long long>(b.phase), b.expected);
    b.gathered.gather(what);
    --b.pending;
    the->changed();
    settle(b);
}

void device_mbarrier_arrive_remote(void *barrier, uint32_t cluster_rank) {
    const char *const instruction = "mbarrier.arrive of another CTA";
    the->maybe_yield();
    cta &peer = cluster_peer(*current().in, cluster_rank, instruction);
    check_place(*current().in, barrier, instruction);
    arrive(mbarrier_at(peer, peer.shared + current().in->offset(barrier), instruction), instruction, 0);
}

namespace {

// Suspends for a bounded time, the longer the more looks at this phase were in vain.
void suspend(mbarrier &b, const char *instruction, uint32_t parity) {
    thread &t = current();
    uint64_t first = 400 + the->chance.below(400);
    uint64_t until = t.patience >= 6 ? UINT64_MAX : the->now + (first << (2 * t.patience));
    ++t.patience;
    t.awaited = &b;
    b.waiting.push_back(&t);
    the->block(blocked_on::mbarrier, instruction, parity, until);
    t.awaited = nullptr;
    for (size_t i = 0; i < b.waiting.size(); ++i) // still there: time is up
        if (b.waiting[i] == &t) {
            b.waiting.erase(b.waiting.begin() + static_cast<ptrdiff_t>(i));
            break;
        }
}

} // namespace

bool device_mbarrier_wait(void *barrier, uint32_t parity, bool may_suspend) {
    const char *const instruction = may_suspend ? "mbarrier.try_wait" : "mbarrier.test_wait";
    if (parity > 1)
        fail(EMU_BAD_OPERAND, "%s: parity %u", instruction, parity);
    the->maybe_yield();
    thread &t = current();
    mbarrier &b = mbarrier_at(*t.in, barrier, instruction);
    seen_phase *last = &phase_of(t, &b);
    if (last->awaited < 0)
        t.patience = 0;
    // What the thread waits for is the phase that was current at its first look. A second phase that completes before the
    // thread looks again hides the first.
    auto check_overtaken = [&](const seen_phase &s) {
        if (s.awaited >= 0 && static_cast<uint64_t>(s.awaited) + 1 < b.phase)
            fail(EMU_PHASE_SKIPPED, "%s: %s has completed phase %llu; this thread still waits for phase %lld",
                 instruction, name_barrier(b).c_str(), static_cast<unsigned long long>(b.phase - 1),
                 static_cast<long long>(s.awaited));
    };
    check_overtaken(*last);
    if ((b.phase & 1) == parity) { // the phase of this parity is the current one
        last->awaited = static_cast<int64_t>(b.phase);
        if (may_suspend) {
            suspend(b, instruction, parity);
        } else {
            t.watched = &b;
            the->block(blocked_on::time, instruction, parity, the->now + the->poll_time(50, t.polls++));
        }
        last = &phase_of(t, &b);
        check_overtaken(*last);
        if ((b.phase & 1) == parity)
            return false;
    }
    last->last = static_cast<int64_t>(b.phase) - 1;
    last->awaited = -1;
    t.polls = 0;
    acquire(t, b.completed);
    return true;
}

} // namespace emu
