// Small kernels for tests/test_emu_device.cc, compiled for emulated ranks: each uses a few instructions, rightly or wrongly.
// Shared memory: barriers in the first KiB, data from there on. Global memory comes in through the arguments of rank 0:
// `outbox` is memory that copies may write and read, `slots` too, `a` and `d` are tensor maps, `groups` are plain words.
#include "grs/mma_sm90.cuh"

using namespace grs;

namespace {

constexpr uint32_t data_offset = 1024;

inline ptx::Barrier *barrier_at(int i) {
    return reinterpret_cast<ptx::Barrier *>(ptx::shared_memory()) + i;
}
inline char *data() {
    return ptx::shared_memory() + data_offset;
}
inline void wait(ptx::Barrier *b, uint32_t parity) {
    while (!ptx::barrier_try_wait(b, parity)) {}
}
// Thread 0 initialises `count` barriers; all threads may use them afterwards.
inline void set_up(int count, uint32_t arrivals) {
    if (ptx::thread_index() == 0) {
        for (int i = 0; i < count; ++i)
            ptx::barrier_init(barrier_at(i), arrivals);
        ptx::fence_barrier_init();
    }
    ptx::block_sync();
}
inline void fill(uint32_t bytes, uint32_t value) { // by one warp, through stmatrix
    uint32_t fragment[4] = {value, value, value, value};
    for (uint32_t done = 0; done < bytes; done += 512)
        ptx::matrix_store_x4(data() + done + ptx::lane_index() * 16, fragment);
}

} // namespace

// ---------------------------------------------------------------- threads

GRS_KERNEL(64) where_am_i(GRS_PARAMETER grs_args args) {
    uint32_t *out = args.rank[0].groups + (ptx::block_index() * 64 + ptx::thread_index()) * 4;
    ptx::store_relaxed_sys(out, ptx::block_index());
    ptx::store_relaxed_sys(out + 1, ptx::warp_index());
    ptx::store_relaxed_sys(out + 2, ptx::lane_index());
    ptx::store_relaxed_sys(out + 3, ptx::warp_broadcast(ptx::thread_index(), 7));
}

GRS_KERNEL(64) barriers_meet(GRS_PARAMETER grs_args args) {
    uint32_t *words = reinterpret_cast<uint32_t *>(data());
    ptx::store_shared(words + ptx::thread_index(), ptx::thread_index());
    ptx::block_sync();
    uint32_t other = ptx::load_shared(words + 63 - ptx::thread_index());
    if (ptx::warp_index() == 1) { // half of them once more
        ptx::named_barrier_sync(3, 32);
        ptx::named_barrier_sync(3, 32);
    }
    ptx::store_relaxed_sys(args.rank[0].groups + ptx::thread_index(), other);
}

GRS_KERNEL(64) barrier_missed(GRS_PARAMETER grs_args) {
    if (ptx::thread_index() != 5)
        ptx::block_sync();
}

GRS_KERNEL(64) barrier_miscounted(GRS_PARAMETER grs_args) {
    if (ptx::warp_index() == 1)
        ptx::pause(100000); // warp 0 is there first
    ptx::named_barrier_sync(1, ptx::warp_index() == 0 ? 64 : 32);
}

GRS_KERNEL(32) warp_diverges(GRS_PARAMETER grs_args) {
    uint32_t fragment[4] = {};
    if (ptx::lane_index() < 16)
        ptx::warp_sync();
    else
        ptx::matrix_store_x4(data(), fragment);
}

GRS_KERNEL(256) registers_move(GRS_PARAMETER grs_args args) {
    if (ptx::warp_index() < 4)
        ptx::registers_decrease<40>();
    else
        ptx::registers_increase<216>();
    ptx::store_relaxed_sys(args.rank[0].groups + ptx::thread_index(), 1);
}

GRS_KERNEL(256) registers_too_many(GRS_PARAMETER grs_args) {
    if (ptx::warp_index() < 4)
        ptx::registers_decrease<40>();
    else
        ptx::registers_increase<224>();
}

GRS_KERNEL(128) registers_odd(GRS_PARAMETER grs_args) {
    ptx::registers_decrease<44>();
}

// ---------------------------------------------------------------- mbarriers

