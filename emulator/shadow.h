// What is remembered of every 16 bytes of memory: who wrote it last, and who has read it since.
#ifndef GRS_EMULATOR_SHADOW_H
#define GRS_EMULATOR_SHADOW_H

#include <stddef.h>

#include <vector>

#include "emulator/clock.h"

namespace emu {

constexpr size_t granule_bytes = 16;

struct granule {
    epoch write;
    epoch read[3]; // since that write; a fourth reader replaces one whose read is known to the fourth
};

class shadow {
  public:
    void resize(size_t bytes) { granules_.assign((bytes + granule_bytes - 1) / granule_bytes, granule()); }
    void clear() { granules_.assign(granules_.size(), granule()); }
    bool empty() const { return granules_.empty(); }
    granule *at(size_t offset) { return &granules_[offset / granule_bytes]; }

  private:
    std::vector<granule> granules_;
};

struct thread;

// What an access may find. The epoch is that of the earlier access in the way.
enum class finding { fine, unwritten, unordered, unfenced };
struct conflict {
    finding what = finding::fine;
    bool with_read = false;
    epoch other;
    size_t index = 0; // of the granule, from the first
};

// An access on behalf of `by`, through the generic proxy or (copies, products) the async one.
struct access {
    const thread *by;
    bool is_async, is_global;
};

// Reads must follow the write that they see; where the proxies differ, or a copy reads global memory that another agent's
// copy wrote, a proxy fence must lie between. Finds the first granule of `count` that breaks this.
conflict check_read(const access &a, const granule *first, size_t count);
void record_read(const access &a, granule *first, size_t count, const epoch &e);

// Writes must follow every earlier access. A fence must lie between a generic write and a copy's write, and between copies of
// different CTAs.
conflict check_write(const access &a, const granule *first, size_t count);
void record_write(granule *first, size_t count, const epoch &e);

} // namespace emu

#endif
