// ptx.cuh for emulated ranks: the same functions, each a call into the emulator. See docs/emulator.md.
#pragma once

#include "grs/args.h"
#include "grs/device.h"

#define GRS_DEVICE          inline
#define GRS_KERNEL(threads) extern "C" void
#define GRS_CLUSTER(ctas)
#define GRS_PARAMETER const

namespace grs {
namespace ptx {

static const emu_device *device; // set by grs_emu_bind when the shared object is loaded

// ------------------------------------------------------------------ where am I

GRS_DEVICE const emu_self &self() {
    return **device->self;
}
GRS_DEVICE uint32_t thread_index() {
    return self().thread;
}
GRS_DEVICE uint32_t block_index() {
    return self().block;
}
GRS_DEVICE uint32_t warp_index() {
    return self().thread / 32;
}
GRS_DEVICE uint32_t lane_index() {
    return self().thread % 32;
}
GRS_DEVICE char *shared_memory() {
    return self().shared;
}
GRS_DEVICE uint32_t cluster_rank() {
    return device->cluster_rank();
}
GRS_DEVICE uint32_t shared_address(const void *pointer) {
    return device->shared_address(pointer);
}

GRS_DEVICE void note(grs_role role, int32_t owner, int32_t tile, int32_t position, grs_wait wait) {
    device->note(role, owner, tile, position, wait);
}
GRS_DEVICE void note_signal_tile() {}
GRS_DEVICE void note_signal_credit() {}
GRS_DEVICE void note_signal_abort() {}

// ------------------------------------------------------------------ time

GRS_DEVICE uint64_t global_nanoseconds() {
    return device->nanoseconds();
}
GRS_DEVICE uint64_t clock_cycles() {
    return device->nanoseconds() * 2;
}
GRS_DEVICE void pause(uint32_t nanoseconds) {
    device->pause(nanoseconds);
}

// ------------------------------------------------------------------ threads of a CTA

GRS_DEVICE void block_sync() {
    device->barrier_sync(0, 0);
}
GRS_DEVICE void warp_sync() {
    device->warp_sync();
}
GRS_DEVICE void named_barrier_sync(uint32_t barrier, uint32_t threads) {
    device->barrier_sync(barrier, threads);
}
GRS_DEVICE void cluster_sync() {
    device->cluster_sync();
}
template <int count> GRS_DEVICE void registers_increase() {
    device->registers(count, true);
}
template <int count> GRS_DEVICE void registers_decrease() {
    device->registers(count, false);
}
GRS_DEVICE uint32_t warp_broadcast(uint32_t value, uint32_t lane) {
    return device->warp_broadcast(value, lane);
}

// ------------------------------------------------------------------ mbarriers

struct alignas(8) Barrier {
    uint64_t opaque;
};

GRS_DEVICE void barrier_init(Barrier *barrier, uint32_t arrivals) {
    device->mbarrier_init(barrier, arrivals);
}
GRS_DEVICE void fence_barrier_init() {
    device->fence_mbarrier_init();
}
GRS_DEVICE void barrier_arrive(Barrier *barrier) {
    device->mbarrier_arrive(barrier, 0, false);
}
GRS_DEVICE void barrier_arrive_expect(Barrier *barrier, uint32_t bytes) {
    device->mbarrier_arrive(barrier, bytes, true);
}
GRS_DEVICE void barrier_arrive_remote(Barrier *barrier, uint32_t cluster_rank) {
    device->mbarrier_arrive_remote(barrier, cluster_rank);
}
GRS_DEVICE bool barrier_try_wait(Barrier *barrier, uint32_t parity) {
    return device->mbarrier_wait(barrier, parity, true);
}
GRS_DEVICE bool barrier_test_wait(Barrier *barrier, uint32_t parity) {
    return device->mbarrier_wait(barrier, parity, false);
}

// ------------------------------------------------------------------ launches in a row: one after another here

GRS_DEVICE void wait_for_earlier_launches() {}
GRS_DEVICE void let_next_launch_start() {}

// ------------------------------------------------------------------ copy engine

GRS_DEVICE void prefetch_tensor_map(const grs_tensor_map *map) {
    device->tensor_prefetch(map);
}
GRS_DEVICE void tensor_load(void *destination, const grs_tensor_map *map, Barrier *barrier, int32_t x, int32_t y) {
    device->tensor_load(destination, map, barrier, x, y, 0);
}
GRS_DEVICE void tensor_load_multicast(void *destination, const grs_tensor_map *map, Barrier *barrier, int32_t x,
                                      int32_t y, uint16_t ctas) {
    device->tensor_load(destination, map, barrier, x, y, ctas);
}
GRS_DEVICE uint64_t policy_evict_first() {
    return 0;
}
GRS_DEVICE void tensor_store(const grs_tensor_map *map, const void *source, int32_t x, int32_t y, uint64_t) {
    device->tensor_store(map, source, x, y, -1);
}
GRS_DEVICE void tensor_store(const grs_tensor_map *map, const void *source, int32_t x, int32_t y, int32_t z, uint64_t) {
    device->tensor_store(map, source, x, y, z);
}
GRS_DEVICE void bulk_load(void *destination, const void *source, uint32_t bytes, Barrier *barrier) {
    device->bulk_load(destination, source, bytes, barrier);
}
GRS_DEVICE void bulk_store(void *destination, const void *source, uint32_t bytes) {
    device->bulk_store(destination, source, bytes);
}
GRS_DEVICE void bulk_commit() {
    device->bulk_commit();
}
template <int pending> GRS_DEVICE void bulk_wait() {
    device->bulk_wait(pending, false);
}
template <int pending> GRS_DEVICE void bulk_wait_read() {
    device->bulk_wait(pending, true);
}

// ------------------------------------------------------------------ proxy fences

GRS_DEVICE void fence_proxy_async() {
    device->fence_proxy_async(false);
}
GRS_DEVICE void fence_proxy_async_shared() {
    device->fence_proxy_async(true);
}

// ------------------------------------------------------------------ words that other ranks read or write

GRS_DEVICE uint64_t load_acquire_sys(const uint64_t *word) {
    return device->load(word, 8, EMU_ACQUIRE, EMU_SCOPE_SYS);
}
GRS_DEVICE uint64_t load_acquire_gpu(const uint64_t *word) {
    return device->load(word, 8, EMU_ACQUIRE, EMU_SCOPE_GPU);
}
GRS_DEVICE uint32_t load_relaxed_sys(const uint32_t *word) {
    return static_cast<uint32_t>(device->load(word, 4, EMU_RELAXED, EMU_SCOPE_SYS));
}
GRS_DEVICE void store_relaxed_sys(uint32_t *word, uint32_t value) {
    device->store(word, 4, value, EMU_RELAXED, EMU_SCOPE_SYS);
}
GRS_DEVICE void store_relaxed_sys(uint64_t *word, uint64_t value) {
    device->store(word, 8, value, EMU_RELAXED, EMU_SCOPE_SYS);
}
GRS_DEVICE void store_release_sys(uint64_t *word, uint64_t value) {
    device->store(word, 8, value, EMU_RELEASE, EMU_SCOPE_SYS);
}
GRS_DEVICE void store_release_sys(uint32_t *word, uint32_t value) {
    device->store(word, 4, value, EMU_RELEASE, EMU_SCOPE_SYS);
}
GRS_DEVICE void reduce_or_release_sys(uint64_t *word, uint64_t bits) {
    device->atomic(word, 8, bits, EMU_OR_RELEASE_SYS);
}
GRS_DEVICE uint32_t atomic_add_acq_rel_gpu(uint32_t *word, uint32_t value) {
    return static_cast<uint32_t>(device->atomic(word, 4, value, EMU_ADD_ACQ_REL_GPU));
}
GRS_DEVICE uint32_t atomic_increment_acq_rel_gpu(uint32_t *word, uint32_t last) {
    return static_cast<uint32_t>(device->atomic(word, 4, last, EMU_INCREMENT_ACQ_REL_GPU));
}
GRS_DEVICE uint32_t atomic_exchange_sys(uint32_t *word, uint32_t value) {
    return static_cast<uint32_t>(device->atomic(word, 4, value, EMU_EXCHANGE_RELAXED_SYS));
}
GRS_DEVICE uint64_t atomic_add_relaxed_gpu(uint64_t *word, uint64_t value) {
    return device->atomic(word, 8, value, EMU_ADD_RELAXED_GPU);
}
GRS_DEVICE uint64_t atomic_max_relaxed_gpu(uint64_t *word, uint64_t value) {
    return device->atomic(word, 8, value, EMU_MAX_RELAXED_GPU);
}
GRS_DEVICE uint32_t load_shared(const uint32_t *word) {
    return device->load_shared(word);
}
GRS_DEVICE void store_shared(uint32_t *word, uint32_t value) {
    device->store_shared(word, value);
}

// ------------------------------------------------------------------ matrices of 8x8 BF16, four at a time, by a warp

GRS_DEVICE void matrix_load_x4(uint32_t (&fragment)[4], const void *row) {
    device->matrix_load(fragment, row);
}
GRS_DEVICE void matrix_store_x4(void *row, const uint32_t (&fragment)[4]) {
    device->matrix_store(row, fragment);
}

// ------------------------------------------------------------------ BF16

GRS_DEVICE float bits_to_float(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}
GRS_DEVICE uint32_t round_bf16(float value) { // to nearest even; a NaN becomes the canonical one
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
GRS_DEVICE uint32_t pack_bf16(float low, float high) {
    return round_bf16(high) << 16 | round_bf16(low);
}
GRS_DEVICE float bf16_low(uint32_t pair) {
    return bits_to_float(pair << 16);
}
GRS_DEVICE float bf16_high(uint32_t pair) {
    return bits_to_float(pair & 0xffff0000u);
}

} // namespace ptx
} // namespace grs

extern "C" __attribute__((visibility("default"))) void grs_emu_bind(const emu_device *device) {
    grs::ptx::device = device;
}
