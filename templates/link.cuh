// The link to the peer: the tempo at which a CTA uses it, and a model of it for ranks that share a GPU.
#pragma once

#include "grs/fault.cuh"
#include "grs/ptx.cuh"

namespace grs {

// Stands still until a moment that is sure to come; returns the time.
template <class C> GRS_DEVICE uint64_t wait_until(Watch<C> &watch, uint64_t moment) {
    uint64_t now;
    watch.begin(GRS_WAIT_LINK);
    while ((now = ptx::global_nanoseconds()) < moment)
        ptx::pause(64);
    watch.end(GRS_WAIT_LINK);
    return now;
}

// A model of the link, compiled in only on request: ranks that share a GPU behave as if a link of a given speed joined them.
// One clock a rank, in nanoseconds: the moment at which the link will have sent all that was given to it. A send moves it by its
// bytes and is over when that moment comes. A thread has one send under way while it gives the next, as it has one store that
// still reads its chunk: so the way to the clock and back costs no time that a link would not cost.
template <class C> class LinkModel {
  public:
    GRS_DEVICE void send(Watch<C> &watch, uint32_t bytes) {
        if constexpr (C::pace_model) {
            finish(watch);
            uint64_t cost = watch.args.pace_ps_per_kib * bytes / 1024000, *clock = &watch.me.control->pace;
            ptx::atomic_max_relaxed_gpu(clock, ptx::global_nanoseconds());
            over_ = ptx::atomic_add_relaxed_gpu(clock, cost) + cost;
        }
    }
    // Waits until the last send is over.
    GRS_DEVICE void finish(Watch<C> &watch) {
        if constexpr (C::pace_model)
            wait_until<C>(watch, over_);
    }

  private:
    uint64_t over_ = 0;
};

// The model's way of one signal: what a bit takes longer to another GPU than to a rank of the same.
template <class C> class SignalModel {
  public:
    // Begins with the first look.
    GRS_DEVICE bool arrived(const grs_args &args) {
        if constexpr (C::pace_model) {
            uint64_t now = ptx::global_nanoseconds();
            if (arrival_ == 0)
                arrival_ = now + args.pace_signal_ns;
            return now >= arrival_;
        }
        return true;
    }
    // Waits until it has arrived; the next look is for the next signal.
    GRS_DEVICE void finish(Watch<C> &watch) {
        if constexpr (C::pace_model) {
            if (!arrived(watch.args))
                wait_until<C>(watch, arrival_);
            arrival_ = 0;
        }
    }

  private:
    uint64_t arrival_ = 0;
};

// Spreads a CTA's sends over its share of the link. When all CTAs push at once the link backs up into the copy engines, which
// work in order, and the loads of A and B wait behind; at the rate that the link takes, nothing queues.
template <class C> class Tempo {
  public:
    GRS_DEVICE explicit Tempo(uint32_t picoseconds_a_byte) : cost_(picoseconds_a_byte) {}
    GRS_DEVICE void wait_turn(Watch<C> &watch, uint32_t bytes) {
        if (cost_ == 0)
            return;
        uint64_t now = ptx::global_nanoseconds();
        if (now < next_)
            now = wait_until<C>(watch, next_);
        if (bytes != bytes_) // pieces differ at edges alone
            bytes_ = bytes, gap_ = static_cast<uint64_t>(bytes) * cost_ / 1000 * lanes_a_tile;
        next_ = now + gap_;
    }

  private:
    // A lane that has a part of every tile has that part of the share; one that has every so manieth tile has it all.
    static constexpr int32_t lanes_a_tile = C::place_shared ? 1 : C::ship_lanes;
    uint32_t cost_, bytes_ = 0;   // of the last piece
    uint64_t gap_ = 0, next_ = 0; // after it; the moment of the next one
};

} // namespace grs
