#include <string.h>

#include <algorithm>

#include "emulator/tensor.h"

namespace emu {

namespace {

constexpr uint32_t poison = 0xffffffff; // NaN

uint32_t lane_of(uint32_t address) {
    return address >> 16;
}
uint32_t column_of(uint32_t address) {
    return address & 0xffff;
}

bool is_free(const tensor_memory &m, uint32_t column, uint32_t columns) {
    for (uint32_t i = column / allocation_unit; i < (column + columns) / allocation_unit; ++i)
        if (m.owner[i])
            return false;
    return true;
}

// Any of the free places in all of the group's SMs; tensor_columns: there is none, or another CTA holds the permit.
uint32_t choose_column(const cta_group &g, uint32_t columns) {
    std::vector<uint32_t> places;
    for (uint32_t at = 0; at < tensor_columns; at += columns) {
        bool all = true;
        for (cta *c : g.of)
            all = all && (!c || ((!c->sm->permit || c->sm->permit == c) && is_free(*c->sm, at, columns)));
        if (all)
            places.push_back(at);
    }
    return places.empty() ? tensor_columns : places[the->chance.below(static_cast<uint32_t>(places.size()))];
}

void take(cta &c, uint32_t column, uint32_t columns, uint32_t warp_index) {
    tensor_memory &m = *c.sm;
    m.permit = &c;
    for (uint32_t i = column / allocation_unit; i < (column + columns) / allocation_unit; ++i)
        m.owner[i] = &c;
    for (uint32_t lane = 0; lane < tensor_lanes; ++lane)
        std::fill_n(m.at(lane, column), columns, poison);
    for (uint32_t q = 0; q < quadrants; ++q)
        std::fill_n(&m.marks[q][column / mark_columns], columns / mark_columns, granule());
    c.tensor->allocations.push_back(tensor_allocation{column, columns, warp_index});
}

void wake_waiting(tensor_memory &m) {
    the->changed();
    for (thread *t : m.waiting)
        the->wake(t);
    m.waiting.clear();
}

// In a pair the warps of both CTAs meet. True in the one that comes last, which acts for both.
bool join_pair(const cta_group &g, const char *instruction, uint32_t detail) {
    if (!g.of[1])
        return true;
    thread &t = current();
    auto &pair = g.of[0]->tensor->pair;
    uint32_t bit = t.in == g.of[0] ? 1 : 2;
    if (pair.arrived && (strcmp(pair.instruction, instruction) != 0 || pair.detail != detail))
        fail(EMU_DIVERGED, "%s of %u: the other CTA of the pair executes %s of %u", instruction, detail,
             pair.instruction, pair.detail);
    if (pair.arrived & bit)
        fail(EMU_DIVERGED, "%s: a second warp of this CTA executes it before the other CTA of the pair has",
             instruction);
    pair.instruction = instruction;
    pair.detail = detail;
    pair.arrived |= bit;
    the->changed();
    if (pair.arrived == 3)
        return true;
    pair.waiting.push_back(&t);
    the->block(blocked_on::tensor, instruction, detail);
    return false;
}

void part_pair(const cta_group &g) {
    auto &pair = g.of[0]->tensor->pair;
    pair.arrived = 0;
    for (thread *t : pair.waiting)
        the->wake(t);
    pair.waiting.clear();
}

void check_warp(const char *instruction) {
    whole_warp(instruction);
    if (!current().in->tensor)
        fail(EMU_BAD_OPERAND, "%s: no tensor memory", instruction);
}

} // namespace

// ---------------------------------------------------------------- what others use

std::string name_column(uint32_t quadrant, uint32_t column) {
    return "tensor memory, lanes " + std::to_string(quadrant * warp_lanes) + " up, column " + std::to_string(column);
}

bool knows_tensor(const thread &t, const epoch &e) {
    if (e.cta == t.in->slot && e.agent == the->tensor_read_agent(t.index / warp_lanes) && t.own.tensor_read >= e.count)
        return true;
    return t.tensor_seen.covers(e);
}

void fail_tensor(const char *instruction, uint32_t quadrant, uint32_t column, const epoch &other, bool with_read,
                 bool is_write) {
    const char *did = with_read ? "read" : "written";
    std::string where = name_column(quadrant, column), by = who(other);
    if (knows(current(), other, level::seen))
        fail(EMU_UNFENCED, "%s %s %s, %s by %s: no tcgen05.fence::after_thread_sync lies between the barrier and this",
             instruction, is_write ? "writes" : "reads", where.c_str(), did, by.c_str());
    fail(is_write ? EMU_OVERWRITTEN : EMU_TOO_EARLY,
         "%s %s %s, %s by %s: nothing says that this is over (a barrier after its %s)", instruction,
         is_write ? "writes" : "reads", where.c_str(), did, by.c_str(),
         with_read ? "wait::ld and fence::before_thread_sync" : "commit");
}

void check_tensor_place(cta &c, uint32_t address, uint32_t columns, const char *instruction) {
    uint32_t column = column_of(address);
    for (const tensor_allocation &a : c.tensor->allocations)
        if (column >= a.column && column + columns <= a.column + a.columns)
            return;
    fail(EMU_OUT_OF_BOUNDS, "%s: columns %u to %u of tensor memory are not allocated by %s", instruction, column,
         column + columns - 1, &c == current().in ? "this CTA" : "the other CTA of the pair");
}

void check_group(cta &c, uint32_t group, const char *instruction) {
    if (group != 1 && group != 2)
        fail(EMU_BAD_OPERAND, "%s: cta_group::%u", instruction, group);
    if (c.tensor->group && c.tensor->group != group)
        fail(EMU_BAD_OPERAND, "%s: cta_group::%u in a kernel whose other tcgen05 instructions say cta_group::%u",
             instruction, group, c.tensor->group);
    c.tensor->group = group;
}

cta_group group_of(cta &c, uint32_t group, const char *instruction) {
    if (group == 1)
        return cta_group{{&c, nullptr}};
    uint32_t rank = c.block % c.running->cluster, even = rank / 2 * 2;
    return cta_group{{&cluster_peer(c, even, instruction), &cluster_peer(c, even + 1, instruction)}};
}

// ---------------------------------------------------------------- allocation

namespace {

void allocate(const cta_group &g, uint32_t columns) {
    thread &t = current();
    uint32_t column;
    while ((column = choose_column(g, columns)) == tensor_columns) {
        for (cta *c : g.of)
            if (c)
                c->sm->waiting.push_back(&t);
        the->block(blocked_on::tensor, "tcgen05.alloc", columns);
        for (cta *c : g.of)
            if (c)
                c->sm->waiting.erase(std::remove(c->sm->waiting.begin(), c->sm->waiting.end(), &t),
                                     c->sm->waiting.end());
    }
    for (cta *c : g.of)
        if (c)
            take(*c, column, columns, t.index / warp_lanes);
}

} // namespace

void device_tcgen05_alloc(uint32_t group, uint32_t *address, uint32_t columns) {
    const char *const instruction = "tcgen05.alloc";
    check_warp(instruction);
    cta &c = *current().in;
    if (!join_warp(instruction, columns))
        return;
    check_group(c, group, instruction);
    if (columns < allocation_unit || columns > tensor_columns || (columns & (columns - 1)))
        fail(EMU_BAD_OPERAND, "%s: %u columns; allowed: powers of two from %u to %u", instruction, columns,
             allocation_unit, tensor_columns);
    if (!c.holds(address, 4) || c.offset(address) % 4)
        fail(EMU_OUT_OF_BOUNDS, "%s: the address goes to %p, which is no word of this CTA's shared memory", instruction,
             static_cast<void *>(address));
    if (c.tensor->gave_up_allocating)
        fail(EMU_TENSOR_MEMORY, "%s after tcgen05.relinquish_alloc_permit", instruction);
    cta_group g = group_of(c, group, instruction);
    if (join_pair(g, instruction, columns)) {
        allocate(g, columns);
        part_pair(g);
    }
    *address = c.tensor->allocations.back().column;
    part_warp();
}

void device_tcgen05_relinquish(uint32_t group) {
    const char *const instruction = "tcgen05.relinquish_alloc_permit";
    check_warp(instruction);
    cta &c = *current().in;
    if (!join_warp(instruction, group))
        return;
    check_group(c, group, instruction);
    c.tensor->gave_up_allocating = true;
    if (c.sm->permit == &c)
        c.sm->permit = nullptr;
    wake_waiting(*c.sm);
    part_warp();
}

namespace {

// Nobody may still use what is freed.
void check_over(cta &c, const tensor_allocation &a) {
    for (uint32_t q = 0; q < quadrants; ++q)
        for (uint32_t i = a.column / mark_columns; i < (a.column + a.columns) / mark_columns; ++i) {
            const granule &g = c.sm->marks[q][i];
            if (g.write.count && !knows_tensor(current(), g.write))
                fail_tensor("tcgen05.dealloc", q, i * mark_columns, g.write, false, true);
            for (const epoch &r : g.read)
                if (r.count && !knows_tensor(current(), r))
                    fail_tensor("tcgen05.dealloc", q, i * mark_columns, r, true, true);
        }
}

void release_columns(cta &c, uint32_t column) {
    std::vector<tensor_allocation> &list = c.tensor->allocations;
    auto a = std::find_if(list.begin(), list.end(), [&](const tensor_allocation &x) { return x.column == column; });
    for (uint32_t i = a->column / allocation_unit; i < (a->column + a->columns) / allocation_unit; ++i)
        c.sm->owner[i] = nullptr;
    list.erase(a);
    wake_waiting(*c.sm);
}

} // namespace

void device_tcgen05_free(uint32_t group, uint32_t address, uint32_t columns) {
    const char *const instruction = "tcgen05.dealloc";
    check_warp(instruction);
    cta &c = *current().in;
    if (!join_warp(instruction, address))
        return;
    check_group(c, group, instruction);
    const tensor_allocation *found = nullptr;
    for (const tensor_allocation &a : c.tensor->allocations)
        if (a.column == address && a.columns == columns)
            found = &a;
    if (!found)
        fail(EMU_TENSOR_MEMORY, "%s: this CTA has not allocated %u columns at address %#x", instruction, columns,
             address);
    if (found->warp_index != current().index / warp_lanes)
        fail(EMU_TENSOR_MEMORY, "%s by warp %u of columns that warp %u allocated", instruction,
             current().index / warp_lanes, found->warp_index);
    check_over(c, *found);
    cta_group g = group_of(c, group, instruction);
    if (join_pair(g, instruction, address)) {
        for (cta *member : g.of)
            if (member)
                release_columns(*member, address);
        part_pair(g);
    }
    part_warp();
}

// ---------------------------------------------------------------- loads and fences

void device_tcgen05_load(uint32_t *value, uint32_t columns, uint32_t address) {
    const char *const instruction = "tcgen05.ld";
    check_warp(instruction);
    the->maybe_yield();
    thread &t = current();
    cta &c = *t.in;
    t.collective_out = value;
    if (!join_warp(instruction, static_cast<uint64_t>(columns) << 32 | address))
        return;
    uint32_t warp_index = t.index / warp_lanes, quadrant = warp_index % quadrants;
    if (lane_of(address) != quadrant * warp_lanes)
        fail(EMU_BAD_OPERAND, "%s at lane %u; warp %u can read lanes %u to %u", instruction, lane_of(address),
             warp_index, quadrant * warp_lanes, quadrant * warp_lanes + warp_lanes - 1);
    check_tensor_place(c, address, columns, instruction);
    thread *lanes = first_lane();
    uint32_t agent = the->tensor_read_agent(warp_index), column = column_of(address);
    epoch e(c.slot, agent, ++c.counts[agent], true);
    for (uint32_t i = column / mark_columns; i * mark_columns < column + columns; ++i) {
        granule &g = c.sm->marks[quadrant][i];
        if (g.write.count == 0)
            fail(EMU_TOO_EARLY, "%s reads %s, which nobody has written", instruction,
                 name_column(quadrant, i * mark_columns).c_str());
        for (uint32_t l = 0; l < warp_lanes; ++l)
            if (!knows_tensor(lanes[l], g.write)) {
                the->current = &lanes[l];
                fail_tensor(instruction, quadrant, i * mark_columns, g.write, false, false);
            }
        record_read(access{&t, true, false}, &g, 1, e);
    }
    tensor_read read;
    read.address = address;
    read.columns = columns;
    bool at_once = the->eager_read();
    for (uint32_t l = 0; l < warp_lanes; ++l) {
        const uint32_t *from = c.sm->at(lane_of(address) + l, column);
        if (at_once)
            read.value.insert(read.value.end(), from, from + columns);
        read.out[l] = lanes[l].collective_out;
        std::fill_n(read.out[l], columns, poison); // anything, until it has been waited for
    }
    c.tensor->reads[warp_index].push_back(read);
    part_warp();
}

void device_tcgen05_wait_load() {
    const char *const instruction = "tcgen05.wait::ld";
    check_warp(instruction);
    cta &c = *current().in;
    if (!join_warp(instruction, 0))
        return;
    uint32_t warp_index = current().index / warp_lanes;
    for (tensor_read &read : c.tensor->reads[warp_index])
        for (uint32_t l = 0; l < warp_lanes; ++l) {
            const uint32_t *from = read.value.empty() ? c.sm->at(lane_of(read.address) + l, column_of(read.address))
                                                      : &read.value[l * read.columns];
            std::copy(from, from + read.columns, read.out[l]);
        }
    c.tensor->reads[warp_index].clear();
    thread *lanes = first_lane();
    for (uint32_t l = 0; l < warp_lanes; ++l)
        lanes[l].own.tensor_read = c.counts[the->tensor_read_agent(warp_index)];
    part_warp();
}

void device_tcgen05_fence(bool after) {
    thread &t = current();
    if (after)
        t.tensor_seen = t.know.seen;
    else
        t.own.tensor = t.own.tensor_read;
}

// ---------------------------------------------------------------- 16 bytes of shared memory, by one thread

namespace {

granule *unit_marks(const void *unit, const char *instruction) {
    cta &c = *current().in;
    if (!c.holds(unit, 16))
        fail(EMU_OUT_OF_BOUNDS, "%s: 16 bytes at %p are not in this CTA's shared memory", instruction, unit);
    if (c.offset(unit) % 16)
        fail(EMU_BAD_OPERAND, "%s: shared address %#x is not 16-byte aligned", instruction,
             c.offset(unit) + window_base);
    return c.marks.at(c.offset(unit));
}

} // namespace

void device_unit_load(uint32_t *value, const void *unit) {
    const char *const instruction = "ld.shared.v4";
    granule *g = unit_marks(unit, instruction);
    thread &t = current();
    access a{&t, false, false};
    conflict found = check_read(a, g, 1);
    uint32_t offset = t.in->offset(unit);
    if (found.what == finding::unordered)
        fail_conflict(found, instruction, name_shared(*t.in, offset).c_str(), offset + window_base, false);
    record_read(a, g, 1,
                own_epoch(t)); // memory that was never written gives poison: it may belong to rows nobody needs
    memcpy(value, unit, 16);
}

void device_unit_store(void *unit, const uint32_t *value) {
    const char *const instruction = "st.shared.v4";
    granule *g = unit_marks(unit, instruction);
    thread &t = current();
    conflict found = check_write(access{&t, false, false}, g, 1);
    uint32_t offset = t.in->offset(unit);
    if (found.what != finding::fine)
        fail_conflict(found, instruction, name_shared(*t.in, offset).c_str(), offset + window_base, true);
    record_write(g, 1, own_epoch(t));
    memcpy(unit, value, 16);
}

} // namespace emu
