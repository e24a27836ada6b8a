// Which tile, in which order: the same arithmetic on every rank.
//
// Rows of A are cut into `segments` owner segments of c = ceil(M / segments) rows. The ring has `ring` ranks; a rank owns
// q = segments / ring of them. Turn t of a rank is its t-th segment in time: the first q turns are those of the rank after
// it (START: nothing comes from upstream), the last q are its own (END: the sum is complete). A segment's tiles are
// numbered j = 0 … T-1 along a raster: panels of `raster` tiles of M, M fastest inside a panel, so that neighbours in time
// share operands in L2. Sorting all (t, j) by time gives positions p; position p belongs to CTA p mod grid.
//
// With clusters, "tile" in all of this is the tile of a cluster: `cluster` CTA tiles one below the other. CTA h of the cluster
// makes part h, whose number is j * cluster + h: the number that slots and bits go by.
#pragma once

#include "grs/ptx.cuh"

namespace grs {

GRS_DEVICE constexpr int32_t ceil_div(int32_t a, int32_t b) {
    return (a + b - 1) / b;
}
GRS_DEVICE int32_t minimum(int32_t a, int32_t b) {
    return a < b ? a : b;
}
GRS_DEVICE constexpr int32_t maximum(int32_t a, int32_t b) {
    return a > b ? a : b;
}

struct Tile {
    int32_t turn;     // t
    int32_t owner;    // segment index
    int32_t distance; // hops still to go: ring-1 = START, 0 = END
    int32_t index;    // number in its segment: slots and bits go by it
    int32_t row;      // first row in A
    int32_t kept_row; // first row in the owner's D
    int32_t column;   // first column of D
    int32_t rows; // rows that the segment reaches: 1 … block_m, or less than 1 for the empty half of a cluster's tile
    int32_t columns;      // columns that N reaches
    int32_t first_column; // of the tile's image: not 0 for the second half of a tile
    bool complete;        // nothing of the tile comes after this
};

template <class C> struct Geometry {
    static constexpr int32_t tiles_n = (C::n + C::block_n - 1) / C::block_n;
    static constexpr int32_t segments_per_rank = C::segments / C::ring;

    int32_t m, segment_rows;

    GRS_DEVICE explicit Geometry(int32_t rows_of_a) : m(rows_of_a), segment_rows(ceil_div(rows_of_a, C::segments)) {}

    // Tiles of a cluster.
    GRS_DEVICE static int32_t places_of_rows(int32_t rows) { return ceil_div(rows, C::block_m * C::cluster) * tiles_n; }
    GRS_DEVICE int32_t rows(int32_t owner) const { // computed in 64 bits: owner * c may pass 2^31 for the last owners
        int64_t left = m - static_cast<int64_t>(owner) * segment_rows;
        return left <= 0 ? 0 : left < segment_rows ? static_cast<int32_t>(left) : segment_rows;
    }
    GRS_DEVICE int32_t places(int32_t owner) const { return places_of_rows(rows(owner)); }
    GRS_DEVICE int32_t tiles(int32_t owner) const { return places(owner) * C::cluster; }
    // Tiles of the largest segment: the stride of slots and bits between segments.
    GRS_DEVICE int32_t max_tiles() const { return places_of_rows(segment_rows) * C::cluster; }
    // What one rank computes: m / c full segments and one with the rest.
    GRS_DEVICE int32_t total_places() const {
        return m / segment_rows * places_of_rows(segment_rows) + places_of_rows(m % segment_rows);
    }
    GRS_DEVICE int32_t owner_of_turn(int32_t rank, int32_t turn) const {
        int32_t rank_of = rank + 1 + turn / segments_per_rank;
        return (rank_of >= C::ring ? rank_of - C::ring : rank_of) + turn % segments_per_rank * C::ring;
    }
    GRS_DEVICE Tile tile(int32_t rank, int32_t turn, int32_t place, int32_t part) const {
        Tile tile;
        tile.turn = turn;
        tile.owner = owner_of_turn(rank, turn);
        tile.distance = C::ring - 1 - turn / segments_per_rank;
        tile.index = place * C::cluster + part;
        int32_t rows_here = rows(tile.owner);
        int32_t places_m = ceil_div(rows_here, C::block_m * C::cluster);
        int32_t panel = place / (C::raster * tiles_n), within = place % (C::raster * tiles_n);
        int32_t height = minimum(C::raster, places_m - panel * C::raster);
        int32_t row = ((panel * C::raster + within % height) * C::cluster + part) * C::block_m;
        tile.row = tile.owner * segment_rows + row;
        tile.kept_row = tile.owner / C::ring * segment_rows + row;
        tile.column = within / height * C::block_n;
        tile.rows = minimum(C::block_m, rows_here - row);
        tile.columns = minimum(C::block_n, C::n - tile.column);
        tile.first_column = 0;
        tile.complete = true;
        return tile;
    }
};

// Walks the tiles of one CTA in order: those of its cluster among the clusters of the rank. Positions are grouped: in `segment` order a group is a segment; interleaved, a group
// is wave w of turn t, and groups are sorted by (w + t * lag, t).
//
// With halve_first a CTA's first tile, if it is a START, is walked as two: the halves of its columns, each with the buffers of a tile
// and a part of the one slot; the bit goes with the second.
template <class C> class TileOrder {
  public:
    GRS_DEVICE TileOrder(const Geometry<C> &geometry, const grs_args &args, int32_t rank, int32_t cta)
        : geometry_(geometry), wave_(args.wave / C::cluster), stride_(args.grid / C::cluster), rank_(rank),
          part_(cta % C::cluster), total_(geometry.total_places()), position_(cta / C::cluster),
          offset_(cta / C::cluster) {
        settle();
        if constexpr (C::halve_first)
            if (turn_ < Geometry<C>::segments_per_rank)
                half_ = 0;
    }
    GRS_DEVICE bool more() const { return position_ < total_; }
    GRS_DEVICE bool last() const { return position_ + stride_ >= total_; }
    GRS_DEVICE int32_t position() const { return position_; }
    // Is tile() a half of the CTA's first tile?
    GRS_DEVICE bool halved() const { return C::halve_first && half_ < 2; }
    GRS_DEVICE Tile tile() const {
        Tile tile = geometry_.tile(rank_, turn_, first_of_group() + offset_, part_);
        if (halved()) {
            constexpr int32_t columns = C::block_n / 2;
            tile.columns = half_ == 0 ? minimum(tile.columns, columns) : maximum(tile.columns - columns, 0);
            tile.column += half_ * columns;
            tile.first_column = half_ * columns;
            tile.complete = half_ == 1;
        }
        return tile;
    }
    GRS_DEVICE void next() {
        if (halved() && half_++ == 0)
            return;
        position_ += stride_;
        offset_ += stride_;
        settle();
    }

  private:
    GRS_DEVICE int32_t wave_of_group() const { return key_ - turn_ * C::lag; }
    GRS_DEVICE int32_t first_of_group() const { return C::interleave ? wave_of_group() * wave_ : 0; }
    GRS_DEVICE int32_t group_size() const {
        int32_t places = geometry_.places(geometry_.owner_of_turn(rank_, turn_));
        if constexpr (!C::interleave)
            return places;
        if (wave_of_group() < 0)
            return 0;
        return maximum(0, minimum(wave_, places - first_of_group()));
    }
    // Moves to the group that holds the position.
    GRS_DEVICE void settle() {
        if (!more())
            return;
        for (int32_t size; offset_ >= (size = group_size()); offset_ -= size) {
            ++turn_;
            if (C::interleave && turn_ == C::segments)
                turn_ = 0, ++key_;
        }
    }

    Geometry<C> geometry_;
    int32_t wave_, stride_, rank_, part_;
    int32_t total_, position_; // places of the rank, and this one's number in time
    int32_t offset_;           // of the position in its group
    int32_t half_ = 2;         // of the first tile: 0, then 1; 2: the tiles are whole
    int32_t turn_ = 0, key_ = 0;
};

} // namespace grs
