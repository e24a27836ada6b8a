// tcgen05.mma .kind::f16 with both operands in shared memory, and tcgen05.commit. Descriptors are decoded in full.
//
// Products are issued by one thread of a CTA (of a pair) and done in that order. The operands are read, and the result is
// written, at some moment between issue and the arrival of a commit behind them; commits arrive late, and in any order.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "emulator/tensor.h"
#include "emulator/tensor_map.h"

namespace emu {

namespace {

constexpr uint32_t depth = 16, max_rows = 128, max_columns = 256;

// ---------------------------------------------------------------- descriptors

// Where element (row, k) of an operand of 16 columns lies. K-major: a row's 16 columns are 32 bytes, 8 rows a group.
// MN-major: 64 rows (or fewer, by the swizzle) of one column are contiguous, 8 columns a group.
struct operand {
    uint32_t start, leading, stride, swizzle_bytes;
    bool by_row; // K-major

    uint32_t unit(uint32_t row, uint32_t k) const { // of the 16 bytes that hold it
        uint32_t span = swizzle_bytes ? swizzle_bytes : 16, at = start;
        if (by_row) {
            at += row / 8 * stride + row % 8 * span;
            at += swizzle_bytes ? k / 8 * 16 : k / 8 * leading;
        } else if (swizzle_bytes) {
            at += row / (span / 2) * leading + row % (span / 2) / 8 * 16 + k / 8 * stride + k % 8 * span;
        } else {
            at += row / 8 * stride + k / 8 * leading + k % 8 * 16;
        }
        return swizzle(at, swizzle_bytes);
    }
    uint32_t element(uint32_t row, uint32_t k) const { return unit(row, k) + (by_row ? k % 8 : row % 8) * 2; }
};

operand decode_operand(uint64_t descriptor, bool transposed, const char *name) {
    static const int swizzles[8] = {0, -1, 128, -1, 64, -1, 32, -1};
    unsigned long long bits = descriptor;
    int swizzle_bytes = swizzles[descriptor >> 61];
    if ((descriptor >> 46 & 7) != 1)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: bits 46-48 of %s's descriptor %#llx are not the constant 1", name, bits);
    if (descriptor & (uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{0xff} << 53))
        fail(EMU_BAD_OPERAND, "tcgen05.mma: %s's descriptor %#llx has bits set that must be 0", name, bits);
    if (descriptor >> 52 & 1)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: %s's descriptor %#llx gives the leading dimension as an address", name,
             bits);
    if (descriptor >> 49 & 7)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: %s's descriptor %#llx has a base offset, which is not modelled", name,
             bits);
    if (swizzle_bytes < 0)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: %s's descriptor %#llx has swizzle %u, which is none or not modelled", name,
             bits, static_cast<unsigned>(descriptor >> 61));
    auto field = [&](int at) { return static_cast<uint32_t>(descriptor >> at & 0x3fff) << 4; };
    return operand{field(0), field(16), field(32), static_cast<uint32_t>(swizzle_bytes), !transposed};
}

struct instruction {
    uint32_t m, n;
    bool a_is_bf16, b_is_bf16, negate_a, negate_b, transpose_a, transpose_b;
};

