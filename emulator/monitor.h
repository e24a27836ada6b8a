// What the ring protocol promises about the words that ranks share, checked whenever one of them changes.
//
//   mask      a bit is set once a launch, after the mask was cleared; it is cleared after it was seen, by the launch that it
//             belongs to, when every CTA of the rank has departed
//   credit    counts up by one a launch, after the mask is clear, every CTA has departed and the epoch has been counted
//   launch    leaves no bit behind, and has set all of them
#ifndef GRS_EMULATOR_MONITOR_H
#define GRS_EMULATOR_MONITOR_H

#include <vector>

#include "emulator/machine.h"

namespace emu {

struct monitored_rank {
    region *mask = nullptr, *control = nullptr;
    struct bit {
        int64_t set_by = -1; // launch of the rank that set it; -1: clear
        bool seen = false;
    };
    std::vector<bit> bits;
    std::vector<int64_t> set_in;    // bits set in each launch
    std::vector<uint32_t> departed; // CTAs that have left each launch
};

struct monitor {
    std::vector<monitored_rank> ranks;
};

} // namespace emu

#endif
