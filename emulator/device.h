// What the kernel text calls: a table of functions, one an instruction. The emulated ptx.cuh and mma_*.cuh turn each
// instruction into a call through it, so that the shared object made of the kernel text needs no symbol of the program that
// loads it. Included by both sides; part of the key under which shared objects are kept.
#ifndef GRS_EMULATOR_DEVICE_H
#define GRS_EMULATOR_DEVICE_H

#include <stddef.h>
#include <stdint.h>

// The thread that runs.
struct emu_self {
    uint32_t thread, block;
    char *shared; // dynamic shared memory of its CTA
};

// Read-modify-write of a word of global memory. The scope and order of each instruction are in its name.
enum emu_atomic {
    EMU_OR_RELEASE_SYS,
    EMU_ADD_ACQ_REL_GPU,
    EMU_INCREMENT_ACQ_REL_GPU,
    EMU_EXCHANGE_RELAXED_SYS,
    EMU_ADD_RELAXED_GPU,
    EMU_MAX_RELAXED_GPU
};

enum emu_order { EMU_RELAXED, EMU_ACQUIRE, EMU_RELEASE };
enum emu_scope { EMU_SCOPE_GPU, EMU_SCOPE_SYS };

struct emu_device {
    const emu_self *const *self;
    uint32_t (*shared_address)(const void *pointer);
    uint64_t (*nanoseconds)();
    void (*pause)(uint32_t nanoseconds);
    void (*note)(int32_t role, int32_t owner, int32_t tile, int32_t position, int32_t wait);

    // threads of a CTA
    void (*barrier_sync)(uint32_t barrier, uint32_t threads); // threads 0: all of the CTA
    void (*warp_sync)();
    uint32_t (*warp_broadcast)(uint32_t value, uint32_t lane);
    void (*registers)(uint32_t count, bool increase);
    uint32_t (*cluster_rank)();
    void (*cluster_sync)();

    // mbarriers
    void (*mbarrier_init)(void *barrier, uint32_t arrivals);
    void (*fence_mbarrier_init)();
    void (*mbarrier_arrive)(void *barrier, uint32_t expect_bytes, bool expect);
    void (*mbarrier_arrive_remote)(void *barrier, uint32_t cluster_rank);
    bool (*mbarrier_wait)(void *barrier, uint32_t parity, bool suspend); // try_wait; without `suspend`: test_wait

    // copy engine; `ctas`: CTAs of the cluster that receive it, by bit; 0: this one
    void (*tensor_prefetch)(const void *map);
    void (*tensor_load)(void *destination, const void *map, void *barrier, int32_t x, int32_t y, uint32_t ctas);
    void (*tensor_store)(const void *map, const void *source, int32_t x, int32_t y, int32_t z); // z -1: a matrix
    void (*bulk_load)(void *destination, const void *source, uint32_t bytes, void *barrier);
    void (*bulk_store)(void *destination, const void *source, uint32_t bytes);
    void (*bulk_commit)();
    void (*bulk_wait)(uint32_t pending, bool read_only);

    // fences between the generic and the async proxy
    void (*fence_proxy_async)(bool shared_only);

    // words that others read or write
    uint64_t (*load)(const void *word, uint32_t bytes, emu_order order, emu_scope scope);
    void (*store)(void *word, uint32_t bytes, uint64_t value, emu_order order, emu_scope scope);
    uint64_t (*atomic)(void *word, uint32_t bytes, uint64_t value, emu_atomic operation);
    uint32_t (*load_shared)(const uint32_t *word);
    void (*store_shared)(uint32_t *word, uint32_t value);

    // matrices
    void (*matrix_load)(uint32_t *fragment, const void *row);
    void (*matrix_store)(void *row, const uint32_t *fragment);
    void (*products_fence)();
    void (*products_issue)(float *accumulator, uint32_t n, uint64_t a, uint64_t b, bool accumulate);
    void (*products_commit)();
    void (*products_wait)(uint32_t pending);

    // tcgen05; `group`: of .cta_group; `ctas` as above
    bool (*elect)();
    void (*tcgen05_alloc)(uint32_t group, uint32_t *address, uint32_t columns);
    void (*tcgen05_free)(uint32_t group, uint32_t address, uint32_t columns);
    void (*tcgen05_relinquish)(uint32_t group);
    void (*tcgen05_fence)(bool after); // after_thread_sync, else before_thread_sync
    void (*tcgen05_multiply)(uint32_t group, uint32_t accumulator, uint64_t a, uint64_t b, uint32_t instruction,
                             bool accumulate);
    void (*tcgen05_commit)(uint32_t group, void *barrier, uint32_t ctas);
    void (*tcgen05_load)(uint32_t *value, uint32_t columns, uint32_t address);
    void (*tcgen05_wait_load)();
    void (*tensor_load_pair)(void *destination, const void *map, void *barrier, int32_t x, int32_t y, uint32_t leader);
    void (*unit_load)(uint32_t *value, const void *unit); // 16 bytes of shared memory
    void (*unit_store)(void *unit, const uint32_t *value);
};

#endif
