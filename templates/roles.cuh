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

    GRS_DEVICE Watch<C> watch(grs_role role, bool counts = true) const {
        return Watch<C>(args, me, &shared.leave, role, index, counts);
    }
    GRS_DEVICE TileOrder<C> order() const { return TileOrder<C>(geometry, args, me.rank, index); }
    GRS_DEVICE char *outbox(int32_t slot) const {
        return me.outbox + (static_cast<int64_t>(index) * C::ring_depth + slot) * Shared<C>::tile_bytes;
    }
};

// Brings the blocks of A and B, `stages` ahead of the math warps. In a cluster each CTA brings its own A and a part of the B
// that all share: by multicast, or, in a CTA pair, for tensor cores that read both CTAs' shared memory. The loader never leaves
// early: its stages are consumed also when the launch is being left, so that the CTAs of a cluster need not agree on a tile to
// stop at and nothing is in flight at the end.
template <class C> GRS_DEVICE void load_role(const Cta<C> &cta) {
    Watch<C> watch = cta.watch(GRS_ROLE_LOADER);
    Barriers<C> &barriers = cta.shared.barriers;
    constexpr int32_t part_rows = C::block_n / C::cluster;
    int32_t part = cta.index % C::cluster * part_rows;
    Cursor<C::stages> cursor;
    for (TileOrder<C> order = cta.order(); order.more(); order.next()) {
        Tile tile = order.tile();
        watch.at(tile, order.position());
        for (int32_t block = 0; block < C::k_blocks; ++block, cursor.advance()) {
            watch.wait_on(&barriers.stage_free[cursor.slot], cursor.phase ^ 1, GRS_WAIT_STAGE_FREE);
            ptx::Barrier *full = &barriers.stage_full[cursor.slot];
            char *a = cta.shared.stage[cursor.slot], *b = a + Shared<C>::a_bytes;
            int32_t x = block * C::block_k;
            if constexpr (C::cta_group == 2) { // gemm_rs_sm100.cuh
                load_half(cta, a, b, full, x, tile.row, tile.column + part);
                continue;
            }
            int32_t columns = order.halved() ? C::block_n / 2 : C::block_n;
            ptx::barrier_arrive_expect(full, Shared<C>::a_bytes + static_cast<uint32_t>(columns) * panel_row_bytes);
            ptx::tensor_load(a, &cta.me.a, full, x, tile.row);
            if constexpr (C::halve_first) {
                constexpr int32_t half = C::block_n / 2;
                for (int32_t column = 0; column < columns; column += half)
                    ptx::tensor_load(b + column * panel_row_bytes, &cta.me.b, full, x, tile.column + column);
            } else if constexpr (C::cluster == 1)
                ptx::tensor_load(b, &cta.me.b, full, x, tile.column);
            else
                ptx::tensor_load_multicast(b + part * panel_row_bytes, &cta.me.b, full, x, tile.column + part,
                                           (1u << C::cluster) - 1);
        }
    }
    ptx::let_next_launch_start();
    if constexpr (C::accum_stages > 0) // the issuer's last commits must not arrive in a CTA that has ended
        for (int32_t i = 0; i < C::stages; ++i, cursor.advance())
            watch.wait_on(&barriers.stage_free[cursor.slot], cursor.phase ^ 1, GRS_WAIT_STAGE_FREE);
}

// Ping-pong, after one warpgroup has been told to leave with the tile of this sequence: the other one waits for the next tile.
template <class C>
GRS_DEVICE void tell_other(Watch<C> &watch, Shared<C> &shared, Cursor<C::tile_buffers> cursor, int32_t sequence) {
    cursor.advance();
    if constexpr (C::tile_buffers > 1)
        watch.wait_on(&shared.barriers.tile_full[cursor.slot], cursor.phase ^ 1, GRS_WAIT_TILE_FULL);
    else // that tile will not be full, but it has been seen
        watch.wait_on(&shared.barriers.tile_turn[sequence % 2], sequence / 2 % 2, GRS_WAIT_TILE_FULL);
    ptx::store_shared(&shared.action[cursor.slot], TILE_LEAVE);
    ptx::barrier_arrive(&shared.barriers.tile_ready[cursor.slot]);
}

