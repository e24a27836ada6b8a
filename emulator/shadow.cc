#include "emulator/shadow.h"

#include "emulator/machine.h"

namespace emu {

namespace {

level fence_level(const access &a) {
    return a.is_global ? level::global : level::shared;
}

// Is a fence needed between this earlier access and a copy (or product) of `a`?
bool needs_fence(const access &a, const epoch &earlier, bool earlier_is_read) {
    if (!a.is_async)
        return false;
    if (!earlier.is_async)
        return !earlier_is_read; // generic writes; a generic read needs only to be over
    if (!a.is_global)
        return false; // the mbarrier that tells of a copy's end covers the async proxy
    // Copies through global memory. Reads by copies of the same CTA are ordered by barriers alone.
    if (earlier_is_read)
        return earlier.cta != a.by->in->slot;
    bool own = earlier.cta == a.by->in->slot && a.by->copier >= 0 &&
               earlier.agent == the->copier_agent(static_cast<uint32_t>(a.by->copier), true);
    return !own;
}

finding judge(const access &a, const epoch &earlier, bool earlier_is_read) {
    if (!knows(*a.by, earlier, level::seen))
        return finding::unordered;
    if (needs_fence(a, earlier, earlier_is_read) && !knows(*a.by, earlier, fence_level(a)))
        return finding::unfenced;
    return finding::fine;
}

} // namespace

conflict check_read(const access &a, const granule *first, size_t count) {
    epoch last;
    for (size_t i = 0; i < count; ++i) {
        const epoch &w = first[i].write;
        if (w.count == 0)
            return conflict{finding::unwritten, false, w, i};
        if (w == last)
            continue;
        finding f = judge(a, w, false);
        if (f != finding::fine)
            return conflict{f, false, w, i};
        last = w;
    }
    return conflict{};
}

void record_read(const access &a, granule *first, size_t count, const epoch &e) {
    for (size_t i = 0; i < count; ++i) {
        epoch *slot = nullptr;
        for (epoch &r : first[i].read) {
            if (r.count == 0 || r.same_agent(e)) {
                slot = &r;
                break;
            }
        }
        for (size_t j = 0; !slot && j < 3; ++j)
            if (knows(*a.by, first[i].read[j], level::seen))
                slot = &first[i].read[j];
        *(slot ? slot : &first[i].read[2]) = e;
    }
}

conflict check_write(const access &a, const granule *first, size_t count) {
    epoch last_write, last_read;
    for (size_t i = 0; i < count; ++i) {
        const granule &g = first[i];
        if (g.write.count && !(g.write == last_write)) {
            finding f = judge(a, g.write, false);
            if (f != finding::fine)
                return conflict{f, false, g.write, i};
            last_write = g.write;
        }
        for (const epoch &r : g.read) {
            if (r.count == 0)
                break;
            if (r == last_read)
                continue;
            finding f = judge(a, r, true);
            if (f != finding::fine)
                return conflict{f, true, r, i};
            last_read = r;
        }
    }
    return conflict{};
}

void record_write(granule *first, size_t count, const epoch &e) {
    for (size_t i = 0; i < count; ++i) {
        first[i].write = e;
        for (epoch &r : first[i].read)
            r = epoch();
    }
}

} // namespace emu
