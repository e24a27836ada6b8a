// Who runs next. A thread runs until it blocks (or yields); whatever the hardware does on its own is an event that the
// schedule puts off. Deadlines and sleeps go by emulated time, which passes a little with every step and jumps when nobody
// can run.
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <string>

#include "emulator/monitor.h"

namespace emu {

machine *the;

namespace {
constexpr uint64_t step_ns = 5;
constexpr size_t stack_bytes = 64 << 10;
constexpr uint32_t looks_for_deadlock = 80; // of every waiter, without any change; the kernel's spins act on every 64th
constexpr uint32_t kinds = 6;               // of events
enum lazy_kind : uint8_t { at_once, soon, later, when_idle };

void drop(const event &e) {
    drop_transfer(e.copy);
    drop_commit(e.commit);
}
} // namespace

machine::machine(emu_schedule policy, uint64_t seed) : chance(seed), policy_(policy) {
    the = this;
    report.rank = report.cta = report.role = report.owner = -1;
    report.tile = report.position = report.launch = -1;
}

machine::~machine() {
    for (const event &e : late_)
        drop(e);
    for (const timed_event &e : timed_)
        drop(e.what);
    ctas.clear();
    grids.clear();
    words.clear();
    clock_forget();
    if (the == this)
        the = nullptr;
}

bool machine::prepare() {
    uint32_t total = 0;
    for (const std::unique_ptr<grid> &g : grids)
        for (const launch &l : g->launches)
            max_threads =
                std::max(max_threads, (l.threads + warpgroup_threads - 1) / warpgroup_threads * warpgroup_threads);
    for (const std::unique_ptr<grid> &g : grids) {
        uint32_t most = 0;
        for (const launch &l : g->launches)
            most = std::max(most, l.ctas);
        for (uint32_t i = 0; i < most; ++i) {
            std::unique_ptr<cta> c(new cta());
            c->slot = total++;
            c->block = i;
            c->of = g.get();
            g->ctas.push_back(c.get());
            ctas.push_back(std::move(c));
        }
    }
    if (total > max_ctas || agents() > max_agents)
        return false;
    clock_space(total, agents());
    for (const std::unique_ptr<cta> &c : ctas) {
        c->counts.assign(agents(), 0);
        c->copier_of.assign(max_threads, -1);
    }
    draw_policy();
    return stacks_.reserve(static_cast<size_t>(total) * max_threads, stack_bytes);
}

// ---------------------------------------------------------------- the schedule of this run

void machine::draw_policy() {
    static const uint32_t delays[] = {4, 40, 400, 4000, 40000};
    mean_delay_ = delays[chance.below(5)];
    yield_one_in_ = policy_ == EMU_SCHEDULE_EAGER || policy_ == EMU_SCHEDULE_LAZY ? 0 : 1u << chance.below(6);
    poll_limit_ = 6 + chance.below(5);
    late_one_in_ = 1u << (1 + chance.below(6));
    change_every_ = 200u << chance.below(6);
    rank_priority_.resize(ctas.size());
    for (uint32_t &p : rank_priority_)
        p = chance.below(4);
    warp_priority_.resize(ctas.size() * (max_threads / warp_lanes));
    for (uint32_t &p : warp_priority_)
        p = chance.below(1000);
    laziness_.resize(ctas.size() * kinds);
    for (uint8_t &l : laziness_)
        l = static_cast<uint8_t>(chance.below(4));
}

uint64_t machine::priority_of(const thread *t) const {
    const cta &c = *t->in;
    return static_cast<uint64_t>(rank_priority_[static_cast<size_t>(c.rank) % rank_priority_.size()]) << 32 |
           warp_priority_[c.slot * (max_threads / warp_lanes) + t->index / warp_lanes];
}

void machine::enqueue(thread *t) {
    if (t->queued)
        return;
    t->queued = true;
    if (policy_ == EMU_SCHEDULE_ADVERSARIAL) {
        heap_.push_back(ready{priority_of(t), order_++, t});
        std::push_heap(heap_.begin(), heap_.end());
    } else {
        queue_.push_back(t);
    }
}

thread *machine::pick() {
    thread *t = nullptr;
    if (policy_ == EMU_SCHEDULE_ADVERSARIAL) {
        if (heap_.empty())
            return nullptr;
        std::pop_heap(heap_.begin(), heap_.end());
        t = heap_.back().of;
        heap_.pop_back();
    } else if (policy_ == EMU_SCHEDULE_RANDOM) {
        if (queue_.empty())
            return nullptr;
        std::swap(queue_[chance.below(static_cast<uint32_t>(queue_.size()))], queue_.back());
        t = queue_.back();
        queue_.pop_back();
    } else { // first come, first served
        if (queue_head_ == queue_.size())
            return nullptr;
        t = queue_[queue_head_++];
        if (queue_head_ == queue_.size() || queue_head_ == 1u << 16) {
            queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(queue_head_));
            queue_head_ = 0;
        }
    }
    t->queued = false;
    return t;
}

