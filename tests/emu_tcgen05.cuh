// Small kernels for tests/test_emu_tcgen05.cc, compiled for emulated ranks: tensor memory and its products. Shared memory:
// barriers in the first KiB, then 64 bytes of parameters, then from the next KiB on what the test put behind them. It all comes
// in through rank 0's outbox; results go to its `groups`.
#include "grs/mma_sm100.cuh"

using namespace grs;

namespace {

inline ptx::Barrier *barrier_at(int i) {
    return reinterpret_cast<ptx::Barrier *>(ptx::shared_memory()) + i;
}
inline char *data() {
    return ptx::shared_memory() + 1024;
}
inline uint32_t parameter(int i) {
    return ptx::load_shared(reinterpret_cast<const uint32_t *>(data()) + i);
}
inline uint64_t parameter64(int i) {
    return parameter(i) | static_cast<uint64_t>(parameter(i + 1)) << 32;
}
inline uint32_t *address_word() {
    return reinterpret_cast<uint32_t *>(ptx::shared_memory() + 512);
}
inline void wait(ptx::Barrier *b, uint32_t parity) {
    while (!ptx::barrier_try_wait(b, parity)) {}
}
inline void set_up(int count) {
    if (ptx::thread_index() == 0) {
        for (int i = 0; i < count; ++i)
            ptx::barrier_init(barrier_at(i), 1);
        ptx::fence_barrier_init();
    }
    ptx::block_sync();
}
inline void bring(const grs_args &args, uint32_t bytes) {
    if (ptx::thread_index() == 0) {
        ptx::barrier_arrive_expect(barrier_at(0), bytes);
        ptx::bulk_load(data(), args.rank[0].outbox, bytes, barrier_at(0));
    }
    wait(barrier_at(0), 0);
}
inline void sync_tensor() {
    tcgen05::fence_before_sync();
    ptx::block_sync();
    tcgen05::fence_after_sync();
}

// Warp 0 allocates, a lane of it multiplies, every warp reads its quadrant. With `beside`, parameters 5 to 9 are another product's
// (instruction, A, B), made into the columns behind before.
template <int32_t columns> inline void one_product(const grs_args &args, bool wait_for_it, bool beside) {
    set_up(2);
    bring(args, static_cast<uint32_t>(args.wave));
    if (ptx::warp_index() == 0) {
        tcgen05::allocate<1, columns>(address_word());
        tcgen05::give_up_allocating<1>();
    }
    sync_tensor();
    uint32_t at = *address_word(), base = ptx::shared_address(data()) >> 4;
    if (ptx::warp_index() == 0) {
        if (tcgen05::elect()) {
            if (beside)
                tcgen05::multiply<1>(at + static_cast<uint32_t>(args.m), parameter64(6) + base, parameter64(8) + base,
                                     parameter(5), false);
            for (int i = 0; i < 2; ++i) // the second adds to the first
                tcgen05::multiply<1>(at, parameter64(0) + base, parameter64(2) + base, parameter(4), i > 0);
            tcgen05::commit<1>(barrier_at(1));
        }
        ptx::warp_sync();
    }
    if (wait_for_it)
        wait(barrier_at(1), 0);
    ptx::warp_sync();
    tcgen05::fence_after_sync();
    uint32_t lane = ptx::warp_index() * 32;
    for (int32_t c = 0; c < args.m; c += 32) {
        uint32_t value[32];
        tcgen05::load(value, tcgen05::tensor_address(at, static_cast<int32_t>(lane), c));
        tcgen05::wait_loaded(value);
        for (int32_t i = 0; i < 32; ++i)
            ptx::store_relaxed_sys(args.rank[0].groups + (lane + ptx::lane_index()) * static_cast<uint32_t>(args.m) +
                                       static_cast<uint32_t>(c + i),
                                   value[i]);
    }
    sync_tensor();
    if (ptx::warp_index() == 0)
        tcgen05::free<1, columns>(at);
}

// Allocates `columns`, says where, waits until every CTA has got so far when `together`, frees.
inline void allocates(const grs_args &args, uint32_t columns, bool give_up, bool together) {
    ptx::device->tcgen05_alloc(1, address_word(), columns);
    if (give_up)
        tcgen05::give_up_allocating<1>();
    uint32_t at = *address_word();
    if (ptx::lane_index() == 0)
        ptx::store_relaxed_sys(args.rank[0].groups + ptx::block_index(), at + 1);
    if (together && ptx::lane_index() == 0)
        for (uint32_t other = 0; other < 2; ++other)
            while (ptx::load_relaxed_sys(args.rank[0].groups + other) == 0)
                ptx::pause(100);
    ptx::warp_sync();
    ptx::device->tcgen05_free(1, at, columns);
}

} // namespace

