// The table of functions that the kernel text calls.
#include "emulator/instructions.h"
#include "emulator/machine.h"

namespace emu {

namespace {

const emu_self *self_now;

uint32_t shared_address(const void *pointer) {
    const cta &c = *current().in;
    if (!c.holds(pointer, 1))
        fail(EMU_OUT_OF_BOUNDS, "the shared address of %p is asked for, which is not in this CTA's shared memory",
             pointer);
    return c.offset(pointer) + window_base;
}

uint64_t nanoseconds() {
    return the->now;
}

void pause(uint32_t ns) {
    the->block(blocked_on::time, "nanosleep", ns, the->now + the->poll_time(ns, current().polls));
}

void note(int32_t role, int32_t owner, int32_t tile, int32_t position, int32_t wait) {
    current().at = place{role, owner, tile, position, wait};
}

} // namespace

void set_self(const emu_self *self) {
    self_now = self;
}

const emu_device device_table = {
    &self_now,
    shared_address,
    nanoseconds,
    pause,
    note,
    device_barrier_sync,
    device_warp_sync,
    device_warp_broadcast,
    device_registers,
    device_cluster_rank,
    device_cluster_sync,
    device_mbarrier_init,
    device_fence_mbarrier_init,
    device_mbarrier_arrive,
    device_mbarrier_arrive_remote,
    device_mbarrier_wait,
    device_tensor_prefetch,
    device_tensor_load,
    device_tensor_store,
    device_bulk_load,
    device_bulk_store,
    device_bulk_commit,
    device_bulk_wait,
    device_fence_proxy_async,
    device_load,
    device_store,
    device_atomic,
    device_load_shared,
    device_store_shared,
    device_matrix_load,
    device_matrix_store,
    device_products_fence,
    device_products_issue,
    device_products_commit,
    device_products_wait,
    device_elect,
    device_tcgen05_alloc,
    device_tcgen05_free,
    device_tcgen05_relinquish,
    device_tcgen05_fence,
    device_tcgen05_multiply,
    device_tcgen05_commit,
    device_tcgen05_load,
    device_tcgen05_wait_load,
    device_tensor_load_pair,
    device_unit_load,
    device_unit_store,
};

} // namespace emu