GRS_KERNEL(64) phases(GRS_PARAMETER grs_args args) {
    set_up(1, 2);
    uint32_t seen = ptx::barrier_try_wait(barrier_at(0), 1); // the phase before the first counts as complete
    ptx::block_sync();
    for (uint32_t i = 0; i < 4; ++i) {
        if (ptx::lane_index() == 0)
            ptx::barrier_arrive(barrier_at(0));
        wait(barrier_at(0), i % 2);
        ++seen;
        ptx::block_sync(); // all have seen it before anybody arrives for the next
    }
    ptx::store_relaxed_sys(args.rank[0].groups + ptx::thread_index(), seen);
}

GRS_KERNEL(32) too_many_arrivals(GRS_PARAMETER grs_args args) { // the phase waits for bytes when the second one comes
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::barrier_arrive_expect(barrier_at(0), 64);
    ptx::barrier_arrive(barrier_at(0));
    ptx::bulk_load(data(), args.rank[0].outbox, 64, barrier_at(0));
    wait(barrier_at(0), 0);
}

GRS_KERNEL(32) bytes_not_announced(GRS_PARAMETER grs_args args) {
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::bulk_load(data(), args.rank[0].outbox, 64, barrier_at(0));
    ptx::barrier_arrive_expect(barrier_at(0), 48);
    wait(barrier_at(0), 0);
}

GRS_KERNEL(32) no_barrier(GRS_PARAMETER grs_args) {
    ptx::barrier_arrive(barrier_at(0));
}

GRS_KERNEL(64) barrier_unknown(GRS_PARAMETER grs_args) { // used by a thread that never met the one that made it
    if (ptx::thread_index() == 0)
        ptx::barrier_init(barrier_at(0), 1);
    if (ptx::thread_index() == 32) {
        ptx::pause(5000);
        ptx::barrier_arrive(barrier_at(0));
    }
}

GRS_KERNEL(32) barrier_not_fenced(GRS_PARAMETER grs_args args) {
    if (ptx::thread_index() != 0)
        return;
    ptx::barrier_init(barrier_at(0), 1);
    ptx::barrier_arrive_expect(barrier_at(0), 64);
    ptx::bulk_load(data(), args.rank[0].outbox, 64, barrier_at(0));
    wait(barrier_at(0), 0);
}

GRS_KERNEL(32) barrier_trampled(GRS_PARAMETER grs_args) {
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::store_shared(reinterpret_cast<uint32_t *>(ptx::shared_memory()), 7);
    ptx::barrier_arrive(barrier_at(0));
}

GRS_KERNEL(64) waiter_overtaken(GRS_PARAMETER grs_args) { // two phases complete while one thread looks away
    set_up(2, 1);
    if (ptx::thread_index() == 0) {
        ptx::barrier_test_wait(barrier_at(0), 0);
        ptx::barrier_arrive(barrier_at(1));
        ptx::pause(100000);
        wait(barrier_at(0), 0);
    }
    if (ptx::thread_index() == 32) {
        wait(barrier_at(1), 0);
        ptx::barrier_arrive(barrier_at(0));
        ptx::barrier_arrive(barrier_at(0));
    }
}

// ---------------------------------------------------------------- copies

// A box through shared memory into `outbox`, unit by unit, so that the host sees where everything lay.
GRS_KERNEL(32) box_in(GRS_PARAMETER grs_args args) {
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    const uint32_t bytes = 64 * 128;
    ptx::prefetch_tensor_map(&args.rank[0].a);
    ptx::barrier_arrive_expect(barrier_at(0), bytes);
    ptx::tensor_load(data(), &args.rank[0].a, barrier_at(0), args.m, args.wave);
    wait(barrier_at(0), 0);
    ptx::bulk_store(args.rank[0].outbox, data(), bytes);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
}

GRS_KERNEL(32) box_out(GRS_PARAMETER grs_args args) { // the way back: what lies in `outbox` becomes a box of D
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    const uint32_t bytes = 64 * 128;
    ptx::barrier_arrive_expect(barrier_at(0), bytes);
    ptx::bulk_load(data(), args.rank[0].outbox, bytes, barrier_at(0));
    wait(barrier_at(0), 0);
    ptx::tensor_store(&args.rank[0].d, data(), args.m, args.wave, 0);
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
}

