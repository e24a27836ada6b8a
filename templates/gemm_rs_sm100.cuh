// Fused GEMM + reduce-scatter for Blackwell. Read from the bottom: gemm_rs starts the roles of a CTA; tiles flow
//
//   A, B ──load──▶ stages ──issue──▶ accumulators in tensor memory ──┐
//   upstream's partial ──prefetch──▶ tile buffer ────────────────────┴─ add, round ─▶ tile buffer ──store──▶ D, or outbox ──▶ peer
//
// The issuer runs ahead of the math warps by as many tiles as there are accumulators, so that products go on while a tile
// is finished, or waits for its partial.
#pragma once

#include "grs/mma_sm100.cuh"
#include "grs/roles.cuh"

namespace grs {

constexpr uint32_t leader = 0; // of a CTA pair: the one whose issuer works for both

// A CTA's half of a stage in a pair: its own rows of A, and half of the rows of B. The leader's barrier counts both halves, since its
// issuer reads both.
template <class C>
GRS_DEVICE void load_half(const Cta<C> &cta, char *a, char *b, ptx::Barrier *full, int32_t x, int32_t row,
                          int32_t column) {
    if (ptx::cluster_rank() == leader)
        ptx::barrier_arrive_expect(full, 2 * Shared<C>::stage_bytes);
    tcgen05::load_pair(a, &cta.me.a, full, x, row, leader);
    tcgen05::load_pair(b, &cta.me.b, full, x, column, leader);
}

// Tells every CTA that waits for these products: the loader of each CTA that wrote a part of a stage (a pair's both), the math
// warps of each CTA that holds a part of an accumulator.
template <class C, bool everywhere> GRS_DEVICE void commit(ptx::Barrier *barrier) {
    if constexpr (everywhere)
        tcgen05::commit_multicast<C::cta_group>(barrier, (1u << C::cluster) - 1);
    else
        tcgen05::commit<C::cta_group>(barrier);
}

// Issues the products of every tile: one thread, of a pair the leader's. Like the loader it never leaves early.
template <class C> GRS_DEVICE void issue_role(const Cta<C> &cta) {
    Watch<C> watch = cta.watch(GRS_ROLE_ISSUER);
    Barriers<C> &barriers = cta.shared.barriers;
    constexpr uint32_t instruction = tcgen05::instruction_descriptor<C::block_m * C::cta_group, C::block_n>();
    Cursor<C::stages> stage;
    Cursor<C::accum_stages> accum;

    for (int32_t place = cta.index / C::cluster; place < cta.geometry.total_places();
         place += cta.args.grid / C::cluster, accum.advance()) {
        watch.at(place);
        watch.wait_on(&barriers.accum_free[accum.slot], accum.phase ^ 1, GRS_WAIT_ACCUM_FREE);
        uint32_t accumulator = tcgen05::tensor_address(cta.shared.accumulators, 0, accum.slot * C::block_n);
        for (int32_t block = 0; block < C::k_blocks; ++block, stage.advance()) {
            watch.wait_on(&barriers.stage_full[stage.slot], stage.phase, GRS_WAIT_STAGE_FULL);
            tcgen05::fence_after_sync();
            uint32_t address = ptx::shared_address(cta.shared.stage[stage.slot]);
            uint64_t a = tcgen05::operand_descriptor(address);
            uint64_t b = tcgen05::operand_descriptor(address + Shared<C>::a_bytes);
#pragma unroll
            for (int32_t k = 0; k < C::block_k / 16; ++k) // 16 columns are 32 bytes: 2 units of a descriptor's address
                tcgen05::multiply<C::cta_group>(accumulator, a + 2 * k, b + 2 * k, instruction, block > 0 || k > 0);
            commit<C, (C::cluster > 1)>(&barriers.stage_free[stage.slot]);
        }
        commit<C, (C::cta_group > 1)>(&barriers.accum_full[accum.slot]);
    }
}

// The calling warp has read its part of an accumulator: tells the issuer.
template <class C> GRS_DEVICE void release_accumulator(ptx::Barrier *free) {
    if (ptx::lane_index() != 0)
        return;
    if constexpr (C::cta_group == 1)
        ptx::barrier_arrive(free);
    else
        ptx::barrier_arrive_remote(free, leader);
}

// The part of a tile that a math warp finishes: the 32 rows of its quadrant of tensor memory, and a share of the columns.
template <class C> struct Part {
    static constexpr int32_t columns = C::block_n / (C::math_warps / 4);
    static constexpr int32_t loads = columns / tcgen05::columns_a_load;
    int32_t row, column; // the first
    GRS_DEVICE explicit Part(int32_t math_warp)
        : row(math_warp % 4 * tcgen05::lanes_a_warp), column(math_warp / 4 * columns) {}
};

// Rounds 32 columns of a row to BF16 into a tile image; with `add`, the BF16 partial that lies there is added in FP32 first.
template <int32_t rows, bool add>
GRS_DEVICE void store_columns(char *tile, int32_t row, int32_t column,
                              const uint32_t (&value)[tcgen05::columns_a_load]) {
    constexpr int32_t units = tcgen05::columns_a_load / 8;
    uint32_t packed[units][4];
    if constexpr (add) {
#pragma unroll
        for (int32_t i = 0; i < units; ++i)
            tcgen05::load_unit(packed[i], tile_unit<rows>(tile, row, column / 8 + i));
    }
#pragma unroll
    for (int32_t i = 0; i < units; ++i) {
#pragma unroll
        for (int32_t pair = 0; pair < 4; ++pair) {
            float low = tcgen05::as_float(value[8 * i + 2 * pair]),
                  high = tcgen05::as_float(value[8 * i + 2 * pair + 1]);
            if constexpr (add)
                low += ptx::bf16_low(packed[i][pair]), high += ptx::bf16_high(packed[i][pair]);
            packed[i][pair] = ptx::pack_bf16(low, high);
        }
        tcgen05::store_unit(tile_unit<rows>(tile, row, column / 8 + i), packed[i]);
    }
}

// Accumulator -> tile buffer, by one warp: 32 columns are loaded while the 32 before are added and stored. The accumulator is
// given back as soon as the last of them has been read.
template <class C, bool add>
GRS_DEVICE void finish_part(char *tile, const Part<C> &part, uint32_t accumulator, ptx::Barrier *accum_free) {
    uint32_t address = tcgen05::tensor_address(accumulator, part.row, part.column);
    int32_t row = part.row + static_cast<int32_t>(ptx::lane_index());
    uint32_t value[2][tcgen05::columns_a_load];
    tcgen05::load(value[0], address);
#pragma unroll
    for (int32_t i = 0; i < Part<C>::loads; ++i) {
        tcgen05::wait_loaded(value[i % 2]);
        if (i + 1 < Part<C>::loads) {
            tcgen05::load(value[(i + 1) % 2], address + static_cast<uint32_t>((i + 1) * tcgen05::columns_a_load));
        } else {
            tcgen05::fence_before_sync();
            ptx::warp_sync();
            release_accumulator<C>(accum_free);
        }
        store_columns<C::block_m, add>(tile, row, part.column + i * tcgen05::columns_a_load, value[i % 2]);
    }
}

// Finishes tiles: one warp. When the launch is being left it goes on giving accumulators back, but touches no tile buffer.
template <class C> GRS_DEVICE void math_role(const Cta<C> &cta, int32_t math_warp) {
    Watch<C> watch = cta.watch(GRS_ROLE_MATH, math_warp == 0 && ptx::lane_index() == 0);
    Barriers<C> &barriers = cta.shared.barriers;
    Cursor<C::accum_stages> accum;
    Cursor<C::tile_buffers> buffer;
    Part<C> part(math_warp);
    bool leaving = false;

    for (int32_t place = cta.index / C::cluster; place < cta.geometry.total_places();
         place += cta.args.grid / C::cluster, accum.advance(), buffer.advance()) {
        watch.at(place);
        uint32_t action = TILE_LEAVE;
        if (!leaving) {
            watch.wait_on(&barriers.tile_ready[buffer.slot], buffer.phase, GRS_WAIT_TILE_READY);
            action = ptx::warp_broadcast(ptx::load_shared(&cta.shared.action[buffer.slot]), 0); // the warp loads as one
            leaving = action == TILE_LEAVE;
        }
        watch.wait_on(&barriers.accum_full[accum.slot], accum.phase, GRS_WAIT_ACCUM_FULL);
        ptx::warp_sync();
        ptx::Barrier *free = &barriers.accum_free[accum.slot];
        if (leaving) {
            release_accumulator<C>(free);
            continue;
        }
        tcgen05::fence_after_sync();
        uint32_t accumulator = tcgen05::tensor_address(cta.shared.accumulators, 0, accum.slot * C::block_n);
        char *tile = cta.shared.tile[buffer.slot];
        if (C::ring > 1 && action == TILE_ADD)
            finish_part<C, true>(tile, part, accumulator, free);
        else
            finish_part<C, false>(tile, part, accumulator, free);
        ptx::fence_proxy_async_shared(); // every lane: the copy engine reads what it wrote
        ptx::warp_sync();
        if (ptx::lane_index() == 0)
            ptx::barrier_arrive(&barriers.tile_full[buffer.slot]);
    }
}

template <class C> GRS_DEVICE void sync_all() {
    tcgen05::fence_before_sync();
    if constexpr (C::cluster == 1)
        ptx::block_sync();
    else
        ptx::cluster_sync();
    tcgen05::fence_after_sync();
}

template <class C> GRS_DEVICE void gemm_rs(const grs_args &args) {
    static_assert(C::threads == 32 * (4 + C::math_warps + 1 + lanes_beside<C>),
                  "threads: a warpgroup of roles, math warps, the issuer's warp, and what lane_per_stage needs beside");
    static_assert(sizeof(Shared<C>) == C::shared_bytes, "shared memory: the planner's map and the kernel's differ");
    static_assert(C::block_m == 128, "tile.m: a row of a tile in each lane of tensor memory");
    static_assert(C::tensor_columns >= C::accum_stages * C::block_n && C::tensor_columns <= 512,
                  "stages.accum: accumulators of tile.n columns in 512 columns of tensor memory");
    static_assert(C::cta_group == 1 || C::cluster == C::cta_group, "tile.cluster: a CTA pair is a cluster of two");
    static_assert(C::segments % C::ring == 0, "segments: a multiple of the ring");

    Shared<C> &shared = *reinterpret_cast<Shared<C> *>(ptx::shared_memory());
    int32_t block = static_cast<int32_t>(ptx::block_index());
    const grs_rank_args &me = args.rank[block / args.grid];
    uint32_t warp = ptx::warp_index();
    constexpr uint32_t first_math_warp = 4, issuer = first_math_warp + C::math_warps;

    if (warp == 0 && ptx::lane_index() == 0)
        set_up<C>(shared, me);
    if (warp == issuer) {
        tcgen05::allocate<C::cta_group, C::tensor_columns>(&shared.accumulators);
        tcgen05::give_up_allocating<C::cta_group>();
    }
    sync_all<C>();                    // barriers and tensor memory are there, the others' too
    ptx::wait_for_earlier_launches(); // set up beside their last tiles
    const Cta<C> cta{args, me, shared, Geometry<C>(args.m), block % args.grid};
    if (warp < first_math_warp)
        communicate<C>(cta, warp);
    else if (warp < issuer)
        math_role<C>(cta, static_cast<int32_t>(warp - first_math_warp));
    else if (lanes_beside<C> > 0 && warp > issuer)
        communicate_beside<C>(cta, static_cast<int32_t>(warp - issuer) - 1);
    else if ((C::cta_group == 1 || ptx::cluster_rank() == leader) && tcgen05::elect())
        issue_role<C>(cta);
    ptx::warp_sync();
    sync_all<C>(); // nobody uses tensor memory any more, or arrives in a CTA that has ended
    if (warp == issuer)
        tcgen05::free<C::cta_group, C::tensor_columns>(shared.accumulators);
    if (warp == 0 && !ptx::load_shared(&shared.leave))
        depart<C>(cta.geometry, args, me);
}

} // namespace grs
