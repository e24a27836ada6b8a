// The communication roles: one thread each, the same for every architecture. What they wait for and what they release is
// drawn in pipeline.cuh.
#pragma once

#include "grs/fault.cuh"
#include "grs/pipeline.cuh"
#include "grs/ring.cuh"
#include "grs/schedule.cuh"
#include "grs/signal.cuh"

namespace grs {

// What every role of a CTA knows.
template <class C> struct Cta {
    const grs_args &args;
    const grs_rank_args &me;
    Shared<C> &shared;
    Geometry<C> geometry;
    int32_t index; // of this CTA among the CTAs of its rank
    uint64_t epoch;

    GRS_DEVICE Watch watch(grs_role role) const { return Watch(args, me, &shared.leave, epoch, role, index); }
    GRS_DEVICE TileOrder<C> order() const { return TileOrder<C>(geometry, args, me.rank, index); }
    GRS_DEVICE int32_t position(int32_t sequence) const { return index + sequence * args.grid; }
    GRS_DEVICE char *outbox(int32_t slot) const {
        return me.outbox + (static_cast<int64_t>(index) * C::ring_depth + slot) * Shared<C>::tile_bytes;
    }
};

// Brings the blocks of A and B, `stages` ahead of the math warps. Ends early only after the tile at which they stop.
template <class C> GRS_DEVICE void load_role(const Cta<C> &cta) {
    Watch watch = cta.watch(GRS_ROLE_LOADER);
    Barriers<C> &barriers = cta.shared.barriers;
    Cursor<C::stages> cursor;
    int32_t sequence = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), ++sequence) {
        Tile tile = order.tile();
        watch.at(tile, cta.position(sequence));
        for (int32_t block = 0; block < C::k_blocks; ++block) {
            while (!watch.wait(&barriers.stage_free[cursor.slot], cursor.phase ^ 1, GRS_WAIT_STAGE_FREE)) {
                if (sequence <= static_cast<int32_t>(ptx::load_shared(&cta.shared.stop_after))) continue;
                for (int32_t i = 0; i < C::stages; ++i, cursor.advance()) // what is in flight must land before the CTA ends
                    watch.wait_on(&barriers.stage_full[cursor.slot], cursor.phase ^ 1, GRS_WAIT_STAGE_FULL);
                return;
            }
            ptx::Barrier *full = &barriers.stage_full[cursor.slot];
            char *stage = cta.shared.stage[cursor.slot];
            ptx::barrier_arrive_expect(full, Shared<C>::stage_bytes);
            ptx::tensor_load(stage, &cta.me.a, full, block * C::block_k, tile.row);
            ptx::tensor_load(stage + Shared<C>::a_bytes, &cta.me.b, full, block * C::block_k, tile.column);
            cursor.advance();
        }
    }
}

// Makes the tile buffer ready for each tile: free, and with upstream's partial in it where there is one. Waits on every phase
// of tile_free, also where it has nothing to load: a parity wait is fooled by a barrier two phases behind. The one role
// that stops the math warps.
template <class C> GRS_DEVICE void prefetch_role(const Cta<C> &cta) {
    Watch watch = cta.watch(GRS_ROLE_PREFETCHER);
    Barriers<C> &barriers = cta.shared.barriers;
    Upstream<C> upstream(cta.geometry, cta.me.mask);
    int32_t sequence = 0;
    uint32_t phase = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), ++sequence, phase ^= 1) {
        Tile tile = order.tile();
        watch.at(tile, cta.position(sequence));
        bool add = tile.distance < C::ring - 1;
        bool ready = (!add || upstream.wait_landed(watch, tile)) &&
                     watch.wait(&barriers.tile_free, phase ^ 1, GRS_WAIT_TILE_FREE);
        if (!ready) {
            ptx::store_shared(&cta.shared.stop_after, static_cast<uint32_t>(sequence));
            ptx::store_shared(&cta.shared.action, TILE_STOP);
            ptx::barrier_arrive(&barriers.tile_ready);
            return;
        }
        ptx::store_shared(&cta.shared.action, add ? TILE_ADD : TILE_STORE);
        if (add)
            receive<C>(cta.shared.tile, cta.me, cta.geometry, tile, &barriers.tile_ready);
        else
            ptx::barrier_arrive(&barriers.tile_ready);
    }
}

// Moves finished tiles out of shared memory: to D at the end of the ring, else to the outbox.
template <class C> GRS_DEVICE void store_role(const Cta<C> &cta) {
    Watch watch = cta.watch(GRS_ROLE_STORER);
    Barriers<C> &barriers = cta.shared.barriers;
    Cursor<C::ring_depth> cursor;
    int32_t sequence = 0;
    uint32_t phase = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), ++sequence, phase ^= 1) {
        Tile tile = order.tile();
        watch.at(tile, cta.position(sequence));
        if (!watch.wait(&barriers.tile_full, phase, GRS_WAIT_TILE_FULL)) break;
        if (tile.distance == 0) {
            for (int32_t panel = 0; tile.rows > 0 && panel * panel_columns < tile.columns; ++panel)
                ptx::tensor_store(&cta.me.d, cta.shared.tile + panel * panel_bytes<C::block_m>(),
                                  tile.column + panel * panel_columns, tile.kept_row);
            ptx::bulk_commit();
            ptx::bulk_wait_read<0>();
            ptx::barrier_arrive(&barriers.tile_free);
        } else {
            if (!watch.wait(&barriers.outbox_free[cursor.slot], cursor.phase ^ 1, GRS_WAIT_OUTBOX_FREE)) break;
            post<C>(cta.outbox(cursor.slot), cta.shared.tile, tile);
            ptx::bulk_commit();
            ptx::bulk_wait_read<0>();
            ptx::barrier_arrive(&barriers.tile_free);
            ptx::bulk_wait<0>();                                    // landed, so that the sender may read it …
            ptx::barrier_arrive(&barriers.outbox_full[cursor.slot]); // … after this release
            cursor.advance();
        }
    }
    ptx::bulk_wait<0>();
}

// Pushes the outbox to downstream, in order, and signals.
template <class C> GRS_DEVICE void send_role(const Cta<C> &cta) {
    Watch watch = cta.watch(GRS_ROLE_SENDER);
    Barriers<C> &barriers = cta.shared.barriers;
    Sender<C> sender(cta.shared, cta.me, cta.geometry);
    Cursor<C::ring_depth> cursor;
    bool has_credit = false;
    int32_t sequence = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), ++sequence) {
        Tile tile = order.tile();
        if (tile.distance == 0) continue;
        watch.at(tile, cta.position(sequence));
        ptx::Barrier *full = &barriers.outbox_full[cursor.slot];
        if (!ptx::barrier_try_wait(full, cursor.phase)) {
            sender.land(); // nothing to send: no bit waits for what comes next
            if (!watch.wait(full, cursor.phase, GRS_WAIT_OUTBOX_FULL)) return;
        }
        if (!has_credit && !wait_credit(watch)) return;
        has_credit = true;
        if constexpr (C::stall_hook)
            if (!stall(watch)) break;
        ptx::fence_proxy_async(); // the outbox was written by another thread's copies
        sender.push(watch, cta.outbox(cursor.slot), tile, &barriers.outbox_free[cursor.slot]);
        cursor.advance();
    }
    sender.land();
}

} // namespace grs
