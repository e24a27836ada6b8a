// Which bit of the mask stands for which tile: arithmetic alone, the same on every rank.
#pragma once

#include "grs/schedule.cuh"

namespace grs {

// The numbering of bits. A bit covers one tile, a group of consecutive tiles of a segment, or a whole segment. `turn` is the
// receiver's; turns below q = segments / ring are START there and have no bit.
template <class C> struct Bits {
    static constexpr int32_t first_turn = Geometry<C>::segments_per_rank;

    GRS_DEVICE static int32_t in_segment(const Geometry<C> &geometry) { // bits a segment, by the largest one
        if constexpr (C::group_tiles == 0)
            return 1;
        else
            return ceil_div(geometry.max_tiles(), C::group_tiles);
    }
    GRS_DEVICE static int32_t index(const Geometry<C> &geometry, int32_t turn, int32_t tile) {
        int32_t segment = (turn - first_turn) * in_segment(geometry);
        if constexpr (C::group_tiles == 0)
            return segment;
        else
            return segment + tile / C::group_tiles;
    }
    // Tiles that share the bit of this tile; the last group of a segment may be smaller.
    GRS_DEVICE static int32_t tiles(const Geometry<C> &geometry, int32_t owner, int32_t tile) {
        int32_t in_owner = geometry.tiles(owner);
        if constexpr (C::group_tiles == 0)
            return in_owner;
        else
            return minimum(C::group_tiles, in_owner - tile / C::group_tiles * C::group_tiles);
    }
    GRS_DEVICE static int32_t words(const Geometry<C> &geometry) {
        return ceil_div((C::segments - first_turn) * in_segment(geometry), 64);
    }
};

} // namespace grs
