// ldmatrix and stmatrix, four 8x8 matrices of 16-bit elements at a time. Lane l names row l%8 of matrix l/8; register i of
// lane l holds columns 2*(l%4) and +1 of row l/4 of matrix i.
#include <string.h>

#include "emulator/machine.h"

namespace emu {

namespace {

char *row_at(const thread &lane, const char *instruction) {
    cta &c = *lane.in;
    const void *row = lane.collective_row;
    if (!c.holds(row, 16))
        fail(EMU_OUT_OF_BOUNDS, "%s: lane %u names row %p, which is not in this CTA's shared memory", instruction,
             lane.index % warp_lanes, row);
    if (c.offset(row) % 16)
        fail(EMU_BAD_OPERAND, "%s: lane %u names a row at shared address %#x, which is not 16-byte aligned",
             instruction, lane.index % warp_lanes, c.offset(row) + window_base);
    return c.shared + c.offset(row);
}

} // namespace

void matrix_load(thread *lanes) {
    const char *const instruction = "ldmatrix";
    cta &c = *lanes->in;
    uint32_t warp_index = lanes->index / warp_lanes, agent = the->warp_agent(warp_index);
    epoch now(c.slot, agent, ++c.counts[agent], false);
    for (uint32_t l = 0; l < warp_lanes; ++l) {
        char *row = row_at(lanes[l], instruction);
        granule *g = c.marks.at(c.offset(row));
        access a{&lanes[l], false, false};
        conflict found = check_read(a, g, 1);
        if (found.what == finding::unordered)
            fail_conflict(found, instruction, name_shared(c, c.offset(row)).c_str(), c.offset(row) + window_base,
                          false);
        record_read(a, g, 1, now); // memory that was never written gives poison: it may belong to rows nobody needs
        for (uint32_t column = 0; column < 4; ++column)
            memcpy(&lanes[l % 8 * 4 + column].collective_out[l / 8], row + 4 * column, 4);
    }
    for (uint32_t l = 0; l < warp_lanes; ++l)
        lanes[l].own.warp = now.count;
}

void matrix_store(thread *lanes) {
    const char *const instruction = "stmatrix";
    cta &c = *lanes->in;
    for (uint32_t l = 0; l < warp_lanes; ++l) {
        char *row = row_at(lanes[l], instruction);
        granule *g = c.marks.at(c.offset(row));
        conflict found = check_write(access{&lanes[l], false, false}, g, 1);
        if (found.what != finding::fine)
            fail_conflict(found, instruction, name_shared(c, c.offset(row)).c_str(), c.offset(row) + window_base, true);
        record_write(g, 1, own_epoch(lanes[l]));
        for (uint32_t column = 0; column < 4; ++column)
            memcpy(row + 4 * column, &lanes[l % 8 * 4 + column].collective_out[l / 8], 4);
    }
}

} // namespace emu
