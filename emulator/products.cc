// wgmma: products of a warpgroup, from shared-memory descriptors that are decoded in full.
//
// The instructions of a warpgroup form one queue; each thread has its own place in it, and an instruction is issued when all
// 128 threads have come to it. The operands in shared memory are read at some moment between issue and the end of the wait;
// until then the accumulator's registers hold poison.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "emulator/machine.h"
#include "emulator/tensor_map.h"
#include "emulator/wide.h"

namespace emu {

float from_bf16(uint16_t word) {
    uint32_t bits = static_cast<uint32_t>(word) << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

namespace {

constexpr uint32_t tile_rows = 64, depth = 16, max_columns = 256;

} // namespace

// Eight columns at a time, k in order: the sum is the same on every machine, since products of two BF16 are exact in FP32.
typedef float eight __attribute__((vector_size(32)));

GRS_EMU_WIDE void multiply_add(const float *a, const float *b, uint32_t rows, uint32_t n, float *sum) {
    for (uint32_t i = 0; i < rows; ++i) {
        for (uint32_t j = 0; j < n; j += 8) {
            eight total, column;
            memcpy(&total, sum + i * n + j, sizeof(total));
            for (uint32_t k = 0; k < depth; ++k) {
                memcpy(&column, b + k * n + j, sizeof(column));
                total += a[i * depth + k] * column;
            }
            memcpy(sum + i * n + j, &total, sizeof(total));
        }
    }
}

namespace {

// The accumulator of a warpgroup while products on it are in flight: [64][n].
struct accumulator {
    float *registers[warpgroup_threads];
    uint32_t n;
    uint32_t pending;                     // products in flight
    bool was_written;                     // `value` is the outcome of products
    bool is_delivered[warpgroup_threads]; // … and the thread's registers have received it
    std::vector<float> value;
};

struct instruction {
    bool is_commit;
    uint32_t arrived;
    uint32_t n;
    uint64_t a, b;
    bool accumulate, executed;
    float *registers[warpgroup_threads];
    accumulator *on;
    uint32_t count; // of the warpgroup's agent
};

// Where row `row`, columns 0-15 of a K-major operand lie: two units of 16 bytes.
struct operand {
    uint32_t start, group_stride, unit_stride, row_bytes, swizzle_bytes;

    uint32_t unit(uint32_t row, uint32_t half) const {
        return swizzle(start + row / 8 * group_stride + row % 8 * row_bytes + half * unit_stride, swizzle_bytes);
    }
};

operand decode(uint64_t descriptor, const char *name) {
    static const uint32_t swizzles[4] = {0, 128, 64, 32};
    operand o;
    o.start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
    o.swizzle_bytes = swizzles[descriptor >> 62];
    o.group_stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
    // Without a swizzle, units of eight rows lie together and the leading-dimension offset leads to the next unit along K.
    o.row_bytes = o.swizzle_bytes ? o.swizzle_bytes : 16;
    o.unit_stride = o.swizzle_bytes ? 16 : static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
    if (descriptor >> 49 & 7)
        fail(EMU_BAD_OPERAND, "wgmma: %s's descriptor %#llx has a base offset, which is not modelled", name,
             static_cast<unsigned long long>(descriptor));
    if (descriptor & (uint64_t{0x3} << 14 | uint64_t{0x3} << 30 | uint64_t{0x7} << 46 | uint64_t{0x3ff} << 52))
        fail(EMU_BAD_OPERAND, "wgmma: %s's descriptor %#llx has bits set that must be 0", name,
             static_cast<unsigned long long>(descriptor));
    return o;
}

// rows x 16 values, `by_column`: [16][rows].
void fetch(const cta &c, const operand &o, uint32_t rows, bool by_column, float *out) {
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t half = 0; half < 2; ++half) {
            uint16_t words[8];
            memcpy(words, c.shared + (o.unit(row, half) - window_base), sizeof(words));
            for (uint32_t i = 0; i < 8; ++i)
                out[by_column ? (half * 8 + i) * rows + row : row * depth + half * 8 + i] = from_bf16(words[i]);
        }
    }
}

// Register r of a thread: column block r/4 of eight.
uint32_t place_of(uint32_t thread_index, uint32_t r, uint32_t n) {
    uint32_t lane = thread_index % warp_lanes, row = thread_index / warp_lanes * 16 + lane / 4 + 8 * (r % 4 / 2);
    return row * n + r / 4 * 8 + 2 * (lane % 4) + r % 2;
}

} // namespace

struct products {
    std::deque<instruction> queue;
    uint64_t first = 0;                  // sequence number of queue[0]
    uint64_t issued = 0, executed = 0;   // sequence numbers: everything below
    uint64_t commits = 0, completed = 0; // groups committed by all threads; groups complete
    std::deque<uint64_t> group_ends;     // sequence numbers of the commits of groups not complete
    std::deque<uint32_t> group_counts;   // agent's count at the end of each group, from group `count_base`
    uint64_t count_base = 0;
    std::vector<std::unique_ptr<accumulator>> accumulators;
};

