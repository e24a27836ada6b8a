// Waiting with a deadline, and leaving together when one expires.
//
// Every spin goes through a Watch. When a deadline passes, the first waiter of the rank writes the wait record (host-visible)
// and raises the abort word of every rank; every other spin notices the word, sets the CTA's `leave` flag and gives up. The
// roles made of one thread leave where they stand, but for the loader. The math warps must decide alike, so they never leave on
// their own: the prefetcher tells them, with the tile; from then on loader and math only run A and B through.
#pragma once

#include "grs/ptx.cuh"
#include "grs/schedule.cuh"

namespace grs {

template <class C> struct Watch {
    const grs_args &args;
    const grs_rank_args &me;
    uint32_t *leave; // shared: not 0 when this CTA is to leave
    grs_role role;
    int32_t cta;
    int32_t owner = -1, index = -1, position = -1; // of the tile in hand
    bool counts;                                   // of the threads of a role, one

    GRS_DEVICE Watch(const grs_args &args, const grs_rank_args &me, uint32_t *leave, grs_role role, int32_t cta,
                     bool counts)
        : args(args), me(me), leave(leave), role(role), cta(cta), counts(counts) {
        begin(GRS_WAIT_NONE);
    }
    Watch(const Watch &) = delete;
    GRS_DEVICE ~Watch() { end(GRS_WAIT_NONE); }

    GRS_DEVICE void at(const Tile &tile, int32_t tile_position) {
        owner = tile.owner;
        index = tile.index;
        at(tile_position);
    }
    GRS_DEVICE void at(int32_t tile_position) {
        position = tile_position;
        note(GRS_WAIT_NONE);
    }
    GRS_DEVICE void note(grs_wait what) const { ptx::note(role, owner, index, position, what); }

    GRS_DEVICE bool leaving() const { return ptx::load_shared(leave) != 0; }

    // The number of this launch. It changes only when every CTA has departed, so any thread may read it at any time.
    GRS_DEVICE uint64_t epoch() const { return ptx::load_acquire_gpu(&me.control->epoch); }

    // Looks at the abort word: has any rank given up?
    GRS_DEVICE bool aborted() {
        if (ptx::load_relaxed_sys(&me.control->abort) == 0)
            return false;
        ptx::store_shared(leave, 1);
        return true;
    }

    // True once the phase of this parity has completed; false when the CTA is to leave.
    GRS_DEVICE bool wait(ptx::Barrier *barrier, uint32_t parity, grs_wait what);
    // The same, but waits on although the CTA is leaving: for barriers that complete without another role.
    GRS_DEVICE void wait_on(ptx::Barrier *barrier, uint32_t parity, grs_wait what);

    // Wait counters, compiled in only on request: cycles, by role and by what was waited for; under GRS_WAIT_NONE all cycles
    // that the role was there. The start is taken off and the end added, so that no register holds it in between; the result of
    // the addition is not read, so that nobody waits for memory.
    GRS_DEVICE void begin(grs_wait what) {
        if constexpr (C::count_waits)
            add(what, 0 - ptx::clock_cycles());
    }
    GRS_DEVICE void end(grs_wait what) {
        if constexpr (C::count_waits)
            add(what, ptx::clock_cycles());
    }

    GRS_DEVICE void raise(grs_wait what, uint64_t word, uint64_t expected, uint64_t waited) {
        if (ptx::atomic_exchange_sys(&me.control->abort, 1) == 0) {
            grs_wait_record *record = me.record;
            record->role = role;
            record->wait = what;
            record->rank = me.rank;
            record->cta = cta;
            record->owner = owner;
            record->tile = index;
            record->position = position;
            record->epoch = epoch();
            record->word = word;
            record->expected = expected;
            record->waited_ns = waited;
            ptx::store_release_sys(&record->complete, 1);
            ptx::note_signal_abort();
            for (int32_t rank = 0; rank < args.ring; ++rank)
                ptx::store_relaxed_sys(&me.everyone[rank]->abort, 1);
        }
        ptx::store_shared(leave, 1);
    }

  private:
    GRS_DEVICE void add(grs_wait what, uint64_t cycles) {
        if (counts)
            ptx::atomic_add_relaxed_gpu(me.counters + (cta * GRS_ROLE_COUNT + role) * GRS_WAIT_COUNT + what, cycles);
    }
};

// One spin: call `more` after each look that failed.
template <class C> class Patience {
  public:
    GRS_DEVICE Patience(Watch<C> &watch, grs_wait what) : watch_(watch), what_(what) {
        watch.note(what);
        watch.begin(what);
    }
    GRS_DEVICE ~Patience() { watch_.end(what_); }

    // False: leave. `word` and `expected` go into the record.
    GRS_DEVICE bool more(uint64_t word, uint64_t expected) {
        if (watch_.leaving())
            return false;
        if (++looks_ % looks_between_checks != 0)
            return true;
        if (watch_.aborted())
            return false;
        uint64_t now = ptx::global_nanoseconds();
        if (since_ == 0)
            since_ = now;
        if (watch_.args.deadline_ns == 0 || now - since_ < deadline())
            return true;
        watch_.raise(what_, word, expected, now - since_);
        return false;
    }

  private:
    // Who waits for another rank gives up first, so that the record names the cause and not a role that waits in its wake.
    GRS_DEVICE uint64_t deadline() const {
        bool remote = what_ == GRS_WAIT_UPSTREAM || what_ == GRS_WAIT_CREDIT;
        return watch_.args.deadline_ns + (remote ? 0 : watch_.args.deadline_ns / 8);
    }

    static constexpr uint32_t looks_between_checks = 64;
    Watch<C> &watch_;
    grs_wait what_;
    uint32_t looks_ = 0;
    uint64_t since_ = 0;
};

template <class C> GRS_DEVICE bool Watch<C>::wait(ptx::Barrier *barrier, uint32_t parity, grs_wait what) {
    note(what);
    if (ptx::barrier_try_wait(barrier, parity))
        return true;
    Patience<C> patience(*this, what);
    while (!ptx::barrier_try_wait(barrier, parity))
        if (!patience.more(parity ^ 1, parity))
            return false;
    return true;
}

template <class C> GRS_DEVICE void Watch<C>::wait_on(ptx::Barrier *barrier, uint32_t parity, grs_wait what) {
    note(what);
    if (ptx::barrier_try_wait(barrier, parity))
        return;
    Patience<C> patience(*this, what);
    while (!ptx::barrier_try_wait(barrier, parity))
        patience.more(parity ^ 1, parity);
}

// Test hook, compiled in only on request: the sender of one rank stands still before one tile until the CTA is to leave.
template <class C> GRS_DEVICE bool stall(Watch<C> &watch) {
    uint64_t here = static_cast<uint64_t>(watch.me.rank + 1) << 32 | static_cast<uint32_t>(watch.position + 1);
    while (watch.args.stall == here && !watch.leaving()) {
        watch.aborted();
        ptx::pause(1000);
    }
    return watch.args.stall != here;
}

} // namespace grs
