#include "emulator/tensor_map.h"

#include <inttypes.h>
#include <string.h>

extern "C" {
#include "common/error.h"
}

namespace emu {

namespace {
constexpr uint64_t map_magic = 0x70616d20726f7374u;
constexpr uint32_t element_bytes = 2;
static_assert(sizeof(tensor_shape) <= sizeof(grs_tensor_map), "a shape fits into a map");
} // namespace

grs_status tensor_map_encode(const void *base, uint64_t columns, uint64_t rows, uint64_t stride_elements,
                             uint32_t box_columns, uint32_t box_rows, uint32_t swizzle_bytes, grs_tensor_map *out,
                             grs_error *err) {
    uint64_t stride = stride_elements * element_bytes;
    if (reinterpret_cast<uintptr_t>(base) % 16)
        return error_set(err, GRS_ERR_ARGUMENT, "tensor map: base %p is not 16-byte aligned", base);
    if (stride % 16 || stride >= uint64_t{1} << 40 || stride < columns * element_bytes)
        return error_set(err, GRS_ERR_ARGUMENT,
                         "tensor map: a stride of %" PRIu64
                         " bytes; allowed: multiples of 16 from a row's length, below 2^40",
                         stride);
    if (columns < 1 || rows < 1 || columns > uint64_t{1} << 32 || rows > uint64_t{1} << 32)
        return error_set(err, GRS_ERR_ARGUMENT, "tensor map: %" PRIu64 " columns, %" PRIu64 " rows; allowed: 1 to 2^32",
                         columns, rows);
    if (box_columns < 1 || box_rows < 1 || box_columns > 256 || box_rows > 256)
        return error_set(err, GRS_ERR_ARGUMENT, "tensor map: a box of %u columns, %u rows; allowed: 1 to 256",
                         box_columns, box_rows);
    if (box_columns * element_bytes % 16 || (swizzle_bytes && box_columns * element_bytes > swizzle_bytes))
        return error_set(err, GRS_ERR_ARGUMENT,
                         "tensor map: box rows of %u bytes; allowed: multiples of 16, at most the swizzle's span of %u",
                         box_columns * element_bytes, swizzle_bytes);
    tensor_shape shape = {map_magic, static_cast<char *>(const_cast<void *>(base)),
                          columns,   rows,
                          stride,    box_columns,
                          box_rows,  swizzle_bytes,
                          0,         0,
                          0};
    memset(out, 0, sizeof(*out));
    memcpy(out, &shape, sizeof(shape));
    return GRS_OK;
}

grs_status tensor_map_encode_layers(const void *base, uint64_t columns, uint64_t rows, uint64_t stride_elements,
                                    uint64_t layers, uint64_t layer_stride_elements, uint32_t box_columns,
                                    uint32_t box_rows, uint32_t swizzle_bytes, grs_tensor_map *out, grs_error *err) {
    uint64_t layer_stride = layer_stride_elements * element_bytes;
    if (layers < 1 || layers > uint64_t{1} << 32 || layer_stride % 16 || layer_stride >= uint64_t{1} << 40)
        return error_set(err, GRS_ERR_ARGUMENT,
                         "tensor map: %" PRIu64 " layers, %" PRIu64
                         " bytes apart; allowed: 1 to 2^32, multiples of 16 below 2^40",
                         layers, layer_stride);
    grs_status status =
        tensor_map_encode(base, columns, rows, stride_elements, box_columns, box_rows, swizzle_bytes, out, err);
    if (status != GRS_OK)
        return status;
    tensor_shape shape = *tensor_map_decode(out);
    shape.layers = layers;
    shape.layer_stride_bytes = layer_stride;
    memcpy(out, &shape, sizeof(shape));
    return GRS_OK;
}

const tensor_shape *tensor_map_decode(const void *map) {
    const tensor_shape *shape = static_cast<const tensor_shape *>(map);
    return shape->magic == map_magic ? shape : nullptr;
}

} // namespace emu
