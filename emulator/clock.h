// What a thread knows to have happened: vector clocks over agents.
//
// An agent is whoever can touch memory on its own: a thread; the lanes of a warp together (ldmatrix); a warpgroup's products;
// the copies that complete on one mbarrier; the reads, and apart from them the writes, of the bulk stores that one thread
// issued. Each agent counts its accesses; an epoch (agent, count) names one. A clock holds the last count known of every
// agent: an access happened before a point in a program exactly when the clock at that point covers its epoch.
//
// Hundreds of threads that wait at one barrier come to know the same. So clocks share their storage: a clock is a reference
// to an immutable node of one chunk a CTA, and joins are remembered.
#ifndef GRS_EMULATOR_CLOCK_H
#define GRS_EMULATOR_CLOCK_H

#include <stdint.h>

namespace emu {

// Eight bytes, since shadow memory holds several for every 16 bytes of memory.
struct epoch {
    uint32_t count = 0; // 0: never
    uint32_t cta : 12, agent : 12, is_async : 1, by_host : 1, unused : 6;
    epoch() : cta(0), agent(0), is_async(0), by_host(0), unused(0) {}
    epoch(uint32_t cta_slot, uint32_t agent_index, uint32_t nth, bool by_async_proxy)
        : count(nth), cta(cta_slot), agent(agent_index), is_async(by_async_proxy), by_host(0), unused(0) {}
    // Written by the host before any launch: known to everybody.
    static epoch host() {
        epoch e(0, 0, 1, true);
        e.by_host = 1;
        return e;
    }
    bool same_agent(const epoch &other) const {
        return cta == other.cta && agent == other.agent && by_host == other.by_host;
    }
    bool operator==(const epoch &other) const { return count == other.count && same_agent(other); }
};
constexpr uint32_t max_ctas = 1u << 12, max_agents = 1u << 12;

struct clock_node;

// Sizes of every clock that is made from here on. Only while no clock exists.
void clock_space(uint32_t ctas, uint32_t agents_a_cta);

class vector_clock {
  public:
    vector_clock() = default;
    vector_clock(const vector_clock &other);
    vector_clock(vector_clock &&other) noexcept : node_(other.node_) { other.node_ = nullptr; }
    vector_clock &operator=(vector_clock other) noexcept {
        clock_node *mine = node_;
        node_ = other.node_;
        other.node_ = mine;
        return *this;
    }
    ~vector_clock();

    uint32_t get(uint32_t cta, uint32_t agent) const;
    bool covers(const epoch &e) const { return get(e.cta, e.agent) >= e.count; }
    void join(const vector_clock &other);   // for many clocks that are alike: remembers the result
    void gather(const vector_clock &other); // for one clock that is joined with many: changes it in place
    void raise(uint32_t cta, uint32_t agent, uint32_t count); // to at least `count`
    bool same_as(const vector_clock &other) const { return node_ == other.node_; }
    void clear() { *this = vector_clock(); }

  private:
    void own_node();             // makes it one that may be changed
    clock_node *node_ = nullptr; // nothing is known
};

// Drops the remembered joins (they hold references).
void clock_forget();

} // namespace emu

#endif