std::unique_ptr<products, void (*)(products *)> make_products() {
    return std::unique_ptr<products, void (*)(products *)>(new products(), [](products *p) { delete p; });
}

namespace {

thread *threads_of(cta &c, uint32_t warpgroup_index) {
    return &c.threads[warpgroup_index * warpgroup_threads];
}

uint32_t group_count(const products &p, uint64_t group) { // agent's count once `group` groups are complete
    return p.group_counts[group - 1 - p.count_base];
}

void execute(cta &c, products &p, uint64_t until) {
    static float a[tile_rows * depth], b[depth * max_columns];
    for (; p.executed < until; ++p.executed) {
        instruction &i = p.queue[p.executed - p.first];
        if (i.is_commit)
            continue;
        fetch(c, decode(i.a, "A"), tile_rows, false, a);
        fetch(c, decode(i.b, "B"), i.n, true, b);
        if (!i.accumulate)
            std::fill(i.on->value.begin(), i.on->value.end(), 0.0f);
        multiply_add(a, b, tile_rows, i.n, i.on->value.data());
    }
}

void check_operand(cta &c, thread *threads, uint64_t descriptor, uint32_t rows, const char *name, const epoch &e) {
    operand o = decode(descriptor, name);
    // Threads that know the same judge alike; one of each kind looks.
    std::vector<const thread *> judges;
    for (uint32_t i = 0; i < warpgroup_threads; ++i) {
        bool is_new = true;
        for (const thread *j : judges)
            is_new = is_new &&
                     !(j->know.seen.same_as(threads[i].know.seen) && j->know.shared.same_as(threads[i].know.shared));
        if (is_new)
            judges.push_back(&threads[i]);
    }
    epoch last;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t half = 0; half < 2; ++half) {
            uint32_t offset = o.unit(row, half) - window_base;
            if (offset > c.shared_bytes - 16)
                fail(EMU_OUT_OF_BOUNDS, "wgmma: %s's row %u lies at shared address %#x, outside the CTA's memory", name,
                     row, offset + window_base);
            granule *g = c.marks.at(offset);
            bool is_same = g->write == last;
            last = g->write;
            // A generic write is covered by the fence of its own thread, which others must know of: all of them look.
            bool all = !g->write.is_async;
            for (size_t j = 0; !is_same && j < (all ? warpgroup_threads : judges.size()); ++j) {
                access a{all ? &threads[j] : judges[j], true, false};
                conflict found = check_read(a, g, 1);
                if (found.what != finding::fine)
                    fail_conflict(found, "wgmma", (std::string(name) + " in " + name_shared(c, offset)).c_str(),
                                  offset + window_base, false);
            }
            record_read(access{&threads[0], true, false}, g, 1, e);
        }
    }
}

// The accumulator of this instruction: the one in flight on the same registers, else a new one that takes what they hold.
accumulator *begin(products &p, thread *threads, const instruction &i) {
    accumulator *found = nullptr;
    for (const std::unique_ptr<accumulator> &a : p.accumulators)
        if (a->registers[0] == i.registers[0] && a->n == i.n)
            found = a.get();
    if (!found) {
        p.accumulators.emplace_back(new accumulator());
        found = p.accumulators.back().get();
        found->n = i.n;
        found->pending = 0;
        found->was_written = false;
        std::fill(found->is_delivered, found->is_delivered + warpgroup_threads, true);
        found->value.resize(tile_rows * i.n);
        memcpy(found->registers, i.registers, sizeof(found->registers));
    }
    if (memcmp(found->registers, i.registers, sizeof(found->registers)) != 0)
        fail(EMU_DIVERGED, "wgmma: threads of the warpgroup name different accumulators");
    if (found->pending == 0) {
        bool touched = false;
        for (uint32_t t = 0; t < warpgroup_threads; ++t)
            for (uint32_t r = 0; found->is_delivered[t] && r < i.n / 2; ++r) {
                float &value = found->value[place_of(t, r, i.n)];
                touched |= found->was_written && memcmp(&value, &found->registers[t][r], sizeof(value)) != 0;
                value = found->registers[t][r];
            }
        for (uint32_t t = 0; t < warpgroup_threads; ++t) {
            if (!threads[t].product_fence && (touched || !found->was_written))
                fail(EMU_UNFENCED,
                     "wgmma: thread %u of the warpgroup has touched the accumulator and executed no wgmma.fence since",
                     t);
            for (uint32_t r = 0; r < i.n / 2; ++r)
                found->registers[t][r] = NAN;
        }
    }
    ++found->pending;
    return found;
}

void issue(cta &c, warpgroup &w, products &p, instruction &i) {
    thread *threads = threads_of(c, w.index);
    if (i.is_commit) {
        ++p.commits;
        p.group_ends.push_back(p.issued);
        p.group_counts.push_back(c.counts[the->warpgroup_agent(w.index)]);
        ++p.issued;
        if (p.group_ends.size() == 1)
            the->post(event{event_kind::products, nullptr, &c, w.index});
        return;
    }
    uint32_t agent = the->warpgroup_agent(w.index);
    i.count = ++c.counts[agent];
    epoch e(c.slot, agent, i.count, true);
    check_operand(c, threads, i.a, tile_rows, "A", e);
    check_operand(c, threads, i.b, i.n, "B", e);
    i.on = begin(p, threads, i);
    ++p.issued;
    if (the->eager_read())
        execute(c, p, p.issued);
}