instruction decode_instruction(uint32_t bits, uint32_t group) {
    auto field = [&](int at, int width) { return bits >> at & ((1u << width) - 1); };
    instruction i;
    i.n = field(17, 6) * 8;
    i.m = field(24, 5) * 16;
    uint32_t a = field(7, 3), b = field(10, 3), step = group == 2 ? 32 : i.m == 64 ? 8 : 16;
    if (field(0, 4) || field(6, 1) || field(23, 1) || field(29, 3))
        fail(EMU_BAD_OPERAND, "tcgen05.mma: instruction descriptor %#x: sparse, saturating, or reserved bits", bits);
    if (field(4, 2) != 1)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: instruction descriptor %#x: a result of type %u; FP32 is 1", bits,
             field(4, 2));
    if (a > 1 || b > 1)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: instruction descriptor %#x: operands of types %u and %u; F16 is 0, BF16 1",
             bits, a, b);
    if (group == 1 ? i.m != 64 && i.m != 128 : i.m != 256)
        fail(EMU_BAD_OPERAND, "tcgen05.mma: instruction descriptor %#x: m of %u with cta_group::%u%s", bits, i.m, group,
             group == 2 && i.m == 128 ? " is not modelled" : "");
    if (i.n < step || i.n > max_columns || i.n % step)
        fail(EMU_BAD_OPERAND,
             "tcgen05.mma: instruction descriptor %#x: n of %u; allowed with m %u: multiples of %u up to %u", bits, i.n,
             i.m, step, max_columns);
    i.a_is_bf16 = a == 1;
    i.b_is_bf16 = b == 1;
    i.negate_a = field(13, 1);
    i.negate_b = field(14, 1);
    i.transpose_a = field(15, 1);
    i.transpose_b = field(16, 1);
    return i;
}

// ---------------------------------------------------------------- numbers

float from_f16(uint16_t word) {
    int exponent = word >> 10 & 31, fraction = word & 1023;
    float value = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexpf(static_cast<float>(fraction), -24)
                                  : ldexpf(static_cast<float>(fraction + 1024), exponent - 25);
    return word >> 15 ? -value : value;
}

// rows x 16 values from one CTA's shared memory into out[row * row_step + k * k_step].
void fetch(const cta &c, const operand &o, uint32_t rows, bool is_bf16, bool negate, float *out, uint32_t row_step,
           uint32_t k_step) {
    for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t k = 0; k < depth; ++k) {
            uint16_t word;
            memcpy(&word, c.shared + (o.element(row, k) - window_base), sizeof(word));
            float value = is_bf16 ? from_bf16(word) : from_f16(word);
            out[row * row_step + k * k_step] = negate ? -value : value;
        }
}

// The lane of row r of a CTA's part: 64 rows take the first half of each quadrant.
uint32_t lane_of_row(uint32_t row, uint32_t rows) {
    return rows == 64 ? row / 16 * warp_lanes + row % 16 : row;
}

// ---------------------------------------------------------------- execution

void execute_one(cta &c, const tensor_product &p) {
    static float a[max_rows * depth], b[depth * max_columns], sum[max_rows * max_columns];
    instruction i = decode_instruction(p.instruction, p.group);
    operand of_a = decode_operand(p.a, i.transpose_a, "A"), of_b = decode_operand(p.b, i.transpose_b, "B");
    cta_group g = group_of(c, p.group, "tcgen05.mma");
    uint32_t rows = i.m / p.group, columns = i.n / p.group, first = p.accumulator & 0xffff;
    for (uint32_t part = 0; part < p.group; ++part)
        fetch(*g.of[part], of_b, columns, i.b_is_bf16, i.negate_b, b + part * columns, 1, i.n);
    for (uint32_t part = 0; part < p.group; ++part) {
        tensor_memory &m = *g.of[part]->sm;
        fetch(*g.of[part], of_a, rows, i.a_is_bf16, i.negate_a, a, depth, 1);
        for (uint32_t r = 0; r < rows; ++r)
            memcpy(sum + r * i.n, m.at(lane_of_row(r, rows), first), i.n * sizeof(float));
        if (!p.accumulate)
            std::fill_n(sum, rows * i.n, 0.0f);
        multiply_add(a, b, rows, i.n, sum);
        for (uint32_t r = 0; r < rows; ++r)
            memcpy(m.at(lane_of_row(r, rows), first), sum + r * i.n, i.n * sizeof(float));
    }
}

void execute(cta &c, uint64_t until) {
    tensor_unit &u = *c.tensor;
    for (; u.first < until; ++u.first) {
        execute_one(c, u.queue.front());
        u.queue.pop_front();
    }
}

// ---------------------------------------------------------------- checks at issue

