// Tensor maps: the emulator's own encoding of what cuTensorMapEncodeTiled describes, for matrices of 16-bit elements.
#ifndef GRS_EMULATOR_TENSOR_MAP_H
#define GRS_EMULATOR_TENSOR_MAP_H

#include "grs.h"
#include "templates/args.h"

namespace emu {

struct tensor_shape {
    uint64_t magic;
    char *base;
    uint64_t columns, rows, stride_bytes; // extent; from row to row
    uint32_t box_columns, box_rows;
    uint32_t swizzle_bytes; // 0, 32, 64 or 128
    uint32_t unused;
    uint64_t layers, layer_stride_bytes; // matrices, each so far after the one before; 0: one matrix
};

// The checks are those of cuTensorMapEncodeTiled: base 16-byte aligned, stride a multiple of 16 below 2^40, extents 1 to 2^32,
// box sides 1 to 256, box rows of a multiple of 16 bytes that the swizzle spans. tensor_map_encode_layers: with a third
// dimension, in which boxes are one deep.
grs_status tensor_map_encode(const void *base, uint64_t columns, uint64_t rows, uint64_t stride_elements,
                             uint32_t box_columns, uint32_t box_rows, uint32_t swizzle_bytes, grs_tensor_map *out,
                             grs_error *err);
grs_status tensor_map_encode_layers(const void *base, uint64_t columns, uint64_t rows, uint64_t stride_elements,
                                    uint64_t layers, uint64_t layer_stride_elements, uint32_t box_columns,
                                    uint32_t box_rows, uint32_t swizzle_bytes, grs_tensor_map *out, grs_error *err);
// nullptr: not a map that tensor_map_encode made.
const tensor_shape *tensor_map_decode(const void *map);

// Where the hardware puts the 16-byte unit at `address` (in the shared window): address bits 7 and up are folded into
// bits 4 and up.
inline uint32_t swizzle(uint32_t address, uint32_t swizzle_bytes) {
    switch (swizzle_bytes) {
    case 128: return address ^ ((address >> 7 & 7) << 4);
    case 64: return address ^ ((address >> 7 & 3) << 4);
    case 32: return address ^ ((address >> 7 & 1) << 4);
    default: return address;
    }
}

} // namespace emu

#endif
