// One instruction a function. This file and mma_*.cuh hold all inline assembly and every use of a CUDA built-in, so that
// another backend (the emulator) can supply the same functions and run the rest of the text unchanged.
//
// Pointers are generic: functions that need a shared-memory address convert it themselves. "The copy engine" is the async
// proxy: what it reads must have been made visible to it by a proxy fence, and what it writes is seen after its barrier
// completes (loads) or its group was waited for (stores).
#pragma once

#include "grs/args.h"

#define GRS_DEVICE          __device__ __forceinline__
#define GRS_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#define GRS_CLUSTER(ctas)   __cluster_dims__(ctas, 1, 1)
#define GRS_PARAMETER       const __grid_constant__

namespace grs {
namespace ptx {

// ------------------------------------------------------------------ where am I

GRS_DEVICE uint32_t thread_index() {
    return threadIdx.x;
}
GRS_DEVICE uint32_t block_index() {
    return blockIdx.x;
}
GRS_DEVICE uint32_t warp_index() {
    return __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
} // uniform for the compiler
GRS_DEVICE uint32_t lane_index() {
    return threadIdx.x % 32;
}

// The CTA's dynamic shared memory, 1024-byte aligned.
GRS_DEVICE char *shared_memory() {
    extern __shared__ __align__(1024) char memory[];
    return memory;
}

// This CTA's place in its cluster. Grids are multiples of the cluster, so it is also block_index() % cluster.
GRS_DEVICE uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Address of a byte of this CTA's shared memory in the shared window: what descriptors hold.
GRS_DEVICE uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// What the thread is about: its role, the tile in hand (-1: none) and what it is going to wait for. Tells a backend that
// reports on threads. On a GPU it costs nothing: `wait` is a constant wherever this is called, and all that is left of it is a
// comment in the PTX, as at each signal and each wait for stores, so that `grep grs:` finds them.
GRS_DEVICE void note(grs_role, int32_t /* owner */, int32_t /* tile */, int32_t /* position */, grs_wait wait) {
    if (wait == GRS_WAIT_STAGE_FREE)
        asm volatile("// grs: wait stage free");
    if (wait == GRS_WAIT_STAGE_FULL)
        asm volatile("// grs: wait stage full");
    if (wait == GRS_WAIT_TILE_FREE)
        asm volatile("// grs: wait tile free");
    if (wait == GRS_WAIT_TILE_READY)
        asm volatile("// grs: wait tile ready");
    if (wait == GRS_WAIT_TILE_FULL)
        asm volatile("// grs: wait tile full");
    if (wait == GRS_WAIT_UPSTREAM)
        asm volatile("// grs: wait upstream");
    if (wait == GRS_WAIT_OUTBOX_FREE)
        asm volatile("// grs: wait outbox free");
    if (wait == GRS_WAIT_OUTBOX_FULL)
        asm volatile("// grs: wait outbox full");
    if (wait == GRS_WAIT_CREDIT)
        asm volatile("// grs: wait credit");
    if (wait == GRS_WAIT_CHUNK)
        asm volatile("// grs: wait chunk");
    if (wait == GRS_WAIT_LINK)
        asm volatile("// grs: wait link");
    if (wait == GRS_WAIT_ACCUM_FREE)
        asm volatile("// grs: wait accumulator free");
    if (wait == GRS_WAIT_ACCUM_FULL)
        asm volatile("// grs: wait accumulator full");
}
GRS_DEVICE void note_signal_tile() {
    asm volatile("// grs: signal tile");
}
GRS_DEVICE void note_signal_credit() {
    asm volatile("// grs: signal credit");
}
GRS_DEVICE void note_signal_abort() {
    asm volatile("// grs: signal abort");
}

// ------------------------------------------------------------------ time

GRS_DEVICE uint64_t global_nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

GRS_DEVICE uint64_t clock_cycles() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
    return now;
}

// A hint to let others run; a spin calls it between two looks at a word.
GRS_DEVICE void pause(uint32_t nanoseconds) {
    asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}

// ------------------------------------------------------------------ threads of a CTA

GRS_DEVICE void block_sync() {
    asm volatile("barrier.sync 0;" ::: "memory");
}
GRS_DEVICE void warp_sync() {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

GRS_DEVICE void named_barrier_sync(uint32_t barrier, uint32_t threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// All threads of all CTAs of the cluster; shared memory and barriers of the others may be used after it, and no longer after
// the one at the end.
GRS_DEVICE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <int registers> GRS_DEVICE void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers> GRS_DEVICE void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

GRS_DEVICE uint32_t warp_broadcast(uint32_t value, uint32_t lane) {
    return __shfl_sync(0xffffffffu, value, static_cast<int>(lane));
}

// ------------------------------------------------------------------ mbarriers

struct alignas(8) Barrier {
    uint64_t opaque;
};

GRS_DEVICE void barrier_init(Barrier *barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine (and to other CTAs of a cluster).
GRS_DEVICE void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

GRS_DEVICE void barrier_arrive(Barrier *barrier) { // release, CTA scope
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives on the barrier that lies at this place in another CTA of the cluster. Releases nothing beyond this CTA: enough to hand
// back memory whose reads are complete (a release at cluster scope would cost a fence of the whole GPU).
GRS_DEVICE void barrier_arrive_remote(Barrier *barrier, uint32_t cluster_rank) {
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(cluster_rank)
                 : "memory");
}

// Arrives and announces `bytes` that the copy engine will bring before the phase can complete.
GRS_DEVICE void barrier_arrive_expect(Barrier *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}

// True when the phase of this parity has completed (acquire, CTA scope). May suspend for a short, bounded time.
GRS_DEVICE bool barrier_try_wait(Barrier *barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return done != 0;
}

// The same without suspending: for a thread that watches several barriers.
GRS_DEVICE bool barrier_test_wait(Barrier *barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return done != 0;
}

// ------------------------------------------------------------------ copy engine: tensor maps

GRS_DEVICE void prefetch_tensor_map(const grs_tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// A box whose corner is at column x, row y. Elements outside the tensor arrive as zero.
GRS_DEVICE void tensor_load(void *destination, const grs_tensor_map *map, Barrier *barrier, int32_t x, int32_t y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];" ::"r"(shared_address(destination)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y)
        : "memory");
}

// The same into every CTA of the cluster whose bit is set in `ctas`, at the same place in shared memory; each one's barrier
// at the same place as `barrier` counts the bytes.
GRS_DEVICE void tensor_load_multicast(void *destination, const grs_tensor_map *map, Barrier *barrier, int32_t x,
                                      int32_t y, uint16_t ctas) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(destination)),
        "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "h"(ctas)
        : "memory");
}

