/* Tensor maps of BF16 matrices, remembered for operands that come again. */
#ifndef GRS_RUNTIME_TENSORMAP_H
#define GRS_RUNTIME_TENSORMAP_H

#include "runtime/driver.h"
#include "templates/args.h"

/* A row-major BF16 matrix as the copy engine sees it; sizes in elements. With `layers`, so many matrices, each `layer_stride`
 * after the one before; boxes lie in one of them. */
struct tensormap_key {
    uint64_t base;
    int64_t rows, columns, stride; /* stride: of a row */
    int32_t box_rows, box_columns;
    int64_t layers, layer_stride; /* 0: a matrix */
};

#define TENSORMAP_SLOTS 64 /* direct-mapped */

struct tensormap_cache {
    struct tensormap_slot {
        struct tensormap_key key; /* base 0: empty */
        grs_tensor_map map;
    } slot[TENSORMAP_SLOTS];
};

/* The map of `key`: 128-byte swizzle, zeros beyond the edges, 256-byte L2 promotion. Errors name `what` ("A of rank 2"). */
grs_status tensormap_get(const struct driver *drv, struct tensormap_cache *cache, const struct tensormap_key *key,
                         grs_tensor_map *out, const char *what, int rank, grs_error *err);

#endif
