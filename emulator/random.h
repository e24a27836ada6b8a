// The one source of chance: everything the scheduler decides comes from one seeded generator, so a seed replays a run.
#ifndef GRS_EMULATOR_RANDOM_H
#define GRS_EMULATOR_RANDOM_H

#include <stdint.h>

namespace emu {

// xoshiro256** seeded through splitmix64 (both public domain, by Blackman and Vigna).
class random_source {
  public:
    explicit random_source(uint64_t seed) {
        for (uint64_t &word : state_) {
            uint64_t z = (seed += 0x9e3779b97f4a7c15u);
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
            z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
            word = z ^ (z >> 31);
        }
    }
    uint64_t next() {
        uint64_t result = rotate(state_[1] * 5, 7) * 9, t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = rotate(state_[3], 45);
        return result;
    }
    // 0 … bound-1; the bias of a bound far below 2^32 is of no concern here.
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(((next() >> 32) * bound) >> 32); }
    bool one_in(uint32_t n) { return below(n) == 0; }
    // A step count that is often near 1 and sometimes near `most`: uniform in its logarithm.
    uint32_t spread(uint32_t most) {
        uint32_t bits = 0;
        while ((most >> bits) > 1)
            ++bits;
        return 1 + below(2u << below(bits + 1));
    }

  private:
    static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }
    uint64_t state_[4];
};

} // namespace emu

#endif
