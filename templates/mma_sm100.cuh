// Blackwell's tensor cores and tensor memory: one instruction a function. Source: PTX ISA, "TensorCore 5th Generation Family
// Instructions". `group` is 1 for a CTA on its own, 2 for a CTA pair.
//
// Tensor memory is 128 lanes x 512 columns of 32 bits a CTA. An accumulator of n columns holds row r of D in lane r. A warp
// reads the 32 lanes of its quadrant, warp % 4.
#pragma once

#include "grs/descriptor_sm100.cuh"
#include "grs/ptx.cuh"

namespace grs {
namespace tcgen05 {

constexpr int32_t lanes_a_warp = 32;
constexpr int32_t columns_a_load = 32; // of load()

// ------------------------------------------------------------------ tensor memory: whole warps

// Waits until `columns` (a power of two from 32) are free on this SM and writes the address of the first to `address`, in
// shared memory. With group 2 both CTAs of the pair call it, and get the same columns. The same warp frees them.
template <int32_t group, int32_t columns> GRS_DEVICE void allocate(uint32_t *address) {
    asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;"
                 :
                 : "r"(ptx::shared_address(address)), "n"(columns), "n"(group)
                 : "memory");
}

template <int32_t group, int32_t columns> GRS_DEVICE void free(uint32_t address) {
    asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;"
                 :
                 : "r"(address), "n"(columns), "n"(group)
                 : "memory");
}

// This CTA will allocate nothing more: another one on the SM may.
template <int32_t group> GRS_DEVICE void give_up_allocating() {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(group) : "memory");
}

// ------------------------------------------------------------------ order between threads

// Between this thread's tensor-memory accesses and a barrier that it then arrives at, or a barrier that it has waited on and
// the accesses that follow.
GRS_DEVICE void fence_before_sync() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
GRS_DEVICE void fence_after_sync() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// ------------------------------------------------------------------ copy engine

// As ptx::tensor_load, but the barrier that counts the bytes is the one at this place in CTA `leader` of the pair.
GRS_DEVICE void load_pair(void *destination, const grs_tensor_map *map, ptx::Barrier *barrier, int32_t x, int32_t y,
                          uint32_t leader) {
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %2, %5;\n"
                 "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], "
                 "[%1, {%3, %4}], [remote];\n"
                 "}"
                 :
                 : "r"(ptx::shared_address(destination)), "l"(map), "r"(ptx::shared_address(barrier)), "r"(x), "r"(y),
                   "r"(leader)
                 : "memory");
}

// ------------------------------------------------------------------ products: one thread, always the same

// True in one lane of a whole warp, always the same lane.
GRS_DEVICE bool elect() {
    uint32_t elected;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(elected)
                 :
                 : "memory");
    return elected != 0;
}

// D [m x n] (+)= A [m x 16] * B [n x 16]^T, asynchronously; m and n are in the instruction descriptor. Products into the same
// accumulator are done in the order in which they are issued. With group 2 operands and accumulator lie at the same addresses
// in both CTAs: each holds m/2 rows of A and D and n/2 rows of B, and those of the even CTA come first.
template <int32_t group>
GRS_DEVICE void multiply(uint32_t accumulator, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, p;\n"
                 "}"
                 :
                 : "r"(accumulator), "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate)),
                   "n"(group)
                 : "memory");
}

// Arrives once at a barrier when every product that this thread has issued is complete: its operands may be overwritten and
// its result read. Orders like fence_before_sync.
template <int32_t group> GRS_DEVICE void commit(ptx::Barrier *barrier) {
    asm volatile("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :
                 : "r"(ptx::shared_address(barrier)), "n"(group)
                 : "memory");
}

// The same at the barriers that lie at this place in every CTA of the cluster whose bit is set in `ctas`.
template <int32_t group> GRS_DEVICE void commit_multicast(ptx::Barrier *barrier, uint16_t ctas) {
    asm volatile("tcgen05.commit.cta_group::%2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 :
                 : "r"(ptx::shared_address(barrier)), "h"(ctas), "n"(group)
                 : "memory");
}

// ------------------------------------------------------------------ accumulators to registers: whole warps

// Starts to load 32 columns from `address` (lane: 32 * quadrant) on; value[c] of lane l becomes column c of lane l of the
// quadrant. Not to be touched before wait_loaded.
GRS_DEVICE void load(uint32_t (&value)[32], uint32_t address) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                 "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                 "}, [%32];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3]), "=r"(value[4]), "=r"(value[5]),
                   "=r"(value[6]), "=r"(value[7]), "=r"(value[8]), "=r"(value[9]), "=r"(value[10]), "=r"(value[11]),
                   "=r"(value[12]), "=r"(value[13]), "=r"(value[14]), "=r"(value[15]), "=r"(value[16]), "=r"(value[17]),
                   "=r"(value[18]), "=r"(value[19]), "=r"(value[20]), "=r"(value[21]), "=r"(value[22]), "=r"(value[23]),
                   "=r"(value[24]), "=r"(value[25]), "=r"(value[26]), "=r"(value[27]), "=r"(value[28]), "=r"(value[29]),
                   "=r"(value[30]), "=r"(value[31])
                 : "r"(address)
                 : "memory");
}

// Every load of this thread has arrived. Names the registers of the last one, so that no use of them moves above the wait.
GRS_DEVICE void wait_loaded(uint32_t (&value)[32]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : "+r"(value[0]), "+r"(value[1]), "+r"(value[2]), "+r"(value[3]), "+r"(value[4]), "+r"(value[5]),
                   "+r"(value[6]), "+r"(value[7]), "+r"(value[8]), "+r"(value[9]), "+r"(value[10]), "+r"(value[11]),
                   "+r"(value[12]), "+r"(value[13]), "+r"(value[14]), "+r"(value[15]), "+r"(value[16]), "+r"(value[17]),
                   "+r"(value[18]), "+r"(value[19]), "+r"(value[20]), "+r"(value[21]), "+r"(value[22]), "+r"(value[23]),
                   "+r"(value[24]), "+r"(value[25]), "+r"(value[26]), "+r"(value[27]), "+r"(value[28]), "+r"(value[29]),
                   "+r"(value[30]), "+r"(value[31])
                 :
                 : "memory");
}

GRS_DEVICE float as_float(uint32_t bits) {
    return __uint_as_float(bits);
}

// ------------------------------------------------------------------ 16 bytes of shared memory

GRS_DEVICE void load_unit(uint32_t (&value)[4], const void *unit) {
    asm volatile("ld.shared::cta.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(ptx::shared_address(unit))
                 : "memory");
}

GRS_DEVICE void store_unit(void *unit, const uint32_t (&value)[4]) {
    asm volatile("st.shared::cta.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(ptx::shared_address(unit)), "r"(value[0]),
                 "r"(value[1]), "r"(value[2]), "r"(value[3])
                 : "memory");
}

} // namespace tcgen05
} // namespace grs
