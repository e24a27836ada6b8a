// tcgen05: tensor memory and its products.
//
//   tensor_memory.cc     allocation, tcgen05.ld, the fences between threads
//   tensor_products.cc   tcgen05.mma and tcgen05.commit
//
// What is done to tensor memory by one thread is in order for another only through a barrier with a tcgen05 fence on either
// side: what a thread had done when it last executed fence::before_thread_sync travels with its releases, and what it knew
// when it last executed fence::after_thread_sync is what its accesses may rely on.
#ifndef GRS_EMULATOR_TENSOR_H
#define GRS_EMULATOR_TENSOR_H

#include <deque>
#include <string>
#include <vector>

#include "emulator/machine.h"

namespace emu {

constexpr uint32_t tensor_lanes = 128, tensor_columns = 512;
constexpr uint32_t allocation_unit = 32; // columns
constexpr uint32_t mark_columns = 8, quadrants = 4;

// Of one SM: CTAs that share the SM share it.
struct tensor_memory {
    std::vector<uint32_t> value; // [tensor_lanes][tensor_columns]
    granule marks[quadrants][tensor_columns / mark_columns];
    struct product_kind { // that wrote a column last
        uint32_t accumulator = 0, instruction = 0;
    } kind[tensor_columns / mark_columns];
    cta *owner[tensor_columns / allocation_unit] = {};
    cta *permit = nullptr; // the CTA that allocates; others wait until it gives up the right to
    std::vector<thread *> waiting;

    uint32_t *at(uint32_t lane, uint32_t column) { return &value[lane * tensor_columns + column]; }
};

struct tensor_allocation {
    uint32_t column, columns, warp_index;
};

struct tensor_product {
    uint32_t group, accumulator, instruction;
    uint64_t a, b;
    bool accumulate;
};

struct tensor_read { // tcgen05.ld of a warp, not waited for
    uint32_t address, columns;
    uint32_t *out[warp_lanes];
    std::vector<uint32_t> value; // [warp_lanes][columns]; empty: not read yet
};

// Of one CTA, for one launch.
struct tensor_unit {
    uint32_t group = 0; // .cta_group of its first instruction
    std::vector<tensor_allocation> allocations;
    bool gave_up_allocating = false;
    const thread *issuer = nullptr;
    std::deque<tensor_product> queue;            // issued
    uint64_t first = 0;                          // sequence number of queue[0]: everything below is executed
    uint64_t committed = 0;                      // sequence number: everything below has a commit behind it
    uint32_t commits = 0;                        // that have yet to arrive
    std::vector<std::vector<tensor_read>> reads; // by warp
    struct {
        uint32_t arrived = 0; // CTAs, by bit
        uint32_t detail = 0;
        const char *instruction = "";
        std::vector<thread *> waiting;
    } pair; // of the even CTA: both meet here
};

struct tensor_commit {
    cta *in;
    uint64_t until; // sequence number
    uint32_t offset, ctas;
    knowledge what;
};

// May an access to tensor memory by `t` rely on that of `e` being over?
bool knows_tensor(const thread &t, const epoch &e);
// Ends the run: an access by the current thread meets an earlier one that it may not rely on.
[[noreturn]] void fail_tensor(const char *instruction, uint32_t quadrant, uint32_t column, const epoch &other,
                              bool with_read, bool is_write);
// The CTA that the address belongs to has allocated these columns, and the lanes are there; else the run ends.
void check_tensor_place(cta &c, uint32_t address, uint32_t columns, const char *instruction);
// All instructions of a kernel say the same .cta_group.
void check_group(cta &c, uint32_t group, const char *instruction);
// The CTAs of a group, the even one first; [1] is nullptr for a single CTA.
struct cta_group {
    cta *of[2];
};
cta_group group_of(cta &c, uint32_t group, const char *instruction);
std::string name_column(uint32_t quadrant, uint32_t column);

} // namespace emu

#endif
