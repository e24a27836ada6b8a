// Operand and instruction descriptors of Blackwell's tensor cores: plain arithmetic, no instruction. Source: PTX ISA,
// "TensorCore 5th Generation Family Instructions": "Shared memory descriptor" and "Instruction descriptor" (the table for
// .kind::tf32, .kind::f16, .kind::f8f6f4 and .kind::i8).
#pragma once

#include "grs/ptx.cuh"

namespace grs {
namespace tcgen05 {

// Shared-memory descriptor of a K-major BF16 operand in the 128-byte swizzle: rows of 128 bytes (64 columns), groups of
// eight rows 1024 bytes apart, the first group 1024-byte aligned. `address` is the shared-window address of the first row;
// moving it by 32 bytes moves 16 columns along K.
//   bits  0-13  address / 16
//   bits 16-29  leading-dimension offset / 16 (not used by a swizzled K-major layout one swizzle wide: 1)
//   bits 32-45  stride between groups of eight rows / 16
//   bits 46-48  constant 1: the format of this generation
//   bits 49-51  base offset: 0, groups start at multiples of 1024 bytes
//   bit  52     leading-dimension mode: 0, an offset
//   bits 53-60  constant 0
//   bits 61-63  swizzle: 2 is 128 bytes in units of 16
GRS_DEVICE uint64_t operand_descriptor(uint32_t address) {
    constexpr uint64_t leading = 1, stride = 1024 >> 4, format = 1, swizzle_128 = 2;
    return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | leading << 16 | stride << 32 | format << 46 |
           swizzle_128 << 61;
}

// Instruction descriptor of .kind::f16 for D [m x n] in FP32 (+)= A [m x 16] * B [n x 16]^T, both BF16 and K-major. A CTA
// pair counts the rows of both: m = 256.
//   bits  0-2   sparsity: dense
//   bit   3     integer saturation: none
//   bits  4-5   type of D: 1 is FP32
//   bits  7-9   type of A: 1 is BF16
//   bits 10-12  type of B: 1 is BF16
//   bits 13-14  negate A, B: no
//   bits 15-16  transpose A, B: 0 is K-major
//   bits 17-22  n / 8
//   bits 24-28  m / 16
//   bits 30-31  shift for the reuse of B by .ws: none
template <int32_t m, int32_t n> GRS_DEVICE constexpr uint32_t instruction_descriptor() {
    static_assert(m == 128 || m == 256, "tile.m: 128 rows for one CTA, 256 for a pair");
    static_assert(n % 32 == 0 && n >= 32 && n <= 256, "tile.n: what one instruction takes");
    constexpr uint32_t fp32 = 1, bf16 = 1;
    return fp32 << 4 | bf16 << 7 | bf16 << 10 | static_cast<uint32_t>(n / 8) << 17 |
           static_cast<uint32_t>(m / 16) << 24;
}

// Address of a column of tensor memory: bits 0-15 the column, bits 16-31 the lane (of a warp's quadrant: 32 a warp).
GRS_DEVICE constexpr uint32_t tensor_address(uint32_t base, int32_t lane, int32_t column) {
    return base + (static_cast<uint32_t>(lane) << 16) + static_cast<uint32_t>(column);
}

} // namespace tcgen05
} // namespace grs
