// Fused GEMM + reduce-scatter for Hopper. Read from the bottom: gemm_rs starts the roles of a CTA; tiles flow
//
//   A, B ──load──▶ stages ──multiply──▶ accumulators ──┐
//   upstream's partial ──prefetch──▶ tile buffer ──────┴─ add, round ─▶ tile buffer ──store──▶ D, or outbox ──send──▶ peer
//
// With ring.place: global the math warps wait for operands and for the tile buffer, never for the link: between them and the
// peer lie `ring_depth` tiles of outbox in global memory. With ring.place: shared, `ring_depth` tile buffers are all there is.
#pragma once

#include "grs/mma_sm90.cuh"
#include "grs/roles.cuh"

namespace grs {

// The stage may be filled again: tells the loader of every CTA that wrote a part of it.
template <class C> GRS_DEVICE void release_stage(ptx::Barrier *free) {
    if constexpr (C::cluster == 1) {
        if (ptx::lane_index() == 0)
            ptx::barrier_arrive(free);
    } else {
        if (ptx::lane_index() < C::cluster)
            ptx::barrier_arrive_remote(free, ptx::lane_index());
    }
}

// One warp of a warpgroup has seen all that it waits for before the other warpgroup may.
template <class C> GRS_DEVICE void pass_turn(ptx::Barrier *turn) {
    ptx::warp_sync();
    if (ptx::lane_index() == 0)
        ptx::barrier_arrive(turn);
}

// Issues the products of one block of K, once it is there: 64 rows of A at a time with `columns` rows of B.
template <class C, int32_t columns, int32_t row_blocks>
GRS_DEVICE void multiply_block(const Cta<C> &cta, Watch<C> &watch, const Cursor<C::stages> &cursor, int32_t first_row,
                               int32_t block, Accumulator<columns> *sum) {
    watch.wait_on(&cta.shared.barriers.stage_full[cursor.slot], cursor.phase, GRS_WAIT_STAGE_FULL);
    uint32_t stage = ptx::shared_address(cta.shared.stage[cursor.slot]);
    uint64_t b = mma::descriptor(stage + Shared<C>::a_bytes);
    mma::warpgroup_arrive();
#pragma unroll
    for (int32_t rows = 0; rows < row_blocks; ++rows) {
        uint64_t a = mma::descriptor(stage + (first_row + rows * 64) * panel_row_bytes);
#pragma unroll
        for (int32_t k = 0; k < C::block_k / 16; ++k) // 16 columns are 32 bytes: 2 units of a descriptor's address
            mma::Product<columns>::multiply(sum[rows].value, a + 2 * k, b + 2 * k, block > 0 || k > 0);
    }
    mma::warpgroup_commit();
}

// Adds the partial, where there is one, rounds into the tile buffer, and tells the storer. False: the launch is being left.
template <class C, int32_t columns, int32_t row_blocks, class Seen>
GRS_DEVICE bool finish_tile(const Cta<C> &cta, Watch<C> &watch, const Cursor<C::tile_buffers> &buffer, int32_t warp_row,
                            Accumulator<columns> *sum, Seen &&seen) {
    Barriers<C> &barriers = cta.shared.barriers;
    watch.wait_on(&barriers.tile_ready[buffer.slot], buffer.phase, GRS_WAIT_TILE_READY);
    uint32_t action = ptx::load_shared(&cta.shared.action[buffer.slot]);
    seen();
    if (action == TILE_LEAVE) // the same for the whole warpgroup: the prefetcher wrote it before the phase completed
        return false;
    char *tile = cta.shared.tile[buffer.slot];
#pragma unroll
    for (int32_t rows = 0; rows < row_blocks; ++rows)
        if (C::ring > 1 && action == TILE_ADD)
            store_rows<C::block_m, columns, true>(tile, warp_row + rows * 64, sum[rows]);
        else
            store_rows<C::block_m, columns, false>(tile, warp_row + rows * 64, sum[rows]);
    ptx::fence_proxy_async_shared(); // every lane: the copy engine reads what it wrote
    ptx::warp_sync();
    if (ptx::lane_index() == 0)
        ptx::barrier_arrive(&barriers.tile_full[buffer.slot]);
    return true;
}

// The first tile, which is a START tile, in two halves of its columns: the link has something to carry in half the time.
// Every other role sees two tiles (TileOrder). True: the launch is being left.
template <class C>
GRS_DEVICE bool multiply_halves(const Cta<C> &cta, Watch<C> &watch, Cursor<C::stages> &cursor,
                                Cursor<C::tile_buffers> &buffer, int32_t first_row, int32_t warp_row) {
    bool leaving = false;
    watch.at(cta.index);
    for (int32_t half = 0; half < 2; ++half, buffer.advance()) {
        Accumulator<C::block_n / 2> sum;
        for (int32_t block = 0; block < C::k_blocks; ++block, cursor.advance()) {
            multiply_block<C, C::block_n / 2, 1>(cta, watch, cursor, first_row, block, &sum);
            mma::warpgroup_wait<0>();
            release_stage<C>(&cta.shared.barriers.stage_free[cursor.slot]);
        }
        if (!leaving)
            leaving = !finish_tile<C, C::block_n / 2, 1>(cta, watch, buffer, warp_row, &sum, [] {});
    }
    return leaving;
}

// One warpgroup. Cooperative: 64 rows of every tile. Ping-pong: all rows of every other tile, so that one warpgroup's epilogue
// runs beside the other's products; they take turns (see TurnBarriers). When the launch is being left it goes on consuming A
// and B (see load_role), but touches no tile buffer.
template <class C> GRS_DEVICE void math_role(const Cta<C> &cta, int32_t warpgroup) {
    constexpr int32_t row_blocks = C::pingpong ? C::block_m / 64 : 1;
    // Blocks whose products are under way while the next is issued. Two warpgroups on a tile: none, since the other's products
    // fill the tensor cores meanwhile, and a stage that is free a block earlier hides more of what holds up its loads.
    constexpr int32_t under_way = C::math_warps == 8 && !C::pingpong ? 0 : 1;
    Watch<C> watch = cta.watch(GRS_ROLE_MATH, ptx::thread_index() == 128);
    Barriers<C> &barriers = cta.shared.barriers;
    Cursor<C::stages> cursor;
    Cursor<C::tile_buffers> buffer;
    int32_t first_row = C::pingpong ? 0 : warpgroup * 64;
    int32_t warp_row = first_row + static_cast<int32_t>(ptx::warp_index() % 4) * 16;
    int32_t turn = 0;
    uint32_t lap = warpgroup == 0; // phase of the other warpgroup's turn before this one's
    bool leaving = false;
    int32_t place = cta.index / C::cluster, stride = cta.args.grid / C::cluster;

    if constexpr (C::halve_first)
        if (cta.order().halved()) {
            leaving = multiply_halves<C>(cta, watch, cursor, buffer, first_row, warp_row);
            place += stride;
        }
    for (; place < cta.geometry.total_places(); place += stride, buffer.advance(), turn ^= 1) {
        if (C::pingpong && turn != warpgroup) {
            cursor.skip(C::k_blocks);
            continue;
        }
        watch.at(place);
        uint32_t before = lap;
        lap ^= 1;
        if constexpr (C::pingpong)
            watch.wait_on(&barriers.product_turn[warpgroup ^ 1], before, GRS_WAIT_STAGE_FULL);
        Accumulator<C::block_n> sum[row_blocks];
        ptx::Barrier *previous = nullptr;
        for (int32_t block = 0; block < C::k_blocks; ++block, cursor.advance()) {
            multiply_block<C, C::block_n, row_blocks>(cta, watch, cursor, first_row, block, sum);
            mma::warpgroup_wait<under_way>(); // all but so many blocks are complete: their stages are free
            ptx::Barrier *free = &barriers.stage_free[cursor.slot];
            if constexpr (under_way > 0) {
                if (previous)
                    release_stage<C>(previous);
                previous = free;
            } else {
                release_stage<C>(free);
            }
        }
        if constexpr (C::pingpong)
            pass_turn<C>(&barriers.product_turn[warpgroup]);
        if constexpr (under_way > 0) {
            mma::warpgroup_wait<0>();
            release_stage<C>(previous);
        }

        if (leaving)
            continue;
        if constexpr (C::pingpong)
            watch.wait_on(&barriers.tile_turn[warpgroup ^ 1], before, GRS_WAIT_TILE_READY);
        leaving = !finish_tile<C, C::block_n, row_blocks>(cta, watch, buffer, warp_row, sum, [&] {
            if constexpr (C::pingpong)
                pass_turn<C>(&barriers.tile_turn[warpgroup]);
        });
    }
}

template <class C> GRS_DEVICE void gemm_rs(const grs_args &args) {
    constexpr int32_t first_beside = 4 + C::math_warps; // whole warpgroups, since registers are shared out by them
    static_assert(C::threads == 32 * (first_beside + ceil_div(lanes_beside<C>, 4) * 4),
                  "threads: a warpgroup of roles, math, and what lane_per_stage needs beside");
    static_assert(sizeof(Shared<C>) == C::shared_bytes, "shared memory: the planner's map and the kernel's differ");
    static_assert(C::block_m % 64 == 0 && C::block_m == 16 * C::tile_writers * (C::pingpong ? C::block_m / 64 : 1),
                  "tile.m: 64 rows a math warpgroup at a time");
    static_assert(!C::halve_first || (!C::pingpong && !C::place_shared && C::cluster == 1 && C::math_warps == 8),
                  "halve_first: two warpgroups on a tile, a CTA alone, an outbox");
    static_assert(C::segments % C::ring == 0, "segments: a multiple of the ring");

    Shared<C> &shared = *reinterpret_cast<Shared<C> *>(ptx::shared_memory());
    int32_t block = static_cast<int32_t>(ptx::block_index());
    const grs_rank_args &me = args.rank[block / args.grid];
    uint32_t warp = ptx::warp_index();

    if (warp == 0 && ptx::lane_index() == 0)
        set_up<C>(shared, me);
    if constexpr (C::cluster == 1)
        ptx::block_sync();
    else
        ptx::cluster_sync();          // the others' barriers are there too
    ptx::wait_for_earlier_launches(); // set up beside their last tiles

    const Cta<C> cta{args, me, shared, Geometry<C>(args.m), block % args.grid};
    if (warp < 4) {
        ptx::registers_decrease<C::registers_producer>();
        communicate<C>(cta, warp);
    } else if (lanes_beside<C> > 0 && warp >= static_cast<uint32_t>(first_beside)) {
        ptx::registers_decrease<C::registers_producer>();
        communicate_beside<C>(cta, static_cast<int32_t>(warp) - first_beside);
    } else {
        ptx::registers_increase<C::registers_consumer>();
        math_role<C>(cta, static_cast<int32_t>(warp / 4 - 1));
    }
    ptx::warp_sync();
    if constexpr (C::cluster == 1)
        ptx::block_sync();
    else
        ptx::cluster_sync(); // nobody multicasts into, or arrives in, a CTA that has ended
    if (warp == 0 && !ptx::load_shared(&shared.leave))
        depart<C>(cta.geometry, args, me);
}

} // namespace grs
