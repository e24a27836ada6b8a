#include "runtime/tensormap.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/error.h"

_Static_assert(sizeof(grs_tensor_map) == sizeof(CUtensorMap), "a tensor map has 128 bytes");

static grs_status encode(const struct driver *drv, const struct tensormap_key *key, grs_tensor_map *out,
                         const char *what, int rank, grs_error *err) {
    uint64_t dims[3] = {(uint64_t)key->columns, (uint64_t)key->rows, (uint64_t)key->layers};
    uint64_t strides[2] = {(uint64_t)key->stride * 2, (uint64_t)key->layer_stride * 2}; /* bytes */
    uint32_t box[3] = {(uint32_t)key->box_columns, (uint32_t)key->box_rows, 1};
    uint32_t steps[3] = {1, 1, 1};
    CUresult result =
        drv->cuTensorMapEncodeTiled((CUtensorMap *)out, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, key->layers ? 3 : 2,
                                    (void *)(uintptr_t)key->base, dims, strides, box, steps, // NOLINT: a device address
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        return driver_error(drv, err, result,
                            "cuTensorMapEncodeTiled(%s of rank %d: base %#" PRIx64 ", %" PRId64 " x %" PRId64
                            ", stride %" PRId64 ", box %d x %d)",
                            what, rank, key->base, key->rows, key->columns, key->stride, key->box_rows,
                            key->box_columns);
    }
    return GRS_OK;
}

static bool same(const struct tensormap_key *a, const struct tensormap_key *b) {
    return a->base == b->base && a->rows == b->rows && a->columns == b->columns && a->stride == b->stride &&
           a->box_rows == b->box_rows && a->box_columns == b->box_columns && a->layers == b->layers &&
           a->layer_stride == b->layer_stride;
}

static size_t slot_of(const struct tensormap_key *key) {
    uint64_t h = (key->base >> 4) * 0x9E3779B97F4A7C15u ^ (uint64_t)key->rows * 0xC2B2AE3D27D4EB4Fu ^
                 (uint64_t)key->stride * 0x165667B19E3779F9u ^
                 (uint64_t)(key->box_rows + key->layer_stride) * 0x27D4EB2F165667C5u;
    return (size_t)(h >> 40) % TENSORMAP_SLOTS;
}

grs_status tensormap_get(const struct driver *drv, struct tensormap_cache *cache, const struct tensormap_key *key,
                         grs_tensor_map *out, const char *what, int rank, grs_error *err) {
    struct tensormap_slot *slot = &cache->slot[slot_of(key)];
    if (!same(&slot->key, key)) {
        slot->key.base = 0; /* empty, should the driver refuse */
        grs_status status = encode(drv, key, &slot->map, what, rank, err);
        if (status != GRS_OK) {
            return status;
        }
        slot->key = *key;
    }
    *out = slot->map;
    return GRS_OK;
}
