// Global memory of all ranks: pieces with a purpose, so that an access outside all of them, or of the wrong kind, is noticed.
#ifndef GRS_EMULATOR_MEMORY_H
#define GRS_EMULATOR_MEMORY_H

#include <memory>
#include <string>
#include <vector>

#include "emulator/shadow.h"

namespace emu {

enum class purpose { operand, output, slots, mask, outbox, groups, control, scratch };

struct region {
    int rank;
    purpose use;
    const char *name; // "slots"
    char *base;
    size_t bytes;
    emu::shadow marks; // of regions that copies write
    std::unique_ptr<char[]> storage;

    bool contains(const void *p, size_t size) const {
        const char *c = static_cast<const char *>(p);
        return c >= base && size <= bytes && c - base <= static_cast<ptrdiff_t>(bytes - size);
    }
};

class global_memory {
  public:
    // Zeroed, 256-byte aligned, with guard words on both sides. nullptr without memory.
    region *add(int rank, purpose use, const char *name, size_t bytes);
    // The region that holds the first byte; nullptr: none.
    region *find(const void *p) const;
    // The first region whose guard words changed; nullptr: none.
    const region *damaged() const;

  private:
    std::vector<std::unique_ptr<region>> regions_; // by address
};

} // namespace emu

#endif