// Makes a tile buffer ready for each tile: free, and with upstream's partial in it where there is one. Waits on every phase
// of tile_free, also where it has nothing to load: a parity wait is fooled by a barrier two phases behind. The one role that
// tells the math warps to leave.
template <class C> GRS_DEVICE void prefetch_role(const Cta<C> &cta) {
    Watch<C> watch = cta.watch(GRS_ROLE_PREFETCHER);
    Barriers<C> &barriers = cta.shared.barriers;
    Upstream<C> upstream(cta.geometry, cta.me.mask);
    watch.aborted(); // a launch after an abort does nothing
    Cursor<C::tile_buffers> cursor;
    int32_t sequence = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), ++sequence, cursor.advance()) {
        Tile tile = order.tile();
        watch.at(tile, order.position());
        ptx::Barrier *ready = &barriers.tile_ready[cursor.slot];
        uint32_t *action = &cta.shared.action[cursor.slot];
        bool add = tile.distance < C::ring - 1;
        bool go = !watch.leaving() && (!add || upstream.wait_landed(watch, tile)) &&
                  watch.wait(&barriers.tile_free[cursor.slot], cursor.phase ^ 1, GRS_WAIT_TILE_FREE);
        if (!go) { // the math warps must have seen the phase before: two ahead would look like none
            watch.wait_on(&barriers.tile_full[cursor.slot], cursor.phase ^ 1, GRS_WAIT_TILE_FULL);
            ptx::store_shared(action, TILE_LEAVE);
            ptx::barrier_arrive(ready);
            order.next();
            if constexpr (takes_turns<C>)
                if (order.more())
                    tell_other<C>(watch, cta.shared, cursor, sequence);
            return;
        }
        ptx::store_shared(action, add ? TILE_ADD : TILE_STORE);
        if (add)
            receive<C>(cta.shared.tile[cursor.slot], cta.me, cta.geometry, tile, ready, upstream.late());
        else
            ptx::barrier_arrive(ready);
    }
}

// ring.place: global. Moves finished tiles out of the one tile buffer: to D at the end of the ring, else to the outbox. Sets the
// bits of tiles that the sender has sent, whenever no finished tile waits: no store in flight is slept on, and nobody waits
// for a bit that only a later tile would release.
template <class C> GRS_DEVICE void store_role(const Cta<C> &cta) {
    Watch<C> watch = cta.watch(GRS_ROLE_STORER);
    Barriers<C> &barriers = cta.shared.barriers;
    Posted<C> posted(cta.shared, cta.me, cta.geometry, cta.order());
    Cursor<C::outbox_depth> outbox;
    uint32_t phase = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), phase ^= 1) {
        Tile tile = order.tile();
        watch.at(tile, order.position());
        Patience<C> patience(watch, GRS_WAIT_TILE_FULL);
        while (!ptx::barrier_test_wait(&barriers.tile_full[0], phase)) {
            if (posted.oldest_sent(cta.args))
                posted.signal_oldest(watch);
            else if (!patience.more(phase ^ 1, phase))
                return;
            else
                ptx::pause(32);
        }
        bool keep = tile.distance == 0;
        if (keep) {
            store_kept<C>(cta.me, cta.shared.tile[0], tile, order.last());
        } else {
            if (posted.full()) {
                if (!posted.wait_oldest(watch))
                    return;
                posted.signal_oldest(watch);
            }
            place<C>(cta.outbox(outbox.slot), cta.shared.tile[0], tile, order.last());
        }
        ptx::bulk_commit();
        ptx::bulk_wait_read<0>();
        ptx::barrier_arrive(&barriers.tile_free[0]);
        if (keep)
            continue;
        ptx::bulk_wait<0>(); // landed …
        ptx::
            fence_proxy_async(); // … for the sender's copies too; here, since there it would wait for what is on the link
        ptx::barrier_arrive(&barriers.outbox_full[outbox.slot]);
        outbox.advance();
        posted.add();
        while (C::drain == DRAIN_PER_TILE && posted.any()) {
            if (!posted.wait_oldest(watch))
                return;
            posted.signal_oldest(watch);
        }
    }
    for (; posted.any(); posted.signal_oldest(watch))
        if (!posted.wait_oldest(watch))
            return;
}

// ring.place: global. Pushes the outbox to downstream, in order. With drain.policy: lane_per_stage one of several, each with a
// chunk of its own; a tile is sent when the last of them has arrived on outbox_sent.
template <class C> GRS_DEVICE void send_role(const Cta<C> &cta, int32_t lane) {
    Watch<C> watch = cta.watch(GRS_ROLE_SENDER, lane == 0);
    Barriers<C> &barriers = cta.shared.barriers;
    Sender<C> sender(cta.shared, cta.args, cta.me, cta.geometry, lane);
    Cursor<C::outbox_depth> outbox;
    bool has_credit = false;
    for (TileOrder<C> order = cta.order(); order.more(); order.next()) {
        Tile tile = order.tile();
        if (tile.distance == 0)
            continue;
        watch.at(tile, order.position());
        if (!watch.wait(&barriers.outbox_full[outbox.slot], outbox.phase, GRS_WAIT_OUTBOX_FULL))
            return;
        if (!has_credit && !wait_credit(watch))
            return;
        has_credit = true;
        if constexpr (C::stall_hook)
            if (!stall(watch))
                return;
        sender.push(watch, cta.outbox(outbox.slot), tile);
        ptx::barrier_arrive(&barriers.outbox_sent[outbox.slot]);
        outbox.advance();
    }
}