GRS_KERNEL(32) not_waited_for(GRS_PARAMETER grs_args args) { // sends on what may not have arrived
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::barrier_arrive_expect(barrier_at(0), 64);
    ptx::bulk_load(data(), args.rank[0].outbox, 64, barrier_at(0));
    ptx::bulk_store(args.rank[0].slots, data(), 64);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
    wait(barrier_at(0), 0);
}

GRS_KERNEL(32) poison_seen(GRS_PARAMETER grs_args args) { // memory that nobody wrote
    uint32_t fragment[4];
    ptx::matrix_load_x4(fragment, data() + ptx::lane_index() * 16);
    ptx::store_relaxed_sys(args.rank[0].groups + ptx::lane_index(), fragment[0]);
}

// `fences`: 0 none, 1 by lane 0 alone, 2 by every lane.
template <int fences> inline void generic_then_copy(const grs_args &args) {
    fill(512, 0x3f803f80);
    if (fences == 2 || (fences == 1 && ptx::lane_index() == 0))
        ptx::fence_proxy_async_shared();
    ptx::warp_sync();
    if (ptx::lane_index() != 0)
        return;
    ptx::bulk_store(args.rank[0].outbox, data(), 512);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
}
GRS_KERNEL(32) fenced_by_all(GRS_PARAMETER grs_args args) {
    generic_then_copy<2>(args);
}
GRS_KERNEL(32) fenced_by_one(GRS_PARAMETER grs_args args) {
    generic_then_copy<1>(args);
}
GRS_KERNEL(32) fenced_by_none(GRS_PARAMETER grs_args args) {
    generic_then_copy<0>(args);
}

GRS_KERNEL(32) not_synchronised(GRS_PARAMETER grs_args args) { // fenced, but lane 0 does not know that the others have
    fill(512, 1);
    ptx::fence_proxy_async_shared();
    if (ptx::lane_index() != 0)
        return;
    ptx::bulk_store(args.rank[0].outbox, data(), 512);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
}

// `wait`: 0 none, 1 until read.
template <int wait_for> inline void buffer_again(const grs_args &args) {
    fill(512, 0x3f803f80);
    ptx::fence_proxy_async_shared();
    ptx::warp_sync();
    if (ptx::lane_index() == 0) {
        ptx::bulk_store(args.rank[0].outbox, data(), 512);
        ptx::bulk_commit();
        if (wait_for)
            ptx::bulk_wait_read<0>();
    }
    ptx::warp_sync();
    fill(512, 0x40004000);
    if (ptx::lane_index() == 0)
        ptx::bulk_wait<0>();
}
GRS_KERNEL(32) buffer_reused_in_time(GRS_PARAMETER grs_args args) {
    buffer_again<1>(args);
}
GRS_KERNEL(32) buffer_reused_early(GRS_PARAMETER grs_args args) {
    buffer_again<0>(args);
}

// Thread 0 stores and tells thread 32 by a barrier, which loads it again. `landed`: waits for more than the read; `fence`: on
// the loading side.
template <bool landed, bool fence> inline void through_memory(const grs_args &args) {
    set_up(2, 1);
    if (ptx::warp_index() == 0) {
        fill(512, 0x3f803f80);
        ptx::fence_proxy_async_shared();
        ptx::warp_sync();
    }
    if (ptx::thread_index() == 0) {
        ptx::bulk_store(args.rank[0].outbox, data(), 512);
        ptx::bulk_commit();
        if (landed)
            ptx::bulk_wait<0>();
        else
            ptx::bulk_wait_read<0>();
        ptx::barrier_arrive(barrier_at(0));
        ptx::bulk_wait<0>();
    }
    if (ptx::thread_index() == 32) {
        wait(barrier_at(0), 0);
        if (fence)
            ptx::fence_proxy_async();
        ptx::barrier_arrive_expect(barrier_at(1), 512);
        ptx::bulk_load(data() + 512, args.rank[0].outbox, 512, barrier_at(1));
        wait(barrier_at(1), 0);
        ptx::bulk_store(args.rank[0].slots, data() + 512, 512);
        ptx::bulk_commit();
        ptx::bulk_wait<0>();
    }
}
GRS_KERNEL(64) memory_ok(GRS_PARAMETER grs_args args) {
    through_memory<true, true>(args);
}
GRS_KERNEL(64) memory_not_landed(GRS_PARAMETER grs_args args) {
    through_memory<false, true>(args);
}
GRS_KERNEL(64) memory_not_fenced(GRS_PARAMETER grs_args args) {
    through_memory<true, false>(args);
}

