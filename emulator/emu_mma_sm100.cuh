// mma_sm100.cuh for emulated ranks: the same functions, each a call into the emulator.
#pragma once

#include "grs/descriptor_sm100.cuh"
#include "grs/ptx.cuh"

namespace grs {
namespace tcgen05 {

constexpr int32_t lanes_a_warp = 32;
constexpr int32_t columns_a_load = 32; // of load()

template <int32_t group, int32_t columns> GRS_DEVICE void allocate(uint32_t *address) {
    ptx::device->tcgen05_alloc(group, address, columns);
}
template <int32_t group, int32_t columns> GRS_DEVICE void free(uint32_t address) {
    ptx::device->tcgen05_free(group, address, columns);
}
template <int32_t group> GRS_DEVICE void give_up_allocating() {
    ptx::device->tcgen05_relinquish(group);
}

GRS_DEVICE void fence_before_sync() {
    ptx::device->tcgen05_fence(false);
}
GRS_DEVICE void fence_after_sync() {
    ptx::device->tcgen05_fence(true);
}

GRS_DEVICE void load_pair(void *destination, const grs_tensor_map *map, ptx::Barrier *barrier, int32_t x, int32_t y,
                          uint32_t leader) {
    ptx::device->tensor_load_pair(destination, map, barrier, x, y, leader);
}

GRS_DEVICE bool elect() {
    return ptx::device->elect();
}
template <int32_t group>
GRS_DEVICE void multiply(uint32_t accumulator, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate) {
    ptx::device->tcgen05_multiply(group, accumulator, a, b, instruction, accumulate);
}
template <int32_t group> GRS_DEVICE void commit(ptx::Barrier *barrier) {
    ptx::device->tcgen05_commit(group, barrier, 0);
}
template <int32_t group> GRS_DEVICE void commit_multicast(ptx::Barrier *barrier, uint16_t ctas) {
    ptx::device->tcgen05_commit(group, barrier, ctas);
}

GRS_DEVICE void load(uint32_t (&value)[32], uint32_t address) {
    ptx::device->tcgen05_load(value, 32, address);
}
GRS_DEVICE void wait_loaded(uint32_t (&)[32]) {
    ptx::device->tcgen05_wait_load();
}
GRS_DEVICE float as_float(uint32_t bits) {
    return ptx::bits_to_float(bits);
}

GRS_DEVICE void load_unit(uint32_t (&value)[4], const void *unit) {
    ptx::device->unit_load(value, unit);
}
GRS_DEVICE void store_unit(void *unit, const uint32_t (&value)[4]) {
    ptx::device->unit_store(unit, value);
}

} // namespace tcgen05
} // namespace grs