void check_operand(cta &c, const operand &o, uint32_t rows, const char *name, const epoch &e) {
    const thread &t = current();
    for (uint32_t row = 0; row < rows; row += o.by_row ? 1 : 8)
        for (uint32_t k = 0; k < depth; k += o.by_row ? 8 : 1) {
            uint32_t offset = o.unit(row, k) - window_base;
            if (offset > c.shared_bytes - 16)
                fail(EMU_OUT_OF_BOUNDS, "tcgen05.mma: %s's row %u lies at shared address %#x, outside the CTA's memory",
                     name, row, offset + window_base);
            granule *g = c.marks.at(offset);
            access a{&t, true, false};
            conflict found = check_read(a, g, 1);
            if (found.what != finding::fine)
                fail_conflict(found, "tcgen05.mma", (std::string(name) + " in " + name_shared(c, offset)).c_str(),
                              offset + window_base, false);
            record_read(a, g, 1, e);
        }
}

// The accumulator's columns in one CTA: readers must be done, and earlier products in order, which those of the same
// accumulator and shape by the same thread are.
void check_accumulator(cta &c, const tensor_product &p, uint32_t n, const epoch &e) {
    const char *const instruction = "tcgen05.mma";
    const thread &t = current();
    check_tensor_place(c, p.accumulator, n, instruction);
    uint32_t column = p.accumulator & 0xffff;
    for (uint32_t i = column / mark_columns; i * mark_columns < column + n; ++i) {
        tensor_memory::product_kind &kind = c.sm->kind[i];
        bool in_line = kind.accumulator == p.accumulator && kind.instruction == p.instruction;
        for (uint32_t q = 0; q < quadrants; ++q) {
            granule &g = c.sm->marks[q][i];
            if (p.accumulate && g.write.count == 0)
                fail(EMU_TOO_EARLY, "%s adds to %s, which nobody has written", instruction,
                     name_column(q, i * mark_columns).c_str());
            bool own = g.write.cta == t.in->slot && g.write.agent == the->tensor_agent();
            if (g.write.count && !(own && in_line) && !knows_tensor(t, g.write))
                fail_tensor(instruction, q, i * mark_columns, g.write, false, true);
            for (const epoch &r : g.read)
                if (r.count && !knows_tensor(t, r))
                    fail_tensor(instruction, q, i * mark_columns, r, true, true);
            record_write(&g, 1, e);
        }
        kind = tensor_memory::product_kind{p.accumulator, p.instruction};
    }
}

} // namespace

bool device_elect() {
    const char *const name = "elect.sync";
    whole_warp(name);
    thread &t = current();
    warp &w = t.in->warps[t.index / warp_lanes];
    if (w.elected < 0) // any lane, but always the same
        w.elected = static_cast<int>(the->chance.below(warp_lanes));
    if (join_warp(name, 0))
        part_warp();
    return static_cast<uint32_t>(w.elected) == t.index % warp_lanes;
}

void device_tcgen05_multiply(uint32_t group, uint32_t accumulator, uint64_t a, uint64_t b, uint32_t bits,
                             bool accumulate) {
    const char *const name = "tcgen05.mma";
    the->maybe_yield();
    thread &t = current();
    cta &c = *t.in;
    tensor_unit &u = *c.tensor;
    check_group(c, group, name);
    if (u.issuer && u.issuer != &t)
        fail(EMU_BAD_OPERAND, "%s by a second thread of the CTA: the order between the two is not modelled", name);
    u.issuer = &t;
    instruction i = decode_instruction(bits, group);
    operand of_a = decode_operand(a, i.transpose_a, "A"), of_b = decode_operand(b, i.transpose_b, "B");
    if (accumulator >> 16)
        fail(EMU_BAD_OPERAND, "%s: an accumulator of %u rows a CTA at lane %u", name, i.m / group, accumulator >> 16);
    tensor_product p{group, accumulator, bits, a, b, accumulate};
    epoch e(c.slot, the->tensor_agent(), ++c.counts[the->tensor_agent()], true);
    for (cta *member : group_of(c, group, name).of) {
        if (!member)
            continue;
        check_operand(*member, of_a, i.m / group, "A", e);
        check_operand(*member, of_b, i.n / group, "B", e);
        check_accumulator(*member, p, i.n, e);
    }
    u.queue.push_back(p);
    the->changed();
    if (the->eager_read())
        execute(c, u.first + u.queue.size());
}

