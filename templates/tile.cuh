// Tiles in shared memory. A BF16 tile is an image of panels: 64 columns (128 bytes) wide, all rows high, in the 128-byte
// swizzle that tensor maps, tensor cores and the ring share: the 16-byte unit u of row r lies at unit u ^ (r % 8). Where the
// tile's columns do not fill the last panel, the rest of it is zeros that move with it.
#pragma once

#include "grs/ptx.cuh"

namespace grs {

constexpr int32_t panel_columns = 64;
constexpr int32_t panel_row_bytes = 128;

template <int32_t rows> GRS_DEVICE constexpr int32_t panel_bytes() {
    return rows * panel_row_bytes;
}
template <int32_t columns> constexpr int32_t panels_of = (columns + panel_columns - 1) / panel_columns;

// Address of the 16-byte unit that holds columns 8*unit … 8*unit+7 of a row.
template <int32_t rows> GRS_DEVICE char *tile_unit(char *tile, int32_t row, int32_t unit) {
    return tile + (unit / 8) * panel_bytes<rows>() + row * panel_row_bytes + ((unit % 8) ^ (row % 8)) * 16;
}

// The accumulator of one math warp: 16 rows x n columns in FP32, in the layout of mma::Product.
template <int32_t n> struct Accumulator { float value[n / 2]; };

// Rounds the accumulator to BF16 into rows `row` … `row`+15 of a tile image; with `add`, the BF16 partial that lies there is
// added in FP32 first. A lane touches the same 16x16 blocks when it loads and when it stores, so no other warp is involved.
// The rest of the last panel gets zeros.
template <int32_t rows, int32_t n, bool add> GRS_DEVICE void store_rows(char *tile, int32_t row, Accumulator<n> &sum) {
    int32_t lane = static_cast<int32_t>(ptx::lane_index());
    int32_t lane_row = row + lane % 16; // matrices 0, 1: rows 0-7, 8-15 of columns 0-7; 2, 3: of columns 8-15
#pragma unroll
    for (int32_t block = 0; block < panels_of<n> * panel_columns / 16; ++block) {
        char *unit = tile_unit<rows>(tile, lane_row, block * 2 + lane / 16);
        float *v = sum.value + block * 8;
        const int32_t matrices = block < n / 16 ? 4 : block * 16 < n ? 2 : 0; // that the accumulator has
        uint32_t packed[4] = {};
        if (add && matrices > 0) {
            ptx::matrix_load_x4(packed, unit);
#pragma unroll
            for (int32_t i = 0; i < matrices; ++i) {
                v[2 * i] += ptx::bf16_low(packed[i]);
                v[2 * i + 1] += ptx::bf16_high(packed[i]);
            }
        }
#pragma unroll
        for (int32_t i = 0; i < 4; ++i)
            packed[i] = i < matrices ? ptx::pack_bf16(v[2 * i], v[2 * i + 1]) : 0;
        ptx::matrix_store_x4(unit, packed);
    }
}

} // namespace grs