// ---------------------------------------------------------------- threads

void machine::thread_main(void *argument) {
    fiber_entered();
    thread *t = static_cast<thread *>(argument);
    try {
        t->in->running->entry(&t->in->running->args);
    } catch (const halted &) { // fail() was called: nobody will run this thread again
    }
    t->done = true;
    fiber_switch(t->context, the->main_, true);
}

void machine::resume(thread *t) {
    current = t;
    set_self(&t->self);
    ++report.switches;
    fiber_switch(main_, t->context);
    current = nullptr;
    if (stopped)
        throw halted{};
    if (t->done)
        finish(t);
}

void machine::wake(thread *t) {
    t->waits = blocked_on::nothing;
    t->timer_stamp = ++order_;
    enqueue(t);
}

void machine::block(blocked_on what, const char *instruction, uint64_t detail, uint64_t until) {
    thread *t = current;
    t->waits = what;
    t->instruction = instruction;
    t->wait_detail = detail;
    t->timer_stamp = ++order_;
    if (until && until != UINT64_MAX) {
        timers_.push_back(timer{until, order_++, t, t->timer_stamp});
        std::push_heap(timers_.begin(), timers_.end(), std::greater<timer>());
    }
    fiber_switch(t->context, main_);
}

void machine::maybe_yield() {
    if (yield_one_in_ == 0 || !chance.one_in(yield_one_in_))
        return;
    enqueue(current);
    fiber_switch(current->context, main_);
}

// ---------------------------------------------------------------- events

void machine::post(const event &e) {
    uint8_t laziness = at_once;
    uint64_t delay = 0;
    size_t rank = e.in ? static_cast<size_t>(e.in->rank) : e.of->index;
    size_t lazy_index = rank % ctas.size() * kinds + static_cast<size_t>(e.kind);
    switch (policy_) {
    case EMU_SCHEDULE_EAGER: break;
    case EMU_SCHEDULE_LAZY: laziness = when_idle; break;
    case EMU_SCHEDULE_RANDOM:
        laziness = chance.one_in(late_one_in_) ? when_idle : later;
        delay = chance.spread(mean_delay_);
        break;
    case EMU_SCHEDULE_ADVERSARIAL:
        laziness = laziness_[lazy_index];
        delay = laziness == soon ? chance.spread(50) : chance.spread(20000);
        break;
    }
    if (laziness == at_once && e.kind != event_kind::start) {
        happen(e);
    } else if (laziness == when_idle) {
        late_.push_back(e);
    } else {
        timed_.push_back(timed_event{steps_ + delay, order_++, e});
        std::push_heap(timed_.begin(), timed_.end(), std::greater<timed_event>());
    }
}

void machine::happen(const event &e) {
    thread *caller = current; // an event may happen within the instruction that posts it
    current = nullptr;
    changed();
    switch (e.kind) {
    case event_kind::load:
    case event_kind::store_read:
    case event_kind::store_land:
        ++report.transfers;
        transfer_step(e);
        break;
    case event_kind::products: products_event(*e.in, e.warpgroup_index); break;
    case event_kind::start: start(e.of); break;
    case event_kind::tensor_commit: tensor_commit_step(e.commit); break;
    }
    current = caller;
}

void machine::pop_timers(bool first_too) {
    while (!timers_.empty()) {
        const timer &first = timers_.front();
        bool stale = first.stamp != first.of->timer_stamp || first.of->waits == blocked_on::nothing;
        if (!stale && first.at > now && !first_too)
            return;
        thread *t = first.of;
        uint64_t at = first.at;
        std::pop_heap(timers_.begin(), timers_.end(), std::greater<timer>());
        timers_.pop_back();
        if (stale)
            continue;
        now = std::max(now, at);
        wake(t);
        if (first_too)
            return;
    }
}

// Every thread that polls looks again.
void machine::everybody_looks() {
    for (const std::unique_ptr<cta> &c : ctas)
        for (thread &t : c->threads)
            if (!t.done && (t.waits == blocked_on::mbarrier || t.waits == blocked_on::time))
                wake(&t);
}