GRS_KERNEL(32)
groups_in_order(GRS_PARAMETER grs_args args) { // four stores; the buffer of the first is free after wait<3>
    fill(2048, 0x3f803f80);
    ptx::fence_proxy_async_shared();
    ptx::warp_sync();
    if (ptx::lane_index() == 0) {
        for (int i = 0; i < 4; ++i) {
            ptx::bulk_store(args.rank[0].outbox + 512 * i, data() + 512 * i, 512);
            ptx::bulk_commit();
        }
        ptx::bulk_wait_read<3>();
    }
    ptx::warp_sync();
    fill(args.m ? 1024 : 512, 0x40004000); // m: the second one too
    if (ptx::lane_index() == 0)
        ptx::bulk_wait<0>();
}

GRS_KERNEL(32) never_committed(GRS_PARAMETER grs_args args) {
    fill(512, 0);
    ptx::fence_proxy_async_shared();
    ptx::warp_sync();
    if (ptx::lane_index() == 0)
        ptx::bulk_store(args.rank[0].outbox, data(), 512);
}

GRS_KERNEL(32) ends_while_read(GRS_PARAMETER grs_args args) {
    fill(512, 0);
    ptx::fence_proxy_async_shared();
    ptx::warp_sync();
    if (ptx::lane_index() != 0)
        return;
    ptx::bulk_store(args.rank[0].outbox, data(), 512);
    ptx::bulk_commit();
}

GRS_KERNEL(32) ends_while_loaded(GRS_PARAMETER grs_args args) {
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::barrier_arrive_expect(barrier_at(0), 64);
    ptx::bulk_load(data(), args.rank[0].outbox, 64, barrier_at(0));
}

GRS_KERNEL(32) beyond_memory(GRS_PARAMETER grs_args args) {
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::barrier_arrive_expect(barrier_at(0), 64);
    ptx::bulk_load(data(), args.rank[0].outbox + args.m, 64, barrier_at(0));
    wait(barrier_at(0), 0);
}

GRS_KERNEL(32) odd_copy(GRS_PARAMETER grs_args args) {
    set_up(1, 1);
    if (ptx::thread_index() != 0)
        return;
    ptx::barrier_arrive_expect(barrier_at(0), 24);
    ptx::bulk_load(data(), args.rank[0].outbox, 24, barrier_at(0));
    wait(barrier_at(0), 0);
}

GRS_KERNEL(32) stores_operand(GRS_PARAMETER grs_args args) { // through the map of A
    fill(64 * 128, 0);
    ptx::fence_proxy_async_shared();
    ptx::warp_sync();
    if (ptx::lane_index() != 0)
        return;
    ptx::tensor_store(&args.rank[0].a, data(), 0, 0, 0);
    ptx::bulk_commit();
    ptx::bulk_wait<0>();
}

// ---------------------------------------------------------------- words

GRS_KERNEL(32) read_modify_write(GRS_PARAMETER grs_args args) {
    if (ptx::thread_index() != 0)
        return;
    uint32_t *w = args.rank[0].groups;
    uint64_t *v = reinterpret_cast<uint64_t *>(w + 8);
    for (int i = 0; i < 5; ++i)
        ptx::atomic_increment_acq_rel_gpu(w, 2); // 1 2 0 1 2
    ptx::atomic_add_acq_rel_gpu(w + 1, 40);
    ptx::store_relaxed_sys(w + 2, ptx::atomic_add_acq_rel_gpu(w + 1, 2));
    ptx::store_relaxed_sys(w + 3, ptx::atomic_exchange_sys(w + 1, 9));
    ptx::reduce_or_release_sys(v, 5);
    ptx::reduce_or_release_sys(v, 6);
    ptx::atomic_add_relaxed_gpu(v + 1, uint64_t{1} << 40);
    ptx::atomic_max_relaxed_gpu(v + 1, 3);
    ptx::atomic_max_relaxed_gpu(v + 2, 3);
    ptx::store_release_sys(v + 3, ptx::load_acquire_sys(v + 1));
}