// An L2 policy: lines written with it make room before others do.
GRS_DEVICE uint64_t policy_evict_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Elements outside the tensor are not written. Joins the thread's open bulk group.
GRS_DEVICE void tensor_store(const grs_tensor_map *map, const void *source, int32_t x, int32_t y, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(
            map),
        "r"(shared_address(source)), "r"(x), "r"(y), "l"(policy)
        : "memory");
}

// The same of a tensor with three dimensions.
GRS_DEVICE void tensor_store(const grs_tensor_map *map, const void *source, int32_t x, int32_t y, int32_t z,
                             uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], %5;" ::"l"(
            map),
        "r"(shared_address(source)), "r"(x), "r"(y), "r"(z), "l"(policy)
        : "memory");
}

// ------------------------------------------------------------------ launches in a row
// Source: PTX ISA, griddepcontrol. Both do nothing where the launch did not ask for an early start.

// What earlier launches of the stream wrote is there from here on.
GRS_DEVICE void wait_for_earlier_launches() {
    asm volatile("// grs: wait earlier launches\n\tgriddepcontrol.wait;" ::: "memory");
}

// The next launch of the stream may bring its CTAs, as SMs fall free, once every CTA of this one has said so.
GRS_DEVICE void let_next_launch_start() {
    asm volatile("// grs: signal next launch\n\tgriddepcontrol.launch_dependents;" ::: "memory");
}

// ------------------------------------------------------------------ copy engine: contiguous bytes (multiples of 16)

GRS_DEVICE void bulk_load(void *destination, const void *source, uint32_t bytes, Barrier *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(destination)),
                 "l"(source), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Joins the thread's open bulk group. The destination may be a peer's memory.
GRS_DEVICE void bulk_store(void *destination, const void *source, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination),
                 "r"(shared_address(source)), "r"(bytes)
                 : "memory");
}