// Nobody can run. False: and nobody ever will.
bool machine::idle() {
    if (version != quiet_version_) {
        quiet_version_ = version;
        quiet_ = 0;
        idle_rounds_ = 0;
    }
    if (!timers_.empty() && quiet_ <= 2 * timers_.size()) {
        ++quiet_;
        pop_timers(true);
        return true;
    }
    if (!timed_.empty()) {
        steps_ = std::max(steps_, timed_.front().step);
        return true;
    }
    if (!late_.empty()) {
        std::swap(late_[chance.below(static_cast<uint32_t>(late_.size()))], late_.back());
        event e = late_.back();
        late_.pop_back();
        happen(e);
        return true;
    }
    if (running_grids_ == 0)
        return false;
    if (++idle_rounds_ > looks_for_deadlock && !deadlocked)
        note_deadlock();
    if (idle_rounds_ > 8 * looks_for_deadlock)
        return false; // not even the kernel's own deadlines end it
    if (deadlocked && idle_rounds_ % 20 == 0)
        now += deadline_ns;
    everybody_looks();
    return true;
}

void machine::loop() {
    for (;;) {
        if (++steps_ > max_steps)
            fail(EMU_EXHAUSTED, "more than %llu steps", static_cast<unsigned long long>(max_steps));
        now += step_ns;
        while (!timed_.empty() && timed_.front().step <= steps_) {
            event e = timed_.front().what;
            std::pop_heap(timed_.begin(), timed_.end(), std::greater<timed_event>());
            timed_.pop_back();
            happen(e);
        }
        if (!timers_.empty() && timers_.front().at <= now)
            pop_timers(false);
        if (policy_ == EMU_SCHEDULE_RANDOM && !late_.empty() && chance.one_in(4 * mean_delay_)) {
            std::swap(late_[chance.below(static_cast<uint32_t>(late_.size()))], late_.back());
            event e = late_.back();
            late_.pop_back();
            happen(e);
        }
        if (policy_ == EMU_SCHEDULE_ADVERSARIAL && chance.one_in(change_every_)) {
            warp_priority_[chance.below(static_cast<uint32_t>(warp_priority_.size()))] = chance.below(1000);
            laziness_[chance.below(static_cast<uint32_t>(laziness_.size()))] = static_cast<uint8_t>(chance.below(4));
            if (chance.one_in(4))
                rank_priority_[chance.below(static_cast<uint32_t>(rank_priority_.size()))] = chance.below(4);
        }
        if (thread *t = pick())
            resume(t);
        else if (!idle())
            return;
    }
}

void machine::run() {
    try {
        for (const std::unique_ptr<grid> &g : grids)
            if (!g->launches.empty()) {
                ++running_grids_;
                post(event{event_kind::start, nullptr, nullptr, 0, g.get()});
            }
        loop();
        if (deadlocked && running_grids_) {
            size_t used = strlen(report.text);
            snprintf(report.text + used, sizeof(report.text) - used,
                     "  the kernel's own deadline did not end it: %u grids still run\n", running_grids_);
        } else if (!deadlocked) {
            if (const region *r = memory.damaged())
                fail(EMU_STRAY_WRITE, "memory beside rank %d's %s changed", r->rank, r->name);
        }
    } catch (const halted &) {}
    report.steps = steps_;
}

// How much a waiting thread says of a deadlock: those at a barrier of their CTA or warp only wait for the others.
static int telling(const thread &t) {
    switch (t.waits) {
    case blocked_on::time: return 3;
    case blocked_on::mbarrier: return 2;
    case blocked_on::barrier:
    case blocked_on::warp:
    case blocked_on::cluster: return 0;
    default: return 1;
    }
}

void machine::note_deadlock() {
    constexpr size_t most = 24;
    std::vector<const thread *> waiting; // one of each kind: warps of a role that wait for the same thing are alike
    for (const std::unique_ptr<cta> &c : ctas) {
        size_t first = waiting.size();
        for (const thread &t : c->threads) {
            bool is_new = !t.done && t.waits != blocked_on::nothing;
            for (size_t i = first; i < waiting.size() && is_new; ++i)
                is_new = waiting[i]->waits != t.waits || waiting[i]->awaited != t.awaited ||
                         waiting[i]->wait_detail != t.wait_detail || (telling(t) && waiting[i]->at.role != t.at.role);
            if (is_new)
                waiting.push_back(&t);
        }
    }
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const thread *a, const thread *b) { return telling(*a) > telling(*b); });
    std::string text = "nobody can run:\n";
    for (size_t i = 0; i < waiting.size() && i < most; ++i)
        text += "  " + what_waits(*waiting[i]) + "\n";
    if (waiting.size() > most)
        text += "  and " + std::to_string(waiting.size() - most) + " more\n";
    deadlocked = true;
    report.verdict = EMU_DEADLOCK;
    if (!waiting.empty())
        blame(*waiting[0]);
    snprintf(report.text, sizeof(report.text), "%s", text.c_str());
}

} // namespace emu