GRS_KERNEL(128) product(GRS_PARAMETER grs_args args) {
    one_product<256>(args, true, false);
}
GRS_KERNEL(128) product_beside_another(GRS_PARAMETER grs_args args) {
    one_product<256>(args, true, true);
}
GRS_KERNEL(128) product_read_early(GRS_PARAMETER grs_args args) {
    one_product<256>(args, false, false);
}

GRS_KERNEL(32) allocate_any(GRS_PARAMETER grs_args args) {
    allocates(args, static_cast<uint32_t>(args.m), true, false);
}
GRS_KERNEL(32) allocate_together(GRS_PARAMETER grs_args args) {
    allocates(args, static_cast<uint32_t>(args.m), true, true);
}
GRS_KERNEL(32) allocate_and_keep_the_right(GRS_PARAMETER grs_args args) {
    allocates(args, static_cast<uint32_t>(args.m), false, true);
}

GRS_KERNEL(32) free_twice(GRS_PARAMETER grs_args) {
    tcgen05::allocate<1, 64>(address_word());
    uint32_t at = *address_word();
    tcgen05::free<1, 64>(at);
    tcgen05::free<1, 64>(at);
}
GRS_KERNEL(32) free_a_part(GRS_PARAMETER grs_args) {
    tcgen05::allocate<1, 64>(address_word());
    tcgen05::free<1, 32>(*address_word());
}

GRS_KERNEL(32) load_of_nothing(GRS_PARAMETER grs_args) {
    uint32_t value[32];
    tcgen05::allocate<1, 32>(address_word());
    tcgen05::load(value, *address_word());
}
GRS_KERNEL(32) load_past_the_end(GRS_PARAMETER grs_args) {
    uint32_t value[32];
    tcgen05::allocate<1, 32>(address_word());
    tcgen05::load(value, *address_word() + 8);
}
GRS_KERNEL(32) lanes_differ(GRS_PARAMETER grs_args) {
    uint32_t value[32];
    tcgen05::allocate<1, 64>(address_word());
    tcgen05::load(value, *address_word() + ptx::lane_index() % 2);
}
GRS_KERNEL(32) part_of_a_warp(GRS_PARAMETER grs_args) {
    if (ptx::lane_index() < 16)
        tcgen05::give_up_allocating<1>();
}
GRS_KERNEL(32) pair_of_one(GRS_PARAMETER grs_args) {
    tcgen05::allocate<2, 64>(address_word());
}
GRS_KERNEL(32) groups_mixed(GRS_PARAMETER grs_args) {
    tcgen05::allocate<1, 64>(address_word());
    tcgen05::free<2, 64>(*address_word());
}
GRS_KERNEL(32) commit_not_fenced(GRS_PARAMETER grs_args) {
    if (ptx::lane_index() == 0) {
        ptx::barrier_init(barrier_at(0), 1);
        tcgen05::commit<1>(barrier_at(0));
    }
}

// Pairs: each CTA of a cluster of two allocates, multiplies nothing, and frees; `wave` 1: the second CTA asks for twice as much.
GRS_KERNEL(32) pair_allocates(GRS_PARAMETER grs_args args) {
    uint32_t columns = 64u << (args.wave == 1 && ptx::cluster_rank() == 1);
    ptx::device->tcgen05_alloc(2, address_word(), columns);
    tcgen05::give_up_allocating<2>();
    uint32_t at = *address_word();
    if (ptx::lane_index() == 0)
        ptx::store_relaxed_sys(args.rank[0].groups + ptx::block_index(), at + 1);
    ptx::warp_sync();
    ptx::device->tcgen05_free(2, at, columns);
}
GRS_KERNEL(32) pair_frees_alone(GRS_PARAMETER grs_args) {
    tcgen05::allocate<2, 64>(address_word());
    if (ptx::cluster_rank() == 0)
        tcgen05::free<2, 64>(*address_word());
}