void device_tcgen05_commit(uint32_t group, void *barrier, uint32_t ctas) {
    const char *const name = "tcgen05.commit";
    the->maybe_yield();
    thread &t = current();
    cta &c = *t.in;
    check_group(c, group, name);
    if (!c.holds(barrier, 8))
        fail(EMU_OUT_OF_BOUNDS, "%s: the barrier at %p is not in this CTA's shared memory", name, barrier);
    std::unique_ptr<tensor_commit> commit(new tensor_commit());
    commit->in = &c;
    commit->until = c.tensor->first + c.tensor->queue.size();
    commit->offset = c.offset(barrier);
    commit->ctas = ctas ? ctas : 1u << c.block % c.running->cluster;
    for (uint32_t i = 0; i < 16; ++i)
        if (commit->ctas >> i & 1) {
            cta &peer = cluster_peer(c, i, name);
            mbarrier &b = mbarrier_at(peer, peer.shared + commit->offset, name);
            if (!b.fenced)
                fail(EMU_UNFENCED, "%s on %s: no fence lies between its initialisation and its use by the tensor cores",
                     name, name_barrier(b).c_str());
        }
    release(t, commit->what);
    uint32_t agent = the->tensor_agent();
    for (vector_clock *clock : {&commit->what.seen, &commit->what.shared, &commit->what.global})
        clock->raise(c.slot, agent, c.counts[agent]);
    c.tensor->committed = commit->until;
    ++c.tensor->commits;
    event e{event_kind::tensor_commit, nullptr, &c};
    e.commit = commit.release();
    the->post(e);
}

void tensor_commit_step(tensor_commit *commit) {
    std::unique_ptr<tensor_commit> owned(commit);
    cta &c = *commit->in;
    execute(c, commit->until);
    --c.tensor->commits;
    for (uint32_t i = 0; i < 16; ++i)
        if (commit->ctas >> i & 1) {
            cta &peer = cluster_peer(c, i, "tcgen05.commit");
            arrive_from_products(mbarrier_at(peer, peer.shared + commit->offset, "tcgen05.commit"), commit->what);
        }
}

void drop_commit(tensor_commit *commit) {
    delete commit;
}

// ---------------------------------------------------------------- launches

void set_up_tensor(cta &c) {
    c.tensor = std::shared_ptr<tensor_unit>(new tensor_unit());
    c.tensor->reads.resize(c.warps.size());
    if (c.sm)
        return;
    uint32_t size = c.running->cluster, sharing = std::max(1u, c.running->ctas_per_sm);
    uint32_t index = c.block / size / sharing * size + c.block % size; // clusters in turn share the SMs of the first
    for (cta *other : c.of->ctas)
        if (other->sm && other->sm_index == index)
            c.sm = other->sm;
    if (!c.sm) {
        c.sm = std::shared_ptr<tensor_memory>(new tensor_memory());
        c.sm->value.assign(tensor_lanes * tensor_columns, 0xffffffff);
    }
    c.sm_index = index;
}

void check_tensor_over(cta &c) {
    const tensor_unit &u = *c.tensor;
    if (u.commits)
        fail(EMU_GROUP_MISUSE, "the CTA ends while %u commits of tensor-core products have yet to arrive", u.commits);
    if (u.first + u.queue.size() != u.committed)
        fail(EMU_GROUP_MISUSE, "the CTA ends with tensor-core products that were never committed");
    for (const std::vector<tensor_read> &reads : u.reads)
        if (!reads.empty())
            fail(EMU_GROUP_MISUSE, "the CTA ends without having waited for a tcgen05.ld");
    if (!u.allocations.empty())
        fail(EMU_TENSOR_MEMORY, "the CTA ends without having freed %u columns of tensor memory",
             u.allocations[0].columns);
    if (c.sm->permit == &c)
        c.sm->permit = nullptr;
}

} // namespace emu
