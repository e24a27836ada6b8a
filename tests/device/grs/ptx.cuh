// Stand-in for templates/ptx.cuh: lets the host compiler read the templates whose arithmetic tests/test_schedule.cc runs. The
// instructions are declared and nowhere defined: calling one is a link error.
#pragma once

#include "templates/args.h"

#define GRS_DEVICE inline

namespace grs {
namespace ptx {

uint32_t lane_index();
uint32_t warp_broadcast(uint32_t value, uint32_t lane);
void warp_sync();
void pause(uint32_t nanoseconds);
void fence_proxy_async();
uint64_t load_acquire_sys(const uint64_t *word);
void store_relaxed_sys(uint32_t *word, uint32_t value);
void store_relaxed_sys(uint64_t *word, uint64_t value);
void store_release_sys(uint64_t *word, uint64_t value);
void reduce_or_release_sys(uint64_t *word, uint64_t bits);
uint32_t atomic_increment_acq_rel_gpu(uint32_t *word, uint32_t last);

} // namespace ptx
} // namespace grs
