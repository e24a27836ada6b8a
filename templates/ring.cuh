// The ring's verbs. A partial travels rank -> rank-1 as a tile image (tile.cuh), so that what one rank's math warps rounded
// into shared memory can be loaded by the next rank as it is. Only the rows and panels that the segment and N reach move.
//
//   receive   slots of this rank  -> tile buffer   (prefetcher)
//   place     tile buffer         -> outbox (storer)
//   push      outbox -> chunks, or the tile buffer -> peer's slots (sender)
//   land      wait until what was sent lies there, then set the bit
#pragma once

#include "grs/link.cuh"
#include "grs/pipeline.cuh"
#include "grs/schedule.cuh"
#include "grs/signal.cuh"

namespace grs {

// Where the partial of a tile lies in a rank's receive slots. `turn` is the receiver's. The one place that knows.
template <class C> GRS_DEVICE char *slot_of(char *slots, const Geometry<C> &geometry, int32_t turn, int32_t index) {
    int64_t slot = static_cast<int64_t>(turn - Geometry<C>::segments_per_rank) * geometry.max_tiles() + index;
    return slots + slot * Shared<C>::tile_bytes;
}

// The part of a tile image that holds rows and columns of D: `panels` pieces of `bytes`, a panel apart.
template <class C> struct Extent {
    int32_t panels;
    uint32_t bytes;
    GRS_DEVICE explicit Extent(const Tile &tile)
        : panels(ceil_div(tile.columns, panel_columns)),
          bytes(static_cast<uint32_t>(maximum(tile.rows, 0)) * panel_row_bytes) {}
    GRS_DEVICE uint32_t total() const { return static_cast<uint32_t>(panels) * bytes; }
};

// Rows of a panel in one store to D. In a ring the next partial waits for the buffer, and fewer pauses are better.
template <class C> constexpr int32_t kept_rows = C::ring == 1 ? 64 : C::block_m;

// An SM's copy engine works in order: a whole tile at once holds up the loads of A and B behind it for longer than the stages
// last. So tiles move in pieces, with a pause after each in which other copies get their turn.
template <class C> GRS_DEVICE void breathe(uint32_t nanoseconds = C::piece_pause) {
    if constexpr (C::piece_pause > 0)
        ptx::pause(nanoseconds);
}
GRS_DEVICE uint32_t piece_of(uint32_t bytes, uint32_t done, uint32_t most) {
    return bytes - done < most ? bytes - done : most;
}

// Loads the partial that upstream has put into this rank's slots; `ready` completes when it is there. `hurry`: no pauses.
template <class C>
GRS_DEVICE void receive(char *tile_buffer, const grs_rank_args &me, const Geometry<C> &geometry, const Tile &tile,
                        ptx::Barrier *ready, bool hurry) {
    const char *slot = slot_of<C>(me.slots, geometry, tile.turn, tile.index);
    Extent<C> extent(tile);
    ptx::barrier_arrive_expect(ready, extent.total());
    if (extent.bytes == 0)
        return;
    for (int32_t panel = 0; panel < extent.panels; ++panel) {
        int32_t offset = panel * panel_bytes<C::block_m>();
        for (uint32_t done = 0; done < extent.bytes; done += C::piece_bytes) {
            ptx::bulk_load(tile_buffer + offset + done, slot + offset + done,
                           piece_of(extent.bytes, done, C::piece_bytes), ready);
            if (!hurry)
                breathe<C>();
        }
    }
}

// Stores a finished partial as an image into an outbox slot. The caller commits and waits. `hurry`: nothing of this CTA is left
// to load.
template <class C> GRS_DEVICE void place(char *image, const char *tile_buffer, const Tile &tile, bool hurry) {
    Extent<C> extent(tile);
    if (extent.bytes == 0)
        return;
    for (int32_t panel = 0; panel < extent.panels; ++panel) {
        int32_t offset = panel * panel_bytes<C::block_m>();
        for (uint32_t done = 0; done < extent.bytes; done += C::piece_bytes) {
            ptx::bulk_store(image + offset + done, tile_buffer + offset + done,
                            piece_of(extent.bytes, done, C::piece_bytes));
            if (!hurry)
                breathe<C>();
        }
    }
}

// The receive slot of downstream for a tile of this rank.
template <class C> GRS_DEVICE char *peer_slot(const grs_rank_args &me, const Geometry<C> &geometry, const Tile &tile) {
    return slot_of<C>(me.peer_slots, geometry, tile.turn + Geometry<C>::segments_per_rank, tile.index);
}

// Stores D: the rows and columns outside it are clipped by the copy engine; and, where a whole tile does not fill its last
// panel, that panel's rest, in a view of D in which the tile's columns are all there is. D makes room in L2 before A and B do.
template <class C>
GRS_DEVICE void store_kept(const grs_rank_args &me, const char *tile_buffer, const Tile &tile, bool hurry) {
    uint64_t policy = ptx::policy_evict_first();
    for (int32_t panel = 0; panel * panel_columns < tile.columns; ++panel) {
        int32_t column = panel * panel_columns;
        bool part =
            C::block_n % panel_columns != 0 && column + panel_columns > C::block_n && tile.columns == C::block_n;
        for (int32_t row = 0; row < tile.rows; row += kept_rows<C>) {
            const char *piece = tile_buffer + panel * panel_bytes<C::block_m>() + row * panel_row_bytes;
            if (part)
                ptx::tensor_store(&me.d_tiles, piece, column, tile.kept_row + row, tile.column / C::block_n, policy);
            else
                ptx::tensor_store(&me.d, piece, tile.column + column, tile.kept_row + row, policy);
            if (!hurry)
                breathe<C>();
        }
    }
}

// How the bits of tiles in flight are set. IDLE never sleeps on a store: the bit is set as soon as there is nothing else to do
// (with ring.place: shared a tile that is ready leaves first, at the tempo).
enum Drain { DRAIN_IDLE, DRAIN_PER_TILE, DRAIN_FULL };

// ring.place: shared. Stores a finished partial from its tile buffer into the peer's receive slot, at the CTA's tempo. The caller
// commits and waits. A piece is half as long as inside the GPU: until the link has taken it, loads wait behind it. `hurry`:
// nothing of this CTA is left to load.
template <class C>
GRS_DEVICE void push_at_tempo(Watch<C> &watch, Tempo<C> &tempo, char *image, const char *tile_buffer, const Tile &tile,
                              bool hurry) {
    constexpr uint32_t most = C::piece_bytes / 2;
    Extent<C> extent(tile);
    LinkModel<C> link;
    for (int32_t panel = 0; panel < extent.panels; ++panel) {
        int32_t offset = panel * panel_bytes<C::block_m>();
        for (uint32_t done = 0; done < extent.bytes; done += most) {
            uint32_t bytes = piece_of(extent.bytes, done, most);
            tempo.wait_turn(watch, bytes);
            ptx::bulk_store(image + offset + done, tile_buffer + offset + done, bytes);
            link.send(watch, bytes);
            if (!hurry)
                breathe<C>(C::piece_pause / 2);
        }
    }
    link.finish(watch);
}

// The pieces in which a tile goes through the chunks, or those of one of `ship_lanes` lanes. No division: one thread has little
// more than a microsecond for a piece.
template <class C> class Pieces {
  public:
    GRS_DEVICE Pieces(const Extent<C> &extent, int32_t lane) : extent_(extent.bytes), panels_(extent.panels) {
        if (extent_ == 0)
            panels_ = 0;
        skip(lane);
    }
    GRS_DEVICE bool more() const { return panels_ > 0; }
    GRS_DEVICE uint32_t offset() const { return panel_ + within_; }
    GRS_DEVICE uint32_t bytes() const { return piece_of(extent_, within_, C::chunk_bytes); }
    GRS_DEVICE void next() { skip(C::ship_lanes); }

  private:
    GRS_DEVICE void skip(int32_t pieces) {
        for (; pieces > 0; --pieces)
            if ((within_ += C::chunk_bytes) >= extent_)
                within_ = 0, panel_ += panel_bytes<C::block_m>(), --panels_;
    }

    uint32_t extent_;                 // bytes of a panel that move
    int32_t panels_;                  // this one and those behind it
    uint32_t panel_ = 0, within_ = 0; // where the panel begins, and the piece in it
};

// The sending end of a CTA with ring.place: global, used by one thread: pushes outbox tiles to the peer through small pieces of
// shared memory, at the CTA's tempo. With drain.policy: lane_per_stage there is one for each chunk: `lane` takes every
// ship_lanes-th piece of each tile, and waits for its own stores alone.
template <class C> class Sender {
  public:
    GRS_DEVICE Sender(Shared<C> &shared, const grs_args &args, const grs_rank_args &me, const Geometry<C> &geometry,
                      int32_t lane)
        : shared_(shared), me_(me), geometry_(geometry), tempo_(args.send_ps_per_byte), lane_(lane) {
        empty_.skip(lane);
        full_.skip(lane);
    }

    // Returns when the tile (this lane's part of it) has landed, so that its bit may be set.
    GRS_DEVICE void push(Watch<C> &watch, const char *outbox, const Tile &tile) {
        Extent<C> extent(tile);
        Pieces<C> coming(extent, lane_), leaving(extent, lane_);
        char *slot = peer_slot<C>(me_, geometry_, tile) + tile.first_column / panel_columns * panel_bytes<C::block_m>();
        LinkModel<C> link;

        for (int32_t chunk = lane_; chunk < C::chunk_count && coming.more(); chunk += C::ship_lanes)
            fetch(outbox, coming);
        for (bool first = behind > 0; leaving.more(); leaving.next(), first = false) {
            watch.wait_on(&shared_.barriers.chunk_full[full_.slot], full_.phase, GRS_WAIT_CHUNK);
            tempo_.wait_turn(watch, leaving.bytes());
            ptx::bulk_store(slot + leaving.offset(), shared_.chunk[full_.slot], leaving.bytes());
            ptx::bulk_commit();
            link.send(watch, leaving.bytes());
            next(full_);
            if (!first && coming.more()) { // into the chunk of the piece before, or, in a lane, of this one
                ptx::bulk_wait_read<behind>();
                fetch(outbox, coming);
            }
        }
        ptx::bulk_wait<0>();
        link.finish(watch);
    }

  private:
    GRS_DEVICE void fetch(const char *outbox, Pieces<C> &coming) {
        ptx::Barrier *full = &shared_.barriers.chunk_full[empty_.slot];
        ptx::barrier_arrive_expect(full, coming.bytes());
        ptx::bulk_load(shared_.chunk[empty_.slot], outbox + coming.offset(), coming.bytes(), full);
        next(empty_);
        coming.next();
    }
    GRS_DEVICE static void next(Cursor<C::chunk_count> &cursor) {
        if constexpr (C::ship_lanes == 1)
            cursor.advance();
        else
            cursor.skip(C::ship_lanes);
    }

    Shared<C> &shared_;
    const grs_rank_args &me_;
    Geometry<C> geometry_;
    Tempo<C> tempo_;
    int32_t lane_;
    Cursor<C::chunk_count> empty_, full_;                 // next chunk to fetch into, next to send
    static constexpr int32_t behind = C::ship_lanes == 1; // sends under way when a chunk is filled again
};

// Tiles in the outbox, oldest first: posted, and not yet signalled. The storer keeps it, since setting a bit takes microseconds
// (a release at system scope) in which the sender can push the next tile. Which tile the oldest is follows from the order.
template <class C> class Posted {
  public:
    GRS_DEVICE Posted(Shared<C> &shared, const grs_rank_args &me, const Geometry<C> &geometry,
                      const TileOrder<C> &order)
        : shared_(shared), me_(me), geometry_(geometry), trail_(order) {}
    GRS_DEVICE bool any() const { return count_ > 0; }
    GRS_DEVICE bool full() const { return count_ == C::outbox_depth; }
    GRS_DEVICE void add() { ++count_; }
    GRS_DEVICE bool oldest_sent(const grs_args &args) {
        return any() && ptx::barrier_test_wait(&shared_.barriers.outbox_sent[sent_.slot], sent_.phase) &&
               signal_.arrived(args);
    }
    GRS_DEVICE bool wait_oldest(Watch<C> &watch) {
        return watch.wait(&shared_.barriers.outbox_sent[sent_.slot], sent_.phase, GRS_WAIT_OUTBOX_FREE);
    }
    GRS_DEVICE void signal_oldest(Watch<C> &watch) {
        Tile tile = trail_.tile();
        while (tile.distance == 0) { // kept tiles never enter the outbox
            trail_.next();
            tile = trail_.tile();
        }
        signal_.finish(watch);
        if (tile.complete)
            signal_landed<C>(geometry_, me_, tile.turn, tile.owner, tile.index);
        trail_.next();
        sent_.advance();
        --count_;
    }

  private:
    Shared<C> &shared_;
    const grs_rank_args &me_;
    Geometry<C> geometry_;
    TileOrder<C> trail_;
    Cursor<C::outbox_depth> sent_;
    SignalModel<C> signal_;
    int32_t count_ = 0;
};

// All but the newest `pending` groups of this thread have landed (or been read), for a number known at run time.
template <int most> GRS_DEVICE void wait_landed_but(int32_t pending) {
    if constexpr (most == 0)
        ptx::bulk_wait<0>();
    else if (pending >= most)
        ptx::bulk_wait<most>();
    else
        wait_landed_but<most - 1>(pending);
}
template <int most> GRS_DEVICE void wait_read_but(int32_t pending) {
    if constexpr (most == 0)
        ptx::bulk_wait_read<0>();
    else if (pending >= most)
        ptx::bulk_wait_read<most>();
    else
        wait_read_but<most - 1>(pending);
}

// Tiles that left their buffers but are not known to have landed, oldest first, with ring.place: shared. Each is one bulk group
// of the calling thread and holds its tile buffer. Which tile the oldest is follows from the order, by a second walk.
template <class C> class Flights {
  public:
    GRS_DEVICE Flights(Shared<C> &shared, const grs_rank_args &me, const Geometry<C> &geometry,
                       const TileOrder<C> &order, int32_t lane)
        : shared_(shared), me_(me), geometry_(geometry), trail_(order) {
        skip(lane);
    }
    GRS_DEVICE bool any() const { return count_ > 0; }
    GRS_DEVICE bool full() const { return count_ == capacity; }
    GRS_DEVICE void depart() {
        ptx::bulk_commit();
        ++count_;
    }
    GRS_DEVICE void land_oldest(Watch<C> &watch) {
        wait_read_but<capacity - 1>(count_ - 1);
        ptx::barrier_arrive(&shared_.barriers.tile_free[slot_.slot]);
        wait_landed_but<capacity - 1>(count_ - 1);
        Tile tile = trail_.tile();
        if (tile.distance > 0) {
            SignalModel<C>().finish(watch);
            signal_landed<C>(geometry_, me_, tile.turn, tile.owner, tile.index);
        }
        skip(C::ship_lanes);
        --count_;
    }
    GRS_DEVICE void land_all(Watch<C> &watch) {
        while (any())
            land_oldest(watch);
    }

  private:
    static constexpr int32_t capacity = C::tile_buffers / C::ship_lanes;
    GRS_DEVICE void skip(int32_t tiles) {
        for (int32_t i = 0; i < tiles; ++i)
            trail_.next(), slot_.advance();
    }

    Shared<C> &shared_;
    const grs_rank_args &me_;
    Geometry<C> geometry_;
    TileOrder<C> trail_;
    Cursor<C::tile_buffers> slot_;
    int32_t count_ = 0;
};

} // namespace grs
