// The functions of the table that the kernel text calls, each defined in the file of its kind (see machine.h).
#ifndef GRS_EMULATOR_INSTRUCTIONS_H
#define GRS_EMULATOR_INSTRUCTIONS_H

#include "emulator/device.h"

namespace emu {

void device_barrier_sync(uint32_t barrier, uint32_t threads);
void device_warp_sync();
uint32_t device_warp_broadcast(uint32_t value, uint32_t lane);
void device_registers(uint32_t count, bool increase);
uint32_t device_cluster_rank();
void device_cluster_sync();
void device_mbarrier_init(void *barrier, uint32_t arrivals);
void device_fence_mbarrier_init();
void device_mbarrier_arrive(void *barrier, uint32_t expect_bytes, bool expect);
void device_mbarrier_arrive_remote(void *barrier, uint32_t cluster_rank);
bool device_mbarrier_wait(void *barrier, uint32_t parity, bool suspend);
void device_tensor_prefetch(const void *map);
void device_tensor_load(void *destination, const void *map, void *barrier, int32_t x, int32_t y, uint32_t ctas);
void device_tensor_store(const void *map, const void *source, int32_t x, int32_t y, int32_t z);
void device_bulk_load(void *destination, const void *source, uint32_t bytes, void *barrier);
void device_bulk_store(void *destination, const void *source, uint32_t bytes);
void device_bulk_commit();
void device_bulk_wait(uint32_t pending, bool read_only);
void device_fence_proxy_async(bool shared_only);
uint64_t device_load(const void *word, uint32_t bytes, emu_order order, emu_scope scope);
void device_store(void *word, uint32_t bytes, uint64_t value, emu_order order, emu_scope scope);
uint64_t device_atomic(void *word, uint32_t bytes, uint64_t value, emu_atomic operation);
uint32_t device_load_shared(const uint32_t *word);
void device_store_shared(uint32_t *word, uint32_t value);
void device_matrix_load(uint32_t *fragment, const void *row);
void device_matrix_store(void *row, const uint32_t *fragment);
void device_products_fence();
void device_products_issue(float *accumulator, uint32_t n, uint64_t a, uint64_t b, bool accumulate);
void device_products_commit();
void device_products_wait(uint32_t pending);
bool device_elect();
void device_tcgen05_alloc(uint32_t group, uint32_t *address, uint32_t columns);
void device_tcgen05_free(uint32_t group, uint32_t address, uint32_t columns);
void device_tcgen05_relinquish(uint32_t group);
void device_tcgen05_fence(bool after);
void device_tcgen05_multiply(uint32_t group, uint32_t accumulator, uint64_t a, uint64_t b, uint32_t instruction,
                             bool accumulate);
void device_tcgen05_commit(uint32_t group, void *barrier, uint32_t ctas);
void device_tcgen05_load(uint32_t *value, uint32_t columns, uint32_t address);
void device_tcgen05_wait_load();
void device_tensor_load_pair(void *destination, const void *map, void *barrier, int32_t x, int32_t y, uint32_t leader);
void device_unit_load(uint32_t *value, const void *unit);
void device_unit_store(void *unit, const uint32_t *value);

} // namespace emu

#endif
