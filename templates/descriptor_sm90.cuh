// Operand descriptors of Hopper's tensor cores: plain arithmetic, no instruction. Source: PTX ISA, "Asynchronous Warpgroup Level
// Matrix Instructions", "Matrix descriptor".
#pragma once

#include "grs/ptx.cuh"

namespace grs {
namespace mma {

// Shared-memory descriptor of a K-major BF16 operand in the 128-byte swizzle: rows of 128 bytes (64 columns), groups of
// eight rows 1024 bytes apart. `address` is the shared-window address of the first row; moving it by 32 bytes moves 16
// columns along K.
//   bits  0-13  address / 16
//   bits 16-29  leading-dimension offset / 16 (not used by this layout: 1)
//   bits 32-45  stride between groups of eight rows / 16
//   bits 62-63  1: 128-byte swizzle
GRS_DEVICE uint64_t descriptor(uint32_t address) {
    return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | (uint64_t{1} << 16) | (uint64_t{1024 >> 4} << 32) |
           (uint64_t{1} << 62);
}

} // namespace mma
} // namespace grs