GRS_DEVICE void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// All but the newest `pending` groups of this thread have landed.
template <int pending> GRS_DEVICE void bulk_wait() {
    asm volatile("// grs: wait landed\n\tcp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

// All but the newest `pending` groups of this thread have been read: their shared memory may be written again.
template <int pending> GRS_DEVICE void bulk_wait_read() {
    asm volatile("// grs: wait read\n\tcp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// ------------------------------------------------------------------ proxy fences

// Orders this thread's earlier and later accesses of any memory between the generic and the async proxy.
GRS_DEVICE void fence_proxy_async() {
    asm volatile("fence.proxy.async;" ::: "memory");
}
// The same for shared memory alone: each thread that wrote shared memory calls it before the barrier after which the copy
// engine or the tensor cores read.
GRS_DEVICE void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ------------------------------------------------------------------ words that other ranks read or write

GRS_DEVICE uint64_t load_acquire_sys(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.b64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

GRS_DEVICE uint64_t load_acquire_gpu(const uint64_t *word) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

GRS_DEVICE uint32_t load_relaxed_sys(const uint32_t *word) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.b32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

GRS_DEVICE void store_relaxed_sys(uint32_t *word, uint32_t value) {
    asm volatile("st.relaxed.sys.global.b32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

GRS_DEVICE void store_relaxed_sys(uint64_t *word, uint64_t value) {
    asm volatile("st.relaxed.sys.global.b64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

GRS_DEVICE void store_release_sys(uint64_t *word, uint64_t value) {
    asm volatile("st.release.sys.global.b64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

GRS_DEVICE void store_release_sys(uint32_t *word, uint32_t value) {
    asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

// Sets bits; everything this thread did or saw before is visible to whoever acquires a bit.
GRS_DEVICE void reduce_or_release_sys(uint64_t *word, uint64_t bits) {
    asm volatile("red.release.sys.global.or.b64 [%0], %1;" ::"l"(word), "l"(bits) : "memory");
}

GRS_DEVICE uint32_t atomic_add_acq_rel_gpu(uint32_t *word, uint32_t value) {
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
    return old;
}

// Adds 1, wrapping to 0 after `last`.
GRS_DEVICE uint32_t atomic_increment_acq_rel_gpu(uint32_t *word, uint32_t last) {
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(last) : "memory");
    return old;
}

GRS_DEVICE uint32_t atomic_exchange_sys(uint32_t *word, uint32_t value) {
    uint32_t old;
    asm volatile("atom.relaxed.sys.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(value) : "memory");
    return old;
}

GRS_DEVICE uint64_t atomic_add_relaxed_gpu(uint64_t *word, uint64_t value) {
    uint64_t old;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(value) : "memory");
    return old;
}

GRS_DEVICE uint64_t atomic_max_relaxed_gpu(uint64_t *word, uint64_t value) {
    uint64_t old;
    asm volatile("atom.relaxed.gpu.global.max.u64 %0, [%1], %2;" : "=l"(old) : "l"(word), "l"(value) : "memory");
    return old;
}

// A word of shared memory that another warp of the CTA may write at any time.
GRS_DEVICE uint32_t load_shared(const uint32_t *word) {
    uint32_t value;
    asm volatile("ld.relaxed.cta.shared::cta.b32 %0, [%1];" : "=r"(value) : "r"(shared_address(word)) : "memory");
    return value;
}

GRS_DEVICE void store_shared(uint32_t *word, uint32_t value) {
    asm volatile("st.relaxed.cta.shared::cta.b32 [%0], %1;" ::"r"(shared_address(word)), "r"(value) : "memory");
}

// ------------------------------------------------------------------ matrices of 8x8 BF16, four at a time, by a warp

// Lane l gives the address of row l%8 of matrix l/8 (16 bytes); register i of lane l receives the pair at row l/4, columns
// 2*(l%4) and +1 of matrix i.
GRS_DEVICE void matrix_load_x4(uint32_t (&fragment)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared_address(row))
                 : "memory");
}

GRS_DEVICE void matrix_store_x4(void *row, const uint32_t (&fragment)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
}

// ------------------------------------------------------------------ BF16

// Two FP32 values, rounded to nearest even, the first in the low half.
GRS_DEVICE uint32_t pack_bf16(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

GRS_DEVICE float bf16_low(uint32_t pair) {
    return __uint_as_float(pair << 16);
}
GRS_DEVICE float bf16_high(uint32_t pair) {
    return __uint_as_float(pair & 0xffff0000u);
}

} // namespace ptx
} // namespace grs