GRS_KERNEL(32) time_passes(GRS_PARAMETER grs_args args) {
    if (ptx::thread_index() != 0)
        return;
    uint64_t before = ptx::global_nanoseconds();
    ptx::pause(1000);
    uint64_t after = ptx::global_nanoseconds();
    ptx::store_relaxed_sys(args.rank[0].groups, after - before >= 1000 ? 1u : 0u);
}

// CTA 0 stores 512 bytes into `slots` and tells CTA 1 through a word. `scope_gpu`: the reader acquires in the GPU's scope
// alone; `is_release`: the writer's word is a release.
template <bool scope_gpu, bool is_release> inline void between_ctas(const grs_args &args) {
    uint64_t *word = reinterpret_cast<uint64_t *>(args.rank[0].groups);
    set_up(1, 1);
    if (ptx::block_index() == 0) {
        fill(512, 0x3f803f80);
        ptx::fence_proxy_async_shared();
        ptx::warp_sync();
        if (ptx::lane_index() == 0) {
            ptx::bulk_store(args.rank[0].slots, data(), 512);
            ptx::bulk_commit();
            ptx::bulk_wait<0>();
            if (is_release)
                ptx::reduce_or_release_sys(word, 1);
            else
                ptx::store_relaxed_sys(word, 1);
        }
    } else if (ptx::lane_index() == 0) {
        while ((scope_gpu ? ptx::load_acquire_gpu(word) : ptx::load_acquire_sys(word)) == 0)
            ptx::pause(32);
        ptx::fence_proxy_async();
        ptx::barrier_arrive_expect(barrier_at(0), 512);
        ptx::bulk_load(data(), args.rank[0].slots, 512, barrier_at(0));
        wait(barrier_at(0), 0);
    }
}
GRS_KERNEL(32) signal_sys(GRS_PARAMETER grs_args args) {
    between_ctas<false, true>(args);
}
GRS_KERNEL(32) signal_gpu(GRS_PARAMETER grs_args args) {
    between_ctas<true, true>(args);
}
GRS_KERNEL(32) signal_relaxed(GRS_PARAMETER grs_args args) {
    between_ctas<false, false>(args);
}

// ---------------------------------------------------------------- matrices

GRS_KERNEL(32) matrices(GRS_PARAMETER grs_args args) {
    uint32_t lane = ptx::lane_index(), fragment[4], back[4];
    for (uint32_t i = 0; i < 4; ++i)
        fragment[i] = i * 32 + lane;
    ptx::matrix_store_x4(data() + lane * 16, fragment);
    ptx::warp_sync();
    for (uint32_t i = 0; i < 4; ++i) // words as they lie
        ptx::store_relaxed_sys(args.rank[0].groups + lane * 4 + i,
                               ptx::load_shared(reinterpret_cast<uint32_t *>(data()) + lane * 4 + i));
    ptx::matrix_load_x4(back, data() + (lane ^ 8) * 16); // matrices 0 and 1, 2 and 3 change places
    for (uint32_t i = 0; i < 4; ++i)
        ptx::store_relaxed_sys(args.rank[0].groups + 128 + lane * 4 + i, back[i]);
}

