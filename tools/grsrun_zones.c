#include "tools/grsrun_zones.h"

#include <stdlib.h>

static struct driver *table; /* the library's: what is replaced in it holds for every caller */
static CUresult (*real_alloc)(CUdeviceptr *pointer, size_t bytes);
static CUresult (*real_free)(CUdeviceptr pointer);
static struct zone_block *blocks;
static size_t block_count, block_room;

static CUresult fill(CUdeviceptr start, size_t bytes) {
    CUresult result = table->cuMemsetD8(start, ZONE_BYTE, ZONE_BYTES);
    if (result == CUDA_SUCCESS) {
        result = table->cuMemsetD8(start + ZONE_BYTES + bytes, ZONE_BYTE, ZONE_BYTES);
    }
    /* Streams that do not wait for the default one must find the zones filled. */
    return result == CUDA_SUCCESS ? table->cuCtxSynchronize() : result;
}

static CUresult alloc_between_zones(CUdeviceptr *pointer, size_t bytes) {
    struct zone_block made = {.bytes = bytes};
    if (block_count == block_room) {
        size_t room = block_room ? 2 * block_room : 64;
        struct zone_block *grown = realloc(blocks, room * sizeof(*grown));
        if (grown == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        blocks = grown;
        block_room = room;
    }
    if (bytes == 0 || bytes + 2 * ZONE_BYTES < bytes) { /* the driver's own words on both */
        return real_alloc(pointer, bytes);
    }
    CUdeviceptr start;
    CUresult result = real_alloc(&start, bytes + 2 * ZONE_BYTES);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = fill(start, bytes);
    if (result == CUDA_SUCCESS) {
        result = table->cuCtxGetCurrent(&made.context);
    }
    if (result != CUDA_SUCCESS) {
        real_free(start);
        return result;
    }
    made.pointer = start + ZONE_BYTES;
    blocks[block_count++] = made;
    *pointer = made.pointer;
    return CUDA_SUCCESS;
}

static CUresult free_between_zones(CUdeviceptr pointer) {
    for (size_t i = 0; i < block_count; i++) {
        if (blocks[i].pointer == pointer) {
            blocks[i] = blocks[--block_count];
            return real_free(pointer - ZONE_BYTES);
        }
    }
    return real_free(pointer);
}

void zones_install(void) {
    table = (struct driver *)driver_get(NULL); /* const for users of the library, and its one table */
    if (table != NULL && real_alloc == NULL) {
        real_alloc = table->cuMemAlloc;
        real_free = table->cuMemFree;
        table->cuMemAlloc = alloc_between_zones;
        table->cuMemFree = free_between_zones;
    }
}

size_t zones_blocks(const struct zone_block **out) {
    *out = blocks;
    return block_count;
}