instruction &arrive(products &p, thread &t, bool is_commit) {
    uint64_t sequence = t.product_sequence++;
    if (sequence == p.first + p.queue.size()) {
        p.queue.emplace_back();
        instruction &made = p.queue.back();
        memset(&made, 0, sizeof(made));
        made.is_commit = is_commit;
    }
    instruction &i = p.queue[sequence - p.first];
    if (i.is_commit != is_commit)
        fail(EMU_DIVERGED, "wgmma: threads of a warpgroup differ: one commits where another multiplies");
    ++i.arrived;
    return i;
}

warpgroup &warpgroup_of(thread &t) {
    warpgroup &w = t.in->warpgroups[t.index / warpgroup_threads];
    if ((w.index + 1) * warpgroup_threads > t.in->threads.size())
        fail(EMU_BAD_OPERAND, "wgmma in a warpgroup of fewer than %u threads", warpgroup_threads);
    return w;
}

} // namespace

// The oldest group of a warpgroup completes.
void products_event(cta &c, uint32_t warpgroup_index) {
    products &p = *c.warpgroups[warpgroup_index].matrix;
    thread *threads = threads_of(c, warpgroup_index);
    uint64_t end = p.group_ends.front();
    p.group_ends.pop_front();
    execute(c, p, end + 1); // the commit itself included
    for (uint64_t s = p.first; s < end; ++s) {
        instruction &i = p.queue[s - p.first];
        accumulator &a = *i.on;
        if (--a.pending)
            continue;
        a.was_written = true;
        std::fill(a.is_delivered, a.is_delivered + warpgroup_threads, false);
    }
    while (p.first <= end) {
        p.queue.pop_front();
        ++p.first;
    }
    ++p.completed;
    for (uint32_t t = 0; t < warpgroup_threads; ++t)
        if (threads[t].waits == blocked_on::products && p.completed >= threads[t].wait_commits)
            the->wake(&threads[t]);
    if (!p.group_ends.empty())
        the->post(event{event_kind::products, nullptr, &c, warpgroup_index});
}

void check_products_over(const warpgroup &w) {
    if (!w.matrix->queue.empty())
        fail(EMU_GROUP_MISUSE, "the CTA ends while products of warpgroup %u are in flight or not committed", w.index);
}

void device_products_fence() {
    current().product_fence = true;
}

void device_products_issue(float *registers, uint32_t n, uint64_t a, uint64_t b, bool accumulate) {
    thread &t = current();
    warpgroup &w = warpgroup_of(t);
    products &p = *w.matrix;
    if (n < 8 || n > max_columns || n % 8)
        fail(EMU_BAD_OPERAND, "wgmma: n of %u; allowed: multiples of 8 up to %u", n, max_columns);
    instruction &i = arrive(p, t, false);
    if (i.arrived == 1) {
        i.n = n;
        i.a = a;
        i.b = b;
        i.accumulate = accumulate;
    } else if (i.n != n || i.a != a || i.b != b || i.accumulate != accumulate) {
        fail(EMU_DIVERGED, "wgmma: descriptors %#llx, %#llx here, %#llx, %#llx in another thread of the warpgroup",
             static_cast<unsigned long long>(a), static_cast<unsigned long long>(b),
             static_cast<unsigned long long>(i.a), static_cast<unsigned long long>(i.b));
    }
    i.registers[t.index % warpgroup_threads] = registers;
    if (i.arrived == warpgroup_threads)
        issue(*t.in, w, p, i);
}

void device_products_commit() {
    thread &t = current();
    warpgroup &w = warpgroup_of(t);
    instruction &i = arrive(*w.matrix, t, true);
    ++t.product_commits;
    if (i.arrived == warpgroup_threads)
        issue(*t.in, w, *w.matrix, i);
}

// Registers receive their sums in the thread's own wait: at any other moment they might be gone.
static void deliver(products &p, thread &t) {
    uint32_t i = t.index % warpgroup_threads;
    for (const std::unique_ptr<accumulator> &a : p.accumulators) {
        if (a->pending || a->is_delivered[i])
            continue;
        for (uint32_t r = 0; r < a->n / 2; ++r)
            a->registers[i][r] = a->value[place_of(i, r, a->n)];
        a->is_delivered[i] = true;
        t.product_fence = false;
    }
}

void device_products_wait(uint32_t pending) {
    the->maybe_yield();
    thread &t = current();
    products &p = *warpgroup_of(t).matrix;
    uint64_t target = t.product_commits > pending ? t.product_commits - pending : 0;
    t.wait_commits = target;
    if (p.completed < target)
        the->block(blocked_on::products, "wgmma.wait_group", pending);
    deliver(p, t);
    if (target)
        t.own.products = std::max(t.own.products, group_count(p, target));
}

} // namespace emu
