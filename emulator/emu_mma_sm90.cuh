// mma_sm90.cuh for emulated ranks: the same functions, each a call into the emulator.
#pragma once

#include "grs/descriptor_sm90.cuh"
#include "grs/ptx.cuh"

namespace grs {
namespace mma {

GRS_DEVICE void warpgroup_arrive() {
    ptx::device->products_fence();
}
GRS_DEVICE void warpgroup_commit() {
    ptx::device->products_commit();
}
template <int pending> GRS_DEVICE void warpgroup_wait() {
    ptx::device->products_wait(pending);
}
GRS_DEVICE void keep(float &) {}

template <int n> struct Product {
    static GRS_DEVICE void multiply(float (&acc)[n / 2], uint64_t a, uint64_t b, bool accumulate) {
        ptx::device->products_issue(acc, n, a, b, accumulate);
    }
};

} // namespace mma
} // namespace grs
