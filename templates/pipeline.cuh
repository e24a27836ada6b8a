// Shared memory of a CTA and the barriers between its roles.
//
//   loader ──stage_full──▶ math ──stage_free──▶ loader                     A and B, `stages` deep
//   prefetcher ──tile_ready──▶ math ──tile_full──▶ storer ──tile_free──▶ prefetcher     `tile_buffers` tiles
//
// With ring.place: global there is one tile buffer, and what is to be sent takes a second way:
//
//   storer ──outbox_full──▶ sender ──outbox_sent──▶ storer, who signals    `ring_depth` tiles in global memory
//   copy engine ──chunk_full──▶ sender                                     `chunk_count` pieces on their way to the peer
//
// Where accumulators lie in tensor memory, an issuer stands between the stages and the math warps:
//
//   loader ──stage_full──▶ issuer ──stage_free──▶ loader,  issuer ──accum_full──▶ math ──accum_free──▶ issuer
#pragma once

#include "grs/ptx.cuh"
#include "grs/tile.cuh"

namespace grs {

// What the prefetcher tells the math warps with tile_ready.
enum TileAction : uint32_t {
    TILE_STORE, // the buffer is free: round the product into it
    TILE_ADD,   // the partial lies in it: add, round, store in place
    TILE_LEAVE  // the launch is being left: touch no buffer from here on
};

// `count` accumulators in tensor memory; 0: they lie in registers, and the math warps issue their own products.
template <int32_t count> struct AccumBarriers { ptx::Barrier accum_full[count], accum_free[count]; };
template <> struct AccumBarriers<0> {};

// Ping-pong: the warpgroups take turns, by tile. A parity wait is fooled by a barrier that is two phases behind, and neither
// warpgroup sees all phases of the stages and tile buffers; so it waits, before its own tile, until all warps of the other have
// seen those of the tile before: its stages (product_turn), its buffer (tile_turn). A barrier each, since a warp waits for the
// other warpgroup while its own may not have arrived in full.
template <class C> constexpr bool takes_turns = C::tile_writers < C::math_warps;
template <bool pingpong> struct TurnBarriers { ptx::Barrier product_turn[2], tile_turn[2]; };
template <> struct TurnBarriers<false> {};

template <class C> struct Barriers : AccumBarriers<C::accum_stages>, TurnBarriers<takes_turns<C>> {
    ptx::Barrier stage_full[C::stages], stage_free[C::stages];
    ptx::Barrier tile_ready[C::tile_buffers], tile_full[C::tile_buffers], tile_free[C::tile_buffers];
    ptx::Barrier outbox_full[C::outbox_depth], outbox_sent[C::outbox_depth];
    ptx::Barrier chunk_full[C::chunk_count];
};

// The map: byte offsets from the start of dynamic shared memory. The planner computes the same; its total is asserted here.
template <class C> struct Shared {
    static constexpr int32_t a_bytes = C::block_m * C::block_k * 2;
    static constexpr int32_t b_bytes = C::block_n / C::cta_group * C::block_k * 2; // each CTA of a pair holds half of B
    static constexpr int32_t stage_bytes = a_bytes + b_bytes;
    static constexpr int32_t tile_bytes = panels_of<C::block_n> * panel_bytes<C::block_m>();

    alignas(1024) char stage[C::stages][stage_bytes];
    alignas(1024) char tile[C::tile_buffers][tile_bytes];
    alignas(1024) char chunk[C::chunk_count][C::chunk_bytes];
    Barriers<C> barriers;
    uint32_t leave;                   // not 0: this CTA is to leave
    uint32_t action[C::tile_buffers]; // TileAction of the tile that tile_ready announces
    uint32_t accumulators;            // address of the first in tensor memory, where there is one

    static_assert(C::block_k == panel_columns, "tile.k: one panel of 64 columns a stage");
    static_assert(stage_bytes % 1024 == 0 && tile_bytes % 1024 == 0, "tile.m, tile.n: whole swizzle atoms");
};

// Index and phase of a ring of barriers. A consumer waits for parity `phase`; a producer, who finds every slot free at the
// start, waits for `phase ^ 1`.
template <int32_t size> struct Cursor {
    int32_t slot = 0;
    uint32_t phase = 0;
    GRS_DEVICE void advance() {
        if (++slot == size)
            slot = 0, phase ^= 1;
    }
    GRS_DEVICE void skip(int32_t slots) {
        slot += slots;
        phase ^= static_cast<uint32_t>(slot / size) & 1;
        slot %= size;
    }
};

template <class C> GRS_DEVICE void init_barriers(Barriers<C> &barriers) {
    for (int32_t i = 0; i < C::stages; ++i) {
        ptx::barrier_init(&barriers.stage_full[i], 1);
        ptx::barrier_init(&barriers.stage_free[i], C::stage_readers);
    }
    if constexpr (C::accum_stages > 0)
        for (int32_t i = 0; i < C::accum_stages; ++i) {
            ptx::barrier_init(&barriers.accum_full[i], 1);
            ptx::barrier_init(&barriers.accum_free[i],
                              C::math_warps * C::cta_group); // of a pair: the leader's alone is used
        }
    if constexpr (takes_turns<C>)
        for (int32_t i = 0; i < 2; ++i) {
            ptx::barrier_init(&barriers.product_turn[i], C::tile_writers);
            ptx::barrier_init(&barriers.tile_turn[i], C::tile_writers);
        }
    for (int32_t i = 0; i < C::tile_buffers; ++i) {
        ptx::barrier_init(&barriers.tile_ready[i], 1);
        ptx::barrier_init(&barriers.tile_full[i], C::tile_writers);
        ptx::barrier_init(&barriers.tile_free[i], 1);
    }
    for (int32_t i = 0; i < C::outbox_depth; ++i) {
        ptx::barrier_init(&barriers.outbox_full[i], 1);
        ptx::barrier_init(&barriers.outbox_sent[i], C::place_shared ? 1 : C::ship_lanes);
    }
    for (int32_t i = 0; i < C::chunk_count; ++i)
        ptx::barrier_init(&barriers.chunk_full[i], 1);
    ptx::fence_barrier_init();
}

} // namespace grs
