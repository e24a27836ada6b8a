// The copy engine: tensor-map and bulk copies between global and shared memory. A copy has happened for its observers when
// its mbarrier phase completes (loads) or its bulk group was waited for (stores). When it happens in fact is the schedule's
// choice: a load reads its source at some moment between issue and completion and writes at completion, a store reads its
// source and later lands.
#include <string.h>

#include <algorithm>

#include "emulator/machine.h"
#include "emulator/tensor_map.h"

namespace emu {

struct transfer {
    const char *instruction;
    thread *by;
    cta *at;         // whose shared memory
    uint32_t offset; // in it
    uint32_t bytes;  // of shared memory
    bool is_tensor;
    tensor_shape shape; // with is_tensor
    int64_t x, y, z;
    char *global; // without
    mbarrier *barrier;
    uint32_t count;            // of the barrier's agent (loads)
    size_t group;              // of the thread (stores)
    std::vector<char> payload; // in the order of shared memory; empty: not read yet
};

namespace {

// Element (0, 0) of the matrix that the box lies in.
char *layer_of(const transfer &t) {
    return t.shape.base + static_cast<uint64_t>(t.z) * t.shape.layer_stride_bytes;
}

// Calls piece(offset in shared memory, global address or nullptr outside the tensor, bytes inside, bytes) for each 16-byte
// unit of a box, or once for contiguous bytes.
template <class F> void each_piece(const transfer &t, F piece) {
    if (!t.is_tensor) {
        piece(t.offset, t.global, t.bytes, t.bytes);
        return;
    }
    const tensor_shape &s = t.shape;
    uint32_t row_bytes = s.box_columns * 2;
    for (uint32_t r = 0; r < s.box_rows; ++r) {
        int64_t y = t.y + r;
        for (uint32_t u = 0; u < row_bytes; u += 16) {
            int64_t x = t.x + u / 2, inside = std::min<int64_t>(8, static_cast<int64_t>(s.columns) - x);
            bool is_inside = y >= 0 && y < static_cast<int64_t>(s.rows) && x >= 0 && inside > 0;
            uint32_t address = swizzle(t.offset + window_base + r * row_bytes + u, s.swizzle_bytes);
            char *global = is_inside ? layer_of(t) + static_cast<uint64_t>(y) * s.stride_bytes + x * 2 : nullptr;
            piece(address - window_base, global, is_inside ? static_cast<uint32_t>(inside) * 2 : 0, 16);
        }
    }
}

void read_global(transfer &t) {
    t.payload.assign(t.bytes, 0);
    each_piece(t, [&](uint32_t offset, const char *global, uint32_t inside, uint32_t) {
        if (inside)
            memcpy(&t.payload[offset - t.offset], global, inside);
    });
}

// ---------------------------------------------------------------- checks at issue

void check_shared(const cta &c, const void *p, uint32_t bytes, uint32_t align, const char *instruction) {
    if (!c.holds(p, bytes))
        fail(EMU_OUT_OF_BOUNDS, "%s: %u bytes at %p are not inside the CTA's shared memory", instruction, bytes, p);
    if (c.offset(p) % align)
        fail(EMU_BAD_OPERAND, "%s: shared address %#x is not %u-byte aligned", instruction, c.offset(p) + window_base,
             align);
}

region &region_of(const char *global, uint32_t bytes, const char *instruction) {
    region *r = the->memory.find(global);
    if (!r)
        fail(EMU_OUT_OF_BOUNDS, "%s: no memory of any rank lies at global address %p", instruction,
             static_cast<const void *>(global));
    if (!r->contains(global, bytes))
        fail(EMU_OUT_OF_BOUNDS, "%s: %u bytes at byte %td of rank %d's %s, which has %zu", instruction, bytes,
             global - r->base, r->rank, r->name, r->bytes);
    return *r;
}

std::string name_global(const region &r, ptrdiff_t offset) {
    return "rank " + std::to_string(r.rank) + "'s " + r.name + " at byte " + std::to_string(offset);
}

// One contiguous piece of global memory that the copy reads or writes.
void check_global(const transfer &t, const char *global, uint32_t bytes, bool is_write, const epoch &e) {
    region &r = region_of(global, bytes, t.instruction);
    if (is_write && r.marks.empty())
        fail(EMU_OUT_OF_BOUNDS, "%s: writes rank %d's %s", t.instruction, r.rank, r.name);
    if (r.marks.empty())
        return;
    size_t offset = static_cast<size_t>(global - r.base);
    granule *g = r.marks.at(offset);
    size_t count = (offset % granule_bytes + bytes + granule_bytes - 1) / granule_bytes;
    access a{t.by, true, true};
    conflict found = is_write ? check_write(a, g, count) : check_read(a, g, count);
    if (found.what != finding::fine) {
        offset += found.index * granule_bytes;
        fail_conflict(found, t.instruction, name_global(r, static_cast<ptrdiff_t>(offset)).c_str(), offset, is_write);
    }
    if (is_write)
        record_write(g, count, e);
    else
        record_read(a, g, count, e);
}

// The same for all of it; rows of a box are contiguous in global memory.
void check_all_global(const transfer &t, bool is_write, const epoch &e) {
    if (!t.is_tensor) {
        check_global(t, t.global, t.bytes, is_write, e);
        return;
    }
    const tensor_shape &s = t.shape;
    int64_t left = std::max<int64_t>(0, t.x),
            right = std::min<int64_t>(static_cast<int64_t>(s.columns), t.x + s.box_columns);
    for (uint32_t i = 0; i < s.box_rows && left < right; ++i) {
        int64_t y = t.y + i;
        if (y >= 0 && y < static_cast<int64_t>(s.rows))
            check_global(t, layer_of(t) + static_cast<uint64_t>(y) * s.stride_bytes + left * 2,
                         static_cast<uint32_t>(right - left) * 2, is_write, e);
    }
}

// Shared memory is contiguous: a swizzle permutes units inside a row of its span.
void check_all_shared(const transfer &t, bool is_write, const epoch &e) {
    granule *g = t.at->marks.at(t.offset);
    size_t count = t.bytes / granule_bytes;
    access a{t.by, true, false};
    conflict found = is_write ? check_write(a, g, count) : check_read(a, g, count);
    if (found.what != finding::fine) {
        uint64_t offset = t.offset + found.index * granule_bytes;
        fail_conflict(found, t.instruction, name_shared(*t.at, offset).c_str(), offset + window_base, is_write);
    }
    if (is_write)
        record_write(g, count, e);
    else
        record_read(a, g, count, e);
}

void set_tensor(transfer &t, const void *map, int32_t x, int32_t y, int32_t z = -1) {
    if (reinterpret_cast<uintptr_t>(map) % 64)
        fail(EMU_BAD_OPERAND, "%s: the tensor map at %p is not 64-byte aligned", t.instruction, map);
    const tensor_shape *shape = tensor_map_decode(map);
    if (!shape)
        fail(EMU_BAD_OPERAND, "%s: no tensor map lies at %p", t.instruction, map);
    if ((z < 0) != (shape->layers == 0))
        fail(EMU_BAD_OPERAND, "%s: the tensor map at %p has %s dimensions", t.instruction, map,
             shape->layers ? "3" : "2");
    if (z >= 0 &&
        static_cast<uint64_t>(z) >= shape->layers) // the copy engine would clip it: no kernel of ours wants that
        fail(EMU_BAD_OPERAND, "%s: layer %d of %llu", t.instruction, z, static_cast<unsigned long long>(shape->layers));
    t.is_tensor = true;
    t.shape = *shape;
    t.z = z < 0 ? 0 : z;
    t.x = x;
    t.y = y;
    t.bytes = shape->box_columns * shape->box_rows * 2;
}

void set_contiguous(transfer &t, const void *global, uint32_t bytes) {
    if (bytes == 0 || bytes % 16)
        fail(EMU_BAD_OPERAND, "%s: %u bytes; allowed: multiples of 16", t.instruction, bytes);
    if (reinterpret_cast<uintptr_t>(global) % 16)
        fail(EMU_BAD_OPERAND, "%s: global address %p is not 16-byte aligned", t.instruction, global);
    t.global = static_cast<char *>(const_cast<void *>(global));
    t.bytes = bytes;
}

// ---------------------------------------------------------------- issue

// `home`: whose barrier counts the bytes; of a CTA pair that may be the other CTA's.
void issue_load(std::unique_ptr<transfer> t, const void *destination, cta &home, void *barrier, uint32_t align) {
    cta &c = *t->at;
    check_shared(c, destination, t->bytes, align, t->instruction);
    t->offset = c.offset(destination);
    t->barrier = &mbarrier_at(home, barrier, t->instruction);
    if (!t->barrier->fenced)
        fail(EMU_UNFENCED, "%s on %s: no fence lies between its initialisation and the copy engine's use of it",
             t->instruction, name_barrier(*t->barrier).c_str());
    uint32_t agent = t->barrier->agent;
    t->count = ++home.counts[agent];
    epoch e(home.slot, agent, t->count, true);
    check_all_global(*t, false, e);
    check_all_shared(*t, true, e);
    memset(c.shared + t->offset, 0xff, t->bytes); // anything, until it has arrived
    if (the->eager_read())
        read_global(*t);
    ++c.loads;
    the->changed();
    the->post(event{event_kind::load, t.release(), &c});
}

void issue_store(std::unique_ptr<transfer> t, const void *source, uint32_t align) {
    cta &c = *t->at;
    thread &by = *t->by;
    check_shared(c, source, t->bytes, align, t->instruction);
    t->offset = c.offset(source);
    if (by.copier < 0) {
        if (c.copiers == static_cast<int>(max_copiers))
            fail(EMU_EXHAUSTED, "%s: more than %u threads of a CTA issue stores", t->instruction, max_copiers);
        by.copier = c.copier_of[by.index] = c.copiers++;
    }
    uint32_t reader = the->copier_agent(static_cast<uint32_t>(by.copier), false), writer = reader + 1;
    uint32_t count = ++c.counts[reader];
    c.counts[writer] = count;
    check_all_shared(*t, false, epoch(c.slot, reader, count, true));
    check_all_global(*t, true, epoch(c.slot, writer, count, true));
    if (!by.group_open)
        by.groups.push_back(bulk_group{count, 0, 0});
    by.group_open = true;
    bulk_group &g = by.groups.back();
    g.last = count;
    ++g.unread;
    ++g.unlanded;
    t->group = by.groups.size() - 1;
    ++c.reads;
    ++c.of->in_flight;
    the->changed();
    the->post(event{event_kind::store_read, t.release(), &c});
}

std::unique_ptr<transfer> begin(const char *instruction, cta &at) {
    std::unique_ptr<transfer> t(new transfer());
    t->instruction = instruction;
    t->by = the->current;
    t->at = &at;
    return t;
}

void advance_groups(thread &t) {
    size_t committed = t.groups.size() - t.group_open;
    while (t.read_done < committed && t.groups[t.read_done].unread == 0)
        ++t.read_done;
    while (t.landed < committed && t.groups[t.landed].unlanded == 0)
        ++t.landed;
    if (t.waits == blocked_on::bulk && (t.wait_read_only ? t.read_done : t.landed) >= t.wait_groups)
        the->wake(&t);
}

} // namespace

void transfer_step(const event &e) {
    transfer &t = *e.copy;
    cta &c = *t.at;
    switch (e.kind) {
    case event_kind::load:
        if (t.payload.empty())
            read_global(t);
        memcpy(c.shared + t.offset, t.payload.data(), t.bytes);
        --c.loads;
        complete_bytes(*t.barrier, t.bytes, t.count);
        delete &t;
        break;
    case event_kind::store_read:
        t.payload.assign(c.shared + t.offset, c.shared + t.offset + t.bytes);
        --c.reads;
        --t.by->groups[t.group].unread;
        advance_groups(*t.by);
        the->post(event{event_kind::store_land, &t, &c});
        break;
    default: // lands
        each_piece(t, [&](uint32_t offset, char *global, uint32_t inside, uint32_t) {
            if (inside)
                memcpy(global, &t.payload[offset - t.offset], inside);
        });
        if (region *r = t.is_tensor ? nullptr : the->memory.find(t.global); r && r->use == purpose::slots)
            the->report.received[r->rank].bytes += t.bytes;
        --t.by->groups[t.group].unlanded;
        advance_groups(*t.by);
        delete &t;
        if (--c.of->in_flight == 0 && c.of->live == 0)
            the->finish_grid(c.of);
    }
}

void drop_transfer(transfer *t) {
    delete t;
}

void device_tensor_prefetch(const void *map) {
    if (!tensor_map_decode(map))
        fail(EMU_BAD_OPERAND, "prefetch.tensormap: no tensor map lies at %p", map);
}

void device_tensor_load(void *destination, const void *map, void *barrier, int32_t x, int32_t y, uint32_t ctas) {
    the->maybe_yield();
    cta &c = *current().in;
    if (ctas == 0) { // into this CTA
        std::unique_ptr<transfer> t = begin("tensor load", c);
        set_tensor(*t, map, x, y);
        issue_load(std::move(t), destination, c, barrier, 128);
        return;
    }
    const char *const instruction = "multicast tensor load";
    check_shared(c, destination, 16, 128, instruction);
    check_shared(c, barrier, 8, 8, instruction);
    for (uint32_t i = 0; i < 16; ++i) {
        if ((ctas >> i & 1) == 0)
            continue;
        cta &peer = cluster_peer(c, i, instruction);
        std::unique_ptr<transfer> t = begin(instruction, peer);
        set_tensor(*t, map, x, y);
        issue_load(std::move(t), peer.shared + c.offset(destination), peer, peer.shared + c.offset(barrier), 128);
    }
}

void device_tensor_load_pair(void *destination, const void *map, void *barrier, int32_t x, int32_t y, uint32_t leader) {
    const char *const instruction = "tensor load of a pair";
    the->maybe_yield();
    cta &c = *current().in;
    check_shared(c, barrier, 8, 8, instruction);
    cta &home = cluster_peer(c, leader, instruction);
    if (home.block / 2 != c.block / 2)
        fail(EMU_BAD_OPERAND, "%s: CTA %u of the cluster is not of this CTA's pair", instruction, leader);
    std::unique_ptr<transfer> t = begin(instruction, c);
    set_tensor(*t, map, x, y);
    issue_load(std::move(t), destination, home, home.shared + c.offset(barrier), 128);
}

void device_tensor_store(const void *map, const void *source, int32_t x, int32_t y, int32_t z) {
    the->maybe_yield();
    std::unique_ptr<transfer> t = begin("tensor store", *current().in);
    set_tensor(*t, map, x, y, z);
    issue_store(std::move(t), source, 128);
}

void device_bulk_load(void *destination, const void *source, uint32_t bytes, void *barrier) {
    the->maybe_yield();
    std::unique_ptr<transfer> t = begin("bulk load", *current().in);
    set_contiguous(*t, source, bytes);
    issue_load(std::move(t), destination, *current().in, barrier, 16);
}

void device_bulk_store(void *destination, const void *source, uint32_t bytes) {
    the->maybe_yield();
    std::unique_ptr<transfer> t = begin("bulk store", *current().in);
    set_contiguous(*t, destination, bytes);
    issue_store(std::move(t), source, 16);
}

void device_bulk_commit() {
    thread &t = current();
    if (!t.group_open) // an empty group is allowed, and complete
        t.groups.push_back(bulk_group{t.groups.empty() ? t.own.land : t.groups.back().last, 0, 0});
    t.group_open = false;
    advance_groups(t);
}

void device_bulk_wait(uint32_t pending, bool read_only) {
    the->maybe_yield();
    thread &t = current();
    size_t committed = t.groups.size() - t.group_open;
    size_t target = committed > pending ? committed - pending : 0;
    t.wait_read_only = read_only;
    t.wait_groups = target;
    if ((read_only ? t.read_done : t.landed) < target)
        the->block(blocked_on::bulk, read_only ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group", pending);
    if (target == 0)
        return;
    uint32_t last = t.groups[target - 1].last;
    t.own.read = std::max(t.own.read, last);
    if (!read_only)
        t.own.land = std::max(t.own.land, last);
}

} // namespace emu