// One warpgroup: A [64, 64] and B [n, 64] come from `outbox` as they should lie in shared memory; the accumulator goes to
// `groups` register by register. `flaw`: 0 none, 1 no wgmma.fence, 2 read before the wait, 3 a stage overwritten before the
// wait, 4 a wrong swizzle in the descriptor, 5 a stride of half the groups, 6 reserved bits set, 7 products never waited for.
template <int n, int flaw> inline void product(const grs_args &args) {
    set_up(2, 1);
    const uint32_t a_bytes = 64 * 128, b_bytes = n * 128;
    if (ptx::thread_index() == 0) {
        ptx::barrier_arrive_expect(barrier_at(0), a_bytes + b_bytes);
        ptx::bulk_load(data(), args.rank[0].outbox, a_bytes + b_bytes, barrier_at(0));
    }
    wait(barrier_at(0), 0);
    float sum[n / 2];
    for (int i = 0; i < n / 2; ++i)
        sum[i] = 1000.0f; // overwritten by the first product
    uint64_t a = mma::descriptor(ptx::shared_address(data())),
             b = mma::descriptor(ptx::shared_address(data() + a_bytes));
    if (flaw == 4)
        b ^= uint64_t{3} << 62;
    if (flaw == 5)
        a ^= uint64_t{(1024 ^ 512) >> 4} << 32;
    if (flaw == 6)
        a |= uint64_t{1} << 46;
    if (flaw != 1)
        mma::warpgroup_arrive();
    for (int k = 0; k < 4; ++k)
        mma::Product<n>::multiply(sum, a + 2 * k, b + 2 * k, k > 0);
    if (flaw != 7)
        mma::warpgroup_commit();
    float early = sum[0];
    if (flaw == 3) {
        ptx::block_sync();
        if (ptx::thread_index() == 0) {
            ptx::barrier_arrive_expect(barrier_at(1), 64);
            ptx::bulk_load(data(), args.rank[0].outbox, 64, barrier_at(1));
        }
        wait(barrier_at(1), 0);
    }
    if (flaw != 7)
        mma::warpgroup_wait<0>();
    for (int i = 0; i < n / 2; ++i) {
        uint32_t bits;
        float value = flaw == 2 ? early : sum[i];
        __builtin_memcpy(&bits, &value, 4);
        ptx::store_relaxed_sys(args.rank[0].groups + ptx::thread_index() * (n / 2) + i, bits);
    }
}
GRS_KERNEL(128) product_64(GRS_PARAMETER grs_args args) {
    product<64, 0>(args);
}
GRS_KERNEL(128) product_256(GRS_PARAMETER grs_args args) {
    product<256, 0>(args);
}
GRS_KERNEL(128) product_not_fenced(GRS_PARAMETER grs_args args) {
    product<64, 1>(args);
}
GRS_KERNEL(128) product_early(GRS_PARAMETER grs_args args) {
    product<64, 2>(args);
}
GRS_KERNEL(128) product_overwritten(GRS_PARAMETER grs_args args) {
    product<64, 3>(args);
}
GRS_KERNEL(128) product_swizzle(GRS_PARAMETER grs_args args) {
    product<64, 4>(args);
}
GRS_KERNEL(128) product_stride(GRS_PARAMETER grs_args args) {
    product<64, 5>(args);
}
GRS_KERNEL(128) product_reserved(GRS_PARAMETER grs_args args) {
    product<64, 6>(args);
}
GRS_KERNEL(128) product_abandoned(GRS_PARAMETER grs_args args) {
    product<64, 7>(args);
}

// ---------------------------------------------------------------- clusters of two

GRS_KERNEL(32) multicast(GRS_PARAMETER grs_args args) {
    set_up(2, 1);
    ptx::cluster_sync();
    if (ptx::thread_index() == 0) {
        ptx::barrier_arrive_expect(barrier_at(0), 64 * 128);
        if (ptx::cluster_rank() == 0) { // to both
            ptx::tensor_load_multicast(data(), &args.rank[0].a, barrier_at(0), 0, 0, 3);
            wait(barrier_at(1), 0); // the other one is done
        }
        wait(barrier_at(0), 0);
        ptx::bulk_store(args.rank[0].outbox + ptx::block_index() * 64 * 128, data(), 64 * 128);
        ptx::bulk_commit();
        ptx::bulk_wait<0>();
        if (ptx::cluster_rank() == 1)
            ptx::barrier_arrive_remote(barrier_at(1), 0);
    }
    if (args.m == 0)
        ptx::cluster_sync();
}

GRS_KERNEL(32) remote_too_late(GRS_PARAMETER grs_args) { // CTA 1 arrives in a CTA that has ended
    set_up(1, 1);
    ptx::cluster_sync();
    if (ptx::cluster_rank() == 1 && ptx::thread_index() == 0) {
        ptx::pause(1000000);
        ptx::barrier_arrive_remote(barrier_at(0), 0);
    }
}
