// What ranks tell one another: bits (a partial has landed), credits (a launch has been left), epochs (which launch it is).
//
//   sender     bulk store, commit, wait until landed (not merely read), red.release.sys of the bit into downstream's mask
//   receiver   ld.acquire.sys of the word until the bit is set, fence.proxy.async, then the copy engine's load
//   leaving    the last CTA of a launch zeroes this rank's mask, counts the epoch, and then releases the credit to upstream
//   starting   nothing is stored to a peer in launch e before downstream's credit has reached e
//
// So nothing is cleared while a launch may still write it, and no barrier across ranks exists.
#pragma once

#include "grs/bits.cuh"
#include "grs/fault.cuh"
#include "grs/ptx.cuh"
#include "grs/schedule.cuh"

namespace grs {

// Bits set by upstream. The last word read is kept: bits that were set in it cost no further look.
template <class C> class Upstream {
  public:
    GRS_DEVICE Upstream(const Geometry<C> &geometry, const uint64_t *mask) : geometry_(geometry), mask_(mask) {}

    // Waits until upstream's partial of this tile lies in this rank's slots, visible to the copy engine.
    GRS_DEVICE bool wait_landed(Watch<C> &watch, const Tile &tile) {
        int32_t bit = Bits<C>::index(geometry_, tile.turn, tile.index);
        uint64_t wanted = uint64_t{1} << (bit % 64);
        if (bit / 64 != word_)
            word_ = bit / 64, seen_ = 0;
        watch.note(GRS_WAIT_UPSTREAM);
        late_ = (seen_ & wanted) == 0 && ((seen_ = ptx::load_acquire_sys(mask_ + word_)) & wanted) == 0;
        if (late_) {
            Patience<C> patience(watch, GRS_WAIT_UPSTREAM);
            while (((seen_ = ptx::load_acquire_sys(mask_ + word_)) & wanted) == 0) {
                if (!patience.more(seen_, wanted))
                    return false;
                ptx::pause(32);
            }
        }
        ptx::fence_proxy_async();
        return true;
    }

    // The last partial had not landed when it was first looked for: somebody may be waiting for it.
    GRS_DEVICE bool late() const { return late_; }

  private:
    Geometry<C> geometry_;
    const uint64_t *mask_;
    int32_t word_ = -1;
    uint64_t seen_ = 0;
    bool late_ = false;
};

// Tells downstream that the calling thread's stores of a tile have landed (it has waited for them).
template <class C>
GRS_DEVICE void signal_landed(const Geometry<C> &geometry, const grs_rank_args &me, int32_t turn, int32_t owner,
                              int32_t index) {
    int32_t bit = Bits<C>::index(geometry, turn + Geometry<C>::segments_per_rank, index); // one turn later downstream
    if constexpr (C::group_tiles != 1) {
        uint32_t last = static_cast<uint32_t>(Bits<C>::tiles(geometry, owner, index)) - 1;
        if (ptx::atomic_increment_acq_rel_gpu(me.groups + bit, last) != last)
            return; // counts to `last`, then is 0 again
    }
    ptx::note_signal_tile();
    ptx::reduce_or_release_sys(me.peer_mask + bit / 64, uint64_t{1} << (bit % 64));
}

// Waits until downstream has left the launch before this one: its slots are read, its mask is zero.
template <class C> GRS_DEVICE bool wait_credit(Watch<C> &watch) {
    uint64_t epoch = watch.epoch();
    watch.note(GRS_WAIT_CREDIT);
    uint64_t credit = ptx::load_acquire_sys(&watch.me.control->credit);
    Patience<C> patience(watch, GRS_WAIT_CREDIT);
    while (credit < epoch) { // `<`: downstream may already be further
        if (!patience.more(credit, epoch))
            return false;
        ptx::pause(32);
        credit = ptx::load_acquire_sys(&watch.me.control->credit);
    }
    ptx::fence_proxy_async();
    return true;
}

// When this launch began and ended on this rank, compiled in with the wait counters. One thread each: of the first CTA, and of the
// one that leaves last. The clock is read before anything that takes time.
template <class C> GRS_DEVICE void stamp_begin(const grs_rank_args &me) {
    if constexpr (C::count_waits) {
        uint64_t now = ptx::global_nanoseconds();
        uint64_t epoch = ptx::load_acquire_gpu(&me.control->epoch);
        ptx::store_relaxed_sys(&me.stamps[epoch % GRS_STAMPS].begin, now);
    }
}
template <class C> GRS_DEVICE void stamp_end(const grs_rank_args &me, uint64_t epoch) {
    if constexpr (C::count_waits)
        ptx::store_relaxed_sys(&me.stamps[epoch % GRS_STAMPS].end, ptx::global_nanoseconds());
}

// One whole warp of a CTA that has finished. The last CTA of the launch clears up and tells upstream.
template <class C> GRS_DEVICE void depart(const Geometry<C> &geometry, const grs_args &args, const grs_rank_args &me) {
    uint32_t lane = ptx::lane_index(), last = static_cast<uint32_t>(args.grid) - 1, before = 0;
    if (lane == 0)
        before = ptx::atomic_increment_acq_rel_gpu(&me.control->departed, last);
    if (ptx::warp_broadcast(before, 0) != last)
        return;
    if constexpr (C::ring > 1)
        for (int32_t word = static_cast<int32_t>(lane); word < Bits<C>::words(geometry); word += 32)
            ptx::store_relaxed_sys(me.mask + word, 0);
    ptx::warp_sync();
    if (lane != 0)
        return;
    uint64_t epoch = ptx::load_acquire_gpu(&me.control->epoch);
    stamp_end<C>(me, epoch);
    ptx::store_relaxed_sys(&me.control->epoch, epoch + 1);
    if constexpr (C::ring > 1) {
        ptx::note_signal_credit();
        ptx::store_release_sys(&me.upstream->credit, epoch + 1);
    }
}

} // namespace grs
