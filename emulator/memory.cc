#include "emulator/memory.h"

#include <string.h>

#include <algorithm>
#include <new>

namespace emu {

namespace {
constexpr size_t guard_bytes = 256, alignment = 256;
constexpr char guard_value = '\xa5';
} // namespace

region *global_memory::add(int rank, purpose use, const char *name, size_t bytes) {
    std::unique_ptr<region> r(new region());
    size_t total = bytes + 2 * guard_bytes + alignment;
    r->storage.reset(new (std::nothrow) char[total]);
    if (!r->storage)
        return nullptr;
    uintptr_t start = reinterpret_cast<uintptr_t>(r->storage.get()) + guard_bytes;
    r->base = reinterpret_cast<char *>((start + alignment - 1) / alignment * alignment);
    r->rank = rank;
    r->use = use;
    r->name = name;
    r->bytes = bytes;
    memset(r->storage.get(), guard_value, total);
    memset(r->base, 0, bytes);
    if (use == purpose::output || use == purpose::slots || use == purpose::outbox)
        r->marks.resize(bytes);
    auto after = std::upper_bound(regions_.begin(), regions_.end(), r->base,
                                  [](const char *p, const std::unique_ptr<region> &q) { return p < q->base; });
    return regions_.insert(after, std::move(r))->get();
}

region *global_memory::find(const void *p) const {
    const char *c = static_cast<const char *>(p);
    auto after = std::upper_bound(regions_.begin(), regions_.end(), c,
                                  [](const char *q, const std::unique_ptr<region> &r) { return q < r->base; });
    if (after == regions_.begin())
        return nullptr;
    region *r = (after - 1)->get();
    return r->contains(p, 1) ? r : nullptr;
}

const region *global_memory::damaged() const {
    for (const std::unique_ptr<region> &r : regions_)
        for (size_t i = 1; i <= guard_bytes; ++i)
            if (r->base[-static_cast<ptrdiff_t>(i)] != guard_value || r->base[r->bytes + i - 1] != guard_value)
                return r.get();
    return nullptr;
}

} // namespace emu