// ring.place: shared. Sends finished tiles from where the math warps left them, straight into the peer's slots, or stores
// them to D. `lane` of `ship_lanes` such threads takes every ship_lanes-th tile: with drain.policy: lane_per_stage each tile
// buffer has its own, so that no store waits for an older one of another buffer.
template <class C> GRS_DEVICE void ship_role(const Cta<C> &cta, int32_t lane) {
    Watch<C> watch = cta.watch(lane == 0 ? GRS_ROLE_STORER : GRS_ROLE_SENDER, lane < 2);
    Barriers<C> &barriers = cta.shared.barriers;
    Flights<C> flights(cta.shared, cta.me, cta.geometry, cta.order(), lane);
    Tempo<C> tempo(cta.args.send_ps_per_byte);
    Cursor<C::tile_buffers> cursor;
    bool has_credit = false;
    int32_t sequence = 0;
    for (TileOrder<C> order = cta.order(); order.more(); order.next(), ++sequence, cursor.advance()) {
        if (C::ship_lanes > 1 && sequence % C::ship_lanes != lane)
            continue;
        Tile tile = order.tile();
        watch.at(tile, order.position());
        ptx::Barrier *full = &barriers.tile_full[cursor.slot];
        if constexpr (C::drain == DRAIN_IDLE)
            while (flights.any() && (flights.full() || !ptx::barrier_try_wait(full, cursor.phase)))
                flights.land_oldest(watch);
        if (flights.full())
            flights.land_oldest(watch);
        if (!watch.wait(full, cursor.phase, GRS_WAIT_TILE_FULL))
            break;
        bool keep = tile.distance == 0;
        if (!keep && !has_credit && !wait_credit(watch))
            break;
        if (!keep)
            has_credit = true;
        if constexpr (C::stall_hook)
            if (!keep && !stall(watch))
                break;
        if (keep)
            store_kept<C>(cta.me, cta.shared.tile[cursor.slot], tile, order.last());
        else
            push_at_tempo<C>(watch, tempo, peer_slot<C>(cta.me, cta.geometry, tile), cta.shared.tile[cursor.slot], tile,
                             order.last());
        flights.depart();
        if constexpr (C::drain == DRAIN_PER_TILE || C::ship_lanes > 1)
            flights.land_all(watch);
    }
    flights.land_all(watch);
}

// One thread, before any role starts.
template <class C> GRS_DEVICE void set_up(Shared<C> &shared, const grs_rank_args &me) {
    ptx::prefetch_tensor_map(&me.a);
    ptx::prefetch_tensor_map(&me.b);
    init_barriers<C>(shared.barriers);
    ptx::store_shared(&shared.leave, 0);
}

// Threads that send, of which the first four warps have some: storer's and sender's where both send, else the sender's. Others are
// in warps of their own, behind all that do something else.
template <class C> constexpr int32_t lanes_inside = C::place_shared ? 2 : 1;
template <class C> constexpr int32_t lanes_beside = maximum(C::ship_lanes - lanes_inside<C>, 0);

template <class C> GRS_DEVICE void communicate_beside(const Cta<C> &cta, int32_t warp) {
    if constexpr (lanes_beside<C> != 0) {
        if (ptx::lane_index() != 0 || warp >= lanes_beside<C>)
            return;
        int32_t lane = lanes_inside<C> + warp;
        if constexpr (C::place_shared)
            ship_role<C>(cta, lane);
        else
            send_role<C>(cta, lane);
    }
}

// The first four warps.
template <class C> GRS_DEVICE void communicate(const Cta<C> &cta, uint32_t warp) {
    if (ptx::lane_index() != 0)
        return;
    if (warp == GRS_ROLE_LOADER)
        load_role<C>(cta);
    if (warp == GRS_ROLE_PREFETCHER)
        prefetch_role<C>(cta);
    if (C::count_waits && warp == GRS_ROLE_STORER && cta.index == 0) // it has time: no tile is full yet
        stamp_begin<C>(cta.me);
    if constexpr (C::place_shared) {
        if (warp >= GRS_ROLE_STORER && warp < GRS_ROLE_STORER + C::ship_lanes)
            ship_role<C>(cta, static_cast<int32_t>(warp) - GRS_ROLE_STORER);
    } else {
        if (warp == GRS_ROLE_STORER)
            store_role<C>(cta);
        if constexpr (C::ring > 1)
            if (warp == GRS_ROLE_SENDER)
                send_role<C>(cta, 0);
    }
}

} // namespace grs
