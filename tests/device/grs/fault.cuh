// Stand-in for templates/fault.cuh: what templates/signal.cuh names of it.
#pragma once

#include "grs/ptx.cuh"

namespace grs {

struct Watch {
    const grs_rank_args &me;
    uint64_t epoch;
};
struct Patience {
    Patience(Watch &, grs_wait);
    bool more(uint64_t word, uint64_t expected);
};

} // namespace grs
